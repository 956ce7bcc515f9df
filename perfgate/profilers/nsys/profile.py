"""One workload under nsys, from the command to checked captures and reports; judges nothing it measured.

nsys's exit codes prove nothing (0 for a missing, truncated or skipped report, another for a good capture), so every
output is looked at, and what nsys printed is read where one is missing.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from perfgate.model.errors import CaptureUnreadable, StoreFailed
from perfgate.model.reports import ReportName, Reports
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import GraphTrace
from perfgate.model.workload import CaptureMode, CaptureWindow
from perfgate.profilers.nsys import importer
from perfgate.profilers.nsys.command import (
    OUTPUT,
    export_command,
    profile_command,
    report_names,
    stats_command,
    target_command,
)
from perfgate.profilers.nsys.environment import for_profile, for_reports
from perfgate.profilers.nsys.export.cleaning import clean_export
from perfgate.profilers.nsys.files import (
    REPORTS,
    fault_of_rep,
    fault_of_sqlite,
    literal,
    tables_of,
    workshop,
)
from perfgate.profilers.nsys.output import (
    PROGRESS,
    Output,
    crash,
    ended,
    never_started,
    signal_name,
)
from perfgate.profilers.nsys.reports import read_reports
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.system.process import Finished, run_process

LOG: Final = "nsys.log"
"""Everything that the workload and nsys printed, line by line, in the run's folder."""

FREE_BYTES: Final = 200_000_000
"""Free space without which no run is started: seconds of capture take some 10 MB, their export ten times that."""

FULL_BYTES: Final = 1_000_000
"""Free space below which the disk ran full during a run. nsys 2024.2 then takes the workload down with SIGSEGV, or
hangs, and turns what it has into a capture that looks whole; on its way out it gives the space back."""

EXPORT_TIMEOUT_S: Final = 900.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileSpec:
    """One run of a workload under nsys."""

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
class Captured:
    """One capture and its export, both checked to be there and readable."""

    rep: Path
    sqlite: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileOutcome:
    """What came of one run; a workload that failed may leave good captures, and one that did well none."""

    captures: tuple[Captured, ...]
    exit_status: int | None
    """The workload's, as nsys passed it on; None where nsys never started it, was ended, or died itself, and where the
    workload still ran when its window by the clock had been captured (it was ended then)."""
    signal: str | None
    """Name of the signal that ended the workload, from an exit status of 128 + its number."""
    timed_out: bool
    wall_s: float
    """From start to end of nsys, export and its own summaries included."""
    tail: tuple[str, ...]
    """The last lines of the workload's own output, without empty ones."""
    log: Path
    problem: str | None
    """Why there is no capture, or one less than there should be, and what to do; sentences."""
    disk_was_full: bool = False
    """Whether next to nothing was free at some moment of the run."""
    nsys_hung: bool = False
    """Whether nothing but nsys was left when the time was up: what it profiled had ended."""
    crash: str | None = None
    """What nsys says it broke down by, where it left no capture for it: another try may well succeed."""


