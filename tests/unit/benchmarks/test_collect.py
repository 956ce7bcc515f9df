"""What the collector of real gates makes next, where it makes it, and what it makes one of; no gate is run here."""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest

from benchmarks.decision import collect as collecting
from benchmarks.decision.collect import (
    BLESSED_RUNS,
    BUDGETS,
    MOST_SPOILT,
    WANTED,
    Progress,
    Project,
    Said,
    choose,
    collect,
    collect_on_all,
    main,
    merge,
    parts_of,
    physical_cores,
    slots,
)
from benchmarks.decision.measured import (
    Kind,
    RecordedBlessing,
    RecordedGate,
    RecordedLoop,
    RecordedRun,
    Recording,
    Spoilt,
    load,
    save,
)
from perfgate.model.baseline import Baseline, BlessedRun, Blessing, Occasion, Result
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import ProcessSample, Run
from perfgate.model.verdict import Stage, Verdict
from perfgate.model.workload import Workload
from perfgate.store import KeptResult

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
STEP_BY_DUET = "--perfgate-against=HEAD --perfgate-budget=kernel_ms=0.1"
"""How 2 % of the GPU-bound loop are gated."""


def recorded(
    slowdown: float = 0.0, *, took_s: float = 30.0, name: str = "gpu_bound"
) -> RecordedGate:
    return RecordedGate(
        slowdown=slowdown,
        budgets=BUDGETS[collecting.KINDS[name]].get(slowdown, {}),
        took_s=took_s,
        outcome=Outcome.PASSED,
        candidate=(RecordedRun(values={Metric.STEP_MS: 3.2}),) * 3,
        runs=3,
    )


def part(
    *gates: RecordedGate,
    name: str = "gpu_bound",
    gpu: str = "a",
    boot: str = "x",
    step_ms: float = 3.2,
    **facts: str,
) -> RecordedLoop:
    machine = {
        "GPU": "NVIDIA H200",
        "driver": "580",
        "cores": "0-15",
        "GPU id": gpu,
        "boot": boot,
        **facts,
    }
    blessed = RecordedBlessing(occasion=0, values={Metric.STEP_MS: step_ms})
    return RecordedLoop(
        name=name, kind=collecting.KINDS[name], machine=machine, baseline=(blessed,), gates=gates
    )


def of(*parts: RecordedLoop) -> Recording:
    return Recording(machine={}, loops=parts)


# What to make next


def chosen(
    number: int, *, first: int = 0, left_s: float = 1e9, took_s: Callable[[float], float]
) -> list[float]:
    made: Counter[float] = Counter()
    found = []
    for _ in range(number):
        slowdown = choose(
            Progress(made=made, longest_s={}), left_s=left_s, expected_s=took_s, first=first
        )
        if slowdown is None:
            break
        made[slowdown] += 1
        found.append(slowdown)
    return found


@pytest.mark.parametrize("first", range(5))
def test_every_five_gates_hold_two_unchanged_ones_and_one_of_each_slowdown(first: int) -> None:
    made = chosen(60, first=first, took_s=lambda _: 30)
    for start in range(0, 50, 5):
        assert sorted(made[start : start + 5]) == [0, 0, 0.01, 0.02, 0.03]
    assert Counter(made) == WANTED
    assert len(made) == 50


def test_gates_side_by_side_begin_with_another_slowdown() -> None:
    assert [chosen(1, first=slot, took_s=lambda _: 30) for slot in range(4)] == [
        [0.0],
        [0.01],
        [0.02],
        [0.03],
    ]


def test_what_does_not_fit_into_the_time_left_is_left_for_what_does() -> None:
    def took_s(slowdown: float) -> float:
        return 30 if slowdown in (0.0, 0.03) else 170

    assert set(chosen(10, left_s=100, took_s=took_s)) == {0.0, 0.03}
    assert chosen(10, left_s=20, took_s=took_s) == []


