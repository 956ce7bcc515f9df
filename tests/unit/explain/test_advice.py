"""What a loop is bound by and what usually helps, and that nothing is said without evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.breakdowns import copied

from perfgate.explain.advice import advise, classify, new_advice
from perfgate.explain.breakdown import RunBreakdown
from perfgate.model.diagnosis import Advice, Bound, Classified, Topic
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


@pytest.mark.parametrize(
    ("own", "bound", "share", "code"),
    [
        (STEP, Bound.COMPUTE, 0.98, "bound-by-compute"),
        ({**STEP, M.NCCL_EXPOSED_MS: 3.0}, Bound.COMMUNICATION, 0.3, "bound-by-nccl"),
        ({**STEP, M.H2D_EXPOSED_MS: 3.0}, Bound.COPY, 0.3, "bound-by-copies"),
        ({**STEP, M.MEM_EXPOSED_MS: 3.0}, Bound.COPY, 0.3, "bound-by-other-copies"),
    ],
)
def test_the_largest_part_of_the_step_names_it(
    own: dict[Metric, float], bound: Bound, share: float, code: str
) -> None:
    found = classify(of(own))
    assert found is not None
    assert (found.bound, found.what.code) == (bound, code)
    assert found.share == pytest.approx(share)


LOADING = under("get batch", cpu_ms=6.5, gap_ms=6.0)
LAUNCHING = under("forward", gap_ms=4.0, launches=100)


def test_idle_time_under_ranges_that_launch_next_to_nothing_is_input() -> None:
    found = classify(of(IDLE, LOADING, under("forward", gap_ms=0.5, launches=100)))
    assert found is not None
    assert (found.bound, found.share, found.what.fields["ranges"]) == (
        Bound.INPUT,
        0.65,
        ("get batch",),
    )
    assert found.what.fields["under"] == pytest.approx(6.0 / 6.5)


def test_idle_time_for_no_longer_than_launches_take_is_launching() -> None:
    own = {**STEP, M.KERNEL_MS: 5.0, M.GAP_MS: 4.0}
    found = classify(of(own, LAUNCHING))
    assert found is not None
    assert (found.bound, found.share) == (Bound.LAUNCH, 0.4)
    assert (found.what.fields["kernels"], found.what.fields["every_ms"]) == (100, 0.1)


@pytest.mark.parametrize(
    "breakdown",
    [
        pytest.param(Breakdown(ranges=(LOADING,)), id="a baseline"),
        pytest.param(of(STEP, gpus=0), id="of an unknown number of GPUs"),
        pytest.param(of({**STEP, M.STEP_MS: 0.0}), id="no step"),
        pytest.param(of({M.STEP_MS: 10.0}), id="no idle time"),
        pytest.param(of({**STEP, M.KERNEL_MS: 2.0}), id="mostly not kernels"),
        pytest.param(of({**STEP, M.GAP_MS: 12.0}), id="more than the step"),
        pytest.param(of({**IDLE, M.LAUNCHES: 10.0}, LAUNCHING), id="idle for longer than launches"),
        pytest.param(of(IDLE, under("a", gap_ms=6.5, launches=50)), id="not by their launches"),
        pytest.param(of(IDLE, under(OUTSIDE_RANGES, gap_ms=6.5)), id="under no range"),
        pytest.param(
            of({**IDLE, M.KERNEL_MS: 0.0, M.LAUNCHES: 0.0}, LAUNCHING), id="nothing launched"
        ),
    ],
)
def test_where_the_figures_do_not_say_it_is_bound_by_nothing(breakdown: Breakdown) -> None:
    assert classify(breakdown) is None


def test_of_several_gpus_work_is_their_mean() -> None:
    found = classify(of({**STEP, M.KERNEL_MS: 36.0}, gpus=4))
    assert found is not None
    assert found.bound is Bound.COMPUTE
    gpu = found.what.fields["gpu"]
    assert getattr(gpu, "code", None) == "each-gpu"


# What usually helps


def only(breakdown: Breakdown) -> Advice:
    (one,) = advise(breakdown)
    return one


def test_pageable_copies_are_advised_on_with_the_range_that_holds_them() -> None:
    ranges = (
        under("copy", h2d_ms=0.9, pageable_copies=2.0),
        under("pinned", h2d_ms=2.0, pageable_copies=0.0),
    )
    copies = (copied("pageable", 2, gpu_ms=0.9), copied("pinned", 2, gpu_ms=2.0))
    found = only(of(STEP, *ranges, copies=copies))
    assert (found.topic, found.range, found.what.code) == (
        Topic.PAGEABLE,
        "copy",
        "advice-pageable",
    )
    assert (found.what.fields["copies"], found.what.fields["ms"]) == (2, 0.9)
    assert advise(of(STEP, *ranges, copies=(copied("pageable", 2, gpu_ms=0.1),))) == ()


def test_pinned_copies_that_nothing_hides_are_advised_on_unless_half_is_hidden() -> None:
    own = {**STEP, M.H2D_MS: 1.0, M.H2D_EXPOSED_MS: 0.96}
    found = only(of(own, under("copy", h2d_ms=1.0)))
    assert (found.topic, found.range) == (Topic.UNHIDDEN_COPIES, "copy")
    assert advise(of({**own, M.H2D_EXPOSED_MS: 0.5}, under("copy", h2d_ms=1.0))) == ()
    # Of four GPUs copies are a sum, and waiting is a mean.
    assert only(of({**own, M.H2D_MS: 4.0, M.KERNEL_MS: 36.0}, gpus=4)).what.fields["ms"] == 1.0


@pytest.mark.parametrize(
    ("call", "copies", "code"),
    [
        ("cudaDeviceSynchronize_v3020", {"h2d_copies": 1.0, "d2h_copies": 0.0}, "for-work"),
        ("cudaStreamSynchronize", {"h2d_copies": 0.0, "d2h_copies": 1.0}, "for-read"),
        ("cudaStreamSynchronize", {"h2d_copies": 1.0, "d2h_copies": 0.0}, "for-sent"),
        ("cudaStreamSynchronize", {"h2d_copies": 1.0, "d2h_copies": 1.0}, "for-read"),
        ("cudaStreamSynchronize", {"h2d_copies": 0.0, "d2h_copies": 0.0}, "for-work"),
        ("cudaStreamSynchronize", {}, "for-read"),
        ("cuMemcpyDtoH_v2", {"h2d_copies": 0.0, "d2h_copies": 0.0}, "for-read"),
        ("cuMemcpyHtoD_v2", {}, "for-sent"),
    ],
)
def test_a_wait_is_for_what_the_call_or_the_copies_under_its_range_say(
    call: str, copies: dict[str, float], code: str
) -> None:
    wait = SyncSample(call=call, range="log", count=1, cpu_ms=0.5)
    found = only(of(STEP, under("log", **copies), syncs=(wait,)))
    assert (found.topic, found.range) == (Topic.SYNCHRONISATION, "log")
    assert found.what.code == f"advice-wait-{code}"


@pytest.mark.parametrize(
    "wait",
    [
        SyncSample(call="cudaStreamSynchronize", range="log", count=1, cpu_ms=0.1),
        SyncSample(call=OTHER_SYNCS, range=OTHER_RANGES, count=9, cpu_ms=5.0),
    ],
    ids=["short", "others"],
)
def test_waits_that_are_short_or_unknown_are_not_advised_on(wait: SyncSample) -> None:
    assert advise(of(STEP, syncs=(wait,))) == ()


def test_a_loader_that_the_gpu_waits_for_is_advised_on() -> None:
    found = only(of(IDLE, LOADING))
    assert (found.topic, found.range) == (Topic.LOADER, "get batch")
    assert (found.what.fields["cpu_ms"], found.what.fields["idle_ms"]) == (6.5, 6.0)
    # A range that takes far longer on the CPU than the GPU waits there is not what it waits for.
    assert advise(of(IDLE, under("epoch", cpu_ms=60.0, gap_ms=6.0))) == ()


@pytest.mark.parametrize(("graphs", "code"), [(0.0, "advice-graphs"), (2.0, "advice-more-graphs")])
def test_launching_is_advised_on(graphs: float, code: str) -> None:
    own = {**STEP, M.KERNEL_MS: 5.0, M.GAP_MS: 4.0, M.GRAPH_LAUNCHES: graphs}
    found = only(of(own, LAUNCHING))
    assert (found.topic, found.what.code) == (Topic.LAUNCHES, code)


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


FIGURE = st.floats(0, 1e6)


@given(
    st.dictionaries(st.sampled_from(list(Metric)), FIGURE),
    st.lists(st.tuples(st.sampled_from(["a", "b", OTHER_RANGES]), FIGURE, FIGURE, FIGURE)),
    st.integers(0, 4),
)
def test_any_figures_are_either_evidence_or_none(
    own: dict[Metric, float], rows: list[tuple[str, float, float, float]], gpus: int
) -> None:
    ranges = [
        under(name, cpu_ms=cpu_ms, gap_ms=gap_ms, launches=launches)
        for name, cpu_ms, gap_ms, launches in rows
    ]
    copies = (copied("pageable", 1, gpu_ms=own.get(M.H2D_MS, 0.0)),)
    breakdown = of(own, *ranges, copies=copies, gpus=gpus)
    found = classify(breakdown)
    assert found is None or (0 <= found.share <= 1 and found.evidence)
    assert all(one.evidence and one.usually.endswith(".") for one in advise(breakdown))
