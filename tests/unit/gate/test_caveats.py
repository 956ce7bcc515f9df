"""Which remarks of its runs a verdict repeats: what most of them share, each once, not what sound loops all have."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support import records
from support.prepared import Candidate, expect
from support.timelines import draw

from perfgate.gate import Expectation, Policy, check
from perfgate.gate.caveats import asides, caveats, shared
from perfgate.metrics.measure import measure
from perfgate.model.baseline import Baseline, BlessedRun
from perfgate.model.metric import METRICS, PERIODS, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import NO_NCCL, Run
from perfgate.model.verdict import Verdict

AHEAD = "the CPU runs ahead of the GPU: the step range lasts 5 ms, a step takes 12 ms"
BETWEEN = (
    "GPU operations were launched between the steps and count to the step before them (2 per step)"
)
COLON = "ranges match 'step #' only after a colon, where others match with less cut off, and are not counted (30): lib:#"


def remarking(*remarks: str, complaints: tuple[str, ...] = ()) -> Run:
    return records.run().model_copy(update={"remarks": remarks, "complaints": complaints})


def judged(*made: Run, baseline: Baseline | None) -> Verdict:
    return check(expect(baseline), Policy(), Candidate(*made)).verdict


def test_times_that_may_hide_a_loss_are_told_also_of_what_passed() -> None:
    slow = {"periods_ms": (60.0, *[12.3] * 13)}
    made = [
        run.model_copy(update={"processes": (run.processes[0].model_copy(update=slow),)})
        for run in records.runs()[:3]
    ]
    verdict = judged(*made, baseline=records.baseline())
    assert verdict.outcome is Outcome.PASSED
    (caveat,) = verdict.caveats
    assert "60.00 ms" in caveat
    assert verdict.remarks == ()


def test_what_most_runs_remark_is_told_once_with_the_numbers_of_the_first() -> None:
    runs = [
        remarking(AHEAD, f"step ranges were never closed and are not counted ({n})")
        for n in (1, 2, 3)
    ]
    assert shared(runs) == (AHEAD, "step ranges were never closed and are not counted (1)")


def test_what_half_of_the_runs_remark_is_not_told() -> None:
    assert shared([remarking(COLON), remarking()]) == ()
    assert shared([remarking(COLON), remarking(), remarking(COLON)]) == (COLON,)
    assert shared([]) == ()


ROUTINE = {
    "ahead": """
        range   |step| |step| |step|
        launch    ^a     ^b     ^c
        kernel     |-----a-----|-----b-----|-----c-----|
        """,
    "CPU only": "range |--step--| |--step--|   |--step--|",
}
EXPLAINED = {
    "between": """
        range   |----step----|      |----step----|      |----step----|
        launch     ^a            ^x    ^b            ^y    ^c             ^z
        kernel      |a|           |x|   |b|           |y|   |c|            |z|
        """,
    "without calls": """
        range   |----step----|  |----step----|  |----step----|
        kernel      |a|             |b|             |c|
        """,
    "whole graphs": """
        range   |----step----|  |----step----|  |----step----|
        launch     ^a              ^b              ^c
        graph       |-a-|           |-b-|           |-c-|
        """,
    "start/end ranges": """
        range      |----step----|  |----step----|  |----step----|
        startend     |-load-|        |-load-|        |-load-|
        range            |-f-|           |-f-|           |-f-|
        """,
    "in flight": """
        startend   |---step---|        |---step---|
        startend         |---step---|
        """,
}


def remarks_of(picture: str) -> tuple[str, ...]:
    (sample,) = measure(draw(picture), step="step", steps=None)
    assert sample.remarks
    return sample.remarks


@pytest.mark.parametrize("picture", ROUTINE.values(), ids=ROUTINE.keys())
def test_what_sound_loops_have_is_told_by_no_verdict(picture: str) -> None:
    told = remarks_of(picture)
    assert (caveats(told), asides(told)) == ((), ())


@pytest.mark.parametrize("picture", EXPLAINED.values(), ids=EXPLAINED.keys())
def test_what_is_in_the_numbers_all_the_same_is_told_beside_them(picture: str) -> None:
    told = [remark for remark in remarks_of(picture) if "CPU time only" not in remark]
    assert (caveats(told), asides(told)) == ((), tuple(told))


def test_what_is_not_in_the_numbers_is_a_caveat() -> None:
    lost = "GPU operations have no times in the capture and count as 0 ms (1)"
    assert caveats((AHEAD, COLON, BETWEEN, lost)) == (COLON, lost)
    assert asides((AHEAD, COLON, BETWEEN, lost)) == (BETWEEN,)


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.NO_BASELINE])
def test_a_verdict_bears_the_caveats_of_its_runs(outcome: Outcome) -> None:
    baseline = records.baseline() if outcome is Outcome.PASSED else None
    verdict = judged(remarking(AHEAD, BETWEEN, COLON), baseline=baseline)
    assert (verdict.outcome, verdict.caveats, verdict.remarks) == (outcome, (COLON,), (BETWEEN,))


@pytest.mark.parametrize(
    ("untold", "holding"),
    [(("net",), "parameter net holds"), (("data", "net"), "parameters data and net hold")],
)
def test_of_parameters_that_no_text_tells_it_is_said_that_they_are_not_compared(
    untold: tuple[str, ...], holding: str
) -> None:
    def caveats_of(baseline: Baseline | None) -> tuple[str, ...]:
        expectation = expect(baseline)
        workload = expectation.workload.model_copy(update={"untold": untold})
        asked = expectation.model_copy(update={"workload": workload})
        return check(asked, Policy(), Candidate(records.run())).verdict.caveats

    assert caveats_of(records.baseline()) == (
        (
            f"not compared with the baseline is what {holding}, but for type and id (plain values and dataclasses are)"
        ),
    )
    assert caveats_of(None) == ()


MERGED = "the capture does not say which GPU each of its 2 processes used"


def without(
    *metrics: Metric, why: str = MERGED, values: Mapping[Metric, float] = records.VALUES
) -> Run:
    left = {metric: value for metric, value in values.items() if metric not in metrics}
    return records.run(processes=(records.process(left, absent=dict.fromkeys(metrics, why)),))


def blessed_as(run: Run) -> Baseline:
    baseline = records.baseline()
    occasion = baseline.occasions[0].model_copy(update={"runs": (BlessedRun.of(run),) * 5})
    return baseline.model_copy(update={"occasions": (occasion,)})


def test_what_neither_side_measured_is_named_by_a_verdict_that_passes() -> None:
    run = without(Metric.GAP_MS, Metric.H2D_MS, Metric.PAGEABLE_COPIES, Metric.NCCL_MS)
    verdict = judged(run, baseline=blessed_as(run))
    told = f"not judged, as neither side measured them: gap_ms and h2d_ms ({MERGED})"
    assert (verdict.outcome, verdict.caveats) == (Outcome.PASSED, (told,))
    open_rows = [
        row.metric for row in verdict.metrics if row.outcome is None and METRICS[row.metric].gated
    ]
    assert open_rows == [Metric.GAP_MS, Metric.H2D_MS, Metric.PAGEABLE_COPIES]
    one = without(Metric.GAP_MS)
    told = f"not judged, as neither side measured it: gap_ms ({MERGED})"
    assert judged(one, baseline=blessed_as(one)).caveats == (told,)


def test_counts_that_one_process_keeps_from_being_judged_are_named() -> None:
    """An actor beside a learner, say, that marks its steps and uses no GPU."""
    idle = "process 8 launched no GPU operation in its steps"
    own = without(*(metric for metric in METRICS if metric not in PERIODS), why=idle).processes[0]
    run = records.run(processes=(records.process(), own.model_copy(update={"pid": 8})))
    (told,) = judged(run, baseline=blessed_as(run)).caveats
    assert told == (
        "not judged, as neither side measured them: kernel_ms, gap_ms, h2d_ms, nccl_exposed_ms, launches, "
        "graph_launches, h2d_copies, h2d_bytes, d2h_copies, pageable_copies and syncs "
        f"({idle})"
    )


def test_what_the_baseline_was_blessed_without_is_named_by_a_verdict_that_passes() -> None:
    run = records.run()
    old = blessed_as(without(Metric.GAP_MS, Metric.H2D_MS))
    verdict = judged(run, baseline=old)
    told = (
        "not judged, as the baseline does not have them: gap_ms and h2d_ms; bless anew to gate them"
    )
    assert (verdict.outcome, verdict.caveats) == (Outcome.PASSED, (told,))
    told = "not judged, as the baseline does not have it: gap_ms; bless anew to gate it"
    assert judged(run, baseline=blessed_as(without(Metric.GAP_MS))).caveats == (told,)
    # What is shown only is never gated.
    assert judged(run, baseline=blessed_as(without(Metric.NCCL_MS))).caveats == ()


def test_that_no_nccl_kernels_ran_is_no_caveat() -> None:
    run = without(Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS, why=NO_NCCL)
    verdict = judged(run, baseline=blessed_as(run))
    assert (verdict.outcome, verdict.caveats, verdict.of(Metric.NCCL_EXPOSED_MS)) == (
        Outcome.PASSED,
        (),
        None,
    )


@pytest.mark.parametrize("has_gpu", [True, False])
def test_a_loop_that_used_no_gpu_passes_and_says_once_what_that_leaves_out(
    *, has_gpu: bool
) -> None:
    gone = [metric for metric in METRICS if metric not in PERIODS]
    run = without(*gone, why="the capture holds no GPU operations")
    machine = records.machine() if has_gpu else records.machine().model_copy(update={"gpus": ()})
    baseline = blessed_as(run).model_copy(update={"machine": machine})
    series = Candidate(run)
    series.machine = machine
    verdict = check(
        Expectation(workload=records.workload(), machine=machine, baseline=baseline),
        Policy(),
        series,
    )
    told = (
        "not judged, as neither side measured them: kernel_ms, gap_ms, h2d_ms and nccl_exposed_ms "
        "(the capture holds no GPU operations)"
    )
    assert verdict.verdict.outcome is Outcome.PASSED
    assert [row.metric for row in verdict.verdict.metrics] == [Metric.STEP_MS]
    assert verdict.verdict.caveats == ((told,) if has_gpu else ())


def test_a_run_that_does_not_count_tells_what_explains_it() -> None:
    lost = remarking(
        AHEAD, COLON, complaints=("steps were lost: process 7 shows 7 of 20 measured steps",)
    )
    verdict = judged(remarking(), remarking(), lost, baseline=records.baseline())
    assert (
        verdict.reason
        == "run 3 does not count: steps were lost: process 7 shows 7 of 20 measured steps."
    )
    assert (verdict.outcome, verdict.caveats) == (Outcome.INVALID, (COLON,))
