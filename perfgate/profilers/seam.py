"""The seam behind which a profiler stands: a process becomes captures, a capture a timeline.

```
why_not_to_start -> command -> (its process is run) -> collect -> captures, or why there are none
capture -> read -> Timeline            capture -> keep -> a copy that may leave the machine
```
Nsight Systems is behind it, in `nsys/`. One that lives in the workload's own process has the
workload's own command, and does its work in the module that `inside` names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from perfgate.model.note import Note
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import GraphTrace
from perfgate.model.timeline import Timeline
from perfgate.model.workload import CaptureMode, CaptureWindow
from perfgate.profilers.nsys.export.timeline import read_timeline
from perfgate.system.process import Finished

OnTick = Callable[[], None] | None
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
    timeout_s: float
    capture: CaptureMode | CaptureWindow
    graph_trace: GraphTrace = GraphTrace.GRAPH
    cleaner: Cleaner = field(default_factory=Cleaner)
    """Takes secrets out of what is printed, before it is kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """What is to be started to profile a workload."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a run ended."""

    finished: Finished
    printed: str
    """The profiler's own lines."""
    tail: tuple[str, ...]
    """The last lines of the workload's own output, without empty ones."""
    free_bytes: int
    """The least that was free on its disk at any moment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Captured:
    """One capture and its export, both checked to be there and readable."""

    rep: Path
    sqlite: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileOutcome:
    """What came of a run; a workload that failed may leave captures, one that did well none."""

    captures: tuple[Captured, ...]
    exit_status: int | None
    """The workload's, as the profiler passed it on; None where it never started it, was ended, or
    died itself, and where the workload still ran when its window by the clock had been captured."""
    signal: str | None
    """Name of the signal that ended the workload, from an exit status of 128 + its number."""
    timed_out: bool
    wall_s: float
    """From start to end of the profiler, export and its own summaries included."""
    tail: tuple[str, ...]
    log: Path
    problem: Note | None
    """Why there is no capture, or one less than there should be."""
    disk_was_full: bool = False
    """Whether next to nothing was free at some moment of the run."""
    nsys_hung: bool = False
    """Whether nothing but the profiler was left when the time was up."""
    crashed: bool = False
    """Whether the profiler itself broke down and left no capture: another try may succeed."""


class Profiler(Protocol):
    """What brings captures about."""

    @property
    def inside(self) -> str:
        """The module by which a worker marks its ranges, starts and stops."""

    @property
    def key(self) -> Mapping[str, str]:
        """Its name, version and options: runs of others cannot be compared."""

    def why_not_to_start(self, spec: ProfileSpec) -> Note | None:
        """What is wrong with a run before anything is started."""

    def command(self, spec: ProfileSpec) -> AbstractContextManager[Command]:
        """What to start, good for as long as this lasts."""

    def collect(self, spec: ProfileSpec, ended: Ended, *, on_tick: OnTick = None) -> ProfileOutcome:
        """The captures of a run that ended, or why there are none."""

    def keep(self, captured: Captured, target: Path) -> None:
        """Write a copy of a capture that may leave this machine."""


def read(capture: Path) -> Timeline:
    """Read a capture, of whichever profiler; no tool is needed.

    Raises:
        CaptureUnreadable: it is none, or damaged.
        LayoutUnknown: it is of a version that perfgate does not know.
    """
    return read_timeline(capture)
