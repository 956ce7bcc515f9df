"""Reads a capture's SQLite export into a Timeline; knows no metric."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from perfgate.model.arrays import distinct, is_constant
from perfgate.model.note import Note, note
from perfgate.model.timeline import (
    Calls,
    CapturedGpu,
    Copies,
    EventRecords,
    Ints,
    Kernels,
    MemoryKind,
    Memsets,
    Spans,
    Timeline,
    Waits,
)
from perfgate.profilers.nsys.export.file import Export, open_export, text_of
from perfgate.profilers.nsys.export.layout import (
    CALLS,
    COPIES,
    CUDA_DEVICES,
    DIAGNOSTICS,
    EVENT_RECORDS,
    EXPORT_TABLES,
    GPUS,
    GRAPHS,
    KERNELS,
    LOSSES,
    MEMSETS,
    OPERATIONS,
    RANGES,
    STRINGS,
    WAITS,
)
from perfgate.profilers.nsys.export.ranges import read_ranges
from perfgate.profilers.nsys.export.tables import (
    LIMITS,
    Columns,
    number_processes,
    read_table,
    record,
)

MOST_QUOTED: Final = 2
"""Of nsys's warnings about one thing."""
_WARNINGS: Final = (2, 3)
"""Severities of DIAGNOSTIC_EVENT: warning and error."""
_OF_DOMAINS: Final = "nvtxDomainDestroy"
"""The nvtx package destroys its domains at its end in a way that nsys warns of."""
_LOSS: Final = re.compile(
    "|".join(".*".join(map(re.escape, text.split("%"))) for text in LOSSES), re.DOTALL
)
"""SQL's LIKE, of which `%` is the only sign that is used."""


def read_timeline(path: Path) -> Timeline:
    """Read everything perfgate measures from the SQLite export at `path`.

    The file is opened read-only and immutable: it is not changed, and none is made next to it.

    - A table that is absent is an empty one: nsys writes no empty tables. What that means is in
      `Timeline.missing`.
    - A process is a `globalPid`, so equal pids of two machines stay two. Rows without one (NULL, or
      exports so old that they have no such column) belong to the capture's only process, or to one
      with pid 0 where it has several or none.
    - A device is a physical GPU. Processes count their own from 0 (CUDA_VISIBLE_DEVICES), so their
      numbers are translated by TARGET_INFO_CUDA_DEVICE (in exports of 2025 and newer); else by
      TARGET_INFO_GPU's CUDA number; else they are taken as they stand. Without that first table
      equal numbers of several processes are taken for the same GPU, and `Timeline.missing` says so
      under `devices` unless there is but one.
    - A kernel or call whose name is not in StringIds is called `(name 123)`.

    Raises CaptureUnreadable for what is no export, or a damaged one, and for values that no nsys
    writes (text in a number column, an end before its start); LayoutUnknown for an export of nsys
    whose columns perfgate does not know.
    """
    with open_export(path) as export:
        return _timeline(export)


def _timeline(export: Export) -> Timeline:
    tables = {table.name: read_table(export, table) for table in EXPORT_TABLES}
    processes, index = number_processes(list(tables.values()))
    devices = _Devices(export, processes)
    for table in (*OPERATIONS, WAITS, EVENT_RECORDS):
        devices.translate(tables[table.name], is_use=table in OPERATIONS)
    copies, known = record(Copies, tables[COPIES.name]), [kind.value for kind in MemoryKind]
    # Memory kinds that perfgate does not know are UNKNOWN; a row is one copy at least.
    source, target = (
        np.where(np.isin(kinds, known), kinds, np.int8(MemoryKind.UNKNOWN))
        for kinds in (copies.source, copies.target)
    )
    made = np.maximum(copies.count, 1)
    kernels, calls = record(Kernels, tables[KERNELS.name]), record(Calls, tables[CALLS.name])
    ids = distinct(np.concatenate((distinct(kernels.name), distinct(calls.name))).astype(np.int64))
    ranges, repeated = read_ranges(export, tables[RANGES.name], index)
    timeline = Timeline(
        source=export.path.name,
        processes=processes,
        kernels=kernels,
        copies=replace(copies, source=source, target=target, count=made),
        memsets=record(Memsets, tables[MEMSETS.name]),
        graphs=record(Spans, tables[GRAPHS.name]),
        waits=record(Waits, tables[WAITS.name]),
        event_records=record(EventRecords, tables[EVENT_RECORDS.name]),
        calls=calls,
        ranges=ranges,
        names=_strings(export, ids),
        gpus=devices.gpus,
        ordinals=devices.ordinals(),
        ranges_repeated=repeated,
    )
    rows = export.rows(DIAGNOSTICS, ("severity", "text"))
    missing = _missing(timeline, [(severity, text_of(text) or "") for severity, text in rows])
    if len(processes) > 1 and (mixed := devices.mixed()) is not None:
        missing["devices"] = mixed
    return replace(timeline, missing=missing)


def _strings(export: Export, ids: Ints) -> dict[int, str]:
    """Some strings of an export. The rest may be large, and secret."""
    if not len(ids):
        return {}
    if not export.has(STRINGS):
        raise export.impossible(STRINGS, "id", "nothing")
    for column in ("id", "value"):
        export.require(STRINGS, column)
    wanted = ", ".join(map(str, ids.tolist()))
    found = dict(
        export.connection.execute(f"SELECT id, value FROM {STRINGS} WHERE id IN ({wanted})")
    )
    for number in ids.tolist():
        if number not in found:
            raise export.impossible(STRINGS, "id", f"no {number}")
    return {number: text_of(text) or "" for number, text in found.items()}


