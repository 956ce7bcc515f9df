"""One capture as arrays: what the nsys room reads and the metrics room measures.

All times are int64 nanoseconds on the capture's own clock; rows are in no order (nsys promises
none).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from perfgate.model.arrays import RangeNames
from perfgate.model.machine import gpu_title
from perfgate.model.note import Note

Ints = NDArray[np.int64]
SmallInts = NDArray[np.int32]
Bytes8 = NDArray[np.int8]
Flags = NDArray[np.bool_]


class CopyKind(IntEnum):
    """CUPTI's copy directions, as nsys exports them."""

    UNKNOWN = 0
    H2D = 1
    D2H = 2
    H2A = 3
    A2H = 4
    A2A = 5
    A2D = 6
    D2A = 7
    D2D = 8
    H2H = 9
    P2P = 10
    UVM_H2D = 11
    UVM_D2H = 12
    UVM_D2D = 13


_MANAGED_COPIES: Final = (CopyKind.UVM_H2D, CopyKind.UVM_D2H, CopyKind.UVM_D2D)


NO_CORRELATION: Final = -1
"""The id of what the capture links to nothing. Other negative ids are unsigned ones that
wrapped."""
NO_NODE: Final = -1
"""The graph node of what no CUDA graph ran, and of what ran in a graph that was traced whole."""
NO_STREAM: Final = -1
"""Stream of what runs on none, as a synchronisation of the whole device, or of which the capture
does not say it."""
NO_EVENT: Final = -1
"""CUDA event of a wait for none, and number of a record that the capture does not number."""
SHARE_AN_ID: Final = 2
"""Calls that may have one id: a runtime call and the driver call in it. If more have 0, it stands
for none."""


