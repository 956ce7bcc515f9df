"""What `perfgate doctor` says: a fact a check, and what to do where it fails."""

from __future__ import annotations

from typing import Final

from perfgate.words.text import Rows

_INTERPRETER: Final = "Install it into the interpreter of your workloads: pip install nvtx"

TEXT: Final[Rows] = {
    "gpu-there": "{gpus:list}, driver {driver}, CUDA {cuda}",
    "gpu-no-driver": (
        "no NVIDIA driver answers here ({reason:quote})",
        "",
        (
            "Run on a machine with an NVIDIA GPU and its driver (nvidia-smi must list it); in "
            "Docker, start the container with --gpus all. Without a GPU, `perfgate demo` still "
            "shows a verdict."
        ),
    ),
    "gpu-hidden": (
        "driver {driver} has {boards:GPU|GPUs}, and CUDA will see none of them ({why})",
        "",
        "Unset {variable}, or set it to an index or UUID that nvidia-smi -L lists.",
    ),
    "gpu-idle": "no other process computes on it",
    "gpu-busy": (
        "{reason}",
        "",
        (
            "End that process or choose another GPU by CUDA_VISIBLE_DEVICES: "
            "runs on a shared GPU are INVALID."
        ),
    ),
    "nsys-there": "{version} at {path:quote}",
    "trial-done": "nsys wrote and exported a capture in {wall_s:s}",
    "trial-failed": (
        "no capture of the trial program: {reason}",
        "",
        "See what nsys says by itself: {nsys:raw} profile --trace=cuda,nvtx true",
    ),
    "trial-left-nothing": "nsys left nothing of a program that ran {wall_s:s}",
    "nvtx-absent": ("the nvtx package cannot be imported ({reason})", "", _INTERPRETER),
    "nvtx-heard": "nsys {nsys} hears nvtx {nvtx}",
    "nvtx-not-heard": (
        "nsys {nsys} does not hear nvtx {nvtx}: its range is not in the capture",
        "",
        (
            'Install an older one (pip install "nvtx<0.2.12") or a newer nsys (2024.6 or later), '
            "or "
            "mark ranges by torch.cuda.nvtx, which is heard by every nsys."
        ),
    ),
    "gpu-traced": "nsys {nsys} records the GPU's work",
    "gpu-not-traced": (
        "a copy to the GPU worked, and nsys {nsys} recorded none",
        "",
        (
            "Only one profiler at a time can trace CUDA: end ncu, DCGM profiling or another nsys. "
            "Otherwise install an nsys that is as new as the driver."
        ),
    ),
    "gpu-none-to-trace": "there is no GPU whose work could be recorded",
    "gpu-copy-failed": (
        "a copy to the GPU failed: {reason}",
        "",
        (
            "Run nvidia-smi and look for an error; in Docker, start the container with --gpus all "
            "and with the driver capability `compute` (NVIDIA_DRIVER_CAPABILITIES)."
        ),
    ),
    "torch-sees": "torch {torch}, built for {built}, sees {gpus:GPU|GPUs}",
    "torch-sees-none": (
        "torch {torch}, built for {built}, sees no GPU although the driver has one",
        "",
        (
            "Install a build for your CUDA (pytorch.org) or a driver that is new enough for it, "
            "then see: {python:sh} -c \"import torch; torch.zeros(1, device='cuda')\""
        ),
    ),
    "torch-without-gpu": "torch {torch}, built for {built}, sees no GPU, as there is none",
    "torch-absent": (
        "not installed for {python:quote}",
        "",
        (
            "Workloads of Python functions need it: install the PyTorch build for your CUDA "
            "(pytorch.org). Workloads that run a command do not."
        ),
    ),
    "torch-fails": (
        "`import torch` failed: {reason:quote}",
        "",
        'Make this work first: {python:sh} -X importtime -c "import torch"',
    ),
    "disk-free": "{free_bytes:size} free for {folder:quote}",
    "disk-low": (
        "{free_bytes:size} free for {folder:quote}",
        "",
        (
            "Free some: a gate may need {wanted_bytes:size} for its captures. Kept results of "
            "earlier gates may go: rm -r {folder:sh}"
        ),
    ),
    "folder-not-written": (
        "{folder:quote} cannot be written ({reason})",
        "",
        "Make it writable for this user: a gate keeps its files there.",
    ),
    "locks-there": "gates take turns through {folder:quote}",
    "commit-there": "commit {commit}",
    "commit-changed": "commit {commit}, with changes",
    "workloads-there": "{count:file|files} in {folder}",
    "workloads-none": (
        "{folder:quote} holds no workload",
        "",
        (
            "Write one there (perfgate init does), or set `workloads` in [tool.perfgate] to the "
            "folder that holds yours."
        ),
    ),
    "baselines-owned": "each belongs to a workload",
    "baselines-orphaned": (
        "{count:baseline|baselines} without a workload: {paths:list}",
        "",
        (
            "Bring the workload back under its name or, if it is gone for good, delete the files "
            "with git rm."
        ),
    ),
    "baselines-perhaps-orphaned": (
        "{count} without a workload, which may be in what was skipped: {skipped:list}",
        "",
        "Make ready what these files need, then run perfgate doctor again.",
    ),
    "workflows-fail": (
        "they do not know where a runner gets perfgate from",
        "",
        "Name it: {command:raw}",
    ),
    "workflows-install": "they know where a runner gets perfgate from",
}
