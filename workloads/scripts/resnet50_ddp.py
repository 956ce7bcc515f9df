"""DistributedDataParallel training of ResNet-50, as a script that knows nothing of perfgate.

As one process, and as two ranks:

    python workloads/scripts/resnet50_ddp.py python -m torch.distributed.run --standalone
    --nproc-per-node=2 workloads/scripts/resnet50_ddp.py

Every rank warms up, starts the profiler (the capture range of `nsys profile
--capture-range=cudaProfilerApi`), trains its steps under nested ranges, and stops the profiler when
all ranks are done. The warm-up's ranges bear other names, so that a capture of the whole process
has the same steps. Without a GPU, or with PERFGATE_SMALL=1, a tiny residual network trains on tiny
images; without a GPU over gloo, and no profiler is started. The images that wait for the GPUs lie
in /dev/shm: 5 batches over all ranks, of 39 MB each with 64 images, more than a container has by
default (--shm-size=1g).
"""

import argparse
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import nvtx
import torch
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

CUDA = torch.cuda.is_available()
SMALL = not CUDA or os.environ.get("PERFGATE_SMALL") == "1"
CLASSES = 10
BATCH, SIDE, IMAGES = (8, 32, 64) if SMALL else (64, 224, 256)
WORKERS = 2
AHEAD = 2
"""Batches that each worker makes ahead."""


@dataclass(frozen=True, kw_only=True)
class Rank:
    """This process among its peers."""

    number: int
    world: int
    device: torch.device

    @classmethod
    def from_environment(cls) -> "Rank":
        """Read what torchrun sets; without it this is the only one."""
        local = int(os.environ.get("LOCAL_RANK", "0"))
        return cls(
            number=int(os.environ.get("RANK", "0")),
            world=int(os.environ.get("WORLD_SIZE", "1")),
            device=torch.device("cuda", local) if CUDA else torch.device("cpu"),
        )

    def join(self) -> None:
        """Form the process group: NCCL between GPUs, gloo otherwise."""
        if CUDA:
            torch.cuda.set_device(self.device)
        backend = "nccl" if CUDA else "gloo"
        if "MASTER_ADDR" in os.environ:
            distributed.init_process_group(backend)
        else:
            alone = distributed.HashStore()  # type: ignore[attr-defined]
            distributed.init_process_group(backend, store=alone, rank=0, world_size=1)

    def wait_for_all(self) -> None:
        """Wait until this rank's GPU, and then every other rank, has come this far."""
        if CUDA:
            torch.cuda.synchronize()
            distributed.barrier(device_ids=[self.device.index])
        else:
            distributed.barrier()


class Noise(Dataset[tuple[Tensor, int]]):
    """A few images of noise, made once, that stand for many."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._images = torch.randn(
            IMAGES, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)
        )

    def __len__(self) -> int:
        """How many images there seem to be."""
        return self._length

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Return an image and its label."""
        return self._images[index % IMAGES], index % CLASSES


class Residual(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)

    def forward(self, features: Tensor) -> Tensor:
        """Return features of the same shape."""
        inner = functional.relu(self.first_norm(self.first(features)))
        return functional.relu(features + self.second_norm(self.second(inner)))


def network() -> nn.Module:
    """ResNet-50 of torchvision, or a tiny relative.

    Raises:
        SystemExit: torchvision is not there.
    """
    if SMALL:
        stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        return nn.Sequential(
            stem, Residual(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES)
        )
    try:
        from torchvision.models import resnet50  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
    except ImportError as missing:
        raise SystemExit(
            f"resnet50_ddp: {missing}. It trains torchvision's ResNet-50: install the "
            f"torchvision that goes with "
            f"torch {torch.__version__}, or set PERFGATE_SMALL=1 to train a tiny network instead."
        ) from missing
    model: nn.Module = resnet50(num_classes=CLASSES)
    return model


