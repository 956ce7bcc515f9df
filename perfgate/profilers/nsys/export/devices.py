"""Which physical GPU a process's own number of one means; knows neither kernels nor copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from perfgate.model.arrays import distinct, is_constant
from perfgate.model.note import Note, note
from perfgate.model.timeline import CapturedGpu
from perfgate.profilers.nsys.export.cells import text_of, whole_of
from perfgate.profilers.nsys.export.columns import LIMITS, Columns
from perfgate.profilers.nsys.export.layout import CUDA_DEVICES, GPUS
from perfgate.profilers.nsys.export.opening import Export

STRAY: Final = 0.01
"""Share of a process's operations up to which what ran on a GPU is no use of it."""

_Use = tuple[int, int, int]
"""A process by its index, its pid, and its own number of a GPU."""


def settle_devices(
    export: Export,
    pids: Sequence[int],
    operations: Sequence[Columns],
    *,
    others: Sequence[Columns] = (),
) -> tuple[tuple[CapturedGpu, ...], dict[tuple[int, int], int], Note | None]:
    """Put physical GPUs for the processes' own device numbers, in place.

    Args:
        export: describes the GPUs.
        pids: of the processes, by their numbers.
        operations: tables whose rows are a use of a GPU; their processes are numbered for good.
        others: tables whose rows are none.

    Returns:
        the GPUs, the numbers that processes have for them, and what `_Devices.mixed` says of them.
    """
    devices = _devices(export)
    used: Counter[_Use] = Counter()
    for columns in operations:
        used.update(_translate(columns, pids, devices))
    for columns in others:
        _translate(columns, pids, devices)
    of_process: Counter[int] = Counter()
    for (process, _, _), number in used.items():
        of_process[process] += number
    # A context on another GPU, with an operation or two, is no use of it.
    mixed = devices.mixed(
        use for use, number in used.items() if number > STRAY * of_process[use[0]]
    )
    ordinals = devices.ordinals(pids) | {
        (process, devices.physical(pid, own)): own for process, pid, own in used
    }
    return tuple(gpu for _, gpu in sorted(devices.gpus.items())), ordinals, mixed


@dataclass(frozen=True, slots=True)
class _Devices:
    """The capture's physical GPUs, and what each process calls them."""

    gpus: Mapping[int, CapturedGpu]
    by_cuda_number: Mapping[int, int]
    by_process: Mapping[tuple[int, int], int]
    """(pid, the process's own number) -> device."""

    def physical(self, pid: int, own: int) -> int:
        return self.by_process.get((pid, own), self.by_cuda_number.get(own, own))

    def ordinals(self, pids: Sequence[int]) -> dict[tuple[int, int], int]:
        """The numbers of the GPUs that each process sees, by (process, device)."""
        every = {own: device for own, device in self.by_cuda_number.items() if not self.by_process}
        return {
            (process, device): own
            for process, pid in enumerate(pids)
            for own, device in (
                every
                | {own: device for (one, own), device in self.by_process.items() if one == pid}
            ).items()
        }

    def mixed(self, used: Iterable[_Use]) -> Note | None:
        """That it is not known which operations ran on the same GPU; None where it is.

        Before 2025 an export has the processes' own numbers and nothing else: CUPTI's contexts have
        the same ones, and of the environment only nsys's own is there, not what each process set.
        """
        on: dict[int, set[int]] = {}
        unknown: set[int] = set()
        for process, pid, own in set(used):
            device = self.physical(pid, own)
            on.setdefault(device, set()).add(process)
            if (pid, own) not in self.by_process:
                unknown.add(device)
        sharing = {process for device in unknown if len(on[device]) > 1 for process in on[device]}
        if not sharing or len(self.gpus) == 1:
            return None
        return note("devices-unknown", processes=len(sharing))


def _translate(columns: Columns, pids: Sequence[int], devices: _Devices) -> dict[_Use, int]:
    """Put physical GPUs into a table; how many of its rows each process has on each GPU."""
    if not columns:
        return {}
    process, device = columns["process"], columns["device"]
    alone = is_constant(process) and is_constant(device)
    some = slice(1) if alone else slice(None)
    pairs = np.broadcast_to(process[some].astype(np.int64) << 32 | device[some], len(device))
    used: dict[_Use, int] = {}
    translated = device
    for pair in distinct(pairs).tolist():
        its, own = divmod(pair, 1 << 32)
        here = pairs == pair
        used[its, pids[its], own] = int(here.sum())
        if (physical := devices.physical(pids[its], own)) != own:
            translated = np.where(here, np.int32(physical), translated)
    columns["device"] = translated
    return used


def _devices(export: Export) -> _Devices:
    """GPUs differ by nsys's GPU id; instances of one share that, and differ by uuid."""
    gpus: dict[int, CapturedGpu] = {}
    by_cuda_number: dict[int, int] = {}
    columns = ("id", "name", "uuid", "busLocation", "cuDevice")
    for id_, name, uuid, bus, cuda_id in export.rows(GPUS, columns):
        number, cuda = _device(id_), _device(cuda_id)
        if number is not None:
            gpus[number] = CapturedGpu(
                device=number, name=text_of(name), uuid=text_of(uuid), bus=text_of(bus)
            )
            if cuda is not None:
                by_cuda_number.setdefault(cuda, number)
    of_uuid = {_bare(gpu.uuid): number for number, gpu in gpus.items() if gpu.uuid}
    instances: dict[tuple[int | None, str | None], int] = {}
    by_process: dict[tuple[int, int], int] = {}
    rows = export.rows(CUDA_DEVICES, ("pid", "cudaId", "gpuId", "uuid"))
    free = max([-1, *gpus, *(_device(row[2]) or 0 for row in rows)]) + 1
    for row in sorted(rows, key=repr):  # any order, as long as equal captures have the same
        pid, own, gpu, uuid = whole_of(row[0]), _device(row[1]), _device(row[2]), text_of(row[3])
        if pid is None or own is None or (gpu is None and uuid is None):
            continue
        gpu = of_uuid.get(_bare(uuid)) if gpu is None else gpu
        if (gpu, uuid) not in instances:
            is_taken = gpu is None or any(gpu == other and uuid for other, _ in instances)
            number = free if is_taken or gpu is None else gpu
            free += number == free
            instances[gpu, uuid] = number
            host = gpus.get(gpu) if gpu is not None else None
            new = CapturedGpu(
                device=number,
                name=host.name if host else None,
                uuid=uuid,
                bus=host.bus if host else None,
            )
            gpus.setdefault(number, new)
        by_process[pid, own] = instances[gpu, uuid]
    return _Devices(gpus, by_cuda_number, by_process)


def _device(value: object) -> int | None:
    """A number of a GPU in a small table; None for what numbers none."""
    number, (least, most) = whole_of(value), LIMITS["device"]
    return number if number is not None and least <= number <= most else None


def _bare(uuid: str | None) -> str:
    return (uuid or "").removeprefix("GPU-").lower()
