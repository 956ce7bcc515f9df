"""A first workload, to see a gate work: a training step of one small layer. Write yours next to it,
then delete it."""

import nvtx
import torch

from perfgate import Steps, workload

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"


@workload(steps=30, warmup=20)
def example(steps: Steps) -> None:
    """Copy a batch, run it forward and backward; without a GPU the same loop, smaller."""
    width, rows = (4096, 1024) if CUDA else (256, 64)
    torch.manual_seed(0)
    model = torch.nn.Linear(width, width, device=DEVICE)
    batch = torch.randn(rows, width, pin_memory=CUDA)
    for _ in steps:  # each turn is one NVTX range "step"; warm-up turns are outside the capture
        with nvtx.annotate("copy"):
            data = batch.to(DEVICE, non_blocking=True)
        with nvtx.annotate("forward"):
            loss = model(data).square().mean()
        with nvtx.annotate("backward"):
            model.zero_grad(set_to_none=True)
            loss.backward()
