"""Training loops in which one regression can be planted, to try the gate: `REGRESSION=item pytest
--perfgate workloads/regressions.py`.

A regression is named by the environment, not by a parameter: a workload's id and parameters are the
same with and without it, so that one baseline serves both. For the same reason both sides of an
A/B run would have it: gate with `ab_run = "off"`.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import nvtx
import pytest
import torch
import torch.distributed
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from perfgate import Steps, workload

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
Batch = tuple[torch.Tensor, torch.Tensor]

if not CUDA:
    # At the sizes for a CPU, threads cost more than they save.
    torch.set_num_threads(1)


@dataclass(frozen=True, kw_only=True)
class Regression:
    """One row of the table: a regression, and what a gate must make of it."""

    name: str
    workload: str
    """The loop that it is planted in; the others stay clean."""
    does: str
    caught_by: tuple[str, ...]
    """Metrics each of which must have REGRESSED."""
    culprits: tuple[str, ...]
    """Of which the first line of the explanation must name one: the range (before any other),
    kernel or copy.
    """
    may_follow: tuple[str, ...] = ()
    """Metrics that may have REGRESSED as well, being consequences; any other is wrongly blamed."""
    needs_cuda: bool = False
    """Whether it is nothing without CUDA; the loop is then skipped."""
    share: float = 0.0
    """Of the clean step_ms: what REGRESSION_CYCLES must make of the sleep kernel."""


_WAITS = ("gap_ms", "step_ms")
"""Where the CPU waits each step it is no longer ahead: the GPU may idle until the next step's first
kernels come.
"""

REGRESSIONS: Mapping[str, Regression] = MappingProxyType(
    {
        regression.name: regression
        for regression in (
            Regression(
                name="item",
                workload="eager",
                does="loss.item() each step",
                caught_by=("d2h_copies", "syncs"),
                culprits=("under log",),
                # Older torch has the number copied to pageable memory.
                may_follow=("pageable_copies", *_WAITS),
            ),
            Regression(
                name="cpu",
                workload="eager",
                does="outputs.cpu() each step, to pageable memory",
                caught_by=("d2h_copies", "pageable_copies", "syncs"),
                culprits=("under log",),
                may_follow=_WAITS,
            ),
            Regression(
                name="print",
                workload="eager",
                does=(
                    "print(loss) each step: some kernels, and a copy to the host for each "
                    "of several numbers"
                ),
                caught_by=("launches", "d2h_copies", "syncs"),
                culprits=("under log",),
                may_follow=("pageable_copies", "kernel_ms", *_WAITS),
            ),
            Regression(
                name="pageable",
                workload="eager",
                does="a loader without pin_memory",
                caught_by=("pageable_copies",),
                culprits=("under copy batch",),
                may_follow=("h2d_ms", *_WAITS),
                needs_cuda=True,
            ),
            Regression(
                name="blocking_copy",
                workload="eager",
                does="copies from pinned memory, but with non_blocking=False",
                caught_by=("syncs",),
                culprits=("under copy batch",),
                may_follow=_WAITS,
                needs_cuda=True,
            ),
            Regression(
                name="no_workers",
                workload="eager",
                does=(
                    "num_workers=0: the training process decodes the images itself, longer "
                    "than the GPU computes"
                ),
                caught_by=("step_ms", "gap_ms"),
                culprits=("under get batch",),
            ),
            Regression(
                name="synchronize",
                workload="eager",
                does="torch.cuda.synchronize() each step",
                caught_by=("syncs",),
                culprits=("under log",),
                may_follow=_WAITS,
                needs_cuda=True,
            ),
            Regression(
                name="empty_cache",
                workload="eager",
                does=(
                    "torch.cuda.empty_cache() each step: cudaFree waits for the GPU, and "
                    "the next step allocates anew"
                ),
                caught_by=("step_ms", "gap_ms"),
                # On a slow host what is allocated anew takes longer than the wait.
                culprits=("under log", "under forward"),
                # Memory that was just mapped is in no TLB.
                may_follow=("syncs", "kernel_ms"),
                needs_cuda=True,
            ),
            Regression(
                name="unfused_optimizer",
                workload="eager",
                does="Adam with foreach=False and fused=False: some ten kernels for each parameter",
                caught_by=("launches",),
                culprits=("under optimizer",),
                may_follow=("kernel_ms", *_WAITS),
            ),
            Regression(
                name="host_augmentation",
                workload="eager",
                does=(
                    "images flipped and normalised by the loader, so that float32 is "
                    "copied in place of uint8"
                ),
                caught_by=("h2d_bytes",),
                culprits=("under copy batch",),
                may_follow=("h2d_ms", *_WAITS),
            ),
            *(
                Regression(
                    name=f"sleep_{percent}",
                    workload="eager",
                    does=f"a kernel that sleeps for {percent} % of the clean step",
                    caught_by=("kernel_ms",),
                    culprits=("under log",),
                    may_follow=("step_ms",),
                    needs_cuda=True,
                    share=percent / 100,
                )
                for percent in (1, 2, 3)
            ),
            Regression(
                name="fp32_matmul",
                workload="mixed",
                does="one layer's product in float32 under autocast",
                caught_by=("step_ms", "kernel_ms"),
                culprits=("gemm",),
                # Two casts fewer, but cuBLAS may split a product over two kernels.
                may_follow=("launches",),
            ),
            Regression(
                name="channels_last",
                workload="mixed",
                does=(
                    "contiguous() in each block: the images are transposed to NCHW, and by "
                    "the convolution back"
                ),
                caught_by=("kernel_ms", "launches"),
                culprits=("direct_copy_kernel",),
                may_follow=_WAITS,
            ),
            Regression(
                name="recompiles",
                workload="compiled",
                does=(
                    "another number of rows each step: torch.compile gives up at its "
                    "limit, and the loop runs eagerly"
                ),
                caught_by=("launches",),
                culprits=("under forward",),
                may_follow=("kernel_ms", *_WAITS),
            ),
            Regression(
                name="graph_break",
                workload="compiled",
                does=(
                    "a graph break between two blocks, across which nothing is fused: an "
                    "addition runs by itself"
                ),
                # Whether more kernels are launched is inductor's choice: what is left is fused
                # otherwise.
                caught_by=("kernel_ms",),
                culprits=("triton_poi_fused_add (1 -> 2 a step",),
                may_follow=("launches", *_WAITS),
            ),
            Regression(
                name="bucket_copies",
                workload="ddp",
                does=(
                    "no gradient_as_bucket_view: DistributedDataParallel copies each "
                    "gradient out of its bucket"
                ),
                # They come after the last kernel of the backward pass, so that nothing hides them.
                caught_by=("step_ms",),
                culprits=("Device-to-Device",),
            ),
        )
    }
)
"""Every regression, by name, in the order of its loops."""

NONE = "none"
"""REGRESSION of the clean loops."""


def chosen_regression(name: str) -> str:
    """Return the regression of that name, `none` for no name.

    Raises:
        ValueError: there is no such regression.
    """
    if name in ("", NONE):
        return NONE
    if name not in REGRESSIONS:
        raise ValueError(
            f"REGRESSION is {name!r}, expected one of: {', '.join((NONE, *REGRESSIONS))}."
        )
    return name


def sleep_cycles(regression: str, found: str | None) -> int:
    """Return the clock cycles of the sleep kernel: next to none where no sleep is planted, so that
    no count differs.

    The regression's are fixed by whoever gates, from the blessed step_ms and the SM clock, and not
    measured here: the planted time is then the same in every run.

    Raises:
        ValueError: a sleep is planted, and `found` is no number of cycles.
    """
    if regression not in REGRESSIONS or not REGRESSIONS[regression].share:
        return 100
    if found is None or not found.isdecimal() or not int(found):
        percent = f"{100 * REGRESSIONS[regression].share:g} %"
        raise ValueError(
            f"REGRESSION_CYCLES is {found!r}, expected the clock cycles of "
            f"REGRESSION={regression}: "
            f"{percent} of the blessed step_ms, times the SM clock in cycles per ms."
        )
    return int(found)


REGRESSION = chosen_regression(os.environ.get("REGRESSION", NONE))
SLEEP_CYCLES = sleep_cycles(REGRESSION, os.environ.get("REGRESSION_CYCLES"))


def planted(regression: str) -> bool:
    """Whether this regression is the one that was chosen."""
    assert regression in REGRESSIONS, regression
    return regression == REGRESSION


def skip_without_cuda(loop: str) -> None:
    """Skip a loop whose regression is nothing on this machine: it would be measured as if it were
    clean.
    """
    if (
        REGRESSION in REGRESSIONS
        and REGRESSIONS[REGRESSION].workload == loop
        and REGRESSIONS[REGRESSION].needs_cuda
        and not CUDA
    ):
        pytest.skip(f"the regression {REGRESSION} needs CUDA")


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in memory from which it is copied each step: pinned where there is a GPU to
    copy to.
    """
    return tensor.pin_memory() if CUDA else tensor


