"""What is worth knowing of a process's metrics, and makes none of them wrong; it must not know the judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from perfgate.metrics.absent import untimed
from perfgate.metrics.devices import Devices
from perfgate.metrics.kinds import bare, kind_of
from perfgate.metrics.process import Process
from perfgate.metrics.steps import listed_names
from perfgate.metrics.tally import GRAPH_WORDS
from perfgate.model.arrays import distinct
from perfgate.model.metric import Metric
from perfgate.model.words import inflected, listed

LEAST_BESIDE: Final = 0.01
"""Share of the steps' time from which on it is said that processes without steps keep another GPU busy."""
AHEAD_BELOW: Final = 0.8
"""Where the step range's median is below this share of step_ms it is said where the rest of the step went."""


def remarks(process: Process, values: Mapping[Metric, float]) -> Iterator[str]:
    """Where the rest of a step went, and what counts otherwise than one would think; `values` are those told.

    A number stands where no other word depends on it: remarks of several runs are one if they differ in numbers only.
    """
    steps, segments, totals = process.steps, process.segments, process.totals
    yield from _beside_the_range(process, values.get(Metric.STEP_MS))
    if linkless := sum(int(lacking.sum()) for lacking in totals.without_call.values()):
        yield f"GPU operations have no API call in the capture and count where they ran ({linkless})"
    if totals.before_capture:
        yield f"GPU operations were launched before the capture and are of no step ({totals.before_capture})"
    if totals.without_times:
        counted = "" if untimed(process) else " and count as 0 ms"
        yield f"GPU operations have no times in the capture{counted} ({totals.without_times})"
    if (graphs := totals.kernels.get(GRAPH_WORDS)) is not None:
        yield (
            "CUDA graphs were traced whole: what they copy or send with NCCL is part of their kernel time, and of no "
            f"other metric ({graphs.count / len(steps):.4g} {'in all' if steps.whole else 'per step'})"
        )
    if untold := _start_end_untold(process):
        yield (
            "start/end ranges may overlap others, and are not told of where ranges are pushed and popped: "
            f"{listed_names(untold)}"
        )
    between = (segments.step < 0) & (segments.turn >= 0)
    if apart := int(totals.operations[between].sum()):
        yield (
            "GPU operations were launched between the steps and count to the step before them "
            f"({apart / len(steps):.4g} per step)"
        )
    if passing := [device for device in totals.devices if device not in process.in_use]:
        titles = (process.gpu_title(device) for device in sorted(passing))
        yield f"{listed(titles)} ran something in next to none of the steps: no idle time is counted there"


def done_beside(process: Process, devices: Devices) -> Iterator[str]:
    """Where processes without steps work on GPUs that the steps do not use: no metric has that, nor could a loss."""
    windows = process.windows
    if (
        windows is None
        or not windows.ns
        or not process.totals.devices
        or "devices" in process.timeline.missing
    ):
        return
    for device in devices.present:
        if device in process.totals.devices:
            continue
        busy, pids = devices.busy_by_stepless(device, windows) or (0.0, ())
        if busy > LEAST_BESIDE:
            yield (
                f"{inflected(len(pids), 'process', 'processes')} {listed(map(str, pids))}, in which no step is "
                f"marked, kept {process.gpu_title(device)} busy meanwhile: that is in no metric"
            )


def _start_end_untold(process: Process) -> set[str]:
    """Names of the start/end ranges that begin in the steps, on their threads, and in no row of ranges."""
    ranges, steps = process.timeline.ranges, process.steps
    here = (
        (ranges.process == steps.process) & np.isin(ranges.thread, steps.threads) & ~ranges.push_pop
    )
    here &= (ranges.start >= steps.starts[0]) & (ranges.start < steps.ends[-1])
    here[steps.rows] = False
    told = set(process.segments.labels)
    names = ranges.name.texts.taken(distinct(ranges.name.codes[here]))
    return {name for name in bare(names).texts if name not in told and kind_of(name) not in told}


def _beside_the_range(process: Process, step_ms: float | None) -> Iterator[str]:
    """Say what a step is beside its range: the GPU's work behind it, what lies between two, or nothing of a GPU."""
    steps, nvtx_step_ms = process.steps, process.nvtx_step_ms
    if step_ms is None:
        return
    if not process.totals.devices:
        yield "no GPU operation was launched in the steps: step_ms is CPU time only"
    elif nvtx_step_ms is not None and nvtx_step_ms < AHEAD_BELOW * step_ms:
        behind = np.median(process.done - steps.ends)
        if behind >= np.median((steps.starts[1:] - steps.ends[:-1])[~steps.resumes[1:]]):
            ahead = f"the step range lasts {nvtx_step_ms:.4g} ms, a step takes {step_ms:.4g} ms"
            yield f"the CPU runs ahead of the GPU: {ahead}"
        else:
            yield f"a step takes {step_ms:.4g} ms, of which its range is {nvtx_step_ms:.4g} ms: the rest lies between"
