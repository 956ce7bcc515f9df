"""One process's operations and calls added up by segment, device and name; it must not know what
becomes of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from perfgate.metrics.attribution import Segments
from perfgate.metrics.calls import (
    CallKind,
    ProcessCalls,
    base_name,
    lost_nodes,
    rows_of,
    texts_of,
)
from perfgate.metrics.intervals import FOREVER, sum_by
from perfgate.model.arrays import distinct, parts, taken
from perfgate.model.metric import Metric
from perfgate.model.sample import WHOLE_GRAPHS
from perfgate.model.timeline import (
    NO_NODE,
    Copies,
    CopyKind,
    Flags,
    Ints,
    MemoryKind,
    SmallInts,
    Spans,
    Timeline,
)

NCCL_KERNEL: Final = re.compile(r"(?:void )?nccl\w*Kernel")
"""How NCCL names its kernels: ncclAllReduceRingLLKernel_sum_f32 (to 2.8), ncclKernel_... (to 2.18),
ncclDevKernel_..., ncclSymDevKernel_... (2.27), ncclSymkDevKernel_... (2.28 on)."""

COPY_WORDS: Final[Mapping[int, str]] = {
    CopyKind.UNKNOWN: "CUDA memcpy Unknown",
    CopyKind.H2D: "CUDA memcpy Host-to-Device",
    CopyKind.D2H: "CUDA memcpy Device-to-Host",
    CopyKind.D2D: "CUDA memcpy Device-to-Device",
    CopyKind.H2H: "CUDA memcpy Host-to-Host",
    CopyKind.P2P: "CUDA memcpy Peer-to-Peer",
    CopyKind.UVM_H2D: "CUDA memcpy Unified Host-to-Device",
    CopyKind.UVM_D2H: "CUDA memcpy Unified Device-to-Host",
    CopyKind.UVM_D2D: "CUDA memcpy Unified Device-to-Device",
}
"""nsys's words since 2023.4."""

