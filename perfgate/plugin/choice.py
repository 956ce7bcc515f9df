"""Which workloads a person chose on this command line: asked of what was collected, and of
baselines without it."""

from __future__ import annotations

import fnmatch
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.mark.expression import Expression

from perfgate.plugin.typed import SELECTING, TYPED


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What was typed to choose workloads, asked of those that were collected and of baselines
    without a workload."""

    typed: Namespace
    here: Path
    """What paths that were typed are relative to."""
    root: Path
    workloads: Path
    """The folder of the workloads."""
    failed: frozenset[str] = frozenset()
    """Node ids that failed last, for `--lf`."""
    resumed_at: str | None = None
    """The node id that `--sw` goes on with."""

    @classmethod
    def of(cls, config: pytest.Config, *, workloads: Path) -> Choice:
        """Read it off what was typed."""
        typed = config.stash[TYPED]
        cache = getattr(config, "cache", None)
        failed = (
            cache.get("cache/lastfailed", {})
            if cache is not None and getattr(typed, "lf", False)
            else {}
        )
        resumed = (
            cache.get("cache/stepwise", None)
            if cache is not None and getattr(typed, "stepwise", False)
            else None
        )
        return cls(
            typed=typed,
            here=config.invocation_params.dir,
            root=config.rootpath,
            workloads=workloads.resolve(),
            failed=frozenset(failed),
            resumed_at=resumed.get("last_failed") if isinstance(resumed, dict) else resumed,
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
        left = [item for item in left if item.nodeid in self.failed] or left
        at = next((at for at, item in enumerate(left) if item.nodeid == self.resumed_at), 0)
        return left[at:]

    def may_cover(self, workload: str, source: str | None) -> bool:
        """Whether a workload that was not collected may be one of the chosen, by its id and its
        file.

        Its marks are not known, so no `-m` excludes it; where files were typed, one of an unknown
        file is not meant.
        """
        return all(self._answers(workload, source))

    def _answers(self, workload: str, source: str | None) -> Iterator[bool]:
        file = None if source is None else (self.root / source).resolve()
        if self._places is not None:
            yield file is not None and any(
                file.is_relative_to(path)
                and (not name or workload == name or workload.startswith(f"{name}["))
                for path, name in self._places
            )
        if self.typed.ignore or self.typed.ignore_glob:
            yield file is not None and not self._ignores(file)
        nodeid = f"{source or ''}::{workload}"
        yield not nodeid.startswith(tuple(self.typed.deselect or ("\0",)))
        if keyword := self.typed.keyword.strip():
            yield Expression.compile(keyword).evaluate(_Names(workload, *Path(source or "").parts))
        yield not self.failed or nodeid in self.failed

    def _ignores(self, file: Path) -> bool:
        ways = (file, *file.parents)
        paths = [(self.here / path).resolve() for path in self.typed.ignore or ()]
        globs = [str(self.here / glob) for glob in self.typed.ignore_glob or ()]
        return any(
            way in paths or any(fnmatch.fnmatch(str(way), glob) for glob in globs) for way in ways
        )


class _Names:
    """What `-k` matches of a workload that was not collected."""

    def __init__(self, *names: str) -> None:
        self._names = [name.lower() for name in names]

    def __call__(self, name: str, /, **_: object) -> bool:
        return any(name.lower() in held for held in self._names)


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
