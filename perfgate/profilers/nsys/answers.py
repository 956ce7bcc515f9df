"""Has nsys work on a capture (export, stats, analyze), and finds out what came of it.

nsys's exit status proves nothing: it is 0 for a missing, truncated or skipped report. So its files
are looked at, and what it printed is read where one is missing.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perfgate.model.errors import CaptureUnreadable, StoreFailed
from perfgate.model.secrets import Cleaner
from perfgate.profilers.nsys.command import NOT_LITERAL, export_command
from perfgate.profilers.nsys.environment import for_reports
from perfgate.profilers.nsys.export.file import REPORTS, check_capture, check_export
from perfgate.profilers.nsys.output import PROGRESS
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import OnTick
from perfgate.system.process import Finished, run_process
from perfgate.system.temporary import temporary_folder

TIMEOUT_S: Final = 900.0

_EXPORT_ERROR: Final = re.compile(r"Exportation error: (.*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Printed:
    """What nsys made of one report or rule."""

    text: str
    """Its CSV; empty where there was nothing to find."""
    skipped: str | None = None
    """In nsys's words, why it was left out."""


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
    with workshop(folder) as work, literal(work) as plain:
        source = f"source{rep.suffix if rep.suffix in REPORTS else REPORTS[0]}"
        (work / source).symlink_to(rep.absolute())
        command = export_command(
            tool.path, source=str(plain / source), target=str(plain / "target.sqlite")
        )
        lines, finished = run_quietly(tool, command, work, timeout_s, on_tick)
        said = next((found[1] for line in lines if (found := _EXPORT_ERROR.search(line))), None)
        if said is None and not finished.timed_out:
            try:
                check_export(work / "target.sqlite")
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
    command: Callable[[Sequence[str], str, str], Sequence[str]],
    asked: Mapping[str, Sequence[str]],
    sqlite: Path,
    folder: Path,
    *,
    timeout_s: float = TIMEOUT_S,
    on_tick: OnTick = None,
) -> dict[str, Printed]:
    """Let nsys print reports or rules of a capture's export; the CSVs stay in `folder`.

    Args:
        tool: the nsys to ask.
        command: makes the command of what to ask for, the export and the base of the outputs.
        asked: by the name that answers get, what to ask for in each spelling, the newest first;
            arguments follow a colon.
        sqlite: the export.
        folder: where the CSVs stay, as `{name}.csv`; those of an earlier call are replaced.
        timeout_s: for all together.
        on_tick: called at least every 0.1 s, and may call it off by raising.

    Raises:
        CaptureUnreadable: the export is none, or nsys failed on it.
        StoreFailed: `folder` cannot be written.
    """
    check_export(sqlite)
    found: dict[str, Printed] = {}
    wanted = {name: list(spellings) for name, spellings in asked.items()}
    with workshop(folder) as work, literal(work) as plain:
        (work / "capture.sqlite").symlink_to(sqlite.absolute())
        while wanted:
            asked_for = {name: spellings.pop(0) for name, spellings in wanted.items()}
            argv = command(
                tuple(asked_for.values()), str(plain / "capture.sqlite"), str(plain / "printed")
            )
            lines, finished = run_quietly(tool, argv, work, timeout_s, on_tick)
            for name, one in asked_for.items():
                answer = _Answer(one.partition(":")[0], lines, finished, sqlite)
                if answer.is_unknown is not None and wanted[name]:
                    continue
                (folder / f"{name}.csv").unlink(missing_ok=True)
                found[name] = answer.printed(work, f"{tool.path} {argv[1]} {_option(argv, one)}")
                if found[name].text:
                    answer.file(work).replace(folder / f"{name}.csv")
                del wanted[name]
    return found


def _option(argv: Sequence[str], asked: str) -> str:
    return next(word for word in argv if word.endswith(f"={asked}"))


