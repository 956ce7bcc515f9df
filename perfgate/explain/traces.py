"""What two sides recorded unlike one another, and what that keeps from being compared; takes
nothing apart."""

from __future__ import annotations

from typing import Final

from perfgate.model.comparison import Side
from perfgate.model.metric import PERIODS, Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.sample import OUTSIDE_RANGES, WHOLE_GRAPHS, Breakdown

NOTHING: Final = 1e-9
"""What is per step and up to this is none: sums of floats."""
HIDDEN: Final = frozenset(
    {
        *(Metric.H2D_MS, Metric.H2D_EXPOSED_MS, Metric.MEM_EXPOSED_MS),
        *(Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS),
        *(Metric.H2D_COPIES, Metric.H2D_BYTES, Metric.D2H_COPIES, Metric.PAGEABLE_COPIES),
    }
)
"""Metrics that hold nothing of what a CUDA graph copies, or sends with NCCL, that was traced whole:
nsys records it as one span (`--cuda-graph-trace=graph`)."""


def has_ranges(side: Breakdown) -> bool:
    """Whether NVTX ranges were recorded: without, all that is in a window lies outside of any."""
    return any(row.name != OUTSIDE_RANGES for row in side.ranges)


def has_calls(side: Breakdown) -> bool:
    """Whether CUDA calls were recorded: without, what the GPU ran counts under the range in which
    it ran."""
    return not side.ranges or any(Metric.LAUNCHES in row.values for row in side.ranges)


def has_graphs(side: Breakdown) -> bool:
    """Whether CUDA graphs were launched: their kernels are none that were launched one by one."""
    return any(row.values.get(Metric.GRAPH_LAUNCHES, 0.0) > NOTHING for row in side.ranges)


def graphs_unlike(a: Breakdown, b: Breakdown) -> bool:
    """Whether what one side names is hidden in whole graphs on the other."""
    return bool(a.kernels and b.kernels) and _has_whole_graphs(a) != _has_whole_graphs(b)


def incomparable(a: Side, b: Side) -> frozenset[Metric]:
    """The metrics of which the two may differ by how they were traced alone."""
    found = HIDDEN if graphs_unlike(a.breakdown, b.breakdown) else frozenset()
    return found.union(PERIODS) if _lacks_kernels(a) != _lacks_kernels(b) else found


def lacking(side: Side) -> tuple[str, ...]:
    """What was not traced of what a side's work is timed, named and placed by."""
    of = side.breakdown
    kinds = {
        "kernels": Metric.KERNEL_MS in side.absent or _lacks_kernels(side),
        "calls": not has_calls(of),
        "ranges": bool(of.ranges) and not has_ranges(of),
        "the kernels of CUDA graphs": _has_whole_graphs(of),
    }
    return tuple(kind for kind, lacks in kinds.items() if lacks or kind in side.missing)


def traced_unlike(a: Side, b: Side) -> Note | None:
    """Say what one of two lacks and the other has."""
    lacks = {"a": lacking(a), "b": lacking(b)}
    if lacks["a"] == lacks["b"]:
        return None
    sides = [note("side-lacks", side=side, kinds=kinds) for side, kinds in lacks.items() if kinds]
    return note("traced-unlike", Severity.WARN, sides=tuple(sides))


def _has_whole_graphs(side: Breakdown) -> bool:
    return any(row.name == WHOLE_GRAPHS for row in side.kernels)


def _lacks_kernels(side: Side) -> bool:
    """Whether it is not known when a side's kernels ran; of a side without any values nothing is
    known to be lacking."""
    return bool(side.values.get(Metric.STEP_MS)) and not side.values.get(Metric.KERNEL_MS)
