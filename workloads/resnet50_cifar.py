"""ResNet-50 on images of CIFAR's size: the series of the training step, from `.item()` to
channels_last.

| variant | what it adds |
|---|---|
| naive | loss and accuracy are fetched each step: the CPU waits for the GPU |
| detached | both are kept on the GPU, to be added up when somebody asks |
| pinned | copies from pinned memory, which nothing on the CPU waits for |
| cudnn_benchmark | cuDNN tries its algorithms and keeps the fastest |
| compile | torch.compile |
| max_autotune | CUDA graphs, and matrix products chosen by trial, in TF32: what is cheap of its mode max-autotune |
| grad_scaler | autocast to float16, with a GradScaler, which fetches each step whether a gradient overflowed |
| autocast | autocast to bfloat16, which needs no scaler |
| channels_last | weights and images as channels_last |
| steady | nothing is chosen by trial any more: a gate can see 1 % |
| exhaustive | max_autotune with all of that mode, and every configuration inductor knows: long, the first time |

VARIANTS=all in the environment collects every variant but exhaustive, VARIANTS=naive,detached those
two (and all,exhaustive really all), otherwise only steady is. Without a GPU, or with
PERFGATE_SMALL=1, a tiny residual network trains, and is compiled by the backend "eager"; without a
GPU there are no pinned memory, cuDNN and GradScaler either: pinned and cudnn_benchmark do what the
variant before does, and grad_scaler trains in float16 without a scaler.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nvtx
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, Sampler

from perfgate import Steps, workload

VARIANTS = (
    *("naive", "detached", "pinned", "cudnn_benchmark", "compile", "max_autotune"),
    *("grad_scaler", "autocast", "channels_last", "steady", "exhaustive"),
)
ASKED = os.environ.get("VARIANTS", "").replace(",", " ").split() or ["steady"]
CHOSEN = [
    variant
    for variant in VARIANTS
    if variant in ASKED or ("all" in ASKED and variant != "exhaustive")
]
if wrong := sorted(set(ASKED) - {*VARIANTS, "all"}):
    raise ValueError(
        f"VARIANTS: resnet50_cifar has no variant {', '.join(wrong)}. It has "
        f"{', '.join(VARIANTS)}, or all."
    )

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
SMALL = not CUDA or os.environ.get("PERFGATE_SMALL") == "1"
if not CUDA:
    torch.set_num_threads(1)  # at the sizes for a CPU, threads cost more than they save
CLASSES = 10
BATCH, WORKERS = (8, 1) if SMALL else (384, 4)
"""Images in a batch, and processes that load them.

The tutorial's batch is 128, of which an H200 (16 cores, nsys 2025.3) idled for 15 to 52 % of a
step: the host took 22 to 25 ms to launch it, and kernels that became faster made no step so. With
512 images channels_last met the power cap 1.3 s after its first turn: steps of 21.5 ms became ones
of 24.
"""
IMAGES = 16 * BATCH
"""Images in the set, made at the start; they are gone through again and again."""

AUTOTUNED: dict[str, str | int | bool | Callable[..., Any]] = {
    "max_autotune_gemm": True,
    "max_autotune_conv_backends": "ATEN",
    "benchmark_epilogue_fusion": False,
    "triton.cudagraphs": True,
}
"""The mode max-autotune without its trials of convolutions, fusions, pointwise kernels and
reductions, and its descent.

