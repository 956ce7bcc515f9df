"""One model: terminal, Markdown, JSON, page and JUnit of merged gates say the same, number for
number."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from support import gates, records
from support.gates import H100, found, gate, judged, placed, shard
from syrupy.assertion import SnapshotAssertion

from perfgate.bless.merge import merge, merged_page
from perfgate.model.document import GateDocument
from perfgate.model.document_text import document_text, read_document
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.pagedata import PageData, page_data_text
from perfgate.render.gate import shown_names
from perfgate.render.html import page_html
from perfgate.render.junit import gate_junit
from perfgate.render.markdown import gate_markdown
from perfgate.render.page import Page
from perfgate.render.text import merged_text
from perfgate.render.verdict import change_cell, properties

OUTCOME: Final = "|".join(Outcome)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What one of the forms says: whether the gate is open, and by name of each workload outcome
    and change."""

    opens: bool
    outcomes: Mapping[str, str]
    changes: Mapping[str, str]
    """Of step_ms, as it is shown; not where a form does not show it."""


def several() -> list[GateDocument]:
    """Every outcome, over two shards on one GPU and a gate on another."""
    first = [
        judged("mlp", Outcome.REGRESSED),
        judged("lstm"),
        judged("net[1]", Outcome.INCONCLUSIVE, opens_gate=True),
    ]
    second = [judged(f"w{n}", outcome) for n, outcome in enumerate(Outcome)]
    names = sorted(one.verdict.workload for one in (*first, *second))
    return [
        gate("h200 1/2", *first, shard=shard(1, 2, *names)),
        gate("h200 2/2", *second, shard=shard(2, 2, *names)),
        gate("h100", judged("mlp", Outcome.IMPROVED), judged("lstm"), on=H100),
    ]


def rows(table: str) -> list[list[str]]:
    """The text of the cells of each row below a table's head."""
    return [
        [
            html.unescape(re.sub(r"<[^>]+>", "", cell)).replace("\u200b", "")
            for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
        ]
        for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)[1:]
    ]


def by_terminal(document: GateDocument) -> Shown:
    text = merged_text(Page(width=400, colour=False), document)
    found = re.findall(rf"^({OUTCOME}) +(.+?)   *\S", text, re.MULTILINE)
    return Shown(
        opens=text.splitlines()[-1].startswith("GATE OPEN: "),
        outcomes={name.strip(): outcome for outcome, name in found},
        changes={},
    )


def by_markdown(document: GateDocument) -> Shown:
    page = str(MarkdownIt("commonmark").enable("table").render(gate_markdown(document)))
    table = page.partition("<table>")[2].partition("</table>")[0]
    return Shown(
        opens="gate \u2705 open" in page,
        outcomes={row[0]: row[1].split()[-1] for row in rows(table)},
        changes={row[0]: row[3] for row in rows(table)},
    )


def by_json(document: GateDocument) -> Shown:
    held = read_document(document_text(document))
    named = dict(zip(shown_names(held.workloads), held.workloads, strict=True))
    steps = {name: one.verdict.of(Metric.STEP_MS) for name, one in named.items()}
    return Shown(
        opens=held.opens_gate,
        outcomes={name: one.verdict.outcome.value for name, one in named.items()},
        changes={name: change_cell(step) if step else "" for name, step in steps.items()},
    )


def by_page(text: str) -> Shown:
    table = text.partition('<table class="sortable overview">')[2].partition("</table>")[0]
    return Shown(
        opens="<title>perfgate: GATE OPEN" in text,
        outcomes={row[1]: row[0].split()[-1] for row in rows(table)},
        changes={row[1]: row[3] for row in rows(table)},
    )


def by_junit(document: GateDocument) -> Shown:
    root = ElementTree.fromstring(gate_junit(document))
    cases = [case for case in root.iter("testcase") if case.get("classname") != "perfgate"]
    held = [
        [(one.get("name"), one.get("value")) for one in case.iter("property")] for case in cases
    ]
    written = [properties(one.verdict) for one in document.workloads]
    assert sorted(map(str, held)) == sorted(map(str, written))
    names = [case.get("name", "") for case in cases]
    return Shown(
        opens=root.find(".//failure") is None,
        outcomes={
            name: str(dict(pairs)["perfgate.outcome"])
            for name, pairs in zip(names, held, strict=True)
        },
        changes={},
    )


def test_terminal_markdown_json_page_and_junit_say_the_same() -> None:
    first, *others = several()
    listed = [found(first), *(found(one, page=gates.rich(one)) for one in others)]
    document = merge(listed, at=records.NOON)
    page = merged_page(document, listed)
    shown = by_json(document)
    assert len(shown.outcomes) == len(document.workloads)
    assert [shown.outcomes, shown.opens] == [
        by_terminal(document).outcomes,
        by_terminal(document).opens,
    ]
    assert shown == by_markdown(document)
    assert shown == by_page(page_html(page))
    assert shown == by_page(page_html(PageData.model_validate_json(page_data_text(page))))
    assert [shown.outcomes, shown.opens] == [by_junit(document).outcomes, by_junit(document).opens]


def test_reasons_that_no_workload_shows_are_in_every_form() -> None:
    listed = [found(gate("a", judged("mlp"), shard=shard(1, 2, "mlp", "relu")))]
    document = merge(listed, expect=2, at=records.NOON)
    for form in (
        merged_text(Page(width=200, colour=False), document),
        gate_markdown(document),
        document_text(document),
        page_html(merged_page(document, listed)),
        gate_junit(document),
    ):
        assert "shard 2/2 on NVIDIA H200 is missing" in form
        assert "2 gates were expected, and 1 gate found: a" in form


# JUnit


def test_junit_has_a_suite_a_gate_and_fails_what_keeps_it_shut(
    snapshot: SnapshotAssertion,
) -> None:
    listed = [found(gate("a", judged("mlp", Outcome.REGRESSED))), found(gate("b", judged("lstm")))]
    assert gate_junit(merge(listed, at=records.NOON)) == snapshot


@pytest.mark.parametrize(
    "text", ["\x00", "\ufffe", "\ud7ff\uffff", "]]>", "<![CDATA[", "\U0001f525", "&amp;"]
)
def test_junit_is_xml_whatever_is_in_it(text: str) -> None:
    verdict = records.verdict(Outcome.REGRESSED, name=f"n{text}", reason=text)
    document = merge([found(gate(f"g{text}", placed(verdict), shut_by=[text]))], at=records.NOON)
    cases = [
        case.get("name") for case in ElementTree.fromstring(gate_junit(document)).iter("testcase")
    ]
    assert len(cases) == 2


@pytest.mark.parametrize("others", [[], ["two"]])
def test_a_reason_from_elsewhere_moves_no_cursor_and_begins_no_line(others: list[str]) -> None:
    shown = gate("a", judged("mlp"), shut_by=["one\x1b[2J\n::error::pwn\u202e", *others])
    text = merged_text(Page(width=100, colour=False), merge([found(shown)], at=records.NOON))
    assert r"one\x1b[2J\n::error::pwn\u202e" in text
    assert not {"\x1b", "\u202e"} & set(text)
    assert not any(line.startswith("::") for line in text.splitlines())
