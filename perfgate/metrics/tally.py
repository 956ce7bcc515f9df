"""One process's operations and calls added up by segment, device and name; it must not know what
becomes of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np

from perfgate.metrics.attribution import Launches, Segments
from perfgate.metrics.calls import CallClass, base_name, classify, nested_in, of_driver
from perfgate.metrics.intervals import FOREVER, max_by, sum_by
from perfgate.metrics.nodes import lost_nodes
from perfgate.model.arrays import among, distinct
from perfgate.model.metric import Metric
from perfgate.model.sample import MEMSETS, WHOLE_GRAPHS
from perfgate.model.timeline import (
    MANAGED_COPIES,
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
MEMSET_WORDS: Final = MEMSETS
GRAPH_WORDS: Final = WHOLE_GRAPHS

_COPIES: Final = re.compile(r"cu(?:da)?Memcpy(?!.*Batch)")
"""Calls that make one copy each."""
_RECORDS: Final = re.compile(r"cu(?:da)?StreamBeginCapture")
_KEYS: Final = 1_000_000
"""Name keys may exceed the number of rows by this much before they are renumbered."""
CLOCKS_APART_NS: Final = 50_000
"""An operation may begin this much before its call: two clocks are made one. On an H200 it is 10 us
behind at least."""
MOST_OUTSIDE: Final = 0.25
"""Share of a table's operations that may lack a call and have run outside the steps before the
others mean nothing."""
_COUNTED: Final = {
    Metric.LAUNCHES: CallClass.LAUNCH,
    Metric.GRAPH_LAUNCHES: CallClass.GRAPH_LAUNCH,
    Metric.SYNCS: CallClass.SYNC,
}


class Table(StrEnum):
    """What an export keeps GPU operations apart as; each may lack its own columns."""

    KERNELS = "kernels and CUDA graphs"
    COPIES = "copies"
    MEMSETS = "memsets"


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What operations of one name did in the steps."""

    count: int
    gpu_ns: int
    bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncWork:
    """What one synchronising call did in the steps under one label."""

    count: int
    cpu_ns: int


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


@dataclass(slots=True)
class Linked:
    """How many operations of one table a call is to have launched: all but those that move managed
    memory."""

    launched: int = 0
    """Since the first step."""
    without_call: int = 0
    """Those that were attributed by their own start, because no call has their correlation id."""
    since: int = 0
    """And those of these since the first step."""
    outside: int = 0
    """And those of these that ran in no step, and count nowhere."""

    @property
    def is_lost(self) -> bool:
        """Whether these are too many for the others to mean anything: a CPU that runs ahead has
        closed the steps by the time their work runs, and only the calls show then whose it is."""
        return self.outside > MOST_OUTSIDE * self.launched


@dataclass(kw_only=True, slots=True)
class Tally:
    """All sums of one process that its metrics are made of."""

    launches: Launches
    """The calls of the process."""
    calls: Ints
    """How many, by segment."""
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
    kernels: dict[str, Work] = field(default_factory=dict)
    copies: dict[tuple[int, int | None], Work] = field(default_factory=dict)
    """Copies launched in turns, by `CopyKind` and by the host's `MemoryKind`, None where neither
    end is the host."""
    memory: dict[str, Work] = field(default_factory=dict)
    """Copies and memsets launched in turns, in nsys's words."""
    syncs: dict[tuple[str, int], SyncWork] = field(default_factory=dict)
    """Synchronising calls in turns, by base name and label."""
    linked: dict[Table, Linked] = field(default_factory=lambda: {one: Linked() for one in Table})
    before_capture: int = 0
    """Operations that were launched before the capture: a queue that was full when it began runs on
    in its first steps, of which it is no part."""
    without_times: int = 0
    """Operations that begin and end at 0: CUPTI could not time them."""
    before_call: list[Ints] = field(default_factory=list)
    """How long before its call each of them began that did so by more than `CLOCKS_APART_NS`; ns,
    by table."""
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

    def calls_from_first(self, segments: Segments) -> bool:
        """Whether there are calls from the first step on, and something may have been launched
        before."""
        begun = np.flatnonzero(self.calls)
        return bool(len(begun) and segments.turn[0] < 0 and segments.step[: begun[0] + 1].max() < 1)

    @property
    def devices(self) -> tuple[int, ...]:
        """Those that operations launched in turns ran on, in order."""
        return tuple(sorted({one.device for one in self.groups}))


