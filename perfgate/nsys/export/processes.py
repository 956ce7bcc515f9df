"""Numbers the processes of an export, which its rows name by `globalPid`; knows no device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
import pandas as pd

from perfgate.model.timeline import Ints, SmallInts
from perfgate.nsys.export.columns import Columns
from perfgate.nsys.export.layout import (
    EXPORT_TABLES,
    PROCESS_SHIFT,
    THREAD_MASK,
    UNKNOWN_PROCESS,
)
from perfgate.nsys.export.opening import Export
from perfgate.nsys.export.refusing import damaged

UNKNOWN_PID = 0


@dataclass(slots=True)
class Processes:
    """Numbers the capture's processes as threads come upon them, and at the end in the order of their ids."""

    codes: dict[int, int] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def numbered(self, keys: Ints) -> SmallInts:
        """`globalPid`s -> process numbers, in no particular order yet."""
        if (keys == keys[0]).all():
            with self.lock:
                return np.full(len(keys), self.codes.setdefault(int(keys[0]), len(self.codes)), dtype=np.int32)
        index, uniques = pd.factorize(keys)
        return np.array(self.met(int(key) for key in uniques), dtype=np.int32)[index]

    def met(self, keys: Iterable[int]) -> list[int]:
        """The numbers of these `globalPid`s; those that are new get one."""
        with self.lock:
            return [self.codes.setdefault(key, len(self.codes)) for key in keys]

    def settle(self, tables: Iterable[Columns]) -> tuple[tuple[int, ...], dict[int, int]]:
        """Number the processes of all tables for good, in place; their pids, and the number of each `globalPid`."""
        known = sorted(key for key in self.codes if key != UNKNOWN_PROCESS)
        index = {key: number for number, key in enumerate(known)}
        pids = [(key >> PROCESS_SHIFT) & THREAD_MASK for key in known]
        if UNKNOWN_PROCESS in self.codes:
            index[UNKNOWN_PROCESS] = 0 if len(known) == 1 else len(known)
            if len(known) != 1:
                pids.append(UNKNOWN_PID)
        order = np.array([index[key] for key in self.codes], dtype=np.int32)
        if (order != np.arange(len(order))).any():
            for columns in tables:
                if columns:
                    columns["process"] = order[columns["process"]]
        return tuple(pids), index


def global_pids(export: Export) -> set[int]:
    """Every process of the capture, as whoever reads all tables meets them."""
    found: set[int] = set()
    for table in EXPORT_TABLES:
        if not export.has(table.name):
            continue
        column = "globalTid" if any(column.field == "thread" for column in table.columns) else "globalPid"
        told = f'"{column}"' if column in export.tables[table.name] else "NULL"
        for (value,) in export.query(f'SELECT DISTINCT {told} FROM "{table.name}" WHERE {table.which}'):
            if value is not None and not isinstance(value, int):
                raise damaged(export.path, f"{table.name} has other values than whole numbers as {column}")
            known = UNKNOWN_PROCESS if value is None else value
            found.add(known & ~THREAD_MASK if column == "globalTid" else known)
    return found
