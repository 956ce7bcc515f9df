"""A small network fed with batches made on the CPU, as a script that knows nothing of perfgate.

It marks what a script has of its own: a range "Batch 12" for each batch, and in it data_load,
forward, backward and optimizer. `workloads/data_load_script.yaml` makes it a workload. The batches
that wait for the GPU lie in /dev/shm: 9 of 6.3 MB with 4 workers. Without a GPU, or with
PERFGATE_SMALL=1, batches and network are tiny.
"""

import argparse
import itertools
import os
from collections.abc import Iterator, Sequence

import nvtx
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
SMALL = not CUDA or os.environ.get("PERFGATE_SMALL") == "1"
if not CUDA:
    torch.set_num_threads(1)  # at the sizes for a CPU, threads cost more than they save
CLASSES = 10
BATCH, SIDE, WIDTH = (16, 16, 4) if SMALL else (128, 64, 384)

Batch = tuple[Tensor, Tensor]
"""Images and labels."""


class MadeBatches(Dataset[Batch]):
    """Batches of noise, each made when it is asked for; the same for the same index, in whichever
    process.
    """

    def __init__(self, batches: int) -> None:
        self._batches = batches

    def __len__(self) -> int:
        """How many batches there are."""
        return self._batches

    def __getitem__(self, index: int) -> Batch:
        """Return images and labels."""
        seeded = torch.Generator().manual_seed(index)
        images = torch.randn(BATCH, 3, SIDE, SIDE, generator=seeded)
        return images, torch.randint(CLASSES, (BATCH,), generator=seeded)


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


def train(batches: Iterator[Batch], count: int) -> float:
    """Train on so many batches; return the mean loss."""
    torch.manual_seed(0)
    model = network().to(DEVICE)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = torch.zeros((), device=DEVICE)
    for number in range(count):
        with nvtx.annotate(f"Batch {number}"):
            with nvtx.annotate("data_load"):
                images, labels = (tensor.to(DEVICE, non_blocking=True) for tensor in next(batches))
            with nvtx.annotate("forward"):
                loss = criterion(model(images), labels)
            with nvtx.annotate("backward"):
                loss.backward()
            with nvtx.annotate("optimizer"):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            losses += loss.detach()
    return losses.item() / count


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(
        description="Train a small network on batches made on the CPU."
    )
    parser.add_argument(
        "--batches", type=int, default=160, help="how many to train on (default: 160)"
    )
    parser.add_argument(
        "--workers", type=int, default=4, help="processes that make them; 0: this one (default: 4)"
    )
    found = parser.parse_args(arguments)
    if found.batches < 1 or found.workers < 0:
        parser.error("--batches must be at least 1, and --workers at least 0.")
    # More than are trained on: the workers are as busy at the last batch as at the others.
    made = MadeBatches(found.batches + 4 * found.workers)
    loader = DataLoader(made, batch_size=None, num_workers=found.workers, pin_memory=CUDA)
    loss = train(iter(loader), found.batches)
    print(f"mean loss of {found.batches} batches: {loss:.4f}")  # noqa: T201


if __name__ == "__main__":
    main()
