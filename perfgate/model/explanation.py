"""How two sides differ, and what the differences are made of."""

from __future__ import annotations

from perfgate.model.advice import Advice, Classified
from perfgate.model.findings import RuleChanges
from perfgate.model.note import Note
from perfgate.model.record import Record
from perfgate.model.side import Side
from perfgate.model.verdict import Attribution, MetricVerdict, Verdict


class ComparedSides(Record):
    """Two sides and how b's medians differ from a's; judged by nobody."""

    a: Side
    b: Side
    rows: tuple[MetricVerdict, ...]
    warnings: tuple[Note, ...] = ()
    """What makes the two unlike, besides what they say of themselves."""


class Explanation(ComparedSides):
    """The same with what each difference is made of, and what is known of b besides."""

    attributions: tuple[Attribution, ...] = ()
    """Those of one metric together."""
    verdict: Verdict | None = None
    """Of what the rows are, where a gate has judged them."""
    ranks: tuple[Note, ...] = ()
    """Of several processes: how far they lie apart."""
    classified: Classified | None = None
    """What b is bound by."""
    advice: tuple[Advice, ...] = ()
    """What usually helps b."""
    rules: RuleChanges | None = None
    """What nsys's expert rules find in b; None where they were not asked."""
