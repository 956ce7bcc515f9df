"""Steps and whole captures as a Chrome trace, which Perfetto opens: returns JSON, writes no file.

```
process   one side of a workload's typical step      one process of a capture
track     a lane: ranges by depth, a stream, idle    a thread's ranges, its CUDA calls, a stream
```
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from perfgate.model.merged import shown_names
from perfgate.model.pagedata import PageData
from perfgate.model.stepview import Lane
from perfgate.model.timeline import Bytes8, CopyKind, SmallInts, Spans, Timeline
from perfgate.words.escape import one_line

LONGEST: Final = 400
"""Characters of a name."""
_NS_PER_US: Final = 1000.0
_SAME_US: Final = 1e-6
"""Moments that differ by less are the same one: sums of fractions are not exact."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One bar of a track, in us."""

    start_us: float
    length_us: float
    name: str
    more: Mapping[str, object] = field(default_factory=dict)
    """What is shown of it where it is chosen."""


_Row = tuple[str, int, int, str, dict[str, object]]
"""Title of the track, start and end in ns, name, and what else is shown."""
Tracks = Mapping[str, Sequence[Slice]]
"""By title; slices of one track nest or follow each other."""


def steps_trace(data: PageData) -> str:
    """Return the typical step of each side of each workload; all of them begin at 0."""
    processes: dict[str, Tracks] = {}
    for name, one in zip(shown_names(data.workloads), data.workloads, strict=True):
        for side, view in (("baseline", one.baseline_step), ("candidate", one.candidate_step)):
            if view is not None:
                tracks = {lane.title: _bars(lane) for lane in view.lanes}
                processes[f"{name}, {side}: {view.label}"] = tracks
    return "".join(_document(processes.items()))


def capture_trace(timeline: Timeline) -> Iterator[str]:
    """Yield the text of a whole capture's trace, a process at a time."""
    tables = (*timeline.operations, timeline.calls, timeline.ranges)
    starts = [one.start for one in tables if len(one.start)]  # type: ignore[attr-defined]
    first = min((int(start.min()) for start in starts), default=0)
    processes = enumerate(timeline.processes)
    return _document(
        (f"process {pid or number}", _tracks(_process(timeline, number), first))
        for number, pid in processes
    )


def _bars(lane: Lane) -> list[Slice]:
    return [
        Slice(
            bar.start_us,
            bar.length_us,
            bar.name if bar.count == 1 else f"{bar.name} and {bar.count - 1} more",
            {} if bar.count == 1 else {"count": bar.count, "busy_us": bar.busy_us},
        )
        for bar in lane.bars
    ]


def _tracks(rows: Iterable[_Row], first: int) -> dict[str, list[Slice]]:
    tracks: dict[str, list[Slice]] = {}
    for title, start, end, name, more in rows:
        begin, length = (start - first) / _NS_PER_US, (end - start) / _NS_PER_US
        tracks.setdefault(title, []).append(Slice(begin, length, name, more))
    return tracks


def _process(timeline: Timeline, process: int) -> Iterator[_Row]:
    """One process of a capture: its ranges and calls by thread, its operations by stream."""

    def rows(table: Any, *columns: Any) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - arrays
        own = (table.process == process).nonzero()[0]
        columns = (table.start, table.end, *columns)
        return zip(*(column[own].tolist() for column in columns), strict=True)

    ranges, calls = timeline.ranges, timeline.calls
    texts = list(ranges.name.texts)
    for start, end, thread, nests, name in rows(
        ranges, ranges.thread, ranges.push_pop, ranges.name.codes
    ):
        kind = "ranges" if nests else "start/end ranges"
        yield f"thread {thread}: {kind}", start, end, texts[name], {}
    for start, end, thread, name, launched in rows(
        calls, calls.thread, calls.name, calls.correlation
    ):
        more = {"correlation": launched}
        yield f"thread {thread}: CUDA calls", start, end, timeline.names[name], more
    for table in timeline.operations:
        what, n_bytes = _what(timeline, table), getattr(table, "bytes", table.start)
        columns = (table.device, table.stream, table.correlation, what, n_bytes)
        for start, end, device, stream, launched, kind, size in rows(table, *columns):
            title = f"{timeline.gpu_title(process, device)} stream {stream}"
            more = {"correlation": launched}
            if hasattr(table, "bytes"):
                more["bytes"] = size
            yield title, start, end, _operation(timeline, table, kind), more


def _what(timeline: Timeline, table: Spans) -> SmallInts | Bytes8:
    """The column that says what an operation is; of memsets and graphs any would do."""
    if table is timeline.kernels:
        return timeline.kernels.name
    return timeline.copies.kind if table is timeline.copies else table.device


def _operation(timeline: Timeline, table: Spans, what: int) -> str:
    if table is timeline.kernels:
        return timeline.names[what]
    if table is timeline.copies:
        return f"copy {CopyKind(what).name if what in set(CopyKind) else what}"
    return "memset" if table is timeline.memsets else "CUDA graph"


def _document(processes: Iterable[tuple[str, Tracks]]) -> Iterator[str]:
    """Yield a trace of named processes, an event a line."""
    yield '{"displayTimeUnit":"ns","traceEvents":[\n'
    between = ""
    for pid, (name, tracks) in enumerate(processes, start=1):
        for event in _events(pid, name, tracks):
            yield between + json.dumps(event, separators=(",", ":"), allow_nan=False)
            between = ",\n"
    yield "\n]}\n"


def _events(pid: int, name: str, tracks: Tracks) -> Iterator[dict[str, Any]]:
    yield _metadata(pid, 0, "process_name", name=_name(name))
    yield _metadata(pid, 0, "process_sort_index", sort_index=pid)
    tid = 0
    for title, slices in tracks.items():
        for lane in _without_overlap(slices):
            tid += 1
            yield _metadata(pid, tid, "thread_name", name=_name(title))
            yield _metadata(pid, tid, "thread_sort_index", sort_index=tid)
            for one in lane:
                times = {"ts": round(one.start_us, 3), "dur": round(one.length_us, 3)}
                event = {"ph": "X", "pid": pid, "tid": tid, "name": _name(one.name), **times}
                yield {**event, "args": one.more} if one.more else event


def _metadata(pid: int, tid: int, what: str, **args: object) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": args}


def _name(text: str) -> str:
    return one_line(text, longest=LONGEST)


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
