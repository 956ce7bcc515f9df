"""What `perfgate init` says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perfgate.words.text import Text

TEXT: Final[Mapping[str, Text]] = {
    # What a repository says of itself
    "nothing-for-github-yet": Text(
        "This is no git repository, so there is nothing for GitHub yet",
        "",
        "For that: git init && perfgate init",
    ),
    "branch-not-known": Text("No branch is known here: the workflows name {branch}, correct that"),
    "torch-not-here": Text(
        "There is no torch here, which the example needs: install the CUDA build for your driver"
    ),
    "table-not-appended": Text(
        "[tool.perfgate] cannot be appended to pyproject.toml",
        "Settings of tools are tables of their own: [tool.NAME]",
        "Write [tool.perfgate] by hand, with workloads and baselines.",
    ),
    # Where runners get perfgate from
    "origin-unknown": Text(
        "This perfgate was installed from an index or this machine, which says not where a runner "
        "gets it from. Name it: {command:raw}",
    ),
    "install-from-odd": Text(
        "--install-from: that names no perfgate that a runner reaches and that stays what it is",
        "A git URL ends with @ and a whole commit, an archive's address with #sha256=HASH",
        "Name it as {example:raw}",
    ),
    # The files
    "place-not-written-to": Text(
        "{path:quote}: not what it should be, a file or a folder of its own below {top:quote}",
        "Nothing is written through links, nor elsewhere",
        "Nothing was written. Move it away, then run again.",
    ),
    "scaffold-left": Text(
        "Left as they are: {files:list}", "", "perfgate init --force overwrites them."
    ),
    "scaffold-lacks": Text(
        "{lacking} of {files} are missing or of another perfgate",
        "",
        "perfgate init writes what is missing and shows what differs; --force overwrites that.",
    ),
    "scaffold-complete": Text("Nothing is lacking"),
}
