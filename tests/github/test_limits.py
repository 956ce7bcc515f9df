"""What perfgate writes, perfgate reads: the largest document that a gate can write reaches the
comment."""

from __future__ import annotations

import pytest
from support import records
from support.rest import zipped

from perfgate.github.artifacts import read_untrusted
from perfgate.model.baseline import Commit
from perfgate.model.document import DocumentRun, DocumentWorkload, GateDocument
from perfgate.model.document_text import document_text, read_document
from perfgate.model.errors import StoreFailed
from perfgate.model.loosening import Difference, Direction, Loosening
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.record import LONGEST_ID, LONGEST_TEXT, MOST_ENTRIES, MOST_WORKLOADS
from perfgate.model.verdict import Verdict
from perfgate.render.markdown import gate_markdown

pytestmark = pytest.mark.behaviour

SHA = "a" * 40
TAIL = "\n".join(f"  | {number}: a line of a log" for number in range(60_000))


def gated(*verdicts: Verdict, **more: object) -> GateDocument:
    run = DocumentRun(
        started_at=records.NOON,
        wall_s=1.0,
        values=dict.fromkeys(Metric, 1.0),
        information=("a note",) * 20,
    )
    workloads = (
        DocumentWorkload(verdict=one, opens_gate=False, runs=(run,) * 3) for one in verdicts
    )
    shut = {"shut_by": ("it is shut",), "commit": Commit(sha=SHA)}
    return records.document(*workloads, opens=False, **{**shut, **more})


def through(document: GateDocument) -> GateDocument:
    return read_untrusted(
        zipped({"perfgate.json": document_text(document)}), SHA, artifact="perfgate"
    )


def failed(name: str = "mlp", reason: str = "it failed") -> Verdict:
    return records.verdict(Outcome.INVALID, name=name, reason=reason)


def test_a_long_tail_of_a_log_keeps_no_verdict_from_the_comment() -> None:
    read = through(
        gated(failed(reason=f"It ended with exit status 1. Last lines of its output:\n{TAIL}"))
    )
    (one,) = read.workloads
    assert len(one.verdict.reason) <= LONGEST_TEXT
    assert one.verdict.reason.startswith("It ended with exit status 1.")
    assert one.verdict.reason.endswith("59999: a line of a log")


def test_the_largest_document_that_is_written_is_read() -> None:
    names = [f"{number:0{LONGEST_ID}}" for number in range(MOST_WORKLOADS)]
    differences = [
        Difference(what=f"setting {n}", new=TAIL, direction=Direction.LOOSENS)
        for n in range(MOST_ENTRIES + 5)
    ]
    document = gated(
        *(failed(name, reason=TAIL[:30_000]) for name in names),
        shut_by=tuple(TAIL.splitlines()[: MOST_ENTRIES + 5]),
        information=(TAIL,),
        label=TAIL,
        loosening=Loosening(
            base="main",
            differences=tuple(differences[:50])
            + tuple(d.model_copy(update={"new": "1"}) for d in differences),
        ),
    )
    read = through(document)
    assert [one.verdict.workload for one in read.workloads] == names
    assert all(one.runs for one in read.workloads)
    assert read_document(document_text(document)) == read
    assert gate_markdown(read).startswith("## perfgate: gate")


def test_what_no_document_can_hold_is_an_error_of_whoever_writes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(StoreFailed):
        document_text(gated(*(failed(str(number)) for number in range(MOST_WORKLOADS + 1))))
    monkeypatch.setattr("perfgate.model.document_text.LARGEST_DOCUMENT", 1000)
    with pytest.raises(StoreFailed):
        document_text(gated(failed(reason=TAIL)))
