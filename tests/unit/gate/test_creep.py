"""Ten commits of +1 % each: whether each is blessed or only let through, they end in REGRESSED, and the way is told."""

from __future__ import annotations

from datetime import timedelta

from support import records
from support.prepared import Candidate, RecordedDuel, expect

from perfgate.bless import bless as blessing
from perfgate.gate import Checked, Policy, check
from perfgate.model.baseline import Baseline, Commit
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run

WOBBLE = (0.0, 0.05, -0.05, 0.03, -0.03)


def at(commits: int) -> list[Run]:
    """Runs of so many commits of +1 % behind the first."""
    return [
        records.run({Metric.STEP_MS: 12.34 * 1.01**commits * (1 + wobble / 100)})
        for wobble in WOBBLE
    ]


def gated(baseline: Baseline | None, commits: int, *, blessed_at: int = 0) -> Checked:
    duel = RecordedDuel(at(blessed_at), at(commits))
    return check(expect(baseline), Policy(runs=5), Candidate(*at(commits)), duel)


def blessed(checked: Checked, old: Baseline | None, commits: int) -> Baseline:
    commit = Commit(sha=f"{commits:040x}", branch="main")
    at = records.NOON + timedelta(days=commits)
    result = records.result(at=at, measured=checked.runs, judged=checked.verdict).model_copy(
        update={"commit": commit}
    )
    return blessing.bless(
        [result],
        old,
        reason=f"commit {commits}",
        by="Ada <ada@example.org>",
        at=at,
        commit=commit,
        code_now=records.CODE,
    )


def test_ten_commits_of_one_percent_that_are_each_blessed_end_in_regressed_against_the_anchor() -> (
    None
):
    baseline = blessed(gated(None, 0), None, 0)
    for commits in range(1, 11):
        checked = gated(baseline, commits, blessed_at=commits - 1)
        if checked.verdict.outcome is Outcome.REGRESSED:
            break
        assert checked.verdict.outcome is Outcome.PASSED
        baseline = blessed(checked, baseline, commits)
    assert commits == 7
    crept, step = checked.verdict.creep, checked.verdict.of(Metric.STEP_MS)
    assert crept is not None
    assert crept.shown
    assert step is not None
    assert step.outcome is not Outcome.REGRESSED, "no single change was beyond its budget"
    assert crept.path[0].step_ms == 12.34
    assert [point.reason for point in crept.path[1:]] == [f"commit {n}" for n in range(1, 7)]


def test_ten_commits_of_one_percent_that_are_only_let_through_end_in_regressed_against_the_baseline() -> (
    None
):
    baseline = blessed(gated(None, 0), None, 0)
    outcomes = [gated(baseline, commits).verdict.outcome for commits in range(1, 11)]
    assert outcomes == [Outcome.PASSED] + [Outcome.REGRESSED] * 9
