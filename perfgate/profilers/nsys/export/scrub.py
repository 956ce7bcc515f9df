"""Copies an export without what it tells of people and machines.

Only what is listed here is copied.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from perfgate.model.errors import StoreFailed
from perfgate.profilers.nsys.export.layout import (
    CALLS,
    COPIES,
    CUDA_DEVICES,
    DIAGNOSTICS,
    DOMAIN_EVENT,
    EVENT_RECORDS,
    GPUS,
    GRAPHS,
    KERNELS,
    LOSSES,
    MEMSETS,
    METADATA,
    RANGE_EVENTS,
    RANGES,
    STRINGS,
    WAITS,
)
from perfgate.profilers.nsys.export.opening import Export, open_export, read_only_uri


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """What leaves with one table: whole numbers, texts, and of which rows."""

    numbers: tuple[str, ...]
    texts: tuple[str, ...] = ()
    where: str = ""
    names: tuple[str, ...] = ()
    """Of the numbers, those that are ids of StringIds whose text leaves too."""
    only_where: Mapping[str, str] | None = None
    """Columns that are NULL in rows where this SQL is false."""


_OPERATION = (
    "start",
    "end",
    "deviceId",
    "contextId",
    "greenContextId",
    "streamId",
    "correlationId",
    "globalPid",
    "graphNodeId",
    "graphId",
    "graphExecId",
)
_LAUNCH = (
    "launchType",
    "cacheConfig",
    "registersPerThread",
    "gridX",
    "gridY",
    "gridZ",
    "blockX",
    "blockY",
    "blockZ",
    "staticSharedMemory",
    "dynamicSharedMemory",
    "localMemoryPerThread",
    "localMemoryTotal",
    "gridId",
    "sharedMemoryExecuted",
    "sharedMemoryLimitConfig",
    "clusterX",
    "clusterY",
    "clusterZ",
)
_COPY = (
    "bytes",
    "copyKind",
    "srcKind",
    "dstKind",
    "srcDeviceId",
    "srcContextId",
    "dstDeviceId",
    "dstContextId",
    "migrationCause",
    "copyCount",
)
_GPU = (
    "vmId",
    "id",
    "isDiscrete",
    "l2CacheSize",
    "totalMemory",
    "memoryBandwidth",
    "clockRate",
    "smCount",
    "cuDevice",
    "computeMajor",
    "computeMinor",
)
_CALL = ("start", "end", "globalTid", "correlationId", "nameId", "returnValue")
_RANGE = (
    "start",
    "end",
    "eventType",
    "rangeId",
    "category",
    "color",
    "globalTid",
    "endGlobalTid",
    "textId",
    "domainId",
)
_NAMED_EVENTS = f"eventType IN ({', '.join(map(str, (*RANGE_EVENTS, DOMAIN_EVENT)))})"
_VERSION_ROWS = (
    "name IN ('EXPORT_PRODUCT_NAME', 'EXPORT_PRODUCT_VERSION', 'EXPORT_PRODUCT_DATE', "
    "'EXPORT_SCHEMA_VERSION', 'EXPORT_SCHEMA_VERSION_MAJOR', 'EXPORT_SCHEMA_VERSION_MINOR', "
    "'EXPORT_SCHEMA_VERSION_MICRO')"
)
_HARMLESS_DIAGNOSTICS = (
    "Number of CUDA events collected: %",
    "Number of NVTX events collected: %",
    "No CUDA events collected.%",
    "No NVTX events collected.%",
    "Not all CUDA events might have been collected.%",
    "Not all NVTX events might have been collected.%",
    "CUDA profiling might have not been started correctly.%",
    "Installed CUDA driver version (%) is not supported by this build of Nsight Systems.%",
    "NVTX payload extension is incompatible.%",
    *(f"{text}%" for text in LOSSES),
)
_NAMES = ("demangledName", "shortName", "mangledName")

_WHOLE = {
    "INTEGER": "typeof({name}) = 'integer'",
    "TEXT": "typeof({name}) = 'text' AND instr(CAST({name} AS BLOB), x'00') = 0",
}
"""SQL: which values of a column leave, by the kind it is declared as."""

KEPT: Mapping[str, Kept] = {
    KERNELS.name: Kept(numbers=(*_OPERATION, *_NAMES, *_LAUNCH), names=_NAMES),
    COPIES.name: Kept(numbers=(*_OPERATION, *_COPY)),
    MEMSETS.name: Kept(numbers=(*_OPERATION, "value", "bytes", "memKind")),
    GRAPHS.name: Kept(numbers=_OPERATION),
    WAITS.name: Kept(numbers=(*_OPERATION, "syncType", "eventId", "eventSyncId")),
    EVENT_RECORDS.name: Kept(numbers=(*_OPERATION, "timestamp", "eventId", "eventSyncId")),
    CALLS.name: Kept(numbers=("eventClass", *_CALL), names=("nameId",)),
    "PROFILER_OVERHEAD": Kept(numbers=("overheadType", *_CALL), names=("nameId",)),
    RANGES.name: Kept(
        numbers=_RANGE,
        texts=("text",),
        names=("textId",),
        only_where={"text": _NAMED_EVENTS, "textId": _NAMED_EVENTS},
    ),
    GPUS: Kept(numbers=_GPU, texts=("name", "uuid", "chipName", "busLocation")),
    CUDA_DEVICES: Kept(numbers=("gpuId", "cudaId", "pid", "numMultiprocessors"), texts=("uuid",)),
    "ANALYSIS_DETAILS": Kept(numbers=("globalVid", "duration", "startTime", "stopTime")),
    DIAGNOSTICS: Kept(
        numbers=("timestamp", "timestampType", "source", "severity", "globalPid"),
        texts=("text",),
        where=" OR ".join(
            "text LIKE '{}'".format(text.replace("'", "''")) for text in _HARMLESS_DIAGNOSTICS
        ),
    ),
    **{name: Kept(numbers=(), texts=("name", "value"), where=_VERSION_ROWS) for name in METADATA},
    "ENUM_CUDA_MEMCPY_OPER": Kept(numbers=("id",), texts=("name", "label")),
    "ENUM_CUDA_MEM_KIND": Kept(numbers=("id",), texts=("name", "label")),
}
"""All that leaves. Everything `read_timeline` reads, and what nsys's own reports on kernels,
memory, calls and ranges, `cuda_gpu_trace` and `gpu_gaps` read. Nothing of environment, command
line, host, user, files or process output: and of StringIds, where nsys keeps those too, only the
names that the rows above refer to."""


def scrub(source: Path, target: Path) -> None:
    """Write a copy of the export at `source` to `target` that may leave this machine.

    The copy is a new database with the columns of `KEPT` only. A number column gives whole numbers
    only, and a text with a NUL in it (as environment blocks have) does not leave at all. What
    remains is what the workload calls its kernels and ranges. `source` is not changed.

    Raises CaptureUnreadable as `read_timeline` does, and StoreFailed when `target` exists or cannot
    be written; then nothing is left of it.
    """
    if target.exists():
        raise StoreFailed("export-not-written", path=str(target), reason="there is a file already")
    unfinished = target.with_name(f"{target.name}.part")
    with open_export(source) as export:
        try:
            unfinished.unlink(missing_ok=True)
            with closing(
                sqlite3.connect(unfinished.resolve().as_uri(), uri=True, isolation_level=None)
            ) as copy:
                _copy(export, copy)
            unfinished.replace(target)
        except (sqlite3.OperationalError, OSError) as error:
            raise StoreFailed("export-not-written", path=str(target), reason=str(error)) from error
        finally:
            unfinished.unlink(missing_ok=True)


def _copy(export: Export, copy: sqlite3.Connection) -> None:
    copy.execute("PRAGMA journal_mode = OFF")
    copy.execute("PRAGMA synchronous = OFF")
    # SQLite leaves what was in its memory before in unused parts of new pages: here, the source's
    copy.execute("PRAGMA secure_delete = ON")
    copy.execute("ATTACH ? AS source", (read_only_uri(export.path),))
    copy.execute("BEGIN")
    for table, kept in KEPT.items():
        if export.has(table):
            _copy_table(export, copy, table, kept)
    if export.has(STRINGS):
        copy.execute(
            f"CREATE TABLE {STRINGS} (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)"
        )
        named = [
            f'SELECT "{name}" FROM main."{table}"'
            for table, kept in KEPT.items()
            for name in kept.names
            if export.has(table) and name in export.tables[table]
        ]
        if named:
            copy.execute(
                f"INSERT INTO main.{STRINGS} SELECT id, value FROM source.{STRINGS} "
                f"WHERE {_WHOLE['TEXT'].format(name='value')} "
                f"AND id IN ({' UNION '.join(named)}) ORDER BY id"
            )
    copy.execute("COMMIT")


def _copy_table(export: Export, copy: sqlite3.Connection, table: str, kept: Kept) -> None:
    has = export.tables[table]
    columns = {name: "INTEGER" for name in kept.numbers if name in has}
    columns |= {name: "TEXT" for name in kept.texts if name in has}
    if not columns:
        return
    select = []
    for name, kind in columns.items():
        allowed = [_WHOLE[kind].format(name=f'"{name}"')]
        if kept.only_where and name in kept.only_where:
            allowed.append(kept.only_where[name])
        select.append(f'CASE WHEN {" AND ".join(allowed)} THEN "{name}" END')
    declared = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    copy.execute(f'CREATE TABLE main."{table}" ({declared})')
    copy.execute(
        f'INSERT INTO main."{table}" SELECT {", ".join(select)} FROM source."{table}"'
        + (f" WHERE {kept.where}" if kept.where else "")
    )
