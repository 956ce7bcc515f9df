"""Recorded gates: what each rule has of them, what is counted, and how it is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.decision import measured as measuring
from benchmarks.decision.measured import (
    AB_NOW,
    OWN,
    SCREEN_NOW,
    Found,
    Kind,
    RecordedBlessing,
    RecordedGate,
    RecordedLoop,
    RecordedRun,
    Recording,
    Summary,
    judge_recording,
    load,
    summarise,
)
from benchmarks.decision.results import load as load_results
from benchmarks.decision.table import markdown
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Stage


def values(step_ms: float, kernel_ms: float = 2.7) -> dict[Metric, float]:
    return {
        Metric.STEP_MS: step_ms,
        Metric.KERNEL_MS: kernel_ms,
        Metric.GAP_MS: 0.2,
        Metric.H2D_MS: 0.3,
    }


def runs(*step_ms: float, kernel_ms: float = 2.7) -> tuple[RecordedRun, ...]:
    return tuple(RecordedRun(values=values(value, kernel_ms)) for value in step_ms)


def loop(
    *gates: RecordedGate, name: str = "gpu_bound", blessed: Sequence[float] = (3.0, 3.2)
) -> RecordedLoop:
    kind = Kind.GPU_BOUND if name == "gpu_bound" else Kind.CPU_BOUND
    baseline = tuple(RecordedBlessing(occasion=0, values=values(value)) for value in blessed)
    return RecordedLoop(name=name, kind=kind, baseline=baseline, gates=gates)


SCREENED = RecordedGate(
    slowdown=0,
    outcome=Outcome.PASSED,
    stage=Stage.SCREEN,
    took_s=28,
    candidate=runs(3.1, 3.2, 3.3),
    runs=3,
)
AB_GATE = RecordedGate(
    slowdown=0.02,
    outcome=Outcome.REGRESSED,
    stage=Stage.AB_RUN,
    regressed=(Metric.KERNEL_MS,),
    reference=runs(4.0, 4.0, 4.0, kernel_ms=3.0),
    candidate=(*runs(9.0, 9.0, 9.0), *runs(4.1, 4.1, 4.1, kernel_ms=3.06)),
    runs=9,
)


def judged(gate: RecordedGate, blessed: Sequence[float] = (3.2,) * 5) -> dict[str, Found]:
    recording = Recording(machine={}, loops=(loop(gate, blessed=blessed),))
    return {one.rule: one for one in judge_recording(recording, ())}


def pairs(longer: float, *, apart: float = 0.001) -> RecordedGate:
    changes = (1 - apart, 1.0, 1 + apart)
    there, here = (runs(*(step * change for change in changes)) for step in (3.2, 3.2 * longer))
    own = runs(9.0, 9.0, 9.0)
    return AB_GATE.model_copy(update={"reference": there, "candidate": (*own, *here), "runs": 9})


@pytest.mark.behaviour
@pytest.mark.parametrize(
    ("longer", "apart", "passed", "regressed"),
    [(1.0, 0.001, 1, 0), (1.03, 0.001, 0, 1), (1.01, 0.02, 0, 0)],
)
def test_recorded_pairs_are_judged_again_as_far_as_they_go(
    longer: float, apart: float, passed: int, regressed: int
) -> None:
    now = judged(pairs(longer, apart=apart))[AB_NOW]
    assert (now.passed, now.regressed, now.inconclusive, now.runs) == (
        passed,
        regressed,
        1 - passed - regressed,
        6,
    )


@pytest.mark.behaviour
def test_a_stall_in_a_few_steps_counts_for_what_it_adds_to_the_mean_and_no_more() -> None:
    def stalled(
        of: tuple[RecordedRun, ...], periods_us: tuple[int, ...]
    ) -> tuple[RecordedRun, ...]:
        return tuple(run.model_copy(update={"periods_us": periods_us}) for run in of)

    gate = pairs(1.0)
    quiet, stalls, third = (3200,) * 50, (3200,) * 49 + (32000,), ((3200,) * 2 + (3500,)) * 17
    for periods_us, regressed in ((stalls, 0), (third, 1)):
        candidate = stalled(gate.candidate, periods_us)
        changed = gate.model_copy(
            update={"reference": stalled(gate.reference, quiet), "candidate": candidate}
        )
        assert judged(changed)[AB_NOW].regressed == regressed


@pytest.mark.behaviour
@pytest.mark.parametrize(("kernel_ms", "passed"), [(2.7, 1), (2.74, 0)])
def test_a_screen_is_judged_again_by_all_but_the_steps(kernel_ms: float, passed: int) -> None:
    gate = SCREENED.model_copy(
        update={"candidate": runs(*[3.5] * 5, kernel_ms=kernel_ms), "runs": 5}
    )
    now = judged(gate)[SCREEN_NOW]
    assert (now.passed, now.regressed, now.runs) == (passed, 0, 5 if passed else 3)


FOLDER = Path(measuring.__file__).parent


def test_the_committed_numbers_of_real_gates_are_of_their_recording_and_the_judge_of_now() -> None:
    recording = load(FOLDER / "h200.json")
    committed = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))["measured"]
    found = [Found.model_validate(one) for one in committed["found"]]
    shown = [Summary.model_validate(one) for one in committed["summaries"]]
    own = judge_recording(recording, ())
    assert ([one for one in found if one.rule in OWN], shown) == (own, summarise(recording)), (
        "python -m benchmarks.decision measured"
    )
    assert committed["machine"] == recording.machine
    assert tuple(committed["notes"]) == recording.notes


def test_the_committed_table_is_of_the_committed_numbers() -> None:
    made = markdown(load_results(FOLDER / "results.json"))
    assert (FOLDER / "RESULTS.md").read_text(encoding="utf-8") == made, (
        "python -m benchmarks.decision render"
    )
