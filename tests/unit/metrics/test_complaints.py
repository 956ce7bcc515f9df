"""What makes a run no measurement of its steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from support.measuring import copied, only
from support.timelines import Call, Op, Range, build, draw

from perfgate.metrics.measure import measure
from perfgate.model.metric import Metric
from perfgate.model.sample import ProcessSample
from perfgate.model.timeline import CopyKind, MemoryKind
from perfgate.model.words import plural
from perfgate.model.workload import WAIT_RANGE

AHEAD = """
    range   |step||step||step||step||step|
    launch   ^a    ^b    ^c    ^d    ^e
    kernel   |--a--||--b--||--c--||--d--||--e--|
"""


@pytest.mark.parametrize("lost", [1, 2, 4])
def test_a_capture_that_lacks_the_last_kernels_is_no_measurement(lost: int) -> None:
    # Where the CPU runs ahead, steps without their kernels are complete with their range: far too early.
    whole = draw(AHEAD)
    kept = slice(None, len(whole.kernels.start) - lost)
    cut = {
        field.name: getattr(whole.kernels, field.name)[kept]
        for field in dataclasses.fields(whole.kernels)
    }
    assert only(whole).complaints == ()
    assert only(
        dataclasses.replace(whole, kernels=dataclasses.replace(whole.kernels, **cut))
    ).complaints == (
        (
            f"of 5 kernel launches in the steps the capture lacks {plural(lost, 'kernel')}: the profiler was stopped "
            "before the GPU had ended them, or lost them; synchronise before it stops, or let it stop later"
        ),
    )


def recorded_in(steps: Sequence[int], *, of: int = 30) -> ProcessSample:
    """Steps of which some have a launch and its kernel, and the others nothing but their ranges."""
    return only(
        build(
            ranges=[Range(start=100_000 * k, end=100_000 * k + 90_000) for k in range(of)],
            calls=[
                Call(start=100_000 * k + 9, end=100_000 * k + 99, correlation=1 + k) for k in steps
            ],
            kernels=[
                Op(start=100_000 * k + 100, end=100_000 * k + 60_000, correlation=1 + k)
                for k in steps
            ],
        )
    )


@pytest.mark.parametrize(
    ("recorded", "which"),
    [
        pytest.param(range(20), "steps 21 to 30", id="the last third"),
        pytest.param(range(12), "steps 13 to 30", id="most"),
        pytest.param(range(29), "step 30", id="the last one"),
        pytest.param(range(6, 30), "steps 1 to 6", id="the first"),
        pytest.param([*range(10), *range(13, 30)], "steps 11 to 13", id="three between"),
        pytest.param(
            [k for k in range(20) if k != 7],
            "steps 21 to 30",
            id="the last third, and a batch skipped",
        ),
    ],
)
def test_steps_of_which_nothing_but_their_ranges_was_recorded_are_no_idle_time(
    recorded: Sequence[int], which: str
) -> None:
    assert recorded_in(recorded).complaints == (
        (
            f"in {which} of the measured 30 the capture holds no CUDA call and no GPU work of process 100, and in "
            "the others it does: the profiler lost them, or another one (torch.profiler) took over; run it without "
            "that, or mark as steps only what uses the GPU"
        ),
    )


BURSTS = np.random.default_rng(1)


@pytest.mark.parametrize(
    "recorded",
    [
        pytest.param(range(30), id="all"),
        pytest.param(range(0, 30, 10), id="every tenth"),
        pytest.param(range(0, 20, 2), id="every second, and none at last"),
        pytest.param([k for k in range(30) if k % 5 < 3], id="two of five without"),
        pytest.param([*range(10), *range(12, 30)], id="two batches skipped"),
        pytest.param([0], id="one at first"),
        *(
            pytest.param(
                [k for k in range(30) if BURSTS.random() < share],
                id=f"{share:.0%} of the steps, {number}",
            )
            for share in (0.2, 0.5, 0.8)
            for number in range(20)
        ),
    ],
)
def test_a_loop_that_uses_the_gpu_in_some_of_its_steps_lost_nothing(
    recorded: Sequence[int],
) -> None:
    assert recorded_in(recorded).complaints == ()


def test_a_step_that_only_asks_whether_the_gpu_is_done_was_recorded() -> None:
    """An engine that has launched all that there is, and is polled until it is done."""
    at = [100_000 * k for k in range(30)]
    polled = only(
        build(
            ranges=[Range(start=start, end=start + 90_000) for start in at],
            calls=[
                *(Call(start=t + 9, end=t + 99, correlation=1 + k) for k, t in enumerate(at[:20])),
                *(
                    Call(start=t + 109, end=t + 199, name="cudaEventQuery", correlation=99 + k)
                    for k, t in enumerate(at)
                ),
            ],
            kernels=[
                Op(start=t + 100, end=t + 60_000, correlation=1 + k) for k, t in enumerate(at[:20])
            ],
        )
    )
    assert polled.complaints == ()


def test_a_loop_that_only_allocates_pinned_memory_at_first_lost_nothing() -> None:
    allocating = [
        Call(start=100_000 * k + 9, end=100_000 * k + 99, name="cudaHostAlloc", correlation=1 + k)
        for k in range(8)
    ]
    on_the_cpu = [Range(start=100_000 * k, end=100_000 * k + 90_000) for k in range(30)]
    copying = [Op(start=100, end=60_000, correlation=1)]
    assert only(build(ranges=on_the_cpu, calls=allocating)).complaints == ()
    assert only(build(ranges=on_the_cpu, calls=allocating, copies=copying)).complaints == ()


def test_of_several_processes_one_without_any_of_its_kernels_lost_them() -> None:
    def job(*, ran: bool) -> list[tuple[str, ...]]:
        """Two processes that launch a kernel a step each, of which the second's were never recorded."""
        ids = [
            (number, 100_000 * k, 1 + 1000 * number + k) for number in range(2) for k in range(20)
        ]
        timeline = build(
            ranges=[Range(start=at, end=at + 90_000, pid=100 + number) for number, at, _ in ids],
            calls=[
                Call(start=at + 9, end=at + 99, pid=100 + number, correlation=one)
                for number, at, one in ids
            ],
            kernels=[
                Op(start=at + 99, end=at + 60_000, correlation=one)
                for number, at, one in ids
                if ran and not number
            ],
        )
        return [sample.complaints for sample in measure(timeline, step="step")]

    with_kernels, without = job(ran=True)
    assert with_kernels == ()
    assert without == (
        (
            "of 20 kernel launches in the steps the capture lacks 20 kernels: the profiler was stopped before the GPU "
            "had ended them, or lost them; synchronise before it stops, or let it stop later"
        ),
    )
    # Where no kernel is in the capture at all, none was traced: what that leaves untold is said elsewhere.
    assert job(ran=False) == [(), ()]


