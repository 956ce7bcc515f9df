"""Builds small SQLite exports in nsys's schema from plain rows, for tests that read captures.

    write_export(
        tmp_path / "run.sqlite",
        Range("step", 0, 100),
        Call("cudaLaunchKernel_v7000", 10, 15, correlation=1),
        Kernel("gemm", 20, 60, correlation=1),
        Row("DIAGNOSTIC_EVENT", severity=2, text="Not all CUDA events might have been collected."),
    )

Like nsys, it writes only tables that have rows; names go to StringIds. Times are ns, `process` is a
pid, `thread` a thread id. `Row` adds a row to any other table, whose columns are those of its rows.
`execute` spoils what was written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

Value = int | float | str | bytes | None
PID = 548

OPERATION = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, "
    "globalPid INTEGER"
)
"""The columns of all that a GPU did."""
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSETS = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
SCHEMA: Mapping[str, str] = {
    KERNELS: (
        f"{OPERATION}, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, "
        "graphNodeId INTEGER"
    ),
    COPIES: (
        f"{OPERATION}, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, "
        "dstKind INTEGER"
    ),
    MEMSETS: f"{OPERATION}, bytes INTEGER NOT NULL",
    GRAPHS: f"{OPERATION}, graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL",
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, "
        "globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, "
        "returnValue INTEGER NOT NULL"
    ),
    "NVTX_EVENTS": (
        "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, "
        "globalTid INTEGER, textId INTEGER, domainId INTEGER"
    ),
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT",
}
"""The columns, as nsys declares them, of the tables that have row classes here; those perfgate
reads and a few more."""


def global_pid(process: int | None, *, host: int = 1) -> int | None:
    """A process as nsys numbers it: host in the high bits, then 24 bits of pid, then 24 bits of
    thread."""
    return None if process is None else (host << 48) + (process << 24)


def global_tid(process: int | None, thread: int, *, host: int = 1) -> int | None:
    """A thread as nsys numbers it."""
    whole = global_pid(process, host=host)
    return None if whole is None else whole + thread


@dataclass(frozen=True, slots=True)
class Row:
    """A row of any table: its columns and their values, as they are."""

    table: str
    columns: Mapping[str, Value]

    def __init__(self, table: str, **columns: Value) -> None:
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "columns", columns)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that ran; with a graph node, as part of a CUDA graph traced by node."""

    name: str
    start: int
    end: int
    correlation: int | None = None
    device: int = 0
    process: int | None = PID
    host: int = 1
    graph_node: int | None = None
    stream: int = 7

    def row(self, strings: Strings) -> Row:
        return _operation(
            KERNELS,
            self,
            stream=self.stream,
            host=self.host,
            demangledName=strings.id_of(self.name),
            shortName=strings.id_of(self.name.partition("(")[0]),
            graphNodeId=self.graph_node,
        )


@dataclass(frozen=True, slots=True)
class Copy:
    """A memory copy: kind 1 host to device, 2 back, 8 within; ends 0 pageable, 1 pinned, 2 device,
    None unsaid."""

    start: int
    end: int
    bytes: int
    correlation: int | None = None
    kind: int = 1
    source: int | None = 1
    target: int | None = 2
    device: int = 0
    process: int | None = PID

    def row(self, strings: Strings) -> Row:
        return _operation(
            COPIES,
            self,
            bytes=self.bytes,
            copyKind=self.kind,
            srcKind=self.source,
            dstKind=self.target,
        )


@dataclass(frozen=True, slots=True)
class Memset:
    """A memset."""

    start: int
    end: int
    correlation: int | None = None
    device: int = 0
    process: int | None = PID

    def row(self, strings: Strings) -> Row:
        return _operation(MEMSETS, self, bytes=64)


@dataclass(frozen=True, slots=True)
class Graph(Memset):
    """A launch of a CUDA graph traced whole."""

    def row(self, strings: Strings) -> Row:
        return _operation(GRAPHS, self, graphId=1, graphExecId=2)


