"""From moments of launch to steps and innermost ranges, by cutting time into segments; it must not know any metric."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from perfgate.metrics.intervals import FOREVER, sum_by
from perfgate.metrics.steps import TORCH_SUFFIX, Names, Steps, kind_of
from perfgate.model.sample import OUTSIDE_RANGES
from perfgate.model.timeline import NO_CORRELATION, SHARE_AN_ID, Flags, Ints, Ranges, SmallInts
from perfgate.model.workload import OWN_RANGES

MANY_NAMES = 40
"""Above this many range names, names seen once are grouped even where steps cannot tell an index from a name."""
_SPARSE = 4
"""A table by correlation id may be this many times longer than its rows; beyond that they are searched for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Segments:
    """The timeline of one process cut wherever its step or innermost range changes.

    ```
    step         |----------0----------|      |------1------|
    ranges         |--A--|  |---B---|           |--A--|
                              |-C-|
    segment   0  1 2     3  4 5   6 7  8      9 ...
    label     -  s A     s  B C   B s  -      s           s: the step's own range, -: OUTSIDE_RANGES
    step      -  0 0     0  0 0   0 0  -      1
    turn      -  0 0     0  0 0   0 0  0      1
    ```
    """

    edges: Ints
    """Segment i is [edges[i - 1], edges[i]), shape (m,); the first and the last of the m + 1 have no outer end."""
    step: SmallInts
    """Index of the step, -1 between, before and after steps; shape (m + 1,)."""
    turn: SmallInts
    """Index of the step that began last, until the next one or a wait; -1 before the first and behind the last."""
    label: SmallInts
    """Index into `labels`, shape (m + 1,)."""
    labels: tuple[str, ...]
    """Range names, grouped; the first is OUTSIDE_RANGES."""
    instances: Ints
    """Ranges begun in the steps, by label."""
    cpu_ns: Ints
    """Their time between push and pop, children included, by label."""
    instances_between: Ints
    """Ranges begun after a measured step and before the next one, by label: the usual place of a loader's."""
    cpu_ns_between: Ints
    """Their time until the last step ends, children included, by label."""

    def at(self, times: Ints) -> SmallInts:
        """The segment that holds each moment. Linear for times in order, O(n log m) otherwise."""
        if len(times) > 1 and bool((times[1:] >= times[:-1]).all()):
            counts = np.diff(np.searchsorted(times, self.edges, side="left"), prepend=0, append=len(times))
            return np.repeat(np.arange(len(self.edges) + 1, dtype=np.int32), counts)
        return np.searchsorted(self.edges, times, side="right").astype(np.int32)


def cut(ranges: Ranges, names: Names, steps: Steps) -> Segments:
    """Cut one process's time at its steps and at the ranges of the steps' threads.

    Push/pop ranges nest; of several open ones the latest opened is innermost (ranges of two NVTX domains need not
    nest). Start/end ranges may overlap anything and say nothing about what runs "inside" them, so they are left out,
    unless the thread holds no push/pop range besides steps. The step itself always counts. Unclosed ranges reach to
    the end. Nothing is ever in one of perfgate's `OWN_RANGES` between steps: they are left out wherever they lie.
    """
    eligible = ranges.process == steps.process
    for own_range in OWN_RANGES:
        eligible &= ~names.bear(own_range)
    threads = np.unique(steps.threads)
    rows_by_thread = [_rows(ranges, names, steps, eligible, int(thread)) for thread in threads]
    rows = np.concatenate([*rows_by_thread, np.empty(0, np.int64)])
    in_step = np.zeros(len(rows), np.int32) if steps.whole else _step_at(steps, ranges.start[rows])
    own_names = frozenset(np.unique(names.codes[steps.rows]).tolist())
    labels, label_of = _group(names, names.codes[rows], in_step, own_names, steps=0 if steps.whole else len(steps))

    changes = []
    for own in rows_by_thread:
        own_labels = label_of[names.codes[own]]
        changes.append(_innermost(ranges.start[own], ranges.end[own], own_labels))
    edges = np.concatenate([*(times for times, _ in changes), steps.starts, steps.ends])
    edges.sort(kind="stable")
    edges = edges[np.append(True, edges[1:] != edges[:-1])]
    begins = np.concatenate((edges[:1] - 1, edges))
    step = np.zeros(len(begins), np.int32) if steps.whole else _step_at(steps, begins)
    turn = step if steps.whole else _turn_at(steps, begins)
    # Between steps the thread is that of the last step begun; before the first, the first's.
    last_begun = np.maximum(np.searchsorted(steps.starts, begins, side="right") - 1, 0)
    thread_of = np.searchsorted(threads, steps.threads)[last_begun]
    label = np.zeros(len(begins), np.int32)
    for index, (times, innermost) in enumerate(changes):
        here = thread_of == index
        label[here] = np.concatenate(([0], innermost))[np.searchsorted(times, begins[here], side="right")]

    begun, ended = ranges.start[rows], ranges.end[rows]
    inside = in_step >= 0
    # How long one was open that was never closed is not known.
    between = ~inside & (begun >= steps.starts[0]) & (begun < steps.ends[-1]) & ranges.closed[rows]
    own_label = label_of[names.codes[rows]]
    size = len(labels)
    return Segments(
        edges=edges,
        step=step,
        turn=turn,
        label=label,
        labels=labels,
        instances=np.bincount(own_label[inside], minlength=size),
        cpu_ns=_time_open(own_label[inside], ranges.thread[rows[inside]], begun[inside], ended[inside], size),
        instances_between=np.bincount(own_label[between], minlength=size),
        cpu_ns_between=_time_open(
            own_label[between],
            ranges.thread[rows[between]],
            begun[between],
            np.minimum(ended, steps.ends[-1])[between],
            size,
        ),
    )


