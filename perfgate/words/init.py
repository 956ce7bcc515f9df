"""What `perfgate init` says."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_FIRST_GATE: Final = (
    '(perfgate doctor checks it):\n  pytest --perfgate\n  perfgate bless --reason "first baseline"'
)

TEXT: Final[Rows] = {
    # What a repository says of itself
    "nothing-for-github-yet": (
        "This is no git repository, so there is nothing for GitHub yet",
        "",
        "For that: git init && perfgate init",
    ),
    "branch-not-known": "No branch is known here: the workflows name {branch}, correct that",
    "torch-not-here": (
        "There is no torch here, which the example needs: install the CUDA build for your driver"
    ),
    "table-not-appended": (
        "[tool.perfgate] cannot be appended to pyproject.toml",
        "Settings of tools are tables of their own: [tool.NAME]",
        "Write [tool.perfgate] by hand, with workloads and baselines.",
    ),
    # What comes next
    "next-steps": f"Next, in {{root:raw}}, on a machine with a GPU {_FIRST_GATE}",
    "next-once-committed": (
        f"Next, in {{root:raw}}, all this committed, on a machine with a GPU {_FIRST_GATE}"
    ),
    "next-on-github": (
        "On GitHub, once all this is committed:\n"
        "  see that the steps called Install in perfgate-gate.yml install what workloads need;\n"
        "  a runner with the labels self-hosted and {label}, with nsys and the GPU's driver;\n"
        "  for more GPUs or shards of the workloads, the matrix in perfgate-gate.yml;\n"
        "  the check perfgate / Verdict as a required one;\n"
        "  the label perfgate-approved, by which maintainers let one commit of a fork run;\n"
        '  "Allow GitHub Actions to create and approve pull requests" in the settings'
    ),
    # Where runners get perfgate from
    "origin-unknown": (
        "This perfgate was installed from an index or this machine, which does not say where a "
        "runner gets it from. Name it: {command:raw}"
    ),
    "install-from-odd": (
        "--install-from: that names no perfgate that a runner reaches and that stays what it is",
        "A git URL ends with @ and a whole commit, an archive's address with #sha256=HASH",
        "Name it as {example:raw}",
    ),
    # The files
    "place-not-written-to": (
        "{path:quote}: not what it should be, a file or a folder of its own below {top:quote}",
        "Nothing is written through links, nor elsewhere",
        "Nothing was written. Move it away, then run again.",
    ),
    "scaffold-left": (
        "Left as they are: {files:list}",
        "",
        "perfgate init --force overwrites them.",
    ),
    "scaffold-lacks": (
        "{lacking} of {files} are missing or of another perfgate",
        "",
        "perfgate init writes what is missing and shows what differs; --force overwrites that.",
    ),
    "scaffold-complete": "Nothing is lacking",
}
