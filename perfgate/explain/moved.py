"""How the times of two captures differ by range, kernel, copy and memset, whatever was judged of
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfgate.explain.names import apart, identity, short, unnumbered
from perfgate.explain.processes import same_process
from perfgate.explain.traces import NOTHING, graph_trace, graphs_unlike
from perfgate.explain.untold import (
    has_ranges,
    kernels_of,
    smallest_kernel,
    smallest_range,
    summed,
    untold_gains,
)
from perfgate.model.metric import Metric
from perfgate.model.sample import OTHER_KERNELS, OTHER_RANGES, Breakdown, KernelSample
from perfgate.model.settings import GraphTrace
from perfgate.model.side import Moved


def moved_ranges(a: Breakdown, b: Breakdown) -> tuple[Moved, ...]:
    """How the ranges' time on the CPU differs, the largest difference first; nothing where a side
    tells of none."""
    a, b = same_process(a, b)
    if has_ranges(a) != has_ranges(b):
        return ()
    before, now = (summed((row.name, row.cpu_ms) for row in side.ranges) for side in (a, b))
    return (
        _moved(before, now, OTHER_RANGES, most=(smallest_range(a), smallest_range(b)))
        if before and now
        else ()
    )


def moved_operations(a: Breakdown, b: Breakdown) -> tuple[Moved, ...]:
    """How the time on the GPU differs of kernels, copies and memsets; kernels by what `kernels_of`
    makes one.

    Nothing is told of what one side did not record or time, nor of any where whole graphs on one
    side alone hide them.
    """
    a, b = same_process(a, b)
    if graphs_unlike(a, b):
        return ()
    sides = [
        [row for row in side.kernels if _has_timed(row, a) and _has_timed(row, b)]
        for side in (a, b)
    ]
    # The longest last: that of a key may be cut off.
    names = {
        _operation(row): row.name
        for row in sorted(sides[0] + sides[1], key=lambda row: len(row.name))
    }

    def of_kernels(*, is_kernel: bool) -> list[dict[str, float]]:
        chosen = [[row for row in rows if (row.kind == "kernel") is is_kernel] for rows in sides]
        return [summed((_operation(row), row.gpu_ms) for row in rows) for rows in chosen]

    (a_kernels, b_kernels), (a_others, b_others) = (
        of_kernels(is_kernel=True),
        of_kernels(is_kernel=False),
    )
    most = smallest_kernel(kernels_of(a)), smallest_kernel(kernels_of(b))
    found = (
        *_moved(a_kernels, b_kernels, OTHER_KERNELS, most=most),
        # Of NCCL's kernels, copies and memsets all are told.
        *_moved(a_others, b_others, OTHER_KERNELS, most=(0.0, 0.0)),
    )
    hiding = [
        label for label, side in (("a", a), ("b", b)) if graph_trace(side) is GraphTrace.GRAPH
    ]
    readable = {one.name: short(unnumbered(names[one.name])) for one in found}
    shown = readable | apart({name: told for name, told in readable.items() if names[name] != name})
    return tuple(
        one.model_copy(
            update={"name": shown[one.name], "note": one.note or _perhaps_hidden(one, hiding)}
        )
        for one in (sorted(found, key=_by_change) if all(sides) else ())
    )


def _has_timed(row: KernelSample, side: Breakdown) -> bool:
    """Whether a side tells how long such an operation took: what it did not measure its ranges do
    not have."""
    metric = Metric.H2D_MS if row.kind == "memory" else Metric.KERNEL_MS
    return not side.ranges or any(metric in of.values for of in side.ranges)


def _perhaps_hidden(moved: Moved, hiding: Sequence[str]) -> str:
    lacking = "a" if moved.a is None else "b" if moved.b is None else ""
    return f"perhaps in {lacking}'s graphs" if lacking in hiding else ""


def _operation(row: KernelSample) -> str:
    return identity(row.name) if row.kind == "kernel" and row.name != OTHER_KERNELS else row.name


def _moved(
    a: Mapping[str, float], b: Mapping[str, float], other: str, *, most: tuple[float, float]
) -> tuple[Moved, ...]:
    """What differs of every name; `most` is what one that a side does not tell had there at most,
    of both sides."""
    came, went = untold_gains(a, b, other, most=most[0]), untold_gains(b, a, other, most=most[1])
    found = [
        Moved(
            name=name,
            a=a.get(name),
            b=b.get(name),
            change=came[name]
            if name in came
            else -went[name]
            if name in went
            else b[name] - a[name],
            note=_untold(name, a, b, other),
        )
        for name in {**a, **b}
        if name != other
    ]
    then = a.get(other, 0.0) + sum(a[name] - lost for name, lost in went.items())
    value = b.get(other, 0.0) + sum(b[name] - gained for name, gained in came.items())
    found.append(Moved(name=other, a=then or None, b=value or None, change=value - then))
    return tuple(sorted((one for one in found if abs(one.change) > NOTHING), key=_by_change))


def _by_change(one: Moved) -> tuple[float, str]:
    return -abs(one.change), one.name


def _untold(name: str, a: Mapping[str, float], b: Mapping[str, float], other: str) -> str:
    sides = [label for label, side in (("a", a), ("b", b)) if name not in side and other in side]
    return f"not among {sides[0]}'s largest" if sides else ""
