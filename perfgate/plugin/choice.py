"""Which workloads a person chose on this command line: asked of what was collected, and of
baselines without it."""

from __future__ import annotations

import fnmatch
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.mark.expression import Expression

from perfgate.plugin.typed import SELECTING, TYPED


class Choice:
    """What was typed to choose workloads."""

    def __init__(self, config: pytest.Config, *, workloads: Path) -> None:
        """Take the folder of all workloads, and what was typed."""
        self._config = config
        self._typed = config.stash[TYPED]
        self._here = config.invocation_params.dir
        """What paths that were typed are relative to."""
        self.words = tuple(map(str, self._typed.file_or_dir))
        """Files, folders and node ids that were typed."""
        split = [word.partition("::") for word in self.words]
        places = [((self._here / path).resolve(), name) for path, _, name in split]
        self.files = tuple(path for path, _ in places)
        """Files and folders among them."""
        folder = workloads.resolve()
        is_whole = any(not name and folder.is_relative_to(path) for path, name in places)
        self._places = () if is_whole else tuple(places)
        """Those paths, each with what follows its `::`; none where all workloads are asked for."""
        cache = getattr(config, "cache", None)
        is_asked = getattr(self._typed, "lf", False)
        self._failed = frozenset(cache.get("cache/lastfailed", {}) if cache and is_asked else ())
        """Node ids that failed last, for `--lf`."""

    @property
    def flags(self) -> tuple[str, ...]:
        """By what was chosen; empty where all workloads are gated."""
        options = (flag for name, flag in SELECTING.items() if getattr(self._typed, name, None))
        return (*(("path",) if self._places else ()), *options)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Files and folders whose workloads are all asked for; empty where nothing was named."""
        return tuple(path for path, name in self._places if not name)

    def of_items(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """Return those of the collected items that pytest, by what was typed alone, would keep."""
        left = list(items)
        for name in ("mark", "main"):
            plugin: Any = self._config.pluginmanager.get_plugin(name)
            typed = _AsTyped(self._config, self._typed)
            plugin.pytest_collection_modifyitems(items=left, config=typed)
        return [item for item in left if item.nodeid in self._failed] or left

    def may_cover(self, workload: str, source: str | None) -> bool:
        """Whether a workload that was not collected may be one of the chosen, by its id and its
        file.

        Its marks are not known, so no `-m` excludes it; where files were typed, one of an unknown
        file is not meant.
        """
        nodeid, typed = f"{source or ''}::{workload}", self._typed
        if self._places or typed.ignore or typed.ignore_glob:
            file = None if source is None else (self._config.rootpath / source).resolve()
            if file is None or not self._is_named(file, workload) or self._is_ignored(file):
                return False
        if nodeid.startswith(tuple(typed.deselect or ("\0",))):
            return False
        names = [name.lower() for name in (workload, *Path(source or "").parts)]
        return self._matches(names) and (not self._failed or nodeid in self._failed)

    def _is_named(self, file: Path, workload: str) -> bool:
        return not self._places or any(
            file.is_relative_to(path)
            and (not name or workload == name or workload.startswith(f"{name}["))
            for path, name in self._places
        )

    def _is_ignored(self, file: Path) -> bool:
        paths = [(self._here / path).resolve() for path in self._typed.ignore or ()]
        globs = [str(self._here / glob) for glob in self._typed.ignore_glob or ()]
        return any(
            way in paths or any(fnmatch.fnmatch(str(way), glob) for glob in globs)
            for way in (file, *file.parents)
        )

    def _matches(self, names: Sequence[str]) -> bool:
        """Whether `-k` matches some names, in lower case."""

        def is_held(word: str, /, **_: object) -> bool:
            return any(word.lower() in name for name in names)

        keyword = self._typed.keyword.strip()
        return not keyword or Expression.compile(keyword).evaluate(is_held)


def _ignore(*, items: Sequence[pytest.Item]) -> None:
    """Do nothing with items that a choice leaves out."""


class _AsTyped:
    """A pytest configuration to pytest's own hooks, with the options as they were typed: a conftest
    may set others."""

    def __init__(self, config: pytest.Config, typed: Namespace) -> None:
        self._config = config
        self.option = typed
        self.hook = SimpleNamespace(pytest_deselected=_ignore)

    def getoption(self, name: str, default: object = None) -> object:
        """The value by what was typed."""
        return getattr(self.option, name, default)

    def __getattr__(self, name: str) -> object:
        return getattr(self._config, name)
