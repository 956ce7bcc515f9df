"""Timelines for tests, from ASCII pictures and plain rows; it must not know what the metrics room
makes of them."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from perfgate.model.arrays import RangeNames
from perfgate.model.note import note
from perfgate.model.timeline import (
    NO_NODE,
    Calls,
    CapturedGpu,
    Copies,
    CopyKind,
    EventRecords,
    Kernels,
    MemoryKind,
    Memsets,
    Ranges,
    Spans,
    Timeline,
    Waits,
)

COLUMN_NS = 1_000_000
"""One column of a picture: 1 ms."""
PID = 100
THREAD = 1


@dataclass(frozen=True, kw_only=True)
class Op:
    """One GPU operation, ns."""

    start: int
    end: int
    name: str = "k"
    device: int = 0
    pid: int = PID
    stream: int = 7
    correlation: int = -1
    graph_node: int = NO_NODE
    bytes: int = 0
    kind: CopyKind = CopyKind.H2D
    source: MemoryKind = MemoryKind.PINNED
    target: MemoryKind = MemoryKind.DEVICE


@dataclass(frozen=True, kw_only=True)
class Call:
    """One CUDA API call, ns."""

    start: int
    end: int
    name: str = "cudaLaunchKernel_v7000"
    pid: int = PID
    thread: int = THREAD
    correlation: int = -1


@dataclass(frozen=True, kw_only=True)
class Range:
    """One NVTX range, ns."""

    start: int
    end: int
    name: str = "step"
    pid: int = PID
    thread: int = THREAD
    push_pop: bool = True
    closed: bool = True


_Kinds = Mapping[str, type[np.generic]]
_SPAN: _Kinds = {
    "start": np.int64,
    "end": np.int64,
    "device": np.int32,
    "stream": np.int32,
    "correlation": np.int64,
}
_COPY: _Kinds = {"bytes": np.int64, "kind": np.int8, "source": np.int8, "target": np.int8}
_CALL: _Kinds = {"start": np.int64, "end": np.int64, "thread": np.int64, "correlation": np.int64}
_RANGE: _Kinds = {
    "start": np.int64,
    "end": np.int64,
    "thread": np.int64,
    "push_pop": np.bool_,
    "closed": np.bool_,
}
"""Columns of the tables that are rows' own, and what they hold."""


def _columns(rows: Sequence[Op | Call | Range], kinds: _Kinds) -> dict[str, Any]:
    return {
        name: np.array([getattr(row, name) for row in rows], kind) for name, kind in kinds.items()
    }


_Table = TypeVar("_Table", Waits, EventRecords)


def _none(table: type[_Table]) -> _Table:
    columns: dict[str, Any] = {one.name: np.empty(0, np.int64) for one in dataclasses.fields(table)}
    return table(**columns)


