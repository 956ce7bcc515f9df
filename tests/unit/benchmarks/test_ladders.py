"""The ladders: turns, file, judgement and table, on runs made of numbers and by a clock of our own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from support import records
from support.judging import MOMENT

from benchmarks.ladders import __main__ as door
from benchmarks.ladders.judging import Finding, Step, judge_loop
from benchmarks.ladders.measuring import (
    Collected,
    Measure,
    OutOfTime,
    Taken,
    Turns,
    chosen_rungs,
    rung_of,
)
from benchmarks.ladders.recording import (
    MOST_KERNELS,
    MOST_NAME,
    RecordedRun,
    RecordedRung,
    Recording,
    Replace,
    TopRange,
    Unusable,
    compact,
    load,
    merge,
    save,
    top_ranges,
)
from benchmarks.ladders.shares import shares_of
from benchmarks.ladders.table import markdown
from perfgate.explain.pace import slow_start
from perfgate.model.errors import GpuTaken, WorkloadFailed
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Severity, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.reports import NvtxRow, Reports
from perfgate.model.sample import KernelSample, ProcessSample, RangeSample, Run
from perfgate.model.workload import Workload

H200 = records.machine()
Values = Mapping[Metric, float]

SERIAL: Values = {
    Metric.STEP_MS: 300.0,
    Metric.KERNEL_MS: 50.0,
    Metric.GAP_MS: 230.0,
    Metric.H2D_MS: 20.0,
    Metric.H2D_EXPOSED_MS: 20.0,
    Metric.LAUNCHES: 400,
    Metric.GRAPH_LAUNCHES: 0,
    Metric.H2D_COPIES: 2,
    Metric.H2D_BYTES: 201_326_592,
    Metric.D2H_COPIES: 0,
    Metric.PAGEABLE_COPIES: 2,
    Metric.SYNCS: 2,
}
WORKERS: Values = {**SERIAL, Metric.STEP_MS: 100.0, Metric.GAP_MS: 30.0}
PINNED: Values = {
    **WORKERS,
    Metric.STEP_MS: 70.0,
    Metric.GAP_MS: 15.0,
    Metric.H2D_MS: 5.0,
    Metric.H2D_EXPOSED_MS: 5.0,
    Metric.PAGEABLE_COPIES: 0,
    Metric.SYNCS: 0,
}
OVERLAP: Values = {**PINNED, Metric.STEP_MS: 64.0, Metric.GAP_MS: 14.0, Metric.H2D_EXPOSED_MS: 0.1}


def workload(loop: str, rung: str, *, steps: int = 30) -> Workload:
    return Workload(
        id=f"{loop}[{rung}]",
        source=f"workloads/{loop}.py",
        nodeid=f"workloads/{loop}.py::{loop}[{rung}]",
        steps=steps,
        warmup=5,
        parameters={"rung": repr(rung)},
    )


def run_of(
    values: Values,
    *,
    number: int = 0,
    took_s: float = 10.0,
    complaints: tuple[str, ...] = (),
    ranges: Sequence[RangeSample] = (),
    first: str = "",
    pid: int = 7,
) -> RecordedRun:
    """One run, `number` minutes after the first; its times differ by 0.1 % from number to number."""
    wobble = 1 + 0.001 * (number % 3 - 1)
    clocks = {
        metric: value * wobble if metric.endswith("_ms") else value
        for metric, value in values.items()
    }
    process = ProcessSample(pid=pid, steps=30, values=clocks, window_ms=1.0, ranges=tuple(ranges))
    made = Run(
        started_at=MOMENT + timedelta(minutes=number),
        wall_s=took_s,
        processes=(process,),
        notes=tuple(quoted(one, Severity.INVALID) for one in complaints),
    )
    tops = (TopRange(name=first, total_ms=9.0, count=30),) if first else ()
    return RecordedRun(run=made, machine=0, took_s=took_s, nvtx_sum=tops, code="c0de")


def idle_under(name: str, ms: float) -> RangeSample:
    return RangeSample(name=name, count=1, cpu_ms=ms, values={Metric.GAP_MS: ms})


def rung_with(loop: str, rung: str, runs: Sequence[RecordedRun]) -> RecordedRung:
    return RecordedRung(loop=loop, rung=rung, workload=workload(loop, rung), runs=tuple(runs))


def measured(loop: str, rungs: Mapping[str, Values], **more: Sequence[RangeSample]) -> Recording:
    """A recording of three runs a rung on one H200; `more` gives a rung its ranges."""
    return Recording(
        perfgate="0.1.0",
        machines=(H200,),
        rungs=tuple(
            rung_with(
                loop, rung, [run_of(values, number=n, ranges=more.get(rung, ())) for n in range(3)]
            )
            for rung, values in rungs.items()
        ),
    )


LADDER = measured(
    "resnet18_input",
    {
        "serial": SERIAL,
        "workers": WORKERS,
        "pinned": PINNED,
        "overlap": OVERLAP,
        "prefetcher": OVERLAP,
    },
    serial=[idle_under("get batch", 220.0), idle_under("compute", 10.0)],
    workers=[idle_under("get batch", 22.0), idle_under("compute", 8.0)],
)


def only_step(recording: Recording, rung: str) -> Step:
    (loop,) = recording.loops()
    (step,) = [step for step in judge_loop(recording, loop) if step.rung == rung]
    return step


# Turns


class Machinery:
    """Makes runs out of nothing: each takes its seconds on a clock of ours, and some go wrong."""

    def __init__(self, *, takes_s: Mapping[str, float] | None = None) -> None:
        self.now = 0.0
        self.made: list[str] = []
        self.saved: list[Recording] = []
        self.said: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.complains: dict[str, str] = {}
        self._takes_s = takes_s or {}

    def __call__(self, one: Collected, *, within_s: float | None) -> Taken:
        self.made.append(one.rung)
        takes_s = self._takes_s.get(one.rung, 10.0)
        if within_s is not None and takes_s > within_s:
            self.now += within_s
            raise OutOfTime
        self.now += takes_s
        if one.rung in self.fails:
            raise self.fails[one.rung]
        complaints = (self.complains[one.rung],) if one.rung in self.complains else ()
        run = run_of(SERIAL, number=len(self.made), took_s=takes_s, complaints=complaints)
        return Taken(run=run, machine=H200)

    def turns(
        self,
        *rungs: str,
        runs: int = 3,
        recording: Recording | None = None,
        seconds: float | None = None,
        retry: bool = False,
        loops: Sequence[str] = ("resnet18_input",),
        steps: int = 30,
    ) -> Turns:
        measure: Measure = self
        return Turns(
            recording=recording or Recording(perfgate="0.1.0"),
            rungs=[
                Collected(loop=loop, rung=rung, workload=workload(loop, rung, steps=steps))
                for loop in loops
                for rung in rungs
            ],
            runs=runs,
            measure=measure,
            save=self.saved.append,
            say=self.said.append,
            clock=lambda: self.now,
            ends=None if seconds is None else self.now + seconds,
            retry=retry,
        )


@pytest.fixture
def machinery() -> Machinery:
    return Machinery()


def runs_by_rung(recording: Recording) -> dict[str, int]:
    return {rung.rung: len(rung.sound) for rung in recording.rungs}


def test_rungs_take_turns_and_every_other_round_goes_downwards(machinery: Machinery) -> None:
    recording = machinery.turns("serial", "workers", "pinned").take()
    assert machinery.made == [
        *("serial", "workers", "pinned"),
        *("pinned", "workers", "serial"),
        *("serial", "workers", "pinned"),
    ]
    assert runs_by_rung(recording) == {"serial": 3, "workers": 3, "pinned": 3}
    assert recording.machines == (H200,)


def test_one_loop_is_finished_before_the_next_begins(machinery: Machinery) -> None:
    recording = machinery.turns("cpu", "gpu", runs=2, loops=["a", "b"]).take()
    assert machinery.made == ["cpu", "gpu", "gpu", "cpu"] * 2
    assert [(rung.loop, len(rung.sound)) for rung in recording.rungs] == [
        ("a", 2),
        ("a", 2),
        ("b", 2),
        ("b", 2),
    ]


def test_each_run_is_saved_before_the_next_one_begins(machinery: Machinery) -> None:
    machinery.turns("serial", "workers", runs=2).take()
    assert [sum(runs_by_rung(saved).values()) for saved in machinery.saved] == [1, 2, 3, 4]


def test_a_killed_command_goes_on_where_it_was(machinery: Machinery, tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def killed_at_fourth(one: Collected, *, within_s: float | None) -> Taken:
        if len(machinery.made) == 4:
            raise Killed
        return machinery(one, within_s=within_s)

    file = tmp_path / "out.json"
    first = machinery.turns("serial", "workers", "pinned", runs=2)
    first.measure, first.save = killed_at_fourth, lambda recording: save(recording, file)
    with pytest.raises(Killed):
        first.take()
    again = Machinery()
    recording = again.turns("serial", "workers", "pinned", runs=2, recording=load(file)).take()
    assert machinery.made == ["serial", "workers", "pinned", "pinned"]
    assert again.made == ["workers", "serial"]
    assert runs_by_rung(recording) == {"serial": 2, "workers": 2, "pinned": 2}


def test_recorded_runs_of_other_parameters_are_not_joined(machinery: Machinery) -> None:
    recording = machinery.turns("serial", runs=1).take()
    with pytest.raises(Unusable) as refused:
        machinery.turns("serial", runs=2, recording=recording, steps=40).take()
    assert str(refused.value) == (
        "resnet18_input[serial]: its recorded runs are of other parameters (steps was 30 and is 40)."
    )


def test_no_run_begins_that_would_not_end_in_time(machinery: Machinery) -> None:
    turns = machinery.turns("serial", "workers", runs=3, seconds=45)
    turns.take()
    assert machinery.made == [
        "serial",
        "workers",
        "workers",
        "serial",
    ]  # a fifth would need up to 12.5 of the last 5 s
    assert machinery.now == 40
    assert [one.rung for one in turns.missing()] == ["serial", "workers"]


def out_of_memory() -> WorkloadFailed:
    return WorkloadFailed(
        subject="resnet18_input[workers]",
        fact="it raised OutOfMemoryError: CUDA out of memory. Tried to allocate 20 GiB",
        next_step="See the log.\nLast lines of its output:\n  | ...",
    )


def test_a_rung_that_fails_keeps_its_reason_and_the_others_go_on(machinery: Machinery) -> None:
    machinery.fails["workers"] = out_of_memory()
    turns = machinery.turns("serial", "workers", "pinned", runs=2)
    recording = turns.take()
    assert machinery.made == ["serial", "workers", "pinned", "pinned", "serial"]
    failed = recording.of("resnet18_input", "workers")
    assert failed is not None
    assert [failure.reason for failure in failed.failures] == [
        "it raised OutOfMemoryError: CUDA out of memory. Tried to allocate 20 GiB"
    ]
    assert machinery.saved[-1] == recording
    assert [one.rung for one in turns.missing()] == ["workers"]


def test_a_failed_rung_is_only_tried_again_when_asked(machinery: Machinery) -> None:
    machinery.fails["workers"] = out_of_memory()
    recording = machinery.turns("serial", "workers", runs=1).take()
    machinery.fails.clear()
    machinery.made.clear()
    machinery.turns("serial", "workers", runs=1, recording=recording).take()
    assert machinery.made == []
    assert (
        machinery.said[-1]
        == "resnet18_input[workers]: it failed before, and is left out; --retry tries it again"
    )
    again = machinery.turns("serial", "workers", runs=1, recording=recording, retry=True).take()
    assert machinery.made == ["workers"]
    assert runs_by_rung(again) == {"serial": 1, "workers": 1}


def test_runs_that_do_not_count_are_made_again_but_not_for_ever(machinery: Machinery) -> None:
    machinery.complains["serial"] = "GPU GPU-0 was throttled (thermal)"
    recording = machinery.turns("serial", "workers", runs=2).take()
    assert machinery.made.count("serial") == 2
    (serial, workers) = recording.rungs
    assert (len(serial.runs), len(serial.sound), len(workers.sound)) == (2, 0, 2)
    assert (
        serial.failures[0].reason
        == "none of its last 2 runs counts: GPU GPU-0 was throttled (thermal)"
    )


def test_what_is_no_rungs_fault_ends_all(machinery: Machinery) -> None:
    machinery.fails["serial"] = GpuTaken(subject="GPU-0", fact="held", next_step="Wait.")
    with pytest.raises(GpuTaken):
        machinery.turns("serial", "workers").take()


# Which rungs


def test_without_a_name_the_opt_in_rung_is_not_asked_for() -> None:
    assert chosen_rungs("resnet50_cifar", ()) is None
    assert chosen_rungs("resnet50_cifar", ["exhaustive", "naive", "serial"]) == (
        "naive",
        "exhaustive",
    )


def test_a_workload_without_brackets_is_a_rung_by_its_gpus() -> None:
    ddp = workload("resnet50_ddp", "x").model_copy(update={"id": "resnet50_ddp"})
    two = records.machine("NVIDIA H200", "NVIDIA H200")
    assert [rung_of(ddp, machine) for machine in (Machine(), H200, two)] == [
        "no GPU",
        "1 GPU",
        "2 GPUs",
    ]
    assert rung_of(workload("resnet18_input", "serial"), H200) == "serial"


# The file


def test_a_recording_is_read_as_it_was_written_a_run_a_line(tmp_path: Path) -> None:
    save(LADDER, tmp_path / "out.json")
    assert load(tmp_path / "out.json") == LADDER
    lines = (tmp_path / "out.json").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith('{"run":') for line in lines) == 15
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]


def test_merging_takes_each_run_once_in_order_of_time() -> None:
    other_gpu = H200.model_copy(
        update={"gpus": (H200.gpus[0].model_copy(update={"uuid": "GPU-9"}),)}
    )
    early = LADDER.model_copy(update={"rungs": LADDER.rungs[:2]})
    late = Recording(
        perfgate="0.1.0",
        machines=(other_gpu,),
        rungs=(
            rung_with("resnet18_input", "workers", [run_of(WORKERS, number=5)]),
            rung_with("resnet50_cifar", "naive", [run_of(SERIAL, number=6)]),
        ),
    )
    merged = merge([late, early, early])
    assert {rung.key: len(rung.runs) for rung in merged.rungs} == {
        ("resnet18_input", "workers"): 4,
        ("resnet50_cifar", "naive"): 1,
        ("resnet18_input", "serial"): 3,
    }
    workers = merged.of("resnet18_input", "workers")
    assert workers is not None
    times = [run.run.started_at for run in workers.runs]
    assert times == sorted(times)
    assert [merged.machines[run.machine].gpus[0].uuid for run in workers.runs] == [
        "GPU-0",
        "GPU-0",
        "GPU-0",
        "GPU-9",
    ]


def test_merging_refuses_other_parameters_and_small_loops_beside_full_ones() -> None:
    changed = rung_with("resnet18_input", "serial", [run_of(SERIAL)])
    changed = changed.model_copy(
        update={"workload": workload("resnet18_input", "serial", steps=40)}
    )
    with pytest.raises(Unusable, match="steps was 30 and is 40"):
        merge([LADDER, LADDER.model_copy(update={"rungs": (changed,)})])
    with pytest.raises(Unusable, match="small loops"):
        merge([LADDER, LADDER.model_copy(update={"small": True})])


def test_of_a_run_counts_are_kept_exactly_and_of_the_rest_what_a_table_needs() -> None:
    kernels = [KernelSample(name="k" * 500, count=1, gpu_ms=float(n)) for n in range(20)]
    process = records.process(
        {Metric.STEP_MS: 12.3456789, Metric.H2D_BYTES: 201_326_593},
        kernels=kernels,
        ranges=[
            RangeSample(
                name="x", count=1, cpu_ms=1.23456789, values={Metric.GAP_MS: 0.0, Metric.SYNCS: 2}
            )
        ],
    ).model_copy(update={"periods_ms": (1.0,) * 500})
    (kept,) = compact(Run(started_at=MOMENT, wall_s=1.0, processes=(process,))).processes
    assert kept.values == {Metric.STEP_MS: 12.3457, Metric.H2D_BYTES: 201_326_593}
    assert kept.ranges[0].values == {Metric.SYNCS: 2}
    assert [kernel.gpu_ms for kernel in kept.kernels] == [19.0 - n for n in range(MOST_KERNELS)]
    assert len(kept.kernels[0].name) == MOST_NAME
    assert kept.periods_ms == ()


def test_perfgates_own_ranges_have_no_place_in_nvtx_sum() -> None:
    def row(name: str, total_ns: int) -> NvtxRow:
        numbers = {"avg_ns": 1.0, "min_ns": 1, "max_ns": 1, "stddev_ns": 0.0, "med_ns": 1.0}
        return NvtxRow.model_validate(
            {
                "range": name,
                "total_ns": total_ns,
                "count": 3,
                "time_percent": 1.0,
                "style": "PushPop",
                **numbers,
            }
        )

    rows = (
        row("step", 900),
        row("forward", 100),
        row("data_load", 400),
        row("perfgate warm-up", 800),
    )
    found = top_ranges([Reports(nvtx_sum=rows), Reports(nvtx_sum=(row("forward", 500),))])
    assert [(one.name, one.total_ms, one.count) for one in found] == [
        ("forward", 0.0006, 6),
        ("data_load", 0.0004, 3),
    ]


# The judgement


def test_a_ladder_as_it_is_taught_is_found_to_be_so_both_ways() -> None:
    steps = judge_loop(LADDER, "resnet18_input")
    assert [(step.rung, step.before) for step in steps] == [
        ("workers", "serial"),
        ("pinned", "workers"),
        ("overlap", "pinned"),
        ("prefetcher", "overlap"),
    ]
    assert [(step.finding, step.why) for step in steps] == [(Finding.AS_TAUGHT, ())] * 4
    verdicts = [(step.up.outcome, step.down.outcome) for step in steps if step.up and step.down]
    assert verdicts == [(Outcome.IMPROVED, Outcome.REGRESSED)] * 3 + [
        (Outcome.PASSED, Outcome.PASSED)
    ]
    workers, pinned = steps[:2]
    assert workers.ratio == pytest.approx(3.0)
    assert workers.published == pytest.approx(4.81 / 2.97)
    assert workers.where[Metric.GAP_MS] == {"get batch": -198.0, "compute": -2.0}
    assert pinned.counts() == ("pageable_copies 2 -> 0", "syncs 2 -> 0")


def test_a_rung_that_only_costs_is_not_as_taught() -> None:
    step = only_step(measured("resnet18_input", {"workers": PINNED, "pinned": WORKERS}), "pinned")
    assert step.finding is Finding.DIFFERS
    assert step.up is not None
    assert step.up.outcome is Outcome.REGRESSED
    assert step.down is not None
    assert step.down.outcome is Outcome.IMPROVED
    assert step.why[:2] == ("pageable_copies is REGRESSED", "h2d_ms is REGRESSED")


def test_a_named_metric_that_stays_is_what_differs_though_the_rung_is_faster() -> None:
    faster = {**WORKERS, Metric.STEP_MS: 80.0, Metric.GAP_MS: 10.0}
    step = only_step(measured("resnet18_input", {"workers": WORKERS, "pinned": faster}), "pinned")
    assert step.up is not None
    assert step.up.outcome is Outcome.IMPROVED
    assert (step.finding, step.why) == (
        Finding.DIFFERS,
        ("pageable_copies is PASSED", "h2d_ms is PASSED"),
    )


def test_a_count_that_rises_beside_the_gain_is_its_price() -> None:
    scaled = {
        **OVERLAP,
        Metric.KERNEL_MS: 40.0,
        Metric.STEP_MS: 50.0,
        Metric.LAUNCHES: 390,
        Metric.SYNCS: 1,
    }
    step = only_step(
        measured("resnet50_cifar", {"max_autotune": OVERLAP, "grad_scaler": scaled}), "grad_scaler"
    )
    assert step.up is not None
    assert step.up.outcome is Outcome.REGRESSED
    assert (step.finding, step.why) == (Finding.AT_A_PRICE, ("syncs worse",))
    assert step.counts() == ("launches 400 -> 390", "syncs 0 -> 1")


def test_of_either_metric_one_is_enough() -> None:
    fused = {**OVERLAP, Metric.LAUNCHES: 100, Metric.STEP_MS: 55.0}
    assert only_step(
        measured("resnet50_cifar", {"cudnn_benchmark": OVERLAP, "compile": fused}), "compile"
    ).finding is (Finding.AS_TAUGHT)
    step = only_step(
        measured("resnet50_cifar", {"cudnn_benchmark": OVERLAP, "compile": OVERLAP}), "compile"
    )
    assert step.finding is Finding.DIFFERS
    assert step.why == (
        "launches is PASSED; kernel_ms is PASSED",
        "no faster, x1.00 where x1.18 is published",
    )


def test_graphs_in_which_no_kernel_is_faster_are_as_taught_at_a_price_and_so_is_a_scaler_that_is_gone() -> (
    None
):
    graphs = {**OVERLAP, Metric.STEP_MS: 50.0, Metric.LAUNCHES: 4, Metric.GRAPH_LAUNCHES: 3}
    step = only_step(
        measured("resnet50_cifar", {"compile": OVERLAP, "max_autotune": graphs}), "max_autotune"
    )
    assert (step.finding, step.why) == (Finding.AT_A_PRICE, ("graph_launches worse",))
    assert step.counts() == ("launches 400 -> 4", "graph_launches 0 -> 3")
    scaled = {**graphs, Metric.STEP_MS: 55.0, Metric.SYNCS: 1, Metric.D2H_COPIES: 1}
    step = only_step(
        measured("resnet50_cifar", {"grad_scaler": scaled, "autocast": graphs}), "autocast"
    )
    assert step.finding is Finding.AS_TAUGHT
    assert step.counts() == ("d2h_copies 1 -> 0", "syncs 1 -> 0")


def test_a_rung_that_is_taught_to_change_nothing_differs_where_it_does() -> None:
    better = {**OVERLAP, Metric.STEP_MS: 60.0}
    step = only_step(
        measured("resnet18_input", {"overlap": OVERLAP, "prefetcher": better}), "prefetcher"
    )
    assert step.finding is Finding.DIFFERS
    assert step.why == (
        "the step up is IMPROVED by step_ms",
        "the step back is REGRESSED by step_ms",
    )


def test_the_range_that_a_gain_lies_under_belongs_to_the_lesson() -> None:
    elsewhere = measured(
        "resnet18_input",
        {"serial": SERIAL, "workers": WORKERS},
        serial=[idle_under("get batch", 20.0), idle_under("compute", 210.0)],
        workers=[idle_under("get batch", 20.0), idle_under("compute", 10.0)],
    )
    step = only_step(elsewhere, "workers")
    assert (step.finding, step.why) == (
        Finding.DIFFERS,
        ("gap_ms falls most under compute, not under get batch",),
    )


def lab(*, fixed_ms: float, first: str = "data_load") -> Recording:
    on_gpu = {
        **SERIAL,
        Metric.STEP_MS: fixed_ms,
        Metric.GAP_MS: 5.0,
        Metric.H2D_COPIES: 0,
        Metric.PAGEABLE_COPIES: 0,
    }
    before = [run_of(SERIAL, number=n, first=first) for n in range(3)]
    after = [run_of(on_gpu, number=n) for n in range(3)]
    rungs = (rung_with("data_load_lab", "cpu", before), rung_with("data_load_lab", "gpu", after))
    return Recording(perfgate="0.1.0", machines=(H200,), rungs=rungs)


def test_the_lab_asks_for_a_tenth_and_for_data_load_on_top_of_nvtx_sum() -> None:
    assert only_step(lab(fixed_ms=200.0), "gpu").finding is Finding.AS_TAUGHT
    assert only_step(lab(fixed_ms=280.0), "gpu").why == ("x1.07, at least x1.1 is taught",)
    assert only_step(lab(fixed_ms=200.0, first="forward"), "gpu").why == (
        "data_load is at place missing of nvtx_sum before it, not among the first 2",
    )


def test_a_rung_without_runs_is_stepped_over_but_for_a_lesson_that_nothing_changes() -> None:
    def without(*names: str) -> Recording:
        rungs = [
            rung.model_copy(update={"runs": ()}) if rung.rung in names else rung
            for rung in LADDER.rungs
        ]
        return LADDER.model_copy(update={"rungs": tuple(rungs)})

    overlap = only_step(without("pinned"), "overlap")
    assert (overlap.before, overlap.finding) == ("workers", Finding.AS_TAUGHT)
    assert overlap.published == pytest.approx(6.44 / 4.81)
    assert only_step(without("pinned"), "pinned").why == ("pinned has no run that counts",)
    prefetcher = only_step(without("overlap"), "prefetcher")
    assert (prefetcher.finding, prefetcher.why) == (
        Finding.NOT_JUDGED,
        ("overlap has no run that counts",),
    )


def test_runs_on_another_gpu_model_are_not_judged() -> None:
    first, second = LADDER.rungs[:2]
    moved = second.model_copy(
        update={"runs": tuple(run.model_copy(update={"machine": 1}) for run in second.runs)}
    )
    l40s = records.machine("NVIDIA L40S")
    step = only_step(
        LADDER.model_copy(update={"machines": (H200, l40s), "rungs": (first, moved)}), "workers"
    )
    assert (step.finding, step.up) == (Finding.NOT_JUDGED, None)
    assert step.why == ("serial is for NVIDIA H200, workers is NVIDIA L40S",)


def test_without_a_gpu_a_lesson_about_it_is_not_judged() -> None:
    times = {"serial": {Metric.STEP_MS: 6.0}, "workers": {Metric.STEP_MS: 3.0}}
    step = only_step(measured("resnet18_input", times), "workers")
    assert step.up is not None
    assert step.up.outcome is Outcome.IMPROVED
    assert (step.finding, step.why) == (Finding.NOT_JUDGED, ("gap_ms was not measured in both",))


@pytest.mark.parametrize(("rung", "runs"), [("serial", 1), ("workers", 2)])
def test_too_few_runs_of_either_settle_nothing(rung: str, runs: int) -> None:
    recording = LADDER.model_copy(
        update={
            "rungs": tuple(
                one.model_copy(update={"runs": one.runs[:runs]}) if one.rung == rung else one
                for one in LADDER.rungs
            )
        }
    )
    told = {1: "1 run of serial", 2: "2 runs of workers"}[runs]
    step = only_step(recording, "workers")
    assert step.up is not None
    assert (step.finding, step.why) == (
        Finding.NOT_SETTLED,
        (f"{told}, and a duet is first looked at with 3",),
    )


def test_runs_that_lie_far_apart_leave_a_lesson_open() -> None:
    def with_kernels(rung: str, *shares: float) -> RecordedRung:
        made = [
            run_of({**OVERLAP, Metric.KERNEL_MS: 50.0 * share}, number=n)
            for n, share in enumerate(shares)
        ]
        return rung_with("resnet50_cifar", rung, made)

    rungs = with_kernels("pinned", 0.9, 1.0, 1.1), with_kernels("cudnn_benchmark", 0.8, 1.0, 1.1)
    step = only_step(Recording(perfgate="0.1.0", machines=(H200,), rungs=rungs), "cudnn_benchmark")
    assert (
        step.finding is Finding.DIFFERS
    )  # for step_ms is shown to be the same, and a gain is published
    assert step.why == ("no faster, x1.00 where x1.03 is published", "kernel_ms is INCONCLUSIVE")


def test_a_gain_beside_a_time_metric_that_is_open_is_not_settled() -> None:
    gains = {**WORKERS, Metric.STEP_MS: 80.0, Metric.H2D_MS: 5.0, Metric.PAGEABLE_COPIES: 0}
    noisy = [
        run_of({**gains, Metric.KERNEL_MS: 50.0 * share}, number=n)
        for n, share in enumerate((0.9, 1.0, 1.1))
    ]
    recording = Recording(
        perfgate="0.1.0",
        machines=(H200,),
        rungs=(
            rung_with("resnet18_input", "workers", [run_of(WORKERS, number=n) for n in range(3)]),
            rung_with("resnet18_input", "pinned", noisy),
        ),
    )
    step = only_step(recording, "pinned")
    assert (step.finding, step.why) == (Finding.NOT_SETTLED, ("kernel_ms open after 3 runs",))


def test_a_count_that_varies_and_fell_in_too_few_runs_leaves_a_lesson_open() -> None:
    launches = [738.0, 739.0, 739.0]
    compiled = [run_of({**OVERLAP, Metric.LAUNCHES: of}, number=n) for n, of in enumerate(launches)]
    with_graphs = {**OVERLAP, Metric.STEP_MS: 60.0, Metric.LAUNCHES: 37, Metric.GRAPH_LAUNCHES: 2}
    recording = Recording(
        perfgate="0.1.0",
        machines=(H200,),
        rungs=(
            rung_with("resnet50_cifar", "compile", compiled),
            rung_with(
                "resnet50_cifar", "max_autotune", [run_of(with_graphs, number=n) for n in range(3)]
            ),
        ),
    )
    step = only_step(recording, "max_autotune")
    assert step.finding is Finding.NOT_SETTLED
    assert step.why == ("launches is PASSED; gap_ms is PASSED; kernel_ms is PASSED",)


def test_runs_of_gpus_that_only_one_rung_ran_on_are_not_compared() -> None:
    slow = {
        metric: 2 * value if metric.endswith("_ms") else value for metric, value in WORKERS.items()
    }

    def on(machine: int, values: Values, runs: int) -> list[RecordedRun]:
        return [
            run_of(values, number=n).model_copy(update={"machine": machine}) for n in range(runs)
        ]

    def step_of(serial: list[RecordedRun], workers: list[RecordedRun]) -> Step:
        rungs = (
            rung_with("resnet18_input", "serial", serial),
            rung_with("resnet18_input", "workers", workers),
        )
        other = H200.model_copy(
            update={"gpus": (H200.gpus[0].model_copy(update={"uuid": "GPU-9"}),)}
        )
        return only_step(
            Recording(perfgate="0.1.0", machines=(H200, other), rungs=rungs), "workers"
        )

    met = step_of(on(0, SERIAL, 3), on(0, WORKERS, 3) + on(1, slow, 4))
    assert met.ratio == pytest.approx(3.0)
    assert met.up is not None
    assert met.up.runs == 3
    too_few_met = step_of(on(0, SERIAL, 3), on(0, WORKERS, 2) + on(1, slow, 5))
    assert too_few_met.ratio == pytest.approx(1.5, rel=0.01)


# What is shown


def test_what_a_gate_remarks_on_is_told_of_each_rung() -> None:
    def paced(one: RecordedRun) -> RecordedRun:
        (process,) = one.run.processes
        process = process.model_copy(update={"periods_ms": (50.0,) * 10 + (60.0,) * 18})
        return one.model_copy(update={"run": one.run.model_copy(update={"processes": (process,)})})

    recording = measured("resnet50_cifar", {"compile": OVERLAP, "max_autotune": OVERLAP})
    now = recording.rungs[1]
    now = now.model_copy(update={"runs": tuple(map(paced, now.runs))})
    text = markdown(
        recording.model_copy(update={"rungs": (recording.rungs[0], now)}), picture=False
    )
    told = text.partition("What the gate remarks on, on the way up:\n\n")[2].partition("\n\n")[0]
    assert told.startswith("- max_autotune: The pace changes ")
    assert "What the gate remarks on" not in markdown(LADDER, picture=False)


def test_shares_of_a_step_are_those_of_the_median_run_and_add_up_to_it() -> None:
    memory = {**OVERLAP, Metric.MEM_EXPOSED_MS: 6.3}
    shares = shares_of(
        rung_with("resnet18_input", "overlap", [run_of(memory, number=n) for n in range(3)])
    )
    assert shares is not None
    assert shares.copying == pytest.approx(0.1)
    assert shares.idle == pytest.approx(14 / 64)
    assert shares.computing + shares.copying + shares.idle == pytest.approx(1.0)
    assert shares_of(rung_with("resnet18_input", "serial", [run_of({Metric.STEP_MS: 3.0})])) is None
    # Means over all steps, of a median one: together they may be longer than it.
    waits = {**OVERLAP, Metric.GAP_MS: 60.0, Metric.H2D_EXPOSED_MS: 10.0}
    shares = shares_of(rung_with("resnet18_input", "overlap", [run_of(waits)]))
    assert shares is not None
    assert shares.computing == pytest.approx(0.0)


# The door


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def call(*arguments: str | Path) -> tuple[int, str]:
        status = door.main([str(argument) for argument in arguments])
        return status, capsys.readouterr().err

    return call


def test_merge_keeps_what_its_file_holds(
    told: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    out, part = tmp_path / "all.json", tmp_path / "b.json"
    save(LADDER, out)
    save(measured("resnet50_cifar", {"naive": SERIAL}), part)
    assert told("merge", out, part) == (0, "")
    assert load(out).loops() == ("resnet18_input", "resnet50_cifar")
    assert told("merge", out, part, "--replace") == (0, "")
    assert [len(rung.runs) for rung in load(out).rungs] == [3] * 6


def test_replacing_takes_a_whole_loop_from_the_last_file_that_has_runs_of_it() -> None:
    then = merge([LADDER, measured("resnet50_cifar", {"naive": SERIAL, "detached": SERIAL})])
    l40s = records.machine("NVIDIA L40S")
    again = measured("resnet50_cifar", {"naive": WORKERS}).model_copy(update={"machines": (l40s,)})
    not_yet = rung_with("resnet18_input", "serial", [])
    merged = merge(
        [then, again.model_copy(update={"rungs": (not_yet, *again.rungs)})], replace=Replace.LOOPS
    )
    assert [(rung.key, len(rung.runs)) for rung in merged.rungs] == [
        *(((loop, rung), 3) for loop, rung in (one.key for one in LADDER.rungs)),
        (("resnet50_cifar", "naive"), 3),
    ]
    naive = merged.rungs[-1]
    assert naive.values(Metric.STEP_MS)[1] == WORKERS[Metric.STEP_MS]
    assert {merged.machines[run.machine].gpu_name for run in naive.runs} == {"NVIDIA L40S"}
    (alone,) = merge(
        [again, LADDER.model_copy(update={"rungs": again.rungs})], replace=Replace.LOOPS
    ).machines
    assert alone == H200


def test_replacing_rungs_leaves_the_loops_other_rungs_as_they_were(
    told: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    l40s = records.machine("NVIDIA L40S")
    again = measured("resnet18_input", {"workers": PINNED, "kept": OVERLAP}).model_copy(
        update={"machines": (l40s,)}
    )
    out, part = tmp_path / "all.json", tmp_path / "b.json"
    save(LADDER, out)
    save(again, part)
    assert told("merge", out, part, "--replace-rungs") == (0, "")
    merged = load(out)
    assert {rung.key for rung in merged.rungs} == {
        *(rung.key for rung in LADDER.rungs),
        ("resnet18_input", "kept"),
    }
    names = {
        "workers": "NVIDIA L40S",
        "kept": "NVIDIA L40S",
        "serial": "NVIDIA H200",
        "pinned": "NVIDIA H200",
    }
    for rung, gpu in names.items():
        recorded = merged.of("resnet18_input", rung)
        assert recorded is not None
        assert [merged.machines[run.machine].gpu_name for run in recorded.runs] == [gpu] * 3
    workers = merged.of("resnet18_input", "workers")
    assert workers is not None
    assert workers.values(Metric.STEP_MS)[1] == PINNED[Metric.STEP_MS]


def test_the_warm_up_of_the_recorded_rungs_is_long_enough() -> None:
    recorded = load(Path(door.__file__).parent / "h200.json").rungs
    runs = [one.run for rung in recorded for one in rung.sound if one.run.processes[0].periods_ms]
    assert len(runs) == 88
    assert [run.started_at for run in runs if slow_start([run, run]) is not None] == []


def test_the_committed_table_is_what_the_recording_and_the_judge_of_now_make() -> None:
    folder = Path(door.__file__).parent
    told = markdown(load(folder / "h200.json"), picture=True)
    assert (folder / "RESULTS.md").read_text(encoding="utf-8") == told, (
        "python -m benchmarks.ladders table h200.json"
    )


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "it cannot be read (No such file or directory)."),
        (
            "{",
            "it is no recording of rungs (it: Invalid JSON: EOF while parsing an object at line 1 column 1).",
        ),
        ("{}", "it is no recording of rungs (perfgate: Field required)."),
        (
            '{"format": 2, "perfgate": "9"}',
            "it is no recording of rungs (format: Input should be 1).",
        ),
    ],
)
def test_a_file_that_is_no_recording_is_told_in_a_sentence(
    told: Callable[..., tuple[int, str]], tmp_path: Path, content: str | None, complaint: str
) -> None:
    file = tmp_path / "in.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    assert told("table", file, "--out", tmp_path) == (2, f"{file}: {complaint}\n")
