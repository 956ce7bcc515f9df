"""Why a metric is not known of a capture: it is absent then, with its reason, and never zero;
judges no number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from perfgate.metrics.devices import Devices
from perfgate.metrics.process import Process
from perfgate.metrics.tally import Table
from perfgate.model.arrays import distinct
from perfgate.model.metric import CALLED, EXPOSED, METRICS, PERIODS, Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import NO_NCCL

MOST_LOST: Final = 0.001
"""Share of the steps' launches that may lack their kernel; of 27 951 launches in captures of an
H200 none does."""
MOST_STEPS_LACKING: Final = 0.25
"""Share of the steps that may lack calls: half of them would move the median of a count."""
FEWEST_APART: Final = 0.5
"""Calls a step from which a capture without any copy lacks them: single ones may copy nothing."""
Absent = dict[Metric, Note]

_FROM_OPERATIONS: Final = tuple(metric for metric in METRICS if metric not in (*CALLED, *PERIODS))
_NCCL: Final = (Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS)
_FROM_KERNELS: Final = (Metric.KERNEL_MS, Metric.GAP_MS, Metric.NCCL_MS, *EXPOSED)
_COPY_COUNTS: Final = (
    Metric.H2D_COPIES,
    Metric.H2D_BYTES,
    Metric.D2H_COPIES,
    Metric.PAGEABLE_COPIES,
)
_BY_TABLE: Final[Mapping[Table, tuple[Metric, ...]]] = {
    Table.KERNELS: (),  # without these nothing is known of the steps
    Table.COPIES: (Metric.H2D_MS, Metric.H2D_EXPOSED_MS, Metric.MEM_EXPOSED_MS, *_COPY_COUNTS),
    Table.MEMSETS: (Metric.MEM_EXPOSED_MS,),
}
"""What is not known where it is not known which step launched a table's operations."""


def why_absent(process: Process, devices: Devices) -> Absent:
    """Each metric that is not known, and why; reasons of the steps come before the capture's."""
    steps, totals = process.steps, process.totals
    absent = _uncopied(process) | _without_kernels(process, devices)
    if why := process.timeline.missing.get("devices"):
        absent = dict.fromkeys((Metric.GAP_MS, *EXPOSED), why) | absent
    if copies := totals.unknown_host:
        absent.setdefault(Metric.PAGEABLE_COPIES, note("host-memory-unknown", copies=copies))
    absent = _without_calls(process) | absent
    if steps.whole:
        absent |= dict.fromkeys(PERIODS, note("window-as-one"))
    elif process.windows is None:
        why = note("no-period", steps=len(steps), blocks=1 + int(steps.resumes.sum()))
        absent |= dict.fromkeys((*PERIODS, Metric.GAP_MS), why)
    elif not np.median(process.periods):
        absent[Metric.GAP_MS] = note("period-is-zero")
    if why := why_unplaced(process):
        return absent | dict.fromkeys((*PERIODS, *_FROM_OPERATIONS), why)
    for table, linked in totals.linked.items():
        if linked.is_lost:
            why = note("launches-unknown", count=linked.outside, what=table.value)
            absent |= dict.fromkeys(_BY_TABLE[table], why)
    return absent


def why_unplaced(process: Process) -> Note | None:
    """Why nothing is known of the steps' operations: no call links the kernels to a step.

    Without its kernels, or anything else that it launched, it is not known when a step was
    complete.
    """
    linked = process.totals.linked
    held = [one for one in linked.values() if one.launched]
    lost = [one for one in held if one.is_lost]
    if not linked[Table.KERNELS].is_lost and (not lost or len(lost) < len(held)):
        return None
    count = sum(one.outside for one in lost)
    return note("launches-unknown", count=count, what="GPU operations")


def _without_kernels(process: Process, devices: Devices) -> Absent:
    """What is not known where there is no operation, no kernel, or no kernel of NCCL's."""
    timeline, totals, pid = process.timeline, process.totals, process.pid
    if not totals.devices:
        why = timeline.missing.get("kernels") or note("nothing-on-a-gpu")
        if timeline.gpu_operations:
            why = note("no-gpu-work", pid=pid)
        return dict.fromkeys(_FROM_OPERATIONS, why)
    launched = int(totals.by_segment[Metric.LAUNCHES].sum())
    if not totals.kernels and (launched or 0 < totals.launched == totals.lost):
        why = note("work-not-recorded", pid=pid, launched=launched or totals.launched)
        return dict.fromkeys(_FROM_KERNELS, why)
    if unnamed := timeline.missing.get("names of kernels"):
        return dict.fromkeys(_NCCL, unnamed)
    if not devices.nccl.any():
        whole = len(timeline.graphs.start)
        return dict.fromkeys(_NCCL, note("no-nccl-outside-graphs") if whole else NO_NCCL)
    return {}


def _uncopied(process: Process) -> Absent:
    """What is not known where the steps ask for copies and the capture holds none at all."""
    timeline, calls = process.timeline, process.totals.copying
    if len(timeline.copies.start) or not calls or calls < FEWEST_APART * len(process.steps):
        return {}
    why = timeline.missing.get("copies") or note("copies-not-recorded", calls=calls)
    return dict.fromkeys((Metric.GAP_MS, Metric.H2D_MS, *EXPOSED, *_COPY_COUNTS), why)


def _without_calls(process: Process) -> Absent:
    """What the calls do not show: all of them, the process's own, their names, or some are lost."""
    timeline = process.timeline
    if not process.totals.calls.any():
        why = None if len(timeline.calls.start) else timeline.missing.get("calls")
        why = why or note("no-calls", pid=process.pid)
    else:
        why = timeline.missing.get("names of calls") or _calls_lost(process)
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
