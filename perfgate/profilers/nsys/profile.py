"""One workload under nsys: the command, the run, and the captures it left or why there are none.

nsys's exit status proves nothing (another for a good capture, 0 for none), so what it wrote is
looked at, and what it printed is read where nothing is there.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perfgate.model.errors import CaptureUnreadable, StoreFailed
from perfgate.model.note import Note, Severity, note
from perfgate.model.settings import GraphTrace
from perfgate.model.workload import CaptureWindow
from perfgate.profilers.nsys.answers import export, literal
from perfgate.profilers.nsys.command import (
    OUTPUT,
    profile_command,
    target_command,
    trace_options,
)
from perfgate.profilers.nsys.environment import for_profile
from perfgate.profilers.nsys.export.file import check_export
from perfgate.profilers.nsys.export.scrub import clean_export, scrub
from perfgate.profilers.nsys.failures import (
    FULL_BYTES,
    NOT_STARTED,
    is_nsys,
    nsys_hung,
    why_no_capture,
)
from perfgate.profilers.nsys.output import Output, signal_name
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import (
    Captured,
    Command,
    Ended,
    OnTick,
    ProfileOutcome,
    ProfileSpec,
)
from perfgate.system.process import run_process

LOG: Final = "nsys.log"
"""Everything that the workload and nsys printed, line by line, in the run's folder."""
FREE_BYTES: Final = 200_000_000
"""Free space without which no run is started: seconds of capture take some 10 MB, their export ten
times that."""

_NOT_IN_ENV_VAR: Final = frozenset(",\"'\\")
"""nsys splits `--env-var` at commas and knows quotes."""


@dataclass(frozen=True, slots=True)
class Nsys:
    """Nsight Systems, as others know a profiler."""

    tool: NsysTool
    graph_trace: GraphTrace = GraphTrace.GRAPH
    inside: str = "perfgate.execute.worker.marking"

    @property
    def key(self) -> Mapping[str, str]:
        options = trace_options(graph_trace=self.graph_trace)
        return {"nsys": str(self.tool.version), "options": " ".join(options)}

    def why_not_to_start(self, spec: ProfileSpec) -> Note | None:
        return why_not_to_start(spec)

    def command(self, spec: ProfileSpec) -> AbstractContextManager[Command]:
        return command(self.tool, spec)

    def collect(self, spec: ProfileSpec, ended: Ended, *, on_tick: OnTick = None) -> ProfileOutcome:
        return collect(self.tool, spec, ended, on_tick=on_tick)

    def keep(self, captured: Captured, target: Path) -> None:
        scrub(captured.sqlite, target)


def profile(
    tool: NsysTool,
    spec: ProfileSpec,
    *,
    on_line: Callable[[str], None] | None = None,
    on_tick: OnTick = None,
) -> ProfileOutcome:
    """Run a workload under nsys and return what came of it; `on_line` gets the workload's lines.

    Never raises for a workload, an nsys or a disk that fails: see `ProfileOutcome.problem`.
    Whatever the run started has ended on return, also on KeyboardInterrupt and what `on_line` or
    `on_tick` raise; `on_tick` is called at least every 0.1 s.

    Raises:
        ValueError: the folder holds captures already; they would be taken for this run's.
    """
    lines = Output(on_line, spec.cleaner)
    ended: Ended | None = None
    try:
        # nsys writes with umask 0, and what it writes holds the environment.
        spec.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = why_not_to_start(spec)
        if problem is None:
            ended = _run(tool, spec, lines, on_tick)
    except OSError as error:
        if lines.is_telling:
            raise
        problem = note(
            "run-folder-unusable", Severity.INVALID, folder=str(spec.folder), reason=str(error)
        )
    if ended is None:
        return ProfileOutcome(
            captures=(),
            exit_status=None,
            signal=None,
            timed_out=False,
            wall_s=0.0,
            tail=lines.tail,
            log=spec.folder / LOG,
            problem=problem,
        )
    return collect(tool, spec, ended, on_tick=on_tick)


def collect(
    tool: NsysTool,
    spec: ProfileSpec,
    ended: Ended,
    *,
    on_tick: OnTick = None,
) -> ProfileOutcome:
    """Export the captures of a run that ended, or find out why there are none."""
    finished = ended.finished
    captures: list[Captured] = []
    problem: Note | None = None
    crashed = False
    # What is left of a run out of time or disk is a torso, however whole it looks.
    disk_was_full = ended.free_bytes < FULL_BYTES
    is_torso = finished.timed_out or disk_was_full
    reps = [] if is_torso else sorted(spec.folder.glob("*.nsys-rep"), key=_natural)
    for rep in reps:
        try:
            sqlite = _exported_with(rep) or export(tool, rep, spec.folder, on_tick=on_tick)
            clean_export(sqlite, spec.cleaner)
            captures.append(Captured(rep=rep, sqlite=sqlite))
        except (CaptureUnreadable, StoreFailed) as error:
            problem = Note(code=error.code, severity=Severity.INVALID, fields=error.fields)
    if not reps:
        problem, crashed = why_no_capture(tool, ended, spec.folder, spec.capture)
    status = finished.returncode
    if (
        (status is not None and status < 0)
        or crashed
        or (not captures and problem is not None and problem.code in NOT_STARTED)
    ):
        status = None
    elif isinstance(spec.capture, CaptureWindow) and not all(map(is_nsys, finished.left)):
        # After --duration nsys goes home with 0 and leaves the workload running.
        status = None
    return ProfileOutcome(
        captures=tuple(captures),
        exit_status=status,
        signal=signal_name(status - 128) if status is not None and status > 128 else None,
        timed_out=finished.timed_out,
        nsys_hung=nsys_hung(finished),
        wall_s=finished.wall_s,
        tail=ended.tail,
        log=spec.folder / LOG,
        problem=problem,
        disk_was_full=disk_was_full,
        crashed=crashed,
    )