# eager: a loader with workers and pinned memory, images augmented on the GPU, fused Adam.

CLASSES = 10
WORKERS = min(8, len(os.sched_getaffinity(0))) if CUDA else 1
"""So many decode a batch in less than a step of the GPU, which one alone does not."""


class Images(Dataset[Batch]):
    """Batches of images that are decoded as they are asked for, the same for an index in every
    process.
    """

    def __init__(self, *, batches: int, size: int, side: int) -> None:
        self._batches = batches
        self._size = size
        self._side = side

    def __len__(self) -> int:
        """Batches, not images."""
        return self._batches

    def __getitem__(self, index: int) -> Batch:
        """Decode a batch: uint8 images, (size, 3, side, side), from twice as many pixels each way,
        and labels.
        """
        generator = torch.Generator().manual_seed(index)
        shape = (self._size, 3, 2 * self._side, 2 * self._side)
        decoded = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        images = decoded[:, :, ::2, ::2].contiguous()
        labels = torch.randint(0, CLASSES, (self._size,), generator=generator)
        return (augmented(images) if planted("host_augmentation") else images), labels


def augmented(images: torch.Tensor) -> torch.Tensor:
    """Flip every other image or so and normalise all, wherever they are."""
    flipped = torch.rand(len(images), device=images.device) < 0.5
    return (
        torch.where(flipped[:, None, None, None], images.flip(3), images)
        .float()
        .sub_(127.5)
        .div_(64.0)
    )


