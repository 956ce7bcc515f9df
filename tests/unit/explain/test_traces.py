"""How two sides were traced: seen in what they hold, and told with what it keeps from being
compared."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.breakdowns import BY_NODE, EAGER, WHOLE, launching

from perfgate.explain.sides import differences
from perfgate.explain.traces import graph_trace, graphs_unlike, is_all_in_graphs, told_unlike
from perfgate.metrics.tally import GRAPH_WORDS
from perfgate.model.metric import Metric
from perfgate.model.sample import WHOLE_GRAPHS, Breakdown, RangeSample
from perfgate.model.settings import GraphTrace
from perfgate.model.side import Side

M = Metric


MIXED = launching({"gemm": 8, "add": 92}, launches=5, graphs=1)


def test_the_row_of_whole_graphs_is_called_as_the_metrics_call_it() -> None:
    assert WHOLE_GRAPHS == GRAPH_WORDS


@pytest.mark.parametrize(
    ("side", "trace", "in_graphs"),
    [
        pytest.param(EAGER, None, False, id="no graphs"),
        pytest.param(WHOLE, GraphTrace.GRAPH, False, id="whole"),
        pytest.param(BY_NODE, GraphTrace.NODE, True, id="by node"),
        pytest.param(MIXED, GraphTrace.NODE, False, id="by node, and others"),
        pytest.param(
            launching({"add": 5}, launches=5, graphs=1), None, False, id="nothing of them is seen"
        ),
        pytest.param(Breakdown(), None, False, id="nothing at all"),
    ],
)
def test_how_graphs_were_traced_is_seen_in_what_ran(
    side: Breakdown, trace: GraphTrace | None, *, in_graphs: bool
) -> None:
    assert graph_trace(side) is trace
    assert is_all_in_graphs(side) == in_graphs


def test_only_whole_graphs_and_nodes_are_unlike() -> None:
    assert graphs_unlike(WHOLE, MIXED)
    assert graphs_unlike(BY_NODE, WHOLE)
    assert not graphs_unlike(EAGER, WHOLE)
    assert not graphs_unlike(EAGER, BY_NODE)


def side(breakdown: Breakdown, values: Mapping[Metric, float]) -> Side:
    return Side(
        label="x",
        values={metric: (value,) for metric, value in values.items()},
        breakdown=breakdown,
    )


VALUES = {M.STEP_MS: 2.0, M.KERNEL_MS: 1.0, M.H2D_COPIES: 3.0, M.LAUNCHES: 5.0}


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        (WHOLE, BY_NODE, "the CUDA graphs of a were traced whole, those of b node by node: "),
        (BY_NODE, WHOLE, "the CUDA graphs of b were traced whole, those of a node by node: "),
    ],
    ids=["a", "b"],
)
def test_graphs_traced_unlike_are_told_with_what_to_do(
    a: Breakdown, b: Breakdown, told: str
) -> None:
    (warning,) = told_unlike(side(a, VALUES), side(b, VALUES))
    assert warning.startswith(f"{told}kernels and copies cannot be compared by name. ")
    assert warning.endswith("Capture both again with the same --cuda-graph-trace, graph or node.")


def test_what_whole_graphs_hide_is_not_said_to_differ() -> None:
    # One copy is in the graph: of the whole one it is not counted.
    rows = differences(
        side(BY_NODE, VALUES), side(WHOLE, {**VALUES, M.H2D_COPIES: 2.0, M.LAUNCHES: 6.0})
    )
    assert {row.metric: (row.change, row.reason) for row in rows} == {
        M.STEP_MS: (0.0, ""),
        M.KERNEL_MS: (0.0, ""),
        M.LAUNCHES: (0.2, ""),
        M.H2D_COPIES: (None, "not comparable"),
    }


@pytest.mark.parametrize("swapped", [False, True])
def test_whole_graphs_beside_none_may_hold_what_the_other_side_has_more_of(
    *, swapped: bool
) -> None:
    eager, whole = (
        side(EAGER, {**VALUES, M.H2D_BYTES: 8.0}),
        side(WHOLE, {**VALUES, M.H2D_COPIES: 2.0, M.H2D_BYTES: 9}),
    )
    a, b = (whole, eager) if swapped else (eager, whole)
    rows = {row.metric: row for row in differences(a, b)}
    assert (rows[M.H2D_COPIES].change, rows[M.H2D_COPIES].reason) == (None, "not comparable")
    assert rows[M.H2D_BYTES].reason == ""
    (warning,) = told_unlike(a, b)
    named = "a" if swapped else "b"
    assert warning == (
        f"the CUDA graphs of {named} were traced whole, and the other side ran none: what graphs copy is not counted, "
        "and a whole graph counts as a kernel from end to end, with the time between its kernels. Capture "
        f"{named} again with --cuda-graph-trace=node."
    )


def test_a_step_whose_kernels_were_not_recorded_is_none_to_compare() -> None:
    bare = side(Breakdown(), {M.STEP_MS: 2.2})
    (warning,) = told_unlike(side(EAGER, VALUES), bare)
    assert warning == (
        "no time of a kernel is known of b: its steps end when the CPU has left them, those of a when the GPU has done "
        "their work. Capture b again with --trace=cuda,nvtx."
    )
    step = differences(bare, side(EAGER, VALUES))[0]
    assert (step.metric, step.change, step.reason) == (M.STEP_MS, None, "not comparable")
    assert differences(bare, bare)[0].change == 0.0
    assert told_unlike(bare, bare) == ()


def test_without_calls_ranges_hold_what_ran_in_them() -> None:
    row = RangeSample(name="step", count=1, cpu_ms=1.0, values={M.KERNEL_MS: 1.0})
    (warning,) = told_unlike(side(Breakdown(ranges=(row,)), VALUES), side(EAGER, VALUES))
    assert warning == (
        "which calls launched what is not known of a: its kernels and copies count under the ranges in which they ran, "
        "those of b under the ranges that launched them. By range they are not compared."
    )