@contextmanager
def command(tool: NsysTool, spec: ProfileSpec) -> Iterator[Command]:
    """Give the command of a run, good for as long as this lasts, with a TMPDIR of nsys's own.

    In a shared /tmp, nsys stumbles over `/tmp/nvidia` of another user, and leaves unfinished
    recordings behind; this one is removed. The workload must not get it, or it would lose what it
    caches there from run to run (compiled kernels).
    """
    tmp = spec.folder / "tmp"
    tmp.mkdir()
    workload_tmpdir = spec.env.get("TMPDIR") or "/tmp"  # what an unset TMPDIR means
    has_own = not set(workload_tmpdir) & _NOT_IN_ENV_VAR
    program = _program(spec) or spec.argv[0]
    try:
        with literal(spec.folder) as plain:
            yield Command(
                argv=profile_command(
                    tool.path,
                    target_command((program, *spec.argv[1:]), umask=_umask()),
                    output=plain / OUTPUT,
                    capture=spec.capture,
                    graph_trace=spec.graph_trace,
                    workload_tmpdir=workload_tmpdir if has_own else None,
                ),
                env=for_profile(spec.env, tmpdir=str(plain / "tmp") if has_own else None),
            )
    finally:
        shutil.rmtree(tmp, ignore_errors=True)


def _run(tool: NsysTool, spec: ProfileSpec, lines: Output, on_tick: OnTick) -> Ended:
    free = shutil.disk_usage(spec.folder).free

    def tick() -> None:
        nonlocal free
        free = min(free, shutil.disk_usage(spec.folder).free)
        if on_tick is not None:
            on_tick()

    with command(tool, spec) as one:
        finished = run_process(
            one.argv,
            cwd=spec.cwd,
            env=one.env,
            log=spec.folder / LOG,
            timeout_s=spec.timeout_s,
            on_line=lines.take,
            on_tick=tick,
            clean=spec.cleaner.clean,
        )
    return Ended(finished=finished, printed="\n".join(lines.own), tail=lines.tail, free_bytes=free)


def why_not_to_start(spec: ProfileSpec) -> Note | None:
    """What is wrong with a run before nsys is asked, which would say it in its own way."""
    stale = sorted(
        path.name
        for path in spec.folder.iterdir()
        if path.suffix in {".nsys-rep", ".sqlite", ".qdstrm"}
    )
    if stale:
        raise ValueError(f"{spec.folder} holds {', '.join(stale)}; a run needs a fresh folder")
    if not spec.cwd.is_dir():
        return note("workload-folder-missing", Severity.INVALID, folder=str(spec.cwd))
    program = _program(spec)
    if program is None or not _is_program(Path(program)):
        return note("workload-program-unrunnable", Severity.INVALID, program=spec.argv[0])
    free = shutil.disk_usage(spec.folder).free
    if free < FREE_BYTES:
        return note(
            "disk-too-full",
            Severity.INVALID,
            folder=str(spec.folder),
            free_bytes=free,
            needed_bytes=FREE_BYTES,
        )
    return None


def _program(spec: ProfileSpec) -> str | None:
    """Find the workload's program as a shell would.

    Nsys would look into the current folder first.
    """
    named = spec.argv[0]
    if "/" in named:
        path = (spec.cwd / named).absolute()
        return str(path) if path.is_file() and os.access(path, os.X_OK) else None
    found = shutil.which(named, path=spec.env.get("PATH", os.defpath))
    return None if found is None else str(Path(found).absolute())


def _is_program(path: Path) -> bool:
    """Whether a file is a binary or names its interpreter, or may be run but not read."""
    try:
        with path.open("rb") as file:
            return file.read(4).startswith((b"#!", b"\x7fELF"))
    except OSError:
        return True


def _umask() -> int:
    """This process's umask; to set it is no way to read it, as another thread might make a file."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("\nUmask:")[2].split()[0], 8)


def _exported_with(rep: Path) -> Path | None:
    """Return the export that `--stats=true` left beside a capture, if it is whole and newer."""
    sqlite = rep.with_suffix(".sqlite")
    if not sqlite.is_file() or sqlite.stat().st_mtime_ns < rep.stat().st_mtime_ns:
        return None
    try:
        check_export(sqlite)
    except CaptureUnreadable:
        return None
    return sqlite


def _natural(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple(
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)
    )