def _time_open(labels: SmallInts, threads: Ints, begun: Ints, ended: Ints, size: int) -> Ints:
    """How long a range of each label 0..size-1 was open: on one thread once, also where one lies in another.

    The ranges of each thread come in the order in which they begin.
    """
    order = np.lexsort((threads, labels))
    labels, threads, begun, ended = labels[order], threads[order], begun[order], ended[order]
    new = np.append(True, (labels[1:] != labels[:-1]) | (threads[1:] != threads[:-1]))[: len(labels)]
    took = ended - begun
    overlapping = np.flatnonzero(~new[1:] & (begun[1:] < ended[:-1])) + 1
    firsts = np.flatnonzero(new)
    for group in np.unique(np.searchsorted(firsts, overlapping, side="right") - 1).tolist():
        own = slice(firsts[group], firsts[group + 1] if group + 1 < len(firsts) else len(labels))
        until = np.maximum.accumulate(ended[own])
        took[own][1:] = np.maximum(ended[own][1:] - np.maximum(begun[own][1:], until[:-1]), 0)
    return sum_by(labels, took, size)


@dataclass(frozen=True, slots=True)
class Launches:
    """Where the call with a correlation id began, as a segment: a table by id, or sorted ids where those are sparse."""

    lowest: int
    table: SmallInts
    ids: Ints

    @classmethod
    def from_calls(cls, correlation: Ints, segment: SmallInts) -> Launches:
        """Of several calls with one id (a runtime call and the driver call in it) the first counts."""
        named = correlation != NO_CORRELATION
        if np.count_nonzero(correlation == 0) > SHARE_AN_ID:
            named &= correlation != 0
        if not named.all():
            correlation, segment = correlation[named], segment[named]
        if not len(correlation):
            return cls(0, np.empty(0, np.int32), np.empty(0, np.int64))
        lowest, highest = int(correlation.min()), int(correlation.max())
        if highest - lowest > _SPARSE * len(correlation) + 1_000_000:
            order = np.lexsort((segment, correlation))
            ids, first = np.unique(correlation[order], return_index=True)
            return cls(lowest, segment[order][first], ids)
        rows = correlation - lowest
        table = np.full(highest - lowest + 1, -1, np.int32)
        table[rows] = segment
        if bool((table[rows] != segment).any()):
            # Segments are in order of time, so the smallest is the earliest.
            table[rows] = np.iinfo(np.int32).max
            np.minimum.at(table, rows, segment)
        return cls(lowest, table, np.empty(0, np.int64))

    def of(self, correlation: Ints) -> SmallInts:
        """The segment of each operation's launch, -1 where no call has its id."""
        if not len(self.table) or not len(correlation):
            return np.full(len(correlation), -1, np.int32)
        if len(self.ids):
            rows = np.minimum(np.searchsorted(self.ids, correlation), len(self.ids) - 1)
            return np.where(self.ids[rows] == correlation, self.table[rows], np.int32(-1))
        rows = correlation - self.lowest
        if int(rows.min()) >= 0 and int(rows.max()) < len(self.table):
            return self.table.take(rows)
        known = (rows >= 0) & (rows < len(self.table))
        return np.where(known, self.table.take(rows, mode="clip"), np.int32(-1))


