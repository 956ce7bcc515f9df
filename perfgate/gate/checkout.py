"""Which commit a gate measures: what is checked out when it begins, and whether that stays so."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from perfgate.execute.lab import Against
from perfgate.execute.worktree import SHOWN_SHA
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

    def measured(self) -> Commit | None:
        """The commit that was checked out when the gate began; dirty if that has changed since."""
        began, now = self.commit, git.read_commit(self.root, baselines=self.baselines)
        if began is None or now is None:
            return now
        is_same = (now.sha, now.dirty) == (began.sha, False)
        return began if is_same else began.model_copy(update={"dirty": True})

    def uncommitted(self) -> tuple[str, ...]:
        """A few of the paths that no commit holds; none where all is committed, or no git."""
        commit = self.measured()
        if commit is None or not commit.dirty:
            return ()
        try:
            return git.changes(self.root, baselines=self.baselines)[:MOST_UNCOMMITTED]
        except PerfgateError:
            return ()

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
