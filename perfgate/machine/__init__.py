"""What this machine is and how it feels: GPUs, clocks, throttling, neighbours, turns; it knows no
workload."""

from perfgate.machine.identity import installed_version, read_machine
from perfgate.machine.lock import gpu_lock, machine_folder
from perfgate.machine.processes import RankWatch
from perfgate.machine.sampler import Sampler, Span, wait_until_idle

__all__ = [
    "RankWatch",
    "Sampler",
    "Span",
    "gpu_lock",
    "installed_version",
    "machine_folder",
    "read_machine",
    "wait_until_idle",
]
