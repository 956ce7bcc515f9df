"""A small network fed with batches made on the CPU: a lab about who waits for whom.

| variant | where the batches come from |
|---|---|
| cpu | the process that trains makes each batch, then copies it: the GPU waits |
| gpu | they lie on the GPU from the start: the lesson, for no real set of data fits |
| workers | 8 worker processes make them, in pinned memory, which nothing on the CPU waits for: the fix |

VARIANTS=all in the environment collects every variant, VARIANTS=cpu,gpu those two, otherwise only
workers is. The batches that wait for the GPU lie in /dev/shm: 17 of 6.3 MB, more than a container
has by default (--shm-size=1g). Without a GPU, or with PERFGATE_SMALL=1, batches and network are
tiny; without a GPU there is no pinned memory, and the variant gpu keeps its batches on the CPU.
"""

import itertools
import os
from collections.abc import Iterator

import nvtx
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler

from perfgate import Steps, workload

VARIANTS = ("cpu", "gpu", "workers")
ASKED = os.environ.get("VARIANTS", "").replace(",", " ").split() or ["workers"]
CHOSEN = [variant for variant in VARIANTS if variant in ASKED or "all" in ASKED]
if wrong := sorted(set(ASKED) - {*VARIANTS, "all"}):
    raise ValueError(
        f"VARIANTS: data_load_lab has no variant {', '.join(wrong)}. It has "
        f"{', '.join(VARIANTS)}, or all."
    )

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
SMALL = not CUDA or os.environ.get("PERFGATE_SMALL") == "1"
if not CUDA:
    torch.set_num_threads(1)  # at the sizes for a CPU, threads cost more than they save
CLASSES = 10
BATCH, SIDE, WIDTH, WORKERS = (16, 16, 4, 2) if SMALL else (128, 64, 384, 8)
"""So wide that, once nothing waits for data, the GPU sets the pace and not the launching: a pace
that repeats.
"""
BATCHES = 8
"""How many different ones there are; they come again and again."""

Batch = tuple[Tensor, Tensor]
"""Images and labels."""


@workload(steps=70, warmup=40)
@pytest.mark.parametrize("variant", CHOSEN)
@pytest.mark.filterwarnings(
    "default"
)  # torch's advice on workers and forks fails nothing, however strict the project
def data_load_lab(steps: Steps, variant: str) -> None:
    """SGD and cross-entropy; nothing waits for the GPU but the copies of the variant cpu."""
    torch.manual_seed(0)
    model = network().to(DEVICE)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = batches_of(variant)
    for _ in steps:
        with nvtx.annotate("data_load"):
            images, labels = next(batches)
        with nvtx.annotate("forward"):
            loss = criterion(model(images), labels)
        with nvtx.annotate("backward"):
            loss.backward()
        with nvtx.annotate("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


def batches_of(variant: str) -> Iterator[Batch]:
    """Batches on the device, the same ones on every variant."""
    match variant:
        case "cpu":
            made = MadeBatches()
            return (on_device(made[index]) for index in itertools.count())
        case "gpu":
            return itertools.cycle([on_device(MadeBatches()[index]) for index in range(BATCHES)])
        case "workers":
            loader = DataLoader(
                MadeBatches(),
                batch_size=None,
                sampler=Endless(),
                num_workers=WORKERS,
                pin_memory=CUDA,
            )
            return (on_device(batch, non_blocking=True) for batch in loader)
        case _:
            raise ValueError(f"data_load_lab: there is no variant {variant!r}.")


def on_device(batch: Batch, *, non_blocking: bool = False) -> Batch:
    """Copy a batch; unless it is pinned and `non_blocking`, the CPU waits until all that came
    before it is done.
    """
    images, labels = batch
    return images.to(DEVICE, non_blocking=non_blocking), labels.to(
        DEVICE, non_blocking=non_blocking
    )


class MadeBatches(Dataset[Batch]):
    """Batches of noise, each made when it is asked for; the same for the same index, in whichever
    process.
    """

    def __getitem__(self, index: int) -> Batch:
        """Return images and labels; the batches begin again after the last."""
        seeded = torch.Generator().manual_seed(index % BATCHES)
        images = torch.randn(BATCH, 3, SIDE, SIDE, generator=seeded)
        return images, torch.randint(CLASSES, (BATCH,), generator=seeded)


class Endless(Sampler[int]):
    """0, 1, 2, ...: the end of an epoch would be a step unlike the others."""

    def __iter__(self) -> Iterator[int]:
        """Start at 0."""
        return itertools.count()


def network() -> nn.Module:
    """Three convolutions, each of which halves the image, and a classifier."""
    channels = (3, WIDTH, 2 * WIDTH, 4 * WIDTH)
    layers = [
        layer
        for before, after in itertools.pairwise(channels)
        for layer in (
            nn.Conv2d(before, after, 3, stride=2, padding=1),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        )
    ]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], CLASSES)
    )
