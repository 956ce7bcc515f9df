"""One process's operations and calls added up by segment, device and name; it must not know what
becomes of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from perfgate.metrics.attribution import Begins, Segments
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
    Kernels,
    MemoryKind,
    SmallInts,
    Spans,
    Timeline,
)

NCCL_KERNEL = re.compile(r"(?:void )?nccl\w*Kernel")
"""How NCCL names its kernels: ncclAllReduceRingLLKernel_sum_f32 (to 2.8), ncclKernel_... (to 2.18),
ncclDevKernel_..., ncclSymDevKernel_... (2.27), ncclSymkDevKernel_... (2.28 on)."""

COPY_WORDS: Mapping[int, str] = {
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
MEMSET_WORDS = MEMSETS
GRAPH_WORDS = WHOLE_GRAPHS

_COPIES = re.compile(r"cu(?:da)?Memcpy(?!.*Batch)")
"""Calls that make one copy each."""
_RECORDS = re.compile(r"cu(?:da)?StreamBeginCapture")
_KEYS = 1_000_000
"""Name keys may exceed the number of rows by this much before they are renumbered."""
CLOCKS_APART_NS = 50_000
"""An operation may begin this much before its call: two clocks are made one. On an H200 it is 10 us
behind at least."""
Operations = Kernels | Copies | Spans


class Table(StrEnum):
    """What an export keeps GPU operations apart as; each may lack its own columns."""

    KERNELS = "kernels and CUDA graphs"
    COPIES = "copies"
    MEMSETS = "memsets"


@dataclass(kw_only=True, slots=True)
class Work:
    """What one name did in the steps."""

    count: int = 0
    gpu_ns: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyWork:
    """What the copies of one direction and host memory did in the steps."""

    count: int
    gpu_ns: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SyncWork:
    """What one synchronising call did in the steps under one label."""

    count: int
    cpu_ns: int


@dataclass(frozen=True, slots=True)
class Placed:
    """Operations in turns, by the segments that launched them, with their times; each of shape
    (n,)."""

    segment: SmallInts
    start: Ints
    end: Ints


@dataclass(kw_only=True, slots=True)
class DeviceTally:
    """What the process's steps did on one device; what may overlap with kernels stays intervals."""

    ns: dict[Metric, int] = field(default_factory=dict)
    may_hide: dict[Metric, list[Placed]] = field(default_factory=dict)
    """By the metric of what nothing hides of them: copies to the device, NCCL's kernels, other
    copies and memsets."""


@dataclass(kw_only=True, slots=True)
class Tally:
    """All sums of one process that its metrics are made of."""

    by_segment: dict[Metric, Ints]
    """Clocks in ns, counts as they are; of every segment, inside steps and out."""
    operations: Ints
    """GPU operations by segment of launch."""
    operations_on: dict[int, Ints]
    """And of each device by itself."""
    last_end: Ints
    """End of the last GPU operation launched in each segment; `-FOREVER` where there is none."""
    devices: dict[int, DeviceTally]
    """Of the devices that operations launched in turns ran on."""
    kernels: dict[str, Work]
    memory: dict[str, Work]
    """Copies and memsets launched in turns, in nsys's words."""
    copies: dict[tuple[int, int | None], CopyWork]
    """Copies launched in turns, by `CopyKind` and by the host's `MemoryKind`, None where neither
    end is the host."""
    syncs: dict[tuple[str, int], SyncWork]
    """Synchronising calls in turns, by base name and label."""
    begins: Begins
    """When the calls of the process began."""
    calls: Ints
    """API calls of the process by segment, in steps or not."""
    calls_from_first: bool
    """Whether it has calls from the first step on: an id below all of theirs is then of one before
    the capture."""
    launched_by_calls: dict[Table, Ints]
    """Operations by segment that a call is to have launched: all but those that move managed
    memory."""
    without_call: dict[Table, Ints]
    """Those of them that were attributed by their own start, because no call has their correlation
    id.

    Not those that were launched before the capture: a queue that was full when it began runs on in
    its first steps, of which it is no part.
    """
    before_capture: int
    """Operations that were launched before the capture."""
    calls_lost: Ints
    """Those without a call that have the id of one, so that it was made and the capture lacks it;
    device-side launches too."""
    without_times: int
    """Operations that begin and end at 0: CUPTI could not time them."""
    before_call: list[Ints]
    """How long before its call each of them began that did so by more than `CLOCKS_APART_NS`; ns,
    by table."""
    unknown_host: int
    """Copies between host and device in turns of which the capture does not say where the host's
    end lies."""
    launched: int
    """Launches of kernels and of CUDA graphs in turns whose work the capture should hold."""
    lost: int
    """And those of them of which it holds nothing."""
    nodes: int
    """Kernels that launches of one graph, traced node by node, should hold in turns; of graphs that
    lack any."""
    nodes_lost: int
    """And those of them that the capture lacks."""
    copying: int
    """Calls in turns that copy, of a name of which the capture holds any copy, or holds none at
    all."""
    copies_lost: int
    """Copies of theirs that it should hold and does not."""


