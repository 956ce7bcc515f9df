"""Which files lie in another working tree or clone of a repository, where paths and editable installations lead."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePath

from perfgate.model.errors import RepositoryUnreadable
from perfgate.model.order import is_installed
from perfgate.system import git


class OtherTrees:
    """What else of a repository lies on this machine, as far as files are asked for.

    Args:
        own: the tree whose others these are, without links; its top, and what else may be taken for it.
        env: the environment that git is asked in.
    """

    def __init__(self, *own: Path, env: Mapping[str, str] | None = None) -> None:
        self._own = own
        self._env = env
        self._is_ours: dict[Path, bool] = {}
        self._around: dict[Path, Path | None] = {}

    def inner(self, file: Path) -> PurePath | None:
        """A file, without links, from the top of the other tree that it lies in; None of any other file."""
        folder = file.parent
        if folder not in self._around:
            self._around[folder] = self._top_around(folder)
        top = self._around[folder]
        return None if top is None else file.relative_to(top)

    def _top_around(self, folder: Path) -> Path | None:
        for top in () if is_installed(folder) else (folder, *folder.parents):
            if not os.access(top / ".git", os.F_OK):
                continue
            if top in self._own:
                return None
            if top not in self._is_ours:
                self._is_ours[top] = False
                with suppress(RepositoryUnreadable):
                    self._is_ours[top] = git.is_same_repository(self._own[0], top, env=self._env)
            if self._is_ours[top]:  # else perhaps a submodule, with the tree around it
                return top
        return None
