"""The HTML page as text: what stands in it, that names stay names, and what is left out of a large
one."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Mapping
from html.parser import HTMLParser

import pytest
from support import gates, pages, records

from perfgate.model.document import DocumentRun
from perfgate.model.metric import Metric
from perfgate.model.note import quoted
from perfgate.model.outcome import Outcome
from perfgate.model.pagedata import (
    Bar,
    Lane,
    PageData,
    PageWorkload,
    StepView,
    page_data,
    page_data_text,
    small_enough,
)
from perfgate.render.html import page_html
from perfgate.render.html.workload import intervals, runs, timeline

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "<b>bold</b><br>",
    '<a href="javascript:alert(1)">link</a>',
    "$title $script ${style} %{customdata}",
    "x" * 10_000,
    "abc\u202egnp.exe",
    "\U0001f525 rocket \U0001f680",
    "line\u2028end\x00\x1b[31m",
    "-->]]>{{7*7}}",
)


class Read(HTMLParser):
    """Elements of a page with their attributes, and the text in each script and in all else."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, Mapping[str, str | None]]] = []
        self.scripts: list[tuple[Mapping[str, str | None], str]] = []
        self.styles: list[str] = []
        self.text = ""
        self._open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag == "style":
            self.styles.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        match self._open:
            case "script":
                attributes, text = self.scripts[-1]
                self.scripts[-1] = (attributes, text + data)
            case "style":
                self.styles[-1] += data
            case _:
                self.text += data


@pytest.fixture(scope="module")
def page() -> Read:
    return Read(page_html(pages.every_outcome()))


# One file, and nothing but what it was made of