Convolutions stay cuDNN's, which has chosen them by trial since the variant cudnn_benchmark. What is
left out was too long for a gate on a fresh machine: with Triton's convolutions among the choices
the first compilation was not at its end after 13 minutes on the 16 cores of an H200's host, and
with each product tried with and without what can be fused into it not after 4, though both were
tried before one_ptxas was there. With it the first run of max_autotune took 121 s, of the variants
above 80 to 132, and a later one of any of them 31 to 38.
"""
CACHE_KEY_TAG = os.environ.get("TORCH_COMPILE_CACHE_KEY_TAG", "")
"""What torch adds to the keys of inductor's caches for whoever asks."""
STEADY: dict[str, str | int | bool | Callable[..., Any]] = {"triton.cudagraphs": True}
"""CUDA graphs alone. What cuDNN or inductor find fastest by trial differs from process to process.

With 128 images on an H200, kernel_ms of five processes of channels_last was 7.03, 7.27, 7.09, 7.01
and 7.27 ms; of three with cuDNN's trials off, and products alone chosen by inductor's, 7.32, 7.31
and 7.31 ms. With 384, of five of steady, 16.88 to 16.89.
"""
EXHAUSTIVE: dict[str, str | int | bool | Callable[..., Any]] = {
    "max_autotune": True,
    "triton.cudagraphs": True,
    "coordinate_descent_tuning": True,
    "coordinate_descent_check_all_directions": True,
    "max_autotune_gemm_search_space": "EXHAUSTIVE",
}
"""What the mode max-autotune sets, and the wider search."""


@workload(steps=30, warmup=15, timeout_s=3600)
@pytest.mark.parametrize("variant", CHOSEN)
@pytest.mark.filterwarnings(
    "default"
)  # torch's and inductor's advice fails nothing, however strict the project
def resnet50_cifar(steps: Steps, variant: str) -> None:
    """SGD and cross-entropy, with running loss and accuracy.

    Compiling, autotuning and recording CUDA graphs end within the first three turns, a GradScaler's
    first overflows within the first ten.
    """
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = reached(variant, "cudnn_benchmark") and variant != "steady"
    torch.backends.cuda.matmul.allow_tf32 = tried(variant)
    layout = torch.channels_last if reached(variant, "channels_last") else torch.contiguous_format
    eager = network().to(device=DEVICE, memory_format=layout)  # type: ignore[call-overload]
    model = compiled(eager, variant)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.01, momentum=0.9)
    precision = torch.float16 if variant == "grad_scaler" else torch.bfloat16
    scaler = torch.amp.GradScaler(DEVICE, enabled=CUDA and variant == "grad_scaler")
    running = FetchedStats() if variant == "naive" else DeviceStats()
    pinned = reached(variant, "pinned")
    batches = iter(loader(pinned=pinned))

    for _ in steps:
        with nvtx.annotate("get batch"):
            on_host = next(batches)
        with nvtx.annotate("copy batch"):
            images, labels = (tensor.to(DEVICE, non_blocking=pinned) for tensor in on_host)
            images = images.to(memory_format=layout)
        with (
            nvtx.annotate("forward"),
            torch.autocast(DEVICE, precision, enabled=reached(variant, "grad_scaler")),
        ):
            logits = model(images)
            loss = criterion(logits, labels)
        with nvtx.annotate("backward"):
            scaler.scale(loss).backward()
        with nvtx.annotate("optimizer"):
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
        with nvtx.annotate("loss stats"):
            running.add(loss.detach(), (logits.detach().argmax(dim=1) == labels).sum())


class FetchedStats:
    """Sums of loss and hits as Python's numbers: each addition waits for the GPU twice."""

    def __init__(self) -> None:
        self.loss: float = 0.0
        self.hits: float = 0.0

    def add(self, loss: Tensor, hits: Tensor) -> None:
        """Fetch and add one batch's."""
        self.loss += loss.item()
        self.hits += hits.item()


class DeviceStats:
    """The same sums for whoever wants them now and then: until then nothing waits, and nothing is
    launched.
    """

    def __init__(self) -> None:
        self._losses: list[Tensor] = []
        self._hits: list[Tensor] = []

    def add(self, loss: Tensor, hits: Tensor) -> None:
        """Keep one batch's, on the device."""
        self._losses.append(loss)
        self._hits.append(hits)

    @property
    def loss(self) -> float:
        """Add up and fetch, as for hits."""
        return float(torch.stack(self._losses).sum()) if self._losses else 0.0

    @property
    def hits(self) -> float:
        """Of all batches so far."""
        return float(torch.stack(self._hits).sum()) if self._hits else 0.0


