"""ResNet-18 fed with images made on the fly: the series of the input pipeline, from a serial loader
to a prefetcher.

| variant | what it adds |
|---|---|
| serial | the process that trains also makes the images: the GPU waits |
| workers | 8 worker processes make them |
| pinned | copies from pinned memory, which nothing on the CPU waits for |
| overlap | a stream for copies: batch N + 1 is copied while batch N is computed |
| prefetcher | the same as an iterator that any loop can take |
| kept | overlap with images that are made once: workers with time to spare, so that a gate can see 1 % of idle time |
| steady | the prefetcher with those images: what makes no difference, and can be seen to make none |

VARIANTS=all in the environment collects every variant, VARIANTS=serial,pinned those two, otherwise
only steady is. The images that wait for the GPU lie in /dev/shm: 17 batches of 201 MB, so a
container needs --shm-size=4g or more. Without a GPU, or with PERFGATE_SMALL=1, a tiny residual
network trains on tiny images; without a GPU there are no streams and no pinned memory, and the
variants from `workers` on do the same work.
"""

import itertools
import os
from collections.abc import Callable, Iterator

import nvtx
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, Sampler

from perfgate import Steps, workload

VARIANTS = ("serial", "workers", "pinned", "overlap", "prefetcher", "kept", "steady")
ASKED = os.environ.get("VARIANTS", "").replace(",", " ").split() or ["steady"]
CHOSEN = [variant for variant in VARIANTS if variant in ASKED or "all" in ASKED]
if wrong := sorted(set(ASKED) - {*VARIANTS, "all"}):
    raise ValueError(
        f"VARIANTS: resnet18_input has no variant {', '.join(wrong)}. It has "
        f"{', '.join(VARIANTS)}, or all."
    )

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
SMALL = not CUDA or os.environ.get("PERFGATE_SMALL") == "1"
if not CUDA:
    torch.set_num_threads(1)  # at the sizes for a CPU, threads cost more than they save
CLASSES = 10
BATCH, SIDE, WORKERS = (4, 32, 2) if SMALL else (64, 512, 8)
IMAGES = 128
"""Of the variants kept and steady, made at the start; they are gone through again and again."""

Batch = list[Tensor]
"""Images and labels."""


