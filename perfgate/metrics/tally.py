"""One process's operations and calls added up by segment, device and name; it must not know what
becomes of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np

from perfgate.metrics.attribution import Launches, Segments
from perfgate.metrics.calls import CallClass, base_name, classify, nested_in, of_driver
from perfgate.metrics.intervals import FOREVER, sum_by, time_by
from perfgate.metrics.nodes import lost_nodes
from perfgate.model.arrays import distinct, parts, taken
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
    kernels: dict[str, Work] = field(default_factory=dict)
    copies: dict[tuple[int, int | None], Work] = field(default_factory=dict)
    """Copies launched in turns, by `CopyKind` and by the host's `MemoryKind`, None where neither
    end is the host."""
    memory: dict[str, Work] = field(default_factory=dict)
    """Copies and memsets launched in turns, in nsys's words."""
    syncs: dict[tuple[str, int], Work] = field(default_factory=dict)
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

    @property
    def devices(self) -> tuple[int, ...]:
        """Those that operations launched in turns ran on, in order."""
        return tuple(sorted({one.device for one in self.groups}))


def tally(timeline: Timeline, process: int, segments: Segments) -> Tally:
    """Add up one process. Linear in operations and calls that are nearly in order of time."""
    calls, size = _Calls(timeline, process, segments), len(segments)
    called = np.bincount(calls.segment, minlength=size)
    begun = int(np.argmax(called > 0))
    first = segments.step[: begun + 1].max() < 1 and segments.turn[0] < 0
    total = Tally(
        launches=Launches.of(calls.correlation, calls.start, calls.segment),
        calls=called,
        from_first=bool(called.any() and first),
        operations=np.zeros(size, np.int64),
        last_end=np.full(size, -FOREVER, np.int64),
        calls_lost=np.zeros(size, np.int64),
    )
    attribution = _Attribution(total, segments, process)
    kernels = attribution.run(Table.KERNELS, timeline.kernels)
    graphs = attribution.run(Table.KERNELS, timeline.graphs)
    memsets = attribution.run(Table.MEMSETS, timeline.memsets)
    copies = attribution.run(Table.COPIES, timeline.copies)
    _add_kernels(total, timeline, kernels)
    for ran, metric, named, words in (
        (graphs, Metric.KERNEL_MS, total.kernels, GRAPH_WORDS),
        (memsets, Metric.MEM_EXPOSED_MS, total.memory, MEMSET_WORDS),
    ):
        ran.group(total, metric)
        if len(ran.start):
            named[words] = Work(count=len(ran.start), ns=int(ran.ns.sum()))
    _add_copies(total, timeline.copies, copies, size)
    for metric in (Metric.KERNEL_MS, Metric.NCCL_MS, Metric.H2D_MS):
        groups = [one for one in total.groups if one.metric is metric]
        sums = (time_by(one.segment, one.start, one.end, size) for one in groups)
        total.by_segment[metric] = sum(sums, np.zeros(size, np.int64))
    counted = {metric: calls.counted_as(wanted) for metric, wanted in _COUNTED.items()}
    _count_calls(total, calls, segments, counted)
    operations = [kernels.left_by, copies.left_by | graphs.left_by | memsets.left_by]
    _look_for_lost(total, timeline, calls, counted, operations)
    _look_for_lost_copies(total, calls, copies)
    return total