@dataclass(frozen=True, slots=True)
class Links:
    """Where the calls of a process launched the operations that have their ids."""

    begins: Begins
    segment: SmallInts
    """Of each of `begins.times`, -1 for that of no call."""

    @classmethod
    def of(cls, begins: Begins, segments: Segments) -> Links:
        segment = segments.at(begins.times)
        segment[-1] = -1
        return cls(begins, segment)

    def launching(self, correlation: Ints) -> SmallInts:
        """The segment in which each operation was launched, -1 where no call has its id."""
        return self.segment[self.begins.place.of(correlation)]


def tally(timeline: Timeline, process: int, segments: Segments) -> Tally:
    """Add up one process. Linear in operations and calls while these are nearly in order of time."""
    size = len(segments.step)
    alone = len(timeline.processes) == 1
    calls = timeline.calls
    call_rows = _rows(calls.process, process, alone=alone)
    call_segment = segments.at(calls.start[call_rows])
    begins = Begins.from_calls(calls.correlation[call_rows], calls.start[call_rows])
    links = Links.of(begins, segments)
    total = Tally(
        by_segment={},
        operations=np.zeros(size, np.int64),
        operations_on={},
        last_end=np.full(size, -FOREVER, np.int64),
        devices={},
        kernels={},
        memory={},
        copies={},
        syncs={},
        begins=begins,
        calls=np.bincount(call_segment, minlength=size),
        calls_from_first=bool(
            len(call_segment) and segments.step[: int(call_segment.min()) + 1].max() < 1
        ),
        launched_by_calls={table: np.zeros(size, np.int64) for table in Table},
        without_call={table: np.zeros(size, np.int64) for table in Table},
        before_capture=0,
        calls_lost=np.zeros(size, np.int64),
        without_times=0,
        before_call=[],
        unknown_host=0,
        launched=0,
        lost=0,
        nodes=0,
        nodes_lost=0,
        copying=0,
        copies_lost=0,
    )
    key, texts = _texts(calls.name[call_rows], timeline.names)
    at_once = _run_at_once(key, texts, segments.turn[call_segment])
    launching = _count_calls(
        total, timeline, call_rows, call_segment, segments, (key, texts), at_once
    )
    kernel_rows = _rows(timeline.kernels.process, process, alone=alone)
    copy_rows = _rows(timeline.copies.process, process, alone=alone)
    _add_kernels(total, timeline, kernel_rows, segments, links)
    _add_spans(total, timeline.graphs, process, segments, links, words=GRAPH_WORDS, is_kernel=True)
    # What ran since the first step and has no call may be of a launch of which nothing is found.
    unclaimed = int(total.without_call[Table.KERNELS][int(np.argmax(segments.step >= 0)) :].sum())
    _add_spans(
        total, timeline.memsets, process, segments, links, words=MEMSET_WORDS, is_kernel=False
    )
    _add_copies(total, timeline.copies, copy_rows, segments, links)
    copying = np.array([bool(_COPIES.match(text)) for text in texts], np.bool_)
    chosen = np.flatnonzero(copying.take(key) & at_once)
    asked = (key[chosen], calls.correlation[call_rows][chosen], segments.turn[call_segment[chosen]])
    _look_for_lost_copies(
        total, asked, timeline.copies.correlation[copy_rows], int(segments.turn.max()) + 1
    )
    kernels = timeline.kernels.correlation[kernel_rows]
    # Traced node by node, a graph is what its nodes are.
    nodes = (
        kernels,
        timeline.copies.correlation[copy_rows],
        *(
            ops.correlation[_rows(ops.process, process, alone=False)]
            for ops in (timeline.graphs, timeline.memsets)
        ),
    )
    # Where a capture holds other processes' kernels alone, this one's are lost; where it holds
    # none, none were traced.
    lost = 0
    if len(timeline.kernels.start):
        lost += _look_for_lost(total, launching[Metric.LAUNCHES], kernels)
    if timeline.gpu_operations:
        lost += _look_for_lost(total, launching[Metric.GRAPH_LAUNCHES], np.concatenate(nodes))
    total.lost = max(0, lost - unclaimed)
    return total


