"""What a loop is bound by and what usually helps: told where the figures show it, and not where they do not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.explain.advice import advise, classify, new_advice
from perfgate.model.advice import Advice, Bound, Topic
from perfgate.model.metric import Metric
from perfgate.model.sample import OTHER_RANGES, OUTSIDE_RANGES, Breakdown, CopySample, RangeSample, SyncSample

M = Metric
STEP = {M.STEP_MS: 10.0, M.KERNEL_MS: 9.0, M.GAP_MS: 0.2, M.LAUNCHES: 100.0}


def under(name: str, *, gap: float = 0.0, launches: float = 0.0, h2d: float = 0.0, cpu_ms: float = 1.0) -> RangeSample:
    return RangeSample(name=name, count=1, cpu_ms=cpu_ms, values={M.GAP_MS: gap, M.LAUNCHES: launches, M.H2D_MS: h2d})


def of(*ranges: RangeSample, copies: tuple[CopySample, ...] = (), syncs: tuple[SyncSample, ...] = ()) -> Breakdown:
    return Breakdown(ranges=ranges, copies=copies, syncs=syncs)


def topics(values: Mapping[Metric, float], breakdown: Breakdown) -> list[Topic]:
    return [one.topic for one in advise(values, breakdown)]


def test_a_gpu_that_computes_most_of_the_step_is_compute_bound() -> None:
    found = classify(STEP, of(under("forward", launches=100)))
    assert found is not None
    assert found.bound is Bound.COMPUTE
    assert found.share == pytest.approx(0.98)
    assert found.evidence == "the GPU computes for 98 % of the step and idles for 2 %"


LOADING = of(
    under("get batch", gap=6.0, cpu_ms=6.5), under("forward", gap=0.5, launches=60), under("backward", launches=40)
)


def test_a_gpu_that_idles_while_batches_are_made_is_input_bound() -> None:
    values = {**STEP, M.KERNEL_MS: 3.4, M.GAP_MS: 6.5}
    found = classify(values, LOADING)
    assert found is not None
    assert found.bound is Bound.INPUT
    assert found.evidence == (
        "the GPU idles for 65 % of the step, 92.3 % of that under get batch, which launches next to nothing"
    )
    (told,) = advise(values, LOADING)
    assert (told.topic, told.range) == (Topic.LOADER, "get batch")
    assert told.evidence == "get batch takes 6.5 ms a step on the CPU, and the GPU idles for 6 ms of it"
    assert told.usually.startswith("Worker processes (DataLoader(num_workers=...))")


def test_a_range_that_the_gpu_does_not_wait_for_all_along_is_not_blamed_for_loading() -> None:
    # The GPU works through what was launched before for most of the 60 ms that the range takes.
    values = {**STEP, M.KERNEL_MS: 3.4, M.GAP_MS: 6.5}
    assert topics(values, of(under("get batch", gap=6.0, cpu_ms=60.0), under("forward", gap=0.5, launches=100))) == []


def test_a_gpu_that_idles_between_launches_is_launch_bound() -> None:
    values = {**STEP, M.KERNEL_MS: 2.0, M.GAP_MS: 7.5, M.LAUNCHES: 500.0}
    breakdown = of(under("forward", gap=3.0, launches=200), under("backward", gap=4.5, launches=300))
    found = classify(values, breakdown)
    assert found is not None
    assert found.bound is Bound.LAUNCH
    assert found.evidence == (
        "the GPU idles for 75 % of the step while the CPU launches: 500 kernels of 4 us each, one every 20 us"
    )
    assert topics(values, breakdown) == [Topic.LAUNCHES]


@pytest.mark.parametrize(
    ("metric", "bound"), [(M.H2D_EXPOSED_MS, Bound.COPY), (M.NCCL_EXPOSED_MS, Bound.COMMUNICATION)]
)
def test_what_nothing_hides_names_the_bound(metric: Metric, bound: Bound) -> None:
    found = classify({**STEP, M.KERNEL_MS: 5.0, metric: 4.0}, of())
    assert found is not None
    assert found.bound is bound
    assert found.share == pytest.approx(0.4)
    assert "4 ms of a step of 10 ms" in found.evidence


@pytest.mark.parametrize(
    ("values", "breakdown"),
    [
        pytest.param({}, of(), id="nothing measured"),
        pytest.param({**STEP, M.STEP_MS: 0.0}, of(), id="no step"),
        pytest.param({M.STEP_MS: 10.0, M.KERNEL_MS: 5.0}, of(), id="no gap"),
        pytest.param({**STEP, M.GAP_MS: 19.0}, of(), id="gaps of several GPUs"),
        pytest.param({**STEP, M.GAP_MS: 6.0}, of(under(OUTSIDE_RANGES, gap=6.0)), id="idle outside any range"),
        pytest.param({**STEP, M.GAP_MS: 6.0}, of(under(OTHER_RANGES, gap=6.0)), id="idle under ranges too small"),
        pytest.param({**STEP, M.GAP_MS: 6.0}, of(), id="idle under nothing known"),
    ],
)
def test_where_the_figures_do_not_say_nothing_is_said(values: Mapping[Metric, float], breakdown: Breakdown) -> None:
    assert classify(values, breakdown) is None
    assert advise(values, breakdown) == ()


def copied(host: str, ms: float) -> CopySample:
    return CopySample(direction="Host-to-Device", host=host, count=1, bytes=25e6, gpu_ms=ms)


def test_pageable_copies_are_told_with_what_they_cost() -> None:
    values = {**STEP, M.H2D_MS: 2.5, M.H2D_EXPOSED_MS: 2.5}
    (told,) = advise(values, of(under("copy", h2d=2.5), copies=(copied("pageable", 2.5),)))
    assert (told.topic, told.range) == (Topic.PAGEABLE, "copy")
    assert told.evidence == "1 copy a step (25 MB) from pageable memory under copy: 2.5 ms, 25 % of the step"


@pytest.mark.parametrize(
    ("h2d", "exposed", "told"),
    [(2.5, 2.5, True), (2.5, 1.0, False), (0.1, 0.1, False), (0.0, 0.0, False)],
    ids=["never hidden", "hidden in part", "too short", "none"],
)
def test_pinned_copies_are_told_where_nothing_hides_them(h2d: float, exposed: float, told: bool) -> None:
    values = {**STEP, M.H2D_MS: h2d, M.H2D_EXPOSED_MS: exposed}
    found = topics(values, of(under("copy", h2d=h2d), copies=(copied("pinned", h2d),)))
    assert found == ([Topic.UNHIDDEN_COPIES] if told else [])


def test_calls_that_wait_are_told_with_their_range() -> None:
    syncs = (
        SyncSample(call="cudaStreamSynchronize", range="loss stats", count=2, cpu_ms=4.0),
        SyncSample(call="cudaDeviceSynchronize", range="end", count=1, cpu_ms=0.01),
    )
    (told,) = advise(STEP, of(syncs=syncs))
    assert (told.topic, told.range) == (Topic.SYNCHRONISATION, "loss stats")
    assert told.evidence == "the CPU waits 4 ms a step in cudaStreamSynchronize under loss stats, 2 calls"


def test_new_is_what_had_no_reason_before() -> None:
    loader = Advice(topic=Topic.LOADER, range="get batch", evidence="6 ms", usually="Workers help.")
    same = loader.model_copy(update={"evidence": "7 ms"})
    elsewhere = loader.model_copy(update={"range": "augment"})
    assert new_advice([loader], [same, elsewhere]) == (elsewhere,)
    assert new_advice([], [same]) == (same,)


AMOUNT = st.floats(0, 100)


@given(
    st.dictionaries(st.sampled_from(list(Metric)), AMOUNT),
    st.lists(st.builds(under, st.sampled_from("abc"), gap=AMOUNT, launches=AMOUNT, h2d=AMOUNT, cpu_ms=AMOUNT)),
    st.lists(st.builds(copied, st.sampled_from(["pageable", "pinned"]), AMOUNT)),
)
def test_no_figures_make_it_fail_and_every_advice_has_its_evidence(
    values: dict[Metric, float], ranges: list[RangeSample], copies: list[CopySample]
) -> None:
    breakdown = of(*ranges, copies=tuple(copies))
    found = classify(values, breakdown)
    assert found is None or (0 <= found.share <= 1 and found.evidence)
    assert all(one.evidence and one.usually.endswith(".") for one in advise(values, breakdown))
