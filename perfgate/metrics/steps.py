"""Which NVTX ranges of a capture are the steps to measure; it must not know what ran in them."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from perfgate.metrics.intervals import Idle, sum_by
from perfgate.metrics.kinds import NUMBER, kinds_of
from perfgate.model.arrays import RangeNames, distinct, parts
from perfgate.model.errors import ConfigInvalid, StepsNotFound
from perfgate.model.note import Note, Severity, note
from perfgate.model.timeline import Calls, Flags, Ints, Ranges, SmallInts, Spans, Timeline
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
_AS_SHOWN: Final = (("\\ ", " "), ("\\\n", "\\n"), ("\\\t", "\\t"))
"""What re.escape makes of white space, and what can be copied from a message."""
MOST_STEP_NAMES: Final = 40
"""Names of steps that are kept; more of them are no names but values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSpans:
    """The steps of one process in order of time, none overlapping; or, if `whole`, its window."""

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
        texts = [text if text not in OWN_RANGES else "" for text in ranges.name.texts]
        whole = [bool(text and pattern.fullmatch(text)) for text in texts]
        behind = [
            ":" in text
            and any(pattern.fullmatch(text, at.end()) for at in re.finditer(":(?!$)", text))
            for text in texts
        ]
        by_whole, by_rest = (
            np.array(each, np.bool_)[ranges.name.codes] for each in (whole, behind)
        )
        return by_whole if (by_whole & ranges.closed).any() else by_whole | by_rest