class Trainer:
    """One rank's training."""

    def __init__(self, rank: Rank, batches: Iterator[list[Tensor]], *, stall_s: float) -> None:
        torch.manual_seed(0)
        self._rank = rank
        self._batches = batches
        self._stall_s = stall_s
        on_device = network().to(rank.device)
        self._model = DistributedDataParallel(
            on_device, device_ids=[rank.device.index] if CUDA else None
        )
        self._criterion = nn.CrossEntropyLoss()
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01, momentum=0.9)
        self.loss = torch.zeros((), device=rank.device)
        """Of the last step, on the device."""

    def train(self, *, steps: int) -> None:
        """Train one epoch of so many steps, under the ranges of a training of many."""
        epoch = 0
        with nvtx.annotate("entire training"), nvtx.annotate(f"training epoch {epoch}"):
            self._train_epoch(epoch, steps)

    def warm_up(self, *, steps: int) -> None:
        """Do the same work under other names."""
        with nvtx.annotate("warm-up"):
            for number in range(steps):
                self._step(f"warm-up step {number}")

    def _train_epoch(self, epoch: int, steps: int) -> None:
        with nvtx.annotate(f"epoch {epoch}"):
            for number in range(steps):
                self._step(f"step {number}")

    def _step(self, name: str) -> None:
        with nvtx.annotate(name):
            with nvtx.annotate("get batch"):
                on_host = next(self._batches)
                if self._stall_s:
                    time.sleep(self._stall_s)
            with nvtx.annotate("copy batch"):
                images, labels = (
                    tensor.to(self._rank.device, non_blocking=True) for tensor in on_host
                )
            with nvtx.annotate("zero grad"):
                self._optimizer.zero_grad(set_to_none=True)
            with nvtx.annotate("forward"):
                logits = self._model(images)
            with nvtx.annotate("loss"):
                loss = self._criterion(logits, labels)
            with nvtx.annotate("backward"):
                loss.backward()
            with nvtx.annotate("optimizer"):
                self._optimizer.step()
        self.loss = loss.detach()


def loader(rank: Rank, *, batch: int, steps: int) -> DataLoader[tuple[Tensor, int]]:
    """This rank's share of the images, in batches of its share, more than `steps` of them.

    The workers are as busy at the last step as at the others. Warm-up and training go through them
    once, as one epoch:
    before each further one `sampler.set_epoch(epoch)` is due, or all have the same order.
    """
    share = max(1, batch // rank.world)
    images = Noise(rank.world * share * (steps + 2 * WORKERS * AHEAD))
    sampler: DistributedSampler[tuple[Tensor, int]] = DistributedSampler(
        images, rank.world, rank.number, seed=0
    )
    return DataLoader(
        images,
        batch_size=share,
        sampler=sampler,
        num_workers=WORKERS,
        prefetch_factor=AHEAD,
        pin_memory=CUDA,
    )


def read_arguments(arguments: Sequence[str] | None, *, world: int) -> argparse.Namespace:
    """Read the command line, and refuse what cannot be done with so many ranks."""
    parser = argparse.ArgumentParser(description="Train ResNet-50 with DistributedDataParallel.")
    parser.add_argument(
        "--steps", type=int, default=40, help="steps inside the capture range (default: 40)"
    )
    parser.add_argument("--warmup", type=int, default=20, help="steps before it (default: 20)")
    parser.add_argument(
        "--batch",
        type=int,
        default=BATCH,
        help=(
            f"images of a step over all ranks; each takes its share, rounded down, at "
            f"least 1 (default: {BATCH})"
        ),
    )
    parser.add_argument("--stall-rank", type=int, metavar="R", help="this rank is a straggler: ...")
    parser.add_argument(
        "--stall-ms",
        type=float,
        default=0.0,
        metavar="X",
        help="... its host sleeps so long in each step, as if its input were slow. What the host "
        "is ahead of its GPU hides that much of it",
    )
    found = parser.parse_args(arguments)
    if found.steps < 1 or found.warmup < 0 or found.batch < 1 or not 0 <= found.stall_ms < math.inf:
        parser.error("--steps and --batch must be at least 1, --warmup and --stall-ms at least 0.")
    if (found.stall_rank is None) != (found.stall_ms == 0):
        parser.error("--stall-rank and --stall-ms go together: who sleeps, and for how long.")
    if found.stall_rank is not None and not 0 <= found.stall_rank < world:
        parser.error(
            f"--stall-rank: there is no rank {found.stall_rank}, the last of {world} "
            f"is {world - 1}."
        )
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Train on this rank."""
    rank = Rank.from_environment()
    found = read_arguments(arguments, world=rank.world)
    rank.join()
    batches = iter(loader(rank, batch=found.batch, steps=found.warmup + found.steps))
    trainer = Trainer(
        rank, batches, stall_s=found.stall_ms / 1000 if found.stall_rank == rank.number else 0.0
    )
    trainer.warm_up(steps=found.warmup)
    rank.wait_for_all()
    if CUDA:
        torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    trainer.train(steps=found.steps)
    # The first rank to stop the profiler closes the window for all.
    rank.wait_for_all()
    if CUDA:
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]
    last_reported = (
        f"rank {rank.number} of {rank.world}, process {os.getpid()}: loss "
        f"{trainer.loss.item():.4f}\n"
    )
    print(last_reported, end="", flush=True)  # noqa: T201  (one write: the ranks share the terminal)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