class _Calls:
    """The calls of one process in order of time, shape (n,) each."""

    def __init__(self, timeline: Timeline, process: int, segments: Segments) -> None:
        calls = timeline.calls
        rows = _rows(calls.process, process)
        begun = calls.start[rows]
        if not bool((begun[1:] >= begun[:-1]).all()):
            rows = np.arange(len(calls.start))[rows][np.argsort(begun, kind="stable")]
        self.start, self.end, self.thread = calls.start[rows], calls.end[rows], calls.thread[rows]
        self.correlation = calls.correlation[rows]
        self.segment = segments.at(self.start)
        self.turn = taken(segments.turn, self.segment)
        self.key, self.texts = _texts(calls.name[rows], timeline.names)
        self.in_turn: Flags = self.turn >= 0
        recording = self.which(lambda text: bool(_RECORDS.match(text)))
        self.at_once = self.in_turn
        """Which are in turns, and start what runs then: turns that record a graph are left out."""
        # What is launched while a CUDA graph is being recorded runs later, with the graph.
        if recording.any():
            self.at_once = self.in_turn & ~np.isin(self.turn, self.turn[recording])

    def which(self, wanted: Callable[[str], bool]) -> Flags:
        """Which have such a name."""
        return taken(np.array([wanted(text) for text in self.texts], np.bool_), self.key)

    def counted_as(self, wanted: CallClass) -> Flags:
        """Which count as this; of a runtime call and the driver call in it the outer one."""
        chosen = self.which(lambda text: classify(text) is wanted)
        by_driver = self.which(of_driver) & chosen
        if by_driver.any() and not (by_driver == chosen).all():
            inner, outer = (
                (self.start[its], self.end[its], self.thread[its])
                for its in (by_driver, chosen & ~by_driver)
            )
            chosen[np.flatnonzero(by_driver)[nested_in(inner, outer)]] = False
        return chosen


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
    def ns(self) -> Ints:
        """How long each took."""
        return self.end - self.start

    def group(self, total: Tally, metric: Metric, which: Flags | None = None) -> None:
        """Keep them, or some of them, by device."""
        for device in distinct(self.device if which is None else self.device[which]).tolist():
            here = self.device == device
            here = here if which is None else here & which
            its = slice(None) if here.all() else np.flatnonzero(here)
            total.groups.append(
                Group(metric, device, self.segment[its], self.start[its], self.end[its])
            )


class _Attribution:
    """Finds the segment of each operation of a process, and adds up what all tables have in
    common."""

    def __init__(self, total: Tally, segments: Segments, process: int) -> None:
        self._total, self._segments, self._process = total, segments, process
        self._in_turn = segments.in_turn
        self._first = int(np.argmax(segments.step >= 0))

    def run(self, table: Table, ops: Spans) -> _Ran:
        """Go through a table in parts that the processor's cache holds."""
        mine = _rows(ops.process, self._process)
        columns = ops.start[mine], ops.end[mine], ops.correlation[mine]
        managed = np.zeros(len(columns[0]), np.bool_)
        if isinstance(ops, Copies):
            managed = np.isin(ops.kind[mine], MANAGED_COPIES)
        segment = np.empty(len(managed), np.int32)
        left_by = np.zeros(len(self._total.launches.times) + 1, np.bool_)
        for part in parts(len(managed)):
            segment[part] = self._part(
                self._total.linked[table], left_by, managed[part], *(one[part] for one in columns)
            )
        device, (start, end, _) = ops.device[mine], columns
        in_turn = taken(self._in_turn, segment)
        if not in_turn.all():
            some = np.flatnonzero(in_turn)
            mine = some if isinstance(mine, slice) else mine[some]
            start, end, device, segment = start[some], end[some], device[some], segment[some]
        return _Ran(mine, start, end, device, segment, left_by)

    def _part(
        self, linked: Linked, left_by: Flags, managed: Flags, start: Ints, end: Ints, ids: Ints
    ) -> SmallInts:
        total = self._total
        place = total.launches.place(ids)
        left_by[place] = True
        # Managed memory moves by page fault, and belongs to the step in which it began.
        place[managed] = -1
        segment = total.launches.segment_at(place)
        if (segment < 0).any():
            self._place_others(linked, segment, managed, start, ids)
        np.add.at(total.operations, segment, 1)
        linked.launched += int(np.count_nonzero((segment >= self._first) & ~managed))
        untimed = (end == 0) & (start == 0)
        if untimed.any():
            total.without_times += int(np.count_nonzero(untimed))
            # A capture's times may be negative, and 0 one of its last.
            end = np.where(untimed, -FOREVER, end)
        np.maximum.at(total.last_end, segment, end)
        ahead = total.launches.begun(place) - start
        early = (ahead > CLOCKS_APART_NS) & (place >= 0) & ~untimed
        if early.any():
            total.before_call.append(ahead[early & self._in_turn.take(segment)])
        return segment

    def _place_others(
        self, linked: Linked, segment: SmallInts, managed: Flags, start: Ints, ids: Ints
    ) -> None:
        """Put those without a call where they ran, in place."""
        total, segments = self._total, self._segments
        if total.from_first:
            # The ids of calls rise: what has a lower one than the first was launched before it.
            before = (segment < 0) & ~managed & (ids > 0) & (ids < total.launches.lowest)
            segment[before] = 0
            total.before_capture += int(np.count_nonzero(before))
        unknown = np.flatnonzero(segment < 0)
        segment[unknown] = segments.at(start[unknown])
        launched = unknown[~managed[unknown]]
        at = segment[launched]
        since = at[at >= self._first]
        linked.without_call += len(at)
        linked.since += len(since)
        linked.outside += int(np.count_nonzero(segments.step[since] < 0))
        np.add.at(total.calls_lost, at[ids[launched] > 0], 1)


