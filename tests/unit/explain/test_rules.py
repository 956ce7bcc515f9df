"""What nsys's rules find next to what they found in another capture."""

from __future__ import annotations

import pytest

from perfgate.explain.nvidia import recorded_unlike, rule_changes, why_blind
from perfgate.model.comparison import Side
from perfgate.model.metric import Metric
from perfgate.model.note import note
from perfgate.model.reports import PlacedFinding, Placing, ProcessFindings, RuleName
from perfgate.model.sample import WHOLE_GRAPHS, Breakdown, KernelSample, RangeSample

ASYNC, SYNC, GAPS = RuleName.CUDA_MEMCPY_ASYNC, RuleName.CUDA_API_SYNC, RuleName.GPU_GAPS


def found(rule: RuleName, under: str, count: float, ms: float) -> PlacedFinding:
    return PlacedFinding(rule=rule, range=under, count=count, ms=ms, steps=20)


def placing(*processes: tuple[PlacedFinding, ...]) -> Placing:
    return Placing(
        processes=tuple(
            ProcessFindings(pid=n, steps=20, rows=rows) for n, rows in enumerate(processes)
        )
    )


def test_rows_are_put_next_to_those_of_the_same_rule_and_range() -> None:
    before = placing((found(GAPS, "forward", 3, 0.5), found(SYNC, "log", 1, 2.0)))
    now = placing(
        (found(GAPS, "forward", 2, 0.4), found(GAPS, "load", 1, 6.0), found(ASYNC, "copy", 1, 2.5))
    )
    changes = rule_changes(before, now)
    shown = [
        (row.rule, row.range, None if row.before is None else row.before.ms, row.now.ms)
        for row in changes.rows
    ]
    assert shown == [
        (ASYNC, "copy", None, 2.5),
        (GAPS, "load", None, 6.0),
        (GAPS, "forward", 0.5, 0.4),
    ]
    assert [changes.is_new(row) for row in changes.rows] == [True, True, False]


def test_where_the_other_side_was_not_asked_nothing_is_new() -> None:
    changes = rule_changes(None, placing((found(ASYNC, "copy", 1, 2.5),)))
    assert not changes.compared
    assert [changes.is_new(row) for row in changes.rows] == [False]


def lacking(*kinds: str) -> Side:
    return Side(label="x", values={}, missing=dict.fromkeys(kinds, "not recorded"))


@pytest.mark.parametrize(
    ("before", "now", "lacks"),
    [
        (lacking(), lacking(), None),
        (lacking("ranges"), lacking("ranges"), None),
        (lacking("names of kernels"), lacking(), None),
        (lacking("ranges"), lacking(), {"a": ("ranges",)}),
        (lacking(), lacking("kernels", "copies", "calls"), {"b": ("kernels", "calls")}),
        (lacking("ranges"), lacking("calls"), {"a": ("ranges",), "b": ("calls",)}),
    ],
)
def test_what_a_capture_did_not_record_is_not_new_in_the_other(
    before: Side, now: Side, lacks: dict[str, tuple[str, ...]] | None
) -> None:
    found = recorded_unlike(before, now)
    if lacks is None:
        assert found is None
    else:
        sides = [note("capture-lacks", side=side, kinds=kinds) for side, kinds in lacks.items()]
        assert found == note("rules-recorded-unlike", sides=tuple(sides))


def test_graphs_traced_unlike_are_a_reason_too() -> None:
    values = {Metric.LAUNCHES: 0.0, Metric.GRAPH_LAUNCHES: 1.0}
    row = RangeSample(name="step", count=1, cpu_ms=1.0, values=values)
    whole, by_node = (
        Side(
            label=name,
            values={},
            breakdown=Breakdown(
                kernels=(KernelSample(name=name, count=1, gpu_ms=1.0),), ranges=(row,)
            ),
        )
        for name in (WHOLE_GRAPHS, "gemm")
    )
    assert recorded_unlike(whole, by_node) == note("rules-graphs-unlike")


def test_rules_that_find_nothing_to_look_at_are_not_said_to_find_nothing() -> None:
    assert why_blind(lacking("calls")) == ("calls",)
    assert why_blind(lacking("ranges")) == ()


def test_of_several_processes_the_mean_is_reported() -> None:
    now = placing((found(SYNC, "log", 2, 3.0),), (found(SYNC, "log", 1, 1.0),), ())
    (row,) = rule_changes(None, now).rows
    assert (row.now.count, row.now.ms, row.now.steps) == (1.0, 4.0 / 3, 20)


def test_nothing_found_is_no_row() -> None:
    assert rule_changes(placing(()), Placing(processes=())).rows == ()
