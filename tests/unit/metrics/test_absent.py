"""What of a capture that lacks something is absent, and why; never zero."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from support.measuring import GRAPH_MODE, NODE_MODE, SYNCHRONOUS, copied, only
from support.timelines import Call, Op, Range, build, draw

from perfgate.metrics.measure import measure
from perfgate.model.metric import EXPOSED, METRICS, PERIODS, Metric
from perfgate.model.note import note
from perfgate.model.sample import ProcessSample
from perfgate.model.timeline import CopyKind, Flags, MemoryKind, Timeline


def test_every_metric_is_either_measured_or_absent_with_a_reason() -> None:
    for picture in (
        GRAPH_MODE,
        NODE_MODE,
        "range |--step--| |--step--|",
        "range |--step--|\nkernel |--k--|",
    ):
        for step in ("step", None):
            sample = only(draw(picture), step)
            assert set(sample.values) | set(sample.absent) == set(METRICS)
            assert not set(sample.values) & set(sample.absent)
            assert all(sample.absent.values())


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_steps_have_no_period_and_no_gap(count: int) -> None:
    sample = only(
        build(
            ranges=[Range(start=100 * n, end=100 * n + 50) for n in range(count)],
            kernels=[Op(start=100 * n + 10, end=100 * n + 20) for n in range(count)],
        )
    )
    assert sample.steps == count
    assert sample.absent[Metric.STEP_MS] == f"needs 3 steps, the capture holds {count}"
    assert sample.absent[Metric.GAP_MS] == f"needs 3 steps, the capture holds {count}"
    assert sample.values[Metric.KERNEL_MS] == 10 / 1e6
    assert sample.window_ms == 0.0
    assert sample.periods_ms == ()


def test_without_gpu_operations_the_step_is_cpu_time_and_everything_else_absent() -> None:
    sample = only(
        draw(
            "range |--step--| |--step--|   |--step--|",
            missing={"kernels": "nsys collected no CUDA events"},
        )
    )
    assert sample.values == dict.fromkeys(PERIODS, 13.0)
    gpu = [
        m
        for m in METRICS
        if m not in (*PERIODS, Metric.LAUNCHES, Metric.GRAPH_LAUNCHES, Metric.SYNCS)
    ]
    assert {metric: sample.absent[metric] for metric in gpu} == dict.fromkeys(
        gpu, "nsys collected no CUDA events"
    )
    assert sample.remarks == (
        "no GPU operation was launched in the steps: step_ms is CPU time only",
    )
    assert sample.devices == ()


def test_a_process_without_gpu_operations_of_its_own_measures_none() -> None:
    sample = only(draw("range |--step--| |--step--|   |--step--|\nkernel pid7 |--z--|"))
    assert sample.absent[Metric.KERNEL_MS] == "process 100 launched no GPU operation in its steps"
    assert sample.absent[Metric.GAP_MS] == "process 100 launched no GPU operation in its steps"


def test_a_process_without_gpu_operations_has_a_window_and_says_why_it_has_no_more() -> None:
    other, own = measure(draw("range |--epoch--|\nkernel pid7 |--z|"), step=None)
    assert other.values[Metric.KERNEL_MS] == 4.0
    assert own.absent[Metric.GAP_MS] == "process 100 launched no GPU operation"


def test_without_nccl_kernels_its_metrics_are_absent() -> None:
    sample = only(draw(NODE_MODE))
    assert sample.absent == {
        Metric.NCCL_MS: "no NCCL kernels",
        Metric.NCCL_EXPOSED_MS: "no NCCL kernels",
    }


def test_kernels_that_were_launched_but_not_recorded_are_absent_not_zero() -> None:
    sample = only(
        draw("""
        range   |---step---|  |---step---|  |---step---|  |---step---|
        launch   ^a            ^b            ^c            ^d
            launch       ^A            ^B            ^C            ^D
        h2d       |a|           |b|           |c|           |d|
        """)
    )
    why = "process 100 launched 4 kernels, the capture holds none"
    lost = {Metric.KERNEL_MS, Metric.GAP_MS, Metric.NCCL_MS, *EXPOSED}
    assert sample.absent == dict.fromkeys(sorted(lost, key=list(METRICS).index), why)
    assert sample.values[Metric.H2D_MS] == 2.0
    assert sample.values[Metric.LAUNCHES] == 1.0


def test_kernels_of_another_process_are_not_said_to_be_none() -> None:
    times = range(1000, 5000, 1000)
    sample = only(
        build(
            ranges=[Range(start=at, end=at + 900) for at in times],
            calls=[Call(start=at, end=at + 9) for at in times],
            copies=[Op(start=at + 100, end=at + 200) for at in times],
            kernels=[Op(start=at + 100, end=at + 200, pid=200) for at in times],
        )
    )
    why = "process 100 launched 4 kernels, the capture holds none of them"
    assert sample.absent[Metric.KERNEL_MS] == sample.absent[Metric.GAP_MS] == why


def test_of_graphs_of_which_the_capture_holds_nothing_the_gpus_clocks_are_absent() -> None:
    timeline = build(
        ranges=[Range(start=100_000 * k, end=100_000 * k + 90_000) for k in range(1, 31)],
        calls=[
            Call(start=100_000 * k + 9, end=100_000 * k + 99, name="cudaGraphLaunch", correlation=k)
            for k in range(1, 31)
        ],
        memsets=[
            Op(start=100_000 * k + 200, end=100_000 * k + 300, correlation=0) for k in range(1, 31)
        ],
        graphs=[Op(start=10, end=20, correlation=777)],
    )
    sample = only(timeline)
    why = "process 100 launched 30 CUDA graphs, the capture holds none of their work"
    assert {metric: sample.absent[metric] for metric in (Metric.KERNEL_MS, Metric.GAP_MS)} == {
        Metric.KERNEL_MS: why,
        Metric.GAP_MS: why,
    }
    assert sample.values[Metric.GRAPH_LAUNCHES] == 1


def test_where_the_host_end_is_unknown_pageable_copies_are_absent() -> None:
    sample = only(
        draw("""
        range         |----step----|  |----step----|  |----step----|
        launch         ^p              ^s              ^v
        h2d unknown    |p|             |s|             |v|
        """)
    )
    assert Metric.PAGEABLE_COPIES not in sample.values
    assert (
        sample.absent[Metric.PAGEABLE_COPIES]
        == "of 3 copies the capture does not say which memory they used"
    )
    assert sample.values[Metric.H2D_COPIES] == 1.0


def test_where_the_capture_holds_no_copy_at_all_none_is_counted() -> None:
    sample = only(copied(0))
    assert sample.complaints == ()
    why = "the steps make 40 calls that copy, the capture holds no copy"
    assert sample.absent[Metric.H2D_MS] == sample.absent[Metric.PAGEABLE_COPIES] == why
    assert sample.absent[Metric.GAP_MS] == why  # what a copy takes would be told as idle
    assert Metric.KERNEL_MS in sample.values


def test_single_calls_that_copy_nothing_make_no_metric_absent() -> None:
    timeline = copied(0)
    few = dataclasses.replace(
        timeline,
        calls=dataclasses.replace(
            timeline.calls,
            **{
                field.name: getattr(timeline.calls, field.name)[39:]
                for field in dataclasses.fields(timeline.calls)
            },
        ),
    )
    assert Metric.H2D_MS in only(few).values


def test_calls_that_never_leave_a_copy_are_not_asked_after() -> None:
    timeline = copied(40)
    with_batch = copied(0, name="cudaMemcpyBatchAsync_v12080")
    assert only(timeline).complaints == only(with_batch).complaints == ()
    assert Metric.H2D_MS in only(with_batch).values


def test_without_any_call_the_counts_of_calls_are_absent() -> None:
    picture = """
        range   |----step----|  |----step----|  |----step----|
        kernel      |a|             |b|             |c|
        """
    sample = only(draw(picture))
    assert {
        metric: sample.absent[metric]
        for metric in (Metric.LAUNCHES, Metric.GRAPH_LAUNCHES, Metric.SYNCS)
    } == dict.fromkeys(
        (Metric.LAUNCHES, Metric.GRAPH_LAUNCHES, Metric.SYNCS),
        "the capture holds no CUDA API calls",
    )
    assert only(draw(picture, missing={"calls": "no CUPTI_ACTIVITY_KIND_RUNTIME"})).absent[
        Metric.SYNCS
    ] == ("no CUPTI_ACTIVITY_KIND_RUNTIME")
    assert sample.remarks == (
        "GPU operations have no API call in the capture and count where they ran (3)",
    )


def some_calls_lost(lost: range, *, of: int = 20, has_ids: bool = True) -> ProcessSample:
    """Steps of two kernels each, in some of which their calls are lost; these bear other ids, or none."""
    ran = [
        Op(
            start=100_000 * k + 30 * n,
            end=100_000 * k + 30 * n + 20,
            correlation=has_ids * (1000 + 2 * k + n) if k in lost else 2 * k + n + 1,
        )
        for k in range(of)
        for n in (0, 1)
    ]
    calls = [
        Call(start=100_000 * k + 2 * n, end=100_000 * k + 2 * n + 1, correlation=2 * k + n + 1)
        for k in range(of)
        if k not in lost
        for n in (0, 1)
    ]
    ranges = [Range(start=100_000 * k, end=100_000 * k + 90_000) for k in range(of)]
    return only(build(ranges=ranges, calls=calls, kernels=ran))


LACKS_CALLS = "in {} of the last 15 steps GPU operations ran that have no API call in the capture: it lacks calls"


@pytest.mark.parametrize(
    ("lost", "lacking"), [(range(4, 15), 10), (range(10), 5), (range(16, 20), 4)]
)
def test_where_calls_are_lost_nothing_that_they_tell_is_counted(lost: range, lacking: int) -> None:
    sample = some_calls_lost(lost)
    for metric in (Metric.LAUNCHES, Metric.GRAPH_LAUNCHES, Metric.SYNCS):
        assert sample.absent[metric] == LACKS_CALLS.format(lacking)
    assert Metric.KERNEL_MS in sample.values


@pytest.mark.parametrize("lost", [range(0), range(5), range(17, 20)])
def test_what_was_launched_before_the_capture_and_single_lost_calls_leave_the_median(
    lost: range,
) -> None:
    assert some_calls_lost(lost).values[Metric.LAUNCHES] == 2


def test_operations_that_never_had_an_id_lack_no_call() -> None:
    assert Metric.LAUNCHES in some_calls_lost(range(4, 15), has_ids=False).values


def test_calls_and_kernels_without_names_are_not_counted_as_none() -> None:
    timeline = draw(
        SYNCHRONOUS,
        missing={"names of calls": "calls lack names", "names of kernels": "kernels too"},
    )
    sample = only(timeline)
    assert sample.absent == {
        Metric.NCCL_MS: "kernels too",
        Metric.NCCL_EXPOSED_MS: "kernels too",
        Metric.LAUNCHES: "calls lack names",
        Metric.GRAPH_LAUNCHES: "calls lack names",
        Metric.SYNCS: "calls lack names",
    }


def test_without_calls_steps_that_ended_before_their_work_ran_have_no_gpu_metrics() -> None:
    # Three of four kernels ran after the last range: nothing says which step launched which.
    timeline = build(
        ranges=[Range(start=at, end=at + 10**6) for at in range(0, 4 * 10**6, 10**6)],
        kernels=[Op(start=at, end=at + 9 * 10**6) for at in range(10**6, 37 * 10**6, 9 * 10**6)],
        missing={"calls": "no calls were recorded"},
    )
    sample = only(timeline)
    why = (
        "3 GPU operations ran outside the steps, and the capture does not say which step launched them: "
        "it holds no API call with their correlation id"
    )
    assert dict(sample.values) == {}
    assert (
        sample.absent[Metric.STEP_MS]
        == sample.absent[Metric.KERNEL_MS]
        == sample.absent[Metric.GAP_MS]
        == why
    )
    assert sample.absent[Metric.LAUNCHES] == "no calls were recorded"
    assert (sample.periods_ms, sample.kernels, sample.window_ms) == ((), (), 0.0)
    assert only(timeline, step=None).values[Metric.KERNEL_MS] == 36.0


AHEAD = """
    range   |---step---||---step---||---step---||---step---|
    launch   ^a^A^u      ^b^B^v      ^c^C^w      ^d^D^x
    h2d       |-a-|          |-b-|          |--c-|           |-d-|
    kernel         |-----A------||-----B-----||-----C-----|       |-----D-----|
    memset                                                                    |u||v||w||x|
