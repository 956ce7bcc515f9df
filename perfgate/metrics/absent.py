"""Why a metric is not known of a capture: it is absent then, with its reason, and never zero;
judges no number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from perfgate.metrics.devices import Devices
from perfgate.metrics.process import Process
from perfgate.metrics.tally import MOST_OUTSIDE
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
_FROM_COPIES: Final = tuple(
    metric for metric in _FROM_OPERATIONS if metric not in (Metric.KERNEL_MS, Metric.NCCL_MS)
)


def why_absent(process: Process, devices: Devices) -> Absent:
    """Each metric that is not known, and why; reasons of the steps come before the capture's."""
    steps, totals, missing = process.steps, process.totals, process.timeline.missing
    absent: Absent = {}
    if why := missing.get("devices"):
        absent |= dict.fromkeys((Metric.GAP_MS, *EXPOSED), why)
    if copies := totals.unknown_host:
        absent[Metric.PAGEABLE_COPIES] = note("host-memory-unknown", copies=copies)
    for metrics, why in _unrecorded(process, devices):
        absent |= dict.fromkeys(metrics, why)
    if not len(totals.calls.start):
        why = None if len(process.timeline.calls.start) else missing.get("calls")
        absent |= dict.fromkeys(CALLED, why or note("no-calls", pid=process.pid))
    elif why := _calls_lost(process):
        absent |= dict.fromkeys(CALLED, why)
    if steps.whole:
        absent |= dict.fromkeys(PERIODS, note("window-as-one"))
    elif process.windows is None:
        why = note("no-period", steps=len(steps), blocks=1 + int(steps.resumes.sum()))
        absent |= dict.fromkeys((*PERIODS, Metric.GAP_MS), why)
    elif not np.median(process.periods):
        absent[Metric.GAP_MS] = note("period-is-zero")
    if why := why_unplaced(process):
        absent |= dict.fromkeys((*PERIODS, *_FROM_OPERATIONS), why)
    return absent


def why_unplaced(process: Process) -> Note | None:
    """Why nothing is known of the steps' operations: no call links them to a step.

    Without what it launched it is not known when a step was complete.
    """
    outside, linkable = process.totals.outside, process.totals.linkable
    return note("launches-unknown", count=outside) if outside > MOST_OUTSIDE * linkable else None


def _unrecorded(process: Process, devices: Devices) -> Iterator[tuple[Iterable[Metric], Note]]:
    """What is not known where there is no operation, no kernel, no kernel of NCCL's, or no copy."""
    timeline, totals, pid = process.timeline, process.totals, process.pid
    calls = totals.copying
    if not len(timeline.copies.start) and calls and calls >= FEWEST_APART * len(process.steps):
        why = timeline.missing.get("copies") or note("copies-not-recorded", calls=calls)
        yield _FROM_COPIES, why
    launched = int(totals.by_segment[Metric.LAUNCHES].sum())
    is_lost = bool(launched) or 0 < totals.launched == totals.lost
    if not totals.devices:
        why = timeline.missing.get("kernels") or note("nothing-on-a-gpu")
        if timeline.gpu_operations:
            why = note("no-gpu-work", pid=pid)
        yield _FROM_OPERATIONS, why
    elif not totals.kernels and is_lost:
        count = launched or totals.launched
        yield _FROM_KERNELS, note("work-not-recorded", pid=pid, launched=count)
    elif not devices.nccl.any():
        whole = len(timeline.graphs.start)
        yield _NCCL, note("no-nccl-outside-graphs") if whole else NO_NCCL


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
