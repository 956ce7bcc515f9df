"""Which GPUs CUDA will offer to a process with a given environment; it asks no driver itself.

The rules, as far as NVIDIA documents them and PyTorch relies on them:

- unset: every GPU. Empty, `-1` or `NoDevFiles`: none.
- a list of indices, of `GPU-` UUIDs (a unique beginning is enough), or of `MIG-` names; the first entry that names
  nothing ends the list, an entry that comes twice empties it, and the first entry decides which of
  the three it is.
- CUDA offers a process at most one MIG slice.
- Indices follow CUDA_DEVICE_ORDER. NVML lists by PCI bus; CUDA by default puts the fastest first. Among equal models
  both are the same order. Among different ones only the driver knows CUDA's, so that case is
  refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from perfgate.machine.nvml import Board, Device
from perfgate.model.errors import MachineUnreadable

VARIABLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"


def visible_devices(boards: Sequence[Board], env: Mapping[str, str]) -> tuple[Device, ...]:
    """Return the GPUs and MIG slices that CUDA offers, in CUDA's order.

    Raises:
        MachineUnreadable: an index among different models, or whole GPUs beside MIG slices with
        nothing chosen.
    """
    chosen = env.get(VARIABLE)
    if chosen is None:
        return _unchosen(boards)
    entries = [entry.strip() for entry in chosen.split(",")]
    if entries[0].startswith("MIG-"):
        return _at_most_one_slice(
            _named(entries, "MIG-", [part for board in boards for part in board.slices])
        )
    if entries[0].startswith("GPU-"):
        found = _named(entries, "GPU-", [board.whole for board in boards])
        by_uuid = {board.whole.gpu.uuid: board for board in boards}
        return _opened([by_uuid[device.gpu.uuid] for device in found])
    return _opened(_indexed(entries, boards, env))


def _unchosen(boards: Sequence[Board]) -> tuple[Device, ...]:
    if any(board.mig_enabled for board in boards) and not all(
        board.mig_enabled for board in boards
    ):
        raise MachineUnreadable("gpus-beside-slices", variable=VARIABLE)
    return _opened(boards)


def _opened(boards: Sequence[Board]) -> tuple[Device, ...]:
    devices = [
        device
        for board in boards
        for device in (board.slices if board.mig_enabled else (board.whole,))
    ]
    return _at_most_one_slice(devices)


def _at_most_one_slice(devices: Sequence[Device]) -> tuple[Device, ...]:
    slices = [device for device in devices if device.gpu.mig]
    return tuple(slices[:1]) if slices else tuple(devices)


def _named(entries: Sequence[str], prefix: str, devices: Sequence[Device]) -> list[Device]:
    found: list[Device] = []
    for entry in entries:
        matches = [device for device in devices if device.gpu.uuid.startswith(entry)]
        if not entry.startswith(prefix) or entry == prefix or len(matches) != 1:
            break
        if matches[0] in found:
            return []
        found.append(matches[0])
    return found


def _indexed(
    entries: Sequence[str], boards: Sequence[Board], env: Mapping[str, str]
) -> list[Board]:
    found: list[int] = []
    for entry in entries:
        # CUDA reads a number as C's strtol does: `1gpu` is 1.
        number = re.match(r"\+?\d+", entry)
        if number is None or int(number[0]) >= len(boards):
            break
        if int(number[0]) in found:
            return []
        found.append(int(number[0]))
    models = {board.whole.gpu.name for board in boards}
    if found and len(models) > 1 and env.get(ORDER) != "PCI_BUS_ID" and len(found) < len(boards):
        raise MachineUnreadable(
            "gpus-of-different-models",
            variable=VARIABLE,
            value=env[VARIABLE],
            models=tuple(sorted(models)),
            order=ORDER,
        )
    return [boards[index] for index in found]
