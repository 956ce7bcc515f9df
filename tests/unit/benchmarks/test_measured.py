"""Recorded gates: what each rule has of them, what is counted, and how it is told."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, cast

import pytest
from pydantic import ValidationError

from benchmarks.decision import measured as measuring
from benchmarks.decision.measured import (
    AB_NOW,
    OWN,
    SCREEN_NOW,
    THEN,
    Found,
    Kind,
    RecordedBlessing,
    RecordedGate,
    RecordedLoop,
    RecordedRun,
    Recording,
    Spoilt,
    Told,
    gate_of,
    judge_recording,
    load,
    samples_of,
    save,
    tell_recording,
)
from perfgate.model.baseline import Result
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import ProcessSample, RangeSample, Run
from perfgate.model.verdict import MetricVerdict, Stage, Verdict
from perfgate.model.workload import Workload

if TYPE_CHECKING:
    from benchmarks.decision.peers import Peer

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


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
DUEL = RecordedGate(
    slowdown=0.02,
    outcome=Outcome.REGRESSED,
    stage=Stage.DUET,
    regressed=(Metric.KERNEL_MS,),
    reference=runs(4.0, 4.0, 4.0, kernel_ms=3.0),
    candidate=(*runs(9.0, 9.0, 9.0), *runs(4.1, 4.1, 4.1, kernel_ms=3.06)),
    runs=9,
)
INTERLEAVED = RecordedGate(
    slowdown=0.02,
    outcome=Outcome.REGRESSED,
    stage=Stage.INTERLEAVED,
    regressed=(Metric.STEP_MS,),
    reference=runs(2.5, 2.6, 2.7),
    interleaved=runs(2.6, 2.7, 2.8),
    runs=6,
)


@dataclass(frozen=True)
class Noting:
    """A peer that notes what it is given, and says what it was made to."""

    name: str = "noting"
    says: bool = True
    alongside: bool = False

    def slower(self, before: Sequence[float], after: Sequence[float]) -> bool:
        GIVEN.append((tuple(before), tuple(after)))
        return self.says


GIVEN: list[tuple[tuple[float, ...], tuple[float, ...]]] = []


def peers(*noting: Noting) -> Sequence[Peer]:
    GIVEN.clear()
    return cast("Sequence[Peer]", noting)


# What a peer has


@pytest.mark.parametrize(
    ("gate", "before", "after", "made"),
    [
        (SCREENED, [3.0, 3.2], [3.1, 3.2, 3.3], 3),
        (DUEL, [3.0, 3.2], [9.0, 9.0, 9.0, 4.1, 4.1, 4.1], 6),
        (INTERLEAVED, [2.5, 2.6, 2.7], [2.6, 2.7, 2.8], 6),
    ],
)
def test_a_peer_has_the_blessed_runs_but_both_sides_of_an_interleaved_duet(
    gate: RecordedGate, before: list[float], after: list[float], made: int
) -> None:
    assert samples_of(loop(gate), gate) == (before, after, made)


def test_screen_runs_before_an_interleaved_duet_are_not_mixed_with_it() -> None:
    both = INTERLEAVED.model_copy(update={"candidate": runs(3.1, 3.1, 3.1), "runs": 9})
    assert samples_of(loop(both), both) == ([2.5, 2.6, 2.7], [2.6, 2.7, 2.8], 6)


def test_rules_are_counted_by_loop_and_slowdown_over_all_parts() -> None:
    again = INTERLEAVED.model_copy(update={"outcome": Outcome.INCONCLUSIVE, "regressed": ()})
    recording = Recording(
        machine={},
        loops=(
            loop(SCREENED, DUEL, blessed=(3.0, 3.1, 3.2)),
            loop(INTERLEAVED, name="cpu_bound"),
            loop(again, name="cpu_bound"),
        ),
    )
    found = {
        (one.loop, one.slowdown, one.rule): one
        for one in judge_recording(recording, peers(Noting()))
    }
    assert [
        (key, one.gates, one.passed, one.regressed, one.inconclusive) for key, one in found.items()
    ] == [
        (("gpu_bound", 0.0, THEN), 1, 1, 0, 0),
        (("gpu_bound", 0.0, SCREEN_NOW), 1, 1, 0, 0),
        (("gpu_bound", 0.0, "noting"), 1, 0, 1, 0),
        (("gpu_bound", 0.02, THEN), 1, 0, 1, 0),
        (("gpu_bound", 0.02, AB_NOW), 1, 0, 1, 0),
        (("gpu_bound", 0.02, SCREEN_NOW), 1, 1, 0, 0),
        (("gpu_bound", 0.02, "noting"), 1, 0, 1, 0),
        (("cpu_bound", 0.02, THEN), 2, 0, 1, 1),
        (("cpu_bound", 0.02, AB_NOW), 2, 0, 2, 0),
        (("cpu_bound", 0.02, "noting"), 2, 0, 2, 0),
    ]
    assert (found["gpu_bound", 0.02, THEN].runs, found["gpu_bound", 0.02, AB_NOW].runs) == (9, 6)
    assert GIVEN[-1] == ((2.5, 2.6, 2.7), (2.6, 2.7, 2.8))


def test_a_peer_calls_nothing_slower_on_fewer_than_three_runs_a_side_and_none_runs_alongside() -> (
    None
):
    few = SCREENED.model_copy(update={"candidate": runs(9.0, 9.0), "runs": 2})
    rules = judge_recording(
        Recording(machine={}, loops=(loop(few),)), peers(Noting(), Noting("beside", alongside=True))
    )
    assert {one.rule: one.regressed for one in rules} == {THEN: 0, "noting": 0}
    assert GIVEN == []


def judged(gate: RecordedGate, blessed: Sequence[float] = (3.2,) * 5) -> dict[str, Found]:
    recording = Recording(machine={}, loops=(loop(gate, blessed=blessed),))
    return {one.rule: one for one in judge_recording(recording, peers())}


def pairs(longer: float, *, apart: float = 0.001) -> RecordedGate:
    changes = (1 - apart, 1.0, 1 + apart)
    there, here = (runs(*(step * change for change in changes)) for step in (3.2, 3.2 * longer))
    own = runs(9.0, 9.0, 9.0)
    return DUEL.model_copy(update={"reference": there, "candidate": (*own, *here), "runs": 9})


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


def test_gates_with_budgets_of_their_own_are_those_of_another_loop() -> None:
    by_step = DUEL.model_copy(update={"budgets": {Metric.KERNEL_MS: 0.1}})
    spoilt = Spoilt(slowdown=0.02, budgets={Metric.KERNEL_MS: 0.1}, why="the time was up")
    part = loop(DUEL, by_step, by_step).model_copy(update={"spoilt": (spoilt,)})
    told = tell_recording(Recording(machine={}, loops=(part, loop(INTERLEAVED, name="cpu_bound"))))
    assert [(one.loop, one.gates, one.spoilt) for one in told] == [
        ("gpu_bound", 1, 0),
        ("gpu_bound, kernel_ms held to 0.1", 2, 1),
        ("cpu_bound", 1, 0),
    ]


# What the gates were like


def test_what_the_planted_work_came_to_is_told_by_the_two_sides_that_were_compared() -> None:
    spoilt = (
        Spoilt(slowdown=0.02, why="the time was up, after 200 s"),
        Spoilt(slowdown=0.03, why="INVALID: x"),
    )
    part = loop(SCREENED, DUEL, blessed=(3.0, 3.1, 3.2)).model_copy(update={"spoilt": spoilt})
    unchanged, slowed, lost = tell_recording(Recording(machine={}, loops=(part,)))
    assert (unchanged.gates, unchanged.stages, unchanged.runs, unchanged.took_s) == (
        1,
        {"screen": 1},
        3,
        28,
    )
    assert unchanged.step_change == pytest.approx(3.2 / 3.1 - 1)
    assert (slowed.spoilt, slowed.stages) == (1, {"duet": 1})
    assert slowed.step_change == pytest.approx(0.025)
    assert slowed.kernel_change == pytest.approx(0.02)
    assert (lost.slowdown, lost.gates, lost.spoilt, lost.step_change) == (0.03, 0, 1, None)


def test_of_an_interleaved_duet_each_run_is_held_against_the_other_of_its_pair() -> None:
    moody = INTERLEAVED.model_copy(
        update={
            "reference": runs(2.0, 4.0, 3.0),
            "interleaved": runs(2.04, 4.08, 3.3),
            "regressed": (),
        }
    )
    (told,) = tell_recording(Recording(machine={}, loops=(loop(moody, name="cpu_bound"),)))
    assert told.step_change == pytest.approx(0.02)
    assert told.kernel_change == pytest.approx(0.0)


# The file


def test_what_was_recorded_of_the_planted_work_and_of_its_effect_is_told_as_it_is() -> None:
    told_there = INTERLEAVED.model_copy(update={"planted_step": 0.019, "step_change": 0.021})
    (told,) = tell_recording(
        Recording(machine={}, loops=(loop(told_there, told_there, name="cpu_bound"),))
    )
    assert (told.planted_step, told.step_change) == (0.019, 0.021)


def interleaved(
    reference: Run, candidate: Run, *, outcome: Outcome, rows: tuple[MetricVerdict, ...] = ()
) -> Result:
    """What is kept of three pairs, all alike."""
    return Result(
        workload=Workload(id="cpu_bound", source="workloads/loops.py", steps=30, warmup=50),
        machine=Machine(),
        commit=None,
        measured_at=NOW,
        code={},
        runs=(),
        reference_runs=(reference,) * 3,
        interleaved_runs=(candidate,) * 3,
        verdict=Verdict(
            workload="cpu_bound",
            outcome=outcome,
            reason="as it was.",
            metrics=rows,
            runs=3,
            stage=Stage.INTERLEAVED,
        ),
    )


@pytest.mark.parametrize(("reference", "told"), [(0.001, (0.055 - 0.001) / 2.0), (None, None)])
def test_what_planted_work_came_to_is_what_its_own_range_lasts(
    reference: float | None, told: float | None
) -> None:
    def spinning(spent_ms: float | None) -> Run:
        ranges = [RangeSample(name="step", count=1, cpu_ms=2.0)]
        if spent_ms is not None:
            ranges.append(RangeSample(name="spin", count=1, cpu_ms=spent_ms))
        process = ProcessSample(
            pid=1, steps=4, values={Metric.STEP_MS: 2.0}, window_ms=100, ranges=tuple(ranges)
        )
        return Run(started_at=NOW, wall_s=9, processes=(process,))

    result = interleaved(spinning(reference), spinning(0.055), outcome=Outcome.PASSED)
    found = gate_of(result, slowdown=0.02, planted_ms=0.05).planted_step
    assert found == (None if told is None else pytest.approx(told))
    assert gate_of(result, slowdown=0.0).planted_step is None


def test_a_gate_is_recorded_from_what_was_kept() -> None:
    process = ProcessSample(
        pid=1,
        steps=4,
        values={Metric.STEP_MS: 2.7182818, Metric.SYNCS: 1},
        window_ms=100,
        periods_ms=(2.71234, 2.7),
    )
    run = Run(started_at=NOW, wall_s=9, processes=(process,))
    rows = (
        MetricVerdict(metric=Metric.STEP_MS, outcome=Outcome.REGRESSED, change=0.0212345678),
        MetricVerdict(metric=Metric.GAP_MS, outcome=Outcome.PASSED),
    )
    result = interleaved(run, run, outcome=Outcome.REGRESSED, rows=rows)
    gate = gate_of(result, slowdown=0.02, planted_ms=0.0543656, took_s=71.234)
    side = (RecordedRun(values={Metric.STEP_MS: 2.71828}, periods_us=(2712, 2700)),) * 3
    assert gate == RecordedGate(
        slowdown=0.02,
        planted_ms=0.0543656,
        at=NOW,
        took_s=71.2,
        outcome=Outcome.REGRESSED,
        stage=Stage.INTERLEAVED,
        regressed=(Metric.STEP_MS,),
        step_change=0.0212346,
        reference=side,
        interleaved=side,
        runs=6,
    )


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"candidate": ()}, "a gate has runs of the candidate"),
        ({"runs": 4}, "runs is 4, the values given are of 3 runs"),
        ({"interleaved": runs(1.0), "runs": 4}, "1 interleaved runs have 0 other sides"),
    ],
)
def test_runs_that_are_missing_are_noticed(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        RecordedGate.model_validate({**SCREENED.model_dump(), **changes})


def test_a_recording_comes_back_as_it_was_and_its_gates_have_a_line_each(tmp_path: Path) -> None:
    recording = Recording(
        machine={"GPU": "NVIDIA H200"},
        remarks=("Measured on 1 GPU of 1 machine, 2 baselines.",),
        loops=(loop(SCREENED, DUEL), loop(INTERLEAVED, name="cpu_bound")),
    )
    save(recording, tmp_path / "out.json")
    assert load(tmp_path / "out.json") == recording
    lines = (tmp_path / "out.json").read_text().splitlines()
    assert sum(line.startswith('{"slowdown"') for line in lines) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_hundred_gates_with_all_their_periods_are_below_a_megabyte(tmp_path: Path) -> None:
    random = Random(0)

    def side(number: int, steps: int) -> tuple[RecordedRun, ...]:
        values = {
            metric: round(random.uniform(1, 4), 5)
            for metric in (Metric.STEP_MS, Metric.KERNEL_MS, Metric.GAP_MS)
        }
        periods = tuple(random.randrange(2500, 3500) for _ in range(steps))
        return (RecordedRun(values=values, periods_us=periods),) * number

    screened = SCREENED.model_copy(update={"candidate": side(3, 29)})
    duel = DUEL.model_copy(update={"reference": side(8, 29), "candidate": side(11, 29), "runs": 19})
    turns = INTERLEAVED.model_copy(
        update={"reference": side(6, 135), "interleaved": side(6, 135), "runs": 12}
    )
    recording = Recording(
        machine={},
        loops=(loop(*[screened] * 25, *[duel] * 25), loop(*[turns] * 50, name="cpu_bound")),
    )
    save(recording, tmp_path / "out.json")
    assert (tmp_path / "out.json").stat().st_size < 1_000_000


# The peers' own code, and the text


def drawn(
    *, seed: int, gates: int, make: Callable[[Random, float], RecordedGate]
) -> list[RecordedGate]:
    random = Random(seed)
    return [make(random, slowdown) for slowdown in (0.0, 0.03) for _ in range(gates)]


def of_gpu(random: Random, slowdown: float) -> RecordedGate:
    """Quiet runs, which the stored baseline settles."""
    values = (3.2 * (1 + slowdown) * math.exp(random.gauss(0, 0.002)) for _ in range(3))
    outcome = Outcome.REGRESSED if slowdown else Outcome.PASSED
    regressed = (Metric.KERNEL_MS,) if slowdown else ()
    return RecordedGate(
        slowdown=slowdown,
        outcome=outcome,
        stage=Stage.SCREEN,
        regressed=regressed,
        candidate=runs(*values),
        runs=3,
    )


def of_cpu(random: Random, slowdown: float) -> RecordedGate:
    """Pairs that share their moods: 4 % between pairs, 0.5 % within one."""
    moods = [random.gauss(0, 0.04) for _ in range(6)]

    def side(more: float) -> tuple[RecordedRun, ...]:
        times = [2.8 * (1 + more) * math.exp(mood + random.gauss(0, 0.005)) for mood in moods]
        return runs(*times, kernel_ms=0.7)

    outcome = Outcome.REGRESSED if slowdown else Outcome.PASSED
    regressed = (Metric.STEP_MS,) if slowdown else ()
    return RecordedGate(
        slowdown=slowdown,
        outcome=outcome,
        stage=Stage.INTERLEAVED,
        regressed=regressed,
        reference=side(0.0),
        interleaved=side(slowdown),
        runs=12,
    )


def synthetic() -> Recording:
    random = Random(1)
    blessed = {
        name: [3.2 * math.exp(random.gauss(0, sd)) for _ in range(10)]
        for name, sd in SPREADS.items()
    }
    return Recording(
        machine={"GPU": "NVIDIA H200", "driver": "580"},
        remarks=("Measured on 2 GPUs of 1 machine, 2 baselines.",),
        loops=(
            loop(*drawn(seed=2, gates=20, make=of_gpu), blessed=blessed["gpu_bound"]),
            loop(
                *drawn(seed=3, gates=20, make=of_cpu),
                name="cpu_bound",
                blessed=blessed["cpu_bound"],
            ),
        ),
    )


SPREADS = {"gpu_bound": 0.002, "cpu_bound": 0.04}
FOLDER = Path(measuring.__file__).parent


def test_the_committed_numbers_of_real_gates_are_of_their_recording_and_the_judge_of_now() -> None:
    recording = load(FOLDER / "h200.json")
    committed = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))["measured"]
    found = [Found.model_validate(one) for one in committed["found"]]
    told = [Told.model_validate(one) for one in committed["told"]]
    own = judge_recording(recording, ())
    assert ([one for one in found if one.rule in OWN], told) == (own, tell_recording(recording)), (
        "python -m benchmarks.decision measured"
    )
    assert committed["machine"] == recording.machine
    assert tuple(committed["remarks"]) == recording.remarks


def with_peers(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Skip where the peers are not there, and let none of what they import start a process."""
    patch.setattr("platform._Processor.get", lambda: "")  # or asv would ask `uname`
    pytest.importorskip("asv", reason="the peers are not installed here: pip install -e '.[bench]'")
    pytest.importorskip(
        "pytest_benchmark", reason="the peers are not installed here: pip install -e '.[bench]'"
    )
    with patch.context() as without:
        # Where nobody has drawn before, matplotlib would ask `fc-list` for the fonts: it has some of its own.
        without.setenv("MPLCONFIGDIR", str(folder))
        without.setattr("subprocess.check_output", lambda *_, **__: b"")
        pytest.importorskip(
            "matplotlib.font_manager", reason="nothing draws here: pip install -e '.[bench]'"
        )