def block(channels_in: int, channels: int) -> nn.Sequential:
    """A convolution, normalised and rectified."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels, 3, padding=1, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
    )


@workload(steps=30, warmup=120)
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def eager(steps: Steps) -> None:
    """A small convolutional net in float32; nothing waits for the GPU but the CPU at the end of its
    launch queue.
    """
    skip_without_cuda("eager")
    size, side, channels, depth = (64, 64, 64, 8) if CUDA else (4, 8, 4, 1)
    torch.manual_seed(0)
    workers = 0 if planted("no_workers") else WORKERS
    loader = DataLoader(
        # More batches than steps: to the last step the workers are at work.
        Images(batches=len(steps) + 8 * WORKERS, size=size, side=side),
        batch_size=None,
        num_workers=workers,
        pin_memory=CUDA and not planted("pageable"),
        # Not spawn: a fresh process cannot import the file by the name that pytest has given it.
        multiprocessing_context="fork" if workers else None,
    )
    # Before anything is on the GPU: the workers are forked, and touch nothing but tensors in
    # memory.
    batches = iter(loader)
    model = nn.Sequential(
        block(3, channels),
        *(block(channels, channels) for _ in range(depth)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, CLASSES),
    ).to(DEVICE)
    if planted("unfused_optimizer"):
        optimizer = torch.optim.Adam(model.parameters(), foreach=False, fused=False)
    else:
        optimizer = torch.optim.Adam(model.parameters(), fused=CUDA)
    non_blocking = not planted("blocking_copy")
    for _ in steps:
        with nvtx.annotate("get batch"):
            images, labels = next(batches)
        with nvtx.annotate("copy batch"):
            images = images.to(DEVICE, non_blocking=non_blocking)
            labels = labels.to(DEVICE, non_blocking=non_blocking)
        with nvtx.annotate("augment"):
            if not planted("host_augmentation"):
                images = augmented(images)
        with nvtx.annotate("forward"):
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
        with nvtx.annotate("backward"):
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
        with nvtx.annotate("optimizer"):
            optimizer.step()
        with nvtx.annotate("log"):
            log(loss.detach(), outputs.detach())


def log(loss: torch.Tensor, outputs: torch.Tensor) -> None:
    """Nothing that waits, but for the regressions; and the short sleep kernel that three of them
    make longer.
    """
    if CUDA:
        torch.cuda._sleep(SLEEP_CYCLES)  # type: ignore[no-untyped-call]
    if planted("item"):
        loss.item()
    if planted("cpu"):
        outputs.cpu()
    if planted("print"):
        print(loss)  # noqa: T201 - the regression
    if planted("synchronize"):
        torch.cuda.synchronize()
    if planted("empty_cache"):
        torch.cuda.empty_cache()


# mixed: autocast to bfloat16, images and weights channels last.


class MixedNet(nn.Module):
    """Convolutions, then one class for each square of two by two pixels."""

    def __init__(self, channels: int, depth: int, classes: int) -> None:
        super().__init__()
        self.stem = block(3, channels)
        self.blocks = nn.ModuleList(block(channels, channels) for _ in range(depth))
        self.classes = nn.Linear(channels, classes, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits, (squares of all images, classes)."""
        features = self.stem(images)
        for convolved in self.blocks:
            if planted("channels_last"):
                features = features.contiguous()
            features = convolved(features)
        # Channels are last in memory: this is a view.
        squares = functional.avg_pool2d(features, 2).permute(0, 2, 3, 1).flatten(0, 2)
        if planted("fp32_matmul"):
            with torch.autocast(DEVICE, enabled=False):
                return functional.linear(squares.float(), self.classes.weight)
        return functional.linear(squares, self.classes.weight)