def _add_kernels(total: Tally, timeline: Timeline, ran: _Ran) -> None:
    key, texts = _texts(timeline.kernels.name[ran.rows], timeline.names)
    count = np.bincount(key, minlength=len(texts))
    ns = time_by(key, ran.start, ran.end, len(texts))
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
                ns=int(ran.ns[alike].sum()),
                bytes=int(moved[alike].sum()),
            )
        total.memory[copy_words(one)] = Work(
            count=int(made[of_kind].sum()), ns=int(ran.ns[of_kind].sum())
        )


def copy_words(kind: int) -> str:
    """What nsys calls a copy of this `CopyKind`."""
    return COPY_WORDS.get(kind, f"CUDA memcpy kind {kind}")


def _count_calls(
    total: Tally, calls: _Calls, segments: Segments, counted: Mapping[Metric, Flags]
) -> None:
    """Count launches and synchronisations in turns, and these by call and label."""
    for metric, chosen in counted.items():
        segment = calls.segment[chosen & calls.in_turn]
        total.by_segment[metric] = np.bincount(segment, minlength=len(segments))
    waiting = np.flatnonzero(counted[Metric.SYNCS] & calls.in_turn)
    lasted, labels = calls.end[waiting] - calls.start[waiting], len(segments.labels)
    label = segments.label[calls.segment[waiting]]
    code = calls.key[waiting].astype(np.int64) * labels + label
    present, index, counts = np.unique(code, return_inverse=True, return_counts=True)
    spent = sum_by(index, lasted, len(present))
    for one, count, ns in zip(present.tolist(), counts.tolist(), spent.tolist(), strict=True):
        key = base_name(calls.texts[one // labels]), one % labels
        total.syncs[key] = total.syncs.get(key, Work()) + Work(count=count, ns=ns)


def _look_for_lost(
    total: Tally,
    timeline: Timeline,
    calls: _Calls,
    counted: Mapping[Metric, Flags],
    left: Sequence[Flags],
) -> None:
    """Count launches of which nothing ran; `left` says which calls left a kernel, and which
    another operation.

    Where a capture holds other processes' kernels alone, this one's are lost; where it holds none,
    none were traced. Traced node by node, a graph is what its nodes are.
    """
    kernels, others = left
    lost = 0
    for metric, traced, ran in (
        (Metric.LAUNCHES, len(timeline.kernels.start), kernels),
        (Metric.GRAPH_LAUNCHES, timeline.gpu_operations, kernels | others),
    ):
        chosen = counted[metric] & calls.at_once & (calls.correlation > 0)
        if traced and chosen.any():
            total.launched += int(np.count_nonzero(chosen))
            lost += int(np.count_nonzero(~ran[total.launches.place(calls.correlation[chosen])]))
    # What ran since the first step and has no call may be of a launch of which nothing is found.
    total.lost = max(0, lost - total.linked[Table.KERNELS].since)


def _look_for_lost_copies(total: Tally, calls: _Calls, copies: _Ran) -> None:
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
    makes_one = calls.which(lambda text: bool(_COPIES.match(text)))
    copying = np.flatnonzero(makes_one & calls.at_once & (calls.correlation > 0))
    key, turn = calls.key[copying], calls.turn[copying]
    found = copies.left_by[total.launches.place(calls.correlation[copying])]
    if not copies.left_by.any():
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
    used = distinct(key)
    named = {one: names.get(one, f"(name {one})") for one in used.tolist()}
    if len(used) and (used[0] < 0 or used[-1] > len(key) + _KEYS):
        return np.searchsorted(used, key).astype(np.int32), list(named.values())
    return key, [named.get(one, "") for one in range(int(used.max(initial=-1)) + 1)]


def _rows(of: SmallInts, process: int) -> slice | Ints:
    """Those of one process."""
    mine = of == process
    return slice(None) if mine.all() else np.flatnonzero(mine)