class _Devices:
    """The physical GPUs of a capture, and by which numbers its processes know them."""

    def __init__(self, export: Export, pids: Sequence[int]) -> None:
        self._pids = pids
        gpus: dict[int, CapturedGpu] = {}
        self._by_cuda_number: dict[int, int] = {}
        self._used: set[tuple[int, int]] = set()
        """Processes and their own numbers of the GPUs they ran something on."""
        for id_, name, uuid, bus, cuda in export.rows(
            GPUS, ("id", "name", "uuid", "busLocation", "cuDevice")
        ):
            if _is_device(id_):
                gpus[id_] = CapturedGpu(
                    device=id_, name=text_of(name), uuid=text_of(uuid), bus=text_of(bus)
                )
                if _is_device(cuda):
                    self._by_cuda_number.setdefault(cuda, id_)
        self._by_process = {
            (pid, own): device
            for pid, own, device in export.rows(CUDA_DEVICES, ("pid", "cudaId", "gpuId"))
            if isinstance(pid, int) and _is_device(own) and _is_device(device)
        }
        """(pid, the process's own number) -> device."""
        for device in set(self._by_process.values()) - gpus.keys():
            gpus[device] = CapturedGpu(device=device, name=None, uuid=None)
        self.gpus = tuple(gpu for _, gpu in sorted(gpus.items()))

    def translate(self, columns: Columns, *, is_use: bool) -> None:
        """Put physical GPUs into a table, whose rows may be a use of them, in place."""
        process, own = columns["process"], columns["device"]
        some = slice(1) if is_constant(process) and is_constant(own) else slice(None)
        pairs = np.broadcast_to(process[some].astype(np.int64) << 32 | own[some], len(own))
        translated = own
        for pair in distinct(pairs).tolist():
            its, number = divmod(pair, 1 << 32)
            if is_use:
                self._used.add((its, number))
            if (physical := self._physical(its, number)) != number:
                translated = np.where(pairs == pair, np.int32(physical), translated)
        columns["device"] = translated

    def ordinals(self) -> dict[tuple[int, int], int]:
        """The numbers of the GPUs that each process sees, by (process, device)."""
        found: dict[tuple[int, int], int] = {}
        for process, pid in enumerate(self._pids):
            seen = {own: device for (one, own), device in self._by_process.items() if one == pid}
            for own, device in (seen if self._by_process else self._by_cuda_number).items():
                found[process, device] = own
        return found | {(process, self._physical(process, own)): own for process, own in self._used}

    def mixed(self) -> Note | None:
        """That it is not known which operations ran on the same GPU; None where it is.

        Before 2025 an export has the processes' own numbers and nothing else: CUPTI's contexts have
        the same ones, and of the environment only nsys's own is there, not what each process set.
        """
        on: defaultdict[int, set[int]] = defaultdict(set)
        for process, own in self._used:
            on[self._physical(process, own)].add(process)
        unknown = [
            on[self._physical(process, own)]
            for process, own in self._used
            if (self._pids[process], own) not in self._by_process
        ]
        sharing = {process for its in unknown if len(its) > 1 for process in its}
        if not sharing or len(self.gpus) == 1:
            return None
        return note("devices-unknown", processes=len(sharing))

    def _physical(self, process: int, own: int) -> int:
        known = self._by_process.get((self._pids[process], own))
        return self._by_cuda_number.get(own, own) if known is None else known


def _is_device(value: object) -> bool:
    """Whether a value in a small table is the number of a GPU."""
    least, most = LIMITS["device"]
    return isinstance(value, int) and least <= value <= most


def _missing(timeline: Timeline, said: Sequence[tuple[object, str]]) -> dict[str, Note]:
    """What `Timeline.missing` says. A capture with kernels and no memset simply has no memset.

    `said` are nsys's own messages about the capture, each with its severity.
    """
    missing: dict[str, Note] = {}
    warnings = [text for severity, text in said if severity in _WARNINGS]
    calls = len(timeline.calls.start)
    if not timeline.gpu_operations:
        lacks = note("no-gpu-operations", calls=calls) if calls else note("no-cuda-events")
        lacks = _with_warnings(lacks, warnings, "CUDA")
        missing = dict.fromkeys(("kernels", "copies", "memsets", "graphs"), lacks)
        if not calls:
            missing["calls"] = lacks
    elif not calls:
        missing["calls"] = note("no-cuda-calls")
    if not len(timeline.ranges.start):
        missing["ranges"] = _with_warnings(note("no-nvtx-ranges"), warnings, "NVTX")
    if lost := [text for _, text in said if _LOSS.fullmatch(text.strip())]:
        missing["records"] = note("records-lost", warnings=_quoted(lost))
    return missing


def _with_warnings(lacks: Note, warnings: Sequence[str], about: str) -> Note:
    """Add what nsys warned of that names the trace in question."""
    warned = [text for text in warnings if about in text and _OF_DOMAINS not in text]
    return note("nsys-warned", lacks=lacks, warnings=_quoted(warned)) if warned else lacks


def _quoted(warnings: Iterable[str]) -> tuple[Note, ...]:
    texts = dict.fromkeys(text.strip().rstrip(".") for text in warnings)
    return tuple(note("nsys-said", text=text) for text in list(texts)[:MOST_QUOTED])
