"""Verdicts as JUnit: properties, the pairs of pytest's `user_properties`, and a file of merged
gates.

Text for machines: of numbers nothing is rounded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree

from perfgate.model.document import DocumentWorkload, GateDocument, other_reasons
from perfgate.model.merged import shown_names
from perfgate.model.verdict import MetricVerdict, Verdict
from perfgate.render.text import verdict_table
from perfgate.words.escape import lines, one_line

PREFIX = "perfgate."
GATE_CASE: Final = "gate"
"""The test case that fails for what no workload's outcome says."""
TABLE_WIDTH: Final = 110
_NOT_IN_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def properties(verdict: Verdict) -> list[tuple[str, str]]:
    """Return outcome, reason and runs, then of each metric its outcome, values, change, interval,
    budget and p.

    Names are `perfgate.outcome`, `perfgate.step_ms.now` and so on; times in ms, changes as
    fractions; what is not known is left out.
    """
    pairs = [
        ("outcome", verdict.outcome.value),
        ("reason", _line(verdict.reason)),
        ("runs", str(verdict.runs)),
        ("baseline_runs", str(verdict.baseline_runs)),
        ("stage", "" if verdict.stage is None else verdict.stage.value),
        ("commit", "" if verdict.ab_run is None else verdict.ab_run.commit),
    ]
    for row in verdict.metrics:
        pairs += [(f"{row.metric}.{name}", value) for name, value in _of(row)]
    pairs += [(f"{metric}.where", _line(where)) for metric, where in verdict.where.items()]
    return [(PREFIX + name, value) for name, value in pairs if value]


def _of(row: MetricVerdict) -> list[tuple[str, str]]:
    numbers = {
        "baseline": row.baseline,
        "now": row.now,
        "change": row.change,
        "low": row.low,
        "high": row.high,
        "budget": row.budget,
        "p_value": row.p_value,
        "smallest": row.smallest,
    }
    outcome = "" if row.outcome is None else row.outcome.value
    return [
        ("outcome", outcome),
        *((name, repr(value)) for name, value in numbers.items() if value is not None),
    ]


def _line(text: str) -> str:
    return " ".join(lines(text))


def gate_junit(document: GateDocument) -> str:
    """Return a JUnit file: a suite a gate that was merged, a case a workload, and one for what else
    shuts the gate.

    A case fails where its workload keeps the gate shut, with the workload's table; its properties
    are `properties`.
    """
    named = list(zip(shown_names(document.workloads), document.workloads, strict=True))
    gates = [gate.label for gate in document.gates] or [document.label]
    root = ElementTree.Element("testsuites", {"name": "perfgate"})
    for gate in gates:
        cases = [_case(name, one) for name, one in named if not document.gates or one.gate == gate]
        _suite(root, f"perfgate {gate}".strip(), cases, document)
    others = other_reasons(document)
    if not document.opens_gate and (
        others or not any(not one.opens_gate for one in document.workloads)
    ):
        case = ElementTree.Element(
            "testcase", {"classname": "perfgate", "name": GATE_CASE, "time": "0"}
        )
        reasons = others or ("it is shut, and does not say why",)
        _fail(case, f"GATE SHUT: {reasons[0]}", "\n".join(reasons))
        _suite(root, "perfgate", [case], document)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(
    root: ElementTree.Element,
    name: str,
    cases: Sequence[ElementTree.Element],
    document: GateDocument,
) -> None:
    found = {
        "name": _xml(one_line(name)),
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": "0",
        "skipped": "0",
        "time": f"{sum(float(case.get('time', '0')) for case in cases):.3f}",
        "timestamp": document.started_at.isoformat(),
    }
    ElementTree.SubElement(root, "testsuite", found).extend(cases)


def _case(name: str, one: DocumentWorkload) -> ElementTree.Element:
    took = sum(run.wall_s for run in (*one.runs, *one.reference_runs, *one.interleaved_runs))
    source = one.source or ""
    module = source.removesuffix(".py").replace("/", ".")
    found = {"classname": module or "perfgate", "name": name, "file": source, "time": f"{took:.3f}"}
    if one.line is not None:
        found["line"] = str(one.line)
    case = ElementTree.Element(
        "testcase", {key: _xml(one_line(value, longest=1000)) for key, value in found.items()}
    )
    pairs = ElementTree.SubElement(case, "properties")
    for key, value in properties(one.verdict):
        ElementTree.SubElement(pairs, "property", {"name": key, "value": _xml(value)})
    if not one.opens_gate:
        text = verdict_table(one.verdict, width=TABLE_WIDTH, colour=False, files=one.files)
        _fail(case, f"{one.verdict.outcome}: {_line(one.verdict.reason)}", text)
    return case


def _fail(case: ElementTree.Element, message: str, text: str) -> None:
    failure = ElementTree.SubElement(
        case, "failure", {"message": _xml(one_line(message, longest=1000))}
    )
    failure.text = _xml(text)


def _xml(text: str) -> str:
    """Spell out what XML has no way to hold, not even escaped."""
    return _NOT_IN_XML.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
