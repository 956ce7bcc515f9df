"""Which physical GPU a process's own number of one means; knows neither kernels nor copies."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from perfgate.model.arrays import distinct, is_constant
from perfgate.model.note import Note, note
from perfgate.model.timeline import CapturedGpu
from perfgate.profilers.nsys.export.file import Export, text_of, whole_of
from perfgate.profilers.nsys.export.layout import CUDA_DEVICES, GPUS
from perfgate.profilers.nsys.export.tables import LIMITS, Columns

STRAY = 0.01
"""Share of a process's operations up to which what ran on a GPU is no use of it: a context on
another GPU, with an operation or two."""


class DeviceTable:
    """The physical GPUs of a capture, and by which numbers its processes know them."""

    def __init__(self, export: Export, pids: Sequence[int]) -> None:
        self._pids = pids
        self._gpus: dict[int, CapturedGpu] = {}
        self._by_cuda_number: dict[int, int] = {}
        self._used: Counter[tuple[int, int]] = Counter()
        """Operations by process and its own number of the GPU they ran on."""
        for id_, name, uuid, bus, cuda in export.rows(
            GPUS, ("id", "name", "uuid", "busLocation", "cuDevice")
        ):
            if (number := _device(id_)) is not None:
                self._gpus[number] = CapturedGpu(
                    device=number, name=text_of(name), uuid=text_of(uuid), bus=text_of(bus)
                )
                if (own := _device(cuda)) is not None:
                    self._by_cuda_number.setdefault(own, number)
        self._by_process = {
            (pid, own): device
            for row in export.rows(CUDA_DEVICES, ("pid", "cudaId", "gpuId"))
            for pid, own, device in [(whole_of(row[0]), _device(row[1]), _device(row[2]))]
            if pid is not None and own is not None and device is not None
        }
        """(pid, the process's own number) -> device."""
        for device in sorted(set(self._by_process.values()) - self._gpus.keys()):
            self._gpus[device] = CapturedGpu(device=device, name=None, uuid=None)

    @property
    def gpus(self) -> tuple[CapturedGpu, ...]:
        return tuple(gpu for _, gpu in sorted(self._gpus.items()))

    def translate(self, columns: Columns, *, is_use: bool) -> None:
        """Put physical GPUs into a table, whose rows may be a use of them, in place."""
        if not columns:
            return
        process, own = columns["process"], columns["device"]
        some = slice(1) if is_constant(process) and is_constant(own) else slice(None)
        pairs = np.broadcast_to(process[some].astype(np.int64) << 32 | own[some], len(own))
        translated = own
        for pair in distinct(pairs).tolist():
            its, number = divmod(pair, 1 << 32)
            here = pairs == pair
            if is_use:
                self._used[its, number] += int(here.sum())
            if (physical := self._physical(its, number)) != number:
                translated = np.where(here, np.int32(physical), translated)
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
        of_process: Counter[int] = Counter()
        for (process, _), number in self._used.items():
            of_process[process] += number
        on: defaultdict[int, set[int]] = defaultdict(set)
        unknown: set[int] = set()
        for (process, own), number in self._used.items():
            if number > STRAY * of_process[process]:
                device = self._physical(process, own)
                on[device].add(process)
                if (self._pids[process], own) not in self._by_process:
                    unknown.add(device)
        sharing = {process for device in unknown if len(on[device]) > 1 for process in on[device]}
        if not sharing or len(self._gpus) == 1:
            return None
        return note("devices-unknown", processes=len(sharing))

    def _physical(self, process: int, own: int) -> int:
        known = self._by_process.get((self._pids[process], own))
        return self._by_cuda_number.get(own, own) if known is None else known


def _device(value: object) -> int | None:
    """A number of a GPU in a small table; None for what numbers none."""
    number, (least, most) = whole_of(value), LIMITS["device"]
    return number if number is not None and least <= number <= most else None
