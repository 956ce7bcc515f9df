"""What a loop is bound by and what usually helps, and that nothing is said without evidence."""

from __future__ import annotations

import pytest
from support.breakdowns import copied
from support.cases import named
from syrupy.assertion import SnapshotAssertion

from perfgate.explain.advice import advise, classify, new_advice
from perfgate.explain.breakdown import RunBreakdown
from perfgate.model.diagnosis import Advice, Classified, Topic
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import (
    OTHER_RANGES,
    OTHER_SYNCS,
    OUTSIDE_RANGES,
    Breakdown,
    CopySample,
    RangeSample,
    SyncSample,
)
from perfgate.model.verdict import MetricVerdict

M = Metric
STEP = {M.STEP_MS: 10.0, M.KERNEL_MS: 9.0, M.GAP_MS: 0.2, M.LAUNCHES: 100.0}
IDLE = {**STEP, M.KERNEL_MS: 3.0, M.GAP_MS: 6.5}


def under(name: str, *, cpu_ms: float = 1.0, **values: float) -> RangeSample:
    """A range with `gap_ms`, `launches` and others by the names of the metrics."""
    held = {Metric(metric): value for metric, value in values.items()}
    return RangeSample(name=name, count=1, cpu_ms=cpu_ms, values=held)


def of(
    own: dict[Metric, float],
    *ranges: RangeSample,
    copies: tuple[CopySample, ...] = (),
    syncs: tuple[SyncSample, ...] = (),
    gpus: int = 1,
) -> RunBreakdown:
    return RunBreakdown(own=own, ranges=ranges, copies=copies, syncs=syncs, gpus=gpus)


# What it is bound by


LOADING = under("get batch", cpu_ms=6.5, gap_ms=6.0)
LAUNCHING = under("forward", gap_ms=4.0, launches=100)
LAUNCHES = {**STEP, M.KERNEL_MS: 5.0, M.GAP_MS: 4.0}
BOUND = {
    "compute": of(STEP),
    "compute of four GPUs, each of them": of({**STEP, M.KERNEL_MS: 36.0}, gpus=4),
    "NCCL": of({**STEP, M.NCCL_EXPOSED_MS: 3.0}),
    "copies": of({**STEP, M.H2D_EXPOSED_MS: 3.0}),
    "other copies": of({**STEP, M.MEM_EXPOSED_MS: 3.0}),
    "ranges that launch next to nothing": of(
        IDLE, LOADING, under("forward", gap_ms=0.5, launches=100)
    ),
    "no longer than launches take": of(LAUNCHES, LAUNCHING),
}


def test_the_largest_part_of_the_step_names_it(snapshot: SnapshotAssertion) -> None:
    found = {name: classify(breakdown) for name, breakdown in BOUND.items()}
    assert {
        name: one and (one.bound, round(one.share, 3), one.evidence) for name, one in found.items()
    } == snapshot


@pytest.mark.parametrize(
    "breakdown",
    named(
        {
            "a baseline": (Breakdown(ranges=(LOADING,)),),
            "of an unknown number of GPUs": (of(STEP, gpus=0),),
            "no step": (of({**STEP, M.STEP_MS: 0.0}),),
            "mostly not kernels": (of({**STEP, M.KERNEL_MS: 2.0}),),
            "more than the step": (of({**STEP, M.GAP_MS: 12.0}),),
            "idle for longer than launches": (of({**IDLE, M.LAUNCHES: 10.0}, LAUNCHING),),
            "under no range": (of(IDLE, under(OUTSIDE_RANGES, gap_ms=6.5)),),
            "nothing launched": (of({**IDLE, M.KERNEL_MS: 0.0, M.LAUNCHES: 0.0}, LAUNCHING),),
        }
    ),
)
def test_where_the_figures_do_not_say_it_is_bound_by_nothing(breakdown: Breakdown) -> None:
    assert classify(breakdown) is None


# What usually helps


def wait(call: str, cpu_ms: float = 0.5, *, name: str = "log", count: float = 1.0) -> SyncSample:
    return SyncSample(call=call, range=name, count=count, cpu_ms=cpu_ms)


