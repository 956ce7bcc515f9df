"""What the captures of one run show: samples by process, what nsys's own reports say, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfgate.execute.kept import reports_folder
from perfgate.metrics.measure import by_gpu, measure
from perfgate.metrics.reconcile import contradictions
from perfgate.metrics.warmup import FEWEST_STEPS
from perfgate.model.errors import StepsNotFound
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Note
from perfgate.model.reports import Reports
from perfgate.model.sample import ProcessSample
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.reports import run_reports
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import Captured, read
from perfgate.words import say


@dataclass(frozen=True, kw_only=True)
class OfCapture:
    """What one capture shows."""

    processes: tuple[ProcessSample, ...]
    missing: StepsNotFound | None
    """Why it shows no process with steps."""
    complaints: tuple[Note, ...]
    reports: Reports


def measure_capture(
    workload: Workload,
    tool: NsysTool,
    captured: Captured,
    raw: Path,
    on_tick: Callable[[], None] | None,
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
    timeline = read(captured.sqlite)
    reports = run_reports(tool, captured.sqlite, reports_folder(raw, captured), on_tick=on_tick)
    missing: StepsNotFound | None = None
    processes: tuple[ProcessSample, ...] = ()
    try:
        processes = measure(
            timeline,
            step=workload.step,
            is_pattern=workload.form == "command",
            warmup=workload.warmup if workload.skips_warmup else 0,
            steps=workload.steps,
        )
    except StepsNotFound as absent:
        missing = absent
    share = share_of_h2d(reports)
    return OfCapture(
        processes=tuple(
            process.model_copy(update={"memory_share_h2d": share}) for process in processes
        ),
        missing=missing,
        complaints=contradictions(timeline, reports),
        reports=reports,
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
    """The processes that took steps, of all captures of a run, by their `ranks` where these are known.

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
    """The processes with their ranks, in that order; `by_gpu` where not each of several has one of its own."""
    known = {ranks[process.pid] for process in processes if process.pid in ranks}
    if len(processes) < 2 or len(known) < len(processes):
        return by_gpu(processes)
    ranked = [process.model_copy(update={"rank": ranks[process.pid]}) for process in processes]
    return tuple(sorted(ranked, key=lambda process: ranks[process.pid]))


def unshown_warmup(workload: Workload) -> tuple[str, ...]:
    """Say of a window that is too short for it that nothing shows whether first-time work reaches into it."""
    if workload.steps >= FEWEST_STEPS:
        return ()
    needs = f"that takes {FEWEST_STEPS} measured steps or more, and {workload.steps} were asked for"
    return (f"whether the warm-up was long enough is not shown: {needs}",)


def steps_lost(workload: Workload, processes: Sequence[ProcessSample]) -> tuple[str, ...]:
    """Complain of each process that shows another number of steps than were to be measured."""
    return tuple(
        f"steps were lost: process {process.pid} shows {process.steps} of {workload.steps} measured steps"
        f"{_after_warmup(workload, process)}{_left_open(workload, process)}"
        for process in processes
        if process.steps != workload.steps
    )


def _after_warmup(workload: Workload, process: ProcessSample) -> str:
    """Of a command, which may have fewer steps than its file asks for: what its capture holds, and what is to be."""
    if not workload.skips_warmup:
        return ""
    held, wanted = (workload.warmup + steps for steps in (process.steps, workload.steps))
    why = ""
    if held < wanted and _lie_inside(process):
        why = (
            ": others that match lie inside these; match the outermost alone, and if tasks take turns on a thread "
            "(asyncio), where push and pop of one close the other's ranges, draw them with nvtx.start_range and "
            "nvtx.end_range"
        )
    elif held < wanted:
        why = (
            ": the script takes fewer, leaves by os._exit before nsys has written its last, or has a launcher that "
            "does not wait for it"
        )
    return f"; its capture holds {held}, and {workload.source} asks for {wanted} (warmup and steps){why}"


def _left_open(workload: Workload, process: ProcessSample) -> str:
    """Of perfgate's own steps that lie in one another: the cause. What a pattern matches may lie so by itself."""
    if workload.command is not None or not _lie_inside(process):
        return ""
    return "; a range that a step pushes and does not pop takes the pop of the step's own: each push needs its pop"


def _lie_inside(process: ProcessSample) -> bool:
    return any(one.code == "ranges-nested" for one in process.notes)


def gpu_unseen(machine: Machine, processes: Sequence[ProcessSample]) -> tuple[str, ...]:
    """On a machine with a GPU, a capture without GPU operations shows nothing about it."""
    if not machine.gpus or any(Metric.GAP_MS in process.values for process in processes):
        return ()
    why = next((process.absent.get(Metric.KERNEL_MS) for process in processes), None)
    words = "the workload launched none" if why is None else say.fact(why)
    return (f"no GPU operation was recorded in any step ({words})",)
