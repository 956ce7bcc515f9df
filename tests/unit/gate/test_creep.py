"""Ten commits of +1 % each: whether each is blessed or only let through, they end in REGRESSED, and the way is told."""

from __future__ import annotations

from datetime import timedelta

from support import records

from perfgate import blessing
from perfgate.gate import Checked, Expectation, Policy, check
from perfgate.model.baseline import Baseline, Commit, Spread
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run

WOBBLE = (0.0, 0.05, -0.05, 0.03, -0.03)


class AtOnePercent:
    """A candidate that is so many commits of +1 % behind the first."""

    machine = records.machine()

    def __init__(self, commits: int) -> None:
        self._factor = 1.01**commits

    def measure(self, index: int, planned: int) -> Run:
        del planned
        return records.run({Metric.STEP_MS: 12.34 * self._factor * (1 + WOBBLE[index % 5] / 100)})


def gated(baseline: Baseline | None, commits: int) -> Checked:
    expectation = Expectation(workload=records.workload(), machine=records.machine(), baseline=baseline)
    return check(expectation, Policy(runs=5), AtOnePercent(commits))


def blessed(checked: Checked, old: Baseline | None, commits: int) -> Baseline:
    commit = Commit(sha=f"{commits:040x}", branch="main")
    at = records.NOON + timedelta(days=commits)
    result = records.result(at=at, measured=checked.runs, judged=checked.verdict).model_copy(update={"commit": commit})
    return blessing.bless(
        [result],
        old,
        reason=f"commit {commits}",
        by="Ada <ada@example.org>",
        at=at,
        commit=commit,
        code_now=records.CODE,
    )


def test_ten_commits_of_one_percent_that_are_each_blessed_end_in_regressed_against_the_anchor() -> None:
    quiet = Spread(run_sd=0.001, occasion_sd=0.001, runs=20, occasions=5, at=records.NOON)
    first = blessed(gated(None, 0), None, 0)
    baseline = first.model_copy(update={"calibration": {Metric.STEP_MS: quiet}})
    let_through = 0
    for commits in range(1, 11):
        checked = gated(baseline, commits)
        if checked.verdict.outcome is Outcome.REGRESSED:
            break
        assert checked.verdict.outcome is Outcome.PASSED
        let_through = commits
        baseline = blessed(checked, baseline, commits)
    assert let_through == 5
    crept = checked.verdict.creep
    assert crept is not None
    assert crept.shown
    step = checked.verdict.of(Metric.STEP_MS)
    assert step is not None
    assert step.outcome is not Outcome.REGRESSED, "no single change was beyond its budget"
    assert crept.path[0].step_ms == 12.34
    assert [point.reason for point in crept.path[1:]] == [f"commit {n}" for n in range(1, len(crept.path))]
    for point in crept.path:
        assert f"{point.step_ms:.2f}".rstrip("0") in checked.verdict.reason
    assert "small losses" in checked.verdict.reason


def test_ten_commits_of_one_percent_that_are_only_let_through_end_in_regressed_against_the_baseline() -> None:
    baseline = blessed(gated(None, 0), None, 0)
    outcomes = [gated(baseline, commits).verdict.outcome for commits in range(1, 11)]
    assert Outcome.REGRESSED in outcomes
    first = outcomes.index(Outcome.REGRESSED)
    assert set(outcomes[first:]) == {Outcome.REGRESSED}