def tally(timeline: Timeline, process: int, segments: Segments) -> Tally:
    """Add up one process. Linear in operations and calls while these are nearly in order of time."""
    calls = _Calls(timeline, process, segments)
    zeros = np.zeros(len(segments), np.int64)
    total = Tally(
        launches=Launches.of(calls.correlation, calls.start, calls.segment),
        calls=np.bincount(calls.segment, minlength=len(segments)),
        operations=zeros,
        last_end=zeros - FOREVER,
        calls_lost=zeros,
    )
    ran = [
        _Ran(process, table, ops)
        for table, ops in (
            (Table.KERNELS, timeline.kernels),
            (Table.KERNELS, timeline.graphs),
            (Table.MEMSETS, timeline.memsets),
            (Table.COPIES, timeline.copies),
        )
    ]
    for one in ran:
        one.attribute(total, segments)
    kernels, graphs, memsets, copies = ran
    _add_kernels(total, timeline, kernels)
    for spans, metric, named, words in (
        (graphs, Metric.KERNEL_MS, total.kernels, GRAPH_WORDS),
        (memsets, Metric.MEM_EXPOSED_MS, total.memory, MEMSET_WORDS),
    ):
        spans.group(total, metric)
        if len(spans.start):
            named[words] = Work(count=len(spans.start), gpu_ns=int(spans.ns.sum()))
    _add_copies(total, timeline.copies, copies, len(segments))
    for metric in (Metric.KERNEL_MS, Metric.NCCL_MS, Metric.H2D_MS):
        parts = [one for one in total.groups if one.metric is metric]
        sums = (sum_by(one.segment, one.end - one.start, len(segments)) for one in parts)
        total.by_segment[metric] = sum(sums, zeros)
    counted = {metric: calls.counted_as(wanted) for metric, wanted in _COUNTED.items()}
    _count_calls(total, calls, segments, counted)
    _look_for_lost(total, timeline, process, calls, counted)
    return total


class _Calls:
    """The calls of one process, shape (n,) each."""

    def __init__(self, timeline: Timeline, process: int, segments: Segments) -> None:
        calls = timeline.calls
        rows = _rows(calls.process, process)
        self.start, self.end, self.thread = calls.start[rows], calls.end[rows], calls.thread[rows]
        self.correlation = calls.correlation[rows]
        self.segment = segments.at(self.start)
        self.turn = segments.turn[self.segment]
        self.key, self.texts = _texts(calls.name[rows], timeline.names)
        self.at_once: Flags = self.turn >= 0
        """Which are in turns, and start what runs then: turns that record a graph are left out."""
        recording = self.which(_RECORDS)
        # What is launched while a CUDA graph is being recorded runs later, with the graph.
        if recording.any():
            self.at_once &= ~np.isin(self.turn, self.turn[recording])

    def which(self, pattern: re.Pattern[str]) -> Flags:
        """Which have such a name."""
        matching: Flags = np.array([bool(pattern.match(text)) for text in self.texts], np.bool_)
        return matching.take(self.key)

    def counted_as(self, wanted: CallClass) -> Flags:
        """Which count as this; of a runtime call and the driver call in it the outer one."""
        is_wanted = np.array([classify(text) is wanted for text in self.texts], np.bool_)
        driver = np.array([of_driver(text) for text in self.texts], np.bool_) & is_wanted
        chosen: Flags = is_wanted.take(self.key)
        if driver.any() and not (driver == is_wanted).all():
            by_driver = driver.take(self.key)
            inner, outer = (
                (self.start[its], self.end[its], self.thread[its])
                for its in (by_driver, chosen & ~by_driver)
            )
            chosen[np.flatnonzero(by_driver)[nested_in(inner, outer)]] = False
        return chosen