@workload(steps=30, warmup=120)
def mixed(steps: Steps) -> None:
    """A convolutional net in bfloat16, channels last; batches are copied from pinned memory, and
    nothing waits.
    """
    skip_without_cuda("mixed")
    size, side, channels, depth, classes = (64, 64, 128, 8, 1024) if CUDA else (2, 8, 8, 2, 16)
    torch.manual_seed(0)
    # As torch has it, unless the environment says otherwise: with TF32 the planted product would
    # cost next to nothing.
    torch.set_float32_matmul_precision("highest")
    model = MixedNet(channels, depth, classes).to(DEVICE)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.Adam(model.parameters(), fused=CUDA)
    batches = [
        on_host(torch.randn(size, 3, side, side).contiguous(memory_format=torch.channels_last))
        for _ in range(4)
    ]
    labels = torch.randint(0, classes, (size * (side // 2) ** 2,)).to(DEVICE)
    for step in steps:
        with nvtx.annotate("copy batch"):
            images = batches[step % len(batches)].to(DEVICE, non_blocking=True)
        with nvtx.annotate("forward"), torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = functional.cross_entropy(model(images), labels)
        with nvtx.annotate("backward"):
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
        with nvtx.annotate("optimizer"):
            optimizer.step()


# compiled: torch.compile for one shape, in one graph.


class Residual(nn.Module):
    """Normalise, rectify, project, add: of which all but the product is fused."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, width)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows as they came, (n, width), and something added."""
        added: torch.Tensor = self.project(functional.gelu(self.norm(rows)))
        return rows + added


class CompiledNet(nn.Module):
    """A chain of residual blocks in two halves."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.first = nn.Sequential(*(Residual(width) for _ in range(depth // 2)))
        self.second = nn.Sequential(*(Residual(width) for _ in range(depth // 2)))
        self.is_broken = planted("graph_break")

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows in, rows out, (n, width)."""
        halfway: torch.Tensor = self.first(rows)
        if self.is_broken:
            torch._dynamo.graph_break()
        whole: torch.Tensor = self.second(halfway)
        return whole


FEWER_ROWS = 8 if CUDA else 1
"""In each step than in the one before, with recompiles planted."""


@workload(steps=30, warmup=60)
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def compiled(steps: Steps) -> None:
    """A chain of residual blocks in bfloat16, compiled for the one shape that its rows have; they
    stay on the GPU.
    """
    skip_without_cuda("compiled")
    rows, width, depth = (1 << 19, 256, 4) if CUDA else (1 << 8, 8, 2)
    torch.manual_seed(0)
    net = CompiledNet(width, depth).to(DEVICE, torch.bfloat16)
    # Without a GPU only what torch.compile does in Python is tried, and no compiler is needed.
    model = torch.compile(net, dynamic=False, backend="inductor" if CUDA else "eager")
    optimizer = torch.optim.Adam(net.parameters(), fused=CUDA)
    data = torch.randn(rows, width, device=DEVICE, dtype=torch.bfloat16)
    for step in steps:
        inputs = data[: rows - FEWER_ROWS * (step + 1)] if planted("recompiles") else data
        with nvtx.annotate("forward"):
            loss = model(inputs).square().mean(dtype=torch.float32)
        with nvtx.annotate("backward"):
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
        with nvtx.annotate("optimizer"):
            optimizer.step()


# ddp: a process group of one rank, in which gradients are reduced where they lie.


# So much warm-up that no 100th step is among the measured ones: in those the reducer waits, to time
# itself.
@workload(steps=30, warmup=120)
def ddp(steps: Steps) -> None:
    """Wide layers and few rows, so that a step is spent on parameters and their gradients; nothing
    waits.
    """
    skip_without_cuda("ddp")
    width, depth, rows = (8192, 4, 32) if CUDA else (16, 2, 4)
    torch.manual_seed(0)
    join_process_group()
    layers = [
        layer
        for _ in range(depth)
        for layer in (nn.Linear(width, width, bias=False, device=DEVICE), nn.ReLU())
    ]
    model = DistributedDataParallel(
        nn.Sequential(*layers), gradient_as_bucket_view=not planted("bucket_copies")
    )
    optimizer = torch.optim.Adam(model.parameters(), fused=CUDA)
    inputs = torch.randn(rows, width, device=DEVICE)
    for _ in steps:
        with nvtx.annotate("forward"):
            loss = model(inputs).square().mean()
        with nvtx.annotate("backward"):
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
        with nvtx.annotate("optimizer"):
            optimizer.step()


@cache
def join_process_group() -> None:
    """Make a process group of one, which is left when the process ends.

    Not at the end of the loop: gloo's group then joins its threads with the GIL held, and one of
    them may still want the GIL to let go of the last all-reduce. torch 2.13 hangs there now and
    then.
    """
    store = torch.distributed.HashStore()  # type: ignore[attr-defined]
    torch.distributed.init_process_group(
        "nccl" if CUDA else "gloo", store=store, rank=0, world_size=1
    )
    atexit.register(torch.distributed.destroy_process_group)
