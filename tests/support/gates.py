"""Builders of gates that are merged: documents of shards and of machines, with the page's data
next to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from support import pages, records

from perfgate.bless.gates import Found
from perfgate.model.baseline import Commit
from perfgate.model.document import DocumentRun, DocumentWorkload, GateDocument, Shard
from perfgate.model.document_text import document_text
from perfgate.model.machine import Machine
from perfgate.model.outcome import Outcome
from perfgate.model.pagedata import PageData, page_data, page_data_text
from perfgate.model.settings import Settings
from perfgate.model.verdict import Verdict

H200 = records.machine()
H100 = records.machine("NVIDIA H100 80GB HBM3")
PASSING = (Outcome.PASSED, Outcome.IMPROVED)


def judged(name: str, outcome: Outcome = Outcome.PASSED, **more: object) -> DocumentWorkload:
    """Build a workload of this outcome, with the rows of a page's."""
    verdict = pages.whole(name, outcome).verdict
    return placed(verdict).model_copy(update=more)


def placed(verdict: Verdict, *, opens: bool | None = None) -> DocumentWorkload:
    """Build a workload of a verdict, declared on line 7 of a file."""
    return DocumentWorkload(
        verdict=verdict,
        opens_gate=verdict.outcome in PASSING if opens is None else opens,
        runs=tuple(map(DocumentRun.of, records.runs(12.3, 12.5, 12.4))),
        source="workloads/loops.py",
        line=7,
    )


def gate(
    label: str,
    *workloads: DocumentWorkload,
    on: Machine | None = H200,
    shard: Shard | None = None,
    commit: Commit | None = records.COMMIT,
    settings: Settings | None = None,
    shut_by: Sequence[str] = (),
) -> GateDocument:
    """Build a gate; it is shut by its workloads and by what else is said."""
    reasons = (
        *(
            f"{one.verdict.workload}: {one.verdict.outcome}"
            for one in workloads
            if not one.opens_gate
        ),
        *shut_by,
    )
    return records.document(
        *workloads,
        opens=not reasons,
        shut_by=reasons,
        machine=on,
        commit=commit,
        label=label,
        shard=shard,
        settings=settings or Settings(),
    )


def shard(index: int, of: int, *workloads: str, skipped: Sequence[str] = ()) -> Shard:
    """Build the part of these workloads, in the order of their ids."""
    return Shard(index=index, of=of, workloads=workloads, skipped=tuple(skipped))


def found(document: GateDocument, *, page: PageData | None = None) -> Found:
    """Build a gate as it is found in a folder."""
    return Found(folder=f"gates/{document.label}", document=document, page=page)


def rich(document: GateDocument) -> PageData:
    """Build the page's data of a document, with what only the gate itself knew."""
    shown = page_data(document)
    whole = {
        one.verdict.workload: pages.whole(one.verdict.workload, one.verdict.outcome)
        for one in document.workloads
    }
    return shown.model_copy(
        update={
            "workloads": tuple(
                whole[one.verdict.workload].model_copy(
                    update={"verdict": one.verdict, "opens_gate": one.opens_gate}
                )
                for one in document.workloads
            )
        }
    )


def put(folder: Path, document: GateDocument, *, page: PageData | None = None) -> Path:
    """Write a gate into a folder."""
    folder.mkdir(parents=True)
    (folder / "perfgate.json").write_text(document_text(document), encoding="utf-8")
    if page is not None:
        (folder / "page.json").write_text(page_data_text(page), encoding="utf-8")
    return folder
