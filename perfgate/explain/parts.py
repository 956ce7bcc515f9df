"""What makes up a metric's change, by range, kernel, kind of copy or call: the change of every name
between two sides; judges nothing."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from perfgate.explain.names import identity, unnumbered
from perfgate.explain.traces import graphs_unlike, has_calls, has_graphs, has_ranges
from perfgate.model.diagnosis import Part
from perfgate.model.metric import METRICS, PERIODS, Kind, Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import (
    MEMSETS,
    OTHER_KERNELS,
    OTHER_RANGES,
    OTHER_SYNCS,
    Breakdown,
    CopySample,
    KernelSample,
    combined,
)
from perfgate.model.verdict import MetricVerdict

MANY_TIMES: Final = 9.0
"""A kernel that takes longer by so many times is described by the factor, and not in per cent."""
SAME: Final = 0.001
"""Relative difference up to which counts and times of a launch are alike."""

_TO_GPU: Final = "Host-to-Device"
_WITH_MEMSETS: Final = (Metric.MEM_EXPOSED_MS, *PERIODS)
_COPIED: Final[Mapping[Metric, tuple[Callable[[CopySample], bool], str]]] = {
    Metric.H2D_MS: (lambda row: _TO_GPU in row.direction, "gpu_ms"),
    Metric.H2D_COPIES: (lambda row: row.direction == _TO_GPU, "count"),
    Metric.H2D_BYTES: (lambda row: row.direction == _TO_GPU, "bytes"),
    Metric.D2H_COPIES: (lambda row: row.direction == "Device-to-Host", "count"),
    Metric.PAGEABLE_COPIES: (lambda row: row.host == "pageable", "count"),
    # Of a step too: copies to the GPU are h2d_ms's.
    **dict.fromkeys(_WITH_MEMSETS, (lambda row: _TO_GPU not in row.direction, "gpu_ms")),
}
"""Which copies a metric is made of, and what it takes of each."""


def by_range(row: MetricVerdict, before: Breakdown, now: Breakdown) -> list[Part]:
    metric = row.metric
    if not before.ranges or not now.ranges:
        return []
    was, is_now = (
        _summed((one.name, one.values[metric]) for one in side.ranges if metric in one.values)
        for side in (before, now)
    )
    # Measured and never attributed: what its ranges hold is unknown, not zero.
    if (row.baseline and not was) or (row.now and not is_now):
        return []
    # Under the range that launched it, and under the one in which it ran, are two things.
    placed_alike = metric is Metric.GAP_MS or has_calls(before) == has_calls(now)
    if has_ranges(before) != has_ranges(now) or not placed_alike:
        return []
    without = {one.name: 0.0 for one in before.ranges}  # a range without this metric is not new
    return _parts(
        metric,
        without | was,
        is_now,
        other=OTHER_RANGES,
        smallest=[
            # No smaller than that of any range that is ranked below it, by either.
            [one.cpu_ms + one.gpu_ms for one in side.ranges if one.name != OTHER_RANGES]
            if METRICS[metric].kind is Kind.TIME
            else []
            for side in (before, now)
        ],
    )


def by_kernel(
    metric: Metric, before: Breakdown, now: Breakdown, named: Callable[[str], str]
) -> list[Part]:
    is_time = metric is Metric.KERNEL_MS
    if not (is_time or metric is Metric.LAUNCHES) or not (before.kernels and now.kernels):
        return []
    if graphs_unlike(before, now) or (not is_time and (has_graphs(before) or has_graphs(now))):
        return []
    kinds = ("kernel",) if is_time else ("kernel", "nccl")
    was, is_now = (by_identity(side, kinds) for side in (before, now))
    values = [
        {name: row.gpu_ms if is_time else row.count for name, row in side.items()}
        for side in (was, is_now)
    ]
    smallest = [
        [ms for name, ms in side.items() if is_time and name != OTHER_KERNELS] for side in values
    ]
    found: list[Part] = []
    for part in _parts(metric, *values, other=OTHER_KERNELS, smallest=smallest):
        rows = [side[part.name] for side in (was, is_now) if part.name in side]
        if part.name != OTHER_KERNELS:
            # Of a key and the name that it is of, the key may be cut off.
            name = max((row.name for row in rows), key=len)
            notes = (*part.notes, *_launches(rows))
            part = part.model_copy(update={"name": named(name), "notes": notes})  # noqa: PLW2901
        found.append(part)
    return found


def by_identity(side: Breakdown, kinds: Sequence[str]) -> dict[str, KernelSample]:
    """A side's kernels by what a name and its key, which a baseline bears, have in common.

    Those that torch.compile made of the same operations are one: which is which, their numbers do
    not say.
    """
    alike: defaultdict[str, list[KernelSample]] = defaultdict(list)
    for row in side.kernels:
        if row.kind in kinds:
            alike[row.name if row.name == OTHER_KERNELS else identity(row.name)].append(row)
    return {
        name: combined(rows, sum, name=unnumbered(rows[-1].name)) for name, rows in alike.items()
    }


def _launches(rows: Sequence[KernelSample]) -> list[Note]:
    """What changed about a kernel: how often a step it ran, and for how long each time."""
    before, now = rows[0], rows[-1]
    if len(rows) < 2 or not before.count or not now.count:
        return [note("launches-a-step", now=now.count)]
    found: list[Note] = []
    if not math.isclose(before.count, now.count, rel_tol=SAME):
        found.append(note("launches-changed", before=before.count, now=now.count))
    each = now.gpu_ms / now.count / (before.gpu_ms / before.count) - 1 if before.gpu_ms else 0.0
    if each >= MANY_TIMES:
        found.append(note("each-times-as-long", times=round(each + 1)))
    elif abs(each) >= SAME:
        found.append(note("each-changed", change=each))
    return found


def by_copy(metric: Metric, before: Breakdown, now: Breakdown) -> list[Part]:
    if metric not in _COPIED or graphs_unlike(before, now):
        return []
    was, is_now = (_copied(metric, side) for side in (before, now))
    if not (now.copies or is_now) or (was and not before.copies):
        return []
    return _parts(metric, was, is_now)


def _copied(metric: Metric, side: Breakdown) -> dict[str, float]:
    belongs, field = _COPIED[metric]
    copies = [(_copy_name(row), getattr(row, field)) for row in side.copies if belongs(row)]
    if metric in _WITH_MEMSETS:
        copies += [(row.name, row.gpu_ms) for row in side.kernels if row.name == MEMSETS]
    return _summed(copies)


def _copy_name(row: CopySample) -> str:
    if row.host is None:
        return row.direction
    joined = "from" if row.direction.startswith("Host") else "to"
    return f"{row.direction} {joined} {row.host} memory"


def by_call(metric: Metric, before: Breakdown, now: Breakdown) -> list[Part]:
    if metric is not Metric.SYNCS:
        return []
    was, is_now = (
        _summed(
            (OTHER_SYNCS if row.call == OTHER_SYNCS else f"{row.call} under {row.range}", row.count)
            for row in side.syncs
        )
        for side in (before, now)
    )
    return _parts(metric, was, is_now, other=OTHER_SYNCS)


# Along any axis


def _summed(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for name, value in pairs:
        found[name] += value
    return dict(found)


def _parts(
    metric: Metric,
    before: Mapping[str, float],
    now: Mapping[str, float],
    *,
    other: str = "",
    smallest: Sequence[Sequence[float]] = ((), ()),
) -> list[Part]:
    """The change of every name; all of them add up to the difference of the sides' sums.

    A name that one side does not have may be among its others, in the row `other`, with no more
    than the least of what its own have. Of such a name only that counts which it cannot have had
    there, and the rest as a change of the others: nothing is blamed for staying as it was.
    """
    hidden_before, hidden_now = (
        min(side.get(other, 0.0), *sizes, math.inf)
        for side, sizes in zip((before, now), smallest, strict=True)
    )
    found: list[Part] = []
    for name in (*(name for name in now if name not in before), *before):
        was, is_now = before.get(name), now.get(name)
        notes: tuple[Note, ...] = ()
        if name == other:
            continue
        if was is None:
            is_now = now[name]
            change = max(is_now - hidden_before, 0.0)
            notes = (note("part-not-in-baseline" if other in before else "part-new"),)
        elif is_now is None:
            change = -max(was - hidden_now, 0.0)
            is_now = was + change
            notes = (note("part-not-in-now" if other in now else "part-gone"),)
        else:
            change = is_now - was
        found.append(
            Part(metric=metric, name=name, before=was, now=is_now, change=change, notes=notes)
        )
    if other in before or other in now:
        change = sum(now.values()) - sum(before.values()) - sum(part.change for part in found)
        then = before.get(other)
        found.append(
            Part(metric=metric, name=other, before=then, now=(then or 0.0) + change, change=change)
        )
    return found
