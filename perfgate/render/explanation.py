"""What moved and where, as text for `perfgate explain`: every part of every change, and what is
left over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from perfgate.model.advice import Advice, Classified
from perfgate.model.findings import RuleChanges
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import Note
from perfgate.model.sample import OUTSIDE_RANGES, UNNAMED
from perfgate.model.side import Side
from perfgate.model.verdict import Attribution, Axis, MetricVerdict, Part, Verdict
from perfgate.render.page import Cell, Page, Row, columns
from perfgate.render.records import difference_table, side_lines, unlike_lines
from perfgate.render.text import interval_text
from perfgate.words import numbers, say
from perfgate.words.escape import one_line
from perfgate.words.names import plural

MOST_PARTS: Final = 10
"""Rows of a table; smaller parts share one."""
LEAST_SHARE: Final = 0.01
"""Of the largest part: what is less gets no row of its own."""
LONGEST: Final = 120
"""Characters of a name that is not asked for in full."""

TITLES: Final = {
    Axis.RANGE: "by NVTX range",
    Axis.KERNEL: "by kernel",
    Axis.COPY: "by kind of copy",
    Axis.CALL: "by synchronising call",
}


def explanation_text(
    a: Side,
    b: Side,
    rows: Sequence[MetricVerdict],
    attributions: Sequence[Attribution],
    *,
    width: int,
    colour: bool,
    verdict: Verdict | None = None,
    ranks: Sequence[Note] = (),
    classified: Classified | None = None,
    advice: Sequence[Advice] = (),
    rules: RuleChanges | None = None,
    warnings: Sequence[Note] = (),
    full: bool = False,
) -> str:
    """Return how b differs from a, and what each difference is made of; with `full`, every part and
    whole names.

    Args:
        a: what it is compared with.
        b: what is explained.
        rows: their medians.
        attributions: what the differences are made of; those of one metric together.
        width: cells of a line.
        colour: whether escape codes may be used.
        verdict: of what the rows are, where a gate has judged them.
        ranks: what is known of several processes.
        classified: what b is bound by.
        advice: what usually helps b.
        rules: what nsys's expert rules find in b.
        warnings: what makes the two unlike, besides what they say of themselves.
        full: whether nothing is left out.
    """
    page = Page(width=width, colour=colour)
    side_lines(page, "a", a)
    side_lines(page, "b", b)
    unlike_lines(page, a, b, warnings)
    page.blank()
    if rows:
        difference_table(page, rows, titles=("a", "b"))
    else:
        page.prose("Neither holds a metric that could be compared.")
    if verdict is not None and any(row.low is not None for row in rows):
        page.prose(f"as the gate judged them. {interval_text(verdict)}", style="dim")
    for rank in ranks:
        page.prose(say.fact(rank), label="ranks")
    if classified is not None:
        page.prose(f"{classified.bound}: {classified.evidence}", label="b is")
    for found in advice:
        page.prose(f"{found.evidence}. {found.usually}", label="advice")
    for metric in dict.fromkeys(one.metric for one in attributions):
        own = [one for one in attributions if one.metric is metric]
        page.blank()
        page.line(
            Cell(text=metric, style="bold"),
            f" {_signed(metric, own[0].change)}{' ms' if METRICS[metric].unit == 'ms' else ''}",
            f" in {one_line(own[0].process)}" if own[0].process else "",
        )
        for one in own:
            _table(page, one, full=full)
    if rules is not None:
        _rules(page, rules)
    if rows and not attributions:
        page.blank()
        page.prose("Nothing differs of which the captures tell where it lies.")
    return page.text


def _rules(page: Page, rules: RuleChanges) -> None:
    page.blank()
    if rules.why_not:
        page.prose(
            f"nsys's expert rules were not applied: {say.fact(rules.why_not)}", label="rules"
        )
        return
    if not rules.rows:
        page.prose("nsys's expert rules find nothing in b", label="rules")
        return
    shown: list[Row] = []
    for row in rules.rows:
        sides = (row.before, row.now)
        counts = ("" if one is None else numbers.count(one.count) for one in sides)
        times = ("" if one is None else numbers.milliseconds(one.ms) for one in sides)
        new = "new" if rules.is_new(row) else ""
        where = one_line(row.range, longest=LONGEST)
        shown.append((row.rule.value, where, *counts, *times, new))
    titles = columns("nsys's rule", "range*", ">a", ">b", ">a ms", ">b ms", "")
    page.table(titles, shown)
    alone = f"; {say.fact(rules.why_alone)}" if rules.why_alone else ""
    page.prose(f"findings per step, and their time{alone}", style="dim")


def _table(page: Page, attribution: Attribution, *, full: bool) -> None:
    shown = attribution.parts if full else large_parts(attribution, MOST_PARTS)
    hidden = attribution.parts[len(shown) :]
    rows: list[Row] = [_row(part, attribution, full=full) for part in shown]
    smaller = sum(part.change for part in hidden)
    if matters(smaller, attribution):
        rows.append(
            (
                f"({plural(len(hidden), 'smaller part')})",
                "",
                "",
                _signed(attribution.metric, smaller),
                "",
            )
        )
    if matters(attribution.rest, attribution):
        rows.append(
            (named_rest(attribution), "", "", _signed(attribution.metric, attribution.rest), "")
        )
    by = f"{TITLES[attribution.axis]}{'' if full else '*'}"
    page.blank()
    page.table(columns(by, ">a", ">b", ">b - a", "~"), rows)


def large_parts(attribution: Attribution, most: int) -> tuple[Part, ...]:
    """Return the parts that are worth a row each, which come first."""
    return tuple(part for part in attribution.parts[:most] if matters(part.change, attribution))


def matters(change: float, attribution: Attribution) -> bool:
    """Whether a part of it, or what is left of it, is worth a row of its own."""
    largest = max(abs(attribution.change), *(abs(part.change) for part in attribution.parts), 0.0)
    return abs(change) > LEAST_SHARE * largest


def named_rest(attribution: Attribution) -> str:
    """What to call the rest of an attribution."""
    return (
        "(not accounted for)" if attribution.covers_all else "(all else, copies to the GPU as well)"
    )


def _row(part: Part, attribution: Attribution, *, full: bool) -> Row:
    name = (
        "(outside any range)"
        if part.name == OUTSIDE_RANGES
        else one_line(part.name, longest=100_000 if full else LONGEST) or UNNAMED
    )
    named = name if part.metric is attribution.metric else f"{part.metric} under {name}"
    before = "" if part.before is None else numbers.value(part.metric, part.before)
    return (
        named,
        before,
        numbers.value(part.metric, part.now),
        _signed(part.metric, part.change),
        one_line(part.note),
    )


def _signed(metric: Metric, change: float) -> str:
    return f"{'-' if change < 0 else '+'}{numbers.value(metric, abs(change))}"
