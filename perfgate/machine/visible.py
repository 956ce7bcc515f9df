"""Which GPUs CUDA will offer to a process with a given environment.

The rules, as far as NVIDIA documents them and PyTorch relies on them:

- unset: every GPU. Empty, `-1` or `NoDevFiles`: none.
- a list of indices or of `GPU-` UUIDs (a unique beginning is enough); the first entry that names
  nothing ends the list.
- the UUID of a MIG slice: that slice, and CUDA offers a process one at most. Of a GPU in MIG mode
  the slice has to be named.
- Indices follow CUDA_DEVICE_ORDER. NVML lists by PCI bus; CUDA by default puts the fastest first.
  Among equal models both are the same order. Among different ones only the driver knows CUDA's, so
  that case is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfgate.machine.nvml import Device, Nvml
from perfgate.model.errors import MachineUnreadable

VARIABLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"


def visible_devices(nvml: Nvml, env: Mapping[str, str]) -> tuple[Device, ...]:
    """Return the GPUs, or the MIG slice, that CUDA offers, in CUDA's order.

    Raises:
        MachineUnreadable: an index among different models, a GPU in MIG mode without a slice that
            is named, or a driver that fails.
    """
    chosen = env.get(VARIABLE)
    entries = [] if chosen is None else [entry.strip() for entry in chosen.split(",")]
    if entries and entries[0].startswith("MIG-"):
        return (nvml.device(entries[0]),)
    devices: Sequence[Device] = nvml.gpus()
    if chosen is not None:
        devices = _chosen(entries, devices, env)
    for device in devices:
        if nvml.in_mig_mode(device):
            raise MachineUnreadable("gpu-in-mig-mode", gpu=device.gpu.uuid, variable=VARIABLE)
    return tuple(devices)


def _chosen(
    entries: Sequence[str], devices: Sequence[Device], env: Mapping[str, str]
) -> list[Device]:
    found: list[Device] = []
    by_index = entries[0].isdecimal()
    for entry in entries:
        matches = [
            device
            for index, device in enumerate(devices)
            if (entry == str(index) if by_index else _begins(entry, device))
        ]
        if len(matches) != 1:
            break
        found += matches
    models = {device.gpu.name for device in devices}
    order_matters = by_index and len(models) > 1 and 0 < len(found) < len(devices)
    if order_matters and env.get(ORDER) != "PCI_BUS_ID":
        raise MachineUnreadable(
            "gpus-of-different-models",
            variable=VARIABLE,
            value=env[VARIABLE],
            models=tuple(sorted(models)),
            order=ORDER,
        )
    return found


def _begins(entry: str, device: Device) -> bool:
    return entry.startswith("GPU-") and device.gpu.uuid.startswith(entry)