def of_nodes(ran: Callable[[int, int], bool]) -> ProcessSample:
    """Thirty steps of a graph of eight kernels, of which these were recorded, by step and node."""
    return only(
        build(
            ranges=[Range(start=100_000 * k, end=100_000 * k + 90_000) for k in range(30)],
            calls=[
                Call(
                    start=100_000 * k + 9,
                    end=100_000 * k + 99,
                    name="cudaGraphLaunch",
                    correlation=1 + k,
                )
                for k in range(30)
            ],
            kernels=[
                Op(start=at, end=at + 5_000, correlation=1 + k, graph_node=2**33 + node)
                for k in range(30)
                for node in range(8)
                if ran(k, node)
                for at in [100_000 * k + 10_000 * (1 + node)]
            ],
        )
    )


def test_graphs_that_lack_a_third_of_their_kernels_are_no_measurement() -> None:
    assert of_nodes(lambda _step, _node: True).complaints == ()
    assert of_nodes(lambda step, node: (8 * step + node) % 3 > 0).complaints == (
        (
            "of 240 kernels in CUDA graphs in the steps the capture lacks 80: none of a graph's kernels is there each "
            "time that the graph was launched, so the profiler lost some; run it again"
        ),
    )


def test_graphs_that_branch_are_measured() -> None:
    assert of_nodes(lambda step, node: node < 4 or step % 2 == node % 2).complaints == ()


GRAPHS_LOST = (
    "of 30 launches of kernels and CUDA graphs in the steps the capture lacks 8 of them: the profiler was stopped "
    "before the GPU had ended them, or lost them; synchronise before it stops, or let it stop later"
)


