"""What this machine is, as the record that decides comparability; it imports neither torch nor
nvtx."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from perfgate.machine.nvml import NVML, NoDriver, NvmlLibrary, open_nvml
from perfgate.machine.visible import visible_devices
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
    with open_nvml(library) as nvml:
        if not isinstance(nvml, NoDriver):
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
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (
        line.partition(":")[2].strip()
        for line in lines
        if line.partition(":")[0].strip() == "model name"
    )
    return next((name for name in names if name), platform.machine() or None)
