"""What the captures of one run show: samples by process, what nsys's own reports say, and what is
wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfgate.execute.folder import reports_folder
from perfgate.metrics.check import contradictions
from perfgate.metrics.measure import by_gpu, measure
from perfgate.metrics.warmup import FEWEST_STEPS
from perfgate.model.errors import StepsNotFound
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.reports import Reports
from perfgate.model.sample import ProcessSample
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.reports import run_reports
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import Captured, OnTick, read


@dataclass(frozen=True, kw_only=True)
class OfCapture:
    """What one capture shows."""

    processes: tuple[ProcessSample, ...]
    missing: StepsNotFound | None
    """Why it shows no process with steps."""
    notes: tuple[Note, ...]


def measure_capture(
    workload: Workload,
    tool: NsysTool,
    captured: Captured,
    raw: Path,
    on_tick: OnTick,
) -> OfCapture:
    """Read one capture and nsys's reports of it, and measure the steps of each of its processes.

    Args:
        workload: what was captured.
        tool: the nsys that makes the reports.
        captured: the capture.
        raw: folder of nsys's own files, where the reports are put.
        on_tick: called now and then meanwhile.

    Raises:
        CaptureUnreadable: nsys left something that is no capture.
        LayoutUnknown: reports or export are of a form that perfgate does not know.
    """
    reports = run_reports(tool, captured.sqlite, reports_folder(raw, captured), on_tick=on_tick)
    timeline, missing = read(captured.sqlite), None
    try:
        processes = measure(timeline, **workload.step_rule)
    except StepsNotFound as absent:
        processes, missing = (), absent
    share = share_of_h2d(reports)
    return OfCapture(
        processes=tuple(one.model_copy(update={"memory_share_h2d": share}) for one in processes),
        missing=missing,
        notes=contradictions(timeline, reports),
    )


def share_of_h2d(reports: Reports) -> float | None:
    """Host-to-device's share of all memory operations' time, from nsys's own column and row."""
    rows = reports.cuda_gpu_mem_time_sum
    if not rows:
        return None
    return (
        sum(row.time_percent for row in rows if row.operation == "CUDA memcpy Host-to-Device") / 100
    )


def processes_of(
    workload: Workload, captures: Sequence[OfCapture], ranks: Mapping[int, int]
) -> tuple[ProcessSample, ...]:
    """The processes that took steps, of all captures of a run, by their `ranks` where these are
    known.

    Raises:
        StepsNotFound: there is none.
    """
    processes = with_ranks([process for one in captures for process in one.processes], ranks)
    if not processes:
        missing = next(one.missing for one in captures if one.missing is not None)
        raise StepsNotFound(missing.code, **{**missing.fields, "source": workload.id})
    return processes


def with_ranks(
    processes: Sequence[ProcessSample], ranks: Mapping[int, int]
) -> tuple[ProcessSample, ...]:
    """The processes with their ranks, in that order; `by_gpu` where not each of several has one of
    its own."""
    known = {ranks[process.pid] for process in processes if process.pid in ranks}
    if len(processes) < 2 or len(known) < len(processes):
        return by_gpu(processes)
    ranked = [process.model_copy(update={"rank": ranks[process.pid]}) for process in processes]
    return tuple(sorted(ranked, key=lambda process: ranks[process.pid]))


def notes_of(
    workload: Workload, machine: Machine, processes: Sequence[ProcessSample]
) -> tuple[Note, ...]:
    """What is wrong with the steps that a run's captures show, and what they cannot show."""
    lost = "steps-lost" if workload.command is None else "steps-lost-of-command"
    found = [
        note(
            lost,
            Severity.INVALID,
            pid=process.pid,
            found=process.steps,
            steps=workload.steps,
            warmup=workload.warmup,
            file=workload.source,
        )
        for process in processes
        if process.steps != workload.steps
    ]
    if machine.gpus and not any(Metric.GAP_MS in process.values for process in processes):
        why = next((process.absent.get(Metric.KERNEL_MS) for process in processes), None)
        found.append(note("gpu-unseen", Severity.INVALID, why=why or note("launched-nothing")))
    if workload.steps is not None and workload.steps < FEWEST_STEPS:
        steps = workload.steps
        found.append(note("warmup-unshown", Severity.WARN, fewest=FEWEST_STEPS, steps=steps))
    return tuple(found)