class _Ran:
    """The operations of one process in one table: first all of them, then those in turns."""

    def __init__(self, process: int, table: Table, ops: Spans) -> None:
        self.table, self.rows = table, _rows(ops.process, process)
        self.start, self.end = ops.start[self.rows], ops.end[self.rows]
        self.device, self.correlation = ops.device[self.rows], ops.correlation[self.rows]
        self.segment = np.empty(0, np.int32)
        self.by_fault: Flags | None = None
        """Which no call launched: managed memory moves by page fault, and belongs to the step in
        which it began."""
        if isinstance(ops, Copies) and len(self.start):
            self.by_fault = np.isin(ops.kind[self.rows], MANAGED_COPIES)

    @property
    def ns(self) -> Ints:
        """How long each took."""
        return self.end - self.start

    def attribute(self, total: Tally, segments: Segments) -> None:
        """Find the segment of each, add up what all tables have in common, and keep those in
        turns."""
        launches, by_fault = total.launches, self.by_fault
        place = launches.place(self.correlation)
        segment = launches.segment[place]
        if by_fault is not None:
            place[by_fault] = segment[by_fault] = -1
        unknown = np.flatnonzero(segment < 0)
        launched = unknown if by_fault is None else unknown[~by_fault[unknown]]
        if total.calls_from_first(segments):
            # The ids of calls rise: what has a lower one than the first was launched before it.
            ids = self.correlation[launched]
            before = launched[(ids > 0) & (ids < launches.lowest)]
            segment[before] = 0
            total.before_capture += len(before)
            unknown, launched = (some[segment[some] < 0] for some in (unknown, launched))
        segment[unknown] = segments.at(self.start[unknown])
        self._link(total, segment, launched, segments)
        end = self.end
        untimed = np.flatnonzero((end == 0) & (self.start == 0))
        if len(untimed):
            total.without_times += len(untimed)
            end = end.copy()
            end[untimed] = -FOREVER  # a capture's times may be negative, and 0 one of its last
        total.last_end = np.maximum(total.last_end, max_by(segment, end, len(segments)))
        in_turn = segments.in_turn.take(segment)
        ahead = launches.times[place] - self.start
        early = (ahead > CLOCKS_APART_NS) & in_turn & (place >= 0) & (end > -FOREVER)
        total.before_call.append(ahead[early])
        self.segment = segment
        if not in_turn.all():
            some = np.flatnonzero(in_turn)
            self.rows = some if isinstance(self.rows, slice) else self.rows[some]
            self.start, self.end, self.device = self.start[some], self.end[some], self.device[some]
            self.correlation, self.segment = self.correlation[some], segment[some]

    def _link(
        self, total: Tally, segment: SmallInts, without_call: Ints, segments: Segments
    ) -> None:
        """Count those that a call is to have launched, and those of them of which it is not
        known."""
        size, linked = len(segments), total.linked[self.table]
        counts = np.bincount(segment, minlength=size)
        total.operations = total.operations + counts
        first = int(np.argmax(segments.step >= 0))
        linked.launched += int(counts[first:].sum())
        if self.by_fault is not None:
            linked.launched -= int((segment[self.by_fault] >= first).sum())
        at = segment[without_call]
        linked.without_call += len(at)
        linked.since += int((at >= first).sum())
        linked.outside += int(((at >= first) & (segments.step[at] < 0)).sum())
        called = self.correlation[without_call] > 0
        total.calls_lost = total.calls_lost + np.bincount(at[called], minlength=size)

    def group(self, total: Tally, metric: Metric, which: Flags | None = None) -> None:
        """Keep them, or some of them, by device."""
        some = np.ones(len(self.start), np.bool_) if which is None else which
        for device in distinct(self.device[some]).tolist():
            here = some & (self.device == device)
            its = slice(None) if here.all() else np.flatnonzero(here)
            total.groups.append(
                Group(metric, device, self.segment[its], self.start[its], self.end[its])
            )