@pytest.mark.parametrize(("lost", "complaints"), [(0, ()), (8, (GRAPHS_LOST,))])
@pytest.mark.parametrize("traced", ["whole", "by node"])
def test_graphs_that_the_capture_lacks_are_no_measurement(
    lost: int, complaints: tuple[str, ...], traced: str
) -> None:
    ran = [
        Op(start=3_000_000 * k, end=3_000_000 * (k + 1), correlation=k) for k in range(1, 31 - lost)
    ]
    timeline = build(
        ranges=[Range(start=100_000 * k, end=100_000 * k + 90_000) for k in range(1, 31)],
        calls=[
            Call(start=100_000 * k + 9, end=100_000 * k + 99, name="cudaGraphLaunch", correlation=k)
            for k in range(1, 31)
        ],
        graphs=ran if traced == "whole" else [],
        kernels=[] if traced == "whole" else ran,
    )
    assert only(timeline).complaints == complaints


def test_what_ran_before_the_steps_excuses_no_kernel_that_is_lost() -> None:
    """Nor does what ran since without a call, but for as many."""

    def ahead(*others: Op) -> ProcessSample:
        kernels = [
            Op(start=3_000_000 * k, end=3_000_000 * (k + 1), correlation=k) for k in range(2, 26)
        ]
        return only(
            build(
                ranges=[Range(start=100_000 * k, end=100_000 * k + 90_000) for k in range(1, 31)],
                calls=[
                    Call(start=100_000 * k + 9, end=100_000 * k + 99, correlation=k)
                    for k in range(1, 31)
                ],
                kernels=[*others, *kernels],
            )
        )

    before, during = (Op(start=at, end=at + 9, correlation=777) for at in (10, 6_000_000))
    assert (
        ahead(before)
        .complaints[0]
        .startswith("of 30 kernel launches in the steps the capture lacks 6 kernels: ")
    )
    assert (
        ahead(during)
        .complaints[0]
        .startswith("of 30 kernel launches in the steps the capture lacks 5 kernels: ")
    )


def test_one_operation_without_a_call_stands_for_one_launch_of_either_kind() -> None:
    """All plain kernels and four graphs are lost, beside nodes of the others and one kernel without a call."""
    starts = {k: 100_000 * k for k in range(1, 31)}
    nodes = [Op(start=3_000_000 * k, end=3_000_000 * (k + 1), correlation=k) for k in range(1, 27)]
    sample = only(
        build(
            ranges=[Range(start=at, end=at + 90_000) for at in starts.values()],
            calls=[
                *(
                    Call(start=at + 9, end=at + 99, name="cudaGraphLaunch", correlation=k)
                    for k, at in starts.items()
                ),
                *(
                    Call(start=at + 109, end=at + 199, correlation=k + 100)
                    for k, at in starts.items()
                ),
            ],
            kernels=[Op(start=6_000_000, end=6_000_009, correlation=777), *nodes],
        )
    )
    told = "of 60 launches of kernels and CUDA graphs in the steps the capture lacks 33 of them: "
    assert sample.complaints[0].startswith(told)


def test_launches_into_a_graph_that_is_being_recorded_have_no_kernel_to_lose() -> None:
    recorded = draw("""
        range   |---step---| |---step---| |----------step----------| |---step---|
        launch    ^a           ^b           ^c      ^lost              ^d
        call                                    |cudaStreamBeginCapture|
        kernel     |-a-|        |-b-|         |c|                       |-d-|
    """)
    assert only(recorded).complaints == ()


def test_kernels_that_no_call_is_known_of_are_not_missed_but_those_that_count_nowhere_are() -> None:
    whole = draw(AHEAD)
    unlinked = dataclasses.replace(
        whole.kernels, correlation=np.full_like(whole.kernels.correlation, -1)
    )
    assert only(dataclasses.replace(whole, kernels=unlinked)).complaints == (
        (
            "of 5 kernels and CUDA graphs since the first step 1 has no API call in the capture and ran outside all "
            "steps, so that they would count nowhere: run it again"
        ),
    )