def profile(
    tool: NsysTool,
    spec: ProfileSpec,
    *,
    on_line: Callable[[str], None] | None = None,
    on_tick: Callable[[], None] | None = None,
) -> ProfileOutcome:
    """Run a workload under nsys and return what came of it; `on_line` gets the workload's own lines as they come.

    Never raises for a workload, an nsys or a disk that fails: see `ProfileOutcome.problem`. Whatever the run started
    has ended on return, also on KeyboardInterrupt and what `on_line` or `on_tick` raise, which go on to the caller;
    `on_tick` is called at least every 0.1 s, and may so call a run off.

    Raises:
        ValueError: the folder holds captures already; they would be taken for this run's.
    """
    lines = Output(on_line, spec.cleaner)
    finished: Finished | None = None
    free = 0
    refused: str | None = None
    try:
        # nsys writes with umask 0, and what it writes holds the environment.
        spec.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        refused = _why_not_to_start(spec)
        if refused is None:
            finished, free = _run(tool, spec, lines, on_tick)
    except OSError as error:
        if lines.is_telling:
            raise
        refused = f"nsys could not be run in {spec.folder}: {error}. Make the folder writable, or free some space."
    if finished is None:
        return _outcome(tool, spec, lines, problem=refused)
    captures: list[Captured] = []
    problems: list[str] = []
    # What is left of a run out of time or disk is a torso, however whole it looks.
    is_torso = finished.timed_out or free < FULL_BYTES
    reps = [] if is_torso else sorted(spec.folder.glob("*.nsys-rep"), key=_natural)
    for rep in reps:
        try:
            sqlite = _exported_with(rep) or export(tool, rep, spec.folder, on_tick=on_tick)
            clean_export(sqlite, spec.cleaner)
            captures.append(Captured(rep=rep, sqlite=sqlite))
        except (CaptureUnreadable, StoreFailed) as error:
            problems.append(str(error))
    if not reps:
        problems.append(_why_no_capture(tool, spec, finished, lines.own, free))
    outcome = _outcome(
        tool, spec, lines, finished, captures=captures, problem="\n".join(problems) or None
    )
    is_full = free < FULL_BYTES
    # On a full disk another try would meet the same.
    return replace(outcome, disk_was_full=is_full, crash=None if is_full else outcome.crash)


def export(
    tool: NsysTool,
    rep: Path,
    folder: Path,
    *,
    timeout_s: float = EXPORT_TIMEOUT_S,
    on_tick: Callable[[], None] | None = None,
) -> Path:
    """Turn a `.nsys-rep` into `folder/{stem}.sqlite`, replacing what is there, and return that.

    Raises:
        CaptureUnreadable: it is no capture, is cut short, is of a newer nsys, or takes longer than `timeout_s`.
        StoreFailed: `folder` cannot be written.
    """
    fault = fault_of_rep(rep)
    if fault is not None:
        raise fault
    target = folder / f"{rep.stem}.sqlite"
    with workshop(folder) as work, literal(work) as plain:
        source = f"source{rep.suffix if rep.suffix in REPORTS else REPORTS[0]}"
        (work / source).symlink_to(rep.absolute())
        command = export_command(
            tool.path, source=str(plain / source), target=str(plain / "target.sqlite")
        )
        told, finished = run_quietly(tool, command, work, timeout_s, on_tick)
        if finished.timed_out:
            raise CaptureUnreadable(
                subject=str(rep),
                fact=f"nsys export did not end within {timeout_s:g} s",
                next_step=f"Export it by hand and look at what it says: {tool.path} export --type=sqlite {rep}",
            )
        error = next(
            (m[1].rstrip(". ") for line in told if (m := _EXPORT_ERROR.search(line))), None
        )
        fact = fault_of_sqlite(work / "target.sqlite")
        if error is not None or fact is not None:
            newer = error is not None and "newer than" in error
            raise CaptureUnreadable(
                subject=str(rep),
                fact=f"nsys {tool.version} cannot export it: {error or f'the export {fact}'}",
                expectation="" if newer else "Expected a complete .nsys-rep",
                next_step="Use an nsys as new as the one that captured it: set PERFGATE_NSYS."
                if newer
                else "Capture it again; if it was copied or downloaded, compare its size with the original's.",
            )
        (work / "target.sqlite").replace(target)
    return target


