"""How two sides were traced, as they show it, and what that keeps from being compared; takes
nothing apart."""

from __future__ import annotations

from typing import Final, Literal

from perfgate.model.metric import PERIODS, Metric
from perfgate.model.sample import WHOLE_GRAPHS, Breakdown
from perfgate.model.settings import GraphTrace
from perfgate.model.side import Side

NOTHING: Final = 1e-9
"""What is per step and up to this is none: sums of floats."""
FEWEST_NODES: Final = 0.5
"""Kernels a graph from which those that nothing launched one by one are taken for its nodes; lost
ones are fewer."""
HIDDEN: Final = frozenset(
    {
        *(
            Metric.H2D_MS,
            Metric.H2D_EXPOSED_MS,
            Metric.NCCL_MS,
            Metric.NCCL_EXPOSED_MS,
            Metric.MEM_EXPOSED_MS,
        ),
        *(Metric.H2D_COPIES, Metric.H2D_BYTES, Metric.D2H_COPIES, Metric.PAGEABLE_COPIES),
    }
)
"""Metrics that hold nothing of what a whole graph copies, or sends with NCCL."""


def graph_trace(side: Breakdown) -> GraphTrace | None:
    """How a side's CUDA graphs were traced; None where it launched none, or where nothing is seen
    of them.

    nsys records a graph as one span (`--cuda-graph-trace=graph`), or each kernel in it (`node`).
    The kernels of a step are then more than were launched one by one, by those in the graphs.
    """
    if any(row.name == WHOLE_GRAPHS and row.kind == "kernel" for row in side.kernels):
        return GraphTrace.GRAPH
    graphs = _sum(side, Metric.GRAPH_LAUNCHES)
    nodes = sum(row.count for row in side.kernels if row.kind != "memory") - _sum(
        side, Metric.LAUNCHES
    )
    return GraphTrace.NODE if graphs > NOTHING and nodes >= FEWEST_NODES * graphs else None


def is_all_in_graphs(side: Breakdown) -> bool:
    """Whether a side that was traced node by node launched no kernel but by a graph."""
    return graph_trace(side) is GraphTrace.NODE and _sum(side, Metric.LAUNCHES) <= NOTHING


def graphs_unlike(a: Breakdown, b: Breakdown) -> bool:
    """Whether what one side tells by name is hidden in whole graphs on the other."""
    return {graph_trace(a), graph_trace(b)} == {GraphTrace.GRAPH, GraphTrace.NODE}


def has_calls(side: Breakdown) -> bool:
    """Whether a side's CUDA calls were recorded: without, what the GPU ran counts under the range
    in which it ran."""
    return not side.ranges or any(Metric.LAUNCHES in row.values for row in side.ranges)


def incomparable(a: Side, b: Side) -> frozenset[Metric]:
    """The metrics of which the two differ by how they were traced, for all that is known."""
    found = HIDDEN if graphs_unlike(a.breakdown, b.breakdown) else _perhaps_in_graphs(a, b)
    return found.union(PERIODS) if _has_kernels(a) != _has_kernels(b) else found


def _alone_in_whole_graphs(a: Breakdown, b: Breakdown) -> Literal["a", "b"] | None:
    """Which side ran graphs that were traced whole, where the other ran none at all."""
    traces = graph_trace(a), graph_trace(b)
    if set(traces) != {GraphTrace.GRAPH, None} or not (a.kernels and b.kernels):
        return None
    return "a" if traces[0] is GraphTrace.GRAPH else "b"


def _perhaps_in_graphs(a: Side, b: Side) -> frozenset[Metric]:
    """What whole graphs may hold of one side's, where it has less of it than the other, which ran
    no graphs."""
    alone = _alone_in_whole_graphs(a.breakdown, b.breakdown)
    if alone is None:
        return frozenset()
    told, others = (a.medians(), b.medians()) if alone == "a" else (b.medians(), a.medians())
    return frozenset(metric for metric in HIDDEN if told.get(metric, 0.0) < others.get(metric, 0.0))


def told_unlike(a: Side, b: Side) -> tuple[str, ...]:
    """Say how the two were traced unlike, what that keeps from being told, and what to do."""
    told: list[str] = []
    if graphs_unlike(a.breakdown, b.breakdown):
        whole, by_node = ("a", "b") if graph_trace(a.breakdown) is GraphTrace.GRAPH else ("b", "a")
        told.append(
            f"the CUDA graphs of {whole} were traced whole, those of {by_node} node by node: kernels and copies cannot "
            f"be compared by name. What {whole}'s graphs copy is not counted, and a whole graph counts as a kernel "
            "from end to end. Capture both again with the same --cuda-graph-trace, graph or node."
        )
    elif (alone := _alone_in_whole_graphs(a.breakdown, b.breakdown)) is not None:
        told.append(
            f"the CUDA graphs of {alone} were traced whole, and the other side ran none: what graphs copy is not "
            "counted, and a whole graph counts as a kernel from end to end, with the time between its kernels. Capture "
            f"{alone} again with --cuda-graph-trace=node."
        )
    if _has_kernels(a) != _has_kernels(b):
        lacking, other = ("a", "b") if _has_kernels(b) else ("b", "a")
        told.append(
            f"no time of a kernel is known of {lacking}: its steps end when the CPU has left them, those of {other} "
            f"when the GPU has done their work. Capture {lacking} again with --trace=cuda,nvtx."
        )
    elif has_calls(a.breakdown) != has_calls(b.breakdown):
        lacking, other = ("a", "b") if has_calls(b.breakdown) else ("b", "a")
        told.append(
            f"which calls launched what is not known of {lacking}: its kernels and copies count under the ranges in "
            f"which they ran, those of {other} under the ranges that launched them. By range they are not compared."
        )
    return tuple(told)


def _has_kernels(side: Side) -> bool:
    """Whether it is known when a side's kernels ran; of a side without any values nothing is known
    to be lacking."""
    return not side.values.get(Metric.STEP_MS) or bool(side.values.get(Metric.KERNEL_MS))


def _sum(side: Breakdown, metric: Metric) -> float:
    return sum(row.values.get(metric, 0.0) for row in side.ranges)