@pytest.mark.parametrize(
    ("lost", "is_told"), [(0, False), (2, False), (3, True), (200, True), (300, False)]
)
def test_kernels_between_the_steps_whose_calls_were_lost_count_nowhere(
    lost: int, is_told: bool
) -> None:
    # Two a step; the second runs when its step's range is over. From a quarter on nothing is known, and nothing told.
    starts = [10_000 * k for k in range(1, 501)]
    sample = only(
        build(
            ranges=[Range(start=at, end=at + 5_000) for at in starts],
            calls=[
                Call(start=at + 10 * which, end=at + 10 * which + 5, correlation=2 * k + which)
                for k, at in enumerate(starts)
                for which in (0, 1)
                if not (which and k >= len(starts) - lost)
            ],
            kernels=[
                Op(
                    start=at + 100 + 6_000 * which,
                    end=at + 3_000 + 6_000 * which,
                    correlation=2 * k + which,
                )
                for k, at in enumerate(starts)
                for which in (0, 1)
            ],
        )
    )
    told = [
        text
        for text in sample.complaints
        if text.startswith("of 1000 kernels and CUDA graphs since the first")
    ]
    assert bool(told) == is_told
    assert (Metric.KERNEL_MS in sample.absent) == (lost == 300)


def test_a_capture_that_lacks_copies_is_no_run() -> None:
    assert only(copied(40)).complaints == only(copied(38)).complaints == ()
    (told,) = only(copied(30)).complaints
    assert told.startswith(
        "of 40 calls that copy in the steps the capture lacks the copies of 10: "
    )


@pytest.mark.parametrize(
    "empty",
    [
        pytest.param([1] * 40, id="one a step"),
        pytest.param([*[1] * 39, 0], id="one a step but in the last"),
        pytest.param([0, *[1] * 39], id="one a step but in the first"),
        pytest.param([2, 0, 0, 0] * 10, id="some in every fourth"),
        pytest.param([*[0] * 39, 9], id="many in the last"),
    ],
)
def test_calls_that_copy_nothing_are_none_whose_copies_were_lost(empty: Sequence[int]) -> None:
    assert only(copied(40, empty=empty)).complaints == ()
    (told,) = only(copied(30, empty=empty)).complaints
    assert told.startswith(
        f"of {40 + sum(empty)} calls that copy in the steps the capture lacks the copies of "
    )


def test_a_step_that_records_a_graph_proves_no_copy_lost() -> None:
    assert only(copied(40, empty=[1] * 40, recording=3)).complaints == ()


def test_copies_that_one_of_two_streams_had_not_ended_are_lost() -> None:
    whole = copied(40, empty=[1] * 40)
    second = [
        Op(start=t * 100 + 60, end=t * 100 + 70, correlation=2001 + 100 * t) for t in range(30)
    ]
    copies = [Op(start=t * 100 + 10, end=t * 100 + 30, correlation=t + 1) for t in range(40)]
    (told,) = only(
        dataclasses.replace(whole, copies=build(copies=[*copies, *second]).copies)
    ).complaints
    assert told.startswith(
        "of 80 calls that copy in the steps the capture lacks the copies of 10: "
    )


def test_kernels_without_times_are_a_complaint_unless_they_are_all() -> None:
    def untimed(number: int, of: int = 40) -> ProcessSample:
        return only(
            build(
                ranges=[Range(start=t * 100, end=t * 100 + 90) for t in range(1, of + 1)],
                calls=[
                    Call(start=t * 100 + 8, end=t * 100 + 9, correlation=t)
                    for t in range(1, of + 1)
                ],
                kernels=[
                    Op(start=0, end=0, correlation=t)
                    if t <= number
                    else Op(start=t * 100 + 40, end=t * 100 + 60, correlation=t)
                    for t in range(1, of + 1)
                ],
            )
        )

    assert (
        untimed(0).complaints
        == untimed(1, of=200).complaints
        == untimed(2, of=400).complaints
        == ()
    )
    assert any("have no times" in told for told in untimed(3, of=600).complaints)
    assert (
        "of 40 GPU operations 2 have no times in the capture, and would count as 0 ms: run it again"
        in (untimed(2).complaints)
    )
    assert Metric.KERNEL_MS in untimed(40).absent
    assert not any("have no times" in told for told in untimed(40).complaints)


def begun(
    *, before_call_ns: Callable[[int], int], steps: int = 200, managed: bool = False
) -> ProcessSample:
    """Steps of 1 ms with one operation each, which begins so long before its call."""
    starts = {k: 1_000_000 * k for k in range(1, steps + 1)}
    calls = {k: at + 500_000 for k, at in starts.items()}
    ops = [
        Op(start=at - before_call_ns(k), end=at + 300_000, correlation=k) for k, at in calls.items()
    ]
    moved = [
        dataclasses.replace(op, kind=CopyKind.UVM_H2D, source=MemoryKind.MANAGED) for op in ops
    ]
    return only(
        build(
            ranges=[Range(start=at, end=at + 900_000) for at in starts.values()],
            calls=[
                *(Call(start=at, end=at + 9_000, correlation=k) for k, at in calls.items()),
                *(
                    Call(start=at + 99, end=at + 8_000, name="cuLaunchKernel", correlation=k)
                    for k, at in calls.items()
                ),
            ],
            kernels=[dataclasses.replace(op, start=op.end - 9) for op in ops] if managed else ops,
            copies=moved if managed else [],
        )
    )


