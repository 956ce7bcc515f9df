"""One gate as a JSON document, for `--perfgate-json FILE` and for whatever reads it: returns text,
writes no file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

from pydantic import Field

from perfgate.model.errors import EXIT_SHUT, StoreFailed
from perfgate.model.limits import LARGEST_DOCUMENT, LONGEST_TEXT, MOST_ENTRIES, MOST_WORKLOADS
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Note
from perfgate.model.record import Format2, Record
from perfgate.model.sample import Run
from perfgate.model.summary import GateSummary, Placed, RunSummary, Shard, shown_names
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload
from perfgate.words import say
from perfgate.words.escape import escape_json

DOCUMENT_FORMAT: Final = 2
"""History: 1, the first; 2 adds the commit's tree, the form of each run, the environment and held
budgets."""


class DocumentRun(RunSummary):
    """One run: what it measured per step, the worst of its processes, and how the machine felt."""

    values: Mapping[Metric, float]

    @classmethod
    def of(cls, run: Run) -> DocumentRun:
        """Take what a document says of a run."""
        values = run.measured()
        unmeasured = [metric for metric in Metric if metric not in values]
        absent = {m: why for m in unmeasured if (why := run.why_absent(m)) is not None}
        return cls(
            started_at=run.started_at,
            wall_s=run.wall_s,
            form=run.form,
            values=values,
            absent={metric: say.fact(reason) for metric, reason in absent.items()},
            sm_clock_mhz=run.conditions.sm_clock_mhz,
            invalid=(*run.conditions.invalid, *map(say.fact, run.invalid)),
            information=tuple(say.fact(one) for one in run.notes if one not in run.invalid),
            notes=run.notes,
            reasons=absent,
        )


class DocumentWorkload(Record):
    """One workload: its verdict, whether that opens the gate, and its runs."""

    verdict: Verdict
    opens_gate: bool
    runs: tuple[DocumentRun, ...] = ()
    reference_runs: tuple[DocumentRun, ...] = ()
    """Of an A/B run: those of the commit that the candidate was compared with."""
    interleaved_runs: tuple[DocumentRun, ...] = ()
    """The candidate's of an A/B run of blocks."""
    environment: Mapping[str, str] | None = None
    """Environment variables of its processes that may change how fast they are; None where they
    were not noted."""
    held: Mapping[Metric, float] = {}
    """Budgets, as fractions, that its baseline holds in place of smaller ones."""
    baseline: str | None = None
    """The baseline's file, relative to the project's root."""
    files: str | None = None
    """Where the result and its captures are kept, relative to the project's root."""
    source: str | None = None
    """The file that declares the workload, POSIX, relative to the project's root; None where it
    lies elsewhere."""
    line: int | None = Field(default=None, ge=1)
    """Of `source`, from 1."""
    machine: Machine | None = None
    """In a merged document only: where this workload was measured."""
    gate: str = ""
    """In a merged document only: the label of the gate that it came from."""


class DocumentShard(Shard):
    """Which part of the workloads a gate measured, and of which: each shard divides what it has
    collected itself."""

    workloads: tuple[str, ...] | None = None
    """By id and sorted, all that the shards divided among them; None of an older perfgate, which
    did not say."""
    skipped: tuple[str, ...] = ()
    """Those of its own part that a mark or condition skipped: nothing else is said of them."""


class GateDocument(GateSummary):
    """All that one gate found, or several gates that were merged."""

    format: Format2 = DOCUMENT_FORMAT
    shard: DocumentShard | None = None
    """Which part of the workloads it measured; None where it was not one of several."""
    workloads: tuple[DocumentWorkload, ...] = ()

    def shut_also_by(self, shut: Note) -> GateDocument:
        """The same gate with what else keeps it shut."""
        sentence = say.in_one_line(shut)
        if sentence in self.shut_by:
            return self
        update = {
            "opens_gate": False,
            "exit_status": max(self.exit_status, EXIT_SHUT),
            "shut_by": (*self.shut_by, sentence),
            "shut_codes": (*self.shut_codes, shut.code),
        }
        return self.model_copy(update=update)