@dataclass(frozen=True, slots=True)
class _Answer:
    """What nsys made of one report or rule: its part of what it printed, and its file."""

    asked_for: str
    lines: Sequence[str]
    finished: Finished
    sqlite: Path

    @property
    def is_unknown(self) -> str | None:
        """nsys's own words that it does not know it."""
        unknown = f"'{self.asked_for}' could not be found"
        return next((line.strip() for line in self.lines if unknown in line), None)

    @property
    def log(self) -> str:
        """What nsys printed about it.

        `Processing [...] with [.../gpu_gaps.py](gap=0:rows=9) to [...]... `, and then what came of
        it. Up to 2024 nothing follows where a rule found nothing, not even the end of the line: the
        next rule goes on there.
        """
        named = re.compile(rf"\] with \[(?:.*/)?{re.escape(self.asked_for)}(?:\.py)?\]")
        parts = "\n".join(self.lines).split("Processing [")[1:]
        return "".join(part for part in parts if named.search(part.partition("\n")[0]))

    @property
    def skipped(self) -> str | None:
        """nsys's own reason for leaving it out.

        It may say that a table is missing although it could not read the file at all.
        """
        found = re.search(r"SKIPPED: (.*)", self.log)
        if found is None:
            return "it has no such data" if "EMPTY RESULTS" in self.log else None
        return re.sub(r"^.*?capture\.sqlite\s+", "", found[1]).strip()

    def file(self, work: Path) -> Path:
        """The CSV; the name of a rule's ends in its arguments, in nsys's spelling."""
        exact = work / f"printed_{self.asked_for}.csv"
        return next(work.glob(f"printed_{self.asked_for}_*=*.csv"), exact)

    def printed(self, work: Path, by_hand: str) -> Printed:
        """The CSV's text, or why there is none.

        Raises:
            CaptureUnreadable: nsys neither wrote it nor said why, or what it wrote may not be all.
        """
        if self.is_unknown is not None:
            return Printed(text="", skipped=self.is_unknown)
        csv = self.file(work)
        # Range names are the workload's own bytes; one that is no UTF-8 must not cost the report.
        text = csv.read_bytes().decode(errors="replace") if csv.is_file() else None
        error = next((line.strip() for line in self.lines if self._is_error(line)), None)
        is_whole = not self.finished.timed_out and self.finished.returncode == 0
        if error is None:
            if text and (is_whole or "PROCESSED" in self.log):
                return Printed(text=text)
            if not text and self.skipped is not None:
                return Printed(text="", skipped=self.skipped)
            if text == "" and is_whole and self.log and "SKIPPED" not in self.log:
                return Printed(text="")
        raise CaptureUnreadable(
            "nsys-printed-nothing",
            path=str(self.sqlite),
            name=self.asked_for,
            said="it did not end in time" if self.finished.timed_out else error or self._last(),
            command=f"LC_ALL=C {by_hand}",
        )

    def _is_error(self, line: str) -> bool:
        named = f"'{self.asked_for}'" in line or f"'{self.asked_for}.py'" in line
        return "ERROR" in line and (named or line in self.log)

    def _last(self) -> str:
        said = _last([line for line in self.lines if not line.startswith("Processing [")])
        return said or f"exit status {self.finished.returncode}"


def _last(lines: Sequence[str]) -> str:
    return next((line.strip().rstrip(".") for line in reversed(lines) if line.strip()), "")


def run_quietly(
    tool: NsysTool, command: Sequence[str], work: Path, timeout_s: float, on_tick: OnTick
) -> tuple[list[str], Finished]:
    """Run nsys on a capture; return what it printed, without progress bars, and how it ended."""
    lines: list[str] = []
    try:
        finished = run_process(
            command,
            cwd=work,
            env=for_reports(tool.env, tmpdir=str(work)),
            log=work / "log",
            timeout_s=timeout_s,
            on_line=lambda line: lines.append(line) if not PROGRESS.match(line) else None,
            on_tick=on_tick,
            clean=Cleaner(tool.env).clean,
        )
    except OSError as error:
        raise StoreFailed("nsys-not-run", program=str(tool.path), reason=str(error)) from error
    return lines, finished


@contextmanager
def workshop(folder: Path) -> Iterator[Path]:
    """Give a fresh folder inside `folder` and remove it: a result moves out within the disk."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix="nsys-", dir=folder))
    except OSError as error:
        raise StoreFailed("nsys-folder-unwritable", path=str(folder), reason=str(error)) from error
    try:
        yield work
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
