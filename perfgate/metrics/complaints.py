"""What makes a run no measurement of its steps: first-time work, lost records, others' work; knows no judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from perfgate.metrics.absent import MOST_LOST, ran_outside, unplaced, untimed, why_unplaced
from perfgate.metrics.devices import Devices, devices_of
from perfgate.metrics.process import STRAY, Process
from perfgate.metrics.steps import Steps
from perfgate.metrics.warmup import unsettled
from perfgate.model.arrays import distinct
from perfgate.model.metric import Metric
from perfgate.model.timeline import Timeline
from perfgate.model.words import inflected, listed, plural

EMPTY_BELOW_MS: Final = 0.02
"""A step without GPU work that is shorter holds nothing: marking it takes 0.001-0.006 ms (two cores, nsys 2024.2)."""
FEW_UNTIMED: Final = 2
"""So many GPU operations may lack their times, as long as they are no more than `MOST_UNTIMED` of all."""
MOST_UNTIMED: Final = 0.005
"""Half of kernel time's default budget."""
FEW_UNPLACED: Final = 2
"""So many of a table's operations may belong to no step that is known, if they are no more than `MOST_UNPLACED`."""
MOST_UNPLACED: Final = 0.005
"""Half of kernel time's default budget; of the captures of `tests/golden/data` none has any."""
MOST_BEFORE_CALL: Final = 0.01
"""Share of the steps' GPU operations that may begin before their calls; and of the steps' time, all together."""
MOST_COPIES_LOST: Final = 0.05
"""Share of the steps' copying calls that may lack their copy: a call may copy nothing."""
FEWEST_WORKING: Final = 3
"""So many steps, and more than `STRAY` of all, must use a GPU before others that do not are steps that lack records."""
FEWEST_BETWEEN: Final = 3
"""So many such steps side by side between others, if no more lack them: one or two batches may be skipped."""
BY_CHANCE: Final = 0.001
"""Of the steps of a loop that uses the GPU in bursts, a row that comes more rarely is none of them."""
MOST_ELSEWHERE: Final = 0.01
"""Share of the steps' time in which processes without steps may keep their GPUs busy: kernel time's default budget."""
MOST_OVERTAKEN: Final = 0.45
"""Share of the periods that work which outlasts the steps behind its own may have shortened: from half of them on, the
median is one of those."""


def complaints(
    process: Process, others: Sequence[Steps], devices: Devices, values: Mapping[Metric, float]
) -> Iterator[str]:
    """What says that the steps are not those of a settled loop, or that the capture does not hold all of them.

    Args:
        process: the process that is measured.
        others: the steps of all processes that have any; its own may be among them.
        devices: of the capture.
        values: the metrics that could be told.
    """
    yield from _one_after_the_other(process.timeline, process.steps, others)
    yield from _ranks_without_steps(process, devices)
    if "devices" not in process.timeline.missing:
        yield from _done_elsewhere(process, devices)
    if why_unplaced(process):
        return
    yield from _before_their_calls(process)
    if (first := unsettled(process)) is not None:
        yield first
    yield from _lost(process)
    yield from _silent(process)
    yield from _unplaced(process)
    yield from _without_times(process)
    yield from _overtaken(process, values.get(Metric.STEP_MS))
    yield from _empty(process, values)


def _one_after_the_other(timeline: Timeline, own: Steps, others: Sequence[Steps]) -> Iterator[str]:
    """Say that the steps of another process come after its own.

    Where each has GPUs of its own, or it cannot be told which it has, they may be of one job all the same, of replicas
    that began at different times.
    """
    if own.whole:
        return
    for other in others:
        if other.starts[0] >= own.ends[-1] and not _have_their_own(
            timeline, own.process, other.process
        ):
            yield (
                f"the steps of processes {timeline.processes[own.process]} and {timeline.processes[other.process]} are "
                "one after the other: they are no ranks of one job; let `step` match those of one of them, or, if a "
                "launcher started the job anew (torchrun --max-restarts), see why the first attempt failed"
            )
            return


def _have_their_own(timeline: Timeline, process: int, other: int) -> bool:
    own, theirs = devices_of(timeline, process), devices_of(timeline, other)
    return bool(own and theirs) and ("devices" in timeline.missing or own.isdisjoint(theirs))