@dataclass(frozen=True, slots=True)
class Begins:
    """When the call with a correlation id began; of several calls with one id the first counts."""

    times: Ints
    """Of all calls, in order, and `FOREVER` behind them."""
    place: Launches

    @classmethod
    def from_calls(cls, correlation: Ints, begins: Ints) -> Begins:
        if not bool((begins[1:] >= begins[:-1]).all()):
            order = np.argsort(begins, kind="stable")
            correlation, begins = correlation[order], begins[order]
        place = Launches.from_calls(correlation, np.arange(len(begins), dtype=np.int32))
        return cls(np.append(begins, FOREVER), place)

    def of(self, correlation: Ints) -> Ints:
        """The begin of each operation's call, `FOREVER` where no call has its id."""
        return self.times[self.place.of(correlation)]  # -1, for none, is the last


def _step_at(steps: Steps, times: Ints) -> SmallInts:
    index = np.searchsorted(steps.starts, times, side="right") - 1
    within = (index >= 0) & (times < steps.ends[np.maximum(index, 0)])
    return np.where(within, index, -1).astype(np.int32)


def _turn_at(steps: Steps, times: Ints) -> SmallInts:
    index = np.searchsorted(steps.starts, times, side="right") - 1
    # What follows the last step is not known to be the loop's, and before a wait the worker itself synchronises.
    until = np.where(np.append(steps.resumes[1:], True), steps.ends, np.append(steps.starts[1:], steps.ends[-1:]))
    within = (index >= 0) & (times < until[np.maximum(index, 0)])
    return np.where(within, index, -1).astype(np.int32)


def _rows(ranges: Ranges, names: Names, steps: Steps, eligible: Flags, thread: int) -> Ints:
    rows = np.flatnonzero(eligible & (ranges.thread == thread))
    is_step = np.isin(rows, steps.rows)
    push_pop = ranges.push_pop[rows]
    if (push_pop & ~is_step).any():
        rows, is_step = rows[push_pop | is_step], is_step[push_pop | is_step]
    # Outer before inner; of two with the same span the step is outer, then names decide, so that row order never does.
    return rows[np.lexsort((names.codes[rows], ~is_step, -ranges.end[rows], ranges.start[rows]))]


def _innermost(starts: Ints, ends: Ints, labels: SmallInts) -> tuple[Ints, SmallInts]:
    """Times at which the innermost open range changes, in order, and its label from then on (0: none)."""
    times: list[int] = []
    inner: list[int] = []
    stack: list[tuple[int, int]] = []

    def change(time: int, label: int) -> None:
        if times and times[-1] == time:
            inner[-1] = label
        else:
            times.append(time)
            inner.append(label)

    def close(until: int) -> None:
        while stack and stack[-1][0] <= until:
            end, _ = stack.pop()
            while stack and stack[-1][0] <= end:
                stack.pop()
            change(end, stack[-1][1] if stack else 0)

    for start, end, label in zip(starts.tolist(), ends.tolist(), labels.tolist(), strict=True):
        if end <= start:
            continue
        close(start)
        change(start, label)
        stack.append((end, label))
    close(2**62)
    return np.array(times, np.int64), np.array(inner, np.int32)


def _group(
    names: Names, codes: SmallInts, in_step: SmallInts, of_steps: frozenset[int], *, steps: int
) -> tuple[tuple[str, ...], SmallInts]:
    """Labels, and the label of every name code: unique names become one row.

    PyTorch's `, seq = 4, op_id = 7` is cut off. Names seen in one step only that differ in numbers only (`Batch 1`,
    `Batch 2`) become `Batch #`; names that come back every step (`layer.0`, `layer.1`) stay. Names `of_steps` that
    differ in numbers only always become one: those of the next epoch may be the same again. Where fewer than two steps
    can tell these apart, names seen once are grouped only if there are more than MANY_NAMES.
    """
    used = np.flatnonzero(np.bincount(codes)).tolist()
    bare = {code: TORCH_SUFFIX.sub("", names.texts[code]) for code in used}
    places = in_step.tolist() if steps > 1 else range(len(codes))
    seen: dict[str, set[int]] = defaultdict(set)
    for code, place in zip(codes.tolist(), places, strict=True):
        if place >= 0:
            seen[bare[code]].add(place)
    numbered = {bare[code] for code in used if code in of_steps}
    alike: dict[str, set[str]] = defaultdict(set)
    if steps > 1 or len(set(bare.values())) > MANY_NAMES:
        for text in bare.values():
            if len(seen[text]) <= 1 or text in numbered:
                alike[kind_of(text)].add(text)
    grouped = {text: shared for shared, texts in alike.items() if len(texts) > 1 for text in texts}
    told = {text: grouped.get(text, text) for text in bare.values()}
    labels = (OUTSIDE_RANGES, *sorted(set(told.values()) - {OUTSIDE_RANGES}))
    index_of = {label: index for index, label in enumerate(labels)}
    label_of = np.zeros(len(names.texts), np.int32)
    for code in used:
        label_of[code] = index_of[told[bare[code]]]
    return labels, label_of
