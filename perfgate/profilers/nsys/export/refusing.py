"""Refuses files that are no export of nsys, or of a layout that perfgate does not know.

Reads no row.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from perfgate.model.errors import CaptureUnreadable, LayoutUnknown
from perfgate.profilers.nsys.export.layout import EXPORT_TABLES, METADATA, STRINGS

REPORTS: Final = (".nsys-rep", ".qdrep")
"""How nsys's own files end: since 2021.4, and before."""
MOST_NAMES: Final = 12
"""Names of tables or columns that a message lists."""

_HEADER_BYTES: Final = 100
_SQLITE: Final = b"SQLite format 3\0"
_LFS_POINTER: Final = b"version https://git-lfs"
"""The first bytes of what Git leaves in place of a large file that was not fetched."""
_KINDS: Final[Mapping[bytes, str]] = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"\x89HDF": "HDF5",
}
"""Other files by their first bytes."""


def damaged(path: Path, detail: object) -> CaptureUnreadable:
    """An export that SQLite cannot read, in its words."""
    return CaptureUnreadable("export-damaged", path=str(path), detail=str(detail))


def impossible(path: Path, table: str, column: str, value: object) -> CaptureUnreadable:
    """An export with a value that no nsys writes."""
    return CaptureUnreadable(
        "export-impossible", path=str(path), table=table, column=column, value=value
    )


def without_column(path: Path, table: str, column: str, there: Sequence[str]) -> LayoutUnknown:
    """An export one of whose tables lacks a column that perfgate reads."""
    return LayoutUnknown(
        "export-column-missing",
        path=str(path),
        table=table,
        column=column,
        columns=tuple(there[:MOST_NAMES]),
    )


def refuse_foreign(path: Path) -> None:
    """Raise for a file that is no whole SQLite database, or that is still being written."""
    head, size = _head(path)
    if not head.startswith(_SQLITE):
        kind = next((kind for begin, kind in _KINDS.items() if head.startswith(begin)), "unknown")
        if path.suffix in REPORTS:
            kind = path.suffix
        raise CaptureUnreadable("export-foreign", path=str(path), kind=kind)
    whole = _declared_size(head)
    if size < whole:
        raise CaptureUnreadable("export-cut", path=str(path), found_bytes=size, whole_bytes=whole)
    # SQLite names them after the file itself, not after a link to it.
    real = path.resolve()
    for suffix in ("-wal", "-journal"):
        beside = real.with_name(real.name + suffix)
        if beside.exists() and beside.stat().st_size:
            raise CaptureUnreadable("export-unfinished", path=str(path), name=beside.name)


def refuse_no_report(path: Path) -> None:
    """Raise for what is no file of nsys's own format."""
    _head(path)


def _head(path: Path) -> tuple[bytes, int]:
    try:
        with path.open("rb") as file:
            head, size = file.read(_HEADER_BYTES), os.fstat(file.fileno()).st_size
    except OSError as error:
        raise CaptureUnreadable(
            "capture-unopened", path=str(path), reason=error.strerror or str(error)
        ) from error
    if not head:
        raise CaptureUnreadable("capture-empty", path=str(path))
    if head.startswith(_LFS_POINTER):
        raise CaptureUnreadable("capture-is-pointer", path=str(path), name=path.name)
    return head, size


def _declared_size(head: bytes) -> int:
    """Bytes that a SQLite header promises (SQLite's file format, 1.3); 0 where it does not say."""
    if len(head) < _HEADER_BYTES:
        return _HEADER_BYTES
    if head[24:28] != head[92:96]:  # written by a version that did not keep the page count
        return 0
    page = int.from_bytes(head[16:18], "big")
    return int.from_bytes(head[28:32], "big") * (65536 if page == 1 else page)


def refuse_unknown(path: Path, tables: Collection[str], views: Iterable[str]) -> None:
    """Raise for tables of no export, or of a version that perfgate does not know."""
    known = {STRINGS, *METADATA, *(table.name for table in EXPORT_TABLES)}
    if known.isdisjoint(tables):
        raise CaptureUnreadable(
            "export-not-of-nsys", path=str(path), tables=tuple(sorted(tables)[:MOST_NAMES])
        )
    for table in EXPORT_TABLES:
        others = [name for name in tables if name.startswith(f"{table.name}_V")]
        others += [view for view in views if view == table.name]
        if others:
            raise LayoutUnknown(
                "export-table-unknown",
                path=str(path),
                tables=tuple(sorted(others)[:MOST_NAMES]),
                known=table.name,
            )
