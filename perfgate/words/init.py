"""What `perfgate init` says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perfgate.words.text import Text

_NOTHING: Final = "Nothing was written."
_GIVEN: Final = "A git URL ends with @ and a whole commit, an archive's address with #sha256=HASH"

TEXT: Final[Mapping[str, Text]] = {
    # What a repository says of itself
    "nothing-for-github-yet": Text(
        "This is no git repository, so there is nothing for GitHub yet",
        "",
        "For that: git init && perfgate init",
    ),
    "branch-not-known": Text("No branch is known here: the workflows name {branch}, correct that"),
    "files-not-installed": Text(
        "The workflows install by pip, and do not read {files:list}: add what the workloads need"
    ),
    "egg-info-not-ignored": Text(
        "Ignore *.egg-info/ in .gitignore: what an installation leaves makes a measured commit dirty"
    ),
    "installation-unknown": Text(
        "No file says how the project is installed: add that to the install step of "
        "perfgate-gate.yml"
    ),
    "torch-not-named": Text(
        "The project does not name torch: the workflows install the newest. "
        "See that it fits your driver"
    ),
    "torch-not-here": Text(
        "There is no torch here, which the example needs: install the CUDA build for your driver"
    ),
    "python-too-old": Text(
        "The project asks for Python {asked}, but perfgate needs {oldest} or newer"
    ),
    "further-project": Text(
        "Another project of this repository has comments, blessing by comment and occasions: "
        "bless this one at a desk. It is gated where its folder is changed; what it shares with "
        "others belongs into `measured` of the gate's file"
    ),
    "pyproject-no-toml": Text(
        "pyproject.toml cannot be read as TOML ({reason})", "", "Correct the file."
    ),
    "project-file-unreadable": Text(
        "{file} cannot be read ({reason})", "", "Make it a readable UTF-8 file."
    ),
    "table-not-appended": Text(
        "[tool.perfgate] cannot be appended to pyproject.toml",
        "Settings of tools are tables of their own: [tool.NAME]",
        "Write [tool.perfgate] by hand, with workloads and baselines.",
    ),
    # Where runners get perfgate from
    "origin-unknown": Text(
        "perfgate init does not know where a runner gets perfgate from ({why}). "
        "Name it: {command:raw}",
    ),
    "origin-by-name": Text("this perfgate was installed by its name, which says not from where"),
    "origin-of-this-machine": Text("that is on this machine, which a runner does not reach"),
    "origin-no-address": Text("no address of a git repository or an archive is known"),
    "origin-with-query": Text("the address holds a query, which may be a secret"),
    "origin-without-commit": Text("the git URL does not end with a whole commit"),
    "origin-without-hash": Text("the archive's hash is not known"),
    "origin-held-password": Text("perfgate's URL held a password here, which was left out"),
    "origin-by-ssh": Text(
        "perfgate is installed from {host} by ssh: the runners need a key for it"
    ),
    "origin-not-pushed": Text(
        "It was installed from {folder:quote}, of which {what:quote}: "
        "push what is installed, then name that"
    ),
    "origin-suggested": Text(
        "It was installed from {folder:quote}. If that is still this commit", "", "{command:raw}"
    ),
    "install-from-odd": Text(
        "--install-from: {why}", _GIVEN, "Name the address of a perfgate that a runner reaches."
    ),
    # How workflows install it
    "workflow-no-yaml": Text("it is no YAML that GitHub could read"),
    "install-step-fails": Text(
        "job {job}: it fails, since nobody knows where a runner gets perfgate from"
    ),
    "install-by-name": Text(
        "job {job}: it asks an index for perfgate, a name that anybody may take: "
        "say where it comes from (perfgate init --install-from)"
    ),
    "install-unlocked": Text("job {job}: it installs what no hash locks, and its token may write"),
    "lock-not-current": Text(
        "it does not lock what this perfgate needs, each by its hash",
        "",
        "Resolve it anew: perfgate init --renew-lock",
    ),
    "lock-not-resolved": Text(
        "the lock file was not resolved: {reason:quote}",
        "Jobs that hold a token which may write install only what is locked by its hash, "
        "and the hashes come from an index, by pip 22.2 or newer",
        f"{_NOTHING} Run it where pip reaches an index, or without workflows: "
        "perfgate init --no-github",
    ),
    "lock-without-repository": Text(
        "this is no git repository, and the lock file is for its workflows",
        "",
        f"{_NOTHING} Run it in the repository.",
    ),
    # The files
    "place-not-written-to": Text(
        "{path:quote}: not what it should be, a file or a folder of its own below {top:quote}",
        "Nothing is written through links, nor elsewhere",
        f"{_NOTHING} Move it away, then run again.",
    ),
    "place-not-read": Text(
        "{path:quote}: it cannot be read ({reason})",
        "What is there is compared before anything is written",
        f"{_NOTHING} Make it readable for this user, or move it away.",
    ),
    "scaffold-not-written": Text(
        "{path:quote}: it could not be written ({reason})",
        "Written before it: {written:list}",
        "See to it that this user may write there and the disk has room, then run again.",
    ),
    "scaffold-changed-meanwhile": Text(
        "{path:quote}: it was changed while perfgate init ran", "", "Run again."
    ),
    "scaffold-left": Text(
        "Left as they are: {files:list}", "", "perfgate init --force overwrites them."
    ),
    "scaffold-lacks": Text(
        "{lacking} of {files} are missing, of another perfgate, or install it wrongly",
        "",
        "perfgate init writes what is missing and shows what differs; --force overwrites that.",
    ),
    "scaffold-complete": Text("Nothing is lacking"),
}
