"""Why a metric is not known of a capture: it is absent then, with its reason, and never zero;
judges no number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from perfgate.metrics.devices import Devices
from perfgate.metrics.process import Process
from perfgate.metrics.tally import GRAPH_WORDS, NCCL_KERNEL, Table, Work
from perfgate.metrics.windows import no_period
from perfgate.model.arrays import distinct
from perfgate.model.metric import CALLED, EXPOSED, METRICS, PERIODS, Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import NO_NCCL
from perfgate.model.timeline import CopyKind

MOST_LOST: Final = 0.001
"""Share of the steps' launches that may lack their kernel; of 27 951 launches in captures of an
H200 none does."""
MOST_STEPS_LACKING: Final = 0.25
"""Share of the steps that may lack calls: half of them would move the median of a count."""
FEWEST_APART: Final = 0.5
"""Calls a step from which a capture without any copy lacks them: single ones may copy nothing."""
MOST_OUTSIDE: Final = 0.25
"""Share of a table's operations that may lack a call and have run outside the steps before the
others mean nothing."""

Absent = dict[Metric, Note]

_FROM_OPERATIONS: Final = tuple(metric for metric in METRICS if metric not in (*CALLED, *PERIODS))
_NCCL: Final = (Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS)
_FROM_KERNELS: Final = (Metric.KERNEL_MS, Metric.GAP_MS, Metric.NCCL_MS, *EXPOSED)
_COPY_COUNTS: Final = (
    *(Metric.H2D_COPIES, Metric.H2D_BYTES, Metric.D2H_COPIES, Metric.PAGEABLE_COPIES),
)
_BY_TABLE: Final[Mapping[Table, tuple[Metric, ...]]] = {
    Table.KERNELS: (),  # without these nothing is known of the steps
    Table.COPIES: (Metric.H2D_MS, Metric.H2D_EXPOSED_MS, Metric.MEM_EXPOSED_MS, *_COPY_COUNTS),
    Table.MEMSETS: (Metric.MEM_EXPOSED_MS,),
}
"""What is not known where it is not known which step launched a table's operations."""


def why_absent(process: Process, devices: Devices) -> Absent:
    """Each metric that is not known, and why; reasons of the steps come before the capture's."""
    absent: Absent = {}
    if process.steps.whole:
        absent = dict.fromkeys(PERIODS, note("window-as-one"))
    elif process.windows is None:
        absent = dict.fromkeys((*PERIODS, Metric.GAP_MS), no_period(process.steps))
    elif not np.median(process.periods_ms):
        absent[Metric.GAP_MS] = note("period-is-zero")
    if why := why_unplaced(process):
        absent = dict.fromkeys((*PERIODS, *_FROM_OPERATIONS), why)
    else:
        for table, outside in unplaced(process).items():
            why = note("launches-unknown", count=outside, what=table.value)
            absent |= dict.fromkeys(_BY_TABLE[table], why)
    return _without_calls(process) | _without_operations(process, devices) | absent


def why_unplaced(process: Process) -> Note | None:
    """Why nothing is known of the steps' operations: no call links the kernels to a step.

    Without its kernels, or anything else that it launched, it is not known when a step was
    complete.
    """
    lost = unplaced(process)
    held = [table for table, (_, launched) in ran_outside(process).items() if launched]
    if Table.KERNELS not in lost and (not lost or len(lost) < len(held)):
        return None
    return note("launches-unknown", count=sum(lost.values()), what="GPU operations")


def unplaced(process: Process) -> dict[Table, int]:
    """Operations that no call links to a step, and that ran outside of all, where they are too
    many.

    A CPU that runs ahead has closed the steps by the time their work runs; only the calls show then
    whose it is.
    """
    return {
        table: outside
        for table, (outside, held) in ran_outside(process).items()
        if outside > MOST_OUTSIDE * held
    }


def ran_outside(process: Process) -> dict[Table, tuple[int, int]]:
    """Operations of each table that no call links to a step and that ran outside of all; they count
    nowhere. And of how many since the first step."""
    if process.steps.whole:
        return {}
    return {table: (one.outside, one.launched) for table, one in process.totals.linked.items()}


