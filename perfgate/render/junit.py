"""Merged gates as a JUnit file.

Text for machines: of numbers nothing is rounded.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from perfgate.model.document import DocumentWorkload, GateDocument
from perfgate.render.filling import environment
from perfgate.render.gate import Judged, state_of
from perfgate.render.page import Page
from perfgate.render.text import verdict_table
from perfgate.render.verdict import joined, properties
from perfgate.words.escape import one_line

if TYPE_CHECKING:
    from jinja2 import Environment

TABLE_WIDTH: Final = 110
_NOT_IN_XML: Final = "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


def gate_junit(document: GateDocument) -> str:
    """Return a JUnit file: a suite a gate that was merged, a case a workload, and one for what else
    shuts the gate.

    A case fails where its workload keeps the gate shut, with the workload's table; its properties
    are `properties`.
    """
    state = state_of(document)
    labels = [gate.label for gate in document.gates]
    suites = {
        label: [one for one in state.judged if one.workload.gate == label] for label in labels
    }
    others = state.others
    if not (state.opens or others or state.shutting):
        others = ("it is shut, and does not say why",)
    template = _environment().get_template("gate.junit.j2")
    return template.render(
        document=document, suites=suites or {document.label: state.judged}, others=others
    )


def _table(one: Judged) -> str:
    page = Page(width=TABLE_WIDTH, colour=False)
    return verdict_table(page, one.verdict, files=one.workload.files)


def _took(one: DocumentWorkload) -> float:
    return sum(run.wall_s for run in (*one.runs, *one.reference_runs, *one.interleaved_runs))


def _xml(shown: object) -> object:
    """Escape what XML has no way to hold; the markup of a macro has been through this."""
    if isinstance(shown, Markup):
        return shown
    return re.sub(
        _NOT_IN_XML, lambda found: found[0].encode("unicode_escape").decode("ascii"), str(shown)
    )


@cache
def _environment() -> Environment:
    return environment(
        escape=_xml,
        markup=True,
        filters={
            "name": lambda text: one_line(text, longest=1000),
            "line": joined,
            "module": lambda file: file.removesuffix(".py").replace("/", ".") or "perfgate",
            "took": _took,
            "table": _table,
            "properties": properties,
        },
    )