def run_reports(
    tool: NsysTool,
    sqlite: Path,
    folder: Path,
    *,
    timeout_s: float = EXPORT_TIMEOUT_S,
    on_tick: Callable[[], None] | None = None,
) -> Reports:
    """Let nsys summarise a capture's export, and read its five CSVs; they stay in `folder` as `{report}.csv`.

    A report that nsys skipped for want of data is in `Reports.skipped` with nsys's reason; one that is missing or
    empty without a reason is an error. `on_tick` is called at least every 0.1 s, and may call it off by raising.

    Raises:
        CaptureUnreadable: the export is no SQLite file, or nsys made no report of it.
        LayoutUnknown: a report has columns or units that perfgate does not know.
        StoreFailed: `folder` cannot be written.
    """
    fault = fault_of_sqlite(sqlite)
    if fault is not None:
        raise CaptureUnreadable(
            subject=str(sqlite),
            fact=fault,
            expectation="Expected a SQLite export of an nsys capture",
            next_step=f"Export the capture again: {tool.path} export --type=sqlite CAPTURE.nsys-rep",
        )
    texts: dict[ReportName, str] = {}
    skipped: dict[ReportName, str] = {}
    with workshop(folder) as work, literal(work) as plain:
        (work / "capture.sqlite").symlink_to(sqlite.absolute())
        wanted = list(ReportName)
        for names in report_names(tool.version):
            spelled = {name: names[name] for name in wanted}
            command = stats_command(
                tool.path,
                tuple(spelled.values()),
                source=str(plain / "capture.sqlite"),
                output=str(plain / "report"),
            )
            told, finished = run_quietly(tool, command, work, timeout_s, on_tick)
            wanted = [name for name in wanted if _is_unknown(spelled[name], told)]
            for name in [name for name in spelled if name not in wanted]:
                csv = work / f"report_{spelled[name]}.csv"
                reason = _skipped(spelled[name], told)
                if csv.is_file() and csv.stat().st_size:
                    # Range names are the workload's own bytes; one that is no UTF-8 must not cost the report.
                    texts[name] = csv.read_bytes().decode(errors="replace")
                    csv.replace(folder / f"{name.value}.csv")
                elif reason is not None and not is_excuse(reason, sqlite):
                    skipped[name] = reason
                else:
                    raise _no_report(tool, name, sqlite, csv, told, finished, timeout_s)
            if not wanted:
                break
        if wanted:
            raise CaptureUnreadable(
                subject=f"nsys {tool.version} ({tool.path})",
                fact=f"does not know the report {', '.join(wanted)}",
                next_step="Use another nsys through PERFGATE_NSYS.",
            )
    return read_reports(texts, skipped=skipped, source=str(sqlite))


def _run(
    tool: NsysTool, spec: ProfileSpec, lines: Output, on_tick: Callable[[], None] | None
) -> tuple[Finished, int]:
    """Run nsys with a TMPDIR of its own, and return how it ended and the fewest bytes that were free.

    In a shared /tmp, nsys stumbles over `/tmp/nvidia` of another user, and leaves unfinished recordings behind; this
    one is removed. The workload must not get it, or it would lose what it caches there from run to run (compiled
    kernels).
    """
    tmp = spec.folder / "tmp"
    tmp.mkdir()
    workload_tmpdir = spec.env.get("TMPDIR") or "/tmp"  # what an unset TMPDIR means
    own_tmpdir = not set(workload_tmpdir) & _NOT_IN_ENV_VAR
    free = shutil.disk_usage(spec.folder).free

    def tick() -> None:
        nonlocal free
        free = min(free, shutil.disk_usage(spec.folder).free)
        if on_tick is not None:
            on_tick()

    try:
        with literal(spec.folder) as plain:
            command = profile_command(
                tool.path,
                target_command((_program(spec) or spec.argv[0], *spec.argv[1:]), umask=_umask()),
                output=plain / OUTPUT,
                capture=spec.capture,
                graph_trace=spec.graph_trace,
                workload_tmpdir=workload_tmpdir if own_tmpdir else None,
            )
            finished = run_process(
                command,
                cwd=spec.cwd,
                env=for_profile(spec.env, tmpdir=str(plain / "tmp") if own_tmpdir else None),
                log=spec.folder / LOG,
                timeout_s=spec.timeout_s,
                on_line=lines.take,
                on_tick=tick,
                clean=spec.cleaner.clean,
            )
            return finished, free
    finally:
        shutil.rmtree(tmp, ignore_errors=True)


