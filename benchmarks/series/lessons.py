"""What the tutorials publish and teach of each series, as data; it measures nothing and knows no
result of ours.

A series is one training loop in several states, its variants: each holds one more optimisation than
the one before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from perfgate.model.metric import Metric


class Unit(StrEnum):
    """What a published speed counts."""

    STEPS = "steps/s"
    IMAGES = "images/s"


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What must move from the variant before to this one; a lesson without metrics is that nothing
    does."""

    every: tuple[Metric, ...] = ()
    """Each of these gets better."""
    either: tuple[Metric, ...] = ()
    """At least one of these does."""
    under: Mapping[Metric, str] = field(default_factory=dict)
    """The NVTX range that most of the gain of a metric lies under."""
    at_least: float | None = None
    """So many times as fast."""
    top_range: tuple[str, int] | None = None
    """A range that is among the longest so many, the step's own apart, on the variant before."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All that it names."""
        return (*self.every, *self.either)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One state of a loop."""

    name: str
    published: float | None = None
    """Its speed in the series's unit."""
    in_brackets: bool = False
    """Whether the source gives that number in brackets."""
    lesson: Lesson | None = None
    """None of a first variant, and of one that is not the tutorial's."""
    against: str | None = None
    """The variant that it is compared with; by default the one before it."""
    opt_in: bool = False
    """Whether it is only measured where it is named."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """One loop with its variants, the slowest first."""

    loop: str
    """The workload, and the stem of its file."""
    summary: str
    """In a few words."""
    variants: tuple[Variant, ...]
    unit: Unit | None = None
    """None where no speed is published."""
    published_on: str = ""
    batch: int | None = None
    """Images in a step of the full-sized loop."""

    def variant(self, name: str) -> Variant | None:
        """One variant by its name."""
        return next((variant for variant in self.variants if variant.name == name), None)

    def before(self, name: str) -> str | None:
        """The variant that one is compared with; None of the first, and of no variant."""
        names = [variant.name for variant in self.variants]
        variant = self.variant(name)
        if variant is None or names.index(name) == 0:
            return None
        return variant.against or names[names.index(name) - 1]


FASTER_KERNELS: Final = Lesson(every=(Metric.KERNEL_MS,))
FEWER_OR_FASTER: Final = Lesson(either=(Metric.LAUNCHES, Metric.KERNEL_MS))
"""Kernels fused."""
GRAPHS_OR_FASTER: Final = Lesson(either=(Metric.LAUNCHES, Metric.GAP_MS, Metric.KERNEL_MS))
"""Kernels run by CUDA graphs, so that the GPU waits for no launch: nsys records one span with what
is idle in it."""
NOTHING_FETCHED: Final = Lesson(every=(Metric.SYNCS, Metric.D2H_COPIES))
NO_DIFFERENCE: Final = Lesson()
DATA_LOAD_FIRST: Final = ("data_load", 2)
FIX_AT_LEAST: Final = 1.1

RESNET18_INPUT: Final = Series(
    loop="resnet18_input",
    summary="ResNet-18, images of 3x512x512 made on the fly, batch 64: the input pipeline",
    unit=Unit.STEPS,
    published_on="NVIDIA L40S",
    batch=64,
    variants=(
        Variant(name="serial", published=2.97),
        Variant(
            name="workers",
            published=4.81,
            lesson=Lesson(every=(Metric.GAP_MS,), under={Metric.GAP_MS: "get batch"}),
        ),
        Variant(
            name="pinned",
            published=5.91,
            lesson=Lesson(every=(Metric.PAGEABLE_COPIES, Metric.H2D_MS)),
        ),
        Variant(name="overlap", published=6.44, lesson=Lesson(every=(Metric.STEP_MS,))),
        Variant(name="prefetcher", published=6.44, lesson=NO_DIFFERENCE),
        Variant(name="kept", against="overlap"),
        # The prefetcher once more, where no loader that is just as fast as the GPU hides whether it
        # makes a difference.
        Variant(name="steady", lesson=NO_DIFFERENCE),
    ),
)
RESNET50_CIFAR: Final = Series(
    loop="resnet50_cifar",
    summary="ResNet-50, images of 3x32x32, batch 384 (published: 128): the training step",
    unit=Unit.IMAGES,
    batch=384,
    variants=(
        Variant(name="naive", published=995),
        Variant(name="detached", published=1049, lesson=NOTHING_FETCHED),
        Variant(name="pinned", published=1063, lesson=Lesson(every=(Metric.PAGEABLE_COPIES,))),
        Variant(name="cudnn_benchmark", published=1093, lesson=FASTER_KERNELS),
        Variant(name="compile", published=1290, lesson=FEWER_OR_FASTER),
        Variant(name="max_autotune", published=1393, lesson=GRAPHS_OR_FASTER),
        Variant(name="grad_scaler", published=2486, lesson=FASTER_KERNELS),
        # The kernels are as fast in either format; the scaler fetches each step whether a gradient
        # overflowed.
        Variant(name="autocast", published=3026, lesson=NOTHING_FETCHED),
        Variant(name="channels_last", published=3178, lesson=FASTER_KERNELS),
        Variant(name="steady"),
        Variant(
            name="exhaustive",
            published=1427,
            in_brackets=True,
            against="max_autotune",
            lesson=FASTER_KERNELS,
            opt_in=True,
        ),
    ),
)
DATA_LOAD_LAB: Final = Series(
    loop="data_load_lab",
    summary="A small CNN fed by batches made on the CPU",
    variants=(
        Variant(name="cpu"),
        Variant(
            name="gpu",
            lesson=Lesson(
                every=(Metric.H2D_COPIES, Metric.GAP_MS),
                at_least=FIX_AT_LEAST,
                top_range=DATA_LOAD_FIRST,
            ),
        ),
        Variant(
            name="workers",
            against="cpu",
            lesson=Lesson(
                either=(Metric.GAP_MS, Metric.STEP_MS),
                at_least=FIX_AT_LEAST,
                top_range=DATA_LOAD_FIRST,
            ),
        ),
    ),
)
VARIANTS: Final[Mapping[str, Series]] = MappingProxyType(
    {series.loop: series for series in (RESNET18_INPUT, RESNET50_CIFAR, DATA_LOAD_LAB)}
)
"""By loop. What is not here can be measured as well; it is then shown, and judged against nothing
that was taught."""
SCALED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "resnet50_ddp": (
            "DistributedDataParallel ResNet-50, 192 images of 3x224x224 over all ranks, one rank a "
            "GPU: a script by its YAML file. Values are those of the slowest rank, of NCCL of the "
            "one that waits least"
        )
    }
)
"""What is said of loops that climb no series: their variants are numbers of GPUs."""
