"""Looks against the stored baseline."""

from __future__ import annotations

import pytest
from support import records
from support.prepared import Candidate, expect, slower

from perfgate.gate import Policy, check
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import Verdict

# Looks


def test_a_risen_count_is_regressed_after_two_runs_and_told_where() -> None:
    baseline = records.baseline(
        ranges=[
            range_.model_copy(update={"values": {**range_.values}}) for range_ in records.RANGES
        ]
    )
    more = [
        records.RANGES[0],
        records.RANGES[1].model_copy(
            update={"values": {**records.RANGES[1].values, Metric.LAUNCHES: 32}}
        ),
        records.RANGES[2],
    ]
    values = {**records.VALUES, Metric.LAUNCHES: 47}
    run = records.run(processes=[records.process(values, ranges=more)])
    series = Candidate(run)
    checked = check(expect(baseline), Policy(), series)
    assert checked.verdict.outcome is Outcome.REGRESSED
    assert series.asked == [(0, 3), (1, 3)]
    assert checked.verdict.runs == 2
    assert checked.verdict.where == {Metric.LAUNCHES: "+1: +1 under backward"}


def test_a_count_that_rose_in_one_run_only_does_not_stop_the_gate() -> None:
    series = Candidate(records.run({Metric.LAUNCHES: 47}), records.run(), records.run())
    checked = check(expect(records.baseline()), Policy(), series)
    assert (checked.verdict.outcome, len(series.asked)) == (Outcome.PASSED, 5)


def test_a_first_look_of_one_run_grows_to_confirm_a_risen_count() -> None:
    series = Candidate(records.run({Metric.SYNCS: 2}))
    checked = check(expect(records.baseline()), Policy(runs=1), series)
    assert (checked.verdict.outcome, series.asked) == (Outcome.REGRESSED, [(0, 1), (1, 2)])


def test_doubtful_runs_grow_to_5_8_and_10_and_end_inconclusive() -> None:
    series = Candidate(*(slower(percent) for percent in (0.85, 0.95, 0.9)), slower(0.9))
    checked = check(expect(records.baseline()), Policy(), series)
    assert checked.verdict.outcome is Outcome.INCONCLUSIVE
    assert [planned for _, planned in series.asked] == [3, 3, 3, 5, 5, 8, 8, 8, 10, 10]
    assert checked.verdict.runs == len(checked.runs) == 10


def test_doubtful_runs_stop_at_the_most_runs_allowed() -> None:
    series = Candidate(slower(0.9))
    checked = check(expect(records.baseline()), Policy(max_runs=6), series)
    assert (checked.verdict.outcome, len(series.asked)) == (Outcome.INCONCLUSIVE, 6)


def test_a_metric_that_the_runs_lack_is_not_measured() -> None:
    absent = {Metric.KERNEL_MS: "no kernel was recorded"}
    checked = check(expect(records.baseline()), Policy(), Candidate(records.run(absent=absent)))
    assert (checked.verdict.outcome, checked.verdict.runs) == (Outcome.NOT_MEASURED, 3)


# Where the SM clock is not what it was


def clocked(run: Run, sm_clock_mhz: float) -> Run:
    """A run at another SM clock."""
    gpu = run.conditions.gpus[0].model_copy(update={"sm_clock_mhz": sm_clock_mhz})
    return run.model_copy(update={"conditions": run.conditions.model_copy(update={"gpus": (gpu,)})})


@pytest.mark.parametrize("run", [records.run(), slower(-10)])
def test_a_higher_clock_hides_a_loss_so_stored_times_alone_do_not_open_the_gate(run: Run) -> None:
    verdict = check(expect(records.baseline()), Policy(), Candidate(clocked(run, 2079))).verdict
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "1980 MHz in the baseline and 2079 MHz now" in verdict.reason
    assert verdict.beyond


def test_a_wide_budget_of_kernel_time_does_not_let_the_clock_hide_a_loss_of_the_step() -> None:
    policy = Policy(budgets={Metric.KERNEL_MS: 0.5})
    checked = check(expect(records.baseline()), policy, Candidate(clocked(records.run(), 2079)))
    assert checked.verdict.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("sm_clock_mhz", [1755, 1980, 1995])
def test_a_lower_clock_or_one_within_the_budget_of_kernel_time_hides_none(
    sm_clock_mhz: float,
) -> None:
    run = clocked(records.run(), sm_clock_mhz)
    assert (
        check(expect(records.baseline()), Policy(), Candidate(run)).verdict.outcome
        is Outcome.PASSED
    )


def at_a_lower_clock(percent: float) -> Verdict:
    """The verdict on kernels and steps that take so much longer at an SM clock of 1900 instead of 1980 MHz."""
    runs = [clocked(longer(percent + wobble), 1900) for wobble in (0.0, 0.05, -0.05)]
    return check(expect(records.baseline()), Policy(), Candidate(*runs)).verdict


def longer(percent: float) -> Run:
    """A run whose steps and kernels take so much longer than blessed."""
    return records.run(
        {
            metric: records.VALUES[metric] * (1 + percent / 100)
            for metric in (Metric.STEP_MS, Metric.KERNEL_MS)
        }
    )


def test_what_a_lower_clock_alone_makes_of_the_blessed_code_is_no_loss() -> None:
    verdict = at_a_lower_clock(4.2)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    kernels = verdict.of(Metric.KERNEL_MS)
    assert kernels is not None
    assert kernels.outcome is Outcome.INCONCLUSIVE
    assert kernels.p_value is not None
    assert kernels.p_value < 0.001
    assert verdict.loss_level is None


def test_what_a_lower_clock_does_not_account_for_is_a_loss() -> None:
    assert at_a_lower_clock(9.0).outcome is Outcome.REGRESSED


def test_a_lower_clock_accounts_for_no_count() -> None:
    run = clocked(records.run({Metric.SYNCS: 9, Metric.STEP_MS: 12.34 * 1.042}), 1900)
    assert (
        check(expect(records.baseline()), Policy(), Candidate(run)).verdict.outcome
        is Outcome.REGRESSED
    )
