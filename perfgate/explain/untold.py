"""What a breakdown tells by name, and what it may hide: it keeps the largest rows, and the sum of
all others."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

from perfgate.explain.names import identity
from perfgate.model.sample import (
    OTHER_KERNELS,
    OTHER_RANGES,
    OUTSIDE_RANGES,
    Breakdown,
    KernelSample,
)


def has_ranges(side: Breakdown) -> bool:
    """Whether NVTX ranges were recorded: of a capture without, all that is in a window lies outside
    of any."""
    return any(row.name != OUTSIDE_RANGES for row in side.ranges)


def smallest_range(side: Breakdown) -> float:
    """The ms, on the CPU and the GPU, of the smallest range that a side tells: the others are no
    larger in any way."""
    return min((row.added_ms for row in side.ranges if row.name != OTHER_RANGES), default=math.inf)


def smallest_kernel(kernels: Mapping[str, KernelSample]) -> float:
    """The GPU's ms of the smallest kernel that a side tells."""
    return min(
        (row.gpu_ms for name, row in kernels.items() if name != OTHER_KERNELS), default=math.inf
    )


def kernels_of(side: Breakdown) -> dict[str, KernelSample]:
    """A side's kernels by what their names and their keys, which a baseline's bear, have in common.

    Those that torch.compile made of the same operations are one: which is which, their numbers do
    not tell.
    """
    return by_identity(row for row in side.kernels if row.kind == "kernel")


def by_identity(rows: Iterable[KernelSample]) -> dict[str, KernelSample]:
    """Add up, a step, the rows whose names differ by their numbers alone; the others stay the
    others."""
    found: dict[str, KernelSample] = {}
    for row in rows:
        name = row.name if row.name == OTHER_KERNELS else identity(row.name)
        same = found.get(name)
        found[name] = row if same is None else _sum(same, row)
    return found


def _sum(one: KernelSample, other: KernelSample) -> KernelSample:
    return one.model_copy(
        update={"count": one.count + other.count, "gpu_ms": one.gpu_ms + other.gpu_ms}
    )


def summed(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Add up the values of each name."""
    found: defaultdict[str, float] = defaultdict(float)
    for name, value in pairs:
        found[name] += value
    return dict(found)


def untold_gains(
    before: Mapping[str, float], now: Mapping[str, float], other: str, *, most: float
) -> dict[str, float]:
    """The names that before does not tell, each with what it has now beyond all that it may have
    had there.

    That is no more than what all others had there, nor than `most`.
    """
    had = min(before.get(other, 0.0), most)
    return {
        name: max(value - had, 0.0)
        for name, value in now.items()
        if name not in before and name != other
    }