def _add_kernels(total: Tally, timeline: Timeline, ran: _Ran) -> None:
    key, texts = _texts(timeline.kernels.name[ran.rows], timeline.names)
    count = np.bincount(key, minlength=len(texts))
    ns = sum_by(key, ran.ns, len(texts))
    total.kernels = {
        texts[one]: Work(count=int(count[one]), gpu_ns=int(ns[one]))
        for one in np.flatnonzero(count).tolist()
    }
    is_nccl = np.array([bool(NCCL_KERNEL.match(text)) for text in texts], np.bool_)
    if is_nccl.any():
        nccl = is_nccl.take(key)
        ran.group(total, Metric.NCCL_MS, nccl)
        ran.group(total, Metric.KERNEL_MS, ~nccl)
    else:
        ran.group(total, Metric.KERNEL_MS)
    node = timeline.kernels.graph_node[ran.rows]
    in_graphs = node != NO_NODE
    total.nodes, total.nodes_lost = lost_nodes(ran.correlation[in_graphs], node[in_graphs])


def _add_copies(total: Tally, ops: Copies, ran: _Ran, size: int) -> None:
    kind, moved, made = ops.kind[ran.rows], ops.bytes[ran.rows], ops.count[ran.rows]
    h2d, d2h = kind == CopyKind.H2D, kind == CopyKind.D2H
    host_end = np.where(h2d, ops.source[ran.rows], ops.target[ran.rows])
    for metric, chosen, amount in (
        (Metric.H2D_COPIES, h2d, made),
        (Metric.H2D_BYTES, h2d, moved),
        (Metric.D2H_COPIES, d2h, made),
        (Metric.PAGEABLE_COPIES, (h2d | d2h) & (host_end == MemoryKind.PAGEABLE), made),
    ):
        total.by_segment[metric] = sum_by(ran.segment[chosen], amount[chosen], size)
    total.unknown_host = int(made[(h2d | d2h) & (host_end == MemoryKind.UNKNOWN)].sum())
    inbound = h2d | (kind == CopyKind.UVM_H2D)
    ran.group(total, Metric.H2D_MS, inbound)
    ran.group(total, Metric.MEM_EXPOSED_MS, ~inbound)
    for one in distinct(kind).tolist():
        of_kind = kind == one
        hosts = distinct(host_end[of_kind]).tolist()
        for host in hosts if one in (CopyKind.H2D, CopyKind.D2H) else (None,):
            alike = of_kind if host is None else of_kind & (host_end == host)
            total.copies[one, host] = Work(
                count=int(made[alike].sum()),
                gpu_ns=int(ran.ns[alike].sum()),
                bytes=int(moved[alike].sum()),
            )
        total.memory[copy_words(one)] = Work(
            count=int(made[of_kind].sum()), gpu_ns=int(ran.ns[of_kind].sum())
        )


def copy_words(kind: int) -> str:
    """What nsys calls a copy of this `CopyKind`."""
    return COPY_WORDS.get(kind, f"CUDA memcpy kind {kind}")


