"""Which NVTX ranges of a capture are the steps to measure; it must not know what ran in them."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from perfgate.metrics.intervals import merged, sorted_edges, sum_by
from perfgate.metrics.kinds import NUMBER, kinds, pieces, template
from perfgate.model.arrays import distinct
from perfgate.model.errors import ConfigInvalid, StepsNotFound
from perfgate.model.names import RangeNames, Texts
from perfgate.model.note import Note, Severity, Value, note
from perfgate.model.timeline import (
    Calls,
    Copies,
    Flags,
    Ints,
    Kernels,
    Ranges,
    SmallInts,
    Spans,
    Timeline,
)
from perfgate.model.workload import OWN_RANGES, START_RANGE, STEP_RANGE, WAIT_RANGE

CUT_BELOW: Final = 0.8
"""A last step that ends with the capture and is shorter than this share of the median step was cut
off."""
SUGGESTIONS: Final = 5
"""Range names in a message."""
NEAR: Final = 0.75
"""How alike (difflib's ratio) a name is to what was asked for, from which it may be meant."""
MOST_OVERLAP: Final = 0.05
"""Share of a step by which the next may begin before it has ended, on another thread: they take
turns."""
MOST_LEFT_OUT: Final = 0.05
"""Share of the steps' time that may lie between perfgate's own where other ranges begin: else it is
microseconds."""
MOST_STEP_NAMES: Final = 40
"""Names of steps that are kept; more of them are no names but values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """The steps of one process in order of time, which do not overlap; or, if `whole`, its window."""

    process: int
    """Index into `Timeline.processes`."""
    starts: Ints
    ends: Ints
    threads: Ints
    """The thread of each step: its ranges are the ones that operations are attributed to."""
    rows: Ints
    """Their ranges, as indices into `Timeline.ranges`; none of a whole window."""
    range_ends: Ints
    """Where these end: behind `ends` where the next step begins before that."""
    waits: tuple[Ints, Ints]
    """Starts and ends of the waits between two steps; in a whole window of all its waits, disjoint
    and in order."""
    whole: bool = False
    drawn: int | None = None
    """How many a pattern finds, with the warm-up and those behind the last that is used."""
    names: Mapping[str, float] = field(default_factory=dict)
    """What share of them bears each name, with numbers and ids replaced; none where names are too
    many."""
    notes: tuple[Note, ...] = ()
    """INVALID: why they may not be the steps that were declared."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def resumes(self) -> Flags:
        """Which steps follow a wait."""
        flags = np.zeros(len(self) + 1, np.bool_)
        flags[np.searchsorted(self.starts, self.waits[1])] = True
        return flags[:-1]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRule:
    """Which ranges are steps, and which of those are measured."""

    step: str
    """A range's name; or, of a pattern, a regular expression that matches all of it, with or
    without what stands before a colon (a domain)."""
    is_pattern: bool = False
    warmup: int = 0
    steps: int | None = None

    @classmethod
    def of(
        cls, step: str | None, *, is_pattern: bool, warmup: int, steps: int | None
    ) -> StepRule | None:
        """None where the whole window is to be measured."""
        if step is None:
            return None
        return cls(step=step, is_pattern=is_pattern, warmup=warmup, steps=steps)

    def cuts(self, texts: Texts) -> SmallInts:
        """How many parts that end in a colon are cut off each name for it to match; -1: it does
        not.

        Raises:
            ConfigInvalid: it is no regular expression.
        """
        found = np.full(len(texts), -1, np.int32)
        if not self.is_pattern:
            found[[at for at in (texts.place(self.step),) if at is not None]] = 0
            return found
        try:
            pattern = re.compile(self.step)
        except re.error as error:
            raise ConfigInvalid("step-not-a-pattern", step=self.step, problem=str(error)) from error
        has_colon = b":" in texts.buffer
        for place, text in enumerate(texts):
            if pattern.fullmatch(text):
                found[place] = 0
            elif has_colon and ":" in text:
                rests = (text[one.end() :] for one in re.finditer(":", text))
                matches = (
                    cut for cut, one in enumerate(rests, 1) if one and pattern.fullmatch(one)
                )
                found[place] = next(matches, -1)
        found[[at for own in OWN_RANGES if (at := texts.place(own)) is not None]] = -1
        return found


def find(timeline: Timeline, rule: StepRule | None) -> tuple[Steps, ...]:
    """The steps of every process, or the window of each as one.

    Raises:
        StepsNotFound: there is nothing to measure.
        ConfigInvalid: the rule is no regular expression.
    """
    return whole_windows(timeline) if rule is None else find_steps(timeline, rule)


def find_steps(timeline: Timeline, rule: StepRule) -> tuple[Steps, ...]:
    """The steps of every process that has any, by process index.

    Of nested matches on one thread the outermost is the step; one that the next begins inside of,
    as start/end ranges of work in flight do, ends there. Where several threads of a process hold
    steps at the same time, those of the thread with most steps are taken; that another holds half
    as many makes the run INVALID. The first `warmup` are skipped, at most `steps` are used after
    them.

    A project may mark steps of its own by the name that perfgate gives to those of a decorated
    workload. Where the capture holds the `START_RANGE`, only what follows it on its thread is
    taken. Where it does not, more of them than the declared `steps` are INVALID; a pattern is the
    user's own, and takes the first of them.

    In an A/B run of blocks a process waits between some of its steps, inside a closed
    `WAIT_RANGE` on the thread of the step that follows.

    nsys gives a range that the end of the capture cut the last NVTX timestamp, and marks it in no
    way. With a declared number of steps the worker stops the capture after the last, so the last
    one is taken as it is; without, see `_without_cut_last`.

    Raises:
        StepsNotFound: no process has a step left after warm-up.
        ConfigInvalid: `step` is no regular expression though `is_pattern` is set.
    """
    ranges = timeline.ranges
    cuts = rule.cuts(ranges.name.texts)[ranges.name.codes]
    start = _start(ranges) if rule.step == STEP_RANGE else None
    found = [
        _Finder(timeline, rule, process, np.flatnonzero((cuts >= 0) & of_process), cuts, start)
        for process in range(len(timeline.processes))
        if ((of_process := ranges.process == process) & (cuts >= 0)).any()
    ]
    steps = [one for finder in found if (one := finder.steps()) is not None]
    left_out = tuple(one.left_out for one in found if one.left_out is not None)
    if not steps:
        raise _not_found(timeline, rule, found)
    return tuple(dataclasses.replace(one, notes=(*one.notes, *left_out)) for one in steps)


class _Finder:
    """Finds the steps of one process."""

    def __init__(
        self,
        timeline: Timeline,
        rule: StepRule,
        process: int,
        rows: Ints,
        cuts: SmallInts,
        start: int | None,
    ) -> None:
        """`rows` are the ranges that match; `start` is the `START_RANGE`, of whichever process."""
        self._ranges, self._rule, self._process = timeline.ranges, rule, process
        self._pid = timeline.processes[process]
        self._all, self._cuts, self._start = rows, cuts, start
        self._notes: list[Note] = []
        self.left_out: Note | None = None
        """Why it has matches and no step."""
        self.left_open = 0
        self.nested = 0

    def _note(self, code: str, severity: Severity = Severity.WARN, **fields: Value) -> None:
        self._notes.append(Note(code=code, severity=severity, fields=fields))

    def steps(self) -> Steps | None:
        """Those that are measured; None where there is none, and then `left_out` may say why."""
        ranges, rule = self._ranges, self._rule
        rows = self._all
        if self._start is not None:
            if self._process != ranges.process[self._start]:
                self.left_out = note(
                    "steps-of-others", Severity.WARN, pid=self._pid, ranges=len(rows)
                )
                return None
            rows = _behind(ranges, rows, self._start)
        rows = self._least_cut(rows)
        closed = rows[ranges.closed[rows]]
        unclosed = rows[~ranges.closed[rows]]
        self.left_open = len(unclosed) if len(rows) else len(self._all)
        if len(unclosed):
            self._note("ranges-unclosed", ranges=len(unclosed))
        by_thread = self._outermost(closed)
        outermost = np.concatenate([*by_thread.values(), closed[:0]])
        rows = self._one_after_another(by_thread)
        if rule.steps is None:
            rows = self._without_cut_last(rows)
        drawn, rows = len(rows), rows[rule.warmup :]
        self._look_inside(closed[~np.isin(closed, outermost)], len(rows))
        if drawn and not len(rows):
            self.left_out = note("all-warmup", Severity.WARN, pid=self._pid, ranges=drawn)
        if rule.steps is not None:
            rows = self._declared(rows, unclosed, len(outermost) - rule.warmup)
        return self._made(rows, drawn) if len(rows) else None

    def _made(self, rows: Ints, drawn: int) -> Steps:
        ranges = self._ranges
        follow = len(rows) == rows[-1] - rows[0] + 1 and bool((rows[1:] > rows[:-1]).all())
        some = slice(int(rows[0]), int(rows[-1]) + 1) if follow else rows  # a slice takes no room
        ends = _until_next(ranges, rows)
        return Steps(
            process=self._process,
            starts=ranges.start[some],
            ends=ranges.end[some] if np.array_equal(ends, ranges.end[some]) else ends,
            threads=ranges.thread[some],
            rows=rows,
            range_ends=ranges.end[some],
            waits=_between(ranges, rows, _waits(ranges, self._process)),
            drawn=drawn if self._rule.is_pattern else None,
            names=_named(ranges.name, rows),
            notes=tuple(self._notes),
        )

    def _declared(self, rows: Ints, unclosed: Ints, named: int) -> Ints:
        """The declared number of steps, of those after the warm-up."""
        ranges, steps = self._ranges, self._rule.steps
        assert steps is not None
        if self._start is not None:
            self._notes += _cut_by_others(ranges, rows[:steps])
            if len(rows) >= steps:
                # What comes after the last turn is the project's, but not in the place of a turn
                # that was left open.
                opened = ranges.start[unclosed] < ranges.start[rows[steps - 1]]
                return rows[: max(steps - int(opened.sum()), 0)]
        elif not self._rule.is_pattern and named > steps:
            name = self._rule.step
            self._note("steps-ambiguous", Severity.INVALID, ranges=named, name=name, steps=steps)
        return rows[:steps]

    def _look_inside(self, inner: Ints, left: int) -> None:
        """Note matches that lie in another, where they may be the steps that were meant."""
        rule = self._rule
        short = rule.steps is not None and left < rule.steps
        if len(inner) and (rule.is_pattern or short or not self._ranges.push_pop[inner].all()):
            self._note("ranges-nested", ranges=len(inner))
            self.nested = len(inner)

    def _least_cut(self, rows: Ints) -> Ints:
        """Those with the least cut off; what else matches outside of them is noted."""
        if not len(rows):
            return rows
        ranges, names = self._ranges, self._ranges.name
        closed = rows[ranges.closed[rows]]
        least = self._cuts[closed if len(closed) else rows].min()
        chosen: Ints = rows[self._cuts[rows] <= least]
        others = rows[self._cuts[rows] > least]
        starts, ends = merged(*sorted_edges([ranges.start[chosen]], [ranges.end[chosen]]))
        before = np.searchsorted(starts, ranges.start[others], side="right") - 1
        outside = others[(before < 0) | (ranges.start[others] >= ends[np.maximum(before, 0)])]
        if len(outside):
            listed = listed_names(names.texts[c] for c in distinct(names.codes[outside]).tolist())
            step = self._rule.step
            self._note("ranges-after-colon", step=step, ranges=len(outside), names=listed)
        return chosen

    def _outermost(self, rows: Ints) -> Mapping[int, Ints]:
        """Of each thread those that lie in no other, in order; one that begins in another and
        outlasts it is the next.

        Work in flight ends in any order: a start/end range in another of its kind is the next as
        well.
        """
        ranges, names = self._ranges, self._ranges.name
        by_thread: dict[int, Ints] = {}
        partly = 0
        starts = ranges.start[rows]
        in_order = rows
        if not bool((starts[1:] > starts[:-1]).all()):
            in_order = rows[np.lexsort((names.codes[rows], -ranges.end[rows], starts))]
        for thread in distinct(ranges.thread[rows]).tolist():
            own = in_order[ranges.thread[in_order] == thread]
            start, end, push_pop = ranges.start[own], ranges.end[own], ranges.push_pop[own]
            kept = np.append(True, end[1:] > np.maximum.accumulate(end)[:-1])
            if not push_pop.all():
                around = np.maximum.accumulate(np.where(kept, np.arange(len(own)), 0))
                codes, code = np.unique(names.codes[own], return_inverse=True)
                kind = kinds(names.texts.taken(codes.astype(np.int64))).codes[code]
                kept |= ~push_pop & ~push_pop[around] & (kind == kind[around])
                # Of those that begin at once the first is the step.
                places = np.flatnonzero(kept)
                kept[places[1:][start[places[1:]] == start[places[:-1]]]] = False
            partly += int((start[kept][1:] < end[kept][:-1]).sum())
            by_thread[thread] = own[kept]
        if partly:
            self._note("steps-overlap", Severity.INFO, ranges=partly)
        return by_thread

    def _one_after_another(self, by_thread: Mapping[int, Ints]) -> Ints:
        """The steps of all threads where no two overlap, else those of one thread."""
        ranges, none = self._ranges, np.empty(0, np.int64)
        together = np.concatenate([*by_thread.values(), none])
        ends = np.concatenate([*(_until_next(ranges, own) for own in by_thread.values()), none])
        order = np.argsort(ranges.start[together], kind="stable")
        together, ends = together[order], ends[order]
        starts = ranges.start[together]
        overlap = np.median(ends - starts) * MOST_OVERLAP if len(together) else 0
        if (starts[1:] >= ends[:-1] - overlap).all():
            return together
        thread, kept = max(by_thread.items(), key=lambda item: (len(item[1]), -item[0]))
        threads = len(by_thread)
        if 2 * max(len(its) for other, its in by_thread.items() if other != thread) >= len(kept):
            self._note("loops-at-once", Severity.INVALID, threads=threads)
        else:
            self._note("one-thread-measured", threads=threads, thread=thread)
        return kept

    def _without_cut_last(self, rows: Ints) -> Ints:
        """Leave out a last step that ends with the capture, if a range inside it ends in the same
        nanosecond or it is shorter than `CUT_BELOW` of the median step."""
        ranges = self._ranges
        if len(rows) < 2 or ranges.end[rows[-1]] != ranges.end.max():
            return rows
        last = rows[-1]
        inside = (
            (ranges.end == ranges.end[last])
            & (ranges.start >= ranges.start[last])
            & (ranges.thread == ranges.thread[last])
            & (ranges.process == ranges.process[last])
        )
        length = _until_next(ranges, rows) - ranges.start[rows]
        if inside.sum() == 1 and length[-1] >= CUT_BELOW * np.median(length[:-1]):
            return rows
        self._note("last-step-cut")
        return rows[:-1]


def whole_windows(timeline: Timeline) -> tuple[Steps, ...]:
    """The captured window of each process as one: from its first GPU operation or API call to its
    last GPU operation.

    Without GPU operations to its last API call; a process with neither is measured over its NVTX
    ranges. The thread is the one with most time under ranges, and only its waits count.

    Raises:
        StepsNotFound: the capture holds no operation, call or range.
    """
    found: list[Steps] = []
    ranges = timeline.ranges
    for process in range(len(timeline.processes)):
        # What begins and ends at 0 was not timed.
        gpu = [
            _span(ops, (ops.process == process) & ((ops.end != 0) | (ops.start != 0)))
            for ops in timeline.operations
        ]
        calls = _span(timeline.calls, timeline.calls.process == process)
        of_process = ranges.process == process
        marked = _span(ranges, of_process)
        begun = [span for span in (*gpu, calls) if span] or [span for span in (marked,) if span]
        ended = [span for span in gpu if span] or begun
        if not begun:
            continue
        thread = _main_thread(ranges, np.flatnonzero(of_process))
        waits = _waits(ranges, process)
        waits = waits[ranges.thread[waits] == thread]
        found.append(
            Steps(
                process=process,
                starts=np.array([min(start for start, _ in begun)], np.int64),
                ends=(ends := np.array([max(end for _, end in ended)], np.int64)),
                threads=np.array([thread], np.int64),
                rows=np.empty(0, np.int64),
                range_ends=ends,
                waits=merged(*sorted_edges([ranges.start[waits]], [ranges.end[waits]])),
                whole=True,
            )
        )
    if not found:
        raise StepsNotFound("nothing-captured", source=timeline.source)
    return tuple(found)


def listed_names(texts: Iterable[str]) -> tuple[str, ...]:
    """The first of some names, those that differ in numbers only as one."""
    alike = sorted({template(text) for text in texts})
    return (*alike[:SUGGESTIONS], *(["..."] if len(alike) > SUGGESTIONS else []))


def _start(ranges: Ranges) -> int | None:
    """The last range that says where perfgate's own steps begin."""
    rows = np.flatnonzero(ranges.name.bear(START_RANGE) & ranges.closed)
    return int(rows[np.argmax(ranges.end[rows])]) if len(rows) else None


def _behind(ranges: Ranges, rows: Ints, start: int) -> Ints:
    """Those drawn as perfgate draws its steps, pushed and popped on the thread of this range, after
    it: until the last turn nothing but perfgate runs there between two of them."""
    same = (ranges.thread[rows] == ranges.thread[start]) & ranges.push_pop[rows]
    behind: Ints = rows[same & (ranges.start[rows] >= ranges.end[start])]
    return behind


def _cut_by_others(ranges: Ranges, rows: Ints) -> Iterator[Note]:
    """perfgate's own steps were closed by pops of other ranges, and lack a part of their turns.

    Between two of them only perfgate runs on their thread. What begins there shows that a turn was
    not at its end:

    ```
    pushed    step |------|  |------|      a turn ends where the next begins
    load           |   |-----|   |-----    its task pops what was pushed last, and perfgate at the
                                           turn's end as well
    ```
    """
    if not len(rows):
        return
    names = ranges.name
    others = (ranges.thread == ranges.thread[rows[0]]) & ranges.push_pop
    others &= ranges.process == ranges.process[rows[0]]
    for own in (STEP_RANGE, *OWN_RANGES):
        others &= ~names.bear(own)
    starts, ends = ranges.start[rows], ranges.end[rows]
    found = np.flatnonzero(others)
    before = np.searchsorted(starts, ranges.start[found], side="right") - 1
    apart = (before >= 0) & (before < len(rows) - 1) & (ranges.start[found] >= ends[before])
    turns = distinct(before[apart])
    left_out = int((starts[turns + 1] - ends[turns]).sum()) / max(int(ends[-1] - starts[0]), 1)
    if left_out > MOST_LEFT_OUT:
        codes = distinct(names.codes[found[apart]]).tolist()
        listed = listed_names(names.texts[code] for code in codes)
        yield note("steps-cut-by-others", Severity.INVALID, names=listed, left_out=left_out)


def _waits(ranges: Ranges, process: int) -> Ints:
    own = (ranges.process == process) & ranges.closed
    return np.flatnonzero(ranges.name.bear(WAIT_RANGE) & own)


def _between(ranges: Ranges, steps: Ints, waits: Ints) -> tuple[Ints, Ints]:
    """Of these waits the ones that lie between two steps, on the thread of the second.

    ```
    step           |--0--| |--1--|           |--2--|         |--3--|
    wait    |-a-|     |b|          |-c-|               |--d----|  |e|   |-f-|     c alone does
    ```
    """
    following = np.searchsorted(ranges.start[steps], ranges.end[waits])
    inner = (following > 0) & (following < len(steps))
    waits, before, after = waits[inner], steps[following[inner] - 1], steps[following[inner]]
    waits = waits[
        (ranges.start[waits] >= ranges.end[before]) & (ranges.thread[waits] == ranges.thread[after])
    ]
    return ranges.start[waits], ranges.end[waits]


def _until_next(ranges: Ranges, rows: Ints) -> Ints:
    """Where each of one thread's steps ends: with its range, or where the next begins."""
    return np.minimum(ranges.end[rows], np.append(ranges.start[rows][1:], ranges.end[rows][-1:]))


def _named(names: RangeNames, rows: Ints) -> dict[str, float]:
    codes = names.codes[rows]
    found = kinds(names.texts.taken((some := distinct(codes)).astype(np.int64)))
    counts = np.bincount(
        found.codes[np.searchsorted(some, codes)], minlength=len(found.texts)
    ).tolist()
    few = zip(found.texts, counts, strict=True) if len(counts) <= MOST_STEP_NAMES else ()
    return {name: round(count / len(rows), 3) for name, count in few}


def _span(
    spans: Kernels | Copies | Spans | Calls | Ranges, chosen: Flags
) -> tuple[int, int] | None:
    if not chosen.any():
        return None
    return int(spans.start[chosen].min()), int(spans.end[chosen].max())


def _main_thread(ranges: Ranges, rows: Ints) -> int:
    threads, code = np.unique(ranges.thread[rows], return_inverse=True)
    total = sum_by(code, ranges.end[rows] - ranges.start[rows], len(threads))
    return int(threads[np.argmax(total)]) if len(threads) else 0


def _not_found(timeline: Timeline, rule: StepRule, found: Sequence[_Finder]) -> StepsNotFound:
    source, texts = timeline.source, timeline.ranges.name.texts
    left_out = tuple(one.left_out for one in found if one.left_out is not None)
    all_warmup = tuple(one for one in left_out if one.code == "all-warmup")
    left_open = sum(one.left_open for one in found)
    if all_warmup:
        nested = any(one.nested for one in found)
        code = "steps-nested" if nested else "steps-all-warmup"
        return StepsNotFound(code, source=source, processes=all_warmup)
    if left_out and not left_open:
        return StepsNotFound("steps-all-of-others", source=source, processes=left_out)
    if left_open:
        return StepsNotFound("steps-left-open", source=source, step=rule.step, ranges=left_open)
    if not texts:
        return StepsNotFound("no-ranges", source=source, step=rule.step)
    if set(texts) <= set(OWN_RANGES):
        return StepsNotFound("no-own-ranges", source=source, step=rule.step)
    likely, times = _suggested(timeline.ranges, rule)
    code = "steps-misnamed" if times > 1 else "steps-only-once"
    return StepsNotFound(code, source=source, step=rule.step, likely=likely)


def _suggested(ranges: Ranges, rule: StepRule) -> tuple[tuple[str, ...], int]:
    """Names as a user would ask for them, what was misspelt first and then the most frequent; and
    how often the most frequent is there.

    Names that differ in numbers only are one pattern. Of equally frequent ones the longer come
    first: steps hold the others.
    """
    names = ranges.name
    counts = np.bincount(names.codes, minlength=len(names.texts))
    lasted = np.bincount(names.codes, weights=ranges.end - ranges.start, minlength=len(names.texts))
    groups = pieces(names.texts).codes if rule.is_pattern else np.arange(len(names.texts))
    of_group: dict[str, tuple[int, float]] = {}
    for group in distinct(groups.astype(np.int64)).tolist():
        codes = np.flatnonzero(groups == group)
        text = names.texts[int(codes[0])]
        if text in OWN_RANGES:
            continue
        if rule.is_pattern:
            parts = NUMBER.split(text) if len(codes) > 1 else [text]
            text = r"\d+".join(re.escape(part).replace(r"\ ", " ") for part in parts)
        of_group[text] = int(counts[codes].sum()), float(lasted[codes].sum())
    near = difflib.get_close_matches(rule.step, of_group, n=SUGGESTIONS, cutoff=NEAR)
    frequent = sorted(of_group, key=lambda text: (*(-one for one in of_group[text]), text))
    likely = list(dict.fromkeys([*near, *frequent]))[:SUGGESTIONS]
    return tuple(likely), max(of_group[text][0] for text in likely)
