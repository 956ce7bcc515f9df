"""What makes up a metric's change, by range, kernel, kind of copy or call: the change of every name
between two sides; judges nothing."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from perfgate.explain.names import identity, unnumbered
from perfgate.explain.traces import NOTHING, graphs_unlike, has_calls, has_graphs, has_ranges
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
)
from perfgate.model.verdict import MetricVerdict

MANY_TIMES: Final = 9.0
"""A kernel that takes longer by so many times is described by the factor, and not in per cent."""
SAME: Final = 0.001
"""Relative difference up to which counts and times of a launch are alike."""

_TO_GPU: Final = "Host-to-Device"
_COPIED: Final[
    Mapping[Metric, tuple[Callable[[CopySample], bool], Callable[[CopySample], float]]]
] = {
    Metric.H2D_MS: (lambda row: _TO_GPU in row.direction, lambda row: row.gpu_ms),
    Metric.H2D_COPIES: (lambda row: row.direction == _TO_GPU, lambda row: row.count),
    Metric.H2D_BYTES: (lambda row: row.direction == _TO_GPU, lambda row: row.bytes),
    Metric.D2H_COPIES: (lambda row: row.direction == "Device-to-Host", lambda row: row.count),
    Metric.PAGEABLE_COPIES: (lambda row: row.host == "pageable", lambda row: row.count),
    # Of a step too: copies to the GPU are h2d_ms's.
    **dict.fromkeys(
        (Metric.MEM_EXPOSED_MS, *PERIODS),
        (lambda row: _TO_GPU not in row.direction, lambda row: row.gpu_ms),
    ),
}
"""Which copies a metric is made of, and what it takes of each."""
WITH_MEMSETS: Final = (Metric.MEM_EXPOSED_MS, *PERIODS)


@dataclass(frozen=True, kw_only=True)
class _Table:
    """One side of one metric along one axis, by name; the row of all others bears `other`."""

    values: Mapping[str, float]
    other: str
    smallest: float = math.inf
    """What a name that is not in the table has at most: such are no larger than those that are."""
    is_complete: bool = True
    """Whether its rows are known to be all there were."""

    @property
    def at_most(self) -> float:
        """What a name that is not in the table may have had."""
        return min(self.values.get(self.other, 0.0), self.smallest)


# By range


def by_range(row: MetricVerdict, before: Breakdown, now: Breakdown) -> list[Part]:
    metric = row.metric
    if row.baseline is None or row.now is None or not before.ranges or not now.ranges:
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
    is_time = METRICS[metric].kind is Kind.TIME
    # Rows that do not account for all of it are not all rows: an unknown one may have been small.
    complete = math.isclose(sum(was.values()), row.baseline, rel_tol=0.01, abs_tol=NOTHING)
    without = {one.name: 0.0 for one in before.ranges}  # a range without this metric is not new
    least = [_smallest_range(side) if is_time else math.inf for side in (before, now)]
    return _parts(
        metric,
        _Table(values=without | was, other=OTHER_RANGES, smallest=least[0], is_complete=complete),
        _Table(values=is_now, other=OTHER_RANGES, smallest=least[1]),
    )


def _smallest_range(side: Breakdown) -> float:
    """The ms, on the CPU and the GPU, of the smallest named range: the others are no larger."""
    return min((row.added_ms for row in side.ranges if row.name != OTHER_RANGES), default=math.inf)


# By kernel


def by_kernel(
    metric: Metric, before: Breakdown, now: Breakdown, named: Callable[[str], str]
) -> list[Part]:
    if metric not in (Metric.KERNEL_MS, Metric.LAUNCHES) or not (before.kernels and now.kernels):
        return []
    is_time = metric is Metric.KERNEL_MS
    if graphs_unlike(before, now) or (not is_time and (has_graphs(before) or has_graphs(now))):
        return []
    kinds = ("kernel",) if is_time else ("kernel", "nccl")
    was, is_now = (_by_identity(side, kinds) for side in (before, now))
    tables: list[_Table] = []
    for side in (was, is_now):
        values = {name: row.gpu_ms if is_time else row.count for name, row in side.items()}
        named_ms = [ms for name, ms in values.items() if is_time and name != OTHER_KERNELS]
        smallest = min(named_ms, default=math.inf)
        tables.append(_Table(values=values, other=OTHER_KERNELS, smallest=smallest))
    parts = _parts(metric, *tables)
    # The longest last: that of a key may be cut off.
    rows = sorted((*before.kernels, *now.kernels), key=lambda row: len(row.name))
    names = {identity(row.name): unnumbered(row.name) for row in rows}
    shown = {name: named(names.get(name, name)) for name in {part.name for part in parts}}
    alike = Counter(shown.values())
    return [
        part
        if part.name == OTHER_KERNELS
        else part.model_copy(
            update={
                "name": shown[part.name] if alike[shown[part.name]] == 1 else names[part.name],
                "notes": (*part.notes, *_launches(was.get(part.name), is_now.get(part.name))),
            }
        )
        for part in parts
    ]


def _by_identity(side: Breakdown, kinds: Sequence[str]) -> dict[str, KernelSample]:
    """A side's kernels by what a name and its key, which a baseline bears, have in common.

    Those that torch.compile made of the same operations are one: which is which, their numbers do
    not say.
    """
    found: dict[str, KernelSample] = {}
    for row in side.kernels:
        if row.kind in kinds:
            name = row.name if row.name == OTHER_KERNELS else identity(row.name)
            if (same := found.get(name)) is not None:
                both = {"count": same.count + row.count, "gpu_ms": same.gpu_ms + row.gpu_ms}
                row = row.model_copy(update=both)  # noqa: PLW2901 - the two as one
            found[name] = row
    return found


def _launches(before: KernelSample | None, now: KernelSample | None) -> list[Note]:
    """What changed about a kernel: how often a step it ran, and for how long each time."""
    if before is None or now is None or not before.count or not now.count:
        there = now or before
        return [] if there is None else [note("launches-a-step", now=there.count)]
    found: list[Note] = []
    if not math.isclose(before.count, now.count, rel_tol=SAME):
        found.append(note("launches-changed", before=before.count, now=now.count))
    each = now.gpu_ms / now.count / (before.gpu_ms / before.count) - 1 if before.gpu_ms else 0.0
    if each >= MANY_TIMES:
        found.append(note("each-times-as-long", times=round(each + 1)))
    elif abs(each) >= SAME:
        found.append(note("each-changed", change=each))
    return found


# By copy and by call


def by_copy(metric: Metric, before: Breakdown, now: Breakdown) -> list[Part]:
    if metric not in _COPIED or graphs_unlike(before, now):
        return []
    was, is_now = (_copied(metric, side) for side in (before, now))
    if not (now.copies or is_now) or (was and not before.copies):
        return []
    return _parts(metric, _Table(values=was, other=""), _Table(values=is_now, other=""))


def _copied(metric: Metric, side: Breakdown) -> dict[str, float]:
    belongs, value = _COPIED[metric]
    copies = [(_copy_name(row), value(row)) for row in side.copies if belongs(row)]
    if metric in WITH_MEMSETS:
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
    tables = [
        _summed(
            (OTHER_SYNCS if row.call == OTHER_SYNCS else f"{row.call} under {row.range}", row.count)
            for row in side.syncs
        )
        for side in (before, now)
    ]
    return _parts(metric, *(_Table(values=values, other=OTHER_SYNCS) for values in tables))


# Along any axis


def _summed(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for name, value in pairs:
        found[name] += value
    return dict(found)


def _parts(metric: Metric, before: _Table, now: _Table) -> list[Part]:
    """The change of every name; all of them add up to the difference of the sides' sums.

    A name that one side does not have may be among its others. Of such a name only that counts
    which it cannot have had there, and the rest as a change of the others: nothing is blamed for
    staying as it was.
    """
    other = before.other
    is_new = other not in before.values and before.is_complete
    found: list[Part] = []
    added = [name for name in now.values if name not in before.values]
    for name in (*added, *before.values):
        was, is_now = before.values.get(name), now.values.get(name)
        notes: tuple[Note, ...] = ()
        if name == other:
            continue
        if was is None:
            change = max((is_now or 0.0) - before.at_most, 0.0)
            notes = (note("part-new" if is_new else "part-not-in-baseline"),)
        elif is_now is None:
            change = -max(was - now.at_most, 0.0)
            is_now = was + change
            code = "part-not-in-now" if other in now.values else "part-gone"
            notes = (note(code),) if was > 0 else ()
        else:
            change = is_now - was
        found.append(
            Part(
                metric=metric,
                name=name,
                before=was,
                now=is_now or 0.0,
                change=change,
                notes=notes,
            )
        )
    if other in before.values or other in now.values:
        whole = sum(now.values.values()) - sum(before.values.values())
        change = whole - sum(part.change for part in found)
        then = before.values.get(other)
        found.append(
            Part(metric=metric, name=other, before=then, now=(then or 0.0) + change, change=change)
        )
    return found