def test_the_committed_table_is_of_the_committed_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_peers(monkeypatch, tmp_path)
    from benchmarks.decision.results import load as load_results
    from benchmarks.decision.table import markdown

    made = markdown(load_results(FOLDER / "results.json"))
    assert (FOLDER / "RESULTS.md").read_text(encoding="utf-8") == made, (
        "python -m benchmarks.decision render"
    )


def test_the_peers_judge_both_loops_by_their_own_code_and_the_text_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_peers(monkeypatch, tmp_path)
    from benchmarks.decision.__main__ import main

    save(synthetic(), tmp_path / "recording.json")
    assert (
        main(["measured", "--recording", str(tmp_path / "recording.json"), "--out", str(tmp_path)])
        == 0
    )
    text = (tmp_path / "RESULTS.md").read_text()
    assert "\nMeasured on 2 GPUs of 1 machine, 2 baselines.\n" in text
    gpu, cpu = text.partition("### gpu_bound (gpu-bound)")[2].split("### cpu_bound (cpu-bound)")
    for of_loop, rule, runs_a_gate in ((gpu, THEN, "3.0"), (cpu, THEN, "12.0")):
        rows = [line for line in of_loop.splitlines() if line.startswith(f"| **{rule}** ")]
        assert rows == [
            f"| **{rule}** | 0 of 20: 0-17 % ({runs_a_gate}) | 20 of 20: 83-100 % ({runs_a_gate}) |"
        ]
    (now,) = (line for line in cpu.splitlines() if line.startswith(f"| **{AB_NOW}** "))
    assert [cell.split(" of ")[0].strip() for cell in now.split("|")[2:4]] == ["0", "20"]
    # Where moods differ by 4 %, 3 % is hidden from whoever does not know which runs belong together.
    (welch,) = (line for line in cpu.splitlines() if line.startswith("| Welch 1 % "))
    found = int(welch.split("|")[3].split(" of ")[0])
    assert found < 10
    (welch,) = (line for line in gpu.splitlines() if line.startswith("| Welch 1 % "))
    assert "| 20 of 20" in welch
    assert "| none | 20 | 0 | interleaved 20 | 12.0 | 0 |" in cpu
