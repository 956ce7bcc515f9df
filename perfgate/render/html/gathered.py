"""What a gate's document already tells of its page; sides, steps and history are laid over it by whoever has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS
from perfgate.model.pagedata import PageData, PageWorkload
from perfgate.model.side import Side
from perfgate.model.told import ToldGate, ToldRun
from perfgate.render.document import DocumentRun, DocumentWorkload, GateDocument
from perfgate.render.text import WORST_FIRST

MOST_DATA_BYTES: Final = 48_000_000
"""Of a page's data; `perfgate merge` reads no more than 64 MB."""


def page_data(document: GateDocument) -> PageData:
    """Return a page of what the document holds: no blessed runs, breakdowns, timelines or history."""
    shared = {name: getattr(document, name) for name in ToldGate.model_fields if name != "format"}
    return PageData(
        **shared, workloads=tuple(_workload(told, document) for told in document.workloads)
    )


def _workload(told: DocumentWorkload, document: GateDocument) -> PageWorkload:
    judged = told.interleaved_runs or told.runs
    machine = told.machine or document.machine
    duet = told.verdict.duet
    other = duet.revision if duet is not None else "the other commit"
    return PageWorkload(
        verdict=told.verdict,
        opens_gate=told.opens_gate,
        candidate=_side("candidate", judged, machine) if judged else None,
        other=_side(other, told.reference_runs, machine) if told.reference_runs else None,
        runs=_without_values(judged),
        other_runs=_without_values(told.reference_runs),
        baseline_file=told.baseline,
        files=told.files,
        machine=told.machine,
        gate=told.gate,
    )


def _side(label: str, runs: Sequence[DocumentRun], machine: Machine | None) -> Side:
    by_metric = {
        metric: tuple(run.values[metric] for run in runs if metric in run.values)
        for metric in METRICS
    }
    held = {metric: values for metric, values in by_metric.items() if values}
    return Side(label=label, values=held, machine=machine)


def _without_values(runs: Sequence[DocumentRun]) -> tuple[ToldRun, ...]:
    return tuple(
        ToldRun(**{name: getattr(run, name) for name in ToldRun.model_fields}) for run in runs
    )


def page_data_text(data: PageData, *, most_bytes: int = MOST_DATA_BYTES) -> str:
    """Return what a page is made of as JSON on one line; what is as it is by default is left out.

    Steps are left out until it is no larger than `most_bytes`, those of passing workloads first, and the page says so.
    What is left then is told however large it is.
    """
    text = _dumped(data)
    excess = len(text.encode()) - most_bytes
    workloads = list(data.workloads)
    for number in sorted(
        range(len(workloads)), key=lambda n: -WORST_FIRST.index(workloads[n].verdict.outcome)
    ):
        told = workloads[number]
        if excess > 0 and (told.baseline_step is not None or told.candidate_step is not None):
            without = {"baseline_step": None, "candidate_step": None, "steps_left_out": True}
            workloads[number] = told.model_copy(update=without)
            excess -= len(_dumped(told).encode()) - len(_dumped(workloads[number]).encode())
    return (
        text
        if workloads == list(data.workloads)
        else _dumped(data.model_copy(update={"workloads": tuple(workloads)}))
    )


def _dumped(record: PageData | PageWorkload) -> str:
    text = record.model_dump_json(exclude_defaults=True)
    # The format is a default as well, and must be told.
    return f'{{"format":{record.format},{text[1:]}\n' if isinstance(record, PageData) else text


def read_page_data(text: str) -> PageData:
    """Return what a page is made of, of a JSON text.

    Raises:
        pydantic.ValidationError: the text is not one of this format.
    """
    return PageData.model_validate_json(text)
