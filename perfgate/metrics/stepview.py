"""One typical step of a capture as lanes of bars, merged until they can be drawn; it must not know
who draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from perfgate.metrics.attribution import Launches
from perfgate.metrics.intervals import Idle
from perfgate.metrics.process import Process
from perfgate.metrics.steps import StepRule, Steps, find
from perfgate.metrics.tally import COPY_WORDS, GRAPH_WORDS, MEMSET_WORDS, NCCL_KERNEL
from perfgate.model.arrays import distinct
from perfgate.model.errors import StepsNotFound
from perfgate.model.metric import Metric
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
    Spans,
    Timeline,
)

_Kind = Literal["range", "kernel", "nccl", "graph", "copy", "memset", "idle"]

PIXELS: Final = 4000
"""Width of the finest picture."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class StepPlace:
    """Where in a capture the step lies that stands for all of one process. Times are ns on the
    capture's clock."""

    process: int
    """Index into `Timeline.processes`."""
    index: int
    """Of the measured steps, from 0."""
    name: str
    """Of its range."""
    start: int
    """Where the step before it is complete, so that from here to its end is what it takes; where no
    period counts, its range begins here. The CPU runs ahead: its range may lie before."""
    end: int
    """Where it is complete: its range and the last operation launched in it have ended, and the
    step before it."""
    period_ns: int | None
    """From the completion of the step before it to its own; None where no period counts."""
    steps: Steps
    """All of the process."""
    devices: tuple[int, ...]
    """That the operations launched in the process's steps ran on."""
    has_idle: bool
    """Whether the capture says when these were idle: not if kernels were launched and none was
    recorded."""


def typical_step(
    timeline: Timeline,
    *,
    step: str,
    is_pattern: bool = False,
    warmup: int = 0,
    steps: int | None = None,
    pid: int | None = None,
) -> StepPlace:
    """The step whose period is nearest the median period, the earliest of equals; of the slowest
    process, or of `pid`.

    Where no period counts (fewer than three steps), the step whose time from begin to completion is
    nearest the median of these. `step`, `is_pattern`, `warmup` and `steps` are those of `measure`.

    Raises:
        StepsNotFound: no process, or not the one asked for, has a step left after warm-up.
        ConfigInvalid: `step` is no regular expression though `is_pattern` is set.
    """
    found = find(timeline, StepRule.of(step, is_pattern=is_pattern, warmup=warmup, steps=steps))
    chosen = [one for one in found if pid is None or timeline.processes[one.process] == pid]
    if not chosen:
        pids = tuple(str(timeline.processes[one.process]) for one in found)
        raise StepsNotFound("process-without-steps", source=timeline.source, pid=pid, pids=pids)
    places = [_typical(Process.of(timeline, one)) for one in chosen]
    return max(places, key=lambda one: one[:2])[2]


def _typical(process: Process) -> tuple[bool, float, StepPlace]:
    """Of one process: whether any period counts, the median period (else time to completion), ns,
    and the step."""
    steps, done, totals = process.steps, process.done, process.totals
    has_period = bool(process.kept.any())
    lengths = np.diff(done, prepend=0) if has_period else done - steps.starts
    rows = np.flatnonzero(process.kept) if has_period else np.arange(len(steps))
    median = float(np.median(lengths[rows]))
    index = int(rows[np.argmin(np.abs(lengths[rows] - median))])
    launched = totals.by_segment[Metric.LAUNCHES].any()
    place = StepPlace(
        process=steps.process,
        index=index,
        name=process.timeline.ranges.name[int(steps.rows[index])],
        start=int(done[index] - lengths[index]) if has_period else int(steps.starts[index]),
        end=int(done[index]),
        period_ns=int(lengths[index]) if has_period else None,
        steps=steps,
        devices=totals.devices,
        has_idle=not launched or bool(totals.kernels),
    )
    return has_period, median, place


