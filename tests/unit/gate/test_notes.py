"""Which notes of its runs a verdict repeats, and what it says of what it left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support import records
from support.cases import named
from support.prepared import (
    FULL,
    Made,
    PreparedLab,
    expect,
    gated,
    pairs,
    screen,
    slower,
    with_process,
)

from perfgate.gate.check import check
from perfgate.gate.conclude import _shared as shared
from perfgate.gate.underway import Underway
from perfgate.model.baseline import Baseline, BlessedRun
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, PERIODS, Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import NO_NCCL, Run
from perfgate.model.settings import Policy

LOUD = note("quoted", Severity.WARN, text="not in the numbers")
ALSO = note("quoted", Severity.INFO, text="in the numbers all the same")
ROUTINE = note("quoted", Severity.ROUTINE, text="so in every sound loop")


def noting(*notes: Note) -> Run:
    return records.run().model_copy(update={"notes": notes})


@pytest.mark.parametrize(
    ("runs", "repeated"),
    [
        ([noting(ROUTINE, LOUD, ALSO)], [LOUD, ALSO]),
        ([noting(LOUD), noting()], []),
        ([noting(LOUD), noting(), noting(LOUD)], [LOUD]),
        ([], []),
    ],
)
def test_what_most_runs_note_is_repeated_once(
    runs: Sequence[Run], repeated: Sequence[Note]
) -> None:
    assert list(shared(runs)) == repeated


def codes(verdict_of: Sequence[Made], baseline: Baseline | None, **more: Machine) -> list[str]:
    verdict = gated(verdict_of, None, baseline, **more).verdict  # type: ignore[arg-type]
    return [one.code for one in verdict.notes]


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.NO_BASELINE])
def test_a_verdict_bears_the_notes_of_its_runs(outcome: Outcome) -> None:
    baseline = records.baseline() if outcome is Outcome.PASSED else None
    verdict = gated([noting(ROUTINE, ALSO, LOUD)], None, baseline).verdict
    assert verdict.outcome is outcome
    assert [one for one in verdict.notes if one.code == "quoted"] == [ALSO, LOUD]


def without(*metrics: Metric, why: str | Note = "it is not known") -> Run:
    left = {metric: value for metric, value in records.VALUES.items() if metric not in metrics}
    return records.run(processes=(records.process(left, absent=dict.fromkeys(metrics, why)),))


def blessed_as(run: Run, **more: object) -> Baseline:
    made = records.in_one_occasion(records.baseline(), runs=(BlessedRun.of(run),) * 5)
    return made.model_copy(update=more)


LACKING = without(Metric.GAP_MS, Metric.H2D_MS)
NO_GPU = records.machine().model_copy(update={"gpus": ()})
CPU_ONLY = without(*(metric for metric in METRICS if metric not in PERIODS))


@pytest.mark.parametrize(
    ("now", "blessed", "machine", "said"),
    named(
        {
            "neither side": (LACKING, LACKING, None, ["metrics-not-measured"]),
            "not blessed": (records.run(), LACKING, None, ["metrics-not-blessed"]),
            "what is shown only is not missed": (records.run(), without(Metric.NCCL_MS), None, []),
            "no GPU was used": (CPU_ONLY, CPU_ONLY, None, ["metrics-not-measured"]),
            "nor is there one": (CPU_ONLY, CPU_ONLY, NO_GPU, []),
        }
    ),
)
def test_what_was_not_judged_is_said_also_of_what_passed(
    now: Run, blessed: Run, machine: Machine | None, said: list[str]
) -> None:
    baseline = blessed_as(blessed, **({} if machine is None else {"machine": machine}))
    verdict = gated([now], None, baseline, on=machine).verdict
    assert verdict.outcome is Outcome.PASSED
    assert [one.code for one in verdict.notes] == ["no-ab-run", *said]
    assert all(one.severity is Severity.WARN for one in verdict.notes)


def test_that_no_nccl_kernels_ran_is_nothing_to_say() -> None:
    run = without(Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS, why=NO_NCCL)
    assert codes([run], blessed_as(run)) == ["no-ab-run"]


@pytest.mark.parametrize(("mhz", "said"), [(1980, False), (1755, True)])
def test_why_the_quick_check_did_not_count_is_said(mhz: float, *, said: bool) -> None:
    verdict = gated(screen(0, clock_mhz=mhz), pairs(0, 0), FULL).verdict
    assert ("straight-to-ab-run" in [one.code for one in verdict.notes]) is said


def test_a_budget_without_effect_is_said_after_the_lack_of_an_ab_run() -> None:
    verdict = gated([slower(0)], policy=Policy(budgets={Metric.H2D_EXPOSED_MS: 0.01})).verdict
    assert [one.code for one in verdict.notes[:2]] == ["no-ab-run", "budget-without-effect"]


def test_a_count_that_rose_once_is_noted_next_to_what_passed() -> None:
    once = slower(0).model_copy(
        update={"processes": (records.process({**records.VALUES, Metric.SYNCS: 2.0}),)}
    )
    verdict = gated([once, slower(0)]).verdict
    assert verdict.outcome is Outcome.PASSED
    (noted,) = [one for one in verdict.notes if one.code == "metric-is"]
    what = noted.fields["what"]
    assert isinstance(what, Note)
    assert (noted.fields["metric"], what.code) == (Metric.SYNCS, "count-rose-once")


# What its runs, its baseline and its parameters leave unknown


def of_periods(*periods: float) -> Run:
    return with_process(records.run(), periods_ms=periods)


@pytest.mark.parametrize("baseline", [None, records.baseline()])
def test_a_slow_start_is_a_warning(baseline: Baseline | None) -> None:
    verdict = gated([of_periods(300.0, *[10.0] * 17)], None, baseline).verdict
    assert verdict.outcome is (Outcome.NO_BASELINE if baseline is None else Outcome.PASSED)
    assert (verdict.notes[-1].code, verdict.notes[-1].severity) == ("slow-start", Severity.WARN)


@pytest.mark.parametrize(
    ("baseline", "outcome", "said"),
    [
        (FULL, Outcome.PASSED, [note("parameters-unread", Severity.WARN, parameters=("model",))]),
        (None, Outcome.NO_BASELINE, []),
    ],
)
def test_parameters_that_no_text_shows_are_said_where_something_was_compared(
    baseline: Baseline | None, outcome: Outcome, said: list[Note]
) -> None:
    expected = expect(baseline)
    workload = expected.workload.model_copy(update={"by_id": ("model",)})
    lab = PreparedLab(made=screen(0), by_form={}, machine=expected.machine)
    verdict = check(Underway(expected.model_copy(update={"workload": workload}), lab, Policy()))
    found = [one for one in verdict.notes if one.code != "no-ab-run"]
    assert (verdict.outcome, found) == (outcome, said)
