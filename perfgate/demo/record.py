"""What the demo's captures are: which workload, on which machine, in which state; the captures lie
in the same folder."""

from __future__ import annotations

import io
import lzma
import tarfile
from datetime import datetime
from pathlib import Path

from perfgate.model.errors import CaptureUnreadable
from perfgate.model.machine import Conditions, Machine
from perfgate.model.record import Record
from perfgate.model.workload import Workload

MANIFEST = "manifest.json"
EXPORT = "capture.sqlite"


class RecordedRun(Record):
    """One run: its captures in an archive, and what no capture says."""

    archive: str
    started_at: datetime
    wall_s: float
    conditions: Conditions


class Recording(Record):
    """The runs of one gate."""

    title: str
    runs: tuple[RecordedRun, ...]


class Manifest(Record):
    """All recordings of the demo."""

    workload: Workload
    machine: Machine
    baseline: Recording
    unchanged: Recording
    regressed: Recording


def pack(run_folder: Path, archive: Path) -> None:
    """Pack one kept run, its scrubbed export and nsys's summaries, as a reproducible tar.xz."""
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        _add(packed, run_folder / "capture-0.sqlite", EXPORT)
        for report in sorted((run_folder / "capture-0-reports").glob("*.csv")):
            _add(packed, report, report.name)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack one run into a fresh folder.

    Raises:
        CaptureUnreadable: the archive is damaged.
    """
    try:
        with tarfile.open(archive, "r:xz") as packed:
            packed.extractall(folder, filter="data")
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError) as damaged:
        raise CaptureUnreadable(
            "demo-run-damaged", archive=archive.name, why=str(damaged)
        ) from damaged


def _add(packed: tarfile.TarFile, file: Path, name: str) -> None:
    content = file.read_bytes()
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = 0o644
    packed.addfile(entry, io.BytesIO(content))