def build(
    *,
    kernels: Sequence[Op] = (),
    copies: Sequence[Op] = (),
    memsets: Sequence[Op] = (),
    graphs: Sequence[Op] = (),
    calls: Sequence[Call] = (),
    ranges: Sequence[Range] = (),
    gpus: Sequence[CapturedGpu] = (),
    missing: Mapping[str, str] | None = None,
) -> Timeline:
    """A timeline of plain rows; its processes are the rows' pids in order."""
    everything: list[Op | Call | Range] = [*kernels, *copies, *memsets, *graphs, *calls, *ranges]
    pids = sorted({row.pid for row in everything})
    texts = sorted({op.name for op in kernels} | {call.name for call in calls})

    def processes(rows: Sequence[Op | Call | Range]) -> dict[str, Any]:
        return {"process": np.array([pids.index(row.pid) for row in rows], np.int32)}

    def names(rows: Sequence[Op | Call]) -> dict[str, Any]:
        return {"name": np.array([texts.index(row.name) for row in rows], np.int32)}

    def spans(ops: Sequence[Op]) -> dict[str, Any]:
        return processes(ops) | _columns(ops, _SPAN)

    return Timeline(
        source="drawn.sqlite",
        processes=tuple(pids),
        kernels=Kernels(
            **spans(kernels), **names(kernels), **_columns(kernels, {"graph_node": np.int64})
        ),
        copies=Copies(
            **spans(copies), **_columns(copies, _COPY), count=np.ones(len(copies), np.int64)
        ),
        memsets=Memsets(**spans(memsets), **_columns(memsets, {"bytes": np.int64})),
        graphs=Spans(**spans(graphs)),
        calls=Calls(**processes(calls), **names(calls), **_columns(calls, _CALL)),
        ranges=Ranges(
            **processes(ranges),
            **_columns(ranges, _RANGE),
            name=RangeNames.of(one.name for one in ranges),
        ),
        names=dict(enumerate(texts)),
        gpus=tuple(gpus),
        ordinals={
            (process, op.device): op.device
            for process in range(len(pids))
            for op in (*kernels, *copies, *memsets, *graphs)
        },
        waits=_none(Waits),
        event_records=_none(EventRecords),
        missing={what: note("quoted", text=why) for what, why in (missing or {}).items()},
    )


_LAUNCHERS = {
    "kernel": "cudaLaunchKernel_v7000",
    "nccl": "cudaLaunchKernelExC_v11060",
    "graph": "cudaGraphLaunch_v10000",
    "node": "cudaGraphLaunch_v10000",
    "memset": "cudaMemsetAsync_v3020",
    "h2d": "cudaMemcpyAsync_v3020",
    "d2h": "cudaMemcpyAsync_v3020",
    "uvm": "",
}
_TABLES = {
    "graph": "graphs",
    "memset": "memsets",
    "h2d": "copies",
    "d2h": "copies",
    "uvm": "copies",
}
"""Of operations that are no kernels."""
_MARK = re.compile(r"\^([^\s^|]+)")


