"""What this machine is, as the record that decides comparability; it imports neither torch nor
nvtx.

Which GPUs CUDA will offer to a process with a given environment, as far as NVIDIA documents it and
PyTorch relies on it:

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

import os
import platform
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from perfgate.machine.nvml import NVML, Device, NoDriver, Nvml, NvmlLibrary, open_nvml
from perfgate.model.errors import MachineUnreadable
from perfgate.model.machine import Gpu, Machine

CPUINFO = Path("/proc/cpuinfo")


def read_machine(
    env: Mapping[str, str],
    *,
    nsys: str | None,
    nsys_options: tuple[str, ...],
    library: NvmlLibrary = NVML,
    cpuinfo: Path = CPUINFO,
) -> Machine:
    """Describe this machine as a workload with the environment `env` will see it.

    No driver means no GPUs. `cuda` is the newest CUDA the driver offers; `torch` and `nvtx` are the
    versions installed for this interpreter, read from their metadata, which a workload of another
    interpreter may not share. `cpu_count` is how many CPUs this process may run on.

    Raises:
        MachineUnreadable: the driver is there and fails, or CUDA_VISIBLE_DEVICES does not say which
        GPU is meant.
    """
    driver: str | None = None
    cuda: str | None = None
    gpus: tuple[Gpu, ...] = ()
    with suppress(NoDriver), open_nvml(library) as nvml:
        driver, cuda = nvml.driver(), nvml.cuda()
        gpus = tuple(device.gpu for device in visible_devices(nvml, env))
    return Machine(
        gpus=gpus,
        driver=driver,
        cuda=cuda,
        torch=installed_version("torch"),
        nsys=nsys,
        nsys_options=nsys_options,
        nvtx=installed_version("nvtx"),
        python=platform.python_version(),
        cpu=read_cpu_model(cpuinfo),
        cpu_count=len(os.sched_getaffinity(0)),
    )


def installed_version(package: str) -> str | None:
    """Return a package's version by its metadata, without importing it; None if it is not
    installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def read_cpu_model(cpuinfo: Path = CPUINFO) -> str | None:
    """Return the CPU's model name; where Linux gives none (Arm), the architecture; None if neither
    is known."""
    named: re.Match[str] | None = None
    with suppress(OSError):
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
        named = re.search(r"^model name\s*:[ \t]*(\S.*?)\s*$", text, re.MULTILINE)
    return named[1] if named else platform.machine() or None


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
            if (
                entry == str(index)
                if by_index
                else entry.startswith("GPU-") and device.gpu.uuid.startswith(entry)
            )
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
