"""Why a metric cannot be told from a capture: it is absent then, with its reason, and never zero; judges no number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from perfgate.metrics.devices import Devices
from perfgate.metrics.process import Process
from perfgate.metrics.tally import GRAPH_WORDS, NCCL_KERNEL, CopyWork, Table, Work
from perfgate.metrics.windows import why_no_period
from perfgate.model.arrays import distinct
from perfgate.model.metric import CALLED, EXPOSED, METRICS, PERIODS, Metric
from perfgate.model.sample import NO_NCCL
from perfgate.model.timeline import CopyKind, Flags
from perfgate.model.words import plural
from perfgate.words import say

MOST_LOST: Final = 0.001
"""Share of the steps' launches that may lack their kernel; of 27 951 launches in captures of an H200 none does."""
MOST_STEPS_LACKING: Final = 0.25
"""Share of the steps that may lack calls: half of them would move the median of a count."""
FEWEST_APART: Final = 0.5
"""Calls a step from which a capture without any copy lacks them: single ones may copy nothing."""
MOST_OUTSIDE: Final = 0.25
"""Share of a table's operations that may lack a call and have run outside the steps before the others mean nothing."""

_FROM_OPERATIONS: Final = tuple(metric for metric in METRICS if metric not in (*CALLED, *PERIODS))
_NCCL: Final = (Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS)
_FROM_KERNELS: Final = (Metric.KERNEL_MS, Metric.GAP_MS, Metric.NCCL_MS, *EXPOSED)
_FROM_COPIES: Final = (
    *(Metric.H2D_MS, *EXPOSED),
    *(Metric.H2D_COPIES, Metric.H2D_BYTES, Metric.D2H_COPIES, Metric.PAGEABLE_COPIES),
)
_FROM_LAUNCHES: Final = {
    Table.KERNELS: (),  # without these nothing is known of the steps
    Table.COPIES: tuple(metric for metric in _FROM_COPIES if metric is not Metric.NCCL_EXPOSED_MS),
    Table.MEMSETS: (Metric.MEM_EXPOSED_MS,),
}
"""What is not known where it is not known which step launched a table's operations; when they ran is."""
_NO_OPERATIONS: Final = "the capture holds no GPU operations"
_NO_CALLS: Final = "the capture holds no CUDA API calls"


def why_absent(process: Process, devices: Devices) -> dict[Metric, str]:
    """Each metric that cannot be told, and why; a reason that lies in the steps comes before those of the capture."""
    absent: dict[Metric, str] = {}
    if process.steps.whole:
        absent = dict.fromkeys(PERIODS, "the captured window was measured as one, without steps")
    elif process.windows is None:
        absent = dict.fromkeys((*PERIODS, Metric.GAP_MS), why_no_period(process.steps))
    elif not np.median(process.periods_ms):
        absent[Metric.GAP_MS] = "the median period is 0 ms, of which no share is idle"
    if why := why_unplaced(process):
        absent = dict.fromkeys((*PERIODS, *_FROM_OPERATIONS), why)
    else:
        for table, outside in unplaced(process).items():
            absent |= dict.fromkeys(_FROM_LAUNCHES[table], _outside(outside, table.value))
    return _without_calls(process) | _without_operations(process, devices) | absent


def why_unplaced(process: Process) -> str | None:
    """Why nothing is known of the steps' operations: no call links them, or the kernels of them, to a step.

    Without its kernels, or anything else that it launched, it is not known when a step was complete.
    """
    lost = unplaced(process)
    held = [
        table
        for table, launched in process.totals.launched_by_calls.items()
        if launched[_since(process)].any()
    ]
    if Table.KERNELS not in lost and (not lost or len(lost) < len(held)):
        return None
    return _outside(sum(lost.values()), "GPU operations")


def unplaced(process: Process) -> dict[Table, int]:
    """Operations that no call links to a step, and that ran outside of all; of each table in which they are too many.

    A CPU that runs ahead has closed the steps by the time their work runs; only the calls tell then whose it is.
    """
    return {
        table: outside
        for table, (outside, held) in ran_outside(process).items()
        if outside > MOST_OUTSIDE * held
    }


def ran_outside(process: Process) -> dict[Table, tuple[int, int]]:
    """Operations of each table that no call links to a step and that ran outside of all; of how many since the first.

    They count nowhere.
    """
    steps, segments, totals = process.steps, process.segments, process.totals
    if steps.whole:
        return {}
    since = _since(process)
    return {
        table: (
            int(lacking[since & (segments.step < 0)].sum()),
            int(totals.launched_by_calls[table][since].sum()),
        )
        for table, lacking in totals.without_call.items()
    }


def _since(process: Process) -> Flags:
    """The segments from the first step on."""
    return np.asarray(
        np.arange(len(process.segments.step)) >= np.argmax(process.segments.step >= 0), np.bool_
    )


def _outside(count: int, what: str) -> str:
    return (
        f"{count} {what} ran outside the steps, and the capture does not say which step launched them: "
        "it holds no API call with their correlation id"
    )


