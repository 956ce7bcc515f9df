"""Which NVTX ranges of a capture are the steps to measure; it must not know what ran in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Unpack

import numpy as np

from perfgate.metrics.intervals import Idle, sum_by
from perfgate.metrics.kinds import kinds_of, likely_steps
from perfgate.model.arrays import RangeNames, distinct, parts
from perfgate.model.errors import ConfigInvalid, StepsNotFound
from perfgate.model.note import Note, Severity, note
from perfgate.model.timeline import Calls, Flags, Ints, Ranges, SmallInts, Spans, Timeline
from perfgate.model.workload import OWN_RANGES, START_RANGE, STEP_RANGE, WAIT_RANGE, StepRule

CUT_BELOW: Final = 0.8
"""A last step that ends with the capture and is shorter than this share of the median step was cut
off."""
MOST_STEP_NAMES: Final = 40
"""Names of steps that are kept; more of them are no names but values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSpans:
    """The steps of one process in order of time, none overlapping; or, if `whole`, its window."""

    process: int
    """Index into `Timeline.processes`."""
    starts: Ints
    ends: Ints
    thread: int
    """Of all of them: its ranges are the ones that operations are attributed to."""
    rows: Ints
    """Their ranges, as indices into `Timeline.ranges`; none of a whole window."""
    range_ends: Ints
    """Where these end: behind `ends` where the next step begins before that."""
    resumes: Flags
    """Which steps follow a wait."""
    waits: tuple[Ints, Ints] | None = None
    """Starts and ends of all waits in a whole window, disjoint and in order."""
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

    def step_at(self, times: Ints, *, or_behind: bool = False) -> SmallInts:
        """The step in which each moment lies; -1 between, before and after steps.

        With `or_behind` the step that began last, until the next one or a wait: what follows the
        last step is not known to be the loop's, and before a wait the worker itself synchronises.
        """
        until, found = self.ends, np.zeros(len(times), np.int32)
        if or_behind:
            is_last = np.append(self.resumes[1:], True)
            until = np.where(is_last, self.ends, np.append(self.starts[1:], 0))
        for part in parts(0 if self.whole else len(times)):
            index = np.searchsorted(self.starts, times[part], side="right") - 1
            within = (index >= 0) & (times[part] < until[np.maximum(index, 0)])
            found[part] = np.where(within, index, -1)
        return found


def find_steps(timeline: Timeline, **rule: Unpack[StepRule]) -> tuple[StepSpans, ...]:
    """The steps of every process that has any, by process index; with `step` None the window of
    each as one.

    `step` is a range's name; or, with `is_pattern`, a regular expression that matches all of it,
    with or without what stands before a colon (a domain). Of nested matches on one thread the
    outermost is the step; one that the next begins inside of, as start/end ranges of work in flight
    do, ends there. Where several threads of a process hold
    steps, those of the thread with most are taken; that another holds half as many makes the run
    INVALID. The first `warmup` are skipped, at most `steps` are used after
    them.

    A project may mark steps of its own by the name that perfgate gives to those of a decorated
    workload. Where the capture holds the `START_RANGE`, only what follows it on its thread is
    taken. Where it does not, more of them than the declared `steps` are INVALID; a pattern is the
    user's own, and takes the first of them.

    In an A/B run of blocks a process waits between some of its steps, inside a closed
    `WAIT_RANGE` on the thread of the step that follows.

    Raises:
        StepsNotFound: no process has a step left after warm-up, or there is nothing to measure.
        ConfigInvalid: `step` is no regular expression though `is_pattern` is set.
    """
    ranges, step, start = timeline.ranges, rule["step"], None
    if step is None:
        windows = [_whole_window(timeline, process) for process in range(len(timeline.processes))]
        if whole := tuple(one for one in windows if one is not None):
            return whole
        raise StepsNotFound("nothing-captured", source=timeline.source)
    asked = _Rule(
        step=step,
        is_pattern=rule.get("is_pattern", False),
        warmup=rule.get("warmup", 0),
        steps=rule.get("steps"),
    )
    matching = asked.matching(ranges)
    opens = np.flatnonzero(ranges.name.bear(START_RANGE) & ranges.closed)
    if step == STEP_RANGE and len(opens):
        start = int(opens[np.argmax(ranges.end[opens])])
    found: list[StepSpans] = []
    without: list[Note] = []
    for process, pid in enumerate(timeline.processes):
        rows = np.flatnonzero(matching & (ranges.process == process))
        if not len(rows):
            continue
        if start is not None and process != ranges.process[start]:
            without.append(note("steps-of-others", Severity.WARN, pid=pid, ranges=len(rows)))
            continue
        notes: list[Note] = []
        drawn = _drawn(ranges, asked, rows, start, notes)
        used = drawn[asked.warmup :][: asked.steps]
        if len(used):
            steps = _spans(ranges, used, notes)
            found.append(replace(steps, drawn=len(drawn)) if asked.is_pattern else steps)
        elif len(drawn):
            counts = {"ranges": len(drawn), "matching": len(rows)}
            without.append(note("all-warmup", Severity.WARN, pid=pid, **counts))
    if not found:
        raise _not_found(timeline, asked, matching, without)
    return tuple(replace(one, notes=(*one.notes, *without)) for one in found)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    """Which ranges are steps, and which of those are measured."""

    step: str
    is_pattern: bool
    warmup: int
    steps: int | None

    def matching(self, ranges: Ranges) -> Flags:
        """Which ranges match: where some do by their whole name, those alone.

        Raises:
            ConfigInvalid: `step` is no regular expression though `is_pattern` is set.
        """
        if not self.is_pattern:
            return ranges.name.bear(self.step)
        try:
            pattern = re.compile(self.step)
        except re.error as error:
            raise ConfigInvalid("step-not-a-pattern", step=self.step, problem=str(error)) from error
        by_name = [_matched_from(pattern, text) for text in ranges.name.texts]
        matched_from = np.array(by_name, np.int64)[ranges.name.codes]
        whole = matched_from == 0
        return whole if (whole & ranges.closed).any() else matched_from >= 0