def declared_at(workload: Workload) -> tuple[str | None, int | None]:
    """Where a workload is declared: `DocumentWorkload.source` and `line`. A command's file begins
    with it."""
    path = PurePosixPath(workload.source)
    if path.is_absolute() or ".." in path.parts or PureWindowsPath(workload.source).drive:
        return None, None
    if workload.form == "command":
        return workload.source, 1
    # pytest counts lines from 0.
    return workload.source, None if workload.line is None else workload.line + 1


def reasons_besides(shut_by: Sequence[str], workloads: Sequence[Placed]) -> tuple[str, ...]:
    """The sentences that say more than the outcomes of these workloads."""
    named = zip(shown_names(workloads), workloads, strict=True)
    outcomes = {f"{name}: {one.verdict.outcome}" for name, one in named}
    return tuple(sentence for sentence in shut_by if sentence not in outcomes)


def document_text(document: GateDocument, *, largest: int = LARGEST_DOCUMENT) -> str:
    """Return the document as JSON, in the order of its fields, ending in a newline; within what a
    reader takes.

    Of long texts the middle is left out, of long lists the end, and of many runs all but the first
    of each workload.

    Raises:
        StoreFailed: there are more workloads than a document holds.
    """
    if len(document.workloads) > MOST_WORKLOADS:
        raise _too_large(
            f"there are {len(document.workloads):,} workloads",
            f"A document holds {MOST_WORKLOADS:,}",
        )
    for runs, longest in SMALLER:
        kept = document if runs is None else _with_runs(document, runs)
        content = _cut(kept.model_dump(mode="json"), longest)
        text = escape_json(json.dumps(content, indent=2, ensure_ascii=False)) + "\n"
        if len(text.encode()) <= largest:
            return text
    raise _too_large("it is too large", f"A document has {largest:,} bytes at most")


SMALLER: Final = (
    *((runs, LONGEST_TEXT) for runs in (None, 10, 3, 1)),
    (1, LONGEST_TEXT // 8),
)
"""Runs of each workload and characters of a text, one after the other, until a document is small
enough."""
_CUT: Final = " [...] "


def _with_runs(document: GateDocument, most: int) -> GateDocument:
    names = ("runs", "reference_runs", "interleaved_runs")
    fewer = (
        one.model_copy(update={name: getattr(one, name)[:most] for name in names})
        for one in document.workloads
    )
    return document.model_copy(update={"workloads": tuple(fewer)})


def _cut(held: object, longest: int) -> object:
    match held:
        case str():
            half = (longest - len(_CUT)) // 2
            return held if len(held) <= longest else f"{held[:half]}{_CUT}{held[-half:]}"
        case list():
            return [_cut(one, longest) for one in held[:MOST_ENTRIES]]
        case dict():
            return {
                _cut(key, longest): _cut(one, longest)
                for key, one in list(held.items())[:MOST_ENTRIES]
            }
        case _:
            return held


def _too_large(fact: str, expectation: str) -> StoreFailed:
    return StoreFailed(
        subject="the gate's document",
        fact=fact,
        expectation=expectation,
        next_step="Gate the workloads in parts.",
    )


def read_document(text: str) -> GateDocument:
    """Return the gate's document in a JSON text.

    Raises:
        pydantic.ValidationError: the text is not one of this format.
    """
    return GateDocument.model_validate_json(text)


SCHEMA_FILE: Final = Path(__file__).with_name("gate.schema.json")
"""The published schema, as text, so that a change of it is seen in a diff."""


def document_schema() -> dict[str, object]:
    """The JSON Schema of the document as the records have it now; `SCHEMA_FILE` holds it as it is
    published."""
    schema = GateDocument.model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": f"perfgate's gate document, format {DOCUMENT_FORMAT}",
    }