def _texts(key: SmallInts, names: Mapping[int, str]) -> tuple[SmallInts, list[str]]:
    """Keys into a list of the names in use ("" where a key is not): the keys themselves, renumbered
    where sparse."""
    highest = int(key.max(initial=-1))
    if int(key.min(initial=0)) < 0 or highest > len(key) + _KEYS:
        used, renumbered = np.unique(key, return_inverse=True)
        return renumbered.astype(np.int32), [
            names.get(one, f"(name {one})") for one in used.tolist()
        ]
    texts = [""] * (highest + 1)
    for one in np.flatnonzero(np.bincount(key)).tolist():
        texts[one] = names.get(one, f"(name {one})")
    return key, texts


def _rows(of: SmallInts, process: int, *, alone: bool) -> slice | Ints:
    return slice(None) if alone else np.flatnonzero(of == process)


def _run_at_once(key: SmallInts, texts: Sequence[str], turn: SmallInts) -> Flags:
    """Which calls are in turns, and start what runs then.

    What is launched while a CUDA graph is being recorded runs later, with the graph: turns that
    record one are left out.
    """
    recording = np.array([bool(_RECORDS.match(text)) for text in texts], np.bool_)
    at_once: Flags = turn >= 0
    return at_once & ~np.isin(turn, turn[recording.take(key)]) if recording.any() else at_once


def _count_calls(
    total: Tally,
    timeline: Timeline,
    rows: slice | Ints,
    segment: SmallInts,
    segments: Segments,
    names: tuple[SmallInts, list[str]],
    at_once: Flags,
) -> dict[Metric, Ints]:
    """Count by segment, and return the ids of the launches that are to have something on the GPU
    each."""
    launching: dict[Metric, Ints] = {}
    calls, size = timeline.calls, len(segments.step)
    key, texts = names
    classes = np.array([classify(text) for text in texts], np.int8)
    driver = np.array([of_driver(text) for text in texts], np.bool_)
    counted = (
        (Metric.LAUNCHES, CallClass.LAUNCH),
        (Metric.GRAPH_LAUNCHES, CallClass.GRAPH_LAUNCH),
        (Metric.SYNCS, CallClass.SYNC),
    )
    class_of = classes.take(key)
    for metric, wanted in counted:
        chosen = np.equal(class_of, wanted)
        by_driver = (
            chosen & driver.take(key) if (driver & (classes == wanted)).any() else chosen[:0]
        )
        if by_driver.any() and not (by_driver == chosen).all():
            inner, outer = (
                (calls.start[rows][its], calls.end[rows][its], calls.thread[rows][its])
                for its in (by_driver, chosen & ~by_driver)
            )
            chosen[np.flatnonzero(by_driver)[nested_in(inner, outer)]] = False
        total.by_segment[metric] = np.bincount(segment[chosen], minlength=size)
        if metric is not Metric.SYNCS:
            launching[metric] = calls.correlation[rows][chosen & at_once]
        else:
            lasted = calls.end[rows][chosen] - calls.start[rows][chosen]
            total.syncs = _by_call_and_label(texts, key[chosen], segment[chosen], lasted, segments)
    return launching