def untimed(process: Process) -> dict[Metric, str]:
    """What cannot be told where none of the steps' kernels, or of their host-to-device copies, has a duration.

    CUPTI could not time such an operation. What it took is in the gaps, and a sum of it would be 0.
    """
    totals = process.totals
    kernels: dict[Metric, list[Work]] = {Metric.KERNEL_MS: [], Metric.NCCL_MS: []}
    for name, work in totals.kernels.items():
        kernels[Metric.NCCL_MS if NCCL_KERNEL.match(name) else Metric.KERNEL_MS].append(work)
    copies = [
        work
        for (kind, _), work in totals.copies.items()
        if kind in (CopyKind.H2D, CopyKind.UVM_H2D)
    ]
    others = [work for words, work in totals.memory.items() if "Host-to-Device" not in words]
    words = "kernels and CUDA graphs" if GRAPH_WORDS in totals.kernels else "kernels"
    told: tuple[tuple[Sequence[Work | CopyWork], str, tuple[Metric, ...]], ...] = (
        (kernels[Metric.KERNEL_MS], words, (Metric.KERNEL_MS, Metric.GAP_MS, *EXPOSED)),
        (kernels[Metric.NCCL_MS], "NCCL kernels", (Metric.NCCL_MS, Metric.GAP_MS, *EXPOSED)),
        (copies, "host-to-device copies", (Metric.H2D_MS, Metric.H2D_EXPOSED_MS)),
        (others, "memsets and other copies", (Metric.MEM_EXPOSED_MS,)),
        ([*totals.kernels.values(), *totals.memory.values()], "GPU operations", (Metric.GAP_MS,)),
    )
    absent: dict[Metric, str] = {}
    for works, what, metrics in told:
        if works and not any(work.gpu_ns for work in works):
            count = sum(work.count for work in works)
            where = "" if process.steps.whole else " in the steps"
            why = f"the capture does not say how long any of the {count} {what}{where} took"
            absent = dict.fromkeys(metrics, why) | absent
    return absent


def _without_operations(process: Process, devices: Devices) -> dict[Metric, str]:
    """What the GPU's operations do not tell: all of them, some kind of them, their times, or their devices."""
    totals, missing = process.totals, process.timeline.missing
    absent = untimed(process) | _uncopied(process) | _without_kernels(process, devices)
    if merged := missing.get("devices"):
        absent = dict.fromkeys((Metric.GAP_MS, *EXPOSED), say.fact(merged)) | absent
    if totals.unknown_host and Metric.PAGEABLE_COPIES not in absent:
        absent[Metric.PAGEABLE_COPIES] = (
            f"of {totals.unknown_host} copies the capture does not say which memory they used"
        )
    return absent


def _without_kernels(process: Process, devices: Devices) -> dict[Metric, str]:
    """What cannot be told where there is no operation, no kernel, or no kernel of NCCL's."""
    timeline, totals, pid = process.timeline, process.totals, process.pid
    launched = int(totals.by_segment[Metric.LAUNCHES][process.segments.turn >= 0].sum())
    if not totals.devices:
        if timeline.gpu_operations:
            why = f"process {pid} launched no GPU operation{'' if process.steps.whole else ' in its steps'}"
        else:
            lacks = timeline.missing.get("kernels")
            why = say.fact(lacks) if lacks else _NO_OPERATIONS
        return dict.fromkeys(_FROM_OPERATIONS, why)
    if launched and not totals.kernels:
        held = len(timeline.kernels.start) + len(timeline.graphs.start)
        none = "none of them" if held else "none"
        why = f"process {pid} launched {plural(launched, 'kernel')}, the capture holds {none}"
        return dict.fromkeys(_FROM_KERNELS, why)
    if totals.launched and totals.lost == totals.launched and not totals.kernels:
        why = f"process {pid} launched {plural(totals.launched, 'CUDA graph')}, the capture holds none of their work"
        return dict.fromkeys(_FROM_KERNELS, why)
    if unnamed := timeline.missing.get("names of kernels"):
        return dict.fromkeys(_NCCL, say.fact(unnamed))
    if not devices.nccl.any():
        in_graphs = (
            " outside the CUDA graphs, which were traced whole"
            if len(timeline.graphs.start)
            else ""
        )
        return dict.fromkeys(_NCCL, f"{NO_NCCL}{in_graphs}")
    return {}


def _uncopied(process: Process) -> dict[Metric, str]:
    """What cannot be told where the steps ask for copies and the capture holds none at all."""
    timeline, copying = process.timeline, process.totals.copying
    if len(timeline.copies.start) or copying < FEWEST_APART * len(process.steps) or not copying:
        return {}
    lacks = timeline.missing.get("copies")
    why = (
        say.fact(lacks)
        if lacks
        else f"the steps make {copying} calls that copy, the capture holds no copy"
    )
    return dict.fromkeys((Metric.GAP_MS, *_FROM_COPIES), why)


def _without_calls(process: Process) -> dict[Metric, str]:
    """What the calls do not tell: all of them, the process's own, their names, or some that were lost."""
    timeline = process.timeline
    if not len(timeline.calls.start):
        lacks = timeline.missing.get("calls")
        why: str | None = say.fact(lacks) if lacks else _NO_CALLS
    elif not process.totals.calls.any():
        why = f"{_NO_CALLS} of process {process.pid}"
    else:
        lacks = timeline.missing.get("names of calls")
        why = say.fact(lacks) if lacks else _calls_lost(process)
    return dict.fromkeys(CALLED, why) if why else {}


def _calls_lost(process: Process) -> str | None:
    """Say that the capture lacks calls whose operations it holds, so that a median of counts may lack them; else None.

    What was launched before the capture began and ran in its first steps has no call in it either: a quarter of the
    steps is left out.
    """
    steps, segments, totals = process.steps, process.segments, process.totals
    if steps.whole:
        lost, held = int(totals.calls_lost.sum()), int(totals.operations.sum())
        if lost <= MOST_LOST * held:
            return None
        return f"of {held} GPU operations {plural(lost, 'has', 'have')} no API call in the capture: it lacks calls"
    later = segments.step >= len(steps) // 4
    lacking = distinct(segments.step[later & (totals.calls_lost > 0)])
    held = len(steps) - len(steps) // 4
    if len(lacking) <= MOST_STEPS_LACKING * held:
        return None
    return (
        f"in {len(lacking)} of the last {held} steps GPU operations ran that have no API call in the capture: it lacks "
        "calls"
    )
