"""From moments of launch to steps and innermost ranges, by cutting time into segments; it must not
know any metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from perfgate.metrics.intervals import FOREVER, sum_by
from perfgate.metrics.kinds import grouped
from perfgate.metrics.steps import StepSpans
from perfgate.model.arrays import distinct
from perfgate.model.timeline import (
    NO_CORRELATION,
    SHARE_AN_ID,
    Flags,
    Ints,
    Ranges,
    SmallInts,
)
from perfgate.model.workload import OWN_RANGES

_SPARSE: Final = 4
"""A table by correlation id may be this many times longer than its rows; beyond that ids are
renumbered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Segments:
    """The timeline of one process cut wherever its step or innermost range changes.

    ```
    step         |----------0----------|      |------1------|
    ranges         |--A--|  |---B---|           |--A--|
                              |-C-|
    stretch   0  1 2     3  4 5   6 7  8      9 ...
    segment   0  1 2     1  3 4   3 1  5      6           segments come in order of time, step by step
    label     -  s A     s  B C   B s  -      s           s: the step's own range, -: OUTSIDE_RANGES
    step      -  0 0     0  0 0   0 0  -      1
    turn      -  0 0     0  0 0   0 0  0      1
    ```
    """

    edges: Ints
    """Stretch i of time is [edges[i - 1], edges[i]), shape (m,); the first and last of the m + 1
    have no outer end."""
    segment: SmallInts
    """Of each stretch, shape (m + 1,). Stretches of one label between two edges of steps are one
    segment."""
    step: SmallInts
    """Index of the step, -1 between, before and after steps; shape (n,), by segment."""
    turn: SmallInts
    """Index of the step that began last, until the next one or a wait; -1 before the first and
    behind the last."""
    label: SmallInts
    """Index into `labels`, shape (n,)."""
    labels: tuple[str, ...]
    """Range names, grouped; the first is OUTSIDE_RANGES."""
    instances: Ints
    """Ranges begun in the steps, by label."""
    cpu_ns: Ints
    """Their time between push and pop, children included, by label."""
    instances_between: Ints
    """Ranges begun after a measured step and before the next one, by label: the usual place of a
    loader's."""
    cpu_ns_between: Ints
    """Their time until the last step ends, children included, by label."""

    def __len__(self) -> int:
        return len(self.step)

    @property
    def in_turn(self) -> Flags:
        """Which belong to a step, or to what follows it until the next."""
        return np.asarray(self.turn >= 0)

    def at(self, times: Ints) -> SmallInts:
        """The segment that holds each moment. Linear for times in order, O(n log m) otherwise."""
        if len(times) > len(self.edges) and bool((times[1:] >= times[:-1]).all()):
            counts = np.diff(np.searchsorted(times, self.edges), prepend=0, append=len(times))
            return np.repeat(self.segment, counts)
        return self.segment[np.searchsorted(self.edges, times, side="right")]

    def passed(self, until: Callable[[Ints], Ints], first: Ints, last: Ints) -> Ints:
        """Of what has passed `until` a time from `first` to `last`, what passes in each segment."""
        passed = until(np.concatenate((first, self.edges, last)))
        return sum_by(self.segment, np.diff(passed), len(self))


def cut(ranges: Ranges, steps: StepSpans) -> Segments:
    """Cut one process's time at its steps and at the ranges of the steps' threads.

    Push/pop ranges nest; of several open ones the latest opened is innermost (ranges of two NVTX
    domains need not nest). Start/end ranges may overlap anything and say nothing about what runs
    "inside" them, so they are left out, unless the thread holds no push/pop range but steps.
    The step itself always counts. Unclosed ranges reach to the end. Nothing is ever in one of
    perfgate's `OWN_RANGES` between steps: they are left out wherever they lie.
    """
    eligible = ranges.process == steps.process
    for own_range in OWN_RANGES:
        eligible &= ~ranges.name.bear(own_range)
    threads = distinct(steps.threads)
    by_thread = [_rows(ranges, steps, eligible & (ranges.thread == one)) for one in threads]
    rows = np.concatenate(by_thread)
    start, end = ranges.start[rows], ranges.end[rows]
    in_step = steps.step_at(start)
    labels, label = grouped(
        ranges.name[rows],
        in_step,
        distinct(ranges.name.codes[steps.rows]),
        steps=0 if steps.whole else len(steps),
    )
    inside = in_step >= 0
    # How long one was open that was never closed is not known.
    between = ~inside & (start >= steps.starts[0]) & (start < steps.ends[-1]) & ranges.closed[rows]
    until = np.where(inside, end, np.minimum(end, steps.ends[-1]))
    cpu_ns, cpu_ns_between = np.zeros(len(labels), np.int64), np.zeros(len(labels), np.int64)
    changes = []
    for own in np.split(np.arange(len(rows)), np.cumsum([len(one) for one in by_thread])[:-1]):
        changes.append(_innermost(start[own], end[own], label[own]))
        for sums, which in ((cpu_ns, inside), (cpu_ns_between, between)):
            some = own[which[own]]
            sums[:] += _time_open(label[some], start[some], until[some], len(labels))
    edges = distinct(np.concatenate([steps.starts, steps.ends, *(times for times, _ in changes)]))
    begins = np.append(edges[0] - 1, edges)
    step, turn = steps.step_at(begins), steps.turn_at(begins)
    at_begin = _label_at(steps, threads, begins, changes)
    phase = np.cumsum((np.diff(step, prepend=step[0]) != 0) | (np.diff(turn, prepend=turn[0]) != 0))
    code = phase * len(labels) + at_begin
    _, row, segment = np.unique(code, return_index=True, return_inverse=True)
    return Segments(
        edges=edges,
        segment=segment.astype(np.int32),
        step=step[row],
        turn=turn[row],
        label=at_begin[row],
        labels=labels,
        instances=np.bincount(label[inside], minlength=len(labels)),
        cpu_ns=cpu_ns,
        instances_between=np.bincount(label[between], minlength=len(labels)),
        cpu_ns_between=cpu_ns_between,
    )