def test_operations_that_begin_before_their_calls_are_no_measurement() -> None:
    assert begun(before_call_ns=lambda _: 50_000).complaints == ()
    assert begun(before_call_ns=lambda _: 60_000).complaints == (
        (
            "of 200 GPU operations in the steps 200 begin before the call that launched them, by 0.06 ms at the "
            "median: the GPU's clock and the CPU's disagree in this capture, or those times are wrong; run it again, "
            "or with another nsys or driver"
        ),
    )
    assert begun(before_call_ns=lambda _: 60_000, managed=True).complaints == ()


def test_few_operations_before_their_calls_are_a_complaint_once_they_take_a_share_of_the_steps() -> (
    None
):
    assert begun(before_call_ns=lambda k: 60_000 if k <= 2 else 0).complaints == ()
    assert begun(before_call_ns=lambda k: 60_000 if k <= 3 else 0).complaints != ()
    assert begun(before_call_ns=lambda k: 1_000_000 if k == 150 else 0).complaints == ()
    (told,) = begun(before_call_ns=lambda k: 150_000_000 if k == 150 else 0).complaints
    assert told.startswith(
        "of 200 GPU operations in the steps 1 begins before the call that launched it, by 150 ms at the median: "
    )


def offloading(*, every: int, lasts_ms: float) -> ProcessSample:
    """Steps of 4 ms, of which every n-th starts a copy that ends behind the steps after it."""
    starts = [4_000_000 * k for k in range(1, 31)]
    copying = starts[::every]
    return only(
        build(
            ranges=[Range(start=at, end=at + 3_999_000) for at in starts],
            calls=[
                *(Call(start=at + 9, end=at + 99, correlation=at) for at in starts),
                *(
                    Call(start=at + 109, end=at + 199, name="cudaMemcpyAsync", correlation=at + 1)
                    for at in copying
                ),
            ],
            kernels=[Op(start=at + 50_000, end=at + 3_900_000, correlation=at) for at in starts],
            copies=[
                Op(
                    start=at + 50_000,
                    end=at + int(lasts_ms * 1e6),
                    kind=CopyKind.D2H,
                    correlation=at + 1,
                )
                for at in copying
            ],
        )
    )


def test_steps_that_are_complete_in_clumps_have_no_period_to_judge() -> None:
    sample = offloading(every=3, lasts_ms=11.0)
    assert sample.complaints == (
        (
            "GPU work of earlier steps goes on until the end of 10 of the 30 steps, or beyond: they are complete in "
            "clumps, whose periods are no step's; wait in a step for what it starts, or mark the whole cycle as one "
            "step"
        ),
    )
    assert offloading(every=4, lasts_ms=10.0).complaints != ()
    assert offloading(every=30, lasts_ms=100.0).complaints != ()