"""
"""Of four copies one runs outside the steps it was launched in, of four memsets all."""
OUTSIDE = (
    "{} ran outside the steps, and the capture does not say which step launched them: it holds no API call with their "
    "correlation id"
)
OF_COPIES = (
    *(Metric.H2D_MS, Metric.H2D_EXPOSED_MS, Metric.MEM_EXPOSED_MS),
    *(Metric.H2D_COPIES, Metric.H2D_BYTES, Metric.D2H_COPIES, Metric.PAGEABLE_COPIES),
)


def without_ids(timeline: Timeline, *tables: str) -> Timeline:
    """The same, with tables that do not say which call launched what."""
    changed = {}
    for table in tables:
        ops = getattr(timeline, table)
        changed[table] = dataclasses.replace(ops, correlation=np.full(len(ops.start), -1, np.int64))
    return dataclasses.replace(timeline, **changed)


def late(timeline: Timeline) -> Timeline:
    """The same, with copies that run when the steps are over."""
    copies = timeline.copies
    by_ns = 10**8
    return dataclasses.replace(
        timeline,
        copies=dataclasses.replace(copies, start=copies.start + by_ns, end=copies.end + by_ns),
    )


def test_of_copies_alone_that_no_call_links_to_a_step_nothing_is_told_and_all_else_is() -> None:
    linked = late(draw(AHEAD))
    sample, expected = only(without_ids(linked, "copies")), only(linked)
    why = OUTSIDE.format("4 copies")
    assert {
        metric: text for metric, text in sample.absent.items() if "NCCL" not in text
    } == dict.fromkeys(OF_COPIES, why)
    assert {
        Metric.KERNEL_MS,
        Metric.GAP_MS,
        Metric.STEP_MS,
        Metric.LAUNCHES,
    } <= sample.values.keys()
    assert sample.values[Metric.KERNEL_MS] == expected.values[Metric.KERNEL_MS]
    assert sample.copies == ()
    assert [row.name for row in sample.kernels if row.kind == "memory"] == ["CUDA memset"]


def test_of_memsets_alone_that_no_call_links_to_a_step_only_what_nothing_hides_of_them_is_absent() -> (
    None
):
    sample = only(without_ids(draw(AHEAD), "memsets"))
    assert {metric: text for metric, text in sample.absent.items() if "NCCL" not in text} == {
        Metric.MEM_EXPOSED_MS: OUTSIDE.format("4 memsets")
    }
    assert [row.name for row in sample.kernels if row.kind == "memory"] == [
        "CUDA memcpy Host-to-Device"
    ]
    assert len(sample.copies) == 1


def test_a_quarter_of_a_table_that_ran_outside_the_steps_makes_nothing_absent() -> None:
    assert Metric.H2D_MS in only(without_ids(draw(AHEAD), "copies")).values


def test_without_a_link_to_its_kernels_no_step_is_known_however_many_copies_have_theirs() -> None:
    timeline = build(
        ranges=[Range(start=at, end=at + 10**6) for at in range(0, 4 * 10**6, 10**6)],
        calls=[
            Call(start=100_000 * k, end=100_000 * k + 9, name="cudaMemcpyAsync", correlation=k)
            for k in range(40)
        ],
        copies=[Op(start=100_000 * k + 20, end=100_000 * k + 30, correlation=k) for k in range(40)],
        kernels=[Op(start=at, end=at + 9 * 10**6) for at in range(10**6, 37 * 10**6, 9 * 10**6)],
    )
    sample = only(timeline)
    assert sample.absent.keys() == set(METRICS) - {
        Metric.LAUNCHES,
        Metric.GRAPH_LAUNCHES,
        Metric.SYNCS,
    }
    assert set(sample.absent.values()) == {OUTSIDE.format("3 GPU operations")}
    assert (sample.kernels, sample.copies) == ((), ())


def test_without_a_link_to_anything_that_they_launched_no_step_is_known() -> None:
    timeline = late(
        dataclasses.replace(draw(AHEAD), kernels=build().kernels, memsets=build().memsets)
    )
    assert only(without_ids(timeline, "copies")).absent[Metric.STEP_MS] == OUTSIDE.format(
        "4 GPU operations"
    )


def test_migrations_of_managed_memory_do_not_hide_that_copies_lack_their_calls() -> None:
    timeline = late(draw(AHEAD))
    ops = timeline.copies
    faults = [
        Op(start=at, end=at + 10, kind=CopyKind.UVM_H2D, source=MemoryKind.MANAGED, bytes=8)
        for at in range(10**6, 40 * 10**6, 10**6)
    ]
    moved = build(copies=faults).copies
    both = {
        field.name: np.concatenate([getattr(ops, field.name), getattr(moved, field.name)])
        for field in dataclasses.fields(ops)
    }
    without = without_ids(
        dataclasses.replace(timeline, copies=dataclasses.replace(ops, **both)), "copies"
    )
    assert only(without).absent[Metric.H2D_MS] == OUTSIDE.format("4 copies")


def test_without_calls_work_that_ran_in_its_step_is_measured() -> None:
    linked, lost = draw(SYNCHRONOUS), draw(SYNCHRONOUS)
    lost = dataclasses.replace(
        lost,
        calls=build().calls,
        missing={"calls": note("quoted", text="no calls were recorded")},
    )
    shared = (Metric.STEP_MS, Metric.KERNEL_MS, Metric.GAP_MS)
    assert [only(lost).values[metric] for metric in shared] == [
        only(linked).values[metric] for metric in shared
    ]
    assert (
        "GPU operations have no API call in the capture and count where they ran (4)"
        in only(lost).remarks
    )
    assert only(lost).absent[Metric.LAUNCHES] == "no calls were recorded"


COPIED = """
    range   |---step----|  |---step----|  |---step----|  |---step----|
    launch   ^a   ^b        ^c   ^d        ^e   ^f        ^g   ^h
    h2d       |a|            |c|            |e|            |g|
    nccl            |b|            |d|            |f|            |h|
    launch             ^i             ^j             ^k             ^l
    kernel              |i|            |j|            |k|            |l|
