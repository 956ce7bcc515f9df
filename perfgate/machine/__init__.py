"""What this machine is and how it feels: GPUs, clocks, throttling, neighbours, turns; it knows no
workload."""

from perfgate.machine.identity import read_machine
from perfgate.machine.lock import gpu_lock, machine_folder
from perfgate.machine.processes import RankWatch
from perfgate.machine.sampler import Span, sampled, wait_until_idle

__all__ = [
    "RankWatch",
    "Span",
    "gpu_lock",
    "machine_folder",
    "read_machine",
    "sampled",
    "wait_until_idle",
]