@workload(steps=20, warmup=16)
@pytest.mark.parametrize("variant", CHOSEN)
@pytest.mark.filterwarnings(
    "default"
)  # torch's advice on workers and forks fails nothing, however strict the project
def resnet18_input(steps: Steps, variant: str) -> None:
    """Adam and cross-entropy; nothing waits for the GPU but the copies of the first two variants.

    The workers start first, forked from a process without CUDA: while it and the network are set
    up, they make the 2 batches each that they make ahead. 8 of them are about as fast as an H200
    computes, and a queue that was empty at the start would stay so, and the GPU idle now and then
    on every variant. The warm-up is as long as that queue: of workers that are far slower nothing
    is left of it.
    """
    torch.manual_seed(0)
    batches = iter(loader(variant))
    model = network().to(DEVICE)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def compute(images: Tensor, labels: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        criterion(model(images), labels).backward()
        optimizer.step()

    if reached(variant, "prefetcher") and variant != "kept":
        prefetched(steps, Prefetcher(batches), compute)
    elif reached(variant, "overlap"):
        overlapped(steps, batches, compute)
    else:
        one_after_another(steps, batches, compute, non_blocking=reached(variant, "pinned"))


def one_after_another(
    steps: Steps, batches: Iterator[Batch], compute: Callable[..., None], *, non_blocking: bool
) -> None:
    """Get, copy and compute a batch, all in one stream."""
    for _ in steps:
        with nvtx.annotate("get batch"):
            on_host = next(batches)
        with nvtx.annotate("copy batch"):
            batch = [tensor.to(DEVICE, non_blocking=non_blocking) for tensor in on_host]
        with nvtx.annotate("compute"):
            compute(*batch)


def overlapped(steps: Steps, batches: Iterator[Batch], compute: Callable[..., None]) -> None:
    """Compute batch N, and behind it get batch N + 1 and copy it in a stream of its own.

    ```
    copies     |--1--|       |--2--|       |--3--|
    compute  |-----0-----| |-----1-----| |-----2-----|
    ```
    """
    copies = copy_stream()
    batch = copied(next(batches), copies)
    for _ in steps:
        with nvtx.annotate("compute"):
            hand_over(batch, copies)
            compute(*batch)
        with nvtx.annotate("get batch"):
            on_host = next(batches)
        with nvtx.annotate("copy batch"):
            batch = copied(on_host, copies)


class Prefetcher:
    """An iterator over batches on the GPU, which copies the next one while the last one is
    computed.
    """

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches
        self._copies = copy_stream()
        self._next = self._prefetched()

    def __iter__(self) -> Iterator[Batch]:
        """Return itself."""
        return self

    def __next__(self) -> Batch:
        """Return the batch that was copied meanwhile, and begin to copy the one after it."""
        batch = self._next
        hand_over(batch, self._copies)
        self._next = self._prefetched()
        return batch

    def _prefetched(self) -> Batch:
        on_host = next(self._batches)
        with nvtx.annotate("copy batch"):
            return copied(on_host, self._copies)


def prefetched(steps: Steps, batches: Prefetcher, compute: Callable[..., None]) -> None:
    """Take each batch from the prefetcher, as a loop does that knows nothing of streams."""
    for _ in steps:
        with nvtx.annotate("get batch"):
            batch = next(batches)
        with nvtx.annotate("compute"):
            compute(*batch)


def copy_stream() -> torch.cuda.Stream | None:
    """A stream next to the current one, on which the network is computed; None without a GPU."""
    return torch.cuda.Stream() if CUDA else None  # type: ignore[no-untyped-call]


def copied(on_host: Batch, copies: torch.cuda.Stream | None) -> Batch:
    """Begin to copy a pinned batch in the stream of copies."""
    with torch.cuda.stream(copies):
        return [tensor.to(DEVICE, non_blocking=True) for tensor in on_host]


def hand_over(batch: Batch, copies: torch.cuda.Stream | None) -> None:
    """Let the current stream use a batch: once it is there, and it is not overwritten before the
    stream is done.
    """
    if copies is None:
        return
    computing = torch.cuda.current_stream()
    computing.wait_stream(copies)
    for tensor in batch:
        tensor.record_stream(computing)


class MadeImages(Dataset[tuple[Tensor, int]]):
    """Noise as images, made when asked for; the same for the same index, in whichever process."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Return an image and its label."""
        seeded = torch.Generator().manual_seed(index)
        return torch.randn(3, SIDE, SIDE, generator=seeded), index % CLASSES


class KeptImages(Dataset[tuple[Tensor, int]]):
    """The first of these, made at once, for all processes.

    8 processes that made them as they were asked for were just as fast as an H200 that waited for 3
    steps of 18 in one run and for none in the next: 0.6 or 45 ms of idle time a step.
    """

    def __init__(self) -> None:
        made = MadeImages()
        self._images = [made[index] for index in range(IMAGES)]

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Return an image and its label; the set begins again after its end."""
        image, _ = self._images[index % IMAGES]
        return image, index % CLASSES


class Endless(Sampler[int]):
    """0, 1, 2, ...: the end of an epoch would be a step unlike the others."""

    def __iter__(self) -> Iterator[int]:
        """Start at 0."""
        return itertools.count()


def loader(variant: str) -> DataLoader[tuple[Tensor, int]]:
    """The loader of a variant; all give the same batches, but kept and steady go through theirs
    again and again.
    """
    return DataLoader(
        KeptImages() if reached(variant, "kept") else MadeImages(),
        batch_size=BATCH,
        sampler=Endless(),
        num_workers=WORKERS if reached(variant, "workers") else 0,
        pin_memory=CUDA and reached(variant, "pinned"),
    )


def reached(variant: str, other: str) -> bool:
    """Whether a variant is the other one or above it, and so does what that one added."""
    return VARIANTS.index(variant) >= VARIANTS.index(other)


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
    """ResNet-18 of torchvision, or a tiny relative.

    Raises:
        RuntimeError: torchvision is not there.
    """
    if SMALL:
        stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        return nn.Sequential(
            stem, Residual(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES)
        )
    try:
        from torchvision.models import resnet18  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
    except ImportError as missing:
        raise RuntimeError(
            f"resnet18_input: {missing}. It trains torchvision's ResNet-18: install the "
            f"torchvision that goes with "
            f"torch {torch.__version__}, or set PERFGATE_SMALL=1 to train a tiny network instead."
        ) from missing
    model: nn.Module = resnet18(num_classes=CLASSES)
    return model
