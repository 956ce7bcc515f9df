"""A gate as Markdown: what it says, and that nothing in it from elsewhere is more than text."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support import records

from perfgate.model.diagnosis import Advice, Topic
from perfgate.model.document import GateDocument
from perfgate.model.metric import Metric
from perfgate.model.note import note, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Verdict
from perfgate.render.markdown import LONGEST, gate_markdown, prose
from perfgate.words.escape import lines as escaped_lines


def regressed(workload: str = "mlp", **more: object) -> Verdict:
    verdict = records.verdict(Outcome.REGRESSED, name=workload).model_copy(
        update={"metrics": records.SLOWER}
    )
    return verdict.model_copy(update=more)


def gate(*verdicts: Verdict, shut_by: tuple[str, ...] = ()) -> GateDocument:
    return records.document(*verdicts, opens=False, shut_by=shut_by)


def rendered(markdown: str) -> str:
    return str(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown))


def test_a_shut_gate_is_shown_worst_first_with_a_table_of_what_moved() -> None:
    advice = Advice(
        topic=Topic.LOADER,
        range="get batch",
        what=note("advice-unhidden", under=" under get batch", ms=6.0, exposed_ms=5.0),
    )
    verdict = regressed(
        where_notes={Metric.STEP_MS: quoted("+1.86 ms: gap_ms +1.8 under get batch")},
        advice=(advice,),
    )
    written = gate_markdown(gate(records.verdict(name="fine"), verdict))
    assert written.startswith("## perfgate: gate \u274c shut\n")
    page = rendered(written)
    assert page.index("<code>mlp</code>") < page.index("<code>fine</code>")
    assert '<td style="text-align:right">14.20</td>' in page
    assert "gap_ms +1.8 under get batch" in html.unescape(page)
    assert "no kernel runs for 5.000 ms of it. In a stream of its own" in html.unescape(page)
    assert "### `fine`" not in written  # of what passed there is nothing more to say


def test_too_much_is_cut_at_a_line() -> None:
    text = gate_markdown(gate(*(regressed(f"w{n}", why=quoted("long " * 300)) for n in range(160))))
    assert len(text) <= LONGEST + 100
    assert text.count("\n| `w") == 100
    assert "\nand 60 more, none of them worse.\n" in text
    assert text.splitlines()[-1] == "The rest is too long."


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "@octocat please",
    "fixes #1, GH-1, octo/cat#2",
    "https://evil.example and www.evil.example",
    "``` \n# heading\n- item\n> quote\n| a | b |\n|---|---|",
    "a | b | c",
    "`code` ``more``",
    "*bold* __bold__ ~~struck~~ $x$",
    "::error::workflow command\n::set-output name=a::b",
    "\x1b[2J\u202eevil\x00",
    "\\`\\[\\",
    "&lt;b&gt; &amp;",
    "<!-- comment -->",
    "x" * 10_000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(text: str) -> None:
    verdict = regressed(
        text,
        reason=text,
        next_step=text,
        where_notes={Metric.STEP_MS: quoted(text)},
        information=(text,),
        rank_notes=(quoted(text),),
        warnings=(text,),
    )
    written = gate_markdown(gate(verdict, shut_by=(text,)))
    page = rendered(written)
    assert set(re.findall(r"<(\w+)", page)) <= {
        *("h2", "h3", "p", "ul", "li", "strong", "code"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    assert page.count("<tr>") == 2 + 1 + len(records.SLOWER)
    assert page.count("<h2>") == page.count("<h3>") == 1
    outside_code = html.unescape(re.sub(r"<code>.*?</code>", "", page, flags=re.DOTALL))
    assert not re.search(r"@[a-z]|#\d|https?://|www\.|GH-\d", outside_code)
    assert not any(line.startswith("::") for line in written.splitlines())
    assert "\x1b" not in written
    assert "\u202e" not in written


@given(st.text(max_size=200))
def test_any_sentence_reads_as_it_is(text: str) -> None:
    shown = html.unescape(
        re.sub(r"</?p>", "", MarkdownIt("commonmark").render(prose(text)))
    ).replace("\u200b", "")
    plain = prose(text)
    assert "\n" not in plain
    assert shown.strip() == " ".join(" ".join(escaped_lines(text)).split()).replace("\u200b", "")
