"""Has nsys work on a capture (export, stats, analyze), and finds out what came of it.

nsys's exit status proves nothing: it is 0 for a missing, truncated or skipped report. So its files
are looked at, and what it printed is read where one is missing.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from perfgate.model.errors import CaptureUnreadable, StoreFailed
from perfgate.model.reports import ReportName, RuleName
from perfgate.model.secrets import Cleaner
from perfgate.profilers.nsys.command import (
    NOT_LITERAL,
    answers_command,
    export_command,
    without_profiler,
)
from perfgate.profilers.nsys.export.file import REPORTS, check_capture, open_export
from perfgate.profilers.nsys.output import PROGRESS
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import OnTick
from perfgate.system.files import temporary_folder
from perfgate.system.process import Finished, Listening, ignore, run_process

TIMEOUT_S: Final = 900.0

Name = TypeVar("Name", ReportName, RuleName)
_EXPORT_ERROR: Final = re.compile(r"Exportation error: (.*)")


def export(
    tool: NsysTool, rep: Path, folder: Path, *, timeout_s: float = TIMEOUT_S, on_tick: OnTick = None
) -> Path:
    """Turn a `.nsys-rep` into `folder/{stem}.sqlite`, replacing what is there, and return that.

    Raises:
        CaptureUnreadable: it is no capture, is cut short, is of a newer nsys, or takes too long.
        StoreFailed: `folder` cannot be written.
    """
    check_capture(rep)
    target = folder / f"{rep.stem}.sqlite"
    with workshop(folder) as (work, plain):
        source = f"source{rep.suffix if rep.suffix in REPORTS else REPORTS[0]}"
        (work / source).symlink_to(rep.absolute())
        command = export_command(
            tool.path, source=str(plain / source), target=str(plain / "target.sqlite")
        )
        lines, finished = _run_quietly(tool, command, work, timeout_s, on_tick)
        said = next((found[1] for line in lines if (found := _EXPORT_ERROR.search(line))), None)
        if said is None and not finished.timed_out:
            try:
                with open_export(work / "target.sqlite"):
                    pass
            except CaptureUnreadable:
                said = _last(lines) or "it did not say why"
        if finished.timed_out or said is not None:
            raise CaptureUnreadable(
                "capture-not-exported",
                path=str(rep),
                nsys=str(tool.version),
                said=said or f"it did not end within {timeout_s:g} s",
            )
        (work / "target.sqlite").replace(target)
    return target


def answers(
    tool: NsysTool,
    asked: Mapping[Name, str],
    sqlite: Path,
    folder: Path,
    *,
    on_tick: OnTick = None,
) -> dict[Name, str]:
    """Let nsys print reports or rules of a capture's export: their CSVs, empty where there is
    nothing to find or nsys lacks the data; they stay in `folder`.

    Args:
        tool: the nsys to ask.
        asked: by name what to ask for, as this nsys calls it; arguments follow a colon.
        sqlite: the export.
        folder: where the CSVs stay, as `{name}.csv`; those of an earlier call are replaced.
        on_tick: called at least every 0.1 s, and may call it off by raising.

    Raises:
        CaptureUnreadable: the export is none, or nsys failed on it.
        StoreFailed: `folder` cannot be written.
    """
    with open_export(sqlite):
        pass
    found: dict[Name, str] = {}
    with workshop(folder) as (work, plain):
        (work / "capture.sqlite").symlink_to(sqlite.absolute())
        argv = answers_command(
            tool.path,
            tuple(asked.values()),
            rules=any(isinstance(name, RuleName) for name in asked),
            source=str(plain / "capture.sqlite"),
            output=str(plain / "printed"),
        )
        lines, finished = _run_quietly(tool, argv, work, TIMEOUT_S, on_tick)
        for name, one in asked.items():
            called = one.partition(":")[0]
            # The name of a rule's file ends in its arguments, in nsys's spelling.
            file = next(work.glob(f"printed_{called}_*=*.csv"), work / f"printed_{called}.csv")
            # Range names are the workload's own bytes, and may be no UTF-8.
            text = file.read_bytes().decode(errors="replace") if file.is_file() else None
            said = _what_went_wrong(called, text, lines, finished)
            if said is not None:
                option = next(word for word in argv if word.endswith(f"={one}"))
                raise CaptureUnreadable(
                    "nsys-printed-nothing",
                    path=str(sqlite),
                    name=called,
                    said=said,
                    command=f"LC_ALL=C {tool.path} {argv[1]} {option}",
                )
            found[name] = text or ""
            (folder / f"{name}.csv").unlink(missing_ok=True)
            if text:
                file.replace(folder / f"{name}.csv")
    return found


def _what_went_wrong(
    asked: str, text: str | None, lines: Sequence[str], finished: Finished
) -> str | None:
    """Why the file of one report or rule may not be all, or is not there; None where it is or nsys
    says that it has no data for it.

    `Processing [...] with [.../gpu_gaps.py](gap=0:rows=9) to [...]... `, and then what came of it.
    Up to 2024 nothing follows where a rule found nothing, not even the end of the line: the next
    rule goes on there.
    """
    named = re.compile(rf"\] with \[(?:.*/)?{re.escape(asked)}(?:\.py)?\]")
    parts = "\n".join(lines).split("Processing [")[1:]
    log = "".join(part for part in parts if named.search(part.partition("\n")[0]))
    errors = [line.strip() for line in lines if "ERROR" in line and (asked in line or line in log)]
    if errors and f"'{asked}' could not be found" in errors[0]:
        return None
    if finished.timed_out:
        return "it did not end in time"
    if errors or (finished.returncode and "PROCESSED" not in log):
        return errors[0] if errors else _last(lines) or f"exit status {finished.returncode}"
    if text:
        return None
    # An export has always strings: nsys says so of one that it could not read.
    is_skipped = "SKIPPED: " in log and "StringIds" not in log
    is_empty = "EMPTY RESULTS" in log or (text == "" and bool(log))
    return None if is_skipped or (is_empty and "SKIPPED: " not in log) else _last(lines)


def _last(lines: Sequence[str]) -> str:
    said = [line.strip().rstrip(".") for line in lines if not line.startswith("Processing [")]
    return next((line for line in reversed(said) if line), "")


def _run_quietly(
    tool: NsysTool, command: Sequence[str], work: Path, timeout_s: float, on_tick: OnTick
) -> tuple[list[str], Finished]:
    """Run nsys on a capture; return what it printed, without progress bars, and how it ended.

    It is read, so the locale is C: under de_DE the CSVs hold `"167,772"` for 167.772 MB.
    """
    kept = {"PATH": "/usr/local/bin:/usr/bin:/bin", **without_profiler(tool.env)}
    lines: list[str] = []
    try:
        finished = run_process(
            command,
            cwd=work,
            env={**kept, "TMPDIR": str(work), "LC_ALL": "C"},
            log=work / "log",
            timeout_s=timeout_s,
            listening=Listening(
                on_line=lambda line: lines.append(line) if not PROGRESS.match(line) else None,
                on_tick=on_tick or ignore,
                clean=Cleaner(tool.env).clean,
            ),
        )
    except OSError as error:
        raise StoreFailed("nsys-not-run", program=str(tool.path), reason=str(error)) from error
    return lines, finished


@contextmanager
def workshop(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Give a fresh folder inside `folder`, also as nsys takes it literally, and remove it: a result
    moves out within the disk."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix="nsys-", dir=folder))
    except OSError as error:
        raise StoreFailed("nsys-folder-unwritable", path=str(folder), reason=str(error)) from error
    try:
        with literal(work) as plain:
            yield work, plain
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def literal(folder: Path) -> Iterator[Path]:
    """Give another path to a folder, through a link, where nsys does not take its own literally."""
    folder = folder.absolute()
    if not set(str(folder)) & NOT_LITERAL:
        yield folder
        return
    parent = tempfile.gettempdir()
    parent = "/tmp" if set(parent) & NOT_LITERAL else parent
    with temporary_folder("link", within=parent) as link:
        plain = link / "run"
        plain.symlink_to(folder, target_is_directory=True)
        yield plain
