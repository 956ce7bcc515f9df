"""Which commit a workload is compared with where its baseline's is meant."""

from __future__ import annotations

import pytest
from support import records

from perfgate.gate.against import Against, blessed_at
from perfgate.model.baseline import Baseline, Commit
from perfgate.model.errors import RevisionMissing

OLD, NEW = ("1" * 40, "2" * 40)


def at(*commits: Commit | None) -> Baseline:
    """A baseline with an occasion at each of these commits."""
    made = records.baseline(*([{}] for _ in commits))
    occasions = zip(made.occasions, commits, strict=True)
    told = tuple(occasion.model_copy(update={"commit": commit}) for occasion, commit in occasions)
    return made.model_copy(update={"occasions": told})


def test_the_last_commit_without_changes_is_the_baselines() -> None:
    commits = (Commit(sha=OLD), Commit(sha=NEW), Commit(sha="3" * 40, dirty=True), None)
    assert blessed_at(at(*commits)) == Against(
        revision="the baseline's commit 222222222222", commit=NEW
    )


def test_uncommitted_changes_are_in_no_commit() -> None:
    with pytest.raises(RevisionMissing) as missing:
        blessed_at(at(Commit(sha=OLD, dirty=True), Commit(sha=NEW, dirty=True)))
    assert str(missing.value) == (
        "the baseline's commit 222222222222: the baseline was measured with uncommitted changes, which no commit "
        "holds.\nBless from a commit without changes, so that it can be run again."
    )


def test_a_commit_that_nobody_noted_is_not_known() -> None:
    with pytest.raises(RevisionMissing) as missing:
        blessed_at(at(None))
    assert str(missing.value) == (
        "the baseline's commit: the baseline does not say at which commit it was measured.\n"
        "Measure in a git repository and bless anew, so that it can be run again."
    )
