"""What is kept of a run in its folder, of all that nsys wrote: the log, scrubbed exports and nsys's
summaries."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from perfgate.model.errors import StoreFailed
from perfgate.model.secrets import Cleaner
from perfgate.profilers.nsys.export.scrub import scrub
from perfgate.profilers.seam import Captured

LOG: Final = "workload.log"


def keep_log(log: Path, folder: Path, cleaner: Cleaner) -> Path:
    """Move what the workload printed into the run's folder, cleaned; where that is refused, it
    stays where it is."""
    kept = folder / LOG
    with suppress(OSError):
        clean_log(log, cleaner)
        return Path(shutil.move(log, kept))
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


def reports_folder(raw: Path, captured: Captured) -> Path:
    """Where nsys's summaries of a capture are, among nsys's own files."""
    return raw / f"{captured.sqlite.stem}-reports"


def keep_exports(captures: Sequence[Captured], raw: Path, folder: Path) -> None:
    """Keep what may leave the machine: exports without environment blocks, and nsys's summaries.

    Raises:
        StoreFailed: the disk does not take them.
    """
    for index, captured in enumerate(captures):
        try:
            scrub(captured.sqlite, folder / f"capture-{index}.sqlite")
            shutil.copytree(reports_folder(raw, captured), folder / f"capture-{index}-reports")
        except OSError as refused:
            raise StoreFailed(
                "export-not-kept", folder=str(folder), why=refused.strerror or str(refused)
            ) from refused
