"""One typical step of a capture as lanes of bars, merged until they can be drawn; it must not know
who draws them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Unpack

import numpy as np

from perfgate.metrics.devices import idle_of, on
from perfgate.metrics.process import Process
from perfgate.metrics.steps import find_steps, outer_first
from perfgate.metrics.tally import NCCL_KERNEL, copy_words
from perfgate.model.arrays import distinct
from perfgate.model.errors import StepsNotFound
from perfgate.model.metric import Metric
from perfgate.model.note import Note
from perfgate.model.pagedata import Bar, Lane, StepView
from perfgate.model.sample import MEMSETS, WHOLE_GRAPHS
from perfgate.model.timeline import (
    NO_STREAM,
    Copies,
    CopyKind,
    Ints,
    MemoryKind,
    Ranges,
    SmallInts,
    Spans,
    Timeline,
)
from perfgate.model.workload import StepRule

_Kind = Literal["range", "kernel", "nccl", "graph", "copy", "memset", "idle"]
_KINDS: Final[dict[_Kind, str]] = {
    "kernel": "",
    "nccl": " NCCL",
    "graph": " graphs",
    "copy": " copies",
    "memset": " memsets",
}
"""Of operations, in the order of their lanes: what their lanes are called behind the stream."""

PIXELS: Final = 4000
"""Width of the finest picture."""
_WIDER: Final = 1.25
"""By how much a pixel grows until all fits."""


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

    def inside(self, table: Spans | Ranges) -> Ints:
        """The rows that lie in it, or partly."""
        return np.flatnonzero(
            (table.start < self.end) & ((table.end > self.start) | (table.start >= self.start))
        )

    def spans(self, starts: Ints, ends: Ints, names: Sequence[str], of: SmallInts) -> list[_Span]:
        """What lies in it, cut off at both ends; with names that say which is `of` other steps."""
        begun, ended = (
            (np.clip(times, self.start, self.end) - self.start).tolist() for times in (starts, ends)
        )
        other = (" (outside the steps)", " (of another step)")
        marks = ["" if step == self.index else other[step >= 0] for step in of.tolist()]
        rows = zip(begun, ended, names, marks, strict=True)
        return [_Span(start, end, name + mark) for start, end, name, mark in rows]


class _Span(NamedTuple):
    """What one lane shows, before anything is merged; ns since the place's start."""

    start: int
    end: int
    name: str


def typical_step(
    timeline: Timeline, *, pid: int | None = None, **rule: Unpack[StepRule]
) -> StepPlace:
    """The step whose period is nearest the median period, the earliest of equals; of the slowest
    process, or of `pid`.

    Where no period counts (fewer than three steps), the step whose time from begin to completion is
    nearest the median of these. `rule` is that of `find_steps`.

    Raises:
        StepsNotFound: no process, or not the one asked for, has a step left after warm-up.
        ConfigInvalid: `step` is no regular expression though `is_pattern` is set.
    """
    found = {timeline.processes[one.process]: one for one in find_steps(timeline, **rule)}
    if pid is not None and pid not in found:
        pids = tuple(map(str, found))
        raise StepsNotFound("process-without-steps", source=timeline.source, pid=pid, pids=pids)
    chosen = [one for number, one in found.items() if pid in (None, number)]
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
    start, end = int(done[index] - lengths[index]), int(done[index])
    return has_period, median, StepPlace(process=process, index=index, start=start, end=end)


@dataclass(frozen=True, slots=True)
class _Line:
    """One lane before anything is merged, in order."""

    title: str
    kind: _Kind
    spans: Sequence[_Span]

    def firsts(self, pixel: int) -> Ints:
        """Which of them begin a bar."""
        times = [one[:2] for one in self.spans]
        start, end = np.array(times, np.int64).reshape(-1, 2).T
        first = np.ones(len(start), np.bool_)
        if pixel:
            small = end - start < pixel
            cell = start // pixel
            first[1:] = (cell[1:] != cell[:-1]) | ~(small[1:] & small[:-1])
        return np.flatnonzero(first)

    def lane(self, pixel: int) -> Lane:
        """With neighbours as one bar."""
        firsts = self.firsts(pixel).tolist()
        until = [*firsts[1:], len(self.spans)]
        bars = (_bar(self.spans[one:end]) for one, end in zip(firsts, until, strict=False))
        return Lane(title=self.title, kind=self.kind, bars=tuple(bars))