@dataclass(frozen=True, slots=True)
class Call:
    """A CUDA runtime or driver call."""

    name: str
    start: int
    end: int
    correlation: int | None = None
    process: int | None = PID
    thread: int = PID
    host: int = 1

    def row(self, strings: Strings) -> Row:
        return Row(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=self.start,
            end=self.end,
            eventClass=0,
            globalTid=global_tid(self.process, self.thread, host=self.host),
            correlationId=self.correlation,
            nameId=strings.id_of(self.name),
            returnValue=0,
        )


@dataclass(frozen=True, slots=True)
class Range:
    """An NVTX range; never closed where `end` is None, with its text in StringIds where
    `registered`."""

    text: str | None
    start: int
    end: int | None
    process: int | None = PID
    thread: int = PID
    domain: int | None = 0
    event: int = 59
    registered: bool = False

    def row(self, strings: Strings) -> Row:
        return Row(
            "NVTX_EVENTS",
            start=self.start,
            end=self.end,
            eventType=self.event,
            text=None if self.registered else self.text,
            globalTid=global_tid(self.process, self.thread),
            textId=strings.id_of(self.text) if self.registered and self.text is not None else None,
            domainId=self.domain,
        )


@dataclass(frozen=True, slots=True)
class Domain:
    """The creation of an NVTX domain."""

    name: str
    number: int
    process: int | None = PID
    start: int = 0

    def row(self, strings: Strings) -> Row:
        return Row(
            "NVTX_EVENTS",
            start=self.start,
            end=None,
            eventType=75,
            text=self.name,
            globalTid=global_tid(self.process, PID),
            textId=None,
            domainId=self.number,
        )


def _operation(
    table: str,
    of: Kernel | Copy | Memset | Graph,
    *,
    stream: int = 7,
    host: int = 1,
    **columns: Value,
) -> Row:
    return Row(
        table,
        start=of.start,
        end=of.end,
        deviceId=of.device,
        contextId=1,
        streamId=stream,
        correlationId=of.correlation,
        globalPid=global_pid(of.process, host=host),
        **columns,
    )


Event = Kernel | Copy | Memset | Graph | Call | Range | Domain


class Strings:
    """The names of one export, numbered from 1 as they come."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def id_of(self, text: str) -> int:
        return self.ids.setdefault(text, len(self.ids) + 1)


def write_export(path: Path, *rows: Event | Row) -> Path:
    """Write an export with these rows, in this order, and give its path back."""
    strings = Strings()
    written = [row if isinstance(row, Row) else row.row(strings) for row in rows]
    written += [Row("StringIds", id=number, value=text) for text, number in strings.ids.items()]
    written += [
        Row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2024.2.3.38"),
        Row("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.11.1"),
    ]
    tables: dict[str, list[Row]] = {}
    for row in written:
        tables.setdefault(row.table, []).append(row)
    with closing(sqlite3.connect(path)) as export, export:
        for table, its in tables.items():
            columns = list(dict.fromkeys(name for row in its for name in row.columns))
            quoted = [f'"{name}"' for name in columns]
            declared = SCHEMA.get(table) or ", ".join(quoted)
            export.execute(f'CREATE TABLE "{table}" ({declared})')
            export.executemany(
                f'INSERT INTO "{table}" ({", ".join(quoted)}) '
                f"VALUES ({', '.join('?' * len(columns))})",
                [[row.columns.get(name) for name in columns] for row in its],
            )
    return path


def execute(path: Path, sql: str, values: Sequence[Value] = ()) -> Path:
    """Change a written export: drop or rename a column, spoil a value."""
    with closing(sqlite3.connect(path)) as export, export:
        export.execute(sql, values)
    return path


def in_small_pages(path: Path) -> Path:
    """The same export in pages of 512 bytes, which hold a few rows each."""
    with closing(sqlite3.connect(path)) as export:
        export.execute("PRAGMA page_size = 512")
        export.execute("VACUUM")
    return path
