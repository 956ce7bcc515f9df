"""Steps and whole captures as a Chrome trace, which Perfetto opens: returns JSON, writes no file.

```
process   one side of a workload's typical step      one process of a capture
track     a lane: ranges by depth, a stream, idle    a thread's ranges, its CUDA calls, a stream
```
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from perfgate.model.pagedata import Bar, PageData
from perfgate.model.timeline import CopyKind, Timeline
from perfgate.render.gate import shown_names
from perfgate.words import say
from perfgate.words.escape import one_line

LONGEST: Final = 400
"""Characters of a name."""
_NS_PER_US: Final = 1000.0
_SAME_US: Final = 1e-6
"""Moments that differ by less are the same one: sums of fractions are not exact."""
_COPIES: Final = {int(kind): f"copy {kind.name}" for kind in CopyKind}


class Slice(NamedTuple):
    """One bar of a track, in us. Slices of one track nest or follow each other, or are spread over
    several."""

    track: str
    start_us: float
    length_us: float
    name: str


def steps_trace(data: PageData) -> str:
    """Return the typical step of each side of each workload; all of them begin at 0."""
    processes: dict[str, list[Slice]] = {}
    for name, one in zip(shown_names(data.workloads), data.workloads, strict=True):
        for side, view in (("baseline", one.baseline_step), ("candidate", one.candidate_step)):
            if view is not None:
                bars = [_bar(lane.title, bar) for lane in view.lanes for bar in lane.bars]
                processes[f"{name}, {side}: {say.fact(view.label)}"] = bars
    return "".join(_document(processes.items()))


def _bar(track: str, bar: Bar) -> Slice:
    name = bar.name if bar.count == 1 else f"{bar.name} and {bar.count - 1} more"
    return Slice(track, bar.start_us, bar.length_us, name)


def capture_trace(timeline: Timeline) -> Iterator[str]:
    """Yield the text of a whole capture's trace, a process at a time."""
    tables: list[Any] = [*timeline.operations, timeline.calls, timeline.ranges]
    first = min((int(table.start.min()) for table in tables if len(table.start)), default=0)
    return _document(
        (f"process {pid or number}", _slices(timeline, number, first))
        for number, pid in enumerate(timeline.processes)
    )


def _slices(timeline: Timeline, process: int, first: int) -> Iterator[Slice]:
    """One process of a capture: its ranges and calls by thread, its operations by stream."""

    def rows(table: Any, *columns: Any) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - arrays
        own = (table.process == process).nonzero()[0]
        times = ((table.start - first) / _NS_PER_US, (table.end - table.start) / _NS_PER_US)
        return zip(*(column[own].tolist() for column in (*times, *columns)), strict=True)

    ranges, calls, names = timeline.ranges, timeline.calls, timeline.names
    texts = list(ranges.name.texts)
    for start, length, thread, nests, code in rows(
        ranges, ranges.thread, ranges.push_pop, ranges.name.codes
    ):
        kind = "ranges" if nests else "start/end ranges"
        yield Slice(f"thread {thread}: {kind}", start, length, texts[code])
    for start, length, thread, code in rows(calls, calls.thread, calls.name):
        yield Slice(f"thread {thread}: CUDA calls", start, length, names[code])
    kernels, graphs, copies, memsets = timeline.operations
    named: tuple[tuple[Any, Any, Callable[[int], str]], ...] = (
        (kernels, timeline.kernels.name, names.__getitem__),
        (graphs, graphs.device, lambda _: "CUDA graph"),
        (copies, timeline.copies.kind, lambda kind: _COPIES.get(kind, f"copy {kind}")),
        (memsets, memsets.device, lambda _: "memset"),
    )
    for table, what, name in named:
        for start, length, code, device, stream in rows(table, what, table.device, table.stream):
            track = f"{timeline.gpu_title(process, device)} stream {stream}"
            yield Slice(track, start, length, name(code))


def _document(processes: Iterable[tuple[str, Iterable[Slice]]]) -> Iterator[str]:
    """Yield a trace of named processes, an event a line."""
    yield '{"displayTimeUnit":"ns","traceEvents":[\n'
    between = ""
    for pid, (name, slices) in enumerate(processes, start=1):
        for event in _events(pid, name, slices):
            yield between + json.dumps(event, separators=(",", ":"), allow_nan=False)
            between = ",\n"
    yield "\n]}\n"


def _events(pid: int, name: str, slices: Iterable[Slice]) -> Iterator[dict[str, Any]]:
    tracks: dict[str, list[Slice]] = {}
    for one in slices:
        tracks.setdefault(one.track, []).append(one)
    lanes = [(title, lane) for title, held in tracks.items() for lane in _without_overlap(held)]
    yield from _named(pid, 0, "process", name)
    for tid, (title, lane) in enumerate(lanes, start=1):
        yield from _named(pid, tid, "thread", title)
        for one in lane:
            times = {"ts": round(one.start_us, 3), "dur": round(one.length_us, 3)}
            shown = one_line(one.name, longest=LONGEST)
            yield {"ph": "X", "pid": pid, "tid": tid, "name": shown, **times}


def _named(pid: int, tid: int, what: str, name: str) -> Iterator[dict[str, Any]]:
    """Name a process or thread, and let it stand in the order of its number."""
    event = {"ph": "M", "pid": pid, "tid": tid}
    yield {**event, "name": f"{what}_name", "args": {"name": one_line(name, longest=LONGEST)}}
    yield {**event, "name": f"{what}_sort_index", "args": {"sort_index": tid or pid}}


def _without_overlap(slices: Sequence[Slice]) -> list[list[Slice]]:
    """Spread slices over lanes, so that those of one nest or follow each other.

    ```
    |----a----|  |-c-|       lane 1: what nests in a stays with it
      |-b-|                  lane 1
           |---d---|         lane 2: it begins within a and ends after it
    ```
    """
    lanes: list[tuple[list[Slice], list[float]]] = []
    """What each holds, and the ends of what is open in it, the innermost last."""
    for one in sorted(slices, key=lambda one: (one.start_us, -one.length_us)):
        end = one.start_us + one.length_us
        for lane in lanes:
            held, ends = lane
            while ends and ends[-1] <= one.start_us + _SAME_US:
                ends.pop()
            if not ends or end <= ends[-1] + _SAME_US:
                break
        else:
            held, ends = [], []
            lanes.append((held, ends))
        held.append(one)
        ends.append(end)
    return [held for held, _ in lanes]
