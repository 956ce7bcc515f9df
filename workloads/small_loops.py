"""Two small loops, the smallest in which every metric of perfgate has something to measure, with
regressions to plant.
"""

import os
import time

import nvtx
import torch
from torch import nn

from perfgate import Steps, workload

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
KNOWN = ("item", "pageable", "kernel", "sleep", "stall")
REGRESSIONS = frozenset(os.environ.get("SMALL_REGRESSION", "").replace(",", " ").split())
"""Regressions to plant, so that the gate can be tried; several joined by commas."""
if wrong := sorted(REGRESSIONS.difference(KNOWN)):
    raise ValueError(
        f"SMALL_REGRESSION: there is no regression {', '.join(wrong)}. There are "
        f"{', '.join(KNOWN)}."
    )
SLEEP_CYCLES = int(os.environ.get("SLEEP_CYCLES", "120000"))
"""Clock cycles of the sleep regression: 3 % of a 2 ms step at 2 GHz."""


def on_host(batch: torch.Tensor) -> torch.Tensor:
    """A batch in the memory from which it is copied each step: pinned, but for the regression that
    forgets to.
    """
    return batch.pin_memory() if CUDA and "pageable" not in REGRESSIONS else batch


@workload(steps=150, warmup=50)
def mlp(steps: Steps) -> None:
    """Adam on random data; each batch is copied from pinned memory, and nothing waits for the GPU.

    150 steps: of 30, which are 98 ms, one hiccup of an H200's slow host was 1 % of `gap_ms`, and a
    gate took 8 pairs.
    """
    width, depth, batch = (4096, 4, 1536) if CUDA else (64, 2, 16)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    layers = [
        layer for _ in range(depth) for layer in (nn.Linear(width, width, device=DEVICE), nn.ReLU())
    ]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), fused=CUDA)
    batches = [on_host(torch.randn(batch, width)) for _ in range(4)]
    for step in steps:
        with nvtx.annotate("copy"):
            inputs = batches[step % len(batches)].to(DEVICE, non_blocking=True)
        with nvtx.annotate("forward"):
            loss = model(inputs).square().mean()
        with nvtx.annotate("backward"):
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
        with nvtx.annotate("optimizer"):
            optimizer.step()
        with nvtx.annotate("log"):
            plant(loss)


@workload(steps=80, warmup=30)
def transformer(steps: Steps) -> None:
    """An encoder in bfloat16 on random embeddings, copied from pinned memory; nothing waits for the
    GPU.

    So many of them that the GPU sets the pace on a slow host as well: with 16, of which its kernels
    took 2.3 ms, one H200's host launched a step in 2.7 ms and another's in 2.8 to 4.2, from process
    to process.
    """
    width, depth, length, batch = (1024, 6, 512, 48) if CUDA else (32, 2, 8, 2)
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        width, nhead=8, dim_feedforward=4 * width, batch_first=True, dropout=0.0
    )
    model = (
        nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        .to(DEVICE, torch.bfloat16)
        .eval()
    )
    batches = [on_host(torch.randn(batch, length, width, dtype=torch.bfloat16)) for _ in range(4)]
    for step in steps:
        with torch.inference_mode():
            with nvtx.annotate("copy"):
                inputs = batches[step % len(batches)].to(DEVICE, non_blocking=True)
            with nvtx.annotate("encode"):
                encoded = model(inputs)
            with nvtx.annotate("pool"):
                pooled = encoded.mean()
            with nvtx.annotate("log"):
                plant(pooled)


def plant(value: torch.Tensor) -> None:
    """Do what the chosen regressions do; without one, only the short sleep kernel that the sleep
    regression makes longer.
    """
    if CUDA:
        torch.cuda._sleep(SLEEP_CYCLES if "sleep" in REGRESSIONS else 100)  # type: ignore[no-untyped-call]
    if "item" in REGRESSIONS:
        value.item()
    if "kernel" in REGRESSIONS:
        value.detach().add_(0.0)
    if "stall" in REGRESSIONS:
        time.sleep(0.002)
