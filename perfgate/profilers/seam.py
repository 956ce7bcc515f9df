"""The seam behind which a profiler stands: a process becomes captures, a capture a timeline.

```
profile: ProfileSpec -> ProfileOutcome: captures, or why there are none
read:    capture -> Timeline
```
Nsight Systems is behind it, in `nsys/`. One that lives in the workload's own process, as PyTorch's
does, starts the workload's own command and finds the files that it left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from perfgate.model.note import Note
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import GraphTrace
from perfgate.model.timeline import Timeline
from perfgate.model.workload import CaptureMode, CaptureWindow
from perfgate.profilers.nsys.export.timeline import read_timeline

OnTick = Callable[[], object]
"""Called at least every 0.1 s; may call the work off by raising."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileSpec:
    """One run of a workload under a profiler."""

    argv: tuple[str, ...]
    folder: Path
    """Fresh: created if missing; holds no capture yet."""
    cwd: Path
    env: Mapping[str, str]
    """Complete, secrets already withheld."""
    withheld: tuple[str, ...] = ()
    """The names of what was."""
    timeout_s: float
    capture: CaptureMode | CaptureWindow
    graph_trace: GraphTrace = GraphTrace.GRAPH
    until: str | None = None
    """Name of the NVTX range that the workload draws at the end of its window, after which nothing
    counts; None where the profiler ends the capture itself."""
    cleaner: Cleaner = field(default_factory=Cleaner)
    """Takes secrets out of what is printed, before it is kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Captured:
    """One capture and its export, both checked to be there and readable."""

    rep: Path
    sqlite: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileOutcome:
    """What came of a run; a workload that failed may leave captures, one that did well none."""

    log: Path
    captures: tuple[Captured, ...] = ()
    problem: Note | None = None
    """Why there is no capture, or one less than there should be."""
    exit_status: int | None = None
    """The workload's, as the profiler passed it on; None where it never started it, was ended, or
    died itself, and where the workload still ran when its window by the clock had been captured."""
    signal: str | None = None
    """Name of the signal that ended the workload, from an exit status of 128 + its number."""
    timed_out: bool = False
    wall_s: float = 0.0
    """From start to end of the profiler, export and its own summaries included."""
    tail: tuple[str, ...] = ()
    """The last lines of the workload's own output, without empty ones."""
    nsys_hung: bool = False
    """Whether nothing but the profiler was left when the time was up."""
    crashed: bool = False
    """Whether the profiler itself broke down and left no capture: another try may succeed."""


read: Final[Callable[[Path], Timeline]] = read_timeline
"""Reads a capture, of whichever profiler; no tool is needed.

Raises CaptureUnreadable for what is none, or damaged, and LayoutUnknown for one of a version that
perfgate does not know.
"""
