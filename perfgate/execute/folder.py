"""The folder of one run: what its processes exchange there, what is kept, what a killed gate left.

```
order.json          to the worker          which workload, how many steps, whose turn in a pair
worker-report.json  from the worker        how it ended, with which versions
turn                between both workers   a pair's FIFO: read to wait, written to to hand over
words               to a worker            those of its pytest, where it was started before
go, gate            to and from the worker its two where the gate holds it
imports/            from every process     which files it loaded, and which of a script's is held
nsys/               from nsys              all that it writes, with all of the environment
workload.log, capture-N.sqlite, capture-N-reports/     kept: cleaned of secrets
```
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Final

from perfgate.execute import import_log, script_hold, torch_first
from perfgate.model.errors import GpuTaken, StoreFailed
from perfgate.model.note import Note, note
from perfgate.model.order import Order, WorkerReport
from perfgate.model.record import Record
from perfgate.model.secrets import Cleaner
from perfgate.profilers.nsys.export.scrub import scrub
from perfgate.profilers.nsys.profile import LOG as NSYS_LOG
from perfgate.profilers.seam import Captured
from perfgate.system.ending import abandoned, end_all
from perfgate.system.files import UNDERWAY, left, refused_as

ORDER: Final = "order.json"
WORKER_REPORT: Final = "worker-report.json"
FIFO: Final = "turn"
IMPORTS: Final = "imports"
RAW: Final = "nsys"
LOG: Final = "workload.log"
STANDBY: Final = "standby"
"""Next to the kept results: the folders of workers that were started before it was known of which
run, until these have ended."""
PROGRAMS: Final = {
    import_log: "sitecustomize",
    script_hold: script_hold.NAME,
    torch_first: torch_first.NAME,
}
"""Of the processes of a run, copies in `imports/`."""


def make_folder(folder: Path) -> None:
    """Make a run's folder, with what its processes need to log their imports.

    Raises:
        StoreFailed: it is there already, or the disk does not take it.
    """
    with writing(folder):
        folder.mkdir(parents=True)
        (folder / IMPORTS).mkdir()
        for module, name in PROGRAMS.items():
            shutil.copyfile(str(module.__file__), folder / IMPORTS / f"{name}.py")


def write_order(folder: Path, order: Order) -> None:
    """Put the order into a run's folder, and what it names to exchange words by.

    Raises:
        StoreFailed: the disk does not take it.
    """
    with writing(folder):
        (folder / ORDER).write_text(order.model_dump_json(indent=2), encoding="utf-8")
        for way in (order.blocks, order.hold):
            if way is not None:
                os.mkfifo(way.own)
        if order.hold is not None:
            os.mkfifo(order.hold.other)


def writing(folder: Path) -> AbstractContextManager[None]:
    """Raise StoreFailed where the disk refuses what is written into a run's folder."""
    return refused_as(StoreFailed, "run-folder-not-written", folder=str(folder))


def read_worker_report(folder: Path, cleaner: Cleaner) -> WorkerReport | None:
    """Read what the worker has reported by now, and clean the file; None where that is nothing, or
    half of it, as a worker leaves that was killed."""
    file = folder / WORKER_REPORT
    if not file.is_file():
        return None  # a pipe in its place would be read for ever
    try:
        found = WorkerReport.model_validate_json(file.read_bytes())
        cleaned = cleaner.record(found)
        if cleaned is not found:
            file.write_text(cleaned.model_dump_json(indent=2), encoding="utf-8")
        return cleaned
    except (OSError, ValueError):
        return None


