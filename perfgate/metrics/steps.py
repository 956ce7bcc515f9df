"""Which NVTX ranges of a capture are the steps to measure; it must not know what ran in them."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from perfgate.metrics.intervals import merged, sorted_edges, sum_by
from perfgate.metrics.kinds import NUMBER, kinds, pieces, template
from perfgate.model.arrays import distinct
from perfgate.model.errors import ConfigInvalid, StepsNotFound
from perfgate.model.names import RangeNames, Texts
from perfgate.model.timeline import Flags, Ints, Ranges, SmallInts, Timeline
from perfgate.model.workload import OWN_RANGES, START_RANGE, STEP_RANGE, WAIT_RANGE, WARMUP_RANGE
from perfgate.words import say

CUT_BELOW = 0.8
"""A last step that ends with the capture and is shorter than this share of the median step was cut off."""
SUGGESTIONS = 5
"""Range names told in `StepsNotFound`."""
_NEAR = 0.75
"""How alike (difflib's ratio) a name is to what was asked for, from which it is taken for a misspelling."""
LONGEST_NAME = 100
"""Characters of a range name told there; of a longer one its ends, so far as a pattern for it takes them."""
_HEAD, _TAIL = 64, 32
CROSSED = (
    "Match the outermost of them alone. If tasks take turns on that thread (asyncio), push and pop of one close the "
    "other's ranges: draw the steps with nvtx.start_range and nvtx.end_range."
)
"""What helps where ranges that match lie in one another."""
FORKED = "A process that is forked and does not exec is not recorded: take the steps in the first one, or spawn it."
"""What may be so where a capture holds no range that comes more than once."""
UNAWAITED = "If a launcher starts the process of the steps, it must wait for it: the capture ends with the launcher."
"""What may be so where steps are missing at the end."""
MOST_OVERLAP = 0.05
"""Share of a step by which the next may begin before it has ended, on another thread: they take turns."""
MOST_LEFT_OUT = 0.05
"""Share of the steps' time that may lie between perfgate's own where other ranges begin: else it is microseconds."""
MOST_STEP_NAMES = 40
"""Names of steps that are told apart; more of them are no names but values."""
_COLON = re.compile(r"(?<!:):(?!:)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """The steps of one process in order of time, which do not overlap; or, if `whole`, its window as one."""

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
    """Starts and ends of the waits between two steps; in a whole window of all its waits, disjoint and in order."""
    whole: bool = False
    drawn: int | None = None
    """How many a pattern finds, with the warm-up and those behind the last that is used; None without a pattern."""
    names: Mapping[str, float] = field(default_factory=dict)
    """What share of them bears each name, with numbers and ids replaced; none where names are too many to tell."""
    remarks: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()
    """Why they may not be the steps that were declared."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def resumes(self) -> Flags:
        """Which steps are the first after a wait: what passed since the step before them is no period."""
        flags = np.zeros(len(self) + 1, np.bool_)
        flags[np.searchsorted(self.starts, self.waits[1])] = True
        return flags[:-1]


def find_steps(
    timeline: Timeline,
    names: RangeNames,
    *,
    step: str,
    is_pattern: bool,
    warmup: int = 0,
    steps: int | None = None,
) -> tuple[Steps, ...]:
    """The steps of every process that has any, by process index.

    A step is a closed range whose name is `step`; with `is_pattern`, one whose name, with or without its domain,
    matches all of the regular expression `step`. A range `scheduler:step` may be `step` of a domain or have a colon in
    its name: where others of its process match with less cut off, those are the steps, and it is remarked. Of nested
    matches on one thread the outermost is the step; one that the next begins inside of, as start/end ranges of work in
    flight do, ends there. In flight they may end in any order: of start/end ranges of one kind (names without numbers
    and ids) none is nested. Where several threads of a process hold steps at the same time, those of the thread with
    most steps are taken; that another holds half as many is a complaint. The first `warmup` are skipped, at most
    `steps` are used after them.

    A project may mark steps of its own by the name that perfgate gives to those of a decorated workload. Where the
    capture holds the `START_RANGE`, only what follows it on its thread is taken. Where it does not, more of them than
    the declared `steps` are a complaint; a pattern is the user's own, and takes the first of them.

    In an interleaved duet a process waits between some of its steps, inside a closed `WAIT_RANGE` on the thread of the
    step that follows. Waits anywhere else are none.

    A step may have been cut by the end of the capture: nsys then gives it the last NVTX timestamp and marks it in no
    way. With a declared number of steps the worker stops the capture after the last, so the last one is taken as it
    is. Without, it is dropped if it ends with the capture and either a range inside it ends in the same nanosecond or
    it is shorter than `CUT_BELOW` of the median step.

    Raises:
        StepsNotFound: no process has a step left after warm-up.
        ConfigInvalid: `step` is no regular expression though `is_pattern` is set.
    """
    ranges = timeline.ranges
    cuts = _cuts(names.texts, step, is_pattern=is_pattern)[names.codes]
    start = _start(ranges, names) if step == STEP_RANGE else None
    found: list[Steps] = []
    left_out: list[str] = []
    foreign: list[str] = []
    left_open = 0
    crossing = False
    for process, pid in enumerate(timeline.processes):
        all_rows = np.flatnonzero((cuts >= 0) & (ranges.process == process))
        if start is not None and process != ranges.process[start]:
            if len(all_rows):
                foreign.append(
                    f"process {pid} holds step ranges, none of them perfgate's ({len(all_rows)})"
                )
            continue
        rows = (
            _without_warmup(ranges, all_rows, names)
            if start is None
            else _behind(ranges, all_rows, start)
        )
        remarks: list[str] = []
        complaints: list[str] = []
        rows = _least_cut(ranges, rows, cuts, names, step, remarks)
        # Turns of the warm-up that hold all steps were never closed: nsys ends such ranges with its capture.
        left_open += len(all_rows) if not len(rows) else int((~ranges.closed[rows]).sum())
        unclosed = rows[~ranges.closed[rows]]
        if len(unclosed):
            remarks.append(f"step ranges were never closed and are not counted ({len(unclosed)})")
        closed = rows[ranges.closed[rows]]
        outermost = _outermost(ranges, closed, names, remarks)
        is_inner = np.ones(len(cuts), np.bool_)
        for its in outermost.values():
            is_inner[its] = False
        inner = closed[is_inner[closed]]
        rows = _one_after_another(ranges, outermost, remarks, complaints)
        if steps is None:
            rows = _without_cut_last(ranges, rows, remarks)
        matched = len(rows)
        rows = rows[warmup:]
        crossed = ""
        if len(inner) and (
            is_pattern
            or (steps is not None and len(rows) < steps)
            or not ranges.push_pop[inner].all()
        ):
            crossed = f"ranges that match lie inside another one that does, and are not counted ({len(inner)})"
            if 2 * np.count_nonzero(ranges.end[inner] == ranges.end.max()) > len(inner):
                crossed += "; most end with the capture: each push needs its pop"
            remarks.append(crossed)
        if matched and not len(rows):
            told = f"process {pid} holds step ranges, all of them warm-up ({matched})"
            left_out.append(f"{told}; {crossed}" if crossed else told)
            crossing = crossing or bool(crossed)
        if steps is not None:
            if start is not None:
                complaints += _crossed_by_others(ranges, names, rows[:steps])
            if start is not None and len(rows) >= steps:
                # What comes after the last turn is the project's, but not in the place of a turn that was left open.
                rows = rows[
                    : max(
                        steps - int((ranges.start[unclosed] < ranges.start[rows[steps - 1]]).sum()),
                        0,
                    )
                ]
            elif not is_pattern and (named := sum(map(len, outermost.values())) - warmup) > steps:
                complaints.append(
                    f"{named} ranges are named {step!r} where {steps} were declared, and which are the loop's own "
                    "cannot be told; rename those that the project draws itself"
                )
            rows = rows[:steps]
        if len(rows):
            remarks += _of_several_prefixes(names, rows, cuts, step)
            follow = len(rows) == rows[-1] - rows[0] + 1 and bool((rows[1:] > rows[:-1]).all())
            some = (
                slice(int(rows[0]), int(rows[-1]) + 1) if follow else rows
            )  # a slice takes no room
            ends = _until_next(ranges, rows)
            found.append(
                Steps(
                    process=process,
                    starts=ranges.start[some],
                    ends=ranges.end[some] if np.array_equal(ends, ranges.end[some]) else ends,
                    threads=ranges.thread[some],
                    rows=rows,
                    range_ends=ranges.end[some],
                    waits=_between(ranges, rows, _waits(ranges, names, process)),
                    drawn=matched if is_pattern else None,
                    names=_named(names, rows),
                    remarks=tuple(remarks),
                    complaints=tuple(complaints),
                )
            )
    if not found:
        if foreign and not left_open:
            raise StepsNotFound(
                subject=timeline.source,
                fact="no step of the loop itself is in the capture",
                expectation=f"What bears that name is another's: {'; '.join(foreign)}",
                next_step="Run it again; if that does not help: perfgate doctor",
            )
        raise _not_found(
            timeline,
            names,
            step,
            is_pattern=is_pattern,
            left_out=left_out,
            left_open=left_open,
            crossing=crossing,
        )
    return tuple(
        dataclasses.replace(one, remarks=(*one.remarks, *left_out, *foreign)) for one in found
    )


def whole_windows(timeline: Timeline, names: RangeNames) -> tuple[Steps, ...]:
    """The captured window of each process as one: from its first GPU operation or API call to its last GPU operation.

    Without GPU operations to its last API call; a process with neither is measured over its NVTX ranges. The thread is
    the one with most time under ranges, and only its waits are told.

    Raises:
        StepsNotFound: the capture holds no operation, call or range.
    """
    found: list[Steps] = []
    for process in range(len(timeline.processes)):
        # What begins and ends at 0 was not timed.
        gpu = [
            _span(
                ops.start, ops.end, (ops.process == process) & ((ops.end != 0) | (ops.start != 0))
            )
            for ops in timeline.operations
        ]
        calls = _span(timeline.calls.start, timeline.calls.end, timeline.calls.process == process)
        of_process = timeline.ranges.process == process
        marked = _span(timeline.ranges.start, timeline.ranges.end, of_process)
        begun = [span for span in (*gpu, calls) if span] or [span for span in (marked,) if span]
        ended = [span for span in gpu if span] or begun
        if not begun:
            continue
        thread = _main_thread(timeline.ranges, np.flatnonzero(of_process))
        waits = _waits(timeline.ranges, names, process)
        waits = waits[timeline.ranges.thread[waits] == thread]
        found.append(
            Steps(
                process=process,
                starts=np.array([min(start for start, _ in begun)], np.int64),
                ends=(ends := np.array([max(end for _, end in ended)], np.int64)),
                threads=np.array([thread], np.int64),
                rows=np.empty(0, np.int64),
                range_ends=ends,
                waits=merged(
                    *sorted_edges([timeline.ranges.start[waits]], [timeline.ranges.end[waits]])
                ),
                whole=True,
            )
        )
    if not found:
        raise StepsNotFound(
            subject=timeline.source,
            fact="the capture holds no GPU operation, CUDA call or NVTX range",
            expectation=". ".join(
                why[:1].upper() + why[1:]
                for why in dict.fromkeys(map(say.fact, timeline.missing.values()))
            ),
            next_step="Capture with nsys profile --trace=cuda,nvtx, and see that the program runs inside the window.",
        )
    return tuple(found)


def matching(texts: Texts, step: str, *, is_pattern: bool) -> Flags:
    """Which range names are those of steps: `step` itself or, with `is_pattern`, what the regular expression matches.

    Raises ConfigInvalid for what is no regular expression.
    """
    return np.greater_equal(_cuts(texts, step, is_pattern=is_pattern), 0)


def _cuts(texts: Texts, step: str, *, is_pattern: bool) -> SmallInts:
    """How many parts that end in a colon are cut off each name for it to match; -1 where it does not match.

    The first such part may be the name of a domain. So may several: those are cut off only where nothing else matches.
    """
    if not is_pattern:
        named = np.full(len(texts), -1, np.int32)
        named[[at for at in (texts.place(step),) if at is not None]] = 0
        return named
    try:
        pattern = re.compile(step)
    except re.error as error:
        raise ConfigInvalid(
            subject=f"step {step!r}",
            fact=f"not a regular expression: {error}",
            next_step="Correct the pattern, or escape what is meant literally with a backslash.",
        ) from error

    own = [place for text in OWN_RANGES if (place := texts.place(text)) is not None]
    found = np.full(len(texts), -1, np.int32)
    found[[place for place, match in enumerate(map(pattern.fullmatch, texts)) if match]] = 0
    for place, text in enumerate(texts) if b":" in texts.buffer else ():
        if (
            found[place]
            and 0 < (after := text.find(":") + 1) < len(text)
            and pattern.fullmatch(text[after:])
        ):
            found[place] = 1
    found[own] = -1
    if not (found >= 0).any():
        for place, text in enumerate(texts):
            rests = enumerate((text[at:] for at in _after_colons(text)), 1)
            found[place] = next(
                (cuts for cuts, rest in rests if rest and pattern.fullmatch(rest)), -1
            )
        found[own] = -1
    return found


def _after_colons(text: str) -> list[int]:
    """Where a name goes on after its first colon, and after every later one that is no part of `::`."""
    first = text.find(":") + 1
    return [first, *(one.end() for one in _COLON.finditer(text, first))] if first else []


def _least_cut(
    ranges: Ranges, rows: Ints, cuts: SmallInts, names: RangeNames, step: str, remarks: list[str]
) -> Ints:
    """Of one process's matches those with the least cut off; what else matches outside of them is remarked."""
    if not len(rows):
        return rows
    closed = rows[ranges.closed[rows]]
    least = cuts[closed if len(closed) else rows].min()
    chosen: Ints = rows[cuts[rows] <= least]
    others = rows[cuts[rows] > least]
    starts, ends = merged(*sorted_edges([ranges.start[chosen]], [ranges.end[chosen]]))
    before = np.searchsorted(starts, ranges.start[others], side="right") - 1
    outside = others[(before < 0) | (ranges.start[others] >= ends[np.maximum(before, 0)])]
    if len(outside):
        told = listed_names(names.texts[code] for code in distinct(names.codes[outside]).tolist())
        remarks.append(
            f"ranges match {_quoted(step)} only after a colon, where others match with less cut off, "
            f"and are not counted ({len(outside)}): {told}"
        )
    return chosen


def _of_several_prefixes(
    names: RangeNames, rows: Ints, cuts: SmallInts, step: str
) -> Iterator[str]:
    """Say of steps that differ in what was cut off: it may be two domains, or a step and a part of one."""
    if not (cuts[rows] > 0).any():
        return
    some, first = np.unique(names.codes[rows], return_index=True)
    texts = {
        names.texts[code]: cut
        for code, cut in zip(some.tolist(), cuts[rows[first]].tolist(), strict=True)
    }
    prefixes = {text[: _after_colons(text)[cut - 1]] for text, cut in texts.items() if cut}
    if len(prefixes) > 1:
        told = listed_names(texts)
        yield f"ranges that differ before a colon match {_quoted(step)}, and all are counted as steps: {told}"


def listed_names(texts: Iterable[str]) -> str:
    """The first of some names, those that differ in numbers only as one."""
    alike = sorted({template(text) for text in texts})
    more = [f"{len(alike) - SUGGESTIONS} more"] if len(alike) > SUGGESTIONS else []
    return ", ".join([*map(_shortened, alike[:SUGGESTIONS]), *more])


def _without_warmup(ranges: Ranges, rows: Ints, names: RangeNames) -> Ints:
    """Leave out what begins in a warm-up turn: a loop may call its own ranges as perfgate calls its steps."""
    warm = np.flatnonzero(names.bear(WARMUP_RANGE))
    if not len(warm) or not len(rows):
        return rows
    warm = warm[(ranges.process[warm] == ranges.process[rows[0]]) & ranges.closed[warm]]
    warm = warm[np.argsort(ranges.start[warm], kind="stable")]
    if not len(warm):
        return rows
    before = np.searchsorted(ranges.start[warm], ranges.start[rows], side="right") - 1
    inside = (before >= 0) & (ranges.start[rows] < ranges.end[warm][np.maximum(before, 0)])
    kept: Ints = rows[~inside]
    return kept


def _start(ranges: Ranges, names: RangeNames) -> int | None:
    """The last range that says where perfgate's own steps begin."""
    rows = np.flatnonzero(names.bear(START_RANGE) & ranges.closed)
    return int(rows[np.argmax(ranges.end[rows])]) if len(rows) else None


def _behind(ranges: Ranges, rows: Ints, start: int) -> Ints:
    """Those drawn as perfgate draws its steps, pushed and popped on the thread of this range, after it.

    Until the last turn nothing but perfgate runs there between two of them.
    """
    same = (ranges.thread[rows] == ranges.thread[start]) & ranges.push_pop[rows]
    behind: Ints = rows[same & (ranges.start[rows] >= ranges.end[start])]
    return behind


def _crossed_by_others(ranges: Ranges, names: RangeNames, rows: Ints) -> Iterator[str]:
    """Say that perfgate's own steps were closed by pops of other ranges, and lack a part of their turns.

    Between two of them only perfgate runs on their thread. What begins there shows that a turn was not at its end:

    ```
    pushed    step |------|  |------|      a turn ends where the next begins
    load           |   |-----|   |-----    its task pops what was pushed last, and perfgate at the turn's end as well
    ```
    """
    if not len(rows):
        return
    others = (
        (ranges.thread == ranges.thread[rows[0]])
        & (ranges.process == ranges.process[rows[0]])
        & ranges.push_pop
    )
    for own in (STEP_RANGE, *OWN_RANGES):
        others &= ~names.bear(own)
    starts, ends = ranges.start[rows], ranges.end[rows]
    found = np.flatnonzero(others)
    before = np.searchsorted(starts, ranges.start[found], side="right") - 1
    apart = (before >= 0) & (before < len(rows) - 1) & (ranges.start[found] >= ends[before])
    turns = distinct(before[apart])
    left_out = int((starts[turns + 1] - ends[turns]).sum()) / max(int(ends[-1] - starts[0]), 1)
    if left_out > MOST_LEFT_OUT:
        told = listed_names(
            names.texts[code] for code in distinct(names.codes[found[apart]]).tolist()
        )
        yield (
            f"ranges begin where a step has ended and its turn has not ({told}), and {left_out:.0%} of the time is in "
            "no step: on that thread push and pop of one range close another. If tasks take turns there (asyncio), or "
            "a range is open while the next step is asked for, draw it with nvtx.start_range and nvtx.end_range"
        )


def _waits(ranges: Ranges, names: RangeNames, process: int) -> Ints:
    return np.flatnonzero(names.bear(WAIT_RANGE) & (ranges.process == process) & ranges.closed)


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


def _outermost(
    ranges: Ranges, rows: Ints, names: RangeNames, remarks: list[str]
) -> Mapping[int, Ints]:
    """Of each thread those that lie in no other, in order; one that begins in another and outlasts it is the next.

    Work in flight ends in any order: a start/end range in another of its kind is the next as well.
    """
    by_thread: dict[int, Ints] = {}
    partly = 0
    starts = ranges.start[rows]
    in_order = rows
    if not bool((starts[1:] > starts[:-1]).all()):
        in_order = rows[np.lexsort((names.codes[rows], -ranges.end[rows], starts))]
    for thread in distinct(ranges.thread[rows]).tolist():
        own = in_order[ranges.thread[in_order] == thread]
        start, end, push_pop = ranges.start[own], ranges.end[own], ranges.push_pop[own]
        longest = np.maximum.accumulate(end)
        kept = np.append(True, end[1:] > longest[:-1])
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
        remarks.append(
            f"step ranges begin inside the step before them, which is measured until there ({partly})"
        )
    return by_thread


def _until_next(ranges: Ranges, rows: Ints) -> Ints:
    """Where each of one thread's steps ends: with its range, or where the next begins."""
    return np.minimum(ranges.end[rows], np.append(ranges.start[rows][1:], ranges.end[rows][-1:]))


def _named(names: RangeNames, rows: Ints) -> dict[str, float]:
    codes = names.codes[rows]
    found = kinds(names.texts.taken((some := distinct(codes)).astype(np.int64)))
    counts = np.bincount(
        found.codes[np.searchsorted(some, codes)], minlength=len(found.texts)
    ).tolist()
    told = zip(found.texts, counts, strict=True) if len(counts) <= MOST_STEP_NAMES else ()
    return {name: round(count / len(rows), 3) for name, count in told}


def _one_after_another(
    ranges: Ranges, by_thread: Mapping[int, Ints], remarks: list[str], complaints: list[str]
) -> Ints:
    """The steps of all threads where no two overlap, else those of one thread."""
    together = np.concatenate([*by_thread.values(), np.empty(0, np.int64)])
    ends = np.concatenate(
        [*(_until_next(ranges, kept) for kept in by_thread.values()), np.empty(0, np.int64)]
    )
    order = np.argsort(ranges.start[together], kind="stable")
    together, ends = together[order], ends[order]
    overlap = np.median(ends - ranges.start[together]) * MOST_OVERLAP if len(together) else 0
    if (ranges.start[together][1:] >= ends[:-1] - overlap).all():
        return together
    thread, kept = max(by_thread.items(), key=lambda item: (len(item[1]), -item[0]))
    told = f"{len(by_thread)} threads hold steps at the same time"
    if 2 * max(len(others) for other, others in by_thread.items() if other != thread) >= len(kept):
        complaints.append(
            f"{told}, each of a loop of its own: let `step` match the name of one thread's alone"
        )
    else:
        remarks.append(f"{told}: those of thread {thread} are measured")
    return kept


def _without_cut_last(ranges: Ranges, rows: Ints, remarks: list[str]) -> Ints:
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
    remarks.append(
        "the last step ends with the capture, may have been cut off by it and is not counted"
    )
    return rows[:-1]


def _span(start: Ints, end: Ints, chosen: Flags) -> tuple[int, int] | None:
    if not chosen.any():
        return None
    return int(start[chosen].min()), int(end[chosen].max())


def _main_thread(ranges: Ranges, rows: Ints) -> int:
    threads, code = np.unique(ranges.thread[rows], return_inverse=True)
    total = sum_by(code, ranges.end[rows] - ranges.start[rows], len(threads))
    return int(threads[np.argmax(total)]) if len(threads) else 0


def _not_found(
    timeline: Timeline,
    names: RangeNames,
    step: str,
    *,
    is_pattern: bool,
    left_out: Sequence[str],
    left_open: int,
    crossing: bool,
) -> StepsNotFound:
    asked = f"matches {_quoted(step)}" if is_pattern else f"is named {step!r}"
    if left_out:
        return StepsNotFound(
            subject=timeline.source,
            fact=f"no step is left after warm-up: {'; '.join(left_out)}",
            expectation="Measured steps come after the warm-up",
            next_step=CROSSED if crossing else f"Run more steps, or lower `warmup`. {UNAWAITED}",
        )
    if not names.texts:
        why = timeline.missing.get("ranges")
        return StepsNotFound(
            subject=timeline.source,
            fact=f"the capture holds no NVTX range{f' ({say.fact(why)})' if why else ''}, so none {asked}",
            expectation="Each step is one NVTX range",
            next_step=f"{FORKED} See that the loop draws a range around each step, that what starts its process hands "
            "its own environment on (`env=` and `env -i` do not), and that nsys hears its NVTX: perfgate doctor",
        )
    if left_open:
        opened = f"{left_open} {'was' if left_open == 1 else 'were'} opened and not closed"
        return StepsNotFound(
            subject=timeline.source,
            fact=f"no closed NVTX range {asked}: {opened}",
            expectation="Each push needs its pop: a range pushed in a step and not popped takes the step's own",
            next_step="Use `with nvtx.annotate(...)` (of torch: torch.cuda.nvtx.range), which pops by itself.",
        )
    if set(names.texts) <= set(OWN_RANGES):
        return StepsNotFound(
            subject=timeline.source,
            fact=f"no NVTX range {asked}, and none but those that perfgate draws before the steps",
            expectation="Each step is one NVTX range",
            next_step="A process that ends by os._exit is gone before nsys has its last ranges: let it end by itself. "
            f"{FORKED}",
        )
    likely = _suggested(timeline, names, step, is_pattern=is_pattern)
    told = ", ".join(f"{name} ({'once' if n == 1 else f'{n} times'})" for name, n in likely.items())
    name_it = "Give the name of the step's range, or a regular expression that matches all of it."
    return StepsNotFound(
        subject=timeline.source,
        fact=f"no NVTX range {asked}",
        expectation=f"Perhaps you meant {told}",
        next_step=name_it if max(likely.values()) > 1 else f"{name_it} {FORKED}",
    )


def _suggested(
    timeline: Timeline, names: RangeNames, asked: str, *, is_pattern: bool
) -> Mapping[str, int]:
    """Names as a user would ask for them, what was misspelt first and then the most frequent.

    Names that differ in numbers only are one pattern. Of equally frequent ones the longer comes first: steps hold the
    others. Threads and ranks may mark the same steps, each once. More numbers than times that each occurs may be the
    steps of some epochs as well as the layers of some steps: then both are told, the pattern and the names. What
    perfgate itself draws is none.
    """
    ranges = timeline.ranges
    threads = len(distinct((ranges.process.astype(np.int64) << 40) + ranges.thread))
    counts = np.bincount(names.codes, minlength=len(names.texts))
    lasted = np.bincount(names.codes, weights=ranges.end - ranges.start, minlength=len(names.texts))
    found = pieces(names.texts)
    own = [at for text in OWN_RANGES if (at := names.texts.place(text)) is not None]
    told: dict[str, tuple[int, float]] = {}
    for group in _by_group(found.codes):
        codes = group[~np.isin(group, own)]
        if not len(codes):
            continue
        each = int(counts[codes].max())
        suggested: list[tuple[str, Ints]] = []
        if len(codes) > 1 and each < len(codes) * threads:
            suggested.append((_pattern([names.texts[code] for code in codes.tolist()]), codes))
        if not suggested or each > threads:
            alone = [
                (names.texts[code], codes[place : place + 1])
                for place, code in enumerate(codes.tolist())
            ]
            suggested += [
                (_pattern([text], literal=True) if is_pattern else _shortened(text), code)
                for text, code in alone
            ]
        for text, meant in suggested:
            count, length = told.get(_quoted(text), (0, 0.0))
            told[_quoted(text)] = (
                count + int(counts[meant].sum()),
                length + float(lasted[meant].sum()),
            )
    near = difflib.get_close_matches(_quoted(asked), told, n=SUGGESTIONS, cutoff=_NEAR)
    frequent = sorted(told, key=lambda name: (*(-number for number in told[name]), name))
    return {name: told[name][0] for name in list(dict.fromkeys([*near, *frequent]))[:SUGGESTIONS]}


def _by_group(groups: SmallInts) -> Iterable[Ints]:
    """The places of each group."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1) if len(order) else ()


def _pattern(texts: Sequence[str], *, literal: bool = False) -> str:
    """A regular expression that matches these texts, which differ in numbers only; of one it may match it alone."""
    around = texts[:1] if literal else NUMBER.split(texts[0])
    if sum(map(len, around)) > LONGEST_NAME:
        return f"{_escaped(around[0][:_HEAD])}(?s:.*){_escaped(around[-1][-_TAIL:])}"
    pattern = _escaped(around[0])
    if literal:
        return pattern
    for numbers, piece in zip(
        zip(*map(NUMBER.findall, texts), strict=True), around[1:], strict=True
    ):
        hexadecimal = any(number.startswith("0x") for number in numbers)
        pattern += (f"(?:{NUMBER.pattern})" if hexadecimal else r"\d+") + _escaped(piece)
    return pattern


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else f"{text[:_HEAD]}...{text[-_TAIL:]}"


def _escaped(text: str) -> str:
    """As a regular expression that matches this text; spaces mean themselves anyway.

    What cannot be seen is spelled out, in a way that both Python and a regular expression read as the character.
    """
    return "".join(
        re.escape(character).replace(r"\ ", " ")
        if character.isprintable()
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def _quoted(pattern: str) -> str:
    """In quotes as in a shell or a YAML file, where a backslash is one backslash."""
    return repr(pattern).replace(r"\\", "\\")
