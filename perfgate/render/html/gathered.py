"""What a gate's document already tells of its page; sides, steps and history are laid over it by whoever has them."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.model.metric import METRICS
from perfgate.model.pagedata import PageData, PageRun, PageWorkload
from perfgate.model.side import Side
from perfgate.render.document import DocumentRun, DocumentWorkload, GateDocument


def page_data(document: GateDocument) -> PageData:
    """Return a page of what the document holds: no blessed runs, breakdowns, timelines or history."""
    return PageData(
        perfgate=document.perfgate,
        started_at=document.started_at,
        ended_at=document.ended_at,
        opens_gate=document.opens_gate,
        exit_status=document.exit_status,
        shut_by=document.shut_by,
        machine=document.machine,
        settings=document.settings,
        workloads=tuple(_workload(told, document) for told in document.workloads),
    )


def _workload(told: DocumentWorkload, document: GateDocument) -> PageWorkload:
    judged = told.interleaved_runs or told.runs
    duet = told.verdict.duet
    other = duet.revision if duet is not None else "the other commit"
    return PageWorkload(
        verdict=told.verdict,
        opens_gate=told.opens_gate,
        candidate=_side("candidate", judged, document) if judged else None,
        other=_side(other, told.reference_runs, document) if told.reference_runs else None,
        runs=_runs(judged),
        other_runs=_runs(told.reference_runs),
        baseline_file=told.baseline,
        files=told.files,
    )


def _side(label: str, runs: Sequence[DocumentRun], document: GateDocument) -> Side:
    by_metric = {metric: tuple(run.values[metric] for run in runs if metric in run.values) for metric in METRICS}
    held = {metric: values for metric, values in by_metric.items() if values}
    return Side(label=label, values=held, machine=document.machine)


def _runs(runs: Sequence[DocumentRun]) -> tuple[PageRun, ...]:
    return tuple(
        PageRun(
            started_at=run.started_at,
            wall_s=run.wall_s,
            sm_clock_mhz=run.sm_clock_mhz,
            absent=run.absent,
            complaints=run.complaints,
            remarks=run.remarks,
        )
        for run in runs
    )
