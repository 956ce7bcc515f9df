"""One workload under nsys: the command, the run, and the captures it left or why there are none.

nsys's exit status proves nothing (another for a good capture, 0 for none), so what it wrote is
looked at, and what it printed is read where nothing is there.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from perfgate.model.errors import CaptureUnreadable, StoreFailed
from perfgate.model.note import Note, Severity
from perfgate.model.workload import CaptureWindow
from perfgate.profilers.nsys.answers import export, literal
from perfgate.profilers.nsys.command import (
    OUTPUT,
    profile_command,
    target_command,
    window_options,
    without_profiler,
)
from perfgate.profilers.nsys.export.file import open_export
from perfgate.profilers.nsys.export.scrub import clean_export
from perfgate.profilers.nsys.output import (
    FULL_BYTES,
    NOT_STARTED,
    Output,
    invalid,
    is_nsys,
    signal_name,
    why_no_capture,
)
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import Captured, OnTick, ProfileOutcome, ProfileSpec
from perfgate.system.process import Finished, Listening, ignore, run_process

LOG: Final = "nsys.log"
"""Everything that the workload and nsys printed, line by line, in the run's folder."""
FREE_BYTES: Final = 200_000_000
"""Free space without which no run is started: seconds of capture take some 10 MB, their export ten
times that."""


def profile(tool: NsysTool, spec: ProfileSpec, *, on_tick: OnTick = ignore) -> ProfileOutcome:
    """Run a workload under nsys and return what came of it.

    Never raises for a workload, an nsys or a disk that fails: see `ProfileOutcome.problem`.
    Whatever the run started has ended on return, also on KeyboardInterrupt and what `on_tick`
    raises, which is called at least every 0.1 s.
    """
    lines = Output(spec.cleaner)
    ran: tuple[Finished, int] | None = None
    try:
        # nsys writes with umask 0, and what it writes holds the environment.
        spec.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        problem = _why_not_to_start(spec)
        if problem is None:
            ran = _run(tool, spec, lines, on_tick)
    except OSError as error:
        problem = invalid("run-folder-unusable", folder=str(spec.folder), reason=str(error))
    if ran is None:
        return ProfileOutcome(log=spec.folder / LOG, tail=lines.tail, problem=problem)
    finished, free_bytes = ran
    captures: tuple[Captured, ...] = ()
    crashed = False
    # What is left of a run out of time or disk is a torso, however whole it looks.
    disk_was_full = free_bytes < FULL_BYTES
    if not (finished.timed_out or disk_was_full):
        captures, problem = _captures(tool, spec, on_tick)
    if disk_was_full:
        problem = invalid("nsys-disk-full")
    elif not captures and problem is None:
        problem, crashed = why_no_capture(tool, spec, finished, "\n".join(lines.own))
    never_ran = crashed or (problem is not None and problem.code == NOT_STARTED and not captures)
    # After --duration nsys goes home with 0 and leaves the workload running.
    left_running = isinstance(spec.capture, CaptureWindow) and not all(map(is_nsys, finished.left))
    status = finished.returncode
    if never_ran or left_running or (status is not None and status < 0):
        status = None
    return ProfileOutcome(
        log=spec.folder / LOG,
        captures=captures,
        problem=problem,
        exit_status=status,
        signal=signal_name(status - 128) if status is not None and status > 128 else None,
        timed_out=finished.timed_out,
        wall_s=finished.wall_s,
        tail=lines.tail,
        nsys_hung=finished.timed_out and bool(finished.left) and all(map(is_nsys, finished.left)),
        crashed=crashed,
    )


def _captures(
    tool: NsysTool, spec: ProfileSpec, on_tick: OnTick
) -> tuple[tuple[Captured, ...], Note | None]:
    """The captures of a run with their exports, and why one of them has none.

    Those of a repeated range are `capture.1`, `capture.2`, ...
    """
    found: list[Captured] = []
    problem: Note | None = None
    reps = spec.folder.glob("*.nsys-rep")
    for rep in sorted(reps, key=lambda path: (len(path.name), path.name)):
        try:
            sqlite = _exported_with(rep) or export(tool, rep, spec.folder, on_tick=on_tick)
            clean_export(sqlite, spec.cleaner, until=spec.until)
            found.append(Captured(rep=rep, sqlite=sqlite))
        except (CaptureUnreadable, StoreFailed) as error:
            problem = Note(code=error.code, severity=Severity.INVALID, fields=error.fields)
    return tuple(found), problem


def _exported_with(rep: Path) -> Path | None:
    """Return the export that `--stats=true` left next to a capture, if it is whole and newer."""
    sqlite = rep.with_suffix(".sqlite")
    if not sqlite.is_file() or sqlite.stat().st_mtime_ns < rep.stat().st_mtime_ns:
        return None
    try:
        with open_export(sqlite):
            return sqlite
    except CaptureUnreadable:
        return None


def _run(tool: NsysTool, spec: ProfileSpec, lines: Output, on_tick: OnTick) -> tuple[Finished, int]:
    """How nsys ended, and the least that was free on its disk at any moment.

    It has a TMPDIR of its own: in a shared /tmp, nsys stumbles over `/tmp/nvidia` of another user,
    and leaves unfinished recordings behind. The workload must not get that one, or it would lose
    what it caches there from run to run (compiled kernels).
    """
    free = shutil.disk_usage(spec.folder).free

    def tick() -> None:
        nonlocal free
        free = min(free, shutil.disk_usage(spec.folder).free)
        on_tick()

    tmp = spec.folder / "tmp"
    tmp.mkdir()
    # To set one's umask is no way to read it, as another thread might make a file.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    umask = int(status.partition("\nUmask:")[2].split()[0], 8)
    try:
        with literal(spec.folder) as plain:
            finished = run_process(
                profile_command(
                    tool.path,
                    target_command(spec.argv, umask=umask, tmpdir=spec.env.get("TMPDIR", "")),
                    output=plain / OUTPUT,
                    window=window_options(spec.capture, flushes_at_once=spec.until is None),
                    graph_trace=spec.graph_trace,
                ),
                cwd=spec.cwd,
                # LC_ALL=C here would reach the workload and change what it measures.
                env={**without_profiler(spec.env), "TMPDIR": str(plain / "tmp")},
                log=spec.folder / LOG,
                timeout_s=spec.timeout_s,
                listening=Listening(on_line=lines.take, on_tick=tick, clean=spec.cleaner.clean),
            )
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    return finished, free


def _why_not_to_start(spec: ProfileSpec) -> Note | None:
    """What is wrong with a run before nsys is asked, which would say it in its own way."""
    if not spec.cwd.is_dir():
        return invalid("workload-folder-missing", folder=str(spec.cwd))
    free = shutil.disk_usage(spec.folder).free
    if free < FREE_BYTES:
        return invalid(
            "disk-too-full", folder=str(spec.folder), free_bytes=free, needed_bytes=FREE_BYTES
        )
    return None