def _matched_from(pattern: re.Pattern[str], text: str) -> int:
    """From where on a pattern matches a name: all of it, or what stands behind a colon; -1 for none
    and for perfgate's own."""
    if not text or text in OWN_RANGES:
        return -1
    places = (0, *(colon.end() for colon in re.finditer(":(?!$)", text)))
    return next((place for place in places if pattern.fullmatch(text, place)), -1)


def _drawn(ranges: Ranges, rule: _Rule, rows: Ints, start: int | None, notes: list[Note]) -> Ints:
    """The steps that a process drew, on the thread with most of them, the warm-up too; what is to
    be known of them goes to `notes`.

    `rows` are its ranges that match, `start` is the `START_RANGE`.
    """
    if start is not None:
        # Pushed and popped on its thread: between two turns nothing but perfgate runs there.
        same = (ranges.thread[rows] == ranges.thread[start]) & ranges.push_pop[rows]
        rows = rows[same & (ranges.start[rows] >= ranges.end[start])]
    closed = rows[ranges.closed[rows]]
    if opened := len(rows) - len(closed):
        notes.append(note("ranges-unclosed", Severity.WARN, ranges=opened))
    by_thread = {
        thread: _outermost(ranges, closed[ranges.thread[closed] == thread])
        for thread in distinct(ranges.thread[closed]).tolist()
    }
    outermost = sum(map(len, by_thread.values()))
    rows = _of_one_thread(by_thread, notes)
    if rule.steps is None:
        rows = _without_cut_last(ranges, rows, notes)
    left = len(rows) - rule.warmup
    lacks = rule.steps is not None and left < rule.steps
    if left > 0 and outermost < len(closed) and (rule.is_pattern or lacks):
        notes.append(note("ranges-nested", Severity.WARN, ranges=len(closed) - outermost))
    held = outermost - rule.warmup
    if rule.steps is not None and held > rule.steps and start is None and not rule.is_pattern:
        # More ranges than the declared steps bear their name: it may be the project's own.
        counts = {"ranges": held, "steps": rule.steps}
        notes.append(note("steps-ambiguous", Severity.INVALID, name=rule.step, **counts))
    return rows


def _spans(ranges: Ranges, rows: Ints, notes: Sequence[Note]) -> StepSpans:
    """The steps that are measured, of one thread."""
    found = Counter(kinds_of(list(ranges.name[rows])))
    few = sorted(found.items()) if len(found) <= MOST_STEP_NAMES else ()
    return StepSpans(
        process=int(ranges.process[rows[0]]),
        starts=ranges.start[rows],
        ends=_until_next(ranges, rows),
        thread=int(ranges.thread[rows[0]]),
        rows=rows,
        range_ends=ranges.end[rows],
        resumes=_resumes(ranges, rows),
        names={name: round(count / len(rows), 3) for name, count in few},
        notes=tuple(notes),
    )


def _outermost(ranges: Ranges, rows: Ints) -> Ints:
    """Of a thread's those that lie in no other, in order; one that begins in another and outlasts
    it is the next.

    Work in flight ends in any order: a start/end range in another of its kind is the next as well.
    """
    rows = outer_first(ranges, rows, rows)
    start, end = ranges.start[rows], ranges.end[rows]
    kept = np.append(True, end[1:] > np.maximum.accumulate(end)[:-1])
    free = ~ranges.push_pop[rows]
    if free.any():
        around = np.maximum.accumulate(np.where(kept, np.arange(len(rows)), 0))
        kind = RangeNames.of(kinds_of(list(ranges.name[rows]))).codes
        kept |= free & free[around] & (kind == kind[around])
        # Of those that begin at once the first is the step.
        places = np.flatnonzero(kept)
        kept[places[1:][start[places[1:]] == start[places[:-1]]]] = False
    chosen: Ints = rows[kept]
    return chosen


def outer_first(ranges: Ranges, rows: Ints, steps: Ints) -> Ints:
    """Some ranges in the order in which they begin, outer before inner.

    Of two with the same span that of `steps` is outer, then names decide, so that row order never
    does.
    """
    is_inner = ~np.isin(rows, steps)
    keys = (ranges.name.codes[rows], is_inner, -ranges.end[rows], ranges.start[rows])
    return rows[np.lexsort(keys)]


