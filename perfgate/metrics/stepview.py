"""One typical step of a capture as lanes of bars, merged until they can be drawn; it must not know who draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, Literal, get_args

import numpy as np

from perfgate.metrics.attribution import Launches, cut
from perfgate.metrics.intervals import Idle
from perfgate.metrics.steps import Steps, find_steps, matching
from perfgate.metrics.tally import COPY_WORDS, GRAPH_WORDS, MEMSET_WORDS, NCCL_KERNEL, tally
from perfgate.metrics.windows import completions, end_periods
from perfgate.model.arrays import distinct
from perfgate.model.errors import StepsNotFound
from perfgate.model.metric import Metric
from perfgate.model.names import RangeNames
from perfgate.model.stepview import Bar, Lane, StepView
from perfgate.model.timeline import (
    MANAGED_COPIES,
    NO_STREAM,
    CopyKind,
    Flags,
    Ints,
    MemoryKind,
    Ranges,
    SmallInts,
    Timeline,
)
from perfgate.model.window import StreamSpans, WindowOps

_Kind = Literal["range", "kernel", "nccl", "graph", "copy", "memset", "idle"]

PIXELS: Final = 4000
"""Width of the finest picture."""
FEWEST_BARS: Final = 1 + len(get_args(_Kind))
"""A view can always be had of so many: the step's own range, and one bar a kind."""
_WIDER: Final = 1.25
"""By how much a pixel grows until all fits."""
_NOT_OURS: Final = -1
"""The turn of what another process launched."""
_SUFFIXES: Final[Mapping[_Kind, str]] = {
    "nccl": " NCCL",
    "graph": " graphs",
    "copy": " copies",
    "memset": " memsets",
}
_OTHERS: Final[Mapping[_Kind, str]] = {
    "range": "other ranges",
    "kernel": "other kernels",
    "nccl": "other NCCL kernels",
    "graph": "other graphs",
    "copy": "other copies",
    "memset": "other memsets",
    "idle": "other idle times",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class StepPlace:
    """Where in a capture the step lies that stands for all of one process. Times are ns on the capture's clock."""

    process: int
    """Index into `Timeline.processes`."""
    index: int
    """Of the measured steps, from 0."""
    name: str
    """Of its range."""
    start: int
    """Where the step before it is complete, so that from here to its end is what it takes; where no period counts, its
    range begins here. The CPU runs ahead: its range may lie before."""
    end: int
    """Where it is complete: its range and the last operation launched in it have ended, and the step before it."""
    period_ns: int | None
    """From the completion of the step before it to its own; None where no period counts."""
    steps: Steps
    """All of the process."""
    devices: tuple[int, ...]
    """That the operations launched in the process's steps ran on."""
    has_idle: bool
    """Whether the capture says when these were idle: not if kernels were launched and none was recorded."""


def typical_step(
    timeline: Timeline,
    *,
    step: str,
    is_pattern: bool = False,
    warmup: int = 0,
    steps: int | None = None,
    pid: int | None = None,
) -> StepPlace:
    """The step whose period is nearest the median period, the earliest of equals; of the slowest process, or of `pid`.

    Periods are those that `step_ms` is the median of. Where there is none (fewer than three steps), the step whose time
    from begin to completion is nearest the median of these. `step`, `is_pattern`, `warmup` and `steps` are those of
    `measure`.

    Raises:
        StepsNotFound: no process, or not the one asked for, has a step left after warm-up.
        ConfigInvalid: `step` is no regular expression though `is_pattern` is set.
    """
    names = timeline.ranges.name
    found = find_steps(
        timeline, names, step=step, is_pattern=is_pattern, warmup=warmup, steps=steps
    )
    chosen = [one for one in found if pid is None or timeline.processes[one.process] == pid]
    if not chosen:
        raise StepsNotFound(
            subject=timeline.source,
            fact=f"process {pid} has no steps",
            expectation=f"There are steps of {', '.join(str(timeline.processes[one.process]) for one in found)}",
            next_step="Ask for a process that has steps.",
        )
    wanted = matching(names.texts, step, is_pattern=is_pattern)
    places = [_typical(timeline, names, one, wanted) for one in chosen]
    return max(places, key=lambda told: told[:2])[2]


def _typical(
    timeline: Timeline, names: RangeNames, steps: Steps, wanted: Flags
) -> tuple[bool, float, StepPlace]:
    """Of one process: whether any period counts, the median period (else time to completion), ns, and the step."""
    segments = cut(timeline.ranges, names, steps)
    totals = tally(timeline, steps.process, segments)
    done = completions(steps, segments, totals)
    kept = end_periods(steps)
    has_period = bool(kept.any())
    lengths = np.diff(done, prepend=0) if has_period else done - steps.starts
    rows = np.flatnonzero(kept) if has_period else np.arange(len(steps))
    median = float(np.median(lengths[rows]))
    index = int(rows[np.argmin(np.abs(lengths[rows] - median))])
    launched = int(totals.by_segment[Metric.LAUNCHES][segments.turn >= 0].sum())
    its = _spans_of(timeline.ranges, steps, index) & wanted[names.codes]
    place = StepPlace(
        process=steps.process,
        index=index,
        name=min(names.told(its)),
        start=int(done[index] - lengths[index]) if has_period else int(steps.starts[index]),
        end=int(done[index]),
        period_ns=int(lengths[index]) if has_period else None,
        steps=steps,
        devices=tuple(sorted(totals.devices)),
        has_idle=not launched or bool(totals.kernels),
    )
    return has_period, median, place


def _spans_of(ranges: Ranges, steps: Steps, index: int) -> Flags:
    """Which ranges have the span of a step, on its thread."""
    found: Flags = (
        (ranges.start == steps.starts[index])
        & (ranges.end == steps.range_ends[index])
        & (ranges.thread == steps.threads[index])
        & (ranges.process == steps.process)
    )
    return found


# --- lanes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """What one lane shows, before anything is merged: disjoint, in order; ns since the place's start."""

    title: str
    kind: _Kind
    start: Ints
    end: Ints
    rows: Ints
    name: Callable[[int], str]
    """Of one of the rows."""
    as_one: bool = False
    """Whether it is several lanes, of which no more can be told than one bar; then it is not disjoint."""


@dataclass(frozen=True, slots=True)
class _Turns:
    """Which step a moment of the process lies in: 2 i + 1 in step i, even numbers outside the steps."""

    edges: Ints
    own: int

    @classmethod
    def of(cls, place: StepPlace) -> _Turns:
        """With the place's step as the own one."""
        return cls(
            np.column_stack((place.steps.starts, place.steps.ends)).ravel(), 2 * place.index + 1
        )

    def at(self, times: Ints) -> SmallInts:
        """The turn of each moment."""
        return np.searchsorted(self.edges, times, side="right").astype(np.int32)

    def mark(self, turn: int) -> str:
        """What a name is followed by; nothing in the own step."""
        if turn in (self.own, _NOT_OURS):
            return ""
        if turn % 2 == 0:
            return " (outside the steps)"
        if abs(turn - self.own) > 2:
            return " (of an earlier step)" if turn < self.own else " (of a later step)"
        return " (of the step before)" if turn < self.own else " (of the step after)"


def step_view(
    place: StepPlace,
    timeline: Timeline,
    ops: WindowOps,
    *,
    label: str,
    most_bars: int = 2000,
    source: str = "",
) -> StepView:
    """The place from its start to its end, in at most `most_bars` bars; what overlaps it is cut off at both.

    ```
    CPU      --step--| |---step----         what is of other steps says so in its name
    CPU 2    --fwd-|    |load||fwd |
    stream     |-k1-|   |---k2-----|
    idle     |-|    |---|
    ```
    - Ranges of the step's thread by depth; those that enclose its own are left out. Where the CPU runs far ahead, they
      are of later steps, or none and the lane is empty. Then those of other threads that launched operations
      in it.
    - Of each device of the process's steps: the streams, with kernels, NCCL's kernels, CUDA graphs traced whole, copies
      and memsets apart, other processes' too; then its idle time, as `gap_ms` counts it. What overlaps on a stream is
      spread over several lanes.
    - An operation is of the step that launched it; without a call, or as moved managed memory, of that in which it ran.
    - With more than `most_bars` bars, neighbours of one lane that begin within one pixel, each shorter than it, become
      one bar; the pixel is 1 / `PIXELS` of the view at first and grows until the bars fit. So nothing that lasts a
      pixel, be it idle time, is ever merged. With more lanes than bars, the least busy ones become one of their kind.

    Operations that CUPTI could not time are in no lane. `ops` must hold the whole of the step: ValueError if not, and
    for fewer than `FEWEST_BARS`.
    """
    if most_bars < FEWEST_BARS:
        raise ValueError(f"a view takes at least {FEWEST_BARS} bars, not {most_bars}")
    if ops.start_ns > place.start or ops.end_ns < place.end:
        raise ValueError(
            f"the step is from {place.start} to {place.end} ns, the operations are of {ops.start_ns} to {ops.end_ns} ns"
        )
    work = _Work(place, timeline, ops)
    lines = [*work.cpu(), *work.gpus()]
    operations = sum(len(line.start) for line in lines)
    pixel, lines = _fitting(lines, place.end - place.start, most_bars)
    lanes = tuple(_lane(line, pixel) for line in lines)
    return StepView(
        label=label,
        length_us=_us(place.end - place.start),
        lanes=lanes,
        operations=operations,
        drawn=sum(len(lane.bars) for lane in lanes),
        pixel_us=_us(pixel),
        source=source,
    )


class _Work:
    """What ran between a place's start and its end."""

    def __init__(self, place: StepPlace, timeline: Timeline, ops: WindowOps) -> None:
        """Tell of each operation which step launched it."""
        self._place, self._timeline, self._ops = place, timeline, ops
        self._turns = _Turns.of(place)
        calls = timeline.calls
        self._calls = np.flatnonzero(calls.process == place.process)
        self._call_turn = self._turns.at(calls.start[self._calls])
        self._launches = Launches.from_calls(calls.correlation[self._calls], self._call_turn)
        by_fault = np.isin(ops.copies.kind, MANAGED_COPIES)
        self._launched_in_step: list[Ints] = []
        self._kernels = self._turn_of(ops.kernels)
        self._graphs = self._turn_of(ops.graphs)
        self._copies = self._turn_of(ops.copies, by_fault)
        self._memsets = self._turn_of(ops.memsets)

    def _turn_of(self, ops: StreamSpans, by_fault: Flags | None = None) -> SmallInts:
        turn = self._launches.of(ops.correlation)
        if by_fault is not None:
            turn = np.where(by_fault, np.int32(-1), turn)
        ours = ops.process == self._place.process
        self._launched_in_step.append(ops.correlation[ours & (turn == self._turns.own)])
        unknown = np.flatnonzero(turn < 0)
        turn[unknown] = self._turns.at(ops.start[unknown])
        return np.where(ours, turn, np.int32(_NOT_OURS))

    def _clipped(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        first, last = self._place.start, self._place.end
        return np.clip(start, first, last) - first, np.clip(end, first, last) - first

    def _inside(self, start: Ints, end: Ints) -> Flags:
        found: Flags = (start < self._place.end) & (
            (end > self._place.start) | (start >= self._place.start)
        )
        return found

    # Ranges

    def cpu(self) -> Iterator[_Line]:
        """The ranges of the step's thread, and of others that launched in the step."""
        ranges, place = self._timeline.ranges, self._place
        without_length = (ranges.start == place.start) & (ranges.end == place.end)
        inside = self._inside(ranges.start, ranges.end) | without_length
        rows = np.flatnonzero((ranges.process == place.process) & inside)
        own = int(place.steps.threads[place.index])
        yield from self._of_thread(self._own_rows(rows, own), "CPU", "CPU {}", step_first=True)
        others = distinct(ranges.thread[rows])
        for thread in self._launching(others[others != own]):
            yield from self._of_thread(
                rows[ranges.thread[rows] == thread],
                f"CPU thread {thread}",
                f"CPU thread {thread} ({{}})",
            )

    def _own_rows(self, rows: Ints, thread: int) -> Ints:
        """The step's range first, if it lies here, and without what encloses it the others of its thread."""
        ranges, place = self._timeline.ranges, self._place
        start, end = ranges.start[rows], ranges.end[rows]
        first, last = place.steps.starts[place.index], place.steps.range_ends[place.index]
        encloses = (start <= first) & (end >= last) & ((start < first) | (end > last))
        is_step = self._is_step(rows)
        kept = (ranges.thread[rows] == thread) & ~encloses & ~is_step
        return np.concatenate((rows[is_step], rows[kept]))

    def _is_step(self, rows: Ints) -> Flags:
        """Which of the ranges is the step's: one, or none where it lies before."""
        ranges, place = self._timeline.ranges, self._place
        same = (
            _spans_of(ranges, place.steps, place.index)[rows] & ranges.name.bear(place.name)[rows]
        )
        first: Flags = same & (np.cumsum(same) == 1)
        return first

    def _of_thread(
        self, rows: Ints, first: str, deeper: str, *, step_first: bool = False
    ) -> Iterator[_Line]:
        ranges = self._timeline.ranges
        start, end = self._clipped(ranges.start[rows], ranges.end[rows])
        names = ranges.name.told(rows)
        number_of = {text: number for number, text in enumerate(sorted(set(names)))}
        codes = np.fromiter((number_of[text] for text in names), np.int32, count=len(names))
        turn = self._turns.at(ranges.start[rows])
        is_inner = np.ones(len(rows), np.bool_)
        if step_first:  # also where it has no length, and so no moment lies in it
            its = self._is_step(rows)
            turn[its], is_inner[its] = self._turns.own, False
        # Outer before inner; of two with the same span the step, then names decide, so that row order never does.
        order = np.lexsort((codes, is_inner, -ranges.end[rows], start))

        def name(row: int) -> str:
            return names[row] + self._turns.mark(int(turn[row]))

        start, end = start[order], end[order]
        for number, chosen in enumerate(_by_level(_depths(start, end))):
            title = deeper.format(number + 1) if number else first
            yield _Line(title, "range", start[chosen], end[chosen], order[chosen], name)

    def _launching(self, threads: Ints) -> list[int]:
        """Those of the threads that launched operations in the step."""
        if not len(threads):
            return []
        calls = self._timeline.calls
        rows = self._calls[self._call_turn == self._turns.own]
        rows = rows[np.isin(calls.thread[rows], threads)]
        rows = rows[np.isin(calls.correlation[rows], np.concatenate(self._launched_in_step))]
        return sorted(set(calls.thread[rows].tolist()))

    # Operations

    def gpus(self) -> Iterator[_Line]:
        """Of each device its streams, those of the step's process first, and its idle time."""
        for device in self._place.devices:
            found: dict[tuple[bool, int, int], list[_Line]] = {}
            for kind, ops, chosen, name in self._tables():
                rows = np.flatnonzero(chosen & (ops.device == device))
                for process, stream, its in _by_stream(ops, rows):
                    key = (process != self._place.process, process, stream)
                    found.setdefault(key, []).extend(self._of_stream(kind, ops, its, name, device))
            for key in sorted(found):
                yield from found[key]
            if self._place.has_idle:
                yield self._idle(device)

    def _tables(self) -> Iterator[tuple[_Kind, StreamSpans, Flags, Callable[[int], str]]]:
        ops = self._ops
        keys = [key for key, text in ops.names.items() if NCCL_KERNEL.match(text)]
        nccl = (
            np.isin(ops.kernels.name, keys) if keys else np.zeros(len(ops.kernels.name), np.bool_)
        )
        inside = self._inside(ops.kernels.start, ops.kernels.end)

        def kernel(row: int) -> str:
            return ops.names[int(ops.kernels.name[row])] + self._turns.mark(int(self._kernels[row]))

        def graph(row: int) -> str:
            return GRAPH_WORDS + self._turns.mark(int(self._graphs[row]))

        def copy(row: int) -> str:
            return _copy_words(ops, row) + self._turns.mark(int(self._copies[row]))

        def memset(row: int) -> str:
            size = int(ops.memsets.bytes[row])
            return f"{MEMSET_WORDS}{f', {size} bytes' if size else ''}{self._turns.mark(int(self._memsets[row]))}"

        yield "kernel", ops.kernels, inside & ~nccl, kernel
        yield "nccl", ops.kernels, inside & nccl, kernel
        yield "graph", ops.graphs, self._inside(ops.graphs.start, ops.graphs.end), graph
        yield "copy", ops.copies, self._inside(ops.copies.start, ops.copies.end), copy
        yield "memset", ops.memsets, self._inside(ops.memsets.start, ops.memsets.end), memset

    def _of_stream(
        self, kind: _Kind, ops: StreamSpans, rows: Ints, name: Callable[[int], str], device: int
    ) -> Iterator[_Line]:
        start, end = self._clipped(ops.start[rows], ops.end[rows])
        if not (start[1:] > start[:-1]).all():
            order = np.lexsort((ops.correlation[rows], end, start))
            rows, start, end = rows[order], start[order], end[order]
        stream, process = int(ops.stream[rows[0]]), int(ops.process[rows[0]])
        title = self._gpu(device) + (f" stream {stream}" if stream != NO_STREAM else "")
        if process != self._place.process:
            title += f" of process {self._timeline.processes[process]}"
        title += _SUFFIXES.get(kind, "")
        for number, chosen in enumerate(_by_level(_spread(start, end))):
            spilt = f" ({number + 1})" if number else ""
            yield _Line(f"{title}{spilt}", kind, start[chosen], end[chosen], rows[chosen], name)

    def _gpu(self, device: int) -> str:
        return self._timeline.gpu_title(self._place.process, device)

    def _idle(self, device: int) -> _Line:
        tables = (self._ops.kernels, self._ops.graphs, self._ops.copies, self._ops.memsets)
        on = [ops.device == device for ops in tables]
        idle = Idle.from_intervals(
            [ops.start[rows] for ops, rows in zip(tables, on, strict=True)],
            [ops.end[rows] for ops, rows in zip(tables, on, strict=True)],
        )
        start, end = self._clipped(idle.starts, idle.starts + np.diff(idle.before))
        some = end > start
        return _Line(
            f"{self._gpu(device)} idle",
            "idle",
            start[some],
            end[some],
            np.flatnonzero(some),
            lambda _: "idle",
        )


def _copy_words(ops: WindowOps, row: int) -> str:
    copies = ops.copies
    kind = int(copies.kind[row])
    words = COPY_WORDS.get(kind, f"CUDA memcpy kind {kind}")
    host = (
        copies.source if kind == CopyKind.H2D else copies.target if kind == CopyKind.D2H else None
    )
    if host is not None and int(host[row]) != MemoryKind.UNKNOWN:
        words += f", {MemoryKind(int(host[row])).name.lower()}"
    return f"{words}, {int(copies.bytes[row])} bytes"


def _by_stream(ops: StreamSpans, rows: Ints) -> Iterator[tuple[int, int, Ints]]:
    """Process, stream and rows of each stream that has any."""
    if not len(rows):
        return
    process, stream = ops.process[rows], ops.stream[rows]
    for one in np.flatnonzero(np.bincount(process)).tolist():
        own = rows if (process == one).all() else rows[process == one]
        its = stream if len(own) == len(rows) else stream[process == one]
        if (its == its[0]).all():
            yield one, int(its[0]), own
            continue
        order = np.argsort(its, kind="stable")
        for chosen in np.split(order, np.flatnonzero(np.diff(its[order])) + 1):
            yield one, int(its[chosen[0]]), own[chosen]


def _by_level(level: SmallInts) -> list[Ints]:
    """The rows of each level, from 0 on, in their order."""
    if not len(level) or not level.any():
        return [np.arange(len(level))]
    order = np.argsort(level, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(level[order])) + 1)


def _depths(start: Ints, end: Ints) -> SmallInts:
    """How deep each range lies; in order of their starts, outer before inner. No two of one depth overlap.

    Ranges that overlap without one holding the other (start/end ranges, those of two domains) lie below all that hold
    them, as high as there is room.
    """
    # What has no length takes half a nanosecond, so that it ends after it began.
    begun, ended = 2 * start, np.where(end > start, 2 * end, 2 * start + 1)
    depth = np.arange(len(start)) - np.searchsorted(np.sort(ended), begun, side="right")
    order = np.argsort(depth, kind="stable")
    # The last range before each that is one less deep. If that always holds it, all of them nest.
    inner, size = np.flatnonzero(depth), len(depth)
    above = np.searchsorted(depth[order] * size + order, (depth[inner] - 1) * size + inner) - 1
    if (ended[order[above]] >= ended[inner]).all():
        return depth.astype(np.int32)
    last: list[int] = []
    """Where the last one of each depth ends."""
    found: list[int] = []
    for first, until in zip(begun.tolist(), ended.tolist(), strict=True):
        level = 1 + max(
            (one for one, its in enumerate(last) if its > first and its >= until), default=-1
        )
        while level < len(last) and last[level] > first:
            level += 1
        if level == len(last):
            last.append(until)
        else:
            last[level] = until
        found.append(level)
    return np.array(found, np.int32)


def _spread(start: Ints, end: Ints) -> SmallInts:
    """Into which lane each operation goes, in order of their starts: the first that is free by then."""
    if (start[1:] >= end[:-1]).all():
        return np.zeros(len(start), np.int32)
    running: list[tuple[int, int]] = []
    """Ends and lanes of what still runs."""
    free: list[int] = []
    found: list[int] = []
    for begins, until in zip(start.tolist(), end.tolist(), strict=True):
        while running and running[0][0] <= begins:
            heappush(free, heappop(running)[1])
        lane = heappop(free) if free else len(running)
        heappush(running, (until, lane))
        found.append(lane)
    return np.array(found, np.int32)


# --- bars --------------------------------------------------------------------------------------------------------


def _fitting(lines: Sequence[_Line], length: int, most: int) -> tuple[int, list[_Line]]:
    """The pixel, ns, with which the lines take at most so many bars (0: nothing is merged), and the lines."""
    if sum(len(line.start) for line in lines) <= most:
        return 0, list(lines)
    fitting = _folded(lines, most)
    pixel = max(1, -(-length // PIXELS))
    while sum(int(np.count_nonzero(_first_of_bars(line, pixel))) for line in fitting) > most:
        pixel = int(pixel * _WIDER) + 1
    return pixel, fitting


def _folded(lines: Sequence[_Line], most: int) -> list[_Line]:
    """With more lines than bars: all but the busiest as one of each kind. The first, of the step's own range, stays."""
    some = [number for number, line in enumerate(lines) if len(line.start)]
    if len(some) <= most:
        return list(lines)
    busy = {number: int((lines[number].end - lines[number].start).sum()) for number in some}
    by_time = sorted(
        some[1:], key=lambda number: (lines[number].kind != "idle", -busy[number], number)
    )
    kept = {some[0], *by_time[: most - FEWEST_BARS]}
    folded = [lines[number] for number in sorted(kept)]
    for kind, title in _OTHERS.items():
        others = [
            lines[number] for number in some if number not in kept and lines[number].kind == kind
        ]
        if others:
            folded.append(_as_one(title, kind, others))
    return folded


def _as_one(title: str, kind: _Kind, lines: Sequence[_Line]) -> _Line:
    names = [name for line in lines for name in [line.name] * len(line.rows)]
    rows = np.concatenate([line.rows for line in lines])
    start, end = (
        np.concatenate(parts)
        for parts in zip(*((line.start, line.end) for line in lines), strict=True)
    )

    def name(at: int) -> str:
        return names[at](int(rows[at]))

    return _Line(title, kind, start, end, np.arange(len(rows)), name, as_one=True)


def _first_of_bars(line: _Line, pixel: int) -> Flags:
    """Which rows begin a bar."""
    first = np.ones(len(line.start), np.bool_)
    if line.as_one:
        first[1:] = False
    elif pixel:
        small = line.end - line.start < pixel
        cell = line.start // pixel
        first[1:] = (cell[1:] != cell[:-1]) | ~(small[1:] & small[:-1])
    return first


def _lane(line: _Line, pixel: int) -> Lane:
    if not len(line.start):
        return Lane(title=line.title, kind=line.kind)
    lasted = line.end - line.start
    begins = np.flatnonzero(_first_of_bars(line, pixel))
    count = np.diff(np.append(begins, len(line.start)))
    start, end = np.minimum.reduceat(line.start, begins), np.maximum.reduceat(line.end, begins)
    busy = np.add.reduceat(lasted, begins)
    longest = begins
    if len(begins) < len(line.start):
        bar = np.repeat(np.arange(len(begins)), count)
        rows = np.flatnonzero(lasted == np.maximum.reduceat(lasted, begins)[bar])
        longest = rows[np.flatnonzero(np.diff(bar[rows], prepend=-1))]
    bars = tuple(
        Bar(start_us=_us(first), length_us=_us(last - first), name=line.name(row))
        if many == 1
        else Bar(
            start_us=_us(first),
            length_us=_us(last - first),
            name=line.name(row),
            count=many,
            busy_us=_us(spent),
        )
        for first, last, row, many, spent in zip(
            start.tolist(),
            end.tolist(),
            line.rows[longest].tolist(),
            count.tolist(),
            busy.tolist(),
            strict=True,
        )
    )
    return Lane(title=line.title, kind=line.kind, bars=bars)


def _us(ns: int) -> float:
    return ns / 1e3
