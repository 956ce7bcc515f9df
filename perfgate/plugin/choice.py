"""Which workloads a person chose on this command line: asked of what was collected, and of
baselines without it."""

from __future__ import annotations

import fnmatch
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from _pytest.mark.expression import Expression

from perfgate.plugin.typed import SELECTING, TYPED


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What was typed to choose workloads."""

    typed: Namespace
    here: Path
    """What paths that were typed are relative to."""
    root: Path
    workloads: Path
    """The folder of the workloads."""
    failed: frozenset[str]
    """Node ids that failed last, for `--lf`."""

    @classmethod
    def of(cls, config: pytest.Config, *, workloads: Path) -> Self:
        """Read it off what was typed."""
        typed, cache = config.stash[TYPED], getattr(config, "cache", None)
        is_asked = getattr(typed, "lf", False)
        return cls(
            typed=typed,
            here=config.invocation_params.dir,
            root=config.rootpath,
            workloads=workloads.resolve(),
            failed=frozenset(cache.get("cache/lastfailed", {}) if cache and is_asked else ()),
        )

    @property
    def words(self) -> tuple[str, ...]:
        """Files, folders and node ids that were typed."""
        return tuple(map(str, self.typed.file_or_dir))

    @property
    def flags(self) -> tuple[str, ...]:
        """By what was chosen; empty where all workloads are gated."""
        options = (flag for name, flag in SELECTING.items() if getattr(self.typed, name, None))
        return (*(() if self._places is None else ("path",)), *options)

    @property
    def paths(self) -> tuple[Path, ...]:
        """Files and folders whose workloads are all asked for; empty where nothing was named."""
        return tuple(path for path, name in self._places or () if not name)

    @property
    def _places(self) -> list[tuple[Path, str]] | None:
        """The typed paths, each with what follows its `::`; None where the folder of all workloads
        is among them."""
        split = [word.partition("::") for word in self.words]
        places = [((self.here / path).resolve(), name) for path, _, name in split]
        whole = any(not name and self.workloads.is_relative_to(path) for path, name in places)
        return places if places and not whole else None

    def of_items(self, items: Sequence[pytest.Item], config: pytest.Config) -> list[pytest.Item]:
        """Return those of the collected items that pytest, by what was typed alone, would keep."""
        left = list(items)
        for name in ("mark", "main"):
            plugin: Any = config.pluginmanager.get_plugin(name)
            plugin.pytest_collection_modifyitems(items=left, config=_AsTyped(config, self.typed))
        return [item for item in left if item.nodeid in self.failed] or left

    def may_cover(self, workload: str, source: str | None) -> bool:
        """Whether a workload that was not collected may be one of the chosen, by its id and its
        file.

        Its marks are not known, so no `-m` excludes it; where files were typed, one of an unknown
        file is not meant.
        """
        nodeid, typed = f"{source or ''}::{workload}", self.typed
        if self._places is not None or typed.ignore or typed.ignore_glob:
            file = None if source is None else (self.root / source).resolve()
            if file is None or not self._is_named(file, workload) or self._is_ignored(file):
                return False
        if nodeid.startswith(tuple(typed.deselect or ("\0",))):
            return False
        names = [name.lower() for name in (workload, *Path(source or "").parts)]
        return self._matches(names) and (not self.failed or nodeid in self.failed)

    def _is_named(self, file: Path, workload: str) -> bool:
        return self._places is None or any(
            file.is_relative_to(path)
            and (not name or workload == name or workload.startswith(f"{name}["))
            for path, name in self._places
        )

    def _is_ignored(self, file: Path) -> bool:
        paths = [(self.here / path).resolve() for path in self.typed.ignore or ()]
        globs = [str(self.here / glob) for glob in self.typed.ignore_glob or ()]
        return any(
            way in paths or any(fnmatch.fnmatch(str(way), glob) for glob in globs)
            for way in (file, *file.parents)
        )

    def _matches(self, names: Sequence[str]) -> bool:
        """Whether `-k` matches some names, in lower case."""

        def is_held(word: str, /, **_: object) -> bool:
            return any(word.lower() in name for name in names)

        keyword = self.typed.keyword.strip()
        return not keyword or Expression.compile(keyword).evaluate(is_held)


class _AsTyped:
    """A pytest configuration to pytest's own hooks, with the options as they were typed: a conftest
    may set others."""

    def __init__(self, config: pytest.Config, typed: Namespace) -> None:
        self._config = config
        self.option = typed
        self.hook = SimpleNamespace(pytest_deselected=lambda items: None)  # noqa: ARG005 - pytest names it

    def getoption(self, name: str, default: object = None) -> object:
        """The value by what was typed."""
        return getattr(self.option, name, default)

    def __getattr__(self, name: str) -> object:
        return getattr(self._config, name)
