"""What is said of the machine: GPUs that cannot be read or told apart, and gates that take turns on
them."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

TEXT: Final[Rows] = {
    "nvml-failed": (
        "the NVIDIA driver cannot be asked for {what}: {why:quote}",
        "perfgate measures only on a GPU that it can describe",
        "Run nvidia-smi: once it lists the GPU without an error, perfgate can read it too.",
    ),
    "gpu-in-mig-mode": (
        "GPU {gpu} is in MIG mode",
        "perfgate measures on one of its slices, which {variable} names",
        "Set {variable} to the UUID of the slice (nvidia-smi -L lists them).",
    ),
    "gpus-of-different-models": (
        "{variable}={value} counts GPUs of different models ({models:list}) in CUDA's own order",
        "perfgate can tell which GPU is meant only by PCI order or by UUID",
        "Set {order}=PCI_BUS_ID, or {variable} to a UUID (nvidia-smi -L lists them).",
    ),
    "gpu-taken": (
        "{what} is held by {holder}, and was not let go within {limit_s:s}",
        "Gates on one GPU take turns, since each would measure the other",
        "Wait for that gate to end, or raise lock_timeout_s in [tool.perfgate].",
    ),
    "gpu-waited-for": "Waiting for {holder}, which holds {what}, for at most {limit_s:s}",
    "gpu-in-use": "GPU {gpu} is in use by {by:list}",
    "gpu-utilised": "GPU {gpu} is busy: {percent} % utilised before the run",
    "gpu-itself": "GPU {gpu}",
    "gpu-throttled": "{gpu} was throttled ({by:list,})",
    "gpu-shared": "{gpu} was shared with {by:list,}",
    "gpu-power-cap": "SW power cap in {met} of {samples} samples",
    "gpu-clock-event": "{event:raw} in {met} of {samples} samples",
    "gpu-not-sampled": (
        "could not be sampled ({why:raw}): throttling and neighbours would go unseen"
    ),
    "gpu-no-process-listed": "the driver never listed a process of this run: all samples count",
    "sensor-unread": "{sensor:raw} could not be read ({why:raw}){blind}",
    "blind-to-throttling": ": throttling would go unseen",
    "blind-to-neighbours": ": neighbours would go unseen",
    "other-gpus": "baseline is for {then:raw}, this machine is {now:raw}",
    "other-processor": "baseline is for CPUs ({then:raw}) without a GPU, this machine {now:raw}",
    "other-nsys": "baseline was captured by nsys {then:raw}, this is nsys {now:raw}",
    "other-trace-options": "baseline was captured with {then:raw}, this run with {now:raw}",
    "environment-changed": "Environment variables are not those of the baseline: {changes:list;}",
    "variable-changed": "{name:raw} was {then:raw}, is {now:raw}",
    "variable-not-set": "not set",
    "machine-without-gpu": "this machine",
    "other-gate": "another gate",
    "other-gate-of": "another perfgate (pid {pid} of {user}, workload {workload}, since {since})",
    "locks-not-absolute": (
        "{variable}={folder:quote}: is no absolute path",
        "Gates that share a GPU take turns through one folder",
        "Name it from the root on, or leave the variable out: then it is /tmp.",
    ),
    "lock-unusable": (
        "{path:quote}: cannot be used as a lock: {why}",
        "All who measure on this machine must be able to open it",
        (
            "Remove it as its owner or as root (the next gate makes it anew, open to all), or name "
            "another folder in {variable}."
        ),
    ),
}
"""By code."""