PINNED = {**STEP, M.H2D_MS: 1.0, M.H2D_EXPOSED_MS: 0.96}
COPYING = (
    under("copy", h2d_ms=0.9, pageable_copies=2.0),
    under("pinned", h2d_ms=2.0, pageable_copies=0.0),
)
SMALL = copied("pageable", 1, gpu_ms=0.01)
MANAGED = CopySample(direction="Unified Host-to-Device", host=None, count=9, bytes=9e6, gpu_ms=2.99)
HELPS = {
    "managed memory that moves to the GPU": of(
        {**STEP, M.H2D_MS: 3.0}, under("copy", h2d_ms=3.0), copies=(SMALL, MANAGED)
    ),
    "nothing but pageable copies, as the table has them": of(
        {**STEP, M.H2D_MS: 2.0}, copies=(copied("pageable", 2, gpu_ms=2.1),)
    ),
    "pageable copies": of(
        STEP, *COPYING, copies=(copied("pageable", 2, gpu_ms=0.9), copied("pinned", 2, gpu_ms=2.0))
    ),
    "few of them": of(STEP, *COPYING, copies=(copied("pageable", 2, gpu_ms=0.1),)),
    "copies that nothing hides": of(PINNED, under("copy", h2d_ms=1.0)),
    "half of them hidden": of({**PINNED, M.H2D_EXPOSED_MS: 0.5}, under("copy", h2d_ms=1.0)),
    "a sum of four GPUs, and waiting their mean": of(
        {**PINNED, M.H2D_MS: 4.0, M.KERNEL_MS: 36.0}, gpus=4
    ),
    "a short wait": of(STEP, syncs=(wait("cudaStreamSynchronize", 0.1),)),
    "other waits": of(STEP, syncs=(wait(OTHER_SYNCS, 5.0, name=OTHER_RANGES),)),
    "a loader": of(IDLE, LOADING),
    "a range that takes far longer than the GPU waits": of(
        IDLE, under("epoch", cpu_ms=60.0, gap_ms=6.0)
    ),
    "launches": of(LAUNCHES, LAUNCHING),
    "launches next to graphs": of({**LAUNCHES, M.GRAPH_LAUNCHES: 2.0}, LAUNCHING),
}


def test_what_usually_helps_is_said_with_its_evidence(snapshot: SnapshotAssertion) -> None:
    assert {
        name: [(one.topic, one.range, one.evidence, one.usually) for one in advise(breakdown)]
        for name, breakdown in HELPS.items()
    } == snapshot


@pytest.mark.parametrize(
    ("call", "copies", "code"),
    [
        ("cudaDeviceSynchronize_v3020", {"h2d_copies": 1.0, "d2h_copies": 0.0}, "for-work"),
        ("cudaStreamSynchronize", {"h2d_copies": 0.0, "d2h_copies": 1.0}, "for-read"),
        ("cudaStreamSynchronize", {"h2d_copies": 1.0, "d2h_copies": 0.0}, "for-sent"),
        ("cudaStreamSynchronize", {"h2d_copies": 1.0, "d2h_copies": 1.0}, "for-read"),
        ("cudaStreamSynchronize", {"h2d_copies": 2.0, "d2h_copies": 1.0}, "for-read"),
        ("cudaStreamSynchronize", {"h2d_copies": 2.0, "d2h_copies": 0.1}, "for-sent"),
        ("cudaStreamSynchronize", {"h2d_copies": 0.0, "d2h_copies": 0.0}, "for-work"),
        ("cudaStreamSynchronize", {}, "for-read"),
        ("cuMemcpyHtoD_v2", {}, "for-sent"),
    ],
)
def test_a_wait_is_for_what_the_call_or_the_copies_under_its_range_say(
    call: str, copies: dict[str, float], code: str
) -> None:
    (found,) = advise(of(STEP, under("log", **copies), syncs=(wait(call, count=3.0),)))
    assert (found.topic, found.range) == (Topic.SYNCHRONISATION, "log")
    assert found.what.code == f"advice-wait-{code}"


def test_in_a_gate_only_what_has_risen_is_advised_on() -> None:
    def rows(metric: Metric, before: float, now: float) -> tuple[MetricVerdict, ...]:
        lost = Outcome.REGRESSED
        return (MetricVerdict(metric=metric, outcome=lost, baseline=before, now=now),)

    loading = of(IDLE, LOADING)
    assert [one.topic for one in new_advice(rows(M.GAP_MS, 1.0, 6.5), loading)] == [Topic.LOADER]
    assert new_advice(rows(M.GAP_MS, 8.0, 6.5), loading) == ()
    assert new_advice(rows(M.SYNCS, 1.0, 2.0), loading) == ()


def test_what_an_older_perfgate_wrote_keeps_its_words() -> None:
    old = {"topic": "loader", "range": "load", "evidence": "it waits", "usually": "Workers help."}
    read = Advice.model_validate(old)
    assert read.evidence == "it waits"
    assert Advice.model_validate_json(read.model_dump_json()) == read
    bound = Classified.model_validate(
        {"bound": "input-bound", "share": 0.5, "evidence": "it idles"}
    )
    assert bound.evidence == "it idles"
    assert Classified.model_validate_json(bound.model_dump_json()) == bound
