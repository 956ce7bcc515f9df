"""One typical step of a capture as lanes of bars, merged until they can be drawn; it must not know
who draws them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from perfgate.metrics.devices import idle_of
from perfgate.metrics.process import Process
from perfgate.metrics.steps import find_steps
from perfgate.metrics.tally import GRAPH_WORDS, MEMSET_WORDS, NCCL_KERNEL, copy_words
from perfgate.model.arrays import distinct
from perfgate.model.errors import StepsNotFound
from perfgate.model.metric import Metric
from perfgate.model.note import Note
from perfgate.model.pagedata import Bar, Lane, StepView
from perfgate.model.timeline import (
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

    process: Process
    index: int
    """Of the measured steps, from 0."""
    start: int
    """Where the step before it is complete, so that from here to its end is what it takes; where no
    period counts, its range begins here. The CPU runs ahead: its range may lie before."""
    end: int
    """Where it is complete: its range and the last operation launched in it have ended, and the
    step before it."""
    period_ns: int | None
    """From the completion of the step before it to its own; None where no period counts."""

    @property
    def name(self) -> str:
        """Of its range."""
        return self.process.timeline.ranges.name[int(self.process.steps.rows[self.index])]

    def inside(self, table: Spans | Ranges) -> Ints:
        """The rows that lie in it, or partly."""
        return np.flatnonzero(
            (table.start < self.end) & ((table.end > self.start) | (table.start >= self.start))
        )

    def clipped(self, times: Ints) -> Ints:
        """Times since its start, cut off at both ends."""
        return np.clip(times, self.start, self.end) - self.start

    def marks(self, step: SmallInts) -> list[str]:
        """What follows the names of what is of this step, or of another, or of none."""
        return [
            "" if one == self.index else " (outside the steps)" if one < 0 else " (of another step)"
            for one in step.tolist()
        ]


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
    found = find_steps(timeline, step=step, is_pattern=is_pattern, warmup=warmup, steps=steps)
    chosen = [one for one in found if pid is None or timeline.processes[one.process] == pid]
    if not chosen:
        pids = tuple(str(timeline.processes[one.process]) for one in found)
        raise StepsNotFound("process-without-steps", source=timeline.source, pid=pid, pids=pids)
    places = [_typical(Process.of(timeline, one)) for one in chosen]
    return max(places, key=lambda one: one[:2])[2]


def _typical(process: Process) -> tuple[bool, float, StepPlace]:
    """Of one process: whether any period counts, the median period (else time to completion), ns,
    and the step."""
    steps, done = process.steps, process.done
    has_period = bool(process.kept.any())
    lengths = np.diff(done, prepend=0) if has_period else done - steps.starts
    rows = np.flatnonzero(process.kept) if has_period else np.arange(len(steps))
    median = float(np.median(lengths[rows]))
    index = int(rows[np.argmin(np.abs(lengths[rows] - median))])
    length, end = int(lengths[index]), int(done[index])
    return (
        has_period,
        median,
        StepPlace(
            process=process,
            index=index,
            start=end - length if has_period else int(steps.starts[index]),
            end=end,
            period_ns=length if has_period else None,
        ),
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """What one lane shows, before anything is merged: in order; ns since the place's start."""

    title: str
    kind: _Kind
    start: Ints
    end: Ints
    names: Sequence[str]

    def begins(self, pixel: int) -> Flags:
        """Which begin a bar."""
        first = np.ones(len(self.start), np.bool_)
        if pixel:
            small = self.end - self.start < pixel
            cell = self.start // pixel
            first[1:] = (cell[1:] != cell[:-1]) | ~(small[1:] & small[:-1])
        return first

    def lane(self, pixel: int) -> Lane:
        """With neighbours as one bar."""
        firsts = np.flatnonzero(self.begins(pixel)).tolist()
        spans = zip(firsts, [*firsts[1:], len(self.start)], strict=False)
        bars = (self._bar(slice(first, until)) for first, until in spans)
        return Lane(title=self.title, kind=self.kind, bars=tuple(bars))

    def _bar(self, some: slice) -> Bar:
        start, lasted = int(self.start[some.start]), (self.end - self.start)[some]
        return Bar(
            start_us=start / 1e3,
            length_us=(int(self.end[some].max()) - start) / 1e3,
            name=self.names[some.start + int(np.argmax(lasted))],
            count=len(lasted),
            busy_us=int(lasted.sum()) / 1e3 if len(lasted) > 1 else None,
        )


