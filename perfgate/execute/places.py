"""Where a file belongs: to the innermost of the environments and working trees around it. Asks git
nothing.

```
/home/proj/                        a working tree                  train.py
/home/proj/.venv/lib/...           installed packages              numpy
/home/proj/.perfgate/worktrees/..  another working tree            train.py of another commit
/opt/py/site-packages/             installed packages              torch
~/.cache/torch_extensions/         nobody's                        kernels.so
```
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from typing import Final

INSTALLED: Final = ("site-packages", "dist-packages")
"""What folders of installed packages are called."""
KEPT: Final = ".perfgate"
"""What perfgate keeps in a project: nothing of it is code."""
PACKAGE: Final = Path(__file__).resolve().parents[1]
"""The perfgate that runs this gate, and must be the one inside its workers."""


class PlaceKind(StrEnum):
    """What a folder is to the files in it."""

    TREE = "working tree"
    PACKAGES = "installed packages"
    """Or an environment around them."""
    NOBODYS = "nobody's"


@dataclass(frozen=True, slots=True)
class Place:
    """The folder that a file belongs to."""

    kind: PlaceKind
    folder: Path


class Places:
    """Looks files up, and remembers their folders.

    Args:
        trees: the tops of the working trees that are compared, without links.
        prefixes: where interpreters and their environments are, without links.
    """

    def __init__(self, *trees: Path, prefixes: Collection[Path] = ()) -> None:
        self._trees = trees
        # One that was made in a working tree's own top holds packages in its libraries alone.
        self._environments = {
            folder
            for prefix in prefixes
            for folder in (
                (prefix / "lib", prefix / "lib64", prefix / "bin") if prefix in trees else (prefix,)
            )
        }
        self._known: dict[Path, Place] = {}
        self._real: dict[Path, Path] = {}

    def real(self, file: Path) -> Path:
        """A file without links; each folder is looked at once, since a run loads thousands."""
        folder = file.parent
        if folder not in self._real:
            self._real[folder] = Path(os.path.realpath(folder))
        real = self._real[folder]
        found = file if real == folder else real / file.name
        return Path(os.path.realpath(found)) if found.is_symlink() else found

    def of(self, file: Path) -> Place:
        """Where a file belongs, also behind links; one found among packages by a link is theirs."""
        place = self._place(self.real(file).parent)
        return self._place(file.parent) if place.kind is PlaceKind.NOBODYS else place

    def _place(self, folder: Path) -> Place:
        new = list(takewhile(lambda one: one not in self._known, (folder, *folder.parents)))
        for one in reversed(new):  # each after the one around it, of which it may be a part
            around = self._known.get(one.parent, Place(PlaceKind.NOBODYS, one))
            is_prefix = one in self._environments or is_environment(one)
            if one in self._trees:
                around = Place(PlaceKind.TREE, one)
            elif one.is_relative_to(PACKAGE) or one.name == KEPT:
                around = Place(PlaceKind.NOBODYS, one)
            elif is_prefix or (around.folder not in self._trees and holds_packages(one)):
                around = Place(PlaceKind.PACKAGES, one)
            elif (one / ".git").exists() and not _is_submodule(one):
                around = Place(PlaceKind.TREE, one)
            self._known[one] = around
        return self._known[folder]


def _is_submodule(folder: Path) -> bool:
    """Whether a working tree is part of the one around it: its notes lie among its."""
    note = folder / ".git"
    return note.is_file() and "/modules/" in note.read_text("utf-8", "replace")


def holds_packages(folder: Path) -> bool:
    """Whether packages are installed in a folder, also one of `pip install --target`; a clone is
    none."""
    if folder.name in INSTALLED:
        return True
    with suppress(OSError), os.scandir(folder) as inside:
        named = any(one.name.endswith(".dist-info") for one in inside)
        return named and not (folder / ".git").exists()
    return False


def is_environment(folder: Path) -> bool:
    """Whether a folder is a virtual environment, or one of conda."""
    return (folder / "pyvenv.cfg").is_file() or (folder / "conda-meta").is_dir()


def prefixes_here() -> set[Path]:
    """Where this interpreter and its environment are."""
    return {
        Path(os.path.realpath(prefix)) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)
    }