def _rows(ranges: Ranges, steps: StepSpans, eligible: Flags) -> Ints:
    """Ranges of one thread, outer before inner."""
    rows = np.flatnonzero(eligible)
    is_step = np.isin(rows, steps.rows)
    push_pop = ranges.push_pop[rows]
    if (push_pop & ~is_step).any():
        rows, is_step = rows[push_pop | is_step], is_step[push_pop | is_step]
    # Of two with the same span the step is outer, then names decide, so that row order never does.
    keys = (ranges.name.codes[rows], ~is_step, -ranges.end[rows], ranges.start[rows])
    return rows[np.lexsort(keys)]


def _innermost(starts: Ints, ends: Ints, labels: SmallInts) -> tuple[Ints, SmallInts]:
    """Times at which the innermost open range changes, in order, and its label from then on (0:
    none).

    The ranges come outer before inner. Where one ends that is innermost, the next is the last begun
    before it that ends later.
    """
    times: list[int] = []
    inner: list[int] = []
    opened = [(2 * FOREVER, 0)]
    columns = (starts.tolist(), ends.tolist(), labels.tolist())
    for start, end, label in (*zip(*columns, strict=True), (FOREVER, FOREVER, 0)):
        while (ended := opened[-1][0]) <= start:
            while opened[-1][0] <= ended:
                opened.pop()
            times.append(ended)
            inner.append(opened[-1][1])
        if end > start:
            times.append(start)
            inner.append(label)
            opened.append((end, label))
    at = np.array(times, np.int64)
    # Of several changes at once the last shows.
    shows = np.append(at[1:] != at[:-1], True)[: len(at)]
    return at[shows], np.array(inner, np.int32)[shows]


def _time_open(labels: SmallInts, begun: Ints, ended: Ints, size: int) -> Ints:
    """How long a range of each label 0..size-1 was open: once, also where one lies in another.

    The ranges are of one thread and come in the order in which they begin.
    """
    found = np.zeros(size, np.int64)
    order = np.argsort(labels, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
        until = np.maximum.accumulate(ended[own])
        since = np.maximum(begun[own], np.append(begun[own][:1], until[:-1])[: len(own)])
        found[labels[own[:1]]] = np.maximum(ended[own] - since, 0).sum()
    return found


def _label_at(
    steps: StepSpans, threads: Ints, begins: Ints, changes: list[tuple[Ints, SmallInts]]
) -> SmallInts:
    """The label of the innermost range at each time, on the thread of the step."""
    # Between steps the thread is that of the last step begun; before the first, the first's.
    last_begun = np.maximum(np.searchsorted(steps.starts, begins, side="right") - 1, 0)
    thread_of = np.searchsorted(threads, steps.threads)[last_begun]
    label = np.zeros(len(begins), np.int32)
    for index, (times, innermost) in enumerate(changes):
        here = thread_of == index
        at = np.searchsorted(times, begins[here], side="right")
        label[here] = np.append(0, innermost)[at]
    return label


@dataclass(frozen=True, slots=True)
class Launches:
    """When, and in which segment, the call with a correlation id began; of several calls with one
    id (a runtime call and the driver call in it) the first counts."""

    times: Ints
    """Of all calls, in order, and `FOREVER` behind them."""
    segment: SmallInts
    """Of each of these, and -1 behind them."""
    lowest: int
    """The lowest id of any call."""
    ids: Ints | None
    """All ids in order, where they are too sparse to be places in `table`."""
    table: SmallInts
    """By id, from the lowest on: the place of its call; -1 where there is none."""

    @classmethod
    def of(cls, correlation: Ints, begins: Ints, segment: SmallInts) -> Launches:
        """Of the calls of one process, with the segments in which they begin."""
        if not bool((begins[1:] >= begins[:-1]).all()):
            order = np.argsort(begins, kind="stable")
            correlation, begins, segment = correlation[order], begins[order], segment[order]
        place = np.arange(len(begins), dtype=np.int32)
        named = correlation != NO_CORRELATION
        if np.count_nonzero(correlation == 0) > SHARE_AN_ID:
            named &= correlation != 0
        if not named.all():
            correlation, place = correlation[named], place[named]
        lowest, ids = int(correlation.min(initial=FOREVER)), None
        if int(correlation.max(initial=0)) - lowest > _SPARSE * len(correlation) + 1_000_000:
            ids, correlation = np.unique(correlation, return_inverse=True)
        elif len(correlation):
            correlation = correlation - lowest
        table = np.full(int(correlation.max(initial=-1)) + 1, -1, np.int32)
        table[correlation[::-1]] = place[::-1]  # of equal ids the first is written last
        segment = np.append(segment, np.int32(-1))
        return cls(np.append(begins, FOREVER), segment, lowest, ids, table)

    def place(self, correlation: Ints) -> SmallInts:
        """The place of each operation's call in `times`, -1 (the last) where no call has its id."""
        if self.ids is not None:
            rows = np.searchsorted(self.ids, correlation)
            known = self.ids.take(rows, mode="clip") == correlation
        else:
            rows = correlation - self.lowest
            known = (rows >= 0) & (rows < len(self.table))
        if len(self.table) and known.all():
            return self.table.take(rows)
        found = np.full(len(correlation), -1, np.int32)
        found[known] = self.table[rows[known]]
        return found
