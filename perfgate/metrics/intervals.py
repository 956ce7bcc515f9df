"""Unions and gaps of intervals over millions of operations; it must not know what the intervals
are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfgate.model.timeline import Flags, Ints, SmallInts

FOREVER = 2**61
"""Before and after everything, ns: far outside any capture, small enough that sums stay within 64
bits."""


def sorted_edges(starts: Sequence[Ints], ends: Sequence[Ints]) -> tuple[Ints, Ints]:
    """All starts and all ends of several sets of intervals, each sorted on its own.

    The stable sort is merge-like: captures are nearly in order of time, which makes it linear
    there.
    """
    begun, ended = (np.concatenate([*parts, np.empty(0, np.int64)]) for parts in (starts, ends))
    begun.sort(kind="stable")
    ended.sort(kind="stable")
    return begun, ended


def merged(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The union of intervals as disjoint intervals in order of time; touching ones become one.

    Takes starts and ends sorted independently: between `ends[j]` and `starts[j + 1]` nothing runs
    when the next start is later, because by then as many intervals have ended as have begun.
    ```
    |---a---|
       |--b--|         |-c-|      starts a b c     ends a b c
             ^ end b   ^ start c  later: nothing runs in between
    ```
    """
    breaks = np.flatnonzero(starts[1:] > ends[:-1])
    return starts[np.concatenate(([0], breaks + 1))[: len(starts)]], ends[
        np.append(breaks, -1)[: len(ends)]
    ]


@dataclass(frozen=True, slots=True)
class Idle:
    """The times in which none of a set of intervals runs, from `-FOREVER` to `FOREVER`, in order.

    A point in time is half open, as everywhere: an interval [start, end) runs at `start` and not at
    `end`.
    """

    starts: Ints
    """Where each idle time begins, shape (n,)."""
    before: Ints
    """Idle ns before `starts[i]`, shape (n + 1,): differences are the lengths."""

    @classmethod
    def from_intervals(cls, starts: Sequence[Ints], ends: Sequence[Ints]) -> Idle:
        """The complement of the union of several sets of intervals, in any order; linear if these
        are nearly sorted."""
        begun, ended = sorted_edges(starts, ends)
        if not len(begun):
            return cls(np.array([-FOREVER]), np.array([0, 2 * FOREVER]))
        breaks = np.flatnonzero(begun[1:] > ended[:-1])
        # Filled in place: on millions of gaps, touching fresh memory is most of the time.
        idle_starts, before = (
            np.empty(len(breaks) + 2, np.int64),
            np.empty(len(breaks) + 3, np.int64),
        )
        idle_starts[0], idle_starts[-1] = -FOREVER, ended[-1]
        np.take(ended, breaks, out=idle_starts[1:-1], mode="clip")
        breaks += 1
        before[0], before[1], before[-1] = 0, begun[0], FOREVER
        np.take(begun, breaks, out=before[2:-1], mode="clip")
        lengths = before[1:]
        lengths -= idle_starts
        np.cumsum(lengths, out=lengths)
        return cls(idle_starts, before)

    def until(self, times: Ints) -> Ints:
        """Idle ns from `-FOREVER` to each time; only differences of two of these mean anything."""
        index = np.maximum(np.searchsorted(self.starts, times, side="right") - 1, 0)
        passed = np.minimum(times - self.starts[index], self.before[index + 1] - self.before[index])
        return np.asarray(self.before[index] + passed, np.int64)

    def overlap_by(self, keys: Ints | SmallInts, starts: Ints, ends: Ints, size: int) -> Ints:
        """Idle ns within the union of the given intervals, which need no order, by their keys
        0..size-1.

        All sums add up to the idle time of the union: what several intervals share is of the one
        that begins first, of those that begin at once of the lowest key.
        ```
        |---a---|
           |----b----|
              |-c-|            a has its own, b what is left of its own behind a, c nothing
        ```
        """
        if not bool((starts[1:] > starts[:-1]).all()):
            order = np.lexsort((keys, starts))
            keys, starts, ends = keys[order], starts[order], ends[order]
        taken = np.maximum.accumulate(ends)
        first = np.concatenate((starts[:1], np.maximum(starts[1:], taken[:-1])))
        return sum_by(keys, self.until(np.maximum(ends, first)) - self.until(first), size)

    def only(self, chosen: Flags) -> Idle:
        """The same without the idle times that are not chosen; `chosen` has shape (n,)."""
        lengths = np.diff(self.before)[chosen]
        return Idle(self.starts[chosen], np.concatenate(([0], np.cumsum(lengths))))


def sum_by(keys: Ints | SmallInts, values: Ints, size: int) -> Ints:
    """Exact sums of int64 values by key 0..size-1. Adds up runs of equal keys first: captures come
    in long ones."""
    sums = np.zeros(size, np.int64)
    if len(keys):
        runs = np.concatenate(([0], np.flatnonzero(keys[1:] != keys[:-1]) + 1))
        np.add.at(sums, keys[runs], np.add.reduceat(values, runs))
    return sums


def max_by(keys: Ints | SmallInts, values: Ints, size: int) -> Ints:
    """The largest value by key 0..size-1, `-FOREVER` where a key has none: a capture's times may be
    negative."""
    largest = np.full(size, -FOREVER, np.int64)
    if len(keys):
        runs = np.concatenate(([0], np.flatnonzero(keys[1:] != keys[:-1]) + 1))
        np.maximum.at(largest, keys[runs], np.maximum.reduceat(values, runs))
    return largest