# --- lanes
# -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """What one lane shows, before anything is merged: disjoint, in order; ns since the place's
    start."""

    title: str
    kind: _Kind
    start: Ints
    end: Ints
    rows: Ints
    name: Callable[[int], str]
    """Of one of the rows."""


@dataclass(frozen=True, slots=True)
class _Turns:
    """Which step a moment of the process lies in: 2 i + 1 in step i, even numbers outside the
    steps."""

    edges: Ints
    own: int

    @classmethod
    def of(cls, place: StepPlace) -> _Turns:
        """With the place's step as the own one."""
        edges = np.column_stack((place.steps.starts, place.steps.ends)).ravel()
        return cls(edges, 2 * place.index + 1)

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
    *,
    label: str,
    most_bars: int = 2000,
    source: str = "",
) -> StepView:
    """The place from its start to its end, in about `most_bars` bars; what overlaps it is cut off
    at both.

    ```
    CPU      --step--| |---step----         what is of other steps says so in its name
    CPU 2    --fwd-|    |load||fwd |
    stream     |-k1-|   |---k2-----|
    idle     |-|    |---|
    ```
    - Ranges of the step's thread by depth; those that enclose its own are left out. Where the CPU
      runs far ahead, they are of later steps, or none and the lane is empty. Then those of other
      threads that launched operations in it.
    - Of each device of the process's steps: the streams, with kernels, NCCL's kernels, CUDA graphs
      traced whole, copies and memsets apart, other processes' too; then its idle time, as `gap_ms`
      counts it. What overlaps on a stream is spread over several lanes.
    - An operation is of the step that launched it; without a call, or as moved managed memory, of
      that in which it ran.
    - With more than `most_bars` bars, neighbours of one lane that begin within one pixel, each
      shorter than it, become one bar; the pixel is 1 / `PIXELS` of the view at first and grows
      until the bars fit, or each lane is one. So nothing that lasts a pixel, be it idle time, is
      merged.

    Operations that CUPTI could not time are in no lane.
    """
    work, length = _Work(place, timeline), place.end - place.start
    lines = [*work.cpu(), *work.gpus()]
    operations, pixel = sum(len(line.start) for line in lines), 0
    if operations > most_bars:
        pixel = max(1, -(-length // PIXELS))
        while (
            pixel < length
            and sum(int(_first_of_bars(line, pixel).sum()) for line in lines) > most_bars
        ):
            pixel = int(pixel * _WIDER) + 1
    lanes = tuple(_lane(line, pixel) for line in lines)
    return StepView(
        label=label,
        length_us=_us(length),
        lanes=lanes,
        operations=operations,
        drawn=sum(len(lane.bars) for lane in lanes),
        pixel_us=_us(pixel),
        source=source,
    )


class _Work:
    """What ran between a place's start and its end."""

    def __init__(self, place: StepPlace, timeline: Timeline) -> None:
        """Find of each operation which step launched it."""
        self._place, self._timeline = place, timeline
        self._turns = _Turns.of(place)
        calls = timeline.calls
        self._calls = np.flatnonzero(calls.process == place.process)
        self._call_turn = self._turns.at(calls.start[self._calls])
        begun = calls.start[self._calls]
        self._launches = Launches.of(calls.correlation[self._calls], begun, self._call_turn)

    def _turn_of(self, ops: Spans, by_fault: Flags | None = None) -> SmallInts:
        turn = self._launches.segment[self._launches.place(ops.correlation)]
        if by_fault is not None:
            turn = np.where(by_fault, np.int32(-1), turn)
        unknown = np.flatnonzero(turn < 0)
        turn[unknown] = self._turns.at(ops.start[unknown])
        return np.where(ops.process == self._place.process, turn, np.int32(_NOT_OURS))

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
        """Of the step's thread, and of others that launched in the step."""
        ranges, place = self._timeline.ranges, self._place
        rows = np.flatnonzero(
            (ranges.process == place.process) & self._inside(ranges.start, ranges.end)
        )
        own = int(place.steps.threads[place.index])
        first, last = place.steps.starts[place.index], place.steps.range_ends[place.index]
        start, end = ranges.start[rows], ranges.end[rows]
        encloses = (start <= first) & (end >= last) & ((start < first) | (end > last))
        mine = ranges.thread[rows] == own
        yield from self._of_thread(ranges, rows[mine & ~encloses], "CPU")
        for thread in self._launching(own):
            its = rows[ranges.thread[rows] == thread]
            if len(its):
                yield from self._of_thread(ranges, its, f"CPU thread {thread}")

    def _of_thread(self, ranges: Ranges, rows: Ints, title: str) -> Iterator[_Line]:
        """By depth; the first lane is there also if it is empty."""
        is_inner = rows != self._place.steps.rows[self._place.index]
        codes = ranges.name.codes[rows]
        # Outer before inner; of two with the same span the step, then names decide.
        order = np.lexsort((codes, is_inner, -ranges.end[rows], ranges.start[rows]))
        rows = rows[order]
        start, end = self._clipped(ranges.start[rows], ranges.end[rows])
        turn = self._turns.at(ranges.start[rows])
        turn[~is_inner[order]] = self._turns.own  # also where it has no length

        def name(row: int) -> str:
            return ranges.name[int(rows[row])] + self._turns.mark(int(turn[row]))

        for number, chosen in enumerate(_by_level(_levels(start, end, nested=True))):
            deeper = f"{title} {number + 1}" if title == "CPU" else f"{title} ({number + 1})"
            lane = deeper if number else title
            yield _Line(lane, "range", start[chosen], end[chosen], chosen, name)

    def _launching(self, own: int) -> list[int]:
        """Other threads that launched operations in the step."""
        calls = self._timeline.calls
        rows = self._calls[self._call_turn == self._turns.own]
        rows = rows[calls.thread[rows] != own]
        launched = [
            ops.correlation[ops.process == self._place.process] for ops in self._timeline.operations
        ]
        rows = rows[np.isin(calls.correlation[rows], np.concatenate(launched))]
        return [int(thread) for thread in distinct(calls.thread[rows])]

    # Operations

    def gpus(self) -> Iterator[_Line]:
        """Of each device its streams, those of the step's process first, and its idle time."""
        tables = list(self._tables())
        for device in self._place.devices:
            found: dict[tuple[bool, int, int], list[_Line]] = {}
            for kind, ops, chosen, name in tables:
                rows = np.flatnonzero(chosen & (ops.device == device))
                for process, stream, its in _by_stream(ops, rows):
                    key = (process != self._place.process, process, stream)
                    found.setdefault(key, []).extend(self._of_stream(kind, ops, its, name, device))
            for key in sorted(found):
                yield from found[key]
            if self._place.has_idle:
                yield self._idle(device)

    def _tables(self) -> Iterator[tuple[_Kind, Spans, Flags, Callable[[int], str]]]:
        ops = self._timeline
        keys = [key for key, text in ops.names.items() if NCCL_KERNEL.match(text)]
        nccl = np.isin(ops.kernels.name, keys)
        by_fault = np.isin(ops.copies.kind, MANAGED_COPIES)

        def named(
            spans: Spans, name: Callable[[int], str], by_fault: Flags | None = None
        ) -> tuple[Spans, Flags, Callable[[int], str]]:
            turn = self._turn_of(spans, by_fault)
            inside = self._inside(spans.start, spans.end)
            return spans, inside, lambda row: name(row) + self._turns.mark(int(turn[row]))

        kernels, inside, kernel = named(
            ops.kernels, lambda row: ops.names[int(ops.kernels.name[row])]
        )
        yield "kernel", kernels, inside & ~nccl, kernel
        yield "nccl", kernels, inside & nccl, kernel
        yield "graph", *named(ops.graphs, lambda _: GRAPH_WORDS)
        yield "copy", *named(ops.copies, lambda row: _copy_words(ops, row), by_fault)
        yield "memset", *named(ops.memsets, lambda row: _memset_words(ops, row))

    def _of_stream(
        self, kind: _Kind, ops: Spans, rows: Ints, name: Callable[[int], str], device: int
    ) -> Iterator[_Line]:
        rows = rows[np.lexsort((ops.correlation[rows], ops.end[rows], ops.start[rows]))]
        start, end = self._clipped(ops.start[rows], ops.end[rows])
        stream, process = int(ops.stream[rows[0]]), int(ops.process[rows[0]])
        title = self._gpu(device) + (f" stream {stream}" if stream != NO_STREAM else "")
        if process != self._place.process:
            title += f" of process {self._timeline.processes[process]}"
        title += _SUFFIXES.get(kind, "")
        for number, chosen in enumerate(_by_level(_levels(start, end, nested=False))):
            spilt = f" ({number + 1})" if number else ""
            yield _Line(f"{title}{spilt}", kind, start[chosen], end[chosen], rows[chosen], name)

    def _gpu(self, device: int) -> str:
        return self._timeline.gpu_title(self._place.process, device)

    def _idle(self, device: int) -> _Line:
        on = [(ops, ops.device == device) for ops in self._timeline.operations]
        idle = Idle.from_intervals(
            [ops.start[rows] for ops, rows in on], [ops.end[rows] for ops, rows in on]
        )
        start, end = self._clipped(idle.starts, idle.starts + np.diff(idle.before))
        rows = np.flatnonzero(end > start)
        title = f"{self._gpu(device)} idle"
        return _Line(title, "idle", start[rows], end[rows], rows, lambda _: "idle")


def _copy_words(ops: Timeline, row: int) -> str:
    copies, kind = ops.copies, int(ops.copies.kind[row])
    words = COPY_WORDS.get(kind, f"CUDA memcpy kind {kind}")
    ends = {CopyKind.H2D: copies.source, CopyKind.D2H: copies.target}
    host = int(ends[CopyKind(kind)][row]) if kind in ends else MemoryKind.UNKNOWN
    if host != MemoryKind.UNKNOWN:
        words += f", {MemoryKind(host).name.lower()}"
    return f"{words}, {int(copies.bytes[row])} bytes"


def _memset_words(ops: Timeline, row: int) -> str:
    size = int(ops.memsets.bytes[row])
    return f"{MEMSET_WORDS}, {size} bytes" if size else MEMSET_WORDS


def _by_stream(ops: Spans, rows: Ints) -> Iterator[tuple[int, int, Ints]]:
    """Process, stream and rows of each stream that has any."""
    for process in distinct(ops.process[rows]).tolist():
        own = rows[ops.process[rows] == process]
        for stream in distinct(ops.stream[own]).tolist():
            yield process, stream, own[ops.stream[own] == stream]


def _by_level(level: SmallInts) -> list[Ints]:
    """The rows of each level, from 0 on, in their order."""
    order = np.argsort(level, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(level[order])) + 1)


def _levels(start: Ints, end: Ints, *, nested: bool) -> SmallInts:
    """The lane of each, in order of their starts, outer before inner, so that no two of one lane
    overlap: the first that is free by then, of nested ones below all that hold it."""
    if (start[1:] >= end[:-1]).all() and (not nested or (start[1:] > start[:-1]).all()):
        return np.zeros(len(start), np.int32)
    until: list[int] = []
    """Where the last one of each lane ends."""
    found: list[int] = []
    # What has no length takes half a nanosecond, so that it ends after it began.
    ends = np.where(end > start, 2 * end, 2 * start + 1)
    for first, last in zip((2 * start).tolist(), ends.tolist(), strict=True):
        holding = (at for at, its in enumerate(until) if its > first and its >= last)
        level = 1 + max(holding, default=-1) if nested else 0
        while level < len(until) and until[level] > first:
            level += 1
        until[level : level + 1] = [last]
        found.append(level)
    return np.array(found, np.int32)


# --- bars
# --------------------------------------------------------------------------------------------------------


def _first_of_bars(line: _Line, pixel: int) -> Flags:
    """Which rows begin a bar."""
    first = np.ones(len(line.start), np.bool_)
    if pixel:
        small = line.end - line.start < pixel
        cell = line.start // pixel
        first[1:] = (cell[1:] != cell[:-1]) | ~(small[1:] & small[:-1])
    return first


def _lane(line: _Line, pixel: int) -> Lane:
    begins = np.flatnonzero(_first_of_bars(line, pixel))
    bars = []
    for first, until in zip(begins.tolist(), [*begins[1:].tolist(), len(line.start)], strict=False):
        lasted = (line.end - line.start)[first:until]
        start, end = int(line.start[first]), int(line.end[first:until].max())
        many = until - first
        bars.append(
            Bar(
                start_us=_us(start),
                length_us=_us(end - start),
                name=line.name(int(line.rows[first + int(np.argmax(lasted))])),
                count=many,
                busy_us=_us(int(lasted.sum())) if many > 1 else None,
            )
        )
    return Lane(title=line.title, kind=line.kind, bars=tuple(bars))


def _us(ns: int) -> float:
    return ns / 1e3