def find_steps(
    timeline: Timeline,
    *,
    step: str | None,
    is_pattern: bool = False,
    warmup: int = 0,
    steps: int | None = None,
) -> tuple[StepSpans, ...]:
    """The steps of every process that has any, by process index; with `step` None the window of
    each as one.

    `step` is a range's name; or, with `is_pattern`, a regular expression that matches all of it,
    with or without what stands before a colon (a domain). Of nested matches on one thread the
    outermost is the step; one that the next begins inside of, as start/end ranges of work in flight
    do, ends there. Where several threads of a process hold
    steps at the same time, those of the thread with most steps are taken; that another holds half
    as many makes the run INVALID. The first `warmup` are skipped, at most `steps` are used after
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
    if step is None:
        return _whole_windows(timeline)
    ranges, start = timeline.ranges, None
    rule = _Rule(step=step, is_pattern=is_pattern, warmup=warmup, steps=steps)
    matching = rule.matching(ranges)
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
        own, drawn = _of_process(ranges, rule, process, rows, start)
        if own is not None:
            found.append(own)
        elif drawn:
            code = "all-warmup" if drawn == len(rows) else "all-warmup-of-more"
            fields = {"pid": pid, "ranges": drawn, "matching": len(rows)}
            without.append(Note(code=code, severity=Severity.WARN, fields=fields))
    if not found:
        raise _not_found(timeline, rule, matching, without)
    return tuple(dataclasses.replace(one, notes=(*one.notes, *without)) for one in found)


def _of_process(
    ranges: Ranges, rule: _Rule, process: int, rows: Ints, start: int | None
) -> tuple[StepSpans | None, int]:
    """The steps that are measured, if any, and how many there are with the warm-up.

    `rows` are the ranges that match, `start` is the `START_RANGE`.
    """
    notes: list[Note] = []
    if start is not None:
        # Pushed and popped on its thread: between two turns nothing but perfgate runs there.
        same = (ranges.thread[rows] == ranges.thread[start]) & ranges.push_pop[rows]
        rows = rows[same & (ranges.start[rows] >= ranges.end[start])]
    closed, opened = rows[ranges.closed[rows]], rows[~ranges.closed[rows]]
    if len(opened):
        notes.append(note("ranges-unclosed", Severity.WARN, ranges=len(opened)))
    by_thread = {
        thread: _outermost(ranges, closed[ranges.thread[closed] == thread])
        for thread in distinct(ranges.thread[closed]).tolist()
    }
    outermost = sum(map(len, by_thread.values()))
    rows = _one_after_another(ranges, by_thread, notes)
    if rule.steps is None:
        rows = _without_cut_last(ranges, rows, notes)
    drawn, rows = len(rows), rows[rule.warmup :]
    if not len(rows):
        return None, drawn
    if (inner := len(closed) - outermost) and (
        rule.is_pattern or (rule.steps is not None and len(rows) < rule.steps)
    ):
        notes.append(note("ranges-nested", Severity.WARN, ranges=inner))
    if rule.steps is not None and start is not None:
        notes += _cut_by_others(ranges, rows[: rule.steps])
        if len(rows) >= rule.steps:
            # What follows the last turn is the project's, and no turn that was left open.
            before = ranges.start[opened] < ranges.start[rows[rule.steps - 1]]
            rows = rows[: max(rule.steps - int(before.sum()), 0)]
    elif rule.steps is not None and not rule.is_pattern and outermost > rule.warmup + rule.steps:
        # More ranges than the declared steps bear their name: it may be the project's own.
        fields = {"ranges": outermost - rule.warmup, "name": rule.step, "steps": rule.steps}
        notes.append(Note(code="steps-ambiguous", severity=Severity.INVALID, fields=fields))
    rows = rows[: rule.steps]
    if not len(rows):
        return None, drawn
    return StepSpans(
        process=process,
        starts=ranges.start[rows],
        ends=_until_next(ranges, rows),
        threads=ranges.thread[rows],
        rows=rows,
        range_ends=ranges.end[rows],
        resumes=_resumes(ranges, rows),
        drawn=drawn if rule.is_pattern else None,
        names=_shares(ranges.name, rows),
        notes=tuple(notes),
    ), drawn


def _outermost(ranges: Ranges, rows: Ints) -> Ints:
    """Of a thread's those that lie in no other, in order; one that begins in another and outlasts
    it is the next.

    Work in flight ends in any order: a start/end range in another of its kind is the next as well.
    """
    names = ranges.name
    rows = rows[np.lexsort((names.codes[rows], -ranges.end[rows], ranges.start[rows]))]
    start, end = ranges.start[rows], ranges.end[rows]
    kept = np.append(True, end[1:] > np.maximum.accumulate(end)[:-1])
    free = ~ranges.push_pop[rows]
    if free.any():
        around = np.maximum.accumulate(np.where(kept, np.arange(len(rows)), 0))
        used, code = np.unique(names.codes[rows], return_inverse=True)
        kind = RangeNames.of(kinds_of([names.texts[one] for one in used.tolist()])).codes[code]
        kept |= free & free[around] & (kind == kind[around])
        # Of those that begin at once the first is the step.
        places = np.flatnonzero(kept)
        kept[places[1:][start[places[1:]] == start[places[:-1]]]] = False
    chosen: Ints = rows[kept]
    return chosen


def _one_after_another(ranges: Ranges, by_thread: Mapping[int, Ints], notes: list[Note]) -> Ints:
    """The steps of all threads where no two overlap, else those of one thread."""
    if not by_thread:
        return np.empty(0, np.int64)
    together = np.concatenate(list(by_thread.values()))
    ends = np.concatenate([_until_next(ranges, own) for own in by_thread.values()])
    order = np.argsort(ranges.start[together], kind="stable")
    together, ends = together[order], ends[order]
    starts = ranges.start[together]
    overlap = np.median(ends - starts) * MOST_OVERLAP
    if (starts[1:] >= ends[:-1] - overlap).all():
        return together
    thread, kept = max(by_thread.items(), key=lambda item: (len(item[1]), -item[0]))
    threads = len(by_thread)
    if 2 * max(len(own) for other, own in by_thread.items() if other != thread) >= len(kept):
        notes.append(note("loops-at-once", Severity.INVALID, threads=threads))
    else:
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


def _whole_windows(timeline: Timeline) -> tuple[StepSpans, ...]:
    """The captured window of each process as one: from its first GPU operation or API call to its
    last GPU operation.

    Without GPU operations to its last API call; a process with neither is measured over its NVTX
    ranges. The thread is the one with most time under ranges, and only its waits count.
    """
    found = [
        one
        for process in range(len(timeline.processes))
        if (one := _whole_window(timeline, process)) is not None
    ]
    if not found:
        raise StepsNotFound("nothing-captured", source=timeline.source)
    return tuple(found)


def _whole_window(timeline: Timeline, process: int) -> StepSpans | None:
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
        threads=np.array([thread], np.int64),
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
        alike = sorted({NUMBER.sub("#", names.texts[code]) for code in codes})
        listed = (*alike[:SUGGESTIONS], *(["..."] if len(alike) > SUGGESTIONS else []))
        yield note("steps-cut-by-others", Severity.INVALID, names=listed, left_out=left_out)


def _resumes(ranges: Ranges, steps: Ints) -> Flags:
    """Which steps follow a wait that lies between it and the one before, on its own thread.

    ```
    step           |--0--| |--1--|           |--2--|         |--3--|
    wait    |-a-|     |b|          |-c-|               |--d----|  |e|   |-f-|     c alone does
    ```
    """
    is_wait = ranges.name.bear(WAIT_RANGE) & ranges.closed
    waits = np.flatnonzero(is_wait & (ranges.process == ranges.process[steps[0]]))
    following = np.searchsorted(ranges.start[steps], ranges.end[waits])
    inner = (following > 0) & (following < len(steps))
    waits, following = waits[inner], following[inner]
    between = ranges.start[waits] >= ranges.end[steps[following - 1]]
    between &= ranges.thread[waits] == ranges.thread[steps[following]]
    resumes = np.zeros(len(steps), np.bool_)
    resumes[following[between]] = True
    return resumes


def _until_next(ranges: Ranges, rows: Ints) -> Ints:
    """Where each of one thread's steps ends: with its range, or where the next begins."""
    return np.minimum(ranges.end[rows], np.append(ranges.start[rows][1:], ranges.end[rows][-1:]))