@pytest.mark.parametrize(
    ("alike", "complains"),
    [pytest.param(2, True, id="pairs"), pytest.param(20, True, id="all"), (1, False)],
)
def test_steps_whose_work_ends_at_the_same_nanosecond_are_complete_in_clumps(
    alike: int, *, complains: bool
) -> None:
    starts = [1_000_000 * k for k in range(1, 21)]
    ends = [starts[min(k // alike * alike + alike, 20) - 1] + 950_000 for k in range(20)]
    sample = only(
        build(
            ranges=[Range(start=at, end=at + 900_000) for at in starts],
            calls=[Call(start=at + 9, end=at + 99, correlation=at) for at in starts],
            kernels=[
                Op(start=at + 5_000, end=end, correlation=at)
                for at, end in zip(starts, ends, strict=True)
            ],
        )
    )
    assert any("they are complete in clumps" in told for told in sample.complaints) == complains
    assert (sample.values[Metric.STEP_MS] == 0) == (alike == 20)
    idle_of_nothing = "the median period is 0 ms, of which no share is idle"
    assert sample.absent.get(Metric.GAP_MS) == (idle_of_nothing if alike == 20 else None)


def test_a_median_period_of_0_is_a_complaint_however_few_of_the_steps_make_it() -> None:
    """Of nine bouts of two steps in flight, seven have a period that counts; it is 0 in four."""
    bouts = [100_000_000 * k for k in range(1, 10)]
    firsts = {
        at: at + (48_000_000 if 2 <= k <= 5 else 30_000_000) for k, at in enumerate(bouts, start=1)
    }
    seconds = {at + 10_000_000: at + 48_000_000 for at in bouts}
    runs = firsts | seconds
    sample = only(
        build(
            ranges=[
                *(Range(start=at, end=at + 30_000_000, push_pop=False) for at in runs),
                *(
                    Range(start=at + 50_000_000, end=at + 60_000_000, name=WAIT_RANGE)
                    for at in bouts
                ),
            ],
            calls=[Call(start=at + 9, end=at + 99, correlation=at) for at in runs],
            kernels=[Op(start=at + 5_000, end=end, correlation=at) for at, end in runs.items()],
        )
    )
    assert (len(sample.periods_ms), sample.values[Metric.STEP_MS]) == (7, 0)
    (told,) = sample.complaints
    assert told.startswith(
        "GPU work of earlier steps goes on until the end of 4 of the 18 steps, or beyond: "
    )


@pytest.mark.parametrize("steps", [30, 31])
def test_steps_that_launch_nothing_are_complete_in_clumps_as_well(steps: int) -> None:
    """Every second or third step launches a kernel that outlasts several, which the CPU leaves at once."""
    for every in (2, 3):
        starts = [400_000 * k for k in range(1, steps + 1)]
        launching = starts[::every]
        kernels = [
            Op(start=number * 30_000_000, end=(number + 1) * 30_000_000, correlation=number)
            for number in range(1, len(launching) + 1)
        ]
        sample = only(
            build(
                ranges=[Range(start=at, end=at + 390_000) for at in starts],
                calls=[
                    Call(start=at + 9, end=at + 99, correlation=n)
                    for n, at in enumerate(launching, start=1)
                ],
                kernels=kernels,
            )
        )
        assert any("they are complete in clumps" in told for told in sample.complaints)


@pytest.mark.parametrize(("every", "step_ms"), [(6, 3.0), (1, 4.0)])
def test_a_copy_now_and_then_that_outlasts_its_step_is_no_clump(every: int, step_ms: float) -> None:
    # Of every sixth, a period is cut at 4.8 ms and the two behind it are short.
    sample = offloading(every=every, lasts_ms=11.0)
    assert sample.values[Metric.STEP_MS] == pytest.approx(step_ms, abs=0.01)
    assert not any("clumps" in complaint for complaint in sample.complaints)


EMPTY = (
    "a step takes 0.015 ms, about what marking it takes, and launches nothing on a GPU: the work is done elsewhere; "
    "do it in the body of the loop over the steps"
)


@pytest.mark.parametrize(("period_us", "says"), [(15, (EMPTY,)), (20, ())])
def test_steps_as_short_as_their_marking_complain(period_us: int, says: tuple[str, ...]) -> None:
    at = [period_us * 1000 * index for index in range(9)]
    assert only(build(ranges=[Range(start=one, end=one + 2000) for one in at])).complaints == says


def test_steps_may_be_short_where_they_launch_work() -> None:
    at = [15_000 * index for index in range(9)]
    ranges = [Range(start=one, end=one + 2000) for one in at]
    kernels = [Op(start=one + 500, end=one + 900) for one in at]
    assert only(build(ranges=ranges, kernels=kernels)).complaints == ()


def test_work_of_a_process_without_steps_on_the_steps_gpu_is_a_complaint() -> None:
    lanes = """
        range         |----step----|  |----step----|  |----step----|
        launch         ^a              ^b              ^c
        kernel gpu0     |-a-|           |-b-|           |-c-|
        """
    alone = only(draw(lanes))
    beside = only(draw(lanes + "kernel gpu0 pid7                    |----z----|\n"))
    elsewhere = only(draw(lanes + "kernel gpu1 pid7                    |----z----|\n"))
    assert alone.complaints == elsewhere.complaints == ()
    assert elsewhere.remarks == (
        *alone.remarks,
        "process 7, in which no step is marked, kept GPU 1 busy meanwhile: that is in no metric",
    )
    (told,) = beside.complaints
    assert told.startswith(
        "process 7 of the same workload, in which no step is marked, kept GPU 0 busy for "
    )
    assert beside.values[Metric.KERNEL_MS] == alone.values[Metric.KERNEL_MS]


def test_ranks_in_which_no_step_is_marked_are_a_complaint_on_whichever_gpu() -> None:
    lanes = """
        range         |----step----|  |----step----|  |----step----|
        launch         ^a              ^b              ^c
        kernel gpu0     |-a-|           |-b-|           |-c-|
        """
    reduced = "nccl gpu0                           |r|\n"
    beside = """
        nccl gpu1 pid7              |z|            |y|
        nccl gpu2 pid8                   |x|
        """
    (told,) = only(draw(lanes + reduced + beside)).complaints
    assert told == (
        "processes 7 and 8 of the same workload run NCCL's kernels meanwhile, and no step is marked there: of a job's "
        "ranks the slowest is judged, so mark the steps on each of them"
    )
    # Before the steps, say to broadcast weights, they may do so.
    broadcast = """
        range                   |----step----|  |----step----|  |----step----|
        launch                   ^a              ^b              ^c
        kernel gpu0               |-a-|           |-b-|           |-c-|
        nccl gpu1 pid7     |z|
        nccl gpu0                           |r|
        """
    assert only(draw(broadcast)).complaints == ()
    # A server beside it, of which the process with the steps is no rank.
    server = only(draw(lanes + beside))
    assert server.complaints == ()
    assert (
        "process 7, in which no step is marked, kept GPU 1 busy meanwhile: that is in no metric"
        in server.remarks
    )


def test_work_of_a_process_without_steps_is_a_complaint_where_the_steps_use_no_gpu_themselves() -> (
    None
):
    client = """
        range         |----step----|  |----step----|  |----step----|
        """
    engine = only(draw(client + "kernel gpu1 pid7    |-a-|           |-b-|           |-c-|\n"))
    (told,) = (one for one in engine.complaints if "no step is marked" in one)
    assert told.startswith(
        "process 7 of the same workload, in which no step is marked, kept GPU 1 busy for "
    )
    assert not any("no step is marked" in one for one in only(draw(client)).complaints)


def test_processes_whose_steps_follow_one_another_are_no_ranks() -> None:
    after = measure(
        build(
            ranges=[
                Range(start=t, end=t + 50, pid=p)
                for p in (1, 2)
                for t in range(p * 1000, p * 1000 + 300, 100)
            ]
        ),
        step="step",
    )
    (told,) = (
        one for process in after for one in process.complaints if "one after the other" in one
    )
    assert told == (
        "the steps of processes 1 and 2 are one after the other: they are no ranks of one job; let `step` match those "
        "of one of them, or, if a launcher started the job anew (torchrun --max-restarts), see why the first attempt "
        "failed"
    )
    assert after[0].complaints[0] == told
    beside = measure(
        build(
            ranges=[
                Range(start=t, end=t + 50, pid=p)
                for p in (1, 2)
                for t in range(p * 100, p * 100 + 300, 100)
            ]
        ),
        step="step",
    )
    assert not any("one after the other" in told for one in beside for told in one.complaints)


def test_replicas_that_begin_at_different_times_on_gpus_of_their_own_are_one_job() -> None:
    def beside(device: int, missing: Mapping[str, str] | None = None) -> bool:
        starts = [(pid, t, pid * 1000) for pid in (1, 2) for t in range(3)]
        samples = measure(
            build(
                ranges=[
                    Range(start=first + t * 100, end=first + t * 100 + 90, pid=pid)
                    for pid, t, first in starts
                ],
                calls=[
                    Call(
                        start=first + t * 100 + 5,
                        end=first + t * 100 + 6,
                        pid=pid,
                        correlation=t + 1,
                    )
                    for pid, t, first in starts
                ],
                kernels=[
                    Op(
                        start=first + t * 100 + 10,
                        end=first + t * 100 + 30,
                        pid=pid,
                        correlation=t + 1,
                        device=device * (pid - 1),
                    )
                    for pid, t, first in starts
                ],
                missing=missing,
            ),
            step="step",
        )
        return not any("one after the other" in told for one in samples for told in one.complaints)

    assert beside(1)
    assert beside(0, missing={"devices": "it cannot be told"})
    assert not beside(0)