def test_policy_lets_the_pages_own_script_and_style_run_and_nothing_else(page: Read) -> None:
    (policy,) = (a["content"] for tag, a in page.elements if tag == "meta" and a.get("http-equiv"))
    assert policy is not None
    rules = {
        name: rest.split()
        for name, *more in (rule.split(" ", 1) for rule in policy.split("; "))
        for rest in more
    }
    (run,) = (text for attributes, text in page.scripts if "type" not in attributes)
    (packed,) = (text for attributes, text in page.scripts if attributes.get("id") == "plotly")

    def named(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    plotly = zlib.decompress(base64.b64decode(packed)).decode()
    assert "plotly.js" in plotly[:100]
    assert rules["default-src"] == ["'none'"]
    assert rules["script-src"] == [named(run), named(plotly)]
    assert rules["style-src"] == [named(page.styles[0]), named("")]
    assert page.styles[1:] == [""] * len(page.styles[1:])
    assert [
        a for _, a in page.elements if "style" in a or any(name.startswith("on") for name in a)
    ] == []


def test_every_id_is_there_once(page: Read) -> None:
    found = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(found) == len(set(found))
    links = {(a["href"] or "")[1:] for tag, a in page.elements if tag == "a"}
    assert links <= set(found)


# Names from elsewhere


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_adds_no_element_anywhere(name: str) -> None:
    def made(text: str) -> str:
        return page_html(pages.page(pages.named(text), shut_by=[text]))

    def skeleton(text: str) -> list[tuple[str, tuple[str, ...]]]:
        # A reason of several lines has a break between them, and what cannot be copied has no
        # button.
        return [
            (tag, tuple(sorted(attributes)))
            for tag, attributes in Read(
                re.sub(r'<div class="command">.*?</div>|<p><bdi><code>.*?</p>', "", text)
            ).elements
            if tag != "br"
        ]

    assert skeleton(made(name)) == skeleton(made("plain"))
    assert not re.search(r"&amp;(lt|gt|amp|#\d+);", made("<&>"))


# What it says


def test_passing_workloads_are_closed_and_others_open(page: Read) -> None:
    closed = {
        a["id"] for tag, a in page.elements if a.get("class") == "workload" and "open" not in a
    }
    assert closed == {"w-resnet18_input-pinned", "w-mlp"}


def test_data_of_a_page_is_read_again_and_bears_its_format() -> None:
    data = pages.every_outcome()
    text = page_data_text(data)
    assert text.startswith('{"format":2,"perfgate":')
    assert text.endswith("}\n")
    assert text.count("\n") == 1
    assert PageData.model_validate_json(text) == data


def test_data_that_is_too_large_leaves_out_steps_of_passing_workloads_first_and_says_so() -> None:
    workloads = [
        pages.whole(f"w{n}", Outcome.REGRESSED if n == 1 else Outcome.PASSED, bars=400)
        for n in range(4)
    ]
    data = pages.page(*workloads)
    whole = len(page_data_text(data))
    read = small_enough(data, most_bytes=whole - 1)
    assert [one.steps_left_out for one in read.workloads] == [True, False, True, True]
    assert [one.candidate_step is None for one in read.workloads] == [True, False, True, True]
    page = Read(page_html(read))
    assert "the timelines of 3 passing workloads are left out." in page.text
    assert page.text.count("Its timeline is left out of this page to keep it small.") == 3
    nothing = small_enough(data, most_bytes=0)
    assert all(one.steps_left_out for one in nothing.workloads)
    assert nothing.workloads[0].baseline == data.workloads[0].baseline


def test_every_table_has_a_caption_and_heads_of_rows_and_columns(page: Read) -> None:
    tables = [tag for tag, _ in page.elements if tag == "table"]
    assert len(tables) > 20
    assert len([tag for tag, _ in page.elements if tag == "caption"]) == len(tables)
    assert {a.get("scope") for tag, a in page.elements if tag == "th"} == {"col", "row"}


# What the plots are drawn from


def test_intervals_are_in_each_metrics_basis_the_worst_first() -> None:
    found = intervals(pages.whole())
    names = ["step_ms (%)", "gap_ms (pp)", "kernel_ms (%)", "h2d_ms (pp)"]
    assert [one["name"] for one in found] == names
    first = [found[0][name] for name in ("low", "change", "high", "budget")]
    assert first == pytest.approx([2.3, 3.4, 4.5, 2.0])


def test_what_a_forged_document_makes_larger_than_any_number_is_not_drawn() -> None:
    plain = pages.whole()
    forged = plain.verdict.metrics[0].model_copy(update={"change": 1e308, "high": 1e308})
    verdict = plain.verdict.model_copy(update={"metrics": (forged, *plain.verdict.metrics[1:])})
    workload = plain.model_copy(update={"verdict": verdict})
    assert "step_ms (%)" not in [one["name"] for one in intervals(workload)]
    assert page_html(pages.page(workload))


def test_runs_are_shown_side_by_side_those_that_moved_first_and_outliers_out_of_the_median() -> (
    None
):
    found = runs(pages.whole())
    assert [one["metric"] for one in found[::3]][:2] == [Metric.STEP_MS, Metric.GAP_MS]
    assert [(one["side"], one["dropped"], one["median"]) for one in found[:3]] == [
        ("baseline", [], 12.34),
        ("other commit", [], 12.33),
        ("candidate", [2], pytest.approx(12.765)),
    ]
    assert found[2]["values"] == (12.75, 12.78, 16.1)


def test_the_step_is_drawn_from_its_bars_to_a_nanosecond() -> None:
    bars = (
        Bar(start_us=0.1234, length_us=1.5, name="a\u202e"),
        Bar(start_us=3000, length_us=50, name="b", count=4, busy_us=40),
    )
    lane = Lane(title="GPU 0 stream 7", kind="kernel", bars=bars)
    step = StepView(label=quoted("x"), length_us=3260, lanes=(lane,), operations=5, drawn=2)
    (side,) = timeline(
        PageWorkload(verdict=records.verdict(), opens_gate=True, candidate_step=step)
    )
    assert (side["side"], side["length"]) == ("candidate", 3260)
    assert side["lanes"][0]["bars"] == [
        (0.123, 1.5, "a\\u202e", 1, 1.5),
        (3000, 50, "b", 4, 40),
    ]


# From a gate's document


def test_document_makes_a_page_of_its_own() -> None:
    lame = records.run(absent={Metric.KERNEL_MS: "no kernels"}, throttled=["thermal slowdown"])
    runs = (DocumentRun.of(records.run()), DocumentRun.of(lame))
    other = (DocumentRun.of(records.run({Metric.STEP_MS: 12.0})),)
    one = gates.judged("mlp", Outcome.INVALID, runs=runs, reference_runs=other, baseline="mlp.json")
    data = page_data(gates.gate("", one))
    (workload,) = data.workloads
    assert workload.candidate is not None
    assert workload.other is not None
    assert workload.candidate.values[Metric.STEP_MS] == (12.34, 12.34)
    assert workload.candidate.values[Metric.KERNEL_MS] == (9.1,)
    assert workload.other.values[Metric.STEP_MS] == (12.0,)
    text = Read(page_html(data)).text
    assert "GPU GPU-0 was throttled (thermal slowdown)" in text
    assert "without kernel_ms: no kernels" in text
    assert "mlp.json" in text