def _of_one_thread(by_thread: Mapping[int, Ints], notes: list[Note]) -> Ints:
    """The steps of the thread with most."""
    if not by_thread:
        return np.empty(0, np.int64)
    thread, kept = max(by_thread.items(), key=lambda item: (len(item[1]), -item[0]))
    threads = len(by_thread)
    others = [len(own) for other, own in by_thread.items() if other != thread]
    if 2 * max(others, default=0) >= len(kept):
        notes.append(note("loops-at-once", Severity.INVALID, threads=threads))
    elif others:
        notes.append(note("one-thread-measured", Severity.WARN, threads=threads, thread=thread))
    return kept


def _without_cut_last(ranges: Ranges, rows: Ints, notes: list[Note]) -> Ints:
    """Leave out a last step that ends with the capture, if a range inside it ends in the same
    nanosecond or it is shorter than `CUT_BELOW` of the median step.

    nsys gives a range that the end of the capture cut the last NVTX timestamp, and marks it in no
    way. Where a number of steps is declared the worker stops the capture after the last, so that
    one is taken as it is.
    """
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
    notes.append(note("last-step-cut", Severity.WARN))
    return rows[:-1]


def _whole_window(timeline: Timeline, process: int) -> StepSpans | None:
    """The captured window of a process as one: from its first GPU operation or API call to its last
    GPU operation.

    Without GPU operations to its last API call; a process with neither is measured over its NVTX
    ranges. The thread is the one with most time under ranges, and only its waits count.
    """
    ranges = timeline.ranges
    gpu = [span for ops in timeline.operations if (span := _span(ops, process))]
    calls, marked = _span(timeline.calls, process), _span(ranges, process)
    begun = [*gpu, *([calls] if calls else [])] or ([marked] if marked else [])
    if not begun:
        return None
    own = np.flatnonzero(ranges.process == process)
    threads, code = np.unique(ranges.thread[own], return_inverse=True)
    under = sum_by(code, ranges.end[own] - ranges.start[own], len(threads))
    thread = int(threads[np.argmax(under)]) if len(threads) else 0
    waits = ranges.name.bear(WAIT_RANGE) & ranges.closed
    waits &= (ranges.process == process) & (ranges.thread == thread)
    ends = np.array([max(end for _, end in gpu or begun)], np.int64)
    return StepSpans(
        process=process,
        starts=np.array([min(start for start, _ in begun)], np.int64),
        ends=ends,
        thread=thread,
        rows=np.empty(0, np.int64),
        range_ends=ends,
        resumes=np.zeros(1, np.bool_),
        waits=Idle.from_intervals([ranges.start[waits]], [ranges.end[waits]]).busy,
        whole=True,
    )


def _span(table: Spans | Calls | Ranges, process: int) -> tuple[int, int] | None:
    # What begins and ends at 0 was not timed.
    own = (table.process == process) & ((table.end != 0) | (table.start != 0))
    return (int(table.start[own].min()), int(table.end[own].max())) if own.any() else None


def _resumes(ranges: Ranges, steps: Ints) -> Flags:
    """Which steps follow a wait that lies between it and the one before, on their thread.

    ```
    step           |--0--| |--1--|           |--2--|         |--3--|
    wait    |-a-|     |b|          |-c-|               |--d----|  |e|   |-f-|     c alone does
    ```
    """
    is_wait = ranges.name.bear(WAIT_RANGE) & ranges.closed
    is_wait &= ranges.process == ranges.process[steps[0]]
    waits = np.flatnonzero(is_wait & (ranges.thread == ranges.thread[steps[0]]))
    following = np.searchsorted(ranges.start[steps], ranges.end[waits])
    inner = (following > 0) & (following < len(steps))
    waits, following = waits[inner], following[inner]
    between = ranges.start[waits] >= ranges.end[steps[following - 1]]
    resumes = np.zeros(len(steps), np.bool_)
    resumes[following[between]] = True
    return resumes


def _until_next(ranges: Ranges, rows: Ints) -> Ints:
    """Where each of one thread's steps ends: with its range, or where the next begins."""
    return np.minimum(ranges.end[rows], np.append(ranges.start[rows][1:], ranges.end[rows][-1:]))


def _not_found(
    timeline: Timeline, rule: _Rule, matching: Flags, without: Sequence[Note]
) -> StepsNotFound:
    names, of = timeline.ranges.name, {"source": timeline.source, "step": rule.step}
    if without:
        is_warmup = any(one.code == "all-warmup" for one in without)
        code = "steps-all-warmup" if is_warmup else "steps-all-of-others"
        return StepsNotFound(code, source=timeline.source, processes=tuple(without))
    if opened := int(matching.sum()):
        return StepsNotFound("steps-left-open", ranges=opened, **of)
    if set(names.texts) <= set(OWN_RANGES):
        return StepsNotFound("no-ranges", **of)
    return StepsNotFound(
        "steps-misnamed",
        likely=likely_steps(timeline.ranges, rule.step, is_pattern=rule.is_pattern),
        **of,
    )