class Noise(Dataset[tuple[Tensor, int]]):
    """Images of CIFAR's shape, made once."""

    def __init__(self) -> None:
        self._images = torch.randn(IMAGES, 3, 32, 32, generator=torch.Generator().manual_seed(0))

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Return an image and its label; the set begins again after its end."""
        return self._images[index % IMAGES], index % CLASSES


class Endless(Sampler[int]):
    """0, 1, 2, ...: the end of an epoch would be a step unlike the others."""

    def __iter__(self) -> Iterator[int]:
        """Start at 0."""
        return itertools.count()


def loader(*, pinned: bool) -> DataLoader[tuple[Tensor, int]]:
    """Batches from a few worker processes, as on every variant."""
    return DataLoader(
        Noise(),
        batch_size=BATCH,
        sampler=Endless(),
        num_workers=WORKERS,
        pin_memory=CUDA and pinned,
    )


def reached(variant: str, other: str) -> bool:
    """Whether a variant is the other one or above it, and so does what that one added; exhaustive
    branches off early.
    """
    return VARIANTS.index("max_autotune" if variant == "exhaustive" else variant) >= VARIANTS.index(
        other
    )


def tried(variant: str) -> bool:
    """Whether inductor chooses products by trial, and has convolutions of 1x1 among them.

    Convolutions are computed in TF32 unless that is forbidden, products only where it is allowed:
    on an H200 max_autotune took 39.7 ms a step without it, and 31.1 with it, where compile
    took 31.8.
    """
    return reached(variant, "max_autotune") and variant != "steady"


def compiled(model: nn.Module, variant: str) -> Callable[[Tensor], Tensor]:
    """The model as a variant runs it."""
    if not reached(variant, "compile"):
        return model
    if SMALL:
        return torch.compile(model, backend="eager")
    if tried(variant):
        one_ptxas()
    keep_apart(variant)
    own = {"exhaustive": EXHAUSTIVE, "steady": STEADY}
    return torch.compile(
        model, options=own.get(variant, AUTOTUNED if reached(variant, "max_autotune") else None)
    )


def one_ptxas() -> None:
    """Build kernels in this process with the ptxas that inductor's compile workers build them with.

    A torch that has a ptxas of its own has only the workers use it (2.11). Triton's cache goes by
    ptxas's version, so that this process finds nothing of what they built for a trial, and builds
    each candidate once more, one after the other: 25 to 30 s for each of ResNet-50's products of
    matrices on an H100's host, for 0.5 s where it built them itself.
    """
    own = Path(torch.__file__).parent / "bin" / "ptxas"
    if own.is_file():
        os.environ.setdefault("TRITON_PTXAS_PATH", str(own))


def keep_apart(variant: str) -> None:
    """Give what is compiled for float16 a place of its own in inductor's caches.

    In torch 2.11 the key of a compiled graph has it that there is autocast, and not to which type:
    with the caches of grad_scaler autocast trained in float16 without a scaler, and the
    names of its kernels alone showed it (pytorch pull request 181564).
    """
    settings = getattr(torch.compiler, "config", None)
    if settings is not None and hasattr(settings, "cache_key_tag"):
        settings.cache_key_tag = (
            f"{CACHE_KEY_TAG}float16" if variant == "grad_scaler" else CACHE_KEY_TAG
        )


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
    """ResNet-50 of torchvision with the stem that is usual for images of 32 x 32, or a tiny
    relative.

    The stem for larger images would shrink them to 8 x 8 at once, and leave a sixteenth of the
    work.

    Raises:
        RuntimeError: torchvision is not there.
    """
    if SMALL:
        stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        return nn.Sequential(
            stem, Residual(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES)
        )
    try:
        from torchvision.models import resnet50  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
    except ImportError as missing:
        raise RuntimeError(
            f"resnet50_cifar: {missing}. It trains torchvision's ResNet-50: install the "
            f"torchvision that goes with "
            f"torch {torch.__version__}, or set PERFGATE_SMALL=1 to train a tiny network instead."
        ) from missing
    model: nn.Module = resnet50(num_classes=CLASSES)
    model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model