def _bar(spans: Sequence[_Span]) -> Bar:
    start = spans[0].start
    return Bar(
        start_us=start / 1e3,
        length_us=(max(one.end for one in spans) - start) / 1e3,
        name=max(spans, key=lambda one: one.end - one.start).name,
        count=len(spans),
        busy_us=sum(one.end - one.start for one in spans) / 1e3 if len(spans) > 1 else None,
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
    operations, pixel = sum(len(line.spans) for line in lines), 0
    if operations > most_bars:
        pixel = max(1, -(-length // PIXELS))
        while pixel < length and sum(len(one.firsts(pixel)) for one in lines) > most_bars:
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
    own, its = steps.thread, steps.rows[place.index]
    rows = outer_first(ranges, rows, its)
    begins, ends = int(steps.starts[place.index]), int(steps.range_ends[place.index])
    encloses = (ranges.start[rows] <= begins) & (ranges.end[rows] >= ends)
    encloses &= (ranges.start[rows] < begins) | (ranges.end[rows] > ends)
    rows = rows[~(encloses & (ranges.thread[rows] == own))]
    during = (calls.process == steps.process) & (calls.start >= begins)
    during &= calls.start < int(steps.ends[place.index])
    for thread in (own, *(one for one in distinct(calls.thread[during]).tolist() if one != own)):
        shown = rows[ranges.thread[rows] == thread]
        step = steps.step_at(ranges.start[shown])
        step[shown == its] = place.index  # also where it has no length
        if thread == own or len(shown):
            names = list(ranges.name[shown])
            yield from _spread(
                "CPU" if thread == own else f"CPU thread {thread}",
                "range",
                place.spans(ranges.start[shown], ranges.end[shown], names, step),
            )


def _gpus(place: StepPlace) -> Iterator[_Line]:
    """Of each device its streams, those of the step's process first, and its idle time."""
    process, timeline = place.process, place.process.timeline
    found: defaultdict[tuple[int, bool, int, int, int], list[_Span]] = defaultdict(list)
    for ops in timeline.operations:
        rows = place.inside(ops)
        rows = rows[np.lexsort((ops.correlation[rows], ops.end[rows], ops.start[rows]))]
        own = ops.process[rows] == process.steps.process
        step = np.full(len(rows), place.index, np.int32)
        step[own] = process.segments.step[process.segment_of(ops, rows[own])]
        called = _called(timeline, ops, rows)
        kinds = [[*_KINDS].index(kind) for kind, _ in called]
        names = [name for _, name in called]
        spans = place.spans(ops.start[rows], ops.end[rows], names, step)
        columns = (ops.device[rows], ~own, ops.process[rows], ops.stream[rows])
        keys = zip(*(one.tolist() for one in columns), kinds, strict=True)
        for key, span in zip(keys, spans, strict=True):
            found[key].append(span)
    launched = process.totals.by_segment[Metric.LAUNCHES].any()
    for device in process.totals.devices:
        title = process.gpu_title(device)
        for key in sorted(key for key in found if key[0] == device):
            _, is_foreign, number, stream, place_of_kind = key
            kind = [*_KINDS][place_of_kind]
            of_stream = title if stream == NO_STREAM else f"{title} stream {stream}"
            if is_foreign:
                of_stream += f" of process {timeline.processes[number]}"
            yield from _spread(of_stream + _KINDS[kind], kind, found[key])
        # Where kernels were launched and none was recorded, it is not known.
        if process.totals.kernels or not launched:
            idle = idle_of(on(device, *timeline.operations))
            times = np.clip((idle.starts, idle.ends), place.start, place.end) - place.start
            spans = [_Span(start, end, "idle") for start, end in times.T.tolist() if end > start]
            yield _Line(f"{title} idle", "idle", spans)


def _called(timeline: Timeline, ops: Spans, rows: Ints) -> list[tuple[_Kind, str]]:
    """What operations of one table are, and what they are called."""
    if ops is timeline.kernels:
        texts = [timeline.names[key] for key in timeline.kernels.name[rows].tolist()]
        return [("nccl" if NCCL_KERNEL.match(text) else "kernel", text) for text in texts]
    if not isinstance(ops, Copies):
        whole = ops is timeline.graphs
        return [("graph", WHOLE_GRAPHS) if whole else ("memset", MEMSETS)] * len(rows)
    columns = (ops.kind[rows], ops.source[rows], ops.target[rows], ops.bytes[rows])
    found: list[tuple[_Kind, str]] = []
    for kind, source, target, moved in zip(*(one.tolist() for one in columns), strict=True):
        host = {CopyKind.H2D: source, CopyKind.D2H: target}.get(kind, MemoryKind.UNKNOWN)
        known = "" if host == MemoryKind.UNKNOWN else f", {MemoryKind(host).name.lower()}"
        found.append(("copy", f"{copy_words(kind)}{known}, {moved} bytes"))
    return found


def _spread(title: str, kind: _Kind, spans: Sequence[_Span]) -> Iterator[_Line]:
    """Spans in order of their starts, outer before inner, each on the first lane that is free by
    then."""
    lanes: list[list[_Span]] = []
    for span in spans:
        free = next((lane for lane in lanes if lane[-1].end <= span.start), None)
        if free is None:
            lanes.append([span])
        else:
            free.append(span)
    for number, lane in enumerate(lanes or [[]]):
        yield _Line(f"{title} ({number + 1})" if number else title, kind, lane)