def _umask() -> int:
    """This process's umask. Only setting it is portable, and another thread might make a file meanwhile."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("\nUmask:")[2].split()[0], 8)


_NOT_IN_ENV_VAR: Final = frozenset(",\"'\\")
"""nsys splits `--env-var` at commas and knows quotes."""

_WHY_NOTHING: Final = re.compile(
    "Importer error status: |Failed to create '|No space left on device|FATAL ERROR: "
)
"""What nsys says where a run without a capture has a reason that another try would meet again."""

_EXPORT_ERROR: Final = re.compile(r"Exportation error: (.*)")


def _outcome(
    tool: NsysTool,
    spec: ProfileSpec,
    lines: Output,
    finished: Finished | None = None,
    *,
    captures: Sequence[Captured] = (),
    problem: str | None,
) -> ProfileOutcome:
    # Where there is a capture, it was the workload that printed such a line.
    status = (
        None
        if finished is None or (never_started(lines.own) and not captures)
        else finished.returncode
    )
    if status is not None and status < 0:
        status = None
    broke_down = None if captures or finished is None else _crash(tool, spec, finished, lines.own)
    if broke_down is not None:
        status = None  # its own, not the workload's
    if (
        finished is not None
        and isinstance(spec.capture, CaptureWindow)
        and not all(map(_is_nsys, finished.left))
    ):
        # After --duration nsys goes home with 0 and leaves the workload running.
        status = None
    return ProfileOutcome(
        captures=tuple(captures),
        exit_status=status,
        signal=signal_name(status - 128) if status is not None and status > 128 else None,
        timed_out=finished is not None and finished.timed_out,
        nsys_hung=finished is not None and _hung(finished),
        wall_s=0.0 if finished is None else finished.wall_s,
        tail=lines.tail,
        log=spec.folder / LOG,
        problem=problem,
        crash=broke_down,
    )


def _is_nsys(name: str) -> bool:
    return name.startswith("nsys")


def _hung(finished: Finished) -> bool:
    return finished.timed_out and bool(finished.left) and all(map(_is_nsys, finished.left))


def _program(spec: ProfileSpec) -> str | None:
    """Find the workload's program as a shell would; nsys would look into the current folder first."""
    named = spec.argv[0]
    if "/" in named:
        path = (spec.cwd / named).absolute()
        return str(path) if path.is_file() and os.access(path, os.X_OK) else None
    found = shutil.which(named, path=spec.env.get("PATH", os.defpath))
    return None if found is None else str(Path(found).absolute())


def _is_program(path: Path) -> bool:
    """Whether a file is a binary or names its interpreter; one that may be run and not read is taken for either."""
    try:
        with path.open("rb") as file:
            return file.read(4).startswith((b"#!", b"\x7fELF"))
    except OSError:
        return True


def _why_not_to_start(spec: ProfileSpec) -> str | None:
    stale = sorted(
        path.name
        for path in spec.folder.iterdir()
        if path.suffix in {".nsys-rep", ".sqlite", ".qdstrm"}
    )
    if stale:
        raise ValueError(f"{spec.folder} holds {', '.join(stale)}; a run needs a fresh folder")
    if not spec.cwd.is_dir():
        return f"The workload's folder {spec.cwd} does not exist. Correct its cwd."
    program = _program(spec)
    if program is None:
        return (
            f"The workload's program {spec.argv[0]} is not an executable file"
            + ("" if "/" in spec.argv[0] else " on PATH")
            + ". Correct the command, or install it."
        )
    if not _is_program(Path(program)):
        return (
            f"The workload's program {spec.argv[0]} is of no format that can be run. "
            "Begin it with a line like #!/bin/sh, or put its interpreter before it in the command."
        )
    free = shutil.disk_usage(spec.folder).free
    if free < FREE_BYTES:
        return (
            f"The disk is full: {free / 1e6:.0f} MB are free in {spec.folder}, "
            f"a capture needs {FREE_BYTES / 1e6:.0f} MB. Free some space."
        )
    return None