def _ranks_without_steps(process: Process, devices: Devices) -> Iterator[str]:
    """Say that processes without steps run NCCL's kernels meanwhile: they are ranks of the same job, and untold."""
    timeline, steps = process.timeline, process.steps
    kernels = timeline.kernels
    if steps.whole or len(timeline.processes) == len(devices.stepping):
        return
    during = devices.nccl & (kernels.end > steps.starts[0]) & (kernels.start < process.done[-1])
    rows = during & ~np.isin(kernels.process, list(devices.stepping))
    # Who runs none of NCCL's kernels has no part in what the others do with them: a server on other GPUs, say.
    if rows.any() and (during & (kernels.process == steps.process)).any():
        pids = sorted(timeline.processes[one] for one in distinct(kernels.process[rows]).tolist())
        yield (
            f"{inflected(len(pids), 'process', 'processes')} {listed(map(str, pids))} of the same workload "
            f"{inflected(len(pids), 'runs', 'run')} NCCL's kernels meanwhile, and no step is marked there: of a job's "
            "ranks the slowest is judged, so mark the steps on each of them"
        )


def _done_elsewhere(process: Process, devices: Devices) -> Iterator[str]:
    """Say that processes without steps keep the steps' GPUs busy: that is in no metric but as busy time.

    Where the steps use no GPU, of whichever GPU it is: an engine that works for a client, say.
    """
    windows = process.windows
    if windows is None or not windows.ns:
        return
    for device in process.in_use or (() if process.totals.devices else devices.present):
        busy, pids = devices.busy_by_stepless(device, windows) or (0.0, ())
        if busy > MOST_ELSEWHERE:
            yield (
                f"{inflected(len(pids), 'process', 'processes')} {listed(map(str, pids))} of the same workload, in "
                f"which no step is marked, kept {process.gpu_title(device)} busy for {busy:.1%} of the steps: it is in "
                "no metric; mark the steps there too, or let the process with the steps do that work"
            )


def _before_their_calls(process: Process) -> Iterator[str]:
    """Say that GPU operations begin before the calls that launch them: one of two clocks is wrong."""
    steps, totals = process.steps, process.totals
    ahead = np.concatenate(totals.before_call)
    held = int(totals.operations[process.segments.turn >= 0].sum())
    span = int(steps.ends[-1] - steps.starts[0])
    if (
        len(ahead) > MOST_BEFORE_CALL * held
        or float(ahead.sum(dtype=np.float64)) > MOST_BEFORE_CALL * span
    ):
        yield (
            f"of {held} GPU operations in the steps {plural(len(ahead), 'begins', 'begin')} before the call that "
            f"launched {inflected(len(ahead), 'it', 'them')}, by {np.median(ahead) / 1e6:.4g} ms at the median: the "
            "GPU's clock and the CPU's disagree in this capture, or those times are wrong; run it again, or with "
            "another nsys or driver"
        )


def _lost(process: Process) -> Iterator[str]:
    """Say that launches lack their kernels, or copying calls their copies."""
    totals = process.totals
    if totals.lost > MOST_LOST * totals.launched:
        has_graphs = totals.by_segment[Metric.GRAPH_LAUNCHES].any()
        launches = "launches of kernels and CUDA graphs" if has_graphs else "kernel launches"
        what = "of them" if has_graphs else inflected(totals.lost, "kernel")
        yield (
            f"of {totals.launched} {launches} in the steps the capture lacks {totals.lost} {what}: the profiler was "
            "stopped before the GPU had ended them, or lost them; synchronise before it stops, or let it stop later"
        )
    if totals.nodes_lost > MOST_LOST * totals.nodes:
        yield (
            f"of {totals.nodes} kernels in CUDA graphs in the steps the capture lacks {totals.nodes_lost}: none of a "
            "graph's kernels is there each time that the graph was launched, so the profiler lost some; run it again"
        )
    if (
        len(process.timeline.copies.start)
        and totals.copies_lost > MOST_COPIES_LOST * totals.copying
    ):
        yield (
            f"of {totals.copying} calls that copy in the steps the capture lacks the copies of {totals.copies_lost}: "
            "the profiler was stopped before they had ended, or lost them; synchronise before it stops"
        )