class MemoryKind(IntEnum):
    """Where a copy's end lies, as nsys exports it."""

    PAGEABLE = 0
    PINNED = 1
    DEVICE = 2
    ARRAY = 3
    MANAGED = 4
    DEVICE_STATIC = 5
    MANAGED_STATIC = 6
    UNKNOWN = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Spans:
    """GPU operations, shape (n,). Of CUDA graphs traced whole that is all there is."""

    start: Ints
    end: Ints
    device: SmallInts
    process: SmallInts
    """Index into `Timeline.processes`."""
    stream: SmallInts
    """As CUDA numbers them within one context; NO_STREAM where the capture does not say."""
    correlation: Ints
    """Links to the API call that launched it; -1 where the capture does not say."""

    def managed(self, rows: slice | Ints) -> Flags:
        """Which of some rows move managed memory, by page fault: no call launches these, whatever
        their correlation says."""
        return np.zeros(len(self.start[rows]), np.bool_)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernels(Spans):
    """Kernel executions. Kernels inside a CUDA graph traced by node are here too."""

    name: SmallInts
    """Key into `Timeline.names`: the kernel's full (demangled) name."""
    graph_node: Ints
    """Which node of a CUDA graph it was, among those of all graphs; NO_NODE outside of graphs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Copies(Spans):
    """Memory copies."""

    bytes: Ints
    kind: Bytes8
    """`CopyKind`."""
    source: Bytes8
    target: Bytes8
    """`MemoryKind` of both ends; UNKNOWN (-1) where the capture does not say."""
    count: Ints
    """How many copies each row is: CUPTI merges those of a cudaMemcpyBatchAsync."""

    def managed(self, rows: slice | Ints) -> Flags:
        """By their kind."""
        return np.isin(self.kind[rows], _MANAGED_COPIES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Memsets(Spans):
    """Memsets."""

    bytes: Ints
    """0 where the capture does not say."""


class WaitKind(IntEnum):
    """What a synchronisation waits for, and which side waits, as CUPTI numbers them."""

    UNKNOWN = 0
    EVENT = 1
    """The CPU waits for an event."""
    STREAM_FOR_EVENT = 2
    """A stream waits for an event, the CPU goes on."""
    STREAM = 3
    """The CPU waits for a stream."""
    CONTEXT = 4
    """The CPU waits for all streams."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Waits(Spans):
    """Synchronisations; `stream` is which waits or is waited for, NO_STREAM for all of them."""

    kind: Bytes8
    """`WaitKind`."""
    event: Ints
    """The CUDA event that is waited for, numbered within its process; NO_EVENT where it is none."""
    record: Ints
    """The `EventRecords.record` that is waited for; NO_EVENT where the capture does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventRecords:
    """CUDA events recorded on streams, shape (n,). When, says the API call."""

    device: SmallInts
    process: SmallInts
    stream: SmallInts
    correlation: Ints
    event: Ints
    """The CUDA event, numbered within its process; it may be recorded many times."""
    record: Ints
    """Numbers this one record; NO_EVENT where the capture does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """CUDA runtime and driver API calls, shape (n,)."""

    start: Ints
    end: Ints
    process: SmallInts
    thread: Ints
    """Thread id within the process's operating system."""
    correlation: Ints
    name: SmallInts
    """Key into `Timeline.names`, with nsys's version suffix: `cudaLaunchKernel_v7000`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranges:
    """NVTX ranges, shape (n,): push/pop and start/end alike."""

    start: Ints
    end: Ints
    """Where a range was never closed: the last NVTX timestamp of the capture, and `closed` is
    False."""
    process: SmallInts
    thread: Ints
    """Of the push or start."""
    name: RangeNames
    """`domain:text`, plain `text` in the default domain."""
    push_pop: Flags
    """False for start/end ranges, which may overlap others on their thread."""
    closed: Flags


@dataclass(frozen=True, kw_only=True, slots=True)
class CapturedGpu:
    """A GPU as the capture describes it."""

    device: int
    """As in the operations' `device`: unique over the capture's processes."""
    name: str | None
    uuid: str | None
    bus: str | None = None
    """Where it is on the PCI bus."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """One capture. `processes` are operating system process ids (0: not said).

    Arrays refer to them by index.
    """

    source: str
    """File name, for messages."""
    processes: tuple[int, ...]
    kernels: Kernels
    copies: Copies
    memsets: Memsets
    graphs: Spans
    """CUDA graphs traced whole (`--cuda-graph-trace=graph`): one span a launch, their kernels
    unknown."""
    calls: Calls
    ranges: Ranges
    names: Mapping[int, str]
    waits: Waits
    event_records: EventRecords
    """What orders streams: one waits (`WaitKind.STREAM_FOR_EVENT`) for an event of another."""
    gpus: tuple[CapturedGpu, ...]
    ordinals: Mapping[tuple[int, int], int]
    """The number by which CUDA knows a GPU in a process (as in `cuda:0`), by (process, device),
    where it is known."""
    missing: Mapping[str, Note] = field(default_factory=dict)
    """What the capture lacks (`kernels`, `calls`, `ranges`, ...) and why, as far as it is known.

    `devices`: which of the operations of several processes ran on the same GPU. `records`: some
    that nsys lost, in its own words.
    """
    ranges_repeated: int = 0
    """How many ranges more nsys's `nvtx_sum` counts: it counts one once for each thread that
    created its domain."""

    def gpu_title(self, process: int, device: int) -> str:
        """What a process's GPU is called."""
        gpu = next((one for one in self.gpus if one.device == device), None)
        ordinal = self.ordinals.get((process, device))
        return gpu_title(device, ordinal, gpu.uuid if gpu else None, gpu.bus if gpu else None)

    @property
    def operations(self) -> tuple[Spans, ...]:
        """All tables of GPU operations."""
        return self.kernels, self.graphs, self.copies, self.memsets

    @property
    def gpu_operations(self) -> int:
        """How many GPU operations of any kind were recorded."""
        return sum(len(ops.start) for ops in self.operations)
