"""The runs of all variants as one file of plain numbers: reads, writes and joins such files;
measures and judges nothing.

A run is kept as perfgate's own record of it, cut to what a table, a judgement and a "where" need.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.record import Record
from perfgate.model.sample import OUTSIDE_RANGES, ProcessSample, Run
from perfgate.model.workload import OWN_RANGES, STEP_RANGE, Workload
from perfgate.system.files import write_whole
from perfgate.words import say

MOST_RANGES: Final = 12
MOST_KERNELS: Final = 8
MOST_PERIODS: Final = 60
"""Of longer runs no periods are kept."""
MOST_NAME: Final = 100
"""Characters of a kernel's name."""
_DIGITS: Final = 6
_OWN_RANGES: Final = frozenset({STEP_RANGE, OUTSIDE_RANGES, *OWN_RANGES})


class Unusable(Exception):
    """What is asked for cannot be measured, as one sentence."""


class RecordedRun(Record):
    """One run of one variant: one fresh process under nsys."""

    run: Run
    machine: int = Field(ge=0)
    """Index into the recording's machines."""
    took_s: float = Field(gt=0)
    """From the start of nsys until its captures were measured."""
    code: str | None = None
    """Digest of the project's files that it loaded."""
    commit: str | None = None

    @property
    def longest_ranges(self) -> list[str]:
        """Ranges of a step by their time on the CPU, perfgate's own left out."""
        ranges = [one for process in self.run.processes for one in process.ranges]
        ranges.sort(key=lambda one: one.cpu_ms, reverse=True)
        return list(dict.fromkeys(one.name for one in ranges if one.name not in _OWN_RANGES))

    @property
    def problems(self) -> tuple[str, ...]:
        """What makes it no measurement."""
        return tuple(map(say.fact, (*self.run.conditions.invalid, *self.run.invalid)))


class Failure(Record):
    """A try that came to nothing."""

    at: datetime
    reason: str


