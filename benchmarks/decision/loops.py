"""The two loops that real gates are tried on: one that the GPU paces, one that the CPU does; knows nothing of gates.

`collect.py` copies this file into a scratch project and writes the constants there; as it stands nothing is planted.
SGD is written out: a first `torch.optim` imports torch's compiler; a run on a CPU took 7.0 s with it and 3.5 s without.
"""

from typing import Any

import nvtx
import torch
from torch import nn

from perfgate import Steps, workload

SLEEP_CYCLES = 100
"""GPU clock cycles that one extra kernel spins for in each step of the GPU-bound loop."""
SPINS = 0
"""Turns of an empty Python loop in each step of the CPU-bound loop; without a GPU, of the other one too."""

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
if not CUDA:
    torch.set_num_threads(1)


@workload(steps=30, warmup=50)
def gpu_bound(steps: Steps) -> None:
    """An MLP with SGD in tf32; the CPU runs ahead, and nothing waits for the GPU."""
    width, depth, batch = (4096, 4, 1536) if CUDA else (256, 4, 64)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    layers = [
        layer for _ in range(depth) for layer in (nn.Linear(width, width, device=DEVICE), nn.ReLU())
    ]
    model = nn.Sequential(*layers)
    parameters = list(model.parameters())
    host = torch.randn(batch, width)
    inputs = host.pin_memory() if CUDA else host
    for _ in steps:
        with nvtx.annotate("copy"):
            data = inputs.to(DEVICE, non_blocking=True)
        with nvtx.annotate("forward"):
            loss = model(data).square().mean()
        with nvtx.annotate("backward"):
            gradients = torch.autograd.grad(loss, parameters)
        with nvtx.annotate("optimizer"), torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.add_(gradient, alpha=-1e-4)
        if CUDA:
            torch.cuda._sleep(SLEEP_CYCLES)  # type: ignore[no-untyped-call]
        else:
            for _ in range(SPINS):
                pass


@workload(steps=60, warmup=50)
def cpu_bound(steps: Steps) -> None:
    """A residual MLP of small kernels with unfused SGD and a `loss.item()` a step: launching is what takes the time."""
    width, depth, batch = (128, 11, 64) if CUDA else (16, 11, 4)
    torch.manual_seed(0)
    blocks = nn.ModuleList(
        nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        for _ in range(depth)
    ).to(DEVICE)
    parameters = list(blocks.parameters())
    momenta = [torch.zeros_like(parameter) for parameter in parameters]
    inputs = torch.randn(batch, width, device=DEVICE)
    for _ in steps:
        with nvtx.annotate("forward"):
            hidden: Any = inputs
            for block in blocks:
                hidden = hidden + block(hidden)
            loss = hidden.square().mean()
        with nvtx.annotate("backward"):
            gradients = torch.autograd.grad(loss, parameters)
        with nvtx.annotate("optimizer"), torch.no_grad():
            for parameter, momentum, gradient in zip(parameters, momenta, gradients, strict=True):
                parameter.add_(momentum.mul_(0.9).add_(gradient), alpha=-1e-4)
        with nvtx.annotate("log"):
            loss.item()
        with nvtx.annotate("spin"):
            for _ in range(SPINS):
                pass
