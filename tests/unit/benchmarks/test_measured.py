"""Recorded gates: what each rule has of them, what is counted, and how it is shown."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

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
    Summary,
    judge_recording,
    load,
    summarise,
)
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
    """Pairs that share their noise: 4 % between pairs, 0.5 % within one."""
    shared = [random.gauss(0, 0.04) for _ in range(6)]

    def side(more: float) -> tuple[RecordedRun, ...]:
        times = [2.8 * (1 + more) * math.exp(noise + random.gauss(0, 0.005)) for noise in shared]
        return runs(*times, kernel_ms=0.7)

    outcome = Outcome.REGRESSED if slowdown else Outcome.PASSED
    regressed = (Metric.STEP_MS,) if slowdown else ()
    return RecordedGate(
        slowdown=slowdown,
        outcome=outcome,
        stage=Stage.BLOCKS,
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
        notes=("Measured on 2 GPUs of 1 machine, 2 baselines.",),
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
    shown = [Summary.model_validate(one) for one in committed["summaries"]]
    own = judge_recording(recording, ())
    assert ([one for one in found if one.rule in OWN], shown) == (own, summarise(recording)), (
        "python -m benchmarks.decision measured"
    )
    assert committed["machine"] == recording.machine
    assert tuple(committed["notes"]) == recording.notes


def with_peers(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Skip where the peers are not there, and let none of what they import start a process."""
    patch.setattr("platform._Processor.get", lambda: "")  # or asv would ask `uname`
    pytest.importorskip("asv", reason="the peers are not installed here: pip install -e '.[bench]'")
    pytest.importorskip(
        "pytest_benchmark", reason="the peers are not installed here: pip install -e '.[bench]'"
    )
    with patch.context() as without:
        # Where nobody has drawn before, matplotlib would ask `fc-list` for the fonts: it has some
        # of its own.
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


def test_the_peers_judge_both_loops_by_their_own_code_and_the_text_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_peers(monkeypatch, tmp_path)
    from benchmarks.decision.__main__ import main

    (tmp_path / "recording.json").write_text(synthetic().model_dump_json())
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
    # Where the noise differs by 4 %, 3 % is hidden from whoever does not know which runs belong
    # together.
    (welch,) = (line for line in cpu.splitlines() if line.startswith("| Welch 1 % "))
    found = int(welch.split("|")[3].split(" of ")[0])
    assert found < 10
    (welch,) = (line for line in gpu.splitlines() if line.startswith("| Welch 1 % "))
    assert "| 20 of 20" in welch
    assert f"| none | 20 | 0 | {Stage.BLOCKS} 20 | 12.0 | 0 |" in cpu
