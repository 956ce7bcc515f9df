"""What the captures of one run show: samples by process, and what is wrong with them, by nsys's own
reports too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfgate.execute.context import RunContext
from perfgate.execute.folder import reports_folder
from perfgate.metrics.check import contradictions
from perfgate.metrics.measure import by_gpu, measure
from perfgate.metrics.warmup import FEWEST_STEPS
from perfgate.model.errors import StepsNotFound
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.sample import ProcessSample
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.reports import run_reports
from perfgate.profilers.seam import Captured, OnTick, read


def measure_captures(
    workload: Workload,
    context: RunContext,
    captures: Sequence[Captured],
    ranks: Mapping[int, int],
    *,
    on_tick: OnTick,
) -> tuple[tuple[ProcessSample, ...], tuple[Note, ...]]:
    """Read the captures of a run and nsys's reports of them, and measure the steps of each process.

    Args:
        workload: what was captured.
        context: where.
        captures: all of the run's, one at least.
        ranks: those of its processes, by process id, as far as they are known.
        on_tick: called now and then meanwhile.

    Returns:
        The processes that took steps, by their ranks where these are known, and what is to be known
        of them and of the captures: each note once, what makes the run INVALID first.

    Raises:
        CaptureUnreadable: nsys left something that is no capture.
        LayoutUnknown: reports or export are of a form that perfgate does not know.
        StepsNotFound: no capture shows a process with steps.
    """
    measured: list[ProcessSample] = []
    contradicting: list[Note] = []
    without: list[StepsNotFound] = []
    for one in captures:
        reports = run_reports(context.tool, one.sqlite, reports_folder(one), on_tick=on_tick)
        timeline = read(one.sqlite)
        contradicting += contradictions(timeline, reports)
        try:
            measured += measure(timeline, **workload.step_rule)
        except StepsNotFound as missing:
            without.append(missing)
    if not measured:
        first, *_ = without
        raise StepsNotFound(first.code, **{**first.fields, "source": workload.id})
    processes = with_ranks(measured, ranks)
    found = (
        *notes_of(workload, context.machine, processes),
        *contradicting,
        *(one for process in processes for one in process.notes),
    )
    once = [one for place, one in enumerate(found) if one not in found[:place]]
    return processes, tuple(sorted(once, key=lambda one: one.severity is not Severity.INVALID))


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
