"""From moments of launch to steps and innermost ranges, by cutting time into segments; it must not
know any metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfgate.metrics.intervals import FOREVER, Idle, Windows, sum_by
from perfgate.metrics.kinds import grouped
from perfgate.metrics.steps import StepSpans, outer_first
from perfgate.model.arrays import distinct, taken
from perfgate.model.timeline import Ints, Ranges, SmallInts
from perfgate.model.workload import OWN_RANGES


@dataclass(frozen=True, kw_only=True, slots=True)
class Segments:
    """The timeline of one process cut wherever its step or innermost range changes.

    ```
    step         |----------0----------|      |------1------|
    ranges         |--A--|  |---B---|           |--A--|
                              |-C-|
    stretch   0  1 2     3  4 5   6 7  8      9 ...
    segment   0  1 2     1  3 4   3 1  5      6           in order of time, step by step
    label     -  s A     s  B C   B s  -      s           s: the step's range, -: OUTSIDE_RANGES
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
    begun: Ints
    """Ranges begun in the steps, and those begun after a measured step and before the next one,
    the usual place of a loader's; how many, and their time between push and pop, children included,
    at most until the last step ends; shape (2, 2, labels)."""

    def __len__(self) -> int:
        return len(self.step)

    def at(self, times: Ints) -> SmallInts:
        """The segment that holds each moment. Linear for times in order, O(n log m) otherwise."""
        if len(times) > len(self.edges) and bool((times[1:] >= times[:-1]).all()):
            counts = np.diff(np.searchsorted(times, self.edges), prepend=0, append=len(times))
            return np.repeat(self.segment, counts)
        return self.segment[np.searchsorted(self.edges, times, side="right")]

    def time_in(self, windows: Windows, idle: Idle | None = None) -> Ints:
        """How much of these windows, or of the idle time in them, lies in each segment, ns."""
        edges = np.concatenate((windows.starts[:1], self.edges, windows.ends[-1:]))
        return sum_by(self.segment, np.diff(windows.until(edges, idle)), len(self))


def cut(ranges: Ranges, steps: StepSpans) -> Segments:
    """Cut one process's time at its steps and at the ranges of the steps' thread.

    Push/pop ranges nest; of several open ones the latest opened is innermost (ranges of two NVTX
    domains need not nest). Start/end ranges may overlap anything and say nothing about what runs
    "inside" them, so they are left out, unless the thread holds no push/pop range but steps.
    The step itself always counts. Unclosed ranges reach to the end. Nothing is ever in one of
    perfgate's `OWN_RANGES` between steps: they are left out wherever they lie.
    """
    eligible = (ranges.process == steps.process) & (ranges.thread == steps.thread)
    for own_range in OWN_RANGES:
        eligible &= ~ranges.name.bear(own_range)
    rows = np.flatnonzero(eligible)
    push_pop, is_step = ranges.push_pop[rows], np.isin(rows, steps.rows)
    if (push_pop & ~is_step).any():
        rows = rows[push_pop | is_step]
    rows = outer_first(ranges, rows, steps.rows)
    labels, label = grouped(
        ranges.name[rows],
        steps.step_at(ranges.start[rows]),
        distinct(ranges.name.codes[steps.rows]),
        steps=0 if steps.whole else len(steps),
    )
    begun = _begun(ranges, steps, rows, label, len(labels))
    times, innermost = _innermost(ranges.start[rows], ranges.end[rows], label)
    del eligible, push_pop, is_step, rows, label
    edges = distinct(np.concatenate([steps.starts, steps.ends, times]))
    begins = np.append(edges[0] - 1, edges)
    step, turn = steps.step_at(begins), steps.step_at(begins, or_behind=True)
    label = taken(innermost, np.searchsorted(times, begins, side="right"))
    del begins, times, innermost
    changed = (np.diff(step, prepend=step[0]) != 0) | (np.diff(turn, prepend=turn[0]) != 0)
    code = np.cumsum(changed) * len(labels) + label
    _, row, segment = np.unique(code, return_index=True, return_inverse=True)
    return Segments(
        edges=edges,
        segment=segment.astype(np.int32),
        step=step[row],
        turn=turn[row],
        label=label[row],
        labels=labels,
        begun=begun,
    )


def _begun(ranges: Ranges, steps: StepSpans, rows: Ints, label: SmallInts, labels: int) -> Ints:
    """Ranges of one thread, in the order in which they begin: how many, and how long one was open,
    by label; those begun in the steps, and between two of them."""
    start, end = ranges.start[rows], ranges.end[rows]
    inside = steps.step_at(start) >= 0
    # How long one was open that was never closed is not known.
    between = ~inside & (start >= steps.starts[0]) & (start < steps.ends[-1]) & ranges.closed[rows]
    found = np.zeros((2, 2, labels), np.int64)
    for its, chosen, ended in (
        (found[0], inside, end),
        (found[1], between, np.minimum(end, steps.ends[-1])),
    ):
        its[0] = np.bincount(label[chosen], minlength=labels)
        some = np.flatnonzero(chosen)
        some = some[np.argsort(label[some], kind="stable")]
        for own in np.split(some, np.flatnonzero(np.diff(label[some])) + 1) if len(some) else ():
            # Once, also where one lies in another of its label.
            until = np.maximum.accumulate(ended[own])
            since = np.maximum(start[own], np.append(start[own[:1]], until[:-1]))
            its[1, label[own[0]]] = np.maximum(ended[own] - since, 0).sum()
    return found


def _innermost(starts: Ints, ends: Ints, labels: SmallInts) -> tuple[Ints, SmallInts]:
    """Times at which the innermost open range may change, in order, and its label before the first
    and from each on (0: none).

    The ranges come outer before inner. Where one ends that is innermost, the next is the last begun
    before it that ends later.
    """
    some = ends > starts
    # The first one is around all others, and lasts for ever.
    starts, labels = np.append(-FOREVER, starts[some]), np.append(np.int32(0), labels[some])
    ends, size = np.append(2 * FOREVER, ends[some]), len(starts)
    # Where ranges nest, around each is the last one before it that is one level less deep; which
    # ends later, or is itself within one that does.
    depth = np.arange(size) - np.searchsorted(np.sort(ends), starts, side="right")
    order = np.argsort(depth, kind="stable")
    place = depth[order] * size + order
    around = np.empty(size, np.int64)
    around[order] = order[np.maximum(np.searchsorted(place, place - size) - 1, 0)]
    left = np.arange(1, size)
    while len(left := left[ends[around[left]] == ends[left]]):
        around[left] = around[around[left]]
    if (ends[1:] > ends[around[1:]]).any():
        times, inner = _innermost_of_crossing(starts, ends)
    else:
        times = np.concatenate((ends[1:], starts[1:]))
        order = np.argsort(times, kind="stable")
        times, inner = times[order], np.append(around[1:], np.arange(1, size))[order]
    # Of several changes at once the last shows.
    shows = np.append(times[1:] != times[:-1], True)[: len(times)]
    return times[shows], labels[np.append(0, inner[shows])]


def _innermost_of_crossing(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Times at which the innermost range changes, in order, and which it is then, where ranges of
    several domains do not nest; one by one."""
    times: list[int] = []
    inner: list[int] = []
    opened = [0]
    end_of = [*ends.tolist(), FOREVER]
    for row, start in enumerate([*starts[1:].tolist(), FOREVER], 1):
        while (ended := end_of[opened[-1]]) <= start:
            while end_of[opened[-1]] <= ended:
                opened.pop()
            times.append(ended)
            inner.append(opened[-1])
        times.append(start)
        inner.append(row)
        opened.append(row)
    return np.array(times[:-1], np.int64), np.array(inner[:-1], np.int64)
