"""The GPU operations of a moment of a capture, out of its timeline; knows no step."""

from __future__ import annotations

from typing import Any

import numpy as np

from perfgate.model.arrays import distinct
from perfgate.model.timeline import (
    MANAGED_COPIES,
    NO_CORRELATION,
    NO_NODE,
    SHARE_AN_ID,
    Calls,
    Copies,
    Flags,
    Ints,
    Spans,
    Timeline,
)
from perfgate.model.window import (
    StreamCopies,
    StreamKernels,
    StreamMemsets,
    StreamSpans,
    WindowOps,
)


def operations_in(timeline: Timeline, start_ns: int, end_ns: int) -> WindowOps:
    """The operations that ran in [start_ns, end_ns) or were launched in it, of every process.

    ```
    window             [----------------------)
    call       ^a ^b      ^c  ^d           ^e
    operation  |a| |--b--|  |c|  |----d-------|  |--e--|        all but a
    ```
    An operation without length runs where it starts, and a window without length is that moment.
    Of several calls with one correlation id (a runtime call and the driver call in it) the first
    launched it.
    """
    launched = _launched(timeline.calls, start_ns, end_ns)

    def chosen(ops: Spans) -> Ints:
        inside = (ops.start < end_ns) & ((ops.end > start_ns) | (ops.start >= start_ns))
        by_call = np.zeros(len(ops.start), np.bool_)
        for process, ids in launched.items():
            by_call |= (ops.process == process) & np.isin(ops.correlation, ids)
        if isinstance(ops, Copies):
            by_call &= ~np.isin(ops.kind, MANAGED_COPIES)
        return np.flatnonzero(inside | by_call)

    tables = (timeline.kernels, timeline.copies, timeline.memsets, timeline.graphs)
    kernels, copies, memsets, graphs = map(chosen, tables)
    names = timeline.kernels.name[kernels]
    return WindowOps(
        source=timeline.source,
        start_ns=start_ns,
        end_ns=end_ns,
        processes=timeline.processes,
        kernels=StreamKernels(
            **_spans(timeline.kernels, kernels),
            name=names,
            graph_node=timeline.kernels.graph_node[kernels] != NO_NODE,
        ),
        copies=StreamCopies(
            **_spans(timeline.copies, copies),
            bytes=timeline.copies.bytes[copies],
            kind=timeline.copies.kind[copies],
            source=timeline.copies.source[copies],
            target=timeline.copies.target[copies],
        ),
        memsets=StreamMemsets(
            **_spans(timeline.memsets, memsets), bytes=timeline.memsets.bytes[memsets]
        ),
        graphs=StreamSpans(**_spans(timeline.graphs, graphs)),
        names={name: timeline.names[name] for name in distinct(names).tolist()},
    )


def _spans(ops: Spans, rows: Ints) -> dict[str, Any]:
    return {
        name: getattr(ops, name)[rows]
        for name in ("start", "end", "device", "process", "stream", "correlation")
    }


def _launched(calls: Calls, start_ns: int, end_ns: int) -> dict[int, Ints]:
    """Ids of what was launched in the window, by process."""
    during: Flags = (calls.start < end_ns) & (calls.end >= start_ns)
    during &= calls.correlation != NO_CORRELATION
    if np.count_nonzero(calls.correlation == 0) > SHARE_AN_ID:
        during &= calls.correlation != 0
    before = during & (calls.start < start_ns)
    within = during & (calls.start >= start_ns)
    found: dict[int, Ints] = {}
    for process in distinct(calls.process[within]).tolist():
        own = calls.process == process
        ids = calls.correlation[within & own]
        found[process] = ids[~np.isin(ids, calls.correlation[before & own])]
    return found