def step_view(
    place: StepPlace, *, label: Note, most_bars: int = 2000, source: str = ""
) -> StepView:
    """The place from its start to its end, in about `most_bars` bars; what overlaps it is cut off
    at both.

    ```
    CPU      --step--| |---step----         what is of other steps says so in its name
    CPU 2    --fwd-|    |load||fwd |
    stream     |-k1-|   |---k2-----|
    idle     |-|    |---|
    ```
    - Ranges of the step's thread, inner ones below; those that enclose its own are left out. Where
      the CPU runs far ahead, they are of later steps, or none and the lane is empty. Then those of
      other threads that made CUDA calls in it.
    - Of each device of the process's steps: the streams, with kernels, NCCL's kernels, CUDA graphs
      traced whole, copies and memsets apart, other processes' too; then its idle time, as `gap_ms`
      counts it. What overlaps on a stream is spread over several lanes.
    - An operation is of the step that launched it; without a call, or as moved managed memory, of
      that in which it ran.
    - With more than `most_bars` bars, neighbours of one lane that begin within one pixel, each
      shorter than it, become one bar; the pixel is 1 / `PIXELS` of the view at first and grows
      until the bars fit, or each lane is one. So nothing that lasts a pixel, be it idle time, is
      merged.
    """
    length = place.end - place.start
    lines = [*_cpu(place), *_gpus(place)]
    operations, pixel = sum(len(line.start) for line in lines), 0
    if operations > most_bars:
        pixel = max(1, -(-length // PIXELS))
        while pixel < length and sum(int(one.begins(pixel).sum()) for one in lines) > most_bars:
            pixel = int(pixel * _WIDER) + 1
    lanes = tuple(line.lane(pixel) for line in lines)
    return StepView(
        label=label,
        length_us=length / 1e3,
        lanes=lanes,
        operations=operations,
        drawn=sum(len(lane.bars) for lane in lanes),
        pixel_us=pixel / 1e3,
        source=source,
    )


def _cpu(place: StepPlace) -> Iterator[_Line]:
    """Ranges of the step's thread, and of others that made calls in the step."""
    process, steps = place.process, place.process.steps
    ranges, calls = process.timeline.ranges, process.timeline.calls
    rows = place.inside(ranges)
    rows = rows[ranges.process[rows] == steps.process]
    own, its = int(steps.threads[place.index]), steps.rows[place.index]
    order = (ranges.name.codes[rows], rows != its, -ranges.end[rows], ranges.start[rows])
    rows = rows[np.lexsort(order)]
    begins, ends = int(steps.starts[place.index]), int(steps.range_ends[place.index])
    encloses = (ranges.start[rows] <= begins) & (ranges.end[rows] >= ends) & (rows != its)
    encloses &= (ranges.start[rows] < begins) | (ranges.end[rows] > ends)
    during = (calls.process == steps.process) & (calls.start >= begins)
    during &= calls.start < int(steps.ends[place.index])
    for thread in (own, *(one for one in distinct(calls.thread[during]).tolist() if one != own)):
        of_thread = rows[(ranges.thread[rows] == thread) & ~(encloses & (thread == own))]
        step = steps.step_at(ranges.start[of_thread])
        step[of_thread == its] = place.index  # also where it has no length
        names = list(ranges.name[of_thread])
        if thread == own or names:
            yield from _spread(
                "CPU" if thread == own else f"CPU thread {thread}",
                "range",
                place.clipped(ranges.start[of_thread]),
                place.clipped(ranges.end[of_thread]),
                [name + mark for name, mark in zip(names, place.marks(step), strict=True)],
            )


def _gpus(place: StepPlace) -> Iterator[_Line]:
    """Of each device its streams, those of the step's process first, and its idle time."""
    process = place.process
    timeline, own = process.timeline, process.steps.process
    tables = list(_tables(timeline))
    launched = process.totals.by_segment[Metric.LAUNCHES].any()
    for device in process.totals.devices:
        title = process.gpu_title(device)
        found: defaultdict[tuple[bool, int, int], list[_Line]] = defaultdict(list)
        for kind, ops, chosen, name in tables:
            rows = place.inside(ops)
            rows = rows[chosen[rows] & (ops.device[rows] == device)]
            keys = (ops.correlation[rows], ops.end[rows], ops.start[rows])
            rows = rows[np.lexsort(keys)]
            streams = list(zip(ops.process[rows].tolist(), ops.stream[rows].tolist(), strict=True))
            for number, stream in sorted(set(streams)):
                its = rows[[one == (number, stream) for one in streams]]
                stream_title = title if stream == NO_STREAM else f"{title} stream {stream}"
                if number != own:
                    stream_title += f" of process {timeline.processes[number]}"
                found[number != own, number, stream] += _spread(
                    stream_title + _SUFFIXES.get(kind, ""),
                    kind,
                    place.clipped(ops.start[its]),
                    place.clipped(ops.end[its]),
                    _named(place, ops, its, name),
                )
        for key in sorted(found):
            yield from found[key]
        # Where kernels were launched and none was recorded, it is not known.
        if process.totals.kernels or not launched:
            yield _idle(place, device, f"{title} idle")


def _tables(timeline: Timeline) -> Iterator[tuple[_Kind, Spans, Flags, Callable[[int], str]]]:
    """Of each kind of operation its table, which rows of that, and what a row is called."""
    names, kernels, copies = timeline.names, timeline.kernels, timeline.copies
    nccl = np.isin(kernels.name, [key for key, text in names.items() if NCCL_KERNEL.match(text)])

    def of_kernel(row: int) -> str:
        return names[int(kernels.name[row])]

    def of_copy(row: int) -> str:
        kind = int(copies.kind[row])
        ends = {CopyKind.H2D: copies.source, CopyKind.D2H: copies.target}
        host = int(ends[CopyKind(kind)][row]) if kind in ends else MemoryKind.UNKNOWN
        known = "" if host == MemoryKind.UNKNOWN else f", {MemoryKind(host).name.lower()}"
        return f"{copy_words(kind)}{known}, {int(copies.bytes[row])} bytes"

    def every(ops: Spans) -> Flags:
        return np.ones(len(ops.start), np.bool_)

    yield "kernel", kernels, ~nccl, of_kernel
    yield "nccl", kernels, nccl, of_kernel
    yield "graph", timeline.graphs, every(timeline.graphs), lambda _: GRAPH_WORDS
    yield "copy", copies, every(copies), of_copy
    yield "memset", timeline.memsets, every(timeline.memsets), lambda _: MEMSET_WORDS


def _named(place: StepPlace, ops: Spans, rows: Ints, name: Callable[[int], str]) -> list[str]:
    """Names of operations of one process, with what says of which step they are."""
    process, names = place.process, [name(row) for row in rows.tolist()]
    if not names or ops.process[rows[0]] != process.steps.process:
        return names
    segment = process.segment_of(ops, rows)
    return [
        one + mark
        for one, mark in zip(names, place.marks(process.segments.step[segment]), strict=True)
    ]


def _idle(place: StepPlace, device: int, title: str) -> _Line:
    operations = place.process.timeline.operations
    idle = idle_of((ops, ops.device == device) for ops in operations)
    start, end = place.clipped(idle.starts), place.clipped(idle.ends)
    some = end > start
    return _Line(title, "idle", start[some], end[some], ["idle"] * int(some.sum()))


def _spread(
    title: str, kind: _Kind, start: Ints, end: Ints, names: Sequence[str]
) -> Iterator[_Line]:
    """Bars in order of their starts, outer before inner, each on the first lane that is free by
    then."""
    until: list[int] = []
    level = np.zeros(len(start), np.int64)
    for row, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        level[row] = next((one for one, ended in enumerate(until) if ended <= first), len(until))
        until[level[row] : level[row] + 1] = [last]
    for number in range(max(len(until), 1)):
        rows = np.flatnonzero(level == number)
        suffix = f" ({number + 1})" if number else ""
        yield _Line(
            title + suffix, kind, start[rows], end[rows], [names[row] for row in rows.tolist()]
        )
