"""The series: turns, file, judgement and table, on runs made of numbers and by a clock of our
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from support import records
from support.judging import MOMENT

from benchmarks.series import __main__ as command
from benchmarks.series.judging import Finding, Step, judge_loop
from benchmarks.series.measuring import (
    Collected,
    Taken,
    Turns,
)
from benchmarks.series.recording import (
    RecordedRun,
    RecordedVariant,
    Recording,
    load,
    merge,
    save,
)
from benchmarks.series.table import markdown
from perfgate.explain.shown import slow_starts
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import ProcessSample, Run
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
OVERLAP: Values = {**WORKERS, Metric.STEP_MS: 64.0, Metric.GAP_MS: 14.0}


def workload(loop: str, variant: str) -> Workload:
    return Workload(
        id=f"{loop}[{variant}]",
        source=f"workloads/{loop}.py",
        nodeid=f"workloads/{loop}.py::{loop}[{variant}]",
        steps=30,
        warmup=5,
        parameters={"variant": repr(variant)},
    )


def run_of(
    values: Values,
    *,
    number: int = 0,
) -> RecordedRun:
    """One run, `number` minutes after the first; its times differ by 0.1 % from number to
    number.
    """
    wobble = 1 + 0.001 * (number % 3 - 1)
    clocks = {
        metric: value * wobble if metric.endswith("_ms") else value
        for metric, value in values.items()
    }
    process = ProcessSample(pid=7, steps=30, values=clocks, window_ms=1.0)
    made = Run(
        started_at=MOMENT + timedelta(minutes=number),
        wall_s=10.0,
        processes=(process,),
    )
    return RecordedRun(run=made, machine=0, took_s=10.0, code="c0de")


def variant_with(loop: str, variant: str, runs: Sequence[RecordedRun]) -> RecordedVariant:
    return RecordedVariant(
        loop=loop, variant=variant, workload=workload(loop, variant), runs=tuple(runs)
    )


def measured(loop: str, variants: Mapping[str, Values]) -> Recording:
    """A recording of three runs a variant on one H200."""
    return Recording(
        perfgate="0.1.0",
        machines=(H200,),
        variants=tuple(
            variant_with(loop, variant, [run_of(values, number=n) for n in range(3)])
            for variant, values in variants.items()
        ),
    )


VARIANTS = measured("resnet18_input", {"serial": SERIAL, "workers": WORKERS, "prefetcher": OVERLAP})


def only_step(recording: Recording, variant: str) -> Step:
    (loop,) = recording.loops()
    (step,) = [step for step in judge_loop(recording, loop) if step.variant == variant]
    return step


class Machinery:
    """Makes runs out of nothing, until it is killed."""

    def __init__(self, *, lasts: int = 99) -> None:
        self.made: list[str] = []
        self._lasts = lasts

    def __call__(self, one: Collected) -> Taken:
        if len(self.made) == self._lasts:
            raise KeyboardInterrupt
        self.made.append(one.variant)
        return Taken(run=run_of(SERIAL, number=len(self.made)), machine=H200)

    def turns(self, file: Path) -> Turns:
        """Two runs of each of three variants, saved in a file."""
        loop = "resnet18_input"
        return Turns(
            recording=load(file) if file.exists() else Recording(perfgate="0.1.0"),
            variants=[
                Collected(loop=loop, variant=variant, workload=workload(loop, variant))
                for variant in ("serial", "workers", "pinned")
            ],
            runs=2,
            measure=self,
            save=lambda recording: save(recording, file),
            say=lambda _line: None,
        )


def test_a_killed_command_goes_on_where_it_was(tmp_path: Path) -> None:
    killed, again, file = Machinery(lasts=4), Machinery(), tmp_path / "out.json"
    with pytest.raises(KeyboardInterrupt):
        killed.turns(file).take()
    recording = again.turns(file).take()
    assert killed.made == ["serial", "workers", "pinned", "pinned"]
    assert again.made == ["workers", "serial"]
    assert [len(variant.sound) for variant in recording.variants] == [2, 2, 2]


def test_a_recording_is_read_as_it_was_written_a_run_a_line(tmp_path: Path) -> None:
    save(VARIANTS, tmp_path / "out.json")
    assert load(tmp_path / "out.json") == VARIANTS
    lines = (tmp_path / "out.json").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith('{"run":') for line in lines) == 9
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]


def test_merging_takes_each_run_once_in_order_of_time() -> None:
    other_gpu = H200.model_copy(
        update={"gpus": (H200.gpus[0].model_copy(update={"uuid": "GPU-9"}),)}
    )
    early = VARIANTS.model_copy(update={"variants": VARIANTS.variants[:2]})
    late = Recording(
        perfgate="0.1.0",
        machines=(other_gpu,),
        variants=(
            variant_with("resnet18_input", "workers", [run_of(WORKERS, number=5)]),
            variant_with("resnet50_cifar", "naive", [run_of(SERIAL, number=6)]),
        ),
    )
    merged = merge([late, early, early])
    assert {variant.key: len(variant.runs) for variant in merged.variants} == {
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


# The judgement


def test_a_variant_that_is_taught_to_change_nothing_differs_where_it_does() -> None:
    better = {**OVERLAP, Metric.STEP_MS: 60.0}
    step = only_step(
        measured("resnet18_input", {"overlap": OVERLAP, "prefetcher": better}), "prefetcher"
    )
    assert step.finding is Finding.DIFFERS
    assert step.why == (
        "the step up is IMPROVED by step_ms",
        "the step back is REGRESSED by step_ms",
    )


def test_without_a_gpu_a_lesson_about_it_is_not_judged() -> None:
    times = {"serial": {Metric.STEP_MS: 6.0}, "workers": {Metric.STEP_MS: 3.0}}
    step = only_step(measured("resnet18_input", times), "workers")
    assert step.up is not None
    assert step.up.outcome is Outcome.IMPROVED
    assert (step.finding, step.why) == (Finding.NOT_JUDGED, ("gap_ms was not measured in both",))


def test_the_warm_up_of_the_recorded_variants_is_long_enough() -> None:
    recorded = load(Path(command.__file__).parent / "h200.json").variants
    runs = [
        one.run for variant in recorded for one in variant.sound if one.run.processes[0].periods_ms
    ]
    assert len(runs) == 88
    assert [run.started_at for run in runs if slow_starts([run, run])] == []


def test_the_committed_table_is_what_the_recording_and_the_judge_of_now_make() -> None:
    folder = Path(command.__file__).parent
    found = markdown(load(folder / "h200.json"))
    assert (folder / "RESULTS.md").read_text(encoding="utf-8") == found, (
        "python -m benchmarks.series table h200.json"
    )