def _look_for_lost(total: Tally, launching: Ints, correlation: Ints | SmallInts) -> int:
    """Count the launches of which nothing ran."""
    if int(launching.min(initial=1)) <= 0:
        launching = launching[launching > 0]
    total.launched += len(launching)
    return int((~np.isin(launching, correlation)).sum())


def _look_for_lost_copies(
    total: Tally, calls: tuple[SmallInts, Ints, SmallInts], held: Ints, turns: int
) -> None:
    """Count the calls that copy, by name, id and turn, and the copies that the last turns lack.

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
    key, correlation, turn = (column[calls[1] > 0] for column in calls)
    found = among(correlation, held)
    asked = np.zeros(len(key), np.bool_)
    for one in distinct(key).tolist():
        here = key == one
        asked |= here & bool(found[here].any() or not len(held))
    total.copying += int(asked.sum())
    if not len(held):
        total.copies_lost += int(asked.sum())
    elif asked.any():
        holds, lacks = (
            np.bincount(turn[rows], minlength=turns) for rows in (found, asked & ~found)
        )
        until = int(np.flatnonzero(holds)[-1]) + 1
        usual_held, usual_lacking = np.median(holds[:until]), np.median(lacks[:until])
        after = int(np.flatnonzero(holds >= usual_held)[-1]) + 1
        lost = np.minimum(usual_held - holds[after:], lacks[after:] - usual_lacking)
        total.copies_lost += int(np.maximum(lost, 0).sum())


def _by_call_and_label(
    texts: list[str], key: SmallInts, segment: SmallInts, lasted: Ints, segments: Segments
) -> dict[tuple[str, int], SyncWork]:
    inside = segments.turn[segment] >= 0
    labels = len(segments.labels)
    code = key[inside].astype(np.int64) * labels + segments.label[segment[inside]]
    present, index = np.unique(code, return_inverse=True)
    count, spent = (
        np.bincount(index, minlength=len(present)),
        sum_by(index, lasted[inside], len(present)),
    )
    found: dict[tuple[str, int], SyncWork] = {}
    for one, times, ns in zip(present.tolist(), count.tolist(), spent.tolist(), strict=True):
        name, label = base_name(texts[one // labels]), one % labels
        before = found.get((name, label), SyncWork(count=0, cpu_ns=0))
        found[name, label] = SyncWork(count=before.count + times, cpu_ns=before.cpu_ns + ns)
    return found


def _attribute(
    total: Tally,
    table: Table,
    ops: Operations,
    rows: slice | Ints,
    segments: Segments,
    links: Links,
    *,
    moved_alone: Flags | None = None,
) -> tuple[SmallInts, Flags]:
    """The segment of each operation and whether that lies in a turn; adds to what all operations
    have in common."""
    size = len(segments.step)
    place = links.begins.place.of(ops.correlation[rows])
    segment = links.segment[place]
    if moved_alone is not None and moved_alone.any():
        segment[moved_alone] = -1
    unknown = np.flatnonzero(segment < 0)
    if total.calls_from_first and len(unknown) and segments.turn[0] < 0:
        ids = ops.correlation[rows][unknown]
        is_earlier = (ids > 0) & (ids < links.begins.place.lowest)
        if moved_alone is not None:
            is_earlier &= ~moved_alone[unknown]
        segment[unknown[is_earlier]] = 0
        total.before_capture += int(is_earlier.sum())
        unknown = unknown[~is_earlier]
    if len(unknown):
        segment[unknown] = segments.at(ops.start[rows][unknown])
        launched = unknown if moved_alone is None else unknown[~moved_alone[unknown]]
        total.without_call[table] += np.bincount(segment[launched], minlength=size)
        called = launched[ops.correlation[rows][launched] > 0]
        total.calls_lost += np.bincount(segment[called], minlength=size)
    end = ops.end[rows]
    untimed = np.flatnonzero(end == 0)
    untimed = untimed[ops.start[rows][untimed] == 0]
    if len(untimed):
        total.without_times += len(untimed)
        end = end.copy()
        end[untimed] = -FOREVER  # a capture's times may be negative, and 0 one of its last
    ran = np.bincount(segment, minlength=size)
    total.operations += ran
    by_calls = segment if moved_alone is None else segment[~moved_alone]
    total.launched_by_calls[table] += (
        np.bincount(by_calls, minlength=size) if len(by_calls) < len(segment) else ran
    )
    _note_devices(total, ops.device[rows], segment, ran)
    total.last_end = np.maximum(total.last_end, max_by(segment, end, size))
    in_turn = (segments.turn >= 0).take(segment)
    ahead = links.begins.times[place]
    ahead -= ops.start[rows]
    early = np.flatnonzero((ahead > CLOCKS_APART_NS) & in_turn & (place >= 0) & (end > -FOREVER))
    if moved_alone is not None:
        early = early[~moved_alone[early]]
    total.before_call.append(ahead[early])
    return segment, in_turn


def _note_devices(total: Tally, device: SmallInts, segment: SmallInts, ran: Ints) -> None:
    if not len(device):
        return
    alone = device.min() == device.max()
    for one in (device[:1] if alone else distinct(device)).tolist():
        here = ran if alone else np.bincount(segment[device == one], minlength=len(ran))
        total.operations_on[one] = total.operations_on.get(one, 0) + here


def _add_kernels(
    total: Tally, timeline: Timeline, rows: slice | Ints, segments: Segments, links: Links
) -> None:
    ops = timeline.kernels
    size = len(segments.step)
    segment, in_turn = _attribute(total, Table.KERNELS, ops, rows, segments, links)
    key, texts = _texts(ops.name[rows], timeline.names)
    device = ops.device[rows]
    length = ops.end[rows] - ops.start[rows]
    in_graphs = np.flatnonzero(in_turn & (ops.graph_node[rows] != NO_NODE))
    launch, node = ops.correlation[rows][in_graphs], ops.graph_node[rows][in_graphs]
    total.nodes, total.nodes_lost = lost_nodes(launch, node)
    nccl_names = np.array([bool(NCCL_KERNEL.match(text)) for text in texts], np.bool_)
    total.by_segment[Metric.KERNEL_MS] = sum_by(segment, length, size)
    total.by_segment[Metric.NCCL_MS] = np.zeros(size, np.int64)
    if not in_turn.all():
        length = np.where(in_turn, length, 0)
    by_name = sum_by(key, length, len(texts))
    count = np.bincount(key if in_turn.all() else key[in_turn], minlength=len(texts))
    for one in np.flatnonzero(count).tolist():
        work = total.kernels.setdefault(texts[one], Work())
        work.count += int(count[one])
        work.gpu_ns += int(by_name[one])
    for one, ns in _by_device(device, in_turn, length).items():
        total.devices.setdefault(one, DeviceTally()).ns[Metric.KERNEL_MS] = ns
    if nccl_names.any():
        is_nccl = np.flatnonzero(nccl_names.take(key))
        length = (ops.end[rows] - ops.start[rows])[is_nccl]
        total.by_segment[Metric.NCCL_MS] = sum_by(segment[is_nccl], length, size)
        total.by_segment[Metric.KERNEL_MS] -= total.by_segment[Metric.NCCL_MS]
        is_nccl = is_nccl[in_turn[is_nccl]]
        own, start, end = segment[is_nccl], ops.start[rows][is_nccl], ops.end[rows][is_nccl]
        for one in distinct(device[is_nccl]).tolist():
            here = device[is_nccl] == one
            spent = int((end[here] - start[here]).sum())
            total.devices[one].may_hide[Metric.NCCL_EXPOSED_MS] = [
                Placed(own[here], start[here], end[here])
            ]
            total.devices[one].ns[Metric.NCCL_MS] = spent
            total.devices[one].ns[Metric.KERNEL_MS] -= spent


def _add_spans(
    total: Tally,
    ops: Spans,
    process: int,
    segments: Segments,
    links: Links,
    *,
    words: str,
    is_kernel: bool,
) -> None:
    rows = _rows(ops.process, process, alone=False)
    table = Table.KERNELS if is_kernel else Table.MEMSETS
    segment, in_turn = _attribute(total, table, ops, rows, segments, links)
    length = ops.end[rows] - ops.start[rows]
    if is_kernel:
        total.by_segment[Metric.KERNEL_MS] += sum_by(segment, length, len(segments.step))
    for one, ns in _by_device(ops.device[rows], in_turn, length).items():
        device = total.devices.setdefault(one, DeviceTally())
        if is_kernel:
            device.ns[Metric.KERNEL_MS] = device.ns.get(Metric.KERNEL_MS, 0) + ns
        else:
            here = in_turn & (ops.device[rows] == one)
            placed = Placed(segment[here], ops.start[rows][here], ops.end[rows][here])
            device.may_hide.setdefault(Metric.MEM_EXPOSED_MS, []).append(placed)
    if in_turn.any():
        named = total.kernels if is_kernel else total.memory
        named[words] = Work(count=int(in_turn.sum()), gpu_ns=int(length[in_turn].sum()))


def _add_copies(
    total: Tally, ops: Copies, rows: slice | Ints, segments: Segments, links: Links
) -> None:
    size = len(segments.step)
    kind = ops.kind[rows]
    # Managed memory moves by page fault, not by call: it belongs to the step in which it began.
    alone = np.isin(kind, MANAGED_COPIES)
    segment, in_turn = _attribute(
        total, Table.COPIES, ops, rows, segments, links, moved_alone=alone
    )
    start, end, device = ops.start[rows], ops.end[rows], ops.device[rows]
    length, made = end - start, ops.count[rows]
    h2d, d2h = kind == CopyKind.H2D, kind == CopyKind.D2H
    host_end = np.where(h2d, ops.source[rows], ops.target[rows])
    by_segment = total.by_segment
    for metric, chosen in (
        (Metric.H2D_COPIES, h2d),
        (Metric.D2H_COPIES, d2h),
        (Metric.PAGEABLE_COPIES, (h2d | d2h) & (host_end == MemoryKind.PAGEABLE)),
    ):
        by_segment[metric] = sum_by(segment[chosen], made[chosen], size)
    by_segment[Metric.H2D_BYTES] = sum_by(segment[h2d], ops.bytes[rows][h2d], size)
    total.unknown_host = int(made[(h2d | d2h) & in_turn & (host_end == MemoryKind.UNKNOWN)].sum())
    inbound = h2d | (kind == CopyKind.UVM_H2D)
    by_segment[Metric.H2D_MS] = sum_by(segment[inbound], length[inbound], size)
    for one in distinct(device[in_turn]).tolist():
        tallied = total.devices.setdefault(one, DeviceTally())
        its = in_turn & (device == one)
        to_device = its & inbound
        tallied.ns[Metric.H2D_MS] = int(length[to_device].sum())
        for exposed, of in (
            (Metric.H2D_EXPOSED_MS, to_device),
            (Metric.MEM_EXPOSED_MS, its & ~inbound),
        ):
            tallied.may_hide.setdefault(exposed, []).append(Placed(segment[of], start[of], end[of]))
    for one in distinct(kind[in_turn]).tolist():
        here = in_turn & (kind == one)
        words = COPY_WORDS.get(one, f"CUDA memcpy kind {one}")
        total.memory[words] = Work(count=int(made[here].sum()), gpu_ns=int(length[here].sum()))
        to_or_from_host = one in (CopyKind.H2D, CopyKind.D2H)
        for host in distinct(host_end[here]).tolist() if to_or_from_host else (None,):
            alike = here if host is None else here & (host_end == host)
            total.copies[one, host] = CopyWork(
                count=int(made[alike].sum()),
                gpu_ns=int(length[alike].sum()),
                bytes=int(ops.bytes[rows][alike].sum()),
            )


def _by_device(device: SmallInts, in_turn: Flags, length: Ints) -> dict[int, int]:
    """Total ns of the operations in steps, by the devices that have any; zero-length ones count as
    any."""
    if not in_turn.any():
        return {}
    if not in_turn.all():
        device, length = device[in_turn], length[in_turn]
    count = np.bincount(device)
    total = sum_by(device, length, len(count))
    return {one: int(total[one]) for one in np.flatnonzero(count).tolist()}
