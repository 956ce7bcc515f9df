"""What is said of the machine: GPUs that cannot be read or told apart, and gates that take turns on
them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perfgate.words.text import Text

TEXT: Final[Mapping[str, Text]] = {
    "nvml-failed": Text(
        "the NVIDIA driver cannot be asked for {what}: {why:quote}",
        "perfgate measures only on a GPU that it can describe",
        "Run nvidia-smi: once it lists the GPU without an error, perfgate can read it too.",
    ),
    "gpu-in-mig-mode": Text(
        "GPU {gpu} is in MIG mode",
        "perfgate measures on one of its slices, which {variable} names",
        "Set {variable} to the UUID of the slice (nvidia-smi -L lists them).",
    ),
    "gpus-of-different-models": Text(
        "{variable}={value} counts GPUs of different models ({models:list}) in CUDA's own order",
        "perfgate can tell which GPU is meant only by PCI order or by UUID",
        "Set {order}=PCI_BUS_ID, or {variable} to a UUID (nvidia-smi -L lists them).",
    ),
    "gpu-taken": Text(
        "{what} is held by {holder}, and was not let go within {limit_s:s}",
        "Gates on one GPU take turns, since each would measure the other",
        "Wait for that gate to end, or raise lock_timeout_s in [tool.perfgate].",
    ),
    "gpu-waited-for": Text("Waiting for {holder}, which holds {what}, for at most {limit_s:s}"),
    "gpu-gone": Text("GPU {gpu} is gone: {why}"),
    "gpu-in-use": Text("GPU {gpu} is in use by {by:list}"),
    "gpu-utilised": Text("GPU {gpu} is busy: {percent} % utilised before the run"),
    "gpu-itself": Text("GPU {gpu}"),
    "gpu-of-number": Text("GPU {n} ({gpu})"),
    "gpu-throttled": Text("{gpu} was throttled ({by:list,})"),
    "gpu-shared": Text("{gpu} was shared with {by:list,}"),
    "gpu-power-cap": Text("SW power cap in {met} of {samples} samples"),
    "gpu-clock-event": Text("{event:raw} in {met} of {samples} samples"),
    "gpu-clock-event-unknown": Text("a clock event reason unknown to perfgate: {bits:raw}"),
    "gpu-not-sampled": Text(
        "could not be sampled ({why:raw}): throttling and neighbours would go unseen"
    ),
    "gpu-no-sample": Text("no sample was taken: the run was over at once"),
    "gpu-no-process-listed": Text(
        "the driver never listed a process of this run: all samples count"
    ),
    "gpu-held-by-gate": Text("the process that runs the gate itself holds a CUDA context"),
    "gpu-through-mps": Text("kernels pass through MPS ({servants:list,})"),
    "sensor-unread": Text("{sensor:raw} could not be read{often} ({why:raw}){blind}"),
    "sensor-unread-now-and-then": Text(" in {count} of {samples} samples"),
    "blind-to-throttling": Text(": throttling would go unseen"),
    "blind-to-neighbours": Text(": neighbours would go unseen"),
    "other-gpus": Text("baseline is for {then:raw}, this machine is {now:raw}"),
    "other-mig-slices": Text(
        "baseline is for {then:raw} (MIG slices: {slices:raw}), this machine is {now:raw} "
        "(MIG slices: {slices_now:raw})"
    ),
    "no-slices": Text("none"),
    "other-processor": Text("baseline is for {then} without a GPU, this machine is {now}"),
    "processor": Text("{cpu:raw} ({count:CPU|CPUs})"),
    "processor-of-unknown-count": Text("{cpu:raw} (an unknown number of CPUs)"),
    "unknown-cpu": Text("an unknown CPU"),
    "other-nsys": Text("baseline was captured by nsys {then:raw}, this is nsys {now:raw}"),
    "other-trace-options": Text("baseline was captured with {then:raw}, this run with {now:raw}"),
    "no-options": Text("no options"),
    "environment-changed": Text(
        "Environment variables are not those of the baseline: {changes:list;}"
    ),
    "variable-changed": Text("{name:raw} was {then:raw}, is {now:raw}"),
    "variable-not-set": Text("not set"),
    "machine-without-gpu": Text("this machine"),
    "other-gate": Text("another gate"),
    "other-gate-here": Text("another perfgate (pid {pid} of {user}, since {since})"),
    "other-gate-of": Text(
        "another perfgate (pid {pid} of {user}, workload {workload}, since {since})"
    ),
    "locks-not-absolute": Text(
        "{variable}={folder:quote}: is no absolute path",
        "Gates that share a GPU take turns through one folder",
        "Name it from the root on, or leave the variable out: then it is /tmp.",
    ),
    "lock-unusable": Text(
        "{path:quote}: cannot be used as a lock: {why}",
        "All who measure on this machine must be able to open it",
        "Remove it as its owner or as root (the next gate makes it anew, open to all), or name "
        "another folder in {variable}.",
    ),
}
"""By code."""
