"""What of a capture that lacks something is absent, and why; never zero."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import pytest
from support.measuring import GRAPH_MODE, NODE_MODE, SYNCHRONOUS, codes, copied, only
from support.timelines import Call, Op, Range, build, draw

from perfgate.model.metric import CALLED, EXPOSED, METRICS, PERIODS, Metric
from perfgate.model.note import Severity, note
from perfgate.model.sample import ProcessSample
from perfgate.model.timeline import Timeline

NCCL = (Metric.NCCL_MS, Metric.NCCL_EXPOSED_MS)
GPU = tuple(metric for metric in METRICS if metric not in (*PERIODS, *CALLED))
COPIED = (
    *(Metric.H2D_MS, Metric.H2D_EXPOSED_MS, Metric.MEM_EXPOSED_MS),
    *(Metric.H2D_COPIES, Metric.H2D_BYTES, Metric.D2H_COPIES, Metric.PAGEABLE_COPIES),
)
STEPS = "range |--step--| |--step--|   |--step--|"


def reasons(sample: ProcessSample) -> dict[Metric, str]:
    return {metric: why.code for metric, why in sample.absent.items()}


def expected(*given: tuple[Iterable[Metric], str]) -> dict[Metric, str]:
    """Reasons by metric, of those that come later first."""
    found = {metric: code for metrics, code in given for metric in metrics}
    return {metric: found[metric] for metric in METRICS if metric in found}


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_steps_have_no_period_and_no_gap(count: int) -> None:
    sample = only(
        build(
            ranges=[Range(start=100 * n, end=100 * n + 50) for n in range(count)],
            kernels=[Op(start=100 * n + 10, end=100 * n + 20) for n in range(count)],
        )
    )
    assert sample.steps == count
    assert reasons(sample) == expected(
        (CALLED, "no-calls"), (NCCL, "no-nccl"), ((*PERIODS, Metric.GAP_MS), "no-period")
    )
    assert sample.values[Metric.KERNEL_MS] == 10 / 1e6
    assert (sample.window_ms, sample.periods_ms) == (0.0, ())


def test_without_gpu_operations_the_step_is_cpu_time_and_everything_else_absent() -> None:
    sample = only(draw(STEPS, missing={"kernels": "nsys collected no CUDA events"}))
    assert sample.values == dict.fromkeys(PERIODS, 13.0)
    assert reasons(sample) == expected((GPU, "quoted"), (CALLED, "no-calls"))
    assert sample.devices == ()
    other = only(draw(f"{STEPS}\nkernel pid7 |--z--|"))
    assert reasons(other) == expected((GPU, "no-gpu-work"), (CALLED, "no-calls"))


def test_without_nccl_kernels_its_metrics_are_absent() -> None:
    assert reasons(only(draw(NODE_MODE))) == expected((NCCL, "no-nccl"))
    assert reasons(only(draw(GRAPH_MODE)))[Metric.NCCL_MS] == "no-nccl-outside-graphs"


def test_kernels_that_were_launched_but_not_recorded_are_absent_not_zero() -> None:
    sample = only(
        draw("""
        range   |---step---|  |---step---|  |---step---|  |---step---|
        launch   ^a            ^b            ^c            ^d
            launch       ^A            ^B            ^C            ^D
        h2d       |a|           |b|           |c|           |d|
        """)
    )
    lost = (Metric.KERNEL_MS, Metric.GAP_MS, Metric.NCCL_MS, *EXPOSED)
    assert reasons(sample) == expected((lost, "work-not-recorded"))
    assert (sample.values[Metric.H2D_MS], sample.values[Metric.LAUNCHES]) == (2.0, 1.0)


def test_where_the_host_end_is_unknown_pageable_copies_are_absent() -> None:
    sample = only(
        draw("""
        range         |----step----|  |----step----|  |----step----|
        launch         ^p              ^s              ^v
        h2d unknown    |p|             |s|             |v|
        """)
    )
    assert reasons(sample)[Metric.PAGEABLE_COPIES] == "host-memory-unknown"
    assert sample.values[Metric.H2D_COPIES] == 1.0


def test_where_the_capture_holds_no_copy_at_all_none_is_counted() -> None:
    lost = (*COPIED, Metric.GAP_MS)  # what a copy takes would be idle
    found = reasons(only(copied(0)))
    assert found == expected((NCCL, "no-nccl"), (lost, "copies-not-recorded"))
    # Calls of a name that never leaves a copy are not asked after.
    assert Metric.H2D_MS in only(copied(0, name="cudaMemcpyBatchAsync_v12080")).values


def test_without_any_call_the_counts_of_calls_are_absent() -> None:
    linked = draw(SYNCHRONOUS)
    lost = dataclasses.replace(linked, calls=build().calls, missing={"calls": note("no-table")})
    assert reasons(only(lost)) == expected((NCCL, "no-nccl"), (CALLED, "no-table"))
    # What ran in its step is measured all the same.
    for metric in (Metric.STEP_MS, Metric.KERNEL_MS, Metric.GAP_MS):
        assert only(lost).values[metric] == only(linked).values[metric]


@pytest.mark.parametrize(
    ("lost", "lacking"),
    [
        (range(4, 15), 10),
        (range(16, 20), 4),
        pytest.param(range(5), None, id="launched before the capture"),
        (range(17, 20), None),
    ],
)
def test_where_calls_are_lost_nothing_that_they_show_is_counted(
    lost: range, lacking: int | None
) -> None:
    """Steps of two kernels each, in some of which their calls are lost; these bear other ids."""
    each = [(k, n, 2 * k + n + 1) for k in range(20) for n in (0, 1)]
    sample = only(
        build(
            ranges=[Range(start=100_000 * k, end=100_000 * k + 90_000) for k in range(20)],
            calls=[
                Call(start=at, end=at + 1, correlation=one)
                for k, n, one in each
                for at in [100_000 * k + 2 * n]
                if k not in lost
            ],
            kernels=[
                Op(start=at, end=at + 20, correlation=1000 + one if k in lost else one)
                for k, n, one in each
                for at in [100_000 * k + 30 * n + 5]
            ],
        )
    )
    if lacking is None:
        assert sample.values[Metric.LAUNCHES] == 2
    else:
        assert {metric: sample.absent[metric].code for metric in CALLED} == dict.fromkeys(
            CALLED, "calls-lost"
        )
        assert sample.absent[Metric.SYNCS].fields["lacking"] == lacking
    assert Metric.KERNEL_MS in sample.values


# --- operations that no call links to a step ---------------------------------

AHEAD = """
    range   |---step---||---step---||---step---||---step---|
    launch   ^a^A^u      ^b^B^v      ^c^C^w      ^d^D^x
    h2d       |-a-|          |-b-|          |--c-|           |-d-|
    kernel         |-----A------||-----B-----||-----C-----|       |-----D-----|
    memset                                                                    |u||v||w||x|
