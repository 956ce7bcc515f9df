"""One gate as a JSON document, for `--perfgate-json FILE` and for whatever reads it: returns text, writes no file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.record import Record
from perfgate.model.sample import Run
from perfgate.model.settings import Settings
from perfgate.model.verdict import Verdict

DOCUMENT_FORMAT: Final = 1
"""History: 1, the first."""


class DocumentRun(Record):
    """One run: what it measured per step, the worst of its processes, and how the machine felt."""

    started_at: datetime
    wall_s: float
    values: Mapping[Metric, float]
    absent: Mapping[Metric, str] = {}
    """Why a metric could not be measured."""
    sm_clock_mhz: float | None = None
    complaints: tuple[str, ...] = ()
    """What makes the run INVALID."""
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, run: Run) -> DocumentRun:
        """Take what is worth telling of a run."""
        values = run.measured()
        reasons = {metric: run.why_absent(metric) for metric in Metric if metric not in values}
        return cls(
            started_at=run.started_at,
            wall_s=run.wall_s,
            values=values,
            absent={metric: reason for metric, reason in reasons.items() if reason is not None},
            sm_clock_mhz=run.conditions.sm_clock_mhz,
            complaints=(*run.conditions.complaints, *run.complaints),
            remarks=run.remarks,
        )


class DocumentWorkload(Record):
    """One workload: its verdict, whether that opens the gate, and its runs."""

    verdict: Verdict
    opens_gate: bool
    runs: tuple[DocumentRun, ...] = ()
    reference_runs: tuple[DocumentRun, ...] = ()
    """Of a duet: those of the commit that the candidate was compared with."""
    interleaved_runs: tuple[DocumentRun, ...] = ()
    """The candidate's of an interleaved duet."""
    baseline: str | None = None
    """The baseline's file, relative to the project's root."""
    files: str | None = None
    """Where the result and its captures are kept, relative to the project's root."""


class GateDocument(Record):
    """All that one gate found."""

    format: Literal[1] = DOCUMENT_FORMAT
    perfgate: str
    """The version of perfgate that wrote this."""
    started_at: datetime
    ended_at: datetime
    opens_gate: bool
    exit_status: int = Field(ge=0)
    """What pytest exits with."""
    shut_by: tuple[str, ...] = ()
    """One sentence for each thing that keeps the gate shut."""
    machine: Machine | None = None
    """None where the gate ended before it was read."""
    settings: Settings
    workloads: tuple[DocumentWorkload, ...] = ()


def document_text(document: GateDocument) -> str:
    """Return the document as JSON, in the order of its fields, ending in a newline."""
    return document.model_dump_json(indent=2) + "\n"


def read_document(text: str) -> GateDocument:
    """Return the gate's document in a JSON text.

    Raises:
        pydantic.ValidationError: the text is not one of this format.
    """
    return GateDocument.model_validate_json(text)


SCHEMA_FILE: Final = Path(__file__).with_name("gate.schema.json")
"""The published schema, as text, so that a change of it is seen in a diff."""


def document_schema() -> dict[str, object]:
    """The JSON Schema of the document as the records have it now; `SCHEMA_FILE` holds it as it is published."""
    told = GateDocument.model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **told,
        "title": f"perfgate's gate document, format {DOCUMENT_FORMAT}",
    }