CLOCKS_APART_NS: Final = 50_000
"""An operation may begin this much before its call: two clocks are made one. On an H200 it is 10 us
behind at least."""
MOST_OUTSIDE: Final = 0.25
"""Share of the operations that may lack a call and have run outside the steps before the others
mean nothing: a CPU that runs ahead has closed the steps by the time their work runs, and only the
calls show then whose it is."""
_COUNTED: Final = {
    Metric.LAUNCHES: CallKind.LAUNCH,
    Metric.GRAPH_LAUNCHES: CallKind.GRAPH_LAUNCH,
    Metric.SYNCS: CallKind.SYNC,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What operations of one name, or calls of one name and label, did in the steps."""

    count: int = 0
    ns: int = 0
    """Their time, on the GPU or in the call."""
    bytes: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            count=self.count + other.count,
            ns=self.ns + other.ns,
            bytes=self.bytes + other.bytes,
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Operations in turns of one kind that ran on one device, by the segments that launched them;
    each of shape (n,)."""

    metric: Metric
    """The time that they are: of kernels, NCCL's, copies to the device, or what is left of
    `MEM_EXPOSED_MS`, other copies and memsets."""
    device: int
    segment: SmallInts
    start: Ints
    end: Ints


@dataclass(frozen=True, slots=True)
class _Ran:
    """The operations of one process in one table that were launched in turns."""

    rows: slice | Ints
    start: Ints
    end: Ints
    device: SmallInts
    segment: SmallInts
    left_by: Flags
    """Which calls left one in the table, in turns or not; by their place, and one more for none."""

    @property
    def work(self) -> Work:
        """All of it."""
        return Work(count=len(self.start), ns=int((self.end - self.start).sum()))

    def group(self, total: Tally, metric: Metric, which: Flags | None = None) -> None:
        """Keep them, or some of them, by device."""
        for device in distinct(self.device if which is None else self.device[which]).tolist():
            here = self.device == device
            here = here if which is None else here & which
            its = slice(None) if here.all() else np.flatnonzero(here)
            total.groups.append(
                Group(metric, device, self.segment[its], self.start[its], self.end[its])
            )


@dataclass(kw_only=True, slots=True)
class Tally:
    """All sums of one process that its metrics are made of."""

    segments: Segments
    calls: ProcessCalls
    first_step: int
    """The first segment of a step."""
    from_first: bool
    """Whether there are calls from the first step on, and something may have been launched
    before."""
    operations: Ints
    """GPU operations by segment of launch."""
    last_end: Ints
    """End of the last GPU operation launched in each segment; `-FOREVER` where there is none."""
    calls_lost: Ints
    """Operations by segment without a call that have the id of one, so that it was made and the
    capture lacks it; device-side launches too."""
    by_segment: dict[Metric, Ints] = field(default_factory=dict)
    """Times in ns, counts as they are; of turns only."""
    groups: list[Group] = field(default_factory=list)
    devices: tuple[int, ...] = ()
    """Those that operations launched in turns ran on, in order."""
    kernels: dict[str, Work] = field(default_factory=dict)
    copies: dict[tuple[int, int | None], Work] = field(default_factory=dict)
    """Copies launched in turns, by `CopyKind` and by the host's `MemoryKind`, None where neither
    end is the host."""
    memsets: Work = field(default_factory=Work)
    """Launched in turns."""
    syncs: dict[tuple[str, int], Work] = field(default_factory=dict)
    """Synchronising calls in turns, by base name and label."""
    linkable: int = 0
    """Operations since the first step that a call is to have launched: all but those that move
    managed memory."""
    without_call: int = 0
    """And those of these that were attributed by their own start, because no call has their
    correlation id."""
    outside: int = 0
    """And those of these that ran in no step, so that nothing says whose they are."""
    before_capture: int = 0
    """Operations that were launched before the capture: a queue that was full when it began runs on
    in its first steps, of which it is no part."""
    without_times: int = 0
    """Operations that begin and end at 0: CUPTI could not time them."""
    before_call: int = 0
    """Operations in turns that began more than `CLOCKS_APART_NS` before their calls."""
    before_call_ns: int = 0
    """And by how much, together."""
    unknown_host: int = 0
    """Copies between host and device in turns of which the capture does not say where the host's
    end lies."""
    launched: int = 0
    """Launches of kernels and of CUDA graphs in turns whose work the capture should hold."""
    lost: int = 0
    """And those of them of which it holds nothing."""
    nodes: int = 0
    """Kernels that launches of one graph, traced node by node, should hold in turns; of graphs that
    lack any."""
    nodes_lost: int = 0
    """And those of them that the capture lacks."""
    copying: int = 0
    """Calls in turns that copy, of a name of which the capture holds any copy, or holds none at
    all."""
    copies_lost: int = 0
    """Copies of theirs that it should hold and does not."""

    def attribute(self, ops: Spans, process: int) -> _Ran:
        """Find the segments of the process's operations in a table, and add up what all tables have
        in common; in parts that the processor's cache holds."""
        mine = rows_of(ops.process, process)
        start, end, ids = ops.start[mine], ops.end[mine], ops.correlation[mine]
        managed = ops.managed(mine)
        segment = np.empty(len(start), np.int32)
        left_by = np.zeros(len(self.calls.start) + 1, np.bool_)
        for part in parts(len(start)):
            place = self.calls.place(ids[part])
            left_by[place] = True
            # Managed memory moves by page fault, and belongs to the step in which it began.
            place[managed[part]] = -1
            here = self.calls.segment_at(place)
            if (here < 0).any():
                self._place_others(here, managed[part], start[part], ids[part])
            segment[part] = here
            since = (here >= self.first_step) & ~managed[part]
            self.linkable += int(np.count_nonzero(since))
            self._note_times(here, place, start[part], end[part])
        device = ops.device[mine]
        in_turn = taken(self.segments.turn >= 0, segment)
        if not in_turn.all():
            some = np.flatnonzero(in_turn)
            mine = some if isinstance(mine, slice) else mine[some]
            start, end, device, segment = start[some], end[some], device[some], segment[some]
        return _Ran(mine, start, end, device, segment, left_by)

    def _note_times(self, segment: SmallInts, place: SmallInts, start: Ints, end: Ints) -> None:
        """Count operations and when the last of each segment ended; note impossible times."""
        np.add.at(self.operations, segment, 1)
        untimed = (end == 0) & (start == 0)
        self.without_times += int(np.count_nonzero(untimed))
        # A capture's times may be negative, and 0 one of its last.
        np.maximum.at(self.last_end, segment, np.where(untimed, -FOREVER, end))
        ahead = self.calls.begun(place) - start
        early = np.flatnonzero((ahead > CLOCKS_APART_NS) & (place >= 0) & ~untimed)
        early = early[self.segments.turn[segment[early]] >= 0]
        self.before_call += len(early)
        self.before_call_ns += int(ahead[early].sum())

    def _place_others(self, segment: SmallInts, managed: Flags, start: Ints, ids: Ints) -> None:
        """Put those without a call where they ran, in place."""
        if self.from_first:
            # The ids of calls rise: what has a lower one than the first was launched before it.
            before = (segment < 0) & ~managed & (ids > 0) & (ids < self.calls.lowest)
            segment[before] = 0
            self.before_capture += int(np.count_nonzero(before))
        unknown = np.flatnonzero(segment < 0)
        segment[unknown] = self.segments.at(start[unknown])
        launched = unknown[~managed[unknown]]
        at = segment[launched]
        since = at[at >= self.first_step]
        self.without_call += len(since)
        self.outside += int(np.count_nonzero(self.segments.step[since] < 0))
        np.add.at(self.calls_lost, at[ids[launched] > 0], 1)


def tally(timeline: Timeline, process: int, segments: Segments) -> Tally:
    """Add up one process. Linear in operations and calls that are nearly in order of time."""
    calls, size = ProcessCalls(timeline, process, segments), len(segments)
    begun = int(np.argmax(calls.by_segment > 0))
    first = segments.step[: begun + 1].max() < 1 and segments.turn[0] < 0
    total = Tally(
        segments=segments,
        calls=calls,
        first_step=int(np.argmax(segments.step >= 0)),
        from_first=bool(len(calls.start) and first),
        operations=np.zeros(size, np.int64),
        last_end=np.full(size, -FOREVER, np.int64),
        calls_lost=np.zeros(size, np.int64),
    )
    kernels, graphs = (total.attribute(ops, process) for ops in (timeline.kernels, timeline.graphs))
    # A kernel or graph without an id may be of a launch of which nothing is found; one that has an
    # id is of another, which the capture lacks.
    unclaimed = total.without_call - int(total.calls_lost[total.first_step :].sum())
    memsets, copies = (total.attribute(ops, process) for ops in (timeline.memsets, timeline.copies))
    _add_kernels(total, timeline, kernels)
    graphs.group(total, Metric.KERNEL_MS)
    if len(graphs.start):
        total.kernels[WHOLE_GRAPHS] = graphs.work
    memsets.group(total, Metric.MEM_EXPOSED_MS)
    total.memsets = memsets.work
    _add_copies(total, timeline.copies, copies)
    for metric in (Metric.KERNEL_MS, Metric.NCCL_MS, Metric.H2D_MS):
        groups = [one for one in total.groups if one.metric is metric]
        sums = (sum_by(one.segment, one.end, size, since=one.start) for one in groups)
        total.by_segment[metric] = sum(sums, np.zeros(size, np.int64))
    total.devices = tuple(sorted({one.device for one in total.groups}))
    _add_calls(total, timeline, kernels.left_by, copies.left_by | graphs.left_by | memsets.left_by)
    total.lost = max(0, total.lost - unclaimed)
    total.copying, total.copies_lost = calls.lost_copies(copies.left_by)
    return total


def _add_kernels(total: Tally, timeline: Timeline, ran: _Ran) -> None:
    key, texts = texts_of(timeline.kernels.name[ran.rows], timeline.names)
    count = np.bincount(key, minlength=len(texts))
    ns = sum_by(key, ran.end, len(texts), since=ran.start)
    total.kernels = {
        texts[one]: Work(count=int(count[one]), ns=int(ns[one]))
        for one in np.flatnonzero(count).tolist()
    }
    is_nccl = np.array([bool(NCCL_KERNEL.match(text)) for text in texts], np.bool_)
    if is_nccl.any():
        nccl = taken(is_nccl, key)
        ran.group(total, Metric.NCCL_MS, nccl)
        ran.group(total, Metric.KERNEL_MS, ~nccl)
    else:
        ran.group(total, Metric.KERNEL_MS)
    node = timeline.kernels.graph_node[ran.rows]
    if (in_graphs := node != NO_NODE).any():
        launch = timeline.kernels.correlation[ran.rows][in_graphs]
        total.nodes, total.nodes_lost = lost_nodes(launch, node[in_graphs])


def _add_copies(total: Tally, ops: Copies, ran: _Ran) -> None:
    kind, moved, made = ops.kind[ran.rows], ops.bytes[ran.rows], ops.count[ran.rows]
    h2d, d2h = kind == CopyKind.H2D, kind == CopyKind.D2H
    host_end = np.where(h2d, ops.source[ran.rows], ops.target[ran.rows])
    for metric, chosen, amount in (
        (Metric.H2D_COPIES, h2d, made),
        (Metric.H2D_BYTES, h2d, moved),
        (Metric.D2H_COPIES, d2h, made),
        (Metric.PAGEABLE_COPIES, (h2d | d2h) & (host_end == MemoryKind.PAGEABLE), made),
    ):
        sums = sum_by(ran.segment[chosen], amount[chosen], len(total.segments))
        total.by_segment[metric] = sums
    total.unknown_host = int(made[(h2d | d2h) & (host_end == MemoryKind.UNKNOWN)].sum())
    inbound = h2d | (kind == CopyKind.UVM_H2D)
    ran.group(total, Metric.H2D_MS, inbound)
    ran.group(total, Metric.MEM_EXPOSED_MS, ~inbound)
    for one in distinct(kind).tolist():
        of_kind = kind == one
        is_hosted = one in (CopyKind.H2D, CopyKind.D2H)
        for host in distinct(host_end[of_kind]).tolist() if is_hosted else (None,):
            alike = of_kind if host is None else of_kind & (host_end == host)
            total.copies[one, host] = Work(
                count=int(made[alike].sum()),
                ns=int((ran.end - ran.start)[alike].sum()),
                bytes=int(moved[alike].sum()),
            )


def copy_words(kind: int) -> str:
    """What nsys calls a copy of this `CopyKind`."""
    return COPY_WORDS.get(kind, f"CUDA memcpy kind {kind}")


def _add_calls(total: Tally, timeline: Timeline, kernel_by: Flags, other_by: Flags) -> None:
    """Count launches and synchronisations in turns, these by call and label, and launches of which
    nothing ran: `kernel_by` says which calls left a kernel, `other_by` which another operation.

    Where a capture holds other processes' kernels alone, this one's are lost; where it holds none,
    none were traced. Traced node by node, a graph is what its nodes are.
    """
    calls = total.calls
    segments = total.segments
    counted = {metric: calls.counted_as(kind) for metric, kind in _COUNTED.items()}
    for metric, chosen in counted.items():
        segment = calls.segment[chosen & calls.in_turn]
        total.by_segment[metric] = np.bincount(segment, minlength=len(segments))
    for metric, traced, ran in (
        (Metric.LAUNCHES, len(timeline.kernels.start), kernel_by),
        (Metric.GRAPH_LAUNCHES, timeline.gpu_operations, kernel_by | other_by),
    ):
        chosen = counted[metric] & calls.at_once & (calls.correlation > 0)
        if traced and chosen.any():
            total.launched += int(np.count_nonzero(chosen))
            total.lost += int(np.count_nonzero(~ran[calls.place(calls.correlation[chosen])]))
    waiting = np.flatnonzero(counted[Metric.SYNCS] & calls.in_turn)
    lasted, labels = calls.end[waiting] - calls.start[waiting], len(segments.labels)
    label = segments.label[calls.segment[waiting]]
    code = calls.key[waiting].astype(np.int64) * labels + label
    present, index, counts = np.unique(code, return_inverse=True, return_counts=True)
    spent = sum_by(index, lasted, len(present))
    for one, count, ns in zip(present.tolist(), counts.tolist(), spent.tolist(), strict=True):
        key = base_name(calls.texts[one // labels]), one % labels
        total.syncs[key] = total.syncs.get(key, Work()) + Work(count=count, ns=ns)