def test_progress_counts_gates_over_all_parts_and_not_what_is_spoilt() -> None:
    first = part(recorded(took_s=30), recorded(0.01, took_s=160))
    second = part(recorded(took_s=40), gpu="b").model_copy(
        update={"spoilt": (Spoilt(slowdown=0.02, why="x"),)}
    )
    progress = Progress.of([first, second])
    assert progress.made == {0.0: 2, 0.01: 1}
    assert progress.longest_s == {0.0: 40, 0.01: 160}
    assert not progress.is_enough()
    enough = part(*(recorded(s) for s, number in WANTED.items() for _ in range(number)))
    assert Progress.of([enough]).is_enough()
    by_default = [gate.model_copy(update={"budgets": {}}) for gate in enough.gates]
    assert Progress.of([part(*by_default)]).made == {0.0: 20, 0.01: 10, 0.03: 10}


# Where


def test_two_loops_share_four_gpus_and_the_cores_by_whole_cores() -> None:
    cores = [[cpu, cpu + 32] for cpu in range(32)]
    found = slots(["0", "1", "2", "3"], cores, ["gpu_bound", "cpu_bound"])
    assert [(slot.number, slot.loops, slot.gpu, slot.cores) for slot in found] == [
        (0, ("gpu_bound",), "0", "0-7,32-39"),
        (1, ("cpu_bound",), "1", "8-15,40-47"),
        (2, ("gpu_bound",), "2", "16-23,48-55"),
        (3, ("cpu_bound",), "3", "24-31,56-63"),
    ]


def test_one_gpu_or_none_takes_both_loops_on_all_cores() -> None:
    for gpus, gpu in ((["3"], "3"), ([], None)):
        (slot,) = slots(gpus, [[0], [1], [3]], ["gpu_bound", "cpu_bound"])
        assert (slot.loops, slot.gpu, slot.cores) == (("gpu_bound", "cpu_bound"), gpu, "0-1,3")


def test_a_loop_that_is_left_gets_all_gpus() -> None:
    assert [slot.loops for slot in slots(["0", "1"], [[0], [1]], ["cpu_bound"])] == [
        ("cpu_bound",)
    ] * 2


def test_fewer_cores_than_gpus_are_refused() -> None:
    with pytest.raises(SystemExit, match="2 GPUs share 1 CPU cores"):
        slots(["0", "1"], [[0]], ["cpu_bound"])


def test_cpus_of_one_core_are_told_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3, 9})
    for cpu, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    assert physical_cores(tmp_path) == [[0, 2], [1, 3], [9]]


# One loop on one GPU, with gates of our own making


