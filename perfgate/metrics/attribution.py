"""From moments of launch to steps and innermost ranges, by cutting time into segments; it must not
know any metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfgate.metrics.intervals import FOREVER, sum_by
from perfgate.metrics.kinds import bare, kinds
from perfgate.metrics.steps import Steps
from perfgate.model.arrays import distinct
from perfgate.model.names import RangeNames
from perfgate.model.sample import OUTSIDE_RANGES
from perfgate.model.timeline import NO_CORRELATION, SHARE_AN_ID, Flags, Ints, Ranges, SmallInts
from perfgate.model.workload import OWN_RANGES

MANY_NAMES = 40
"""Above this many range names, names seen once are grouped even where steps do not show an index
apart from a name."""
_AT_ONCE = 1 << 16
"""Ranges, or stretches of time, that are looked at together: bounds what they take in other forms.
"""
_LEAST_LEVEL = 16
"""Of so many ranges that hold others one at least must hold none that do, for all such ranges to be
taken off."""
_SPARSE = 4
"""A table by correlation id may be this many times longer than its rows; beyond that they are
searched for."""


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

    def at(self, times: Ints) -> SmallInts:
        """The segment that holds each moment. Linear for times in order, O(n log m) otherwise."""
        if len(times) > len(self.edges) and bool((times[1:] >= times[:-1]).all()):
            counts = np.diff(
                np.searchsorted(times, self.edges, side="left"), prepend=0, append=len(times)
            )
            return np.repeat(self.segment, counts)
        return self.segment[np.searchsorted(self.edges, times, side="right")]

    def joined_but(self, times: Sequence[Ints]) -> Segments:
        """The same with those as one that hold none of these moments, by label and by whether they
        are in steps.

        Nothing was launched in them: only the time that passes under a label is asked of them, and
        no longer in which step. They come last; those of the first two steps, and what comes
        before, stay as they are.
        """
        kept = (self.step == 0) | (self.step == 1) | (self.turn == 0) | (self.turn == 1)
        kept[0] = True
        for some in times:
            kept[self.segment[np.searchsorted(self.edges, some, side="right")]] = True
        kind = (self.label * 2 + (self.step >= 0)) * 2 + (self.turn >= 0)
        of_kind = np.full(4 * len(self.labels), -1, np.int32)
        joined = np.flatnonzero(~kept)[::-1]
        of_kind[kind[joined]] = joined  # the first of each kind stands for all
        firsts = of_kind[of_kind >= 0]
        some = np.concatenate((np.flatnonzero(kept), firsts))
        number = np.cumsum(kept, dtype=np.int32) - 1
        place = np.zeros(len(of_kind), np.int32)
        place[kind[firsts]] = np.arange(len(some) - len(firsts), len(some))
        number[~kept] = place[kind[~kept]]
        return replace(
            self,
            segment=number[self.segment],
            step=self.step[some],
            turn=self.turn[some],
            label=self.label[some],
        )

    def passed(self, until: Callable[[Ints], Ints], first: Ints, last: Ints) -> Ints:
        """Of what has passed `until` a time from `first` to `last`, what passes in each segment."""
        found = np.zeros(len(self.step), np.int64)
        before = until(first)
        # In parts, so that what has passed until each edge takes no room for all of them.
        for begin in range(0, len(self.segment), _AT_ONCE):
            segment = self.segment[begin : begin + _AT_ONCE]
            edges = self.edges[begin : begin + len(segment)]
            at = until(np.concatenate((edges, last)) if len(edges) < len(segment) else edges)
            lowest = int(segment.min())
            its = sum_by(
                segment - lowest, np.diff(at, prepend=before), int(segment.max()) - lowest + 1
            )
            found[lowest : lowest + len(its)] += its
            before = at[-1:]
        return found


def cut(ranges: Ranges, steps: Steps) -> Segments:
    """Cut one process's time at its steps and at the ranges of the steps' threads.

    Push/pop ranges nest; of several open ones the latest opened is innermost (ranges of two NVTX
    domains need not nest). Start/end ranges may overlap anything and say nothing about what runs
    "inside" them, so they are left out, unless the thread holds no push/pop range besides steps.
    The step itself always counts. Unclosed ranges reach to the end. Nothing is ever in one of
    perfgate's `OWN_RANGES` between steps: they are left out wherever they lie.
    """
    names = ranges.name
    eligible = ranges.process == steps.process
    for own_range in OWN_RANGES:
        eligible &= ~names.bear(own_range)
    threads = distinct(steps.threads)
    rows_by_thread = [_rows(ranges, names, steps, eligible, int(thread)) for thread in threads]
    rows = np.concatenate([*rows_by_thread, np.empty(0, np.int32)])
    in_step = np.zeros(len(rows), np.int32) if steps.whole else _step_at(steps, ranges.start[rows])
    own_names = distinct(names.codes[steps.rows])
    labels, label_of = _group(
        names, names.codes[rows], in_step, own_names, steps=0 if steps.whole else len(steps)
    )

    del rows, in_step, eligible
    size = len(labels)
    sums = {
        inside: (np.zeros(size, np.int64), np.zeros(size, np.int64)) for inside in (True, False)
    }
    changes: list[tuple[Ints, SmallInts]] = []
    for own in rows_by_thread:
        times, innermost, met = (
            np.empty(2 * len(own), np.int64),
            np.empty(2 * len(own), np.int32),
            0,
        )
        for part in _parts(ranges, own):
            label = label_of[names.codes[part.rows]]
            at, inner = _innermost(ranges.start[part.rows], ranges.end[part.rows], label)
            kept = (at >= part.begin) & (at < part.until)
            changed = slice(met, met := met + int(kept.sum()))
            times[changed], innermost[changed] = at[kept], inner[kept]
            for inside, chosen in zip(
                (True, False), _in_and_between(ranges, steps, part.rows), strict=True
            ):
                count, lasted = sums[inside]
                count += np.bincount(label[chosen & part.new], minlength=size)
                until = min(part.until, FOREVER if inside else int(steps.ends[-1]))
                begun = np.maximum(ranges.start[part.rows[chosen]], part.begin)
                ended = np.minimum(ranges.end[part.rows[chosen]], until)
                lasted += _time_open(label[chosen], begun, np.maximum(begun, ended), size)
        changes.append((times[:met], innermost[:met]))
    edges = _edges([*(times for times, _ in changes), steps.starts, steps.ends])
    segment, step, turn, of_segment = _segmented(steps, threads, edges, changes, size)
    return Segments(
        edges=edges,
        segment=segment,
        step=step,
        turn=turn,
        label=of_segment,
        labels=labels,
        instances=sums[True][0],
        cpu_ns=sums[True][1],
        instances_between=sums[False][0],
        cpu_ns_between=sums[False][1],
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """Some ranges of a thread that follow one another, and those begun before them that had not
    ended."""

    rows: SmallInts
    new: Flags
    begin: int
    until: int
    """From where to where what they do is looked at: all parts together are all time."""


def _parts(ranges: Ranges, rows: SmallInts) -> Iterator[_Part]:
    """Ranges of a thread, in order of their begin, in parts that take little room in other forms."""
    begin, opened = -FOREVER, rows[:0]
    for first in range(0, len(rows), _AT_ONCE):
        last = first + _AT_ONCE
        until = int(ranges.start[rows[last]]) if last < len(rows) else FOREVER
        together = np.concatenate((opened, rows[first:last]))
        yield _Part(together, np.arange(len(together)) >= len(opened), begin, until)
        begin, opened = until, together[ranges.end[together] >= until]


def _in_and_between(ranges: Ranges, steps: Steps, rows: SmallInts) -> tuple[Flags, Flags]:
    """Which ranges begin in a step, and which between the first and the last of them."""
    begun = ranges.start[rows]
    inside = np.ones(len(rows), np.bool_) if steps.whole else _step_at(steps, begun) >= 0
    # How long one was open that was never closed is not known.
    between = ~inside & (begun >= steps.starts[0]) & (begun < steps.ends[-1]) & ranges.closed[rows]
    return inside, between


def _edges(times: Sequence[Ints]) -> Ints:
    """All of several sets of times in order, each once; most are in the largest set, which is in
    order itself."""
    most = max(times, key=len)
    smaller = [one[~_among(one, most)] if len(most) else one for one in times if one is not most]
    others = distinct(np.concatenate([*smaller, np.empty(0, np.int64)]))
    if not len(others):
        return most
    return np.insert(most, np.searchsorted(most, others), others)


def _segmented(
    steps: Steps, threads: Ints, edges: Ints, changes: Sequence[tuple[Ints, SmallInts]], labels: int
) -> tuple[SmallInts, SmallInts, SmallInts, SmallInts]:
    """The segment of each stretch, and the step, turn and label of each segment."""
    segment = np.empty(len(edges) + 1, np.int32)
    found: list[tuple[SmallInts, SmallInts, SmallInts]] = []
    last = (-2, -2)
    opened: dict[int, int] = {}
    met = 0
    # In parts, so that what is known of each stretch takes no room for all of them.
    for first in range(0, len(segment), _AT_ONCE):
        some = slice(first, min(first + _AT_ONCE, len(segment)))
        begins = edges[max(first - 1, 0) : some.stop - 1]
        begins = begins if first else np.concatenate((edges[:1] - 1, begins))
        step = np.zeros(len(begins), np.int32) if steps.whole else _step_at(steps, begins)
        turn = step if steps.whole else _turn_at(steps, begins)
        label = _label_at(steps, threads, begins, changes)
        new = np.append(
            (int(step[0]), int(turn[0])) != last, (step[1:] != step[:-1]) | (turn[1:] != turn[:-1])
        )
        # Of one phase, what has one label is one segment, also if the phase began in the part
        # before.
        key = np.cumsum(new) * labels + label
        each, row, code = np.unique(key, return_index=True, return_inverse=True)
        earlier = np.array(
            [opened.get(one, -1) for one in each[: np.searchsorted(each, labels)].tolist()],
            np.int32,
        )
        number = np.full(len(each), -1, np.int32)
        number[: len(earlier)] = earlier
        fresh = number < 0
        number[fresh] = np.arange(met, met + int(fresh.sum()), dtype=np.int32)
        met += int(fresh.sum())
        segment[some] = number[code]
        found.append((step[row[fresh]], turn[row[fresh]], label[row[fresh]]))
        current = int(key[-1]) // labels
        if current:
            opened = {}
        its = each // labels == current
        opened |= dict(zip((each[its] % labels).tolist(), number[its].tolist(), strict=True))
        last = int(step[-1]), int(turn[-1])
    step, turn, label = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return segment, step, turn, label


def _label_at(
    steps: Steps, threads: Ints, begins: Ints, changes: Sequence[tuple[Ints, SmallInts]]
) -> SmallInts:
    """The label of the innermost range at each time, on the thread of the step."""
    # Between steps the thread is that of the last step begun; before the first, the first's.
    last_begun = np.maximum(np.searchsorted(steps.starts, begins, side="right") - 1, 0)
    thread_of = np.searchsorted(threads, steps.threads)[last_begun]
    label = np.zeros(len(begins), np.int32)
    for index, (times, innermost) in enumerate(changes):
        here = thread_of == index
        at = np.searchsorted(times, begins[here], side="right") - 1
        label[here] = np.where(at >= 0, innermost.take(at, mode="clip"), 0) if len(innermost) else 0
    return label


def _time_open(labels: SmallInts, begun: Ints, ended: Ints, size: int) -> Ints:
    """How long a range of each label 0..size-1 was open: once, also where one lies in another.

    The ranges are of one thread and come in the order in which they begin.
    """
    order = np.argsort(labels, kind="stable")
    labels, begun, ended = labels[order], begun[order], ended[order]
    new = np.append(True, labels[1:] != labels[:-1])[: len(labels)]
    took = ended - begun
    overlapping = np.flatnonzero(~new[1:] & (begun[1:] < ended[:-1])) + 1
    firsts = np.flatnonzero(new)
    for group in distinct(np.searchsorted(firsts, overlapping, side="right") - 1).tolist():
        own = slice(firsts[group], firsts[group + 1] if group + 1 < len(firsts) else len(labels))
        until = np.maximum.accumulate(ended[own])
        took[own][1:] = np.maximum(ended[own][1:] - np.maximum(begun[own][1:], until[:-1]), 0)
    return sum_by(labels, took, size)


@dataclass(frozen=True, slots=True)
class Launches:
    """Where the call with a correlation id began, as a segment: a table by id, or sorted ids where
    those are sparse."""

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
    # What follows the last step is not known to be the loop's, and before a wait the worker itself
    # synchronises.
    until = np.where(
        np.append(steps.resumes[1:], True), steps.ends, np.append(steps.starts[1:], steps.ends[-1:])
    )
    within = (index >= 0) & (times < until[np.maximum(index, 0)])
    return np.where(within, index, -1).astype(np.int32)


def _rows(
    ranges: Ranges, names: RangeNames, steps: Steps, eligible: Flags, thread: int
) -> SmallInts:
    rows = np.flatnonzero(eligible & (ranges.thread == thread)).astype(np.int32)
    is_step = np.isin(rows, steps.rows)
    push_pop = ranges.push_pop[rows]
    if (push_pop & ~is_step).any():
        rows, is_step = rows[push_pop | is_step], is_step[push_pop | is_step]
    starts = ranges.start[rows]
    if (starts[1:] > starts[:-1]).all():
        return rows
    # Outer before inner; of two with the same span the step is outer, then names decide, so that
    # row order never does.
    return rows[np.lexsort((names.codes[rows], ~is_step, -ranges.end[rows], starts))]


def _innermost(starts: Ints, ends: Ints, labels: SmallInts) -> tuple[Ints, SmallInts]:
    """Times at which the innermost open range changes, in order, and its label from then on (0:
    none).

    The ranges come outer before inner. Where one ends that is innermost, the next is the last begun
    before it that ends later.
    """
    if not (ends > starts).all():
        some = ends > starts
        starts, ends, labels = starts[some], ends[some], labels[some]
    around, seen = _around(starts, ends)
    ended = np.flatnonzero(seen).astype(np.int32)
    ended = ended[np.argsort(ends[ended], kind="stable")]
    # Of several that begin at once the last is innermost; where one begins, that another ends does
    # not show.
    begun = np.flatnonzero(np.append(starts[1:] != starts[:-1], True)[: len(starts)]).astype(
        np.int32
    )
    ended = ended[~_among(ends[ended], starts[begun])]
    first, second = starts[begun], ends[ended]
    # Both are in order: where each of the first has its place among the second.
    is_begin = np.zeros(len(first) + len(second), np.bool_)
    is_begin[np.searchsorted(second, first) + np.arange(len(first))] = True
    times, inner = np.empty(len(is_begin), np.int64), np.empty(len(is_begin), np.int32)
    times[is_begin], times[~is_begin] = first, second
    inner[is_begin] = labels[begun]
    # What is around nothing has the last place, which is that of no label.
    inner[~is_begin] = np.append(labels, np.int32(0))[around[ended]]
    return times, inner


def _among(values: Ints, those: Ints) -> Flags:
    """Which of some values are among others, which are in order."""
    return np.equal(those.take(np.searchsorted(those, values), mode="clip"), values)


def _around(starts: Ints, ends: Ints) -> tuple[SmallInts, Flags]:
    """Of each range the last one before it that ends later (-1: none), and whether none begun later
    is open at its end.

    Ranges that hold no other are taken off level by level; what then has no such ranges is gone
    through one by one.
    """
    around, seen = np.full(len(starts), -1, np.int32), np.ones(len(starts), np.bool_)
    rest = np.arange(len(starts), dtype=np.int32)
    levels: list[SmallInts] = []
    while len(rest):
        is_inner = np.append(ends[rest[:-1]] <= starts[rest[1:]], True)
        if _LEAST_LEVEL * np.count_nonzero(is_inner) < len(rest):
            break
        levels.append(rest[is_inner])
        rest = rest[~is_inner]
    stack: list[tuple[int, int]] = []
    for row, start, end in zip(
        rest.tolist(), starts[rest].tolist(), ends[rest].tolist(), strict=True
    ):
        while stack and stack[-1][0] <= end:
            ended, inner = stack.pop()
            if start < ended:
                seen[inner] = False
        if stack:
            around[row] = stack[-1][1]
        stack.append((end, row))
    for level in reversed(levels):
        place = np.searchsorted(rest, level) - 1
        outer = (
            np.where(place >= 0, rest[place], -1).astype(np.int32)
            if len(rest)
            else np.full_like(level, -1)
        )
        left = np.flatnonzero(outer >= 0)
        while len(left := left[ends[outer[left]] <= ends[level[left]]]):
            passed = outer[left]
            seen[passed[ends[passed] > starts[level[left]]]] = False
            outer[left] = around[passed]
            left = left[outer[left] >= 0]
        around[level] = outer
        rest = np.sort(np.concatenate((rest, level)), kind="stable")
    return around, seen


def _group(
    names: RangeNames, codes: SmallInts, in_step: SmallInts, of_steps: SmallInts, *, steps: int
) -> tuple[tuple[str, ...], SmallInts]:
    """Labels, and the label of every name code: unique names become one row.

    PyTorch's `, seq = 4, op_id = 7` is cut off. Names seen in one step only that differ in numbers
    only (`Batch 1`, `Batch 2`) become `Batch #`; names that come back every step (`layer.0`,
    `layer.1`) stay. Names `of_steps` that differ in numbers only always become one: those of the
    next epoch may be the same again. Where fewer than two steps can tell these apart, names seen
    once are grouped only if there are more than MANY_NAMES.
    """
    used = np.flatnonzero(np.bincount(codes, minlength=len(names.texts)))
    own = names.texts if len(used) == len(names.texts) else names.texts.taken(used)
    cut_off = bare(own)
    place = np.full(len(names.texts), -1, np.int32)
    place[used] = cut_off.codes
    count = len(cut_off.texts)
    first, last = np.full(count, np.iinfo(np.int32).max, np.int32), np.full(count, -1, np.int32)
    places = in_step if steps > 1 else np.arange(len(codes), dtype=np.int32)
    rows = np.flatnonzero(places >= 0)
    np.minimum.at(first, place[codes[rows]], places[rows])
    np.maximum.at(last, place[codes[rows]], places[rows])
    numbered = np.zeros(count, np.bool_)
    numbered[place[of_steps[place[of_steps] >= 0]]] = True
    grouped = np.zeros(count, np.bool_)
    found = kinds(cut_off.texts) if steps > 1 or count > MANY_NAMES else RangeNames.of(())
    if len(found):
        alike = (first >= last) | numbered
        grouped = (
            alike & (np.bincount(found.codes[alike], minlength=len(found.texts)) > 1)[found.codes]
        )
    alone = {code: cut_off.texts[code] for code in np.flatnonzero(~grouped).tolist()}
    shared = (
        {code: found.texts[code] for code in distinct(found.codes[grouped]).tolist()}
        if grouped.any()
        else {}
    )
    labels = (OUTSIDE_RANGES, *sorted({*alone.values(), *shared.values()} - {OUTSIDE_RANGES}))
    index_of = {label: index for index, label in enumerate(labels)}
    of_bare, of_kind = np.zeros(count, np.int32), np.zeros(len(found.texts), np.int32)
    of_bare[list(alone)] = [index_of[text] for text in alone.values()]
    of_kind[list(shared)] = [index_of[text] for text in shared.values()]
    if shared:
        of_bare[grouped] = of_kind[found.codes[grouped]]
    label_of = np.zeros(len(names.texts), np.int32)
    label_of[used] = of_bare[cut_off.codes]
    return labels, label_of
