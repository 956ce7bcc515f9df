"""Numbers the processes of an export, which its rows name by `globalPid`; knows no device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from perfgate.model.arrays import constant
from perfgate.model.timeline import Ints, SmallInts
from perfgate.profilers.nsys.export.columns import Columns
from perfgate.profilers.nsys.export.layout import PROCESS_SHIFT, THREAD_MASK, UNKNOWN_PROCESS

UNKNOWN_PID = 0


@dataclass(slots=True)
class Processes:
    """Numbers processes as threads come upon them, and at the end in the order of their ids."""

    codes: dict[int, int] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def numbered(self, keys: Ints) -> SmallInts:
        """`globalPid`s -> process numbers, in no particular order yet."""
        runs = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        with self.lock:
            numbers = [self.codes.setdefault(key, len(self.codes)) for key in keys[runs].tolist()]
        if len(runs) == 1:
            return constant(np.int32(numbers[0]), len(keys))
        return np.repeat(np.array(numbers, np.int32), np.diff(runs, append=len(keys)))

    def settle(self, tables: Iterable[Columns]) -> tuple[tuple[int, ...], dict[int, int]]:
        """Number the processes of all tables for good, in place.

        Returns their pids, and the number of each `globalPid`.
        """
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