def _count_calls(
    total: Tally, calls: _Calls, segments: Segments, counted: Mapping[Metric, Flags]
) -> None:
    """Count launches and synchronisations in turns, and these by call and label."""
    for metric, chosen in counted.items():
        segment = calls.segment[chosen & (calls.turn >= 0)]
        total.by_segment[metric] = np.bincount(segment, minlength=len(segments))
    waiting = counted[Metric.SYNCS] & (calls.turn >= 0)
    lasted, labels = (calls.end - calls.start)[waiting], len(segments.labels)
    label = segments.label[calls.segment[waiting]]
    code = calls.key[waiting].astype(np.int64) * labels + label
    present, index, counts = np.unique(code, return_inverse=True, return_counts=True)
    spent = sum_by(index, lasted, len(present))
    for one, count, ns in zip(present.tolist(), counts.tolist(), spent.tolist(), strict=True):
        key = base_name(calls.texts[one // labels]), one % labels
        before = total.syncs.get(key, SyncWork(count=0, cpu_ns=0))
        total.syncs[key] = SyncWork(count=before.count + count, cpu_ns=before.cpu_ns + ns)


def _look_for_lost(
    total: Tally,
    timeline: Timeline,
    process: int,
    calls: _Calls,
    counted: Mapping[Metric, Flags],
) -> None:
    """Count launches of which nothing ran, and calls of which no copy is there."""
    kernels, *others = (
        ops.correlation[_rows(ops.process, process)]
        for ops in (timeline.kernels, timeline.copies, timeline.graphs, timeline.memsets)
    )
    lost = 0
    # Where a capture holds other processes' kernels alone, this one's are lost; where it holds
    # none, none were traced. Traced node by node, a graph is what its nodes are.
    for metric, traced, held in (
        (Metric.LAUNCHES, len(timeline.kernels.start), [kernels]),
        (Metric.GRAPH_LAUNCHES, timeline.gpu_operations, [kernels, *others]),
    ):
        ids = calls.correlation[counted[metric] & calls.at_once]
        ids = ids[ids > 0]
        if traced:
            total.launched += len(ids)
            lost += int((~np.isin(ids, np.concatenate(held))).sum())
    # What ran since the first step and has no call may be of a launch of which nothing is found.
    total.lost = max(0, lost - total.linked[Table.KERNELS].since)
    _look_for_lost_copies(total, calls, others[0])


def _look_for_lost_copies(total: Tally, calls: _Calls, held: Ints) -> None:
    """Count the calls that copy, and the copies that the last turns lack.

    Some calls never leave a copy (of no bytes, by a kernel): those of a name that has none are not
    asked after, unless the capture holds no copy of the process at all. Others leave one in some
    turns and none in others. A profiler that stopped too early lacks the last copies: from some
    turn on fewer are held than usual, and more calls lack theirs. A lost buffer of records, in
    between, lacks kernels as well.

    ```
    held     2 2 1 2 2 2 0 0
    lacking  1 0 1 1 1 1 3 3      4 are lost: two a turn of the last two
    ```
    """
    copying = np.flatnonzero(calls.which(_COPIES) & calls.at_once & (calls.correlation > 0))
    key, turn = calls.key[copying], calls.turn[copying]
    found = among(calls.correlation[copying], held)
    if not len(held):
        total.copying = total.copies_lost = len(copying)
        return
    asked = np.isin(key, distinct(key[found]))
    total.copying = int(asked.sum())
    if not total.copying:
        return
    turns = int(calls.turn.max()) + 1
    holds, lacks = (np.bincount(turn[some], minlength=turns) for some in (found, asked & ~found))
    until = int(np.flatnonzero(holds)[-1]) + 1
    usual_held, usual_lacking = np.median(holds[:until]), np.median(lacks[:until])
    after = int(np.flatnonzero(holds >= usual_held)[-1]) + 1
    lost = np.minimum(usual_held - holds[after:], lacks[after:] - usual_lacking)
    total.copies_lost = int(np.maximum(lost, 0).sum())


def _texts(key: SmallInts, names: Mapping[int, str]) -> tuple[SmallInts, list[str]]:
    """Keys into a list of the names in use ("" where a key is not): the keys themselves, renumbered
    where sparse."""
    if int(key.min(initial=0)) < 0 or int(key.max(initial=-1)) > len(key) + _KEYS:
        used, renumbered = np.unique(key, return_inverse=True)
        return renumbered.astype(np.int32), [_name(names, one) for one in used.tolist()]
    texts = [""] * (int(key.max(initial=-1)) + 1)
    for one in np.flatnonzero(np.bincount(key)).tolist():
        texts[one] = _name(names, one)
    return key, texts


def _name(names: Mapping[int, str], key: int) -> str:
    return names.get(key, f"(name {key})")


def _rows(of: SmallInts, process: int) -> slice | Ints:
    """Those of one process."""
    mine = of == process
    return slice(None) if mine.all() else np.flatnonzero(mine)
