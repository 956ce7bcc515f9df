"""The other commit of a duet: the one that was asked for, or that the baseline was measured at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from perfgate.model.baseline import Baseline
from perfgate.model.errors import RevisionMissing

SHOWN_SHA: Final = 12
"""Digits of a commit that are shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """Another commit to compare with."""

    revision: str
    """As it was asked for."""
    commit: str
    """SHA."""
    tree: str | None = None
    """That of its files without the baselines, where it was noted."""


def blessed_at(baseline: Baseline) -> Against:
    """The commit that a baseline was measured at, the last that holds all of its code.

    Raises:
        RevisionMissing: nobody noted it, or it had uncommitted changes.
    """
    known = [occasion.commit for occasion in baseline.occasions if occasion.commit is not None]
    if not known:
        raise RevisionMissing(
            subject="the baseline's commit",
            fact="the baseline does not say at which commit it was measured",
            next_step="Measure in a git repository and bless anew, so that it can be run again.",
        )
    found = next((commit for commit in reversed(known) if not commit.dirty), known[-1])
    if found.dirty:
        raise RevisionMissing(
            subject=f"the baseline's commit {found.sha[:SHOWN_SHA]}",
            fact="the baseline was measured with uncommitted changes, which no commit holds",
            next_step="Bless from a commit without changes, so that it can be run again.",
        )
    return Against(
        revision=f"the baseline's commit {found.sha[:SHOWN_SHA]}", commit=found.sha, tree=found.tree
    )