def _why_no_capture(
    tool: NsysTool, spec: ProfileSpec, finished: Finished, own: Iterable[str], free: int
) -> str:
    """Name the reason for which nsys wrote no capture, the surest first."""
    log = spec.folder / LOG
    said = "\n".join(own)
    if "No space left on device" in said or free < FULL_BYTES:
        return (
            f"The disk ran full while nsys wrote the capture into {spec.folder}. Free some space."
        )
    if _hung(finished):
        return (
            f"nsys {tool.version} did not end within {spec.timeout_s:g} s, though the workload had ended, so it was "
            f"ended. Run it again; for a capture that takes it so long, measure fewer steps or raise timeout_s: {log}"
        )
    if finished.timed_out:
        late = (
            "The workload"
            if "Generating '" not in said
            else "The workload, or nsys writing its capture,"
        )
        return (
            f"{late} did not end within {spec.timeout_s:g} s, so it was ended with all that it had started. "
            f"Give it more time (timeout_s), or look where it hangs: {log}"
        )
    if found := re.search(r"unrecogni[sz]ed option '(.*?)'", said):
        return f"nsys {tool.version} ({tool.path}) does not know the option {found[1]}. Set PERFGATE_NSYS to another."
    if found := re.search(r"^Illegal --\S+ argument(?!.* set to ).*", said, re.MULTILINE):
        return f"nsys {tool.version} ({tool.path}) did not start the workload: {found[0]} Correct its capture window."
    if "temp_directory_path" in said:
        return f"nsys cannot use the folder {spec.env.get('TMPDIR')}. Set TMPDIR to one that exists and can be written."
    status = re.search(r"Importer error status: (.*)", said)
    if status is not None or any(spec.folder.glob("*.qdstrm")):
        what = status[1].rstrip(". ") if status is not None else "it does not say why"
        advice = importer.what_to_do(what, importer.missing_libraries(tool.path))
        return f"nsys {tool.version} recorded the workload but could not import its recording: {what}. {advice}"
    if found := re.search(r"Failed to create '(.*?)': (.*)", said):
        path = spec.folder / Path(found[1]).name
        return f"nsys could not write {path}: {found[2].rstrip('. ')}. Make the folder writable."
    if (broke_down := crash(said.splitlines())) is not None:
        return f"nsys {tool.version} itself failed: {broke_down}. All it printed is in {log}"
    if found := re.search(r"FATAL ERROR: .*", said):
        return f"nsys {tool.version} itself failed: {found[0]}. All it printed is in {log}"
    if (lost := _lost(finished, said)) is not None:
        return f"nsys {tool.version} itself failed: {lost}. All it printed is in {log}"
    return _why_never_opened(spec, finished, log)


def _crash(tool: NsysTool, spec: ProfileSpec, finished: Finished, own: Iterable[str]) -> str | None:
    """Why nsys itself broke down in a run that left no capture, None where it did not."""
    own = tuple(own)
    said = crash(own)
    if said is not None or finished.timed_out:
        return said
    text = "\n".join(own)
    # The exit status is the workload's: one that failed is that run's result, whatever became of the recording.
    if finished.returncode == 0 and f"Importer error status: {importer.ENDED_BY_SIGNAL}" in text:
        return (
            None
            if importer.missing_libraries(tool.path)
            else f"its importer: {importer.ENDED_BY_SIGNAL.lower()}"
        )
    if any(spec.folder.glob("*.qdstrm")):
        return None
    return None if _WHY_NOTHING.search(text) else _lost(finished, text)


def _lost(finished: Finished, said: str) -> str | None:
    """How nsys lost a recording for no reason that it gave; where it never began one it does not set out to write."""
    if finished.returncode is not None and finished.returncode < 0:
        number = -finished.returncode
        return f"it was ended by {signal_name(number) or number} and left no capture"
    if finished.returncode == 0 and "Generating '" in said:
        return "it recorded the workload and wrote no capture"
    return None


def _why_never_opened(spec: ProfileSpec, finished: Finished, log: Path) -> str:
    match spec.capture:
        case CaptureMode.CUDA_PROFILER_API:
            opens = "before it called cudaProfilerStart()"
            reason = "cudaProfilerStart() was not called, or the workload did not use CUDA"
            advice = (
                "Call torch.cuda.profiler.start() before the measured steps, or set `capture: all`."
            )
        case CaptureWindow() as window:
            opens = f"before its capture window opened, {window.delay:g} s after the start"
            reason = f"the workload ended before the window of {window.delay:g} s after the start"
            advice = "Set a shorter delay, or more steps."
        case CaptureMode.ALL:
            return (
                f"nsys ended with status {finished.returncode} and wrote no capture, and did not say why. "
                f"All it printed is in {log}"
            )
    if finished.returncode:
        return f"The capture range never opened: the workload ended with status {finished.returncode} {opens}."
    return f"The capture range never opened: {reason}. {advice}"


