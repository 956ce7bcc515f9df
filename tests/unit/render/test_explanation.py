"""`perfgate explain` as text: every part, whole names on demand, nothing that hostile names could
do."""

from __future__ import annotations

from collections.abc import Mapping

from syrupy.assertion import SnapshotAssertion

from perfgate.explain.sides import differences, made_up_of
from perfgate.model.comparison import Explanation, Side
from perfgate.model.metric import Metric
from perfgate.model.note import note, quoted
from perfgate.model.reports import PlacedFindings, RuleChange, RuleChanges, RuleName
from perfgate.model.sample import (
    NO_NCCL,
    Breakdown,
    RangeSample,
    SyncSample,
)
from perfgate.render.explanation import MOST_PARTS, explanation_text
from perfgate.render.page import Page


def side(label: str, values: Mapping[Metric, float], breakdown: Breakdown) -> Side:
    return Side(
        label=quoted(label),
        values={metric: (value,) for metric, value in values.items()},
        breakdown=breakdown,
    )


def text(a: Side, b: Side, *, width: int = 100, full: bool = False) -> str:
    rows = differences(a, b)
    found = Explanation(a=a, b=b, rows=rows, attributions=made_up_of(a, b, rows, full=full))
    return explanation_text(Page(width=width, colour=False), found, full=full)


def ranges(**gaps: float) -> tuple[RangeSample, ...]:
    return tuple(
        RangeSample(name=name, count=1, cpu_ms=1.0, values={Metric.GAP_MS: gap})
        for name, gap in gaps.items()
    )


BEFORE = side(
    "before.sqlite",
    {Metric.STEP_MS: 10.0, Metric.GAP_MS: 1.5, Metric.SYNCS: 0},
    Breakdown(ranges=ranges(data_load=1.0, forward=0.5)),
)
AFTER = side(
    "after.sqlite",
    {Metric.STEP_MS: 14.2, Metric.GAP_MS: 5.6, Metric.SYNCS: 1},
    Breakdown(
        ranges=ranges(data_load=4.9, forward=0.7),
        syncs=(SyncSample(call="cudaStreamSynchronize", range="loss_log", count=1, cpu_ms=2.0),),
    ),
)


def test_what_moved_is_shown_with_all_its_parts(snapshot: SnapshotAssertion) -> None:
    assert text(BEFORE, AFTER) == snapshot


def test_many_parts_are_shown_as_one_unless_asked_for() -> None:
    many = {f"r{n}": 0.1 * n for n in range(1, MOST_PARTS + 6)}
    whole = sum(many.values())
    b = side("b", {Metric.STEP_MS: 10.0, Metric.GAP_MS: whole}, Breakdown(ranges=ranges(**many)))
    a = side("a", {Metric.STEP_MS: 10.0, Metric.GAP_MS: 0.1}, Breakdown(ranges=ranges(start=0.1)))
    assert "(6 smaller parts)" in text(a, b)
    assert "smaller parts" not in text(a, b, full=True)
    assert all(name in text(a, b, full=True) for name in many)


def test_what_a_side_lacks_is_said_beneath_it_and_no_metric_of_it_is_gone(
    snapshot: SnapshotAssertion,
) -> None:
    none = quoted("they were not recorded")
    a = AFTER.model_copy(
        update={
            "missing": {"calls": none, "ranges": none},
            "absent": {Metric.NCCL_MS: NO_NCCL, Metric.SYNCS: none},
            "invalid": (quoted("of 20 kernel launches the capture lacks 2 kernels"),),
            "values": {Metric.STEP_MS: (14.2,), Metric.GAP_MS: (5.6,)},
        }
    )
    found = PlacedFindings(count=1, ms=2.0)
    change = RuleChange(rule=RuleName.CUDA_API_SYNC, range="load", now=found)
    found_there = Explanation(
        a=a,
        b=AFTER,
        rows=differences(a, AFTER),
        warnings=(quoted("they were traced unlike"),),
        rules=RuleChanges(rows=(change,), why_alone=note("rules-alone")),
    )
    assert explanation_text(Page(width=80, colour=False), found_there) == snapshot
