"""Refuses files that are no export of nsys, and exports of a layout that perfgate does not know; reads no event."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from perfgate.model.errors import CaptureUnreadable, LayoutUnknown
from perfgate.model.spelling import inert
from perfgate.profilers.nsys.export.layout import EXPORT_TABLES, METADATA, STRINGS
from perfgate.profilers.nsys.files import (
    HEADER_BYTES,
    LFS_POINTER,
    REPORTS,
    SQLITE_MAGIC,
    declared_size,
)

EXPORT_AGAIN: Final = (
    "Export it again: nsys export --type sqlite --force-overwrite true CAPTURE.nsys-rep"
)
MOST_NAMES: Final = 12
"""Names of tables or columns that a message lists."""

_PACKED: Final[Mapping[bytes, tuple[str, str]]] = {
    b"\x1f\x8b": ("gzip", "gunzip --keep"),
    b"\xfd7zXZ\0": ("xz", "unxz --keep"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"PK\x03\x04": ("zip", "unzip"),
}
"""First bytes of packed files, and what unpacks them."""
_OTHER_EXPORTS: Final[Mapping[bytes, str]] = {
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"\x89HDF": "HDF5",
}
"""First bytes of nsys's other export formats."""


def damaged(path: Path, how: str) -> CaptureUnreadable:
    """An export that holds what no nsys writes, or that SQLite cannot read; `how` ends the sentence."""
    return CaptureUnreadable(
        subject=str(path), fact=f"it is damaged: {how}", next_step=EXPORT_AGAIN
    )


def without_column(path: Path, table: str, column: str, there: Sequence[str]) -> LayoutUnknown:
    """An export one of whose tables lacks a column that perfgate reads."""
    return LayoutUnknown(
        subject=str(path),
        fact=f"{table} has no column {column}, it has {listed(there)}",
        expectation="perfgate reads exports of nsys 2022.4 and newer",
        next_step=EXPORT_AGAIN,
    )


def listed(names: Sequence[str]) -> str:
    """Names of tables or columns on one line, the first `MOST_NAMES`."""
    if not names:
        return "no tables"
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(map(inert, names[:MOST_NAMES])) + more


def refuse_foreign(path: Path) -> None:
    """Raise for a file that is no whole SQLite database, by its first bytes, its size and what lies beside it."""
    try:
        with path.open("rb") as file:
            head = file.read(HEADER_BYTES)
        size = path.stat().st_size
    except IsADirectoryError:
        raise CaptureUnreadable(
            subject=str(path),
            fact="this is a folder",
            expectation="perfgate reads one export",
            next_step=EXPORT_AGAIN,
        ) from None
    except OSError as error:
        raise CaptureUnreadable(
            subject=str(path),
            fact=f"it cannot be opened: {error.strerror}",
            next_step="Check the path and its rights",
        ) from error
    if not head.startswith(SQLITE_MAGIC):
        raise _of_another_format(path, head)
    whole = declared_size(head)
    if size < whole:
        raise CaptureUnreadable(
            subject=str(path),
            fact=f"it is cut off: {size} of {whole} bytes are there",
            next_step=EXPORT_AGAIN,
        )
    # SQLite names them after the file itself, not after a link to it.
    real = path.resolve()
    for suffix in ("-wal", "-journal"):
        beside = real.with_name(real.name + suffix)
        if beside.exists() and beside.stat().st_size:
            raise CaptureUnreadable(
                subject=str(path),
                fact=f"{beside.name} lies beside it: something is still writing the export, or died writing it",
                next_step=f"Wait for it, or {EXPORT_AGAIN[0].lower()}{EXPORT_AGAIN[1:]}",
            )


def _of_another_format(path: Path, head: bytes) -> CaptureUnreadable:
    """Say what a file is that does not begin as SQLite's do."""
    if not head:
        return CaptureUnreadable(
            subject=str(path), fact="the file is empty", next_step=EXPORT_AGAIN
        )
    if head.startswith(LFS_POINTER):
        return CaptureUnreadable(
            subject=str(path),
            fact="this is a Git LFS pointer, not the capture itself",
            next_step=f"Fetch the capture first: git lfs pull --include {path.name}",
        )
    if path.suffix in REPORTS:
        return CaptureUnreadable(
            subject=str(path),
            fact="this is nsys's own format",
            expectation="perfgate reads its SQLite export",
            next_step=f"Export it: nsys export --type sqlite {path.name}",
        )
    for start, (packer, unpack) in _PACKED.items():
        if head.startswith(start):
            return CaptureUnreadable(
                subject=str(path),
                fact=f"it is packed with {packer}",
                next_step=f"Unpack it: {unpack} {path.name}",
            )
    other = next((name for start, name in _OTHER_EXPORTS.items() if head.startswith(start)), None)
    return CaptureUnreadable(
        subject=str(path),
        fact=f"this is {f'an export as {other}' if other else 'no SQLite file'}",
        expectation="perfgate reads SQLite exports of nsys",
        next_step=EXPORT_AGAIN,
    )


def refuse_unknown(path: Path, tables: Collection[str], views: Iterable[str]) -> None:
    """Raise for a database whose tables are not those of an export, or of a version that perfgate does not know."""
    for view in views:
        if any(view == table.name for table in EXPORT_TABLES):
            raise LayoutUnknown(
                subject=str(path),
                fact=f"{view} is a view",
                expectation="In an export of nsys it is a table",
                next_step=EXPORT_AGAIN,
            )
    known = {STRINGS, *METADATA, *(table.name for table in EXPORT_TABLES)}
    if known.isdisjoint(tables):
        raise CaptureUnreadable(
            subject=str(path),
            fact=f"this is a SQLite file, but no export of nsys: it has {listed(list(tables))}",
            expectation=f"An export has some of {listed(sorted(known))}",
            next_step=EXPORT_AGAIN,
        )
    for table in EXPORT_TABLES:
        others = sorted(name for name in tables if name.startswith(f"{table.name}_V"))
        if others:
            # Beside the one that is known as well: what is in which is not.
            beside = "beside" if table.name in tables else "and no"
            raise LayoutUnknown(
                subject=str(path),
                fact=f"it has {listed(others)} {beside} {table.name}",
                expectation=f"perfgate knows {table.name} only",
                next_step="perfgate must learn this version of nsys: please report it with the version",
            )
