"""Rows of what no verdict rests on, and a slow start of every run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support import records
from support.cases import named
from support.judging import Columns, blessed, judged, measured

from perfgate.explain.shown import slow_starts, start_notes, with_shown
from perfgate.model.metric import Metric
from perfgate.model.note import Severity
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import MetricVerdict, Verdict

M = Metric
STEP: Columns = {M.STEP_MS: [10.0]}


def shown(before: Columns, now: Columns) -> Verdict:
    then, runs = blessed(before), measured(now)
    return with_shown(judged(then, runs, budgets={M.NCCL_MS: 0.01}), then.runs, runs)


def nccl(before: Columns, now: Columns) -> MetricVerdict:
    row = shown(before, now).of(M.NCCL_MS)
    assert row is not None
    return row


def code(row: MetricVerdict) -> str | None:
    return None if row.note is None else row.note.code


def test_what_is_new_or_has_no_budget_is_shown_in_its_place_and_shuts_nothing() -> None:
    verdict = shown(
        {**STEP, M.NCCL_MS: [1.0]},
        {M.STEP_MS: [10.0] * 5, M.KERNEL_MS: [8.0] * 5, M.NCCL_MS: [3.0] * 5},
    )
    assert verdict.outcome is Outcome.PASSED
    rows = [(row.metric, row.outcome, row.baseline, row.now) for row in verdict.metrics]
    assert rows[1:] == [(M.KERNEL_MS, None, None, 8.0), (M.NCCL_MS, None, 1.0, 3.0)]


def test_what_is_shown_only_may_be_new_or_missing() -> None:
    with_nccl = {**STEP, M.NCCL_MS: [1.0]}
    new, gone = nccl(STEP, with_nccl), nccl(with_nccl, STEP)
    partly = nccl({M.STEP_MS: [10.0, 10.0], M.NCCL_MS: [1.0, None]}, STEP)
    assert (new.now, code(new)) == (1.0, "new-to-show")
    assert (gone.baseline, gone.now, code(gone)) == (1.0, None, "missing-in-runs")
    assert (partly.now, code(partly)) == (None, "new-to-show")


def test_a_change_of_what_is_shown_only_is_of_the_other_sides_step() -> None:
    exposed: Columns = {M.STEP_MS: [10.0], M.H2D_EXPOSED_MS: [1.0]}
    row = shown(exposed, {**exposed, M.H2D_EXPOSED_MS: [1.5]}).of(M.H2D_EXPOSED_MS)
    assert row is not None
    assert row.change == 0.05
    assert code(row) == "only-shown"


# A slow start


def run(periods_ms: Sequence[float]) -> Run:
    process = records.process().model_copy(update={"periods_ms": tuple(periods_ms)})
    return records.run(processes=[process])


SLOW = run([300.0, *[10.0] * 17])


def test_first_steps_that_are_slow_in_every_run_are_a_warning_with_what_to_raise() -> None:
    (found,) = start_notes([run([*[300.0] * slow, *[10.0] * 17]) for slow in (1, 4, 2)])
    assert (found.code, found.severity) == ("slow-start", Severity.WARN)
    assert found.fields == {
        "found": 3,
        "runs": 3,
        "longest_ms": 300.0,
        "usual_ms": 10.0,
        "last": 4,
        "warmup": 6,
    }


@pytest.mark.parametrize(
    "runs",
    named(
        {
            "not in every run": ([SLOW, run([10.0] * 18), SLOW],),
            "one run": ([SLOW],),
            "not far slower": ([run([19.0, *[10.0] * 17])] * 3,),
            "nearly as slow later": ([run([30.0, *[10.0] * 11, 25.0, *[10.0] * 5])] * 3,),
            "not the first": ([run([10.0, 300.0, *[10.0] * 16])] * 3,),
            "too few to compare with": ([run([300.0, *[10.0] * 8])] * 3,),
            "no process": ([records.run(processes=[])] * 3,),
            "blocks": ([SLOW.model_copy(update={"begins": True})] * 3,),
        }
    ),
)
def test_a_start_that_may_be_chance_or_the_loops_own_is_not_noted(runs: list[Run]) -> None:
    assert slow_starts(runs) == []
    assert start_notes(runs) == ()
