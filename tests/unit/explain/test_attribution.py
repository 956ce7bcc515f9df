"""How a change is made up: by range, kernel, kind of copy and call; the parts add up to the whole,
and what is named of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.breakdowns import BY_NODE, EAGER, WHOLE, copied, kernels, ranges, under
from syrupy.assertion import SnapshotAssertion

from perfgate.explain.attribution import attributions, largest, where
from perfgate.explain.breakdown import kept
from perfgate.model.diagnosis import Attribution, Axis, Part
from perfgate.model.metric import Metric
from perfgate.model.note import Note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import (
    OTHER_RANGES,
    OUTSIDE_RANGES,
    Breakdown,
    KernelSample,
    SyncSample,
)
from perfgate.model.verdict import MetricVerdict
from perfgate.words import say

M = Metric


def moved(metric: Metric, before: float, now: float) -> tuple[MetricVerdict, ...]:
    return (MetricVerdict(metric=metric, outcome=Outcome.REGRESSED, baseline=before, now=now),)


def said(before: Breakdown, now: Breakdown, *rows: MetricVerdict) -> list[str]:
    """A line an attribution, and one what is said of them."""
    found = attributions(before, now, rows)
    lines: list[str] = []
    for one in found:
        parts = [
            f"{part.change:+.4g} {part.metric} {part.name}{f' ({part.note})' if part.note else ''}"
            for part in one.parts
        ]
        rest = [f"{one.rest:+.4g} rest"] if abs(one.rest) > 1e-9 else []
        lines.append(f"{one.metric} by {one.axis}: {', '.join([*parts, *rest])}")
    return [*lines, *map(say.fact, where(found).values())]


def nccl(k_ms: float, *others: KernelSample) -> Breakdown:
    return Breakdown(kernels=(*kernels(k=(1, k_ms)).kernels, *others))


def gaps(before: Mapping[str, float], now: Mapping[str, float]) -> tuple[object, ...]:
    sides = under(M.GAP_MS, **before), under(M.GAP_MS, **now)
    return (*sides, *moved(M.GAP_MS, sum(before.values()), sum(now.values())))


def copying(pageable: float, d2h: float, set_ms: float = 0.0) -> Breakdown:
    copies = (
        copied("pinned", 2),
        copied("pageable", d2h, direction="Device-to-Host"),
        *([copied("pageable", pageable)] if pageable else []),
    )
    memsets = KernelSample(name="CUDA memset", count=1, gpu_ms=set_ms, kind="memory")
    return Breakdown(copies=copies, kernels=(memsets,))


NCCL = (
    nccl(1.0),
    nccl(
        2.0,
        KernelSample(name="ncclDevKernel", count=2, gpu_ms=9.0, kind="nccl"),
        KernelSample(name="CUDA memcpy Host-to-Device", count=1, gpu_ms=9.0, kind="memory"),
    ),
)
FILL = "void at::native::fill<(int)4>(float *)"
BY_NODE_COPYING = BY_NODE.model_copy(update={"copies": (copied("pinned", 1),)})
CALL = SyncSample(call="cudaStreamSynchronize", range="loss_log", count=1, cpu_ms=2.0)
COPYING = copying(0, 1, 0.5), copying(2, 3, 0.75)
EXPOSED = under(M.H2D_EXPOSED_MS, loss=0.2, b=0.8), under(M.H2D_EXPOSED_MS, loss=0.2, b=1.7)
CASES: dict[str, tuple[Any, ...]] = {
    "kernels are described by what changed of them": (
        kernels(gemm=(10, 5.0), gone=(1, 0.5), more=(4, 0.4), slower=(2, 1.0), spin=(1, 0.01)),
        kernels(gemm=(10, 5.0), more=(6, 0.6), slower=(2, 1.3), spin=(1, 1.0), new=(3, 0.9)),
        *moved(M.KERNEL_MS, 6.91, 8.8),
    ),
    "a name is short also against a key": (
        kept(kernels(**{FILL: (1, 1.0)})),
        kernels(**{FILL: (1, 1.5)}),
        *moved(M.KERNEL_MS, 1.0, 1.5),
    ),
    "of torch.compile's kernels the numbers move": (
        kept(kernels(triton_poi_fused_add_1=(1, 2.0), triton_poi_fused_add_3=(1, 3.0))),
        kernels(triton_poi_fused_add_0=(2, 5.0), triton_poi_fused_add_2=(1, 4.0)),
        *moved(M.KERNEL_MS, 5.0, 9.0),
    ),
    "NCCL's kernels are no part of kernel time": (*NCCL, *moved(M.KERNEL_MS, 1.0, 2.0)),
    "and are launched": (*NCCL, *moved(M.LAUNCHES, 1.0, 3.0)),
    "with a graph no kernel is blamed for launches": (EAGER, BY_NODE, *moved(M.LAUNCHES, 100, 0)),
    "nor without it": (BY_NODE, EAGER, *moved(M.LAUNCHES, 0, 100)),
    "whole graphs are taken apart by range alone": (
        WHOLE,
        BY_NODE_COPYING,
        *moved(M.KERNEL_MS, 0.1, 10.0),
        *moved(M.H2D_COPIES, 0, 1),
    ),
    "what nothing hides lengthens the step": (
        *EXPOSED,
        *moved(M.STEP_MS, 10.0, 10.9),
        *moved(M.H2D_EXPOSED_MS, 1.0, 1.9),
    ),
    "an old baseline knows nothing of it": (
        under(M.KERNEL_MS, b=5.0),
        EXPOSED[1],
        *moved(M.H2D_EXPOSED_MS, 1.0, 1.9),
    ),
    "a step without a GPU is its ranges' own time": (
        under(M.STEP_MS, load=4.0, train=6.0),
        under(M.STEP_MS, load=6.4, train=6.0),
        *moved(M.STEP_MS, 10.0, 12.4),
    ),
    "what may have been among the others is not blamed": gaps(
        {"large": 5.0, OTHER_RANGES: 1.0}, {"large": 5.5, "small": 0.6, "smaller": 0.4}
    ),
    "what is more than all others were": gaps(
        {"large": 5.0, OTHER_RANGES: 0.2}, {"large": 5.0, "stall": 2.2}
    ),
    "what is larger than the smallest that is named": gaps(
        {"large": 5.0, "least": 1.0, OTHER_RANGES: 8.0}, {"large": 5.0, "least": 1.0, "grew": 9.5}
    ),
    "what may be among the others now": gaps(
        {"large": 5.0, "small": 1.0, OTHER_RANGES: 1.0}, {"large": 5.0, OTHER_RANGES: 2.5}
    ),
    "new, and outside of any range": gaps({"a": 1.0}, {"a": 1.0, "b": 2.0, OUTSIDE_RANGES: 1.0}),
    "gone": gaps({"a": 1.0, "b": 2.0}, {"a": 1.0}),
    "no ranges before": (Breakdown(), under(M.KERNEL_MS, a=1.5), *moved(M.KERNEL_MS, 1.0, 1.5)),
    "not measured by range now": (
        under(M.KERNEL_MS, a=1.0),
        ranges({"a": {}}),
        *moved(M.KERNEL_MS, 1.0, 1.5),
    ),
    "no calls before": (
        under(M.KERNEL_MS, a=1.0),
        ranges({"a": {M.KERNEL_MS: 1.5, M.LAUNCHES: 1.0}}),
        *moved(M.KERNEL_MS, 1.0, 1.5),
    ),
    "copies by direction and memory": (
        *COPYING,
        *moved(M.PAGEABLE_COPIES, 1, 5),
        *moved(M.D2H_COPIES, 1, 3),
        *moved(M.H2D_BYTES, 2000, 4000),
    ),
    "other copies and memsets": (
        *COPYING,
        *moved(M.MEM_EXPOSED_MS, 0.6, 1.05),
        *moved(M.STEP_MS, 4.0, 4.45),
    ),
    "copies as they were": (COPYING[0], COPYING[0], *moved(M.STEP_MEAN_MS, 4.0, 6.0)),
    "calls with their range": (Breakdown(), Breakdown(syncs=(CALL,)), *moved(M.SYNCS, 0, 1)),
}


def test_what_a_change_is_made_up_of(snapshot: SnapshotAssertion) -> None:
    assert {name: said(*case) for name, case in CASES.items()} == snapshot


# Which metrics, in which order, and of which process


@pytest.mark.parametrize(
    ("change", "budget", "outcome", "is_taken_apart"),
    [
        (0.006, 0.01, Outcome.INCONCLUSIVE, True),
        (0.004, 0.01, Outcome.INCONCLUSIVE, False),
        (0.5, 0.01, Outcome.PASSED, False),
        (-0.5, 0.01, Outcome.IMPROVED, True),
    ],
)
def test_what_is_judged_to_have_moved_is_taken_apart(
    change: float | None, budget: float | None, outcome: Outcome | None, *, is_taken_apart: bool
) -> None:
    row = MetricVerdict(
        metric=M.GAP_MS, outcome=outcome, baseline=1.0, now=1.5, change=change, budget=budget
    )
    found = attributions(under(M.GAP_MS, a=1.0), under(M.GAP_MS, a=1.5), (row,))
    assert bool(found) is is_taken_apart


# Where it was, as notes


def made_up(
    change: float, parts: Mapping[str, float], *, axis: Axis = Axis.RANGE, metric: Metric = M.SYNCS
) -> Attribution:
    rows = tuple(
        Part(metric=metric, name=name, before=0, now=max(of, 0), change=of)
        for name, of in parts.items()
    )
    rest = change - sum(parts.values())
    return Attribution(metric=metric, axis=axis, change=change, parts=rows, rest=rest)


@pytest.mark.parametrize(
    ("change", "parts", "named"),
    [
        (1.0, {"b": 0.4, "d": 0.3, "c": 0.2, "a": 0.1}, ["b", "d", "c"]),
        (4.1, {"data": 3.9, "forward": 0.1}, ["data"]),
        (1.0, {"a": 1.5, "b": -0.5}, ["a", "b"]),
        (1.0, {"a": 1.05, "b": -0.05}, ["a"]),
        (-2.0, {"a": -2.0, "b": 0.01}, ["a"]),
    ],
    ids=["three", "too small a part", "against it", "about the whole", "for the better"],
)
def test_the_largest_parts_that_went_its_way_are_named(
    change: float, parts: Mapping[str, float], named: list[str]
) -> None:
    assert [part.name for part in largest(made_up(change, parts))] == named


def codes(found: Note) -> list[str]:
    axes = found.fields["axes"]
    assert isinstance(axes, tuple)
    return [one.code for one in axes if isinstance(one, Note)]


def test_a_metric_without_a_part_that_moved_its_way_has_no_entry() -> None:
    assert where([made_up(1.0, {"a": -1.0}, axis=Axis.CALL), made_up(1.0, {})]) == {}


@pytest.mark.parametrize("step", [M.STEP_MS, M.STEP_MEAN_MS])
def test_a_step_that_takes_longer_while_no_part_of_it_does_is_said_to(step: Metric) -> None:
    assert codes(where([made_up(0.3, {}, metric=step)])[step]) == ["where-in-turn"]
    assert where([made_up(-0.3, {}, metric=step)]) == {}
