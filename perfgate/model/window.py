"""The GPU operations of a moment of one capture, with the streams they ran on: what a picture of a step needs.

As in `Timeline`: int64 nanoseconds on the capture's own clock, rows in no order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfgate.model.timeline import Bytes8, Flags, Ints, SmallInts


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamSpans:
    """GPU operations on their streams, shape (n,)."""

    start: Ints
    end: Ints
    device: SmallInts
    """The physical GPU, as in `Timeline`."""
    process: SmallInts
    """Index into `Timeline.processes`."""
    stream: SmallInts
    """As CUDA numbers them within one context; NO_STREAM where the capture does not say."""
    correlation: Ints
    """Links to the API call that launched it; -1 where the capture does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamKernels(StreamSpans):
    """Kernels, those inside CUDA graphs traced by node included."""

    name: SmallInts
    """Key into `WindowOps.names`."""
    graph_node: Flags


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamCopies(StreamSpans):
    """Memory copies."""

    bytes: Ints
    kind: Bytes8
    """`CopyKind`."""
    source: Bytes8
    target: Bytes8
    """`MemoryKind` of both ends; UNKNOWN (-1) where the export does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamMemsets(StreamSpans):
    """Memsets."""

    bytes: Ints
    """0 where the export does not say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowOps:
    """Of one capture, what ran in [start_ns, end_ns) or was launched in it, by any process."""

    source: str
    """File name, for messages."""
    start_ns: int
    end_ns: int
    processes: tuple[int, ...]
    """Those of the whole capture: the same as `Timeline.processes`, so that its indices are these."""
    kernels: StreamKernels
    copies: StreamCopies
    memsets: StreamMemsets
    graphs: StreamSpans
    """CUDA graphs traced whole."""
    names: Mapping[int, str]
    """Of the kernels here."""

    @property
    def operations(self) -> int:
        """How many operations of any kind there are."""
        return sum(len(ops.start) for ops in (self.kernels, self.copies, self.memsets, self.graphs))