def _shares(names: RangeNames, rows: Ints) -> dict[str, float]:
    codes, counts = np.unique(names.codes[rows], return_counts=True)
    found: Counter[str] = Counter()
    kinds = kinds_of([names.texts[code] for code in codes.tolist()])
    for kind, count in zip(kinds, counts.tolist(), strict=True):
        found[kind] += count
    few = found if len(found) <= MOST_STEP_NAMES else {}
    return {name: round(few[name] / len(rows), 3) for name in sorted(few)}


def _not_found(
    timeline: Timeline, rule: _Rule, matching: Flags, without: Sequence[Note]
) -> StepsNotFound:
    ranges, source = timeline.ranges, timeline.source
    if all_warmup := tuple(one for one in without if one.code != "steps-of-others"):
        return StepsNotFound("steps-all-warmup", source=source, processes=all_warmup)
    if without:
        return StepsNotFound("steps-all-of-others", source=source, processes=tuple(without))
    if matching.any():
        count = int(matching.sum())
        return StepsNotFound("steps-left-open", source=source, step=rule.step, ranges=count)
    if set(ranges.name.texts) <= set(OWN_RANGES):
        code = "no-own-ranges" if len(ranges.start) else "no-ranges"
        return StepsNotFound(code, source=source, step=rule.step)
    likely = _likely(ranges, rule)
    return StepsNotFound("steps-misnamed", source=source, step=rule.step, likely=likely)


def _likely(ranges: Ranges, rule: _Rule) -> tuple[str, ...]:
    """Names as a user would ask for them: what was misspelt first, then the most frequent.

    Of a pattern those that differ in numbers only are one. Of equally frequent ones the longer come
    first: steps hold the others.
    """
    names = ranges.name
    counts = np.bincount(names.codes, minlength=len(names.texts)).tolist()
    lasted = sum_by(names.codes, ranges.end - ranges.start, len(names.texts)).tolist()
    total: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for text, count, ns in zip(names.texts, counts, lasted, strict=True):
        if text in OWN_RANGES:
            continue
        pieces = NUMBER.split(text) if rule.is_pattern else ()
        asked = r"\d+".join(map(re.escape, pieces))
        for escaped, written in _AS_SHOWN:
            asked = asked.replace(escaped, written)
        asked = asked or text
        before = total[asked]
        total[asked] = before[0] + count, before[1] + ns
    near = difflib.get_close_matches(rule.step, total, n=SUGGESTIONS, cutoff=NEAR)
    frequent = sorted(total, key=lambda asked: (*(-one for one in total[asked]), asked))
    return tuple(dict.fromkeys([*near, *frequent]))[:SUGGESTIONS]