def untimed(process: Process) -> Absent:
    """What is not known where none of the steps' kernels, or of their copies, has a duration.

    CUPTI could not time such an operation. What it took is in the gaps, and a sum of it would be 0.
    """
    totals = process.totals
    nccl = [work for name, work in totals.kernels.items() if NCCL_KERNEL.match(name)]
    kernels = [work for name, work in totals.kernels.items() if not NCCL_KERNEL.match(name)]
    copies = [
        work
        for (kind, _), work in totals.copies.items()
        if kind in (CopyKind.H2D, CopyKind.UVM_H2D)
    ]
    others = [work for words, work in totals.memory.items() if "Host-to-Device" not in words]
    words = "kernels and CUDA graphs" if GRAPH_WORDS in totals.kernels else "kernels"
    found: tuple[tuple[Sequence[Work], str, tuple[Metric, ...]], ...] = (
        (kernels, words, (Metric.KERNEL_MS, Metric.GAP_MS, *EXPOSED)),
        (nccl, "NCCL kernels", (Metric.NCCL_MS, Metric.GAP_MS, *EXPOSED)),
        (copies, "host-to-device copies", (Metric.H2D_MS, Metric.H2D_EXPOSED_MS)),
        (others, "memsets and other copies", (Metric.MEM_EXPOSED_MS,)),
        ([*totals.kernels.values(), *totals.memory.values()], "GPU operations", (Metric.GAP_MS,)),
    )
    absent: Absent = {}
    for works, what, metrics in found:
        if works and not any(work.gpu_ns for work in works):
            why = note("durations-unknown", count=sum(work.count for work in works), what=what)
            absent = dict.fromkeys(metrics, why) | absent
    return absent


def _without_operations(process: Process, devices: Devices) -> Absent:
    """What the GPU's operations do not show: all of them, some kind, their times, or their devices."""
    unknown_host = process.totals.unknown_host
    absent = untimed(process) | _uncopied(process) | _without_kernels(process, devices)
    if why := lacking(process, "devices"):
        absent = dict.fromkeys((Metric.GAP_MS, *EXPOSED), why) | absent
    if unknown_host:
        absent.setdefault(Metric.PAGEABLE_COPIES, note("host-memory-unknown", copies=unknown_host))
    return absent


def lacking(process: Process, what: str) -> Note | None:
    """Why the capture lacks something, where it is known that it does."""
    return process.timeline.missing.get(what)


def _without_kernels(process: Process, devices: Devices) -> Absent:
    """What is not known where there is no operation, no kernel, or no kernel of NCCL's."""
    timeline, totals, pid = process.timeline, process.totals, process.pid
    if not totals.devices:
        why = lacking(process, "kernels") or note("nothing-on-a-gpu")
        if timeline.gpu_operations:
            why = note("no-gpu-work", pid=pid)
        return dict.fromkeys(_FROM_OPERATIONS, why)
    launched = int(totals.by_segment[Metric.LAUNCHES].sum())
    if not totals.kernels and (launched or 0 < totals.launched == totals.lost):
        why = note("work-not-recorded", pid=pid, launched=launched or totals.launched)
        return dict.fromkeys(_FROM_KERNELS, why)
    if unnamed := lacking(process, "names of kernels"):
        return dict.fromkeys(_NCCL, unnamed)
    if not devices.nccl.any():
        whole = len(timeline.graphs.start)
        return dict.fromkeys(_NCCL, note("no-nccl-outside-graphs") if whole else NO_NCCL)
    return {}


def _uncopied(process: Process) -> Absent:
    """What is not known where the steps ask for copies and the capture holds none at all."""
    held, calls = len(process.timeline.copies.start), process.totals.copying
    if held or not calls or calls < FEWEST_APART * len(process.steps):
        return {}
    why = lacking(process, "copies") or note("copies-not-recorded", calls=calls)
    return dict.fromkeys((Metric.GAP_MS, Metric.H2D_MS, *EXPOSED, *_COPY_COUNTS), why)


def _without_calls(process: Process) -> Absent:
    """What the calls do not show: all of them, the process's own, their names, or some are lost."""
    if not process.totals.calls.any():
        of_none = not len(process.timeline.calls.start)
        why = lacking(process, "calls") if of_none else None
        why = why or note("no-calls", pid=process.pid)
    else:
        why = lacking(process, "names of calls") or _calls_lost(process)
    return dict.fromkeys(CALLED, why) if why else {}


def _calls_lost(process: Process) -> Note | None:
    """Whether the capture lacks calls whose operations it holds, so that a count may lack them.

    What was launched before the capture began and ran in its first steps has no call in it either:
    a quarter of the steps is left out.
    """
    steps, segments, totals = process.steps, process.segments, process.totals
    if steps.whole:
        lost, held = int(totals.calls_lost.sum()), int(totals.operations.sum())
        few, what = MOST_LOST * held, "operations"
    else:
        first = len(steps) // 4
        later = (segments.step >= first) & (totals.calls_lost > 0)
        lost, held = len(distinct(segments.step[later])), len(steps) - first
        few, what = MOST_STEPS_LACKING * held, "steps"
    return note("calls-lost", lacking=lost, held=held, what=what) if lost > few else None
