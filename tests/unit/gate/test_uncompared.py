"""Where nothing can be compared: what a baseline needs is measured, and shown."""

from __future__ import annotations

import pytest
from support import records
from support.prepared import BLESS, Candidate, expect, slower, stepping, told, with_steps

from perfgate.gate import Policy, check
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import MetricVerdict


def test_without_a_baseline_five_runs_are_measured_and_shown() -> None:
    series = Candidate(*records.runs(12.1, 12.2, 12.3, 12.4, 12.5))
    checked = check(expect(None), Policy(), series)
    assert told(checked) == (
        Outcome.NO_BASELINE,
        "there is no baseline to compare with on this machine (NVIDIA H200).",
        f"If these numbers are right, make them the baseline: {BLESS}",
    )
    assert series.asked == [(0, 5), (1, 5), (2, 5), (3, 5), (4, 5)]
    assert (len(checked.runs), checked.verdict.runs, checked.verdict.baseline_runs) == (5, 5, 0)
    assert checked.verdict.of(Metric.STEP_MS) == MetricVerdict(
        metric=Metric.STEP_MS, outcome=None, now=12.3, lowest=12.1, highest=12.5
    )
    assert [row.metric for row in checked.verdict.metrics] == list(records.VALUES)


@pytest.mark.parametrize("baseline", [None, records.baseline()])
def test_a_change_of_pace_is_told_of_a_first_measurement_and_beside_a_verdict(
    baseline: Baseline | None,
) -> None:
    process = records.process(records.VALUES).model_copy(
        update={"periods_ms": (11.0,) * 15 + (12.34,) * 30}
    )
    checked = check(expect(baseline), Policy(), Candidate(records.run(processes=(process,))))
    assert checked.verdict.outcome is (Outcome.NO_BASELINE if baseline is None else Outcome.PASSED)
    (remark,) = checked.verdict.remarks
    assert remark.startswith("The pace changes within the measured steps, in ")
    assert "11.00 ms a step, and 12.34 ms from step 18 of " in remark


def test_a_metric_that_one_run_lacks_is_not_shown_as_a_median() -> None:
    series = Candidate(records.run(absent={Metric.H2D_MS: "no copies"}), records.run())
    checked = check(expect(None), Policy(new_runs=2), series)
    assert checked.verdict.of(Metric.H2D_MS) is None
    assert checked.verdict.of(Metric.STEP_MS) is not None


def test_a_baseline_of_another_gpu_model_only_is_no_comparison_and_is_measured_for_a_bless() -> (
    None
):
    series = Candidate(*records.runs())
    checked = check(
        expect(None, elsewhere=("NVIDIA H100 80GB HBM3", "2 x NVIDIA H200")), Policy(), series
    )
    assert told(checked) == (
        Outcome.INCOMPARABLE,
        (
            "its baseline is for NVIDIA H100 80GB HBM3 and 2 x NVIDIA H200, this machine is NVIDIA H200. "
            "Their times are not comparable."
        ),
        f"Run where it was blessed, or bless one for this machine: {BLESS}",
    )
    assert len(checked.runs) == 5


def test_other_ranges_than_the_blessed_steps_are_no_comparison_and_are_measured_for_a_bless() -> (
    None
):
    faster = stepping(slower(-24), "optimizer_step #", "training_step #")
    checked = check(
        expect(with_steps(records.baseline(), ("training_step #",))), Policy(), Candidate(faster)
    )
    assert told(checked) == (
        Outcome.INCOMPARABLE,
        (
            "the steps of the baseline are ranges named 'training_step #', these are 'optimizer_step #' and "
            "'training_step #'. Their times are not comparable."
        ),
        f"Correct the pattern of the steps (workloads/mlp.py), or bless what they are now: {BLESS}",
    )
    assert len(checked.runs) == 5


def test_a_run_that_fails_while_other_steps_are_measured_for_a_bless_ends_that() -> None:
    series = Candidate(
        stepping(records.run(), "other #"), records.run(throttled=["thermal slowdown"])
    )
    checked = check(expect(with_steps(records.baseline(), ("step #",))), Policy(), series)
    assert (checked.verdict.outcome, len(checked.runs)) == (Outcome.INVALID, 2)


@pytest.mark.parametrize(
    ("blessed", "now", "is_gone"),
    [
        ((46, 0), (0, 0), True),
        ((0, 2), (0, 0), True),
        ((46, 0), (0, 1), False),
        ((0, 0), (0, 0), False),
        ((46, 0), (None, 0), False),
    ],
)
def test_steps_of_which_most_launch_nothing_any_more_are_no_comparison(
    blessed: tuple[float, float], now: tuple[float | None, float], *, is_gone: bool
) -> None:
    names = (Metric.LAUNCHES, Metric.GRAPH_LAUNCHES)
    made = records.baseline([{**records.VALUES, **dict(zip(names, blessed, strict=True))}] * 5)
    held = {name: value for name, value in zip(names, now, strict=True) if value is not None}
    others = {metric: value for metric, value in records.VALUES.items() if metric not in names}
    checked = check(expect(made), Policy(), Candidate(records.run({**others, **held})))
    differs = (
        f"most of its steps launch nothing on a GPU, those it is compared with {sum(blessed)} kernels or graphs. "
        "Their values are not comparable."
    )
    advice = f"Gate again: the profiler may have lost records. If it is meant, bless it: {BLESS}"
    assert (told(checked) == (Outcome.INCOMPARABLE, differs, advice)) is is_gone


def test_a_rank_that_took_no_step_in_any_run_is_no_comparison_and_is_measured_for_a_bless() -> None:
    made = records.baseline()
    two = tuple(run.model_copy(update={"processes": 2}) for run in made.runs)
    of_two = made.model_copy(
        update={"occasions": (made.occasions[0].model_copy(update={"runs": two}),)}
    )
    checked = check(expect(of_two), Policy(), Candidate(records.run()))
    assert (checked.verdict.outcome, checked.verdict.reason, checked.verdict.next_step) == (
        Outcome.INCOMPARABLE,
        "steps of 1 process were found, of 2 in the baseline. Their values are not comparable.",
        f"Look for a process that ended early or took no step. If it is meant, bless it: {BLESS}",
    )
    assert len(checked.runs) == 5


def test_runs_that_no_gate_could_compare_with_are_called_that() -> None:
    checked = check(expect(None), Policy(), Candidate(*records.runs(0.2, 34.0, 2.3, 28.0, 12.0)))
    assert [remark for remark in checked.verdict.remarks if "before it is blessed" in remark]
    assert not check(
        expect(None), Policy(), Candidate(*records.runs(12.1, 12.2, 12.3, 12.4, 12.5))
    ).verdict.remarks