def draw(picture: str, *, missing: Mapping[str, str] | None = None) -> Timeline:
    r"""A timeline from a picture, one lane a line, one column a millisecond; a bar's name stands
    between its ends.

    ```
    range     |------step------|   |------step------|
    launch        ^a   ^b              ^c
    kernel          |--a--||-b-|         |---c---|
    ```
    A lane is a kind and qualifiers, then the picture from its first `|` or `^` on. Kinds: `range`
    (push/pop) and `startend`; `launch` (a mark is the moment of the call that launches the
    operations of that name, with the API function that fits them); `call` (bars named by API
    function); and the operations `kernel`, `nccl` (a kernel with NCCL's prefix), `graph` (traced
    whole), `node` (a kernel inside a graph), `memset`, `h2d`, `d2h` and `uvm` (managed memory, host
    to device). Qualifiers: `gpuN`, `threadN`, `pidN`, `pageable`, `unknown` (a copy's host end),
    `unclosed`. Bars may share an end: `|-a-|-b-|`; blanks between ends are no bar. Copies move 1000
    bytes a column.
    """
    bars: list[tuple[str, set[str], int, int, str]] = []
    marks: list[tuple[set[str], int, str]] = []
    for line in picture.splitlines():
        begin = min((at for at in (line.find("|"), line.find("^")) if at >= 0), default=-1)
        if begin < 0:
            if line.strip():
                raise ValueError(f"no bar or mark in {line!r}")
            continue
        kind, *rest = line[:begin].split()
        words = set(rest)
        if kind == "launch":
            marks += [(words, found.start(), found[1]) for found in _MARK.finditer(line)]
            continue
        ends = [at for at, letter in enumerate(line) if letter == "|"]
        for first, last in itertools.pairwise(ends):
            if name := line[first + 1 : last].strip():
                bars.append((kind, words, first, last, name.strip("-") or kind))
    ids = {
        name: index + 1
        for index, name in enumerate(
            sorted({name for _, _, name in marks} | {bar[4] for bar in bars})
        )
    }
    kind_of = {name: kind for kind, _, _, _, name in bars if kind in _LAUNCHERS}
    calls = [
        Call(
            start=at * COLUMN_NS,
            end=at * COLUMN_NS + COLUMN_NS // 10,
            name=_LAUNCHERS[kind_of.get(name, "kernel")],
            pid=_number(where, "pid", PID),
            thread=_number(where, "thread", THREAD),
            correlation=ids[name],
        )
        for where, at, name in marks
    ]
    ops: defaultdict[str, list[Op]] = defaultdict(list)
    ranges: list[Range] = []
    for kind, words, first, last, name in bars:
        start, end, pid = first * COLUMN_NS, last * COLUMN_NS, _number(words, "pid", PID)
        thread = _number(words, "thread", THREAD)
        if kind in ("range", "startend"):
            closed, push_pop = "unclosed" not in words, kind == "range"
            ranges.append(
                Range(
                    start=start,
                    end=end,
                    name=name,
                    pid=pid,
                    thread=thread,
                    push_pop=push_pop,
                    closed=closed,
                )
            )
            continue
        if kind == "call":
            calls.append(Call(start=start, end=end, name=name, pid=pid, thread=thread))
            continue
        if kind not in _LAUNCHERS:
            raise ValueError(f"no lane is called {kind!r}")
        op = Op(
            start=start,
            end=end,
            name=f"ncclDevKernel_{name}" if kind == "nccl" else name,
            device=_number(words, "gpu", 0),
            pid=pid,
            correlation=ids[name],
            graph_node=1 if kind == "node" else NO_NODE,
            bytes=1000 * (last - first),
        )
        host = (
            MemoryKind.PAGEABLE
            if "pageable" in words
            else MemoryKind.UNKNOWN
            if "unknown" in words
            else MemoryKind.PINNED
        )
        changes: Mapping[str, Mapping[str, Any]] = {
            "h2d": {"kind": CopyKind.H2D, "source": host},
            "d2h": {"kind": CopyKind.D2H, "source": MemoryKind.DEVICE, "target": host},
            "uvm": {
                "kind": CopyKind.UVM_H2D,
                "source": MemoryKind.MANAGED,
                "correlation": -1,
            },
        }
        ops[_TABLES.get(kind, "kernels")].append(dataclasses.replace(op, **changes.get(kind, {})))
    return build(
        kernels=ops["kernels"],
        copies=ops["copies"],
        memsets=ops["memsets"],
        graphs=ops["graphs"],
        calls=calls,
        ranges=ranges,
        missing=missing,
    )


def _number(words: set[str], prefix: str, default: int) -> int:
    return next(
        (int(word.removeprefix(prefix)) for word in words if re.fullmatch(rf"{prefix}\d+", word)),
        default,
    )


def permuted(timeline: Timeline, seed: int) -> Timeline:
    """The same capture with the rows of every table in another order."""
    rng = np.random.default_rng(seed)
    tables = {
        name: getattr(timeline, name)
        for name in ("kernels", "copies", "memsets", "graphs", "calls", "ranges")
    }
    changed = {}
    for name, table in tables.items():
        order = rng.permutation(len(table.start))
        columns = {
            column.name: getattr(table, column.name)[order] for column in dataclasses.fields(table)
        }
        changed[name] = dataclasses.replace(table, **columns)
    return dataclasses.replace(timeline, **changed)


def shifted(timeline: Timeline, by_ns: int) -> Timeline:
    """The same capture on a clock that is `by_ns` ahead."""
    changed = {}
    for name in ("kernels", "copies", "memsets", "graphs", "calls", "ranges"):
        table = getattr(timeline, name)
        changed[name] = dataclasses.replace(table, start=table.start + by_ns, end=table.end + by_ns)
    return dataclasses.replace(timeline, **changed)