"""


def untimed(
    timeline: Timeline, table: str, rows: Flags | None = None, *, at_zero: bool = True
) -> Timeline:
    """The same with all rows of a table, or these, as long as nothing."""
    ops = getattr(timeline, table)
    chosen = np.ones(len(ops.start), np.bool_) if rows is None else rows
    start = np.where(chosen, 0, ops.start) if at_zero else ops.start
    changed = dataclasses.replace(ops, start=start, end=np.where(chosen, start, ops.end))
    return dataclasses.replace(timeline, **{table: changed})


def of_nccl(timeline: Timeline) -> Flags:
    return np.array(
        ["nccl" in timeline.names[key] for key in timeline.kernels.name.tolist()], np.bool_
    )


@pytest.mark.parametrize("at_zero", [True, False])
def test_kernels_of_which_none_was_timed_are_absent_not_zero(at_zero: bool) -> None:
    sample = only(untimed(draw(SYNCHRONOUS), "kernels", at_zero=at_zero))
    why = "the capture does not say how long any of the 4 kernels in the steps took"
    assert sample.absent == {
        Metric.KERNEL_MS: why,
        Metric.GAP_MS: why,
        Metric.H2D_EXPOSED_MS: why,
        Metric.MEM_EXPOSED_MS: why,
        Metric.NCCL_MS: "no NCCL kernels",
        Metric.NCCL_EXPOSED_MS: "no NCCL kernels",
    }
    assert sample.values[Metric.LAUNCHES] == 1.0
    told = ("GPU operations have no times in the capture (4)",) if at_zero else ()
    assert tuple(remark for remark in sample.remarks if "no times" in remark) == told
    (device,) = sample.devices
    assert device.values.keys() == {Metric.H2D_MS}


def test_a_window_whose_kernels_were_not_timed_has_no_gap() -> None:
    sample = only(untimed(draw(SYNCHRONOUS), "kernels"), step=None)
    why = "the capture does not say how long any of the 4 kernels took"
    assert sample.absent[Metric.KERNEL_MS] == sample.absent[Metric.GAP_MS] == why


def test_one_timed_kernel_is_enough_to_measure_the_kernels() -> None:
    timeline = draw(SYNCHRONOUS)
    sample = only(untimed(timeline, "kernels", np.arange(4) > 0))
    assert sample.values[Metric.KERNEL_MS] == 6.0 / 4
    assert "GPU operations have no times in the capture and count as 0 ms (3)" in sample.remarks


def test_nccl_kernels_of_which_none_was_timed_leave_the_others_measured() -> None:
    timeline = draw(COPIED)
    sample = only(untimed(timeline, "kernels", of_nccl(timeline)))
    why = "the capture does not say how long any of the 4 NCCL kernels in the steps took"
    lost = (Metric.GAP_MS, Metric.NCCL_MS, *EXPOSED)
    assert sample.absent == dict.fromkeys(lost, why)
    assert sample.values[Metric.KERNEL_MS] == only(timeline).values[Metric.KERNEL_MS]


def test_nccl_is_measured_where_no_other_kernel_was_timed() -> None:
    timeline = draw(COPIED)
    sample = only(untimed(timeline, "kernels", ~of_nccl(timeline)))
    why = "the capture does not say how long any of the 4 kernels in the steps took"
    lost = (Metric.KERNEL_MS, Metric.GAP_MS, *EXPOSED)
    assert sample.absent == dict.fromkeys(lost, why)
    assert sample.values[Metric.NCCL_MS] == only(timeline).values[Metric.NCCL_MS]


def test_graphs_of_which_none_was_timed_are_told_as_such() -> None:
    timeline = build(
        ranges=[Range(start=1000 * k, end=1000 * k + 900) for k in range(1, 5)],
        calls=[
            Call(start=1000 * k, end=1000 * k + 9, name="cudaGraphLaunch", correlation=k)
            for k in range(1, 5)
        ],
        graphs=[Op(start=0, end=0, correlation=k) for k in range(1, 5)],
    )
    why = "the capture does not say how long any of the 4 kernels and CUDA graphs in the steps took"
    assert only(timeline).absent[Metric.GAP_MS] == only(timeline).absent[Metric.KERNEL_MS] == why


def test_copies_of_which_none_was_timed_are_absent_not_zero() -> None:
    timeline = draw(COPIED)
    sample = only(untimed(timeline, "copies"))
    why = "the capture does not say how long any of the 4 host-to-device copies in the steps took"
    assert sample.absent == {Metric.H2D_MS: why, Metric.H2D_EXPOSED_MS: why}
    assert sample.values[Metric.H2D_COPIES] == 1.0
    assert sample.values[Metric.KERNEL_MS] == only(timeline).values[Metric.KERNEL_MS]


def test_there_is_no_gap_between_operations_of_which_none_was_timed() -> None:
    timeline = build(
        ranges=[Range(start=1000 * k, end=1000 * k + 900) for k in range(1, 5)],
        calls=[
            Call(start=1000 * k, end=1000 * k + 9, name="cudaMemcpyAsync", correlation=k)
            for k in range(1, 5)
        ],
        copies=[Op(start=0, end=0, correlation=k) for k in range(1, 5)],
    )
    why = "the capture does not say how long any of the 4 GPU operations in the steps took"
    assert only(timeline).absent[Metric.GAP_MS] == why