"""
"""Of four copies one runs outside the steps it was launched in, of four memsets all."""


def without_ids(timeline: Timeline, *tables: str) -> Timeline:
    """The same, with tables that do not say which call launched what."""
    changed = {}
    for table in tables:
        ops = getattr(timeline, table)
        changed[table] = dataclasses.replace(ops, correlation=np.full(len(ops.start), -1, np.int64))
    return dataclasses.replace(timeline, **changed)


@pytest.mark.parametrize(
    ("tables", "code"),
    [
        # One copy of twelve operations runs outside the steps, and four memsets.
        (("copies",), None),
        (("memsets",), "launches-unknown"),
        (("copies", "memsets"), "launches-unknown"),
    ],
)
def test_without_a_link_to_much_of_their_work_no_step_is_known(
    tables: tuple[str, ...], code: str | None
) -> None:
    sample = only(without_ids(draw(AHEAD), *tables))
    if code is None:
        assert codes(sample, Severity.INVALID) == ["operations-of-no-step"]
        assert reasons(sample) == expected((NCCL, "no-nccl"))
    else:
        assert reasons(sample) == expected(((*PERIODS, *GPU), code))
        assert (sample.kernels, sample.copies, sample.periods_ms) == ((), (), ())
    whole = only(without_ids(draw(AHEAD), *tables), step=None)
    assert whole.values[Metric.KERNEL_MS] == only(draw(AHEAD), step=None).values[Metric.KERNEL_MS]
