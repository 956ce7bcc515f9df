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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

INSTALLED: Final = ("site-packages", "dist-packages", "lib-dynload")
"""What folders of installed packages are called, and that of Python's own compiled modules."""
KEPT: Final = ".perfgate"
"""What perfgate keeps in a project: nothing of it is code."""
PACKAGE: Final = Path(__file__).resolve().parents[1]
"""The perfgate that runs this gate, and must be the one inside its workers."""


@dataclass(frozen=True, slots=True)
class Place:
    """The folder that a file belongs to."""

    folder: Path
    is_tree: bool
    """A working tree; else packages are installed in it, or in folders below it."""


class Places:
    """Looks files up, and remembers their folders.

    Args:
        trees: the tops of the working trees that are compared, without links.
    """

    def __init__(self, *trees: Path) -> None:
        self._trees = trees
        self._known: dict[Path, Place | None] = {}
        self._real: dict[Path, Path] = {}

    def real(self, file: Path) -> Path:
        """A file without links; each folder is looked at once, since a run loads thousands."""
        folder = file.parent
        if folder not in self._real:
            self._real[folder] = Path(os.path.realpath(folder))
        found = self._real[folder] / file.name
        return Path(os.path.realpath(found)) if found.is_symlink() else found

    def of(self, file: Path) -> Place | None:
        """Where a file belongs, also behind links; one found among packages by a link is theirs.
        None of what is nobody's."""
        return self.around(self.real(file).parent) or self.around(file.parent)

    def around(self, folder: Path) -> Place | None:
        """The innermost place that a folder without links is, or lies in."""
        if folder not in self._known:
            outer = None if folder == folder.parent else self.around(folder.parent)
            self._known[folder] = self._look(folder, outer)
        return self._known[folder]

    def _look(self, folder: Path, outer: Place | None) -> Place | None:
        if folder in self._trees:
            return Place(folder, is_tree=True)
        if folder == PACKAGE or folder.name == KEPT:
            return None
        if _is_environment(folder):
            return Place(folder, is_tree=False)
        notes = folder / ".git"
        if notes.exists():
            # A submodule's lie among those of the working tree around it, whose part it is.
            is_part = notes.is_file() and "/modules/" in notes.read_text("utf-8", "replace")
            if not is_part:
                return Place(folder, is_tree=True)
        # A tree that is compared may have such a folder of its own, if it is no environment itself.
        top = None if outer is None or outer.folder not in self._trees else outer.folder
        if (top is None or _is_environment(top)) and _holds_packages(folder):
            return Place(folder, is_tree=False)
        return outer


def _holds_packages(folder: Path) -> bool:
    """Whether packages are installed in a folder, also one of `pip install --target`."""
    if folder.name in INSTALLED:
        return True
    with suppress(OSError), os.scandir(folder) as inside:
        return any(one.name.endswith(".dist-info") for one in inside)
    return False


def _is_environment(folder: Path) -> bool:
    """Whether a folder is a virtual environment, or one of conda."""
    return (folder / "pyvenv.cfg").is_file() or (folder / "conda-meta").is_dir()
