"""What a gate that was killed has left, found and taken away by the next: processes, and files that
hold too much.

A gate's processes bear its own in their environment (`process.py`), so that they are found wherever
they went. A run's folder holds a file, locked for as long as the run lasts: where nobody holds the
lock, nobody will clear up.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from perfgate.execute.exchange import FIFO, IMPORTS, WORKER_REPORT, read_worker_report
from perfgate.execute.kept import keep_log
from perfgate.model.errors import GpuTaken
from perfgate.model.note import Note, note
from perfgate.model.secrets import Cleaner
from perfgate.profilers.nsys.profile import LOG
from perfgate.system.ending import abandoned, end_abandoned
from perfgate.system.temporary import UNDERWAY, left, remove_left_folders

RAW: Final = "nsys"
"""Folder of all that nsys writes for a run."""


def end_killed_gates() -> Note | None:
    """End what killed gates of this user have left running on this machine; what that was.

    To be called with the turn in hand: a gate may be killed while others wait for it.

    Raises:
        GpuTaken: it cannot be ended, and would be measured too.
    """
    ended = end_abandoned()
    if ended and (still := abandoned()):
        named = tuple(f"{one.name()} ({one.pid})" for one in still)
        raise GpuTaken("killed-gate-lives", processes=named)
    return note("killed-gate-ended", processes=ended) if ended else None


def remove_killed_runs(results: Path, cleaner: Cleaner) -> Note | None:
    """Remove what runs of killed gates have left below the kept results, but for their logs; how
    many these were.

    And whole temporary folders, with what a killed selftest or doctor had captured there.
    """
    remove_left_folders()
    removed = sum(_remove_if_left(folder, cleaner) for folder in _runs_underway(results))
    return note("killed-gate-removed", runs=removed) if removed else None


def clear(folder: Path) -> None:
    """Remove from a run's folder what holds every variable of its environment, or is of no use any
    more."""
    (folder / FIFO).unlink(missing_ok=True)
    shutil.rmtree(folder / RAW, ignore_errors=True)
    shutil.rmtree(folder / IMPORTS, ignore_errors=True)


def _runs_underway(results: Path) -> Iterator[Path]:
    """Folders of runs with a mark; a gate that came to its end has left its result, and no such run
    below it.

    Those under Nsight Compute lie beside the results.
    """
    for folder in (*results.glob("*/*/*"), *results.parent.glob("ncu/*")):
        if not folder.is_symlink() and not (folder / "result.json").exists():
            yield from (mark.parent for mark in folder.rglob(UNDERWAY))


def _remove_if_left(folder: Path, cleaner: Cleaner) -> bool:
    with left(folder) as is_left:
        if is_left:
            try:
                keep_log(folder / RAW / LOG, folder, cleaner)
                read_worker_report(folder / WORKER_REPORT, cleaner)
                clear(folder)
                for report in folder.glob("*.ncu-rep"):  # which nobody has read
                    report.unlink(missing_ok=True)
                (folder / UNDERWAY).unlink(missing_ok=True)
            except OSError:
                return False
        return is_left