def _exported_with(rep: Path) -> Path | None:
    """Return the export that `--stats=true` left beside a capture, if it is one and not older than the capture."""
    sqlite = rep.with_suffix(".sqlite")
    if not sqlite.is_file() or sqlite.stat().st_mtime_ns < rep.stat().st_mtime_ns:
        return None
    return sqlite if fault_of_sqlite(sqlite) is None else None


def _is_unknown(spelled: str, told: Sequence[str]) -> bool:
    return any(f"Report '{spelled}' could not be found" in line for line in told)


def _skipped(spelled: str, told: Sequence[str]) -> str | None:
    """Return nsys's reason for skipping a report.

    Up to 2024: `Processing [...] with [.../nvtx_sum.py] to [...]... SKIPPED: ...` on one line. In 2025 that line ends
    in `PROCESSED (EMPTY RESULTS)`, and the reason has a line of its own behind it.
    """
    of_report = re.compile(rf"[\[/]{re.escape(spelled)}(\.py)?\]")
    for number, line in enumerate(told):
        if not of_report.search(line):
            continue
        if found := re.search(r"SKIPPED: (.*)", line):
            return _without_file(found[1])
        if "EMPTY RESULTS" in line:
            behind = next((after for after in told[number + 1 :] if after.strip()), "")
            found = re.match(r"\s*SKIPPED: (.*)", behind)
            return _without_file(found[1]) if found else "it has no such data"
    return None


def _without_file(reason: str) -> str:
    return re.sub(r"^\S*capture\.sqlite\s+", "", reason).strip()


def is_excuse(reason: str, sqlite: Path) -> bool:
    """Whether nsys gives want of data as its reason although it did not read the file."""
    return "StringIds" in reason and "StringIds" in tables_of(sqlite)


def _no_report(
    tool: NsysTool,
    name: ReportName,
    sqlite: Path,
    csv: Path,
    told: Sequence[str],
    finished: Finished,
    timeout_s: float,
) -> CaptureUnreadable:
    errors = [line.strip() for line in told if "ERROR" in line or "SKIPPED" in line]
    if finished.timed_out:
        fact = f"nsys stats did not end within {timeout_s:g} s"
    else:
        fact = "left an empty file" if csv.is_file() else "left no file"
        fact += f": {errors[-1].rstrip('. ')}" if errors else _how_it_ended(finished, told)
    return CaptureUnreadable(
        subject=f"report {name.value} of {sqlite}",
        fact=fact,
        expectation=f"Expected nsys {tool.version} to print it, or to say that it has no such data",
        next_step=(
            "Run it by hand (a gate leaves this file behind with --perfgate-keep-captures): "
            f"LC_ALL=C {tool.path} stats --report={csv.stem.removeprefix('report_')} {sqlite}"
        ),
    )


def _how_it_ended(finished: Finished, told: Sequence[str]) -> str:
    """For want of an error that nsys names: what it said last, if it failed."""
    if not finished.returncode:
        return " and did not say why"
    said = (line.strip() for line in reversed(told) if not line.startswith("Processing ["))
    last = next(filter(None, said), "")
    return f", and {ended('nsys', finished.returncode)}" + (
        f": {last.rstrip('. ')}" if last else ""
    )


def run_quietly(
    tool: NsysTool,
    command: Sequence[str],
    work: Path,
    timeout_s: float,
    on_tick: Callable[[], None] | None,
) -> tuple[list[str], Finished]:
    """Run nsys on a capture; return what it said, its progress aside, and how it ended."""
    told: list[str] = []
    try:
        finished = run_process(
            command,
            cwd=work,
            env=for_reports(tool.env, tmpdir=str(work)),
            log=work / "log",
            timeout_s=timeout_s,
            on_line=lambda line: told.append(line) if not PROGRESS.match(line) else None,
            on_tick=on_tick,
            clean=Cleaner(tool.env).clean,
        )
    except OSError as error:
        raise StoreFailed(
            subject=f"nsys {tool.path} in {work}",
            fact=f"cannot be run: {error}",
            next_step="Check that the program and the folder are there and may be used.",
        ) from error
    return told, finished


def _natural(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple(
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)
    )