class RecordedVariant(Record):
    """One variant with all that was tried of it."""

    loop: str
    variant: str
    workload: Workload
    runs: tuple[RecordedRun, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def sound(self) -> tuple[RecordedRun, ...]:
        """The runs that count."""
        return tuple(run for run in self.runs if not run.problems)

    @property
    def key(self) -> tuple[str, str]:
        """Loop and variant."""
        return self.loop, self.variant

    def values(self, metric: Metric) -> tuple[float, ...]:
        """One metric over the runs that count and have it."""
        found = [one.run.value(metric) for one in self.sound]
        return tuple(value for value in found if value is not None)


class Recording(Record):
    """The whole file."""

    format: Literal[1] = 1
    """History: 1, the first."""
    perfgate: str
    machines: tuple[Machine, ...] = ()
    variants: tuple[RecordedVariant, ...] = ()

    def of(self, loop: str, variant: str) -> RecordedVariant | None:
        """One variant."""
        return next((one for one in self.variants if one.key == (loop, variant)), None)

    def loops(self) -> tuple[str, ...]:
        """The loops, in the order in which they were first measured."""
        return tuple(dict.fromkeys(one.loop for one in self.variants))

    def machine_index(self, machine: Machine) -> tuple[Recording, int]:
        """This recording with a machine in it, and the machine's index."""
        if machine in self.machines:
            return self, self.machines.index(machine)
        return self.model_copy(update={"machines": (*self.machines, machine)}), len(self.machines)

    def with_variant(self, variant: RecordedVariant) -> Recording:
        """This recording with one variant replaced, or added at the end."""
        if self.of(*variant.key) is None:
            return self.model_copy(update={"variants": (*self.variants, variant)})
        return self.model_copy(
            update={
                "variants": tuple(
                    variant if one.key == variant.key else one for one in self.variants
                )
            }
        )


def load(path: Path) -> Recording:
    """Read a recording.

    Raises:
        OSError, ValidationError: there is none, or it is none.
    """
    return Recording.model_validate_json(path.read_bytes())


def save(recording: Recording, path: Path) -> None:
    """Write a recording, a run a line; whoever is killed meanwhile leaves the former file
    whole."""
    shown = {"format": recording.format, **recording.model_dump(mode="json", exclude_defaults=True)}
    text = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
    for start in ('{"loop"', '{"run":', '"machines"', '"variants"'):
        text = text.replace(start, f"\n{start}")
    write_whole(path, text + "\n")


def merge(recordings: Sequence[Recording]) -> Recording:
    """Return one recording of several; runs that several hold are taken once, and the rest in order
    of time.

    Raises:
        Unusable: the parts are of different workloads under one name.
    """
    merged = Recording(perfgate=recordings[-1].perfgate)
    for recording in recordings:
        places: dict[int, int] = {}
        for number, machine in enumerate(recording.machines):
            merged, places[number] = merged.machine_index(machine)
        for variant in recording.variants:
            moved = tuple(
                run.model_copy(update={"machine": places[run.machine]}) for run in variant.runs
            )
            so_far = merged.of(*variant.key)
            merged = merged.with_variant(
                _joined(so_far, variant.model_copy(update={"runs": moved}))
            )
    return merged


def _joined(former: RecordedVariant | None, variant: RecordedVariant) -> RecordedVariant:
    if former is None:
        return variant
    refuse_other_parameters(former, variant.workload)
    runs = sorted({_identity(run): run for run in (*former.runs, *variant.runs)}.items())
    failures = {
        (failure.at, failure.reason): failure for failure in (*former.failures, *variant.failures)
    }
    return former.model_copy(
        update={
            "runs": tuple(run for _, run in runs),
            "failures": tuple(failure for _, failure in sorted(failures.items())),
        }
    )


def _identity(run: RecordedRun) -> tuple[datetime, int, tuple[int, ...]]:
    return run.run.started_at, run.machine, tuple(process.pid for process in run.run.processes)


def refuse_other_parameters(former: RecordedVariant, workload: Workload) -> None:
    """Refuse to join what does other work than what is recorded.

    Raises:
        Unusable: names what differs.
    """
    then, now = former.workload.comparable_parameters(), workload.comparable_parameters()
    changed = [
        f"{name} was {then.get(name, 'not there')} and is {now.get(name, 'gone')}"
        for name in sorted({*then, *now})
        if then.get(name) != now.get(name)
    ]
    if changed:
        raise Unusable(
            f"{former.workload.id}: its recorded runs are of other parameters "
            f"({', '.join(changed)})."
        )


def compact(run: Run) -> Run:
    """Cut a run to what is kept of it: counts exact, and of times six digits, far below the
    noise.
    """
    gpus = tuple(
        gpu.model_copy(
            update={
                name: _rounded(value)
                for name in ("sm_clock_mhz", "temperature_c", "power_w")
                if (value := getattr(gpu, name)) is not None
            }
        )
        for gpu in run.conditions.gpus
    )
    return run.model_copy(
        update={
            "folder": None,
            "wall_s": _rounded(run.wall_s),
            "conditions": run.conditions.model_copy(update={"gpus": gpus}),
            "processes": tuple(_compact_process(process) for process in run.processes),
        }
    )


def _compact_process(process: ProcessSample) -> ProcessSample:
    ranges = sorted(process.ranges, key=lambda row: row.size_ms, reverse=True)[:MOST_RANGES]
    kernels = sorted(process.kernels, key=lambda kernel: kernel.gpu_ms, reverse=True)[:MOST_KERNELS]
    few = len(process.periods_ms) <= MOST_PERIODS
    return process.model_copy(
        update={
            "values": _clocks_rounded(process.values),
            "window_ms": _rounded(process.window_ms),
            "periods_ms": tuple(map(_rounded, process.periods_ms)) if few else (),
            "devices": (),
            "ranges": tuple(
                one.model_copy(
                    update={
                        "cpu_ms": _rounded(one.cpu_ms),
                        "count": _rounded(one.count),
                        "values": {
                            metric: value
                            for metric, value in _clocks_rounded(one.values).items()
                            if value
                        },
                    }
                )
                for one in ranges
            ),
            "kernels": tuple(
                one.model_copy(
                    update={
                        "name": one.name[:MOST_NAME],
                        "count": _rounded(one.count),
                        "gpu_ms": _rounded(one.gpu_ms),
                    }
                )
                for one in kernels
            ),
        }
    )


def _clocks_rounded(values: Mapping[Metric, float]) -> dict[Metric, float]:
    return {
        metric: value if METRICS[metric].kind is Kind.COUNT else _rounded(value)
        for metric, value in values.items()
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
