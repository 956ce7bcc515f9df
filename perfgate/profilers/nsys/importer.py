"""The program beside nsys that turns a recording (`.qdstrm`) into a capture, and why it did not."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from perfgate.system.process import run_process

PACKAGES: Final = {"libdw.so.1": "libdw1", "libelf.so.1": "libelf1"}
"""What the importer needs and small images lack, by Debian package."""

ENDED_BY_SIGNAL: Final = "An unknown error occurred"
"""What nsys 2024.2 and 2025.3 call an importer that was killed, and one that the loader could not start."""

LDD_TIMEOUT_S: Final = 20.0

CAUSES: Final[Sequence[tuple[str, str]]] = (
    (
        "The importer binary and its dependencies were not found",
        "Its importer is missing: install nsys whole, host folder and all, or set PERFGATE_NSYS to another one.",
    ),
    (
        ENDED_BY_SIGNAL,
        "Its importer was killed or broke down: run it again, or use another nsys through PERFGATE_NSYS.",
    ),
    (
        "Importation failed",
        "Its importer gave up on the recording: use a newer nsys through PERFGATE_NSYS.",
    ),
)
"""What `Importer error status: ...` means where the importer has all its libraries, and what to do about it."""


def missing_libraries(nsys: Path) -> frozenset[str]:
    """Ask the loader what the importer beside an nsys lacks; empty if nothing, or if there is no importer or no ldd.

    nsys itself only says "Importer error status: An unknown error occurred", leaves a .qdstrm and exits with 0.
    """
    missing: set[str] = set()
    for importer in nsys.resolve().parent.parent.glob("*/QdstrmImporter"):
        told: list[str] = []
        try:
            with tempfile.TemporaryDirectory(prefix="perfgate-") as work:
                run_process(
                    ("ldd", str(importer)),
                    cwd=Path(work),
                    env={
                        "LC_ALL": "C",
                        "PATH": "/usr/bin:/bin",
                        "LD_LIBRARY_PATH": str(importer.parent),
                    },
                    log=Path(work) / "log",
                    timeout_s=LDD_TIMEOUT_S,
                    on_line=told.append,
                )
        except OSError:
            continue
        missing |= {line.split()[0] for line in told if line.rstrip().endswith("=> not found")}
    return frozenset(missing)


def packages_of(missing: Iterable[str]) -> tuple[str, ...]:
    """Return the Debian packages that bring these libraries, in order; those of unknown ones are left out."""
    return tuple(sorted({PACKAGES[library] for library in missing if library in PACKAGES}))


def what_to_do(status: str, missing: Iterable[str]) -> str:
    """Say why there was no import, and what to do: by the libraries it lacks, else by what nsys called it."""
    lacking = ", ".join(sorted(missing))
    if lacking:
        packages = " ".join(packages_of(missing))
        return f"Its importer lacks {lacking}: install {packages or 'it'}{' (apt-get install)' if packages else ''}."
    return next(
        (todo for words, todo in CAUSES if words in status),
        "Run it again; if it fails each time, use another nsys through PERFGATE_NSYS.",
    )