def held_process(folder: Path) -> int | None:
    """The id of the process that was held of a script's run, while its folder is there; None where
    none was."""
    try:
        return int((folder / script_hold.HELD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


class ImportLog(Record):
    """What one Python process said at its end that it loaded."""

    pid: int
    files: tuple[str, ...]
    """Of its modules, and what it executed by a path."""


def read_import_logs(folder: Path) -> tuple[ImportLog, ...]:
    """Read what the processes of a run left in a folder; half of a log is none."""
    found = []
    for file in sorted(folder.glob("*.json")):
        with suppress(OSError, ValueError):
            found.append(ImportLog.model_validate_json(file.read_bytes()))
    return tuple(found)


# What is kept


def keep_log(log: Path, folder: Path, cleaner: Cleaner) -> Path:
    """Move what the workload printed into the run's folder, cleaned; where that is refused, it
    stays where it is."""
    with suppress(OSError):
        clean_log(log, cleaner)
        return Path(shutil.move(log, folder / LOG))
    return log


def clean_log(log: Path, cleaner: Cleaner) -> None:
    """Take out of a log what its lines hold only together.

    Raises:
        OSError: it cannot be read or written.
    """
    text = log.read_text(encoding="utf-8", errors="replace")
    cleaned = cleaner.clean(text)
    if cleaned != text:
        log.write_text(cleaned, encoding="utf-8")


def reports_folder(captured: Captured) -> Path:
    """Where nsys's summaries of a capture are, among nsys's own files."""
    return captured.sqlite.with_name(f"{captured.sqlite.stem}-reports")


def keep_exports(captures: Sequence[Captured], folder: Path) -> None:
    """Keep what may leave the machine: exports without environment blocks, and nsys's summaries.

    Raises:
        StoreFailed: the disk does not take them.
    """
    with refused_as(StoreFailed, "export-not-kept", folder=str(folder)):
        for index, captured in enumerate(captures):
            scrub(captured.sqlite, folder / f"capture-{index}.sqlite")
            shutil.copytree(reports_folder(captured), folder / f"capture-{index}-reports")


def clear(folder: Path, *, keep_captures: bool = False) -> None:
    """Remove from a run's folder what its processes waited at, and unless its captures are kept
    what holds every variable of its environment, or is of no use any more."""
    for name in (FIFO, torch_first.FIFO, *script_hold.FIFOS):
        (folder / name).unlink(missing_ok=True)
    if not keep_captures:
        shutil.rmtree(folder / RAW, ignore_errors=True)
        shutil.rmtree(folder / IMPORTS, ignore_errors=True)


# What a killed gate left


def end_killed_gates() -> Note | None:
    """End what killed gates of this user have left running on this machine; what that was.

    To be called with the GPU held: a gate may be killed while others wait for it.

    Raises:
        GpuTaken: it cannot be ended, and would be measured too.
    """
    ended = end_all(abandoned)
    if ended and (still := abandoned()):
        named = tuple(f"{one.name()} ({one.pid})" for one in still)
        raise GpuTaken("killed-gate-lives", processes=named)
    return note("killed-gate-ended", processes=ended) if ended else None


def remove_killed_runs(results: Path, cleaner: Cleaner) -> Note | None:
    """Remove what runs of killed gates have left below the kept results, but for their logs; how
    many these were."""
    removed = 0
    # Those under Nsight Compute lie next to the results.
    for run in (*results.glob("*/*/*/*"), *results.parent.glob("ncu/*")):
        # What a worker on standby has left lies where it was started.
        is_link = run.is_symlink()
        made = run.resolve() if is_link else run
        is_ours = made.parent.name == STANDBY if is_link else not run.parent.is_symlink()
        # A gate that came to its end has left its result, and no such run.
        if is_ours and not (run.parent / "result.json").exists() and _remove_if_left(made, cleaner):
            removed += 1
            if is_link:
                run.unlink()
                shutil.move(made, run)
    for standby in results.parent.glob(f"{STANDBY}/*"):
        with left(standby) as is_left:
            if is_left or not (standby / UNDERWAY).exists():
                shutil.rmtree(standby, ignore_errors=True)
    return note("killed-gate-removed", runs=removed) if removed else None


def _remove_if_left(folder: Path, cleaner: Cleaner) -> bool:
    with left(folder) as is_left:
        if is_left:
            try:
                keep_log(folder / RAW / NSYS_LOG, folder, cleaner)
                read_worker_report(folder, cleaner)
                clear(folder)
                for report in folder.glob("*.ncu-rep"):  # which nobody has read
                    report.unlink(missing_ok=True)
                (folder / UNDERWAY).unlink(missing_ok=True)
            except OSError:
                return False
        return is_left