class Made:
    """Stands in for the gates of a project: each takes 30 s of a clock of its own, and keeps what it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.planted: list[tuple[int, int]] = []
        self.now_s = 1000.0
        self.outcome = Outcome.PASSED
        self.interleaved = False
        self.facts = {"GPU": "NVIDIA H200", "GPU id": "a", "boot": "x", "cores": "0-15"}
        self._kept: KeptResult | None = None
        self._blessed: Baseline | None = None
        self._plant = Project.plant
        monkeypatch.setattr(collecting, "facts", lambda: self.facts)
        monkeypatch.setattr(collecting, "spins_per_ms", lambda: 1000.0)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(
            Project, "made", classmethod(lambda _, root, loop: self._made(root, loop))
        )
        monkeypatch.setattr(
            Project, "gate", lambda _, *options, until: self._gate(*options, until=until)
        )
        monkeypatch.setattr(Project, "bless", lambda _: self._bless())
        monkeypatch.setattr(Project, "baseline", lambda _: self._blessed)
        monkeypatch.setattr(Project, "latest", lambda _: self._kept)
        monkeypatch.setattr(
            Project, "plant", lambda _, *, cycles=100, spins=0: self.planted.append((cycles, spins))
        )

    def _made(self, root: Path, loop: str) -> Project:
        root.mkdir(parents=True)
        return Project(root, loop)

    def _gate(self, *options: str, until: float) -> Said:
        self.asked.append(" ".join(options))
        took_s = 90.0 if any("runs" in option for option in options) else 30.0
        was_ended = self.now_s + took_s > until
        self.now_s = min(self.now_s + took_s, until)
        if not was_ended:
            self._keep(len(self.asked))
        return Said(text="told", was_ended=was_ended, took_s=took_s)

    def _keep(self, number: int) -> None:
        process = ProcessSample(
            pid=1,
            steps=30,
            values={Metric.STEP_MS: 3.2},
            window_ms=100,
            periods_ms=(3.2111, 3.1996),
        )
        run = Run(started_at=NOW, wall_s=2, processes=(process,))
        slow = run.model_copy(
            update={"processes": (process.model_copy(update={"values": {Metric.STEP_MS: 2.8}}),)}
        )
        duet = (slow,) * 3 if self.interleaved else ()
        result = Result(
            workload=Workload(id="gpu_bound", source="workloads/loops.py", steps=30, warmup=50),
            machine=Machine(),
            commit=None,
            measured_at=NOW,
            code={},
            runs=() if duet else (run,) * 3,
            reference_runs=duet,
            interleaved_runs=duet,
            verdict=Verdict(
                workload="gpu_bound",
                outcome=self.outcome,
                reason="why.",
                runs=3,
                stage=Stage.SCREEN,
            ),
        )
        self._kept = KeptResult(folder=Path(f"kept-{number}"), result=result)

    def _bless(self) -> None:
        occasion = Occasion(
            measured_at=NOW, runs=(BlessedRun(values={Metric.STEP_MS: 3.2}),) * BLESSED_RUNS
        )
        self._blessed = Baseline(
            workload="gpu_bound",
            digest="d",
            parameters={},
            machine=Machine(),
            occasions=(occasion,),
            blessing=Blessing(by="bench", at=NOW, reason="unchanged"),
        )


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    return Made(monkeypatch)


def only(folder: Path, loop: str = "gpu_bound") -> RecordedLoop:
    (found,) = parts_of(folder, loop).values()
    return found


def test_gates_are_made_until_the_time_is_up_and_kept_after_each(
    made: Made, tmp_path: Path
) -> None:
    collect(tmp_path, ["gpu_bound"], seconds=90 + 7 * 30 + 20, slot=0)
    assert made.asked == [f"--perfgate-runs={BLESSED_RUNS}", "", "", STEP_BY_DUET, *[""] * 4]
    found = only(tmp_path)
    assert [gate.slowdown for gate in found.gates] == [0, 0.01, 0.02, 0.03, 0, 0, 0.01]
    assert found.gates[0].candidate[0].periods_us == (3211, 3200)
    assert made.planted[1] == (100 + round(0.01 * 3.2 * 1_980_000), 0)
    assert found.gates[1].planted_ms == pytest.approx(0.032)
    assert len(found.baseline) == BLESSED_RUNS
    assert made.now_s <= 1000 + 90 + 7 * 30 + 20


def test_where_the_screen_would_end_it_by_another_clock_a_gate_is_a_duet_alone(
    made: Made, tmp_path: Path
) -> None:
    collect(tmp_path, ["gpu_bound"], seconds=1e6, slot=0)
    gates = only(tmp_path).gates
    assert {gate.slowdown for gate in gates if gate.against} == {0.02}
    assert {asked for asked, gate in zip(made.asked[1:], gates, strict=True) if gate.against} == {
        STEP_BY_DUET
    }
    assert all(gate.against for gate in gates if gate.slowdown == 0.02)
    assert {gate.slowdown: gate.budgets for gate in gates if gate.budgets} == {
        0.02: {Metric.KERNEL_MS: 0.1}
    }


def test_a_second_invocation_goes_on_with_the_baseline_and_the_part(
    made: Made, tmp_path: Path
) -> None:
    collect(tmp_path, ["gpu_bound"], seconds=160, slot=0)
    collect(tmp_path, ["gpu_bound"], seconds=70, slot=0)
    assert [asked for asked in made.asked if "runs" in asked] == [f"--perfgate-runs={BLESSED_RUNS}"]
    assert [gate.slowdown for gate in only(tmp_path).gates] == [0, 0.01, 0.02, 0.03]


@pytest.mark.parametrize("fact", ["boot", "GPU id", "perfgate", "cores"])
def test_on_another_machine_or_with_other_code_a_baseline_is_made_anew(
    made: Made, tmp_path: Path, fact: str
) -> None:
    collect(tmp_path, ["gpu_bound"], seconds=160, slot=0)
    made.facts = {**made.facts, fact: "y"}
    collect(tmp_path, ["gpu_bound"], seconds=160, slot=0)
    parts = parts_of(tmp_path, "gpu_bound")
    assert [len(part.gates) for part in parts.values()] == [2, 2]
    assert [
        slowdown for part in parts.values() for slowdown in (gate.slowdown for gate in part.gates)
    ] in (
        [0, 0.01, 0.02, 0.03],
        [0.02, 0.03, 0, 0.01],
    )
    assert sum("runs" in asked for asked in made.asked) == 2


def test_it_ends_when_there_are_enough(made: Made, tmp_path: Path) -> None:
    collect(tmp_path, ["gpu_bound"], seconds=1e6, slot=0)
    assert Counter(gate.slowdown for gate in only(tmp_path).gates) == WANTED
    collect(tmp_path, ["gpu_bound"], seconds=1e6, slot=0)
    assert len(made.asked) == 1 + sum(WANTED.values())


def test_two_loops_on_one_gpu_are_made_evenly(made: Made, tmp_path: Path) -> None:
    collect(tmp_path, ["gpu_bound", "cpu_bound"], seconds=2 * 90 + 8 * 120 + 20, slot=0)
    numbers = [len(only(tmp_path, loop).gates) for loop in ("gpu_bound", "cpu_bound")]
    assert max(numbers) - min(numbers) <= 1
    assert sum(numbers) >= 8


def test_work_on_the_cpu_is_planted_as_a_share_of_the_step_that_the_gate_judges(
    made: Made, tmp_path: Path
) -> None:
    made.interleaved = True
    collect(tmp_path, ["cpu_bound"], seconds=1000, slot=1)
    gates = only(tmp_path, "cpu_bound").gates
    # Slot 1 would begin with 1 %, of which nobody knows yet what it is 1 % of.
    assert [gate.slowdown for gate in gates][:3] == [0, 0.01, 0.02]
    assert gates[1].planted_ms == pytest.approx(0.028)
    assert made.planted[1] == (100, 28)


@pytest.mark.parametrize("outcome", [Outcome.NOT_MEASURED, Outcome.INVALID])
def test_gates_without_a_verdict_are_counted_and_three_in_a_row_are_the_end(
    made: Made, tmp_path: Path, outcome: Outcome
) -> None:
    made.outcome = outcome
    with pytest.raises(SystemExit, match=f"{MOST_SPOILT} gates in a row gave no verdict"):
        collect(tmp_path, ["gpu_bound"], seconds=1e6, slot=0)
    found = only(tmp_path)
    assert (found.gates, len(found.spoilt)) == ((), MOST_SPOILT)
    assert found.spoilt[0] == Spoilt(slowdown=0, why=f"{outcome}: why., after 30 s")


def test_a_gate_that_outlasts_the_time_is_noted_and_not_lost(made: Made, tmp_path: Path) -> None:
    collect(tmp_path, ["gpu_bound"], seconds=90 + 40, slot=0)
    (path,) = parts_of(tmp_path, "gpu_bound")
    before = load(path)
    # The run before took 30 s; this one, of which as much was expected, does not come to its end.
    original = collecting.GRACE_S
    try:
        collecting.GRACE_S = -10.0  # type: ignore[misc]  # so that the time is up within the gate
        collect(tmp_path, ["gpu_bound"], seconds=37, slot=0)
    finally:
        collecting.GRACE_S = original  # type: ignore[misc]
    after = load(path).loops[0]
    assert after.gates == before.loops[0].gates
    assert [spoilt.why for spoilt in after.spoilt] == ["the time was up, after 30 s"]


def test_a_gate_that_is_killed_with_its_collector_is_counted_all_the_same(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect(tmp_path, ["gpu_bound"], seconds=90 + 40, slot=0)

    def killed(*_: object, until: float) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Project, "gate", killed)
        with pytest.raises(KeyboardInterrupt):
            collect(tmp_path, ["gpu_bound"], seconds=40, slot=0)
    collect(tmp_path, ["gpu_bound"], seconds=40, slot=0)
    found = only(tmp_path)
    assert len(found.gates) == 2
    assert found.spoilt == (Spoilt(slowdown=0.01, why="it was killed, and what made it too"),)


def test_no_time_for_a_baseline_leaves_nothing(made: Made, tmp_path: Path) -> None:
    collect(tmp_path, ["gpu_bound"], seconds=60, slot=0)
    assert parts_of(tmp_path, "gpu_bound") == {}


def test_a_folder_with_enough_gates_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for loop in collecting.KINDS:
        gates = [
            recorded(slowdown, name=loop)
            for slowdown, number in WANTED.items()
            for _ in range(number)
        ]
        save(of(part(*gates, name=loop)), tmp_path / f"{loop}-x.json")
    assert collect_on_all(tmp_path, seconds=10, loops=tuple(collecting.KINDS)) == 0
    assert capsys.readouterr().out == f"there are enough gates in {tmp_path}\n"


def elsewhere(lacking: Mapping[float, int]) -> RecordedLoop:
    """A part of another machine that lacks so many gates of what is wanted."""
    numbers = {slowdown: number - lacking.get(slowdown, 0) for slowdown, number in WANTED.items()}
    return part(
        *(
            recorded(slowdown, took_s=1e6)
            for slowdown, number in numbers.items()
            for _ in range(number)
        ),
        gpu="b",
    )


def test_what_was_made_elsewhere_is_not_made_again_and_says_nothing_of_the_time_here(
    made: Made, tmp_path: Path
) -> None:
    had = elsewhere({0.0: 3, 0.01: 1, 0.02: 3})
    collect(tmp_path, ["gpu_bound"], seconds=2000, slot=0, had=[had, part(name="cpu_bound")])
    assert Counter(gate.slowdown for gate in only(tmp_path).gates) == {0.0: 3, 0.01: 1, 0.02: 3}
    # Merged meanwhile, they are still counted once.
    assert Progress.of([only(tmp_path)], had=[had, only(tmp_path)]).made == WANTED


@pytest.mark.parametrize(("left_s", "first"), [(50, 0.0), (60, 0.01)])
def test_no_gate_begins_for_whose_runs_elsewhere_there_is_not_the_time(
    made: Made, tmp_path: Path, left_s: float, first: float
) -> None:
    had = elsewhere({0.0: 1, 0.01: 1})
    # A run takes 2 s here: one of these gates 54.
    long = [
        gate.model_copy(update={"candidate": gate.candidate * 9, "runs": 27})
        if gate.slowdown == 0.01
        else gate
        for gate in had.gates
    ]
    collect(
        tmp_path,
        ["gpu_bound"],
        seconds=90 + left_s,
        slot=1,
        had=[had.model_copy(update={"gates": tuple(long)})],
    )
    assert next(gate.slowdown for gate in only(tmp_path).gates) == first


def test_all_tells_what_a_recording_lacks_and_hands_it_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    class Started:
        def __init__(self, command: list[str], **_: object) -> None:
            commands.append(command)

        def wait(self) -> int:
            return 0

        def poll(self) -> int:
            return 0

    monkeypatch.setattr(subprocess, "Popen", Started)
    monkeypatch.setattr(collecting, "visible_gpus", lambda: ["0"])
    monkeypatch.setattr(collecting, "physical_cores", lambda: [[0]])
    record = tmp_path / "h200.json"
    save(of(elsewhere({0.0: 3, 0.02: 1})), record)
    assert main(["all", str(tmp_path / "made"), "--have", str(record), "--only", "gpu_bound"]) == 0
    (command,) = commands
    assert command[command.index("--have") + 1] == str(record)
    assert capsys.readouterr().out.startswith("gpu_bound: to be made are 3 unchanged, 1 at +2%\n")
    save(of(elsewhere({})), record)
    assert main(["all", str(tmp_path / "made"), "--have", str(record), "--only", "gpu_bound"]) == 0
    assert (
        capsys.readouterr().out == f"there are enough gates in {tmp_path / 'made'} and {record}\n"
    )


# Many files, one recording


def test_parts_of_one_machine_are_merged_with_their_baselines() -> None:
    merged = merge(
        [of(part(recorded(), name="cpu_bound")), of(part(recorded(), recorded(0.01), gpu="b"))]
    )
    assert [(loop.name, len(loop.gates)) for loop in merged.loops] == [
        ("gpu_bound", 2),
        ("cpu_bound", 1),
    ]
    assert merged.machine == {"GPU": "NVIDIA H200", "driver": "580"}
    assert merged.remarks == ("Measured on 2 GPUs of 1 machine, 2 baselines.",)


def test_a_change_of_machine_between_parts_is_told() -> None:
    merged = merge([of(part(recorded())), of(part(recorded(), boot="y", driver="590"))])
    assert merged.machine == {"GPU": "NVIDIA H200"}
    assert merged.remarks == (
        "Measured on 1 GPU of 2 machines, 2 baselines.",
        "Parts differ by driver: 580 (1 part), 590 (1 part).",
    )


def test_of_two_copies_of_one_part_the_longer_is_kept() -> None:
    early, late = part(recorded()), part(recorded(), recorded(0.01))
    for order in ([early, late], [late, early], [early, late, late]):
        assert merge([of(one) for one in order]).loops == (late,)


def test_parts_with_another_baseline_are_other_parts() -> None:
    assert len(merge([of(part(recorded())), of(part(recorded(), step_ms=3.3))]).loops) == 2


def test_nothing_is_no_recording() -> None:
    with pytest.raises(SystemExit, match="there is no gate in any of them"):
        merge([of(part())])


def test_merging_at_the_door_writes_a_file_that_can_be_merged_again(tmp_path: Path) -> None:
    first, second, out = (tmp_path / name for name in ("a.json", "b.json", "out.json"))
    save(of(part(recorded())), first)
    save(of(part(recorded(), gpu="b")), second)
    assert main(["merge", str(out), str(first), str(second)]) == 0
    assert len(load(out).loops) == 2
    assert main(["merge", str(out), str(out), str(first)]) == 0
    assert len(load(out).loops) == 2
    assert list(tmp_path.glob(".*")) == []


def test_merging_loses_nothing_of_the_recording_that_it_writes(tmp_path: Path) -> None:
    out, fresh = tmp_path / "h200.json", tmp_path / "fresh.json"
    save(of(part(recorded(), recorded(0.01))), out)
    save(of(part(recorded(), gpu="b")), fresh)
    assert main(["merge", str(out), str(fresh)]) == 0
    assert [len(loop.gates) for loop in load(out).loops] == [2, 1]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "it cannot be read (No such file or directory)."),
        ("{", "it is no recording of gates ("),
    ],
)
def test_what_is_no_recording_is_told_and_nothing_is_written(
    tmp_path: Path, content: str | None, complaint: str
) -> None:
    path = tmp_path / "part.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(SystemExit, match=f"^{re.escape(f'{path}: {complaint}')}"):
        main(["merge", str(tmp_path / "out.json"), str(path)])
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    "words",
    [["gpu_bound"], ["elsewhere", "folder"], ["gpu_bound", "all", "folder"], ["merge", "out.json"]],
)
def test_what_cannot_be_meant_is_refused(
    words: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(words)
    assert refused.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_kinds_are_those_of_the_loops() -> None:
    text = collecting.LOOPS.read_text(encoding="utf-8")
    assert collecting.KINDS == {"gpu_bound": Kind.GPU_BOUND, "cpu_bound": Kind.CPU_BOUND}
    assert all(f"\ndef {loop}(steps: Steps)" in text for loop in collecting.KINDS)
