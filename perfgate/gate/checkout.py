"""Which commit a gate measures: what is checked out when it begins, and whether that stays so."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from perfgate.execute.lab import SHOWN_SHA, Against
from perfgate.model.baseline import Commit
from perfgate.model.errors import PerfgateError
from perfgate.model.note import Note, Severity, note
from perfgate.system import git

MOST_UNCOMMITTED: Final = 3
"""Paths that are kept of what no commit holds."""


@dataclass(frozen=True, kw_only=True)
class WorkingTree:
    """The project's working tree, as far as git knows it."""

    root: Path
    """The project's."""
    baselines: str
    """The folder of its baselines, whose changes are no code's."""

    @cached_property
    def commit(self) -> Commit | None:
        """What is checked out, asked once; to be asked before anything is measured or written."""
        return git.read_commit(self.root, baselines=self.baselines)

    def measured(self) -> tuple[Commit | None, tuple[str, ...]]:
        """The commit that was checked out when the gate began, dirty if that has changed since, and
        a few of the paths that no commit holds."""
        commit, now = self.commit, git.read_commit(self.root, baselines=self.baselines)
        if commit is None or now is None:
            commit = now
        elif (now.sha, now.dirty) != (commit.sha, False):
            commit = commit.model_copy(update={"dirty": True})
        paths: tuple[str, ...] = ()
        if commit is not None and commit.dirty:
            with suppress(PerfgateError):
                paths = git.changes(self.root, baselines=self.baselines)[:MOST_UNCOMMITTED]
        return commit, paths

    def same_as(self, against: Against | None) -> Note | None:
        """Note that both sides of what was asked for are one commit."""
        here = self.commit
        if against is None or here is None or here.dirty or here.sha != against.commit:
            return None
        return note(
            "both-sides-are-one-commit",
            Severity.WARN,
            commit=here.sha[:SHOWN_SHA],
            revision=against.revision,
        )