def _silent(process: Process) -> Iterator[str]:
    """Say that for some steps nothing of the process but its ranges was recorded, as in no loop's own rhythm.

    What is not recorded is no idle time: another profiler has taken over, or records were lost. Where other steps have
    no CUDA call either, a loop may use the GPU in bursts, and only a row of them counts that hardly comes by chance.
    """
    steps, totals = process.steps, process.totals
    if steps.whole or not totals.calls.any():
        return
    operations = process.by_turn(totals.operations)
    working = np.flatnonzero(operations + process.by_turn(totals.calls))
    # Of a loop that hardly uses a GPU, calls come and go with what it allocates.
    if len(working) < max(FEWEST_WORKING, STRAY * len(steps)) or not np.median(operations[working]):
        return
    # Rows of steps without records: before the first that has some, between them, and behind the last.
    rows = np.diff(np.concatenate(([-1], working, [len(steps)]))) - 1
    place = int(np.argmax(rows))
    longest = int(rows[place])
    if others := int(rows.sum()) - longest:
        # Each in turn by the rule of succession, which knows the share of them from the other steps alone.
        so_far = np.arange(longest)
        chance = np.prod((others + 1 + so_far) / (others + len(working) + 2 + so_far))
        counts = bool(len(rows) * chance <= BY_CHANCE)
    else:
        counts = longest >= (1 if place in (0, len(working)) else FEWEST_BETWEEN)
    if not counts:
        return
    first = int(working[place - 1]) + 2 if place else 1
    which = f"step {first}" if longest == 1 else f"steps {first} to {first + longest - 1}"
    yield (
        f"in {which} of the measured {len(steps)} the capture holds no CUDA call and no GPU work of process "
        f"{process.pid}, and in the others it does: the profiler lost them, or another one (torch.profiler) took over; "
        "run it without that, or mark as steps only what uses the GPU"
    )


def _unplaced(process: Process) -> Iterator[str]:
    """Say that some operations count nowhere; where they are many, their metrics are absent.

    Where no call was recorded at all, the counts that are absent for it say so.
    """
    if not process.totals.calls.any():
        return
    absent = unplaced(process)
    for table, (outside, held) in ran_outside(process).items():
        few = max(MOST_LOST * held, min(FEW_UNPLACED, MOST_UNPLACED * held))
        if outside > few and table not in absent:
            yield (
                f"of {held} {table.value} since the first step {plural(outside, 'has', 'have')} no API call in the "
                "capture and ran outside all steps, so that they would count nowhere: run it again"
            )


def _without_times(process: Process) -> Iterator[str]:
    """Say that CUPTI could not time some operations; where it timed none, their metrics are absent."""
    totals = process.totals
    held = int(totals.operations.sum())
    few = max(MOST_LOST * held, min(FEW_UNTIMED, MOST_UNTIMED * held))
    if totals.without_times > few and not untimed(process):
        lacking = plural(totals.without_times, "has", "have")
        yield f"of {held} GPU operations {lacking} no times in the capture, and would count as 0 ms: run it again"


def _overtaken(process: Process, step_ms: float | None) -> Iterator[str]:
    """Say that steps are complete only when the work of earlier ones is."""
    overtaken = np.append(False, process.done[1:] == process.done[:-1])
    # The step behind those that an operation spans has a period that is too short as well.
    spans = int((overtaken[1:] & ~overtaken[:-1]).sum())
    count = int(overtaken.sum())
    if process.totals.devices and (count + spans > MOST_OVERTAKEN * len(overtaken) or step_ms == 0):
        yield (
            f"GPU work of earlier steps goes on until the end of {count} of the {len(overtaken)} steps, or beyond: "
            "they are complete in clumps, whose periods are no step's; wait in a step for what it starts, or mark the "
            "whole cycle as one step"
        )


def _empty(process: Process, values: Mapping[Metric, float]) -> Iterator[str]:
    """Say that the steps hold nothing but their marking."""
    step_ms = values.get(Metric.STEP_MS)
    if step_ms is not None and step_ms < EMPTY_BELOW_MS and not process.totals.devices:
        yield (
            f"a step takes {step_ms:.2g} ms, about what marking it takes, and launches nothing on a GPU: the work is "
            "done elsewhere; do it in the body of the loop over the steps"
        )
