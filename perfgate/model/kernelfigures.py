"""What Nsight Compute says of single launches of kernels, and two sides of them beside each other;
judged by nobody."""

from __future__ import annotations

from perfgate.model.note import Note
from perfgate.model.record import Record


class MovedKernel(Record):
    """A kernel whose time per step differs between two sides."""

    name: str
    """Its full name where that is known; else what a baseline keeps of it."""
    change_ms: float
    """Of its time per step."""
    notes: tuple[Note, ...] = ()
    """That it is new or gone, its launches, its time a launch."""
    per_step_before: float = 0.0
    """Launches; 0 where it is not known to have been there."""
    per_step_now: float = 0.0


class LaunchFigures(Record):
    """One launch of one kernel; what ncu could not collect is None, never zero."""

    kernel: str
    """The mangled name."""
    device: int
    grid: str
    """As ncu writes it: `(64, 64, 1)`."""
    block: str
    duration_us: float
    compute_percent: float | None = None
    """Throughput of the multiprocessors, of the most that they could sustain."""
    memory_percent: float | None = None
    """Of all memory together: caches, DRAM, and the ways between."""
    dram_percent: float | None = None
    occupancy_percent: float | None = None
    """Warps that were active on a multiprocessor, of the most that could be."""
    occupancy_limit_percent: float | None = None
    """What registers, shared memory and block size would have allowed."""
    registers: float | None = None
    """A thread."""
    waves: float | None = None
    """Blocks, in units of what the GPU runs at once."""
    sm_clock_mhz: float | None = None
    """During the launch."""


class KernelProbe(Record):
    """One kernel, before and now."""

    moved: MovedKernel
    before: LaunchFigures | None = None
    now: LaunchFigures | None = None
    no_before: Note | None = None
    """Why there are no figures of before; None where there are."""
    no_now: Note | None = None


class KernelProbes(Record):
    """All kernels that were looked at, those that moved most first."""

    tool: str
    """`ncu 2025.3.1`."""
    before: str
    """Which code: `0123456789ab`."""
    now: str
    probes: tuple[KernelProbe, ...]
    notes: tuple[Note, ...] = ()
