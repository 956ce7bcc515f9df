"""What makes a run no measurement of its steps, and what else is said of its numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from support.cases import named
from support.measuring import codes, copied, only
from support.timelines import Call, Op, Range, build, draw

from perfgate.metrics.measure import measure
from perfgate.model.metric import Metric
from perfgate.model.note import Severity, Value
from perfgate.model.sample import ProcessSample


def fields(sample: ProcessSample, code: str) -> dict[str, Value]:
    """Of the note with a code."""
    (found,) = (one for one in sample.notes if one.code == code)
    return dict(found.fields)


# --- INVALID -----------------------------------------------------------------


@pytest.mark.parametrize("lost", [0, 1, 4])
def test_a_capture_that_lacks_the_last_kernels_is_no_measurement(lost: int) -> None:
    # Where the CPU runs ahead, steps without their kernels are complete with their range: too
    # early.
    whole = draw("""
        range   |step||step||step||step||step|
        launch   ^a    ^b    ^c    ^d    ^e
        kernel   |--a--||--b--||--c--||--d--||--e--|
    """)
    kept = {
        one.name: getattr(whole.kernels, one.name)[: 5 - lost]
        for one in dataclasses.fields(whole.kernels)
    }
    sample = only(dataclasses.replace(whole, kernels=dataclasses.replace(whole.kernels, **kept)))
    if lost:
        assert fields(sample, "work-lost") == {"launched": 5, "lost": lost}
    else:
        assert codes(sample, Severity.INVALID) == []


@pytest.mark.parametrize(("has_ids", "lost"), [(True, 4), (False, 0)])
def test_a_kernel_with_an_id_of_its_own_is_of_no_other_launch(*, has_ids: bool, lost: int) -> None:
    starts = {k: 1_000 * k for k in range(1, 41)}
    sample = only(
        build(
            ranges=[Range(start=at, end=at + 900) for at in starts.values()],
            calls=[
                Call(start=at + 10, end=at + 20, correlation=k)
                for k, at in starts.items()
                if k not in range(31, 35)
            ],
            kernels=[
                Op(
                    start=at + 30,
                    end=at + 800,
                    correlation=k if has_ids or k not in range(31, 35) else 0,
                )
                for k, at in starts.items()
                if k not in range(11, 15)
            ],
        )
    )
    assert ("work-lost" in codes(sample)) == bool(lost)
    if lost:
        assert fields(sample, "work-lost") == {"launched": 36, "lost": lost}


def of_nodes(ran: Callable[[int, int], bool]) -> ProcessSample:
    """Thirty steps of a graph of eight kernels, of which these were recorded, by step and node."""
    return only(
        build(
            ranges=[Range(start=100_000 * k, end=100_000 * k + 90_000) for k in range(30)],
            calls=[
                Call(start=at + 9, end=at + 99, name="cudaGraphLaunch", correlation=1 + k)
                for k, at in enumerate(range(0, 3_000_000, 100_000))
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


@pytest.mark.parametrize(
    ("ran", "found"),
    [
        (lambda _step, _node: True, []),
        (lambda step, node: (8 * step + node) % 3 > 0, ["graph-kernels-lost"]),
        pytest.param(lambda step, node: node < 4 or step % 2 == node % 2, [], id="branches"),
        (lambda step, _node: step < 22, ["work-lost", "steps-without-records"]),
    ],
)
def test_graphs_that_lack_kernels_are_no_measurement(
    ran: Callable[[int, int], bool], found: Sequence[str]
) -> None:
    assert set(codes(of_nodes(ran), Severity.INVALID)) <= set(found)
    assert codes(of_nodes(ran), Severity.INVALID)[:1] == list(found[:1])


def test_launches_into_a_graph_that_is_being_recorded_have_no_kernel_to_lose() -> None:
    recorded = draw("""
        range   |---step---| |---step---| |----------step----------| |---step---|
        launch    ^a           ^b           ^c      ^lost              ^d
        call                                    |cudaStreamBeginCapture|
        kernel     |-a-|        |-b-|         |c|                       |-d-|
    """)
    assert codes(only(recorded), Severity.INVALID) == []


def recorded_in(steps: Sequence[int]) -> ProcessSample:
    """Thirty steps of which some have a launch and its kernel, the others only their ranges."""
    return only(
        build(
            ranges=[Range(start=100_000 * k, end=100_000 * k + 90_000) for k in range(30)],
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
    ("recorded", "first", "last"),
    named(
        {
            "the last third": (range(20), 21, 30),
            "the last one": (range(29), 30, 30),
            "the first": (range(6, 30), 1, 6),
            "three between": ([*range(10), *range(13, 30)], 11, 13),
            "and a batch skipped": ([k for k in range(20) if k != 7], 21, 30),
        }
    ),
)
def test_steps_of_which_nothing_but_their_ranges_was_recorded_are_no_idle_time(
    recorded: Sequence[int], first: int, last: int
) -> None:
    found = fields(recorded_in(recorded), "steps-without-records")
    assert (found["first"], found["last"], found["steps"]) == (first, last, 30)


BURSTS = np.random.default_rng(1)


@pytest.mark.parametrize(
    "recorded",
    [
        pytest.param(range(30), id="all"),
        pytest.param(range(0, 20, 2), id="every second, and none at last"),
        pytest.param([*range(10), *range(12, 30)], id="two batches skipped"),
        pytest.param([0], id="one at first"),
        *([k for k in range(30) if BURSTS.random() < 0.1 * (2 + n % 7)] for n in range(20)),
    ],
)
def test_a_loop_that_uses_the_gpu_in_some_of_its_steps_lost_nothing(
    recorded: Sequence[int],
) -> None:
    assert codes(recorded_in(recorded), Severity.INVALID) == []


@pytest.mark.parametrize(
    ("lost", "is_noted", "is_absent"), [(2, False, False), (3, True, False), (300, False, True)]
)
def test_kernels_between_the_steps_whose_calls_were_lost_are_of_no_step(
    lost: int, *, is_noted: bool, is_absent: bool
) -> None:
    # Two a step; the second runs when its step's range is over.
    each = [(10_000 * k, k, which) for k in range(1, 501) for which in (0, 1)]
    sample = only(
        build(
            ranges=[Range(start=at, end=at + 5_000) for at, _, which in each if not which],
            calls=[
                Call(start=at + 10 * which, end=at + 10 * which + 5, correlation=2 * k + which)
                for at, k, which in each
                if not (which and k > 500 - lost)
            ],
            kernels=[
                Op(start=at + 100, end=at + 3_000, correlation=2 * k + which)
                for begun, k, which in each
                for at in [begun + 6_000 * which]
            ],
        )
    )
    assert ("operations-of-no-step" in codes(sample)) == is_noted
    assert (Metric.KERNEL_MS in sample.absent) == is_absent


@pytest.mark.parametrize(("held", "lost"), [(40, 0), (38, 0), (30, 10)])
@pytest.mark.parametrize(
    "empty",
    named(
        {
            "none": ([0] * 40,),
            "one a step": ([1] * 40,),
            "some in every fourth": ([2, 0, 0, 0] * 10,),
            "many in the last": ([*[0] * 39, 9],),
        }
    ),
)
def test_copies_that_the_capture_lacks_and_calls_that_copy_nothing(
    held: int, lost: int, empty: Sequence[int]
) -> None:
    found = codes(only(copied(held, empty=empty)), Severity.INVALID)
    if held == 38 and any(empty):
        return  # two of so many calls are few
    assert found == (["copies-lost"] if lost else [])


def test_kernels_without_times_make_a_run_invalid() -> None:
    def untimed(number: int, of: int = 40) -> ProcessSample:
        each = {t: t * 100 for t in range(1, of + 1)}
        return only(
            build(
                ranges=[Range(start=at, end=at + 90) for at in each.values()],
                calls=[Call(start=at + 8, end=at + 9, correlation=t) for t, at in each.items()],
                kernels=[
                    Op(start=(t > number) * (at + 40), end=(t > number) * (at + 60), correlation=t)
                    for t, at in each.items()
                ],
            )
        )

    for few in (untimed(0), untimed(1, of=200), untimed(2, of=400)):
        assert "durations-lost" not in codes(few)
    assert fields(untimed(2), "durations-lost") == {"held": 40, "lacking": 2}
    assert fields(untimed(40), "durations-lost") == {"held": 40, "lacking": 40}


@pytest.mark.parametrize(
    ("before_call_ns", "is_noted"),
    [
        (lambda _: 50_000, False),
        (lambda _: 60_000, True),
        (lambda k: 60_000 if k <= 2 else 0, False),
        (lambda k: 60_000 if k <= 3 else 0, True),
        (lambda k: 190_000 if k == 9 else 0, False),
        (lambda k: 210_000 if k == 9 else 0, True),
    ],
)
def test_operations_that_begin_before_their_calls_are_no_measurement(
    before_call_ns: Callable[[int], int], *, is_noted: bool
) -> None:
    starts = {k: 1_000_000 * k for k in range(1, 201)}
    sample = only(
        build(
            ranges=[Range(start=at, end=at + 900_000) for at in starts.values()],
            calls=[
                Call(start=at + 500_000, end=at + 509_000, correlation=k)
                for k, at in starts.items()
            ],
            kernels=[
                Op(start=at + 500_000 - before_call_ns(k), end=at + 800_000, correlation=k)
                for k, at in starts.items()
            ],
        )
    )
    assert ("clocks-disagree" in codes(sample)) == is_noted


@pytest.mark.parametrize(
    ("every", "lasts_ms", "in_clumps"),
    [(3, 11.0, True), (4, 10.0, True), (30, 100.0, True), (6, 11.0, False), (1, 11.0, False)],
)
def test_steps_that_are_complete_in_clumps_have_no_period_to_judge(
    every: int, lasts_ms: float, *, in_clumps: bool
) -> None:
    """Steps of 4 ms, of which every n-th starts a copy that ends behind the steps after it."""
    starts = [4_000_000 * k for k in range(1, 31)]
    sample = only(
        build(
            ranges=[Range(start=at, end=at + 3_999_000) for at in starts],
            calls=[
                *(Call(start=at + 9, end=at + 99, correlation=at) for at in starts),
                *(
                    Call(start=at + 109, end=at + 199, name="cudaMemcpyAsync", correlation=at + 1)
                    for at in starts[::every]
                ),
            ],
            kernels=[Op(start=at + 50_000, end=at + 3_900_000, correlation=at) for at in starts],
            copies=[
                Op(start=at + 50_000, end=at + int(lasts_ms * 1e6), correlation=at + 1)
                for at in starts[::every]
            ],
        )
    )
    assert ("steps-in-clumps" in codes(sample)) == in_clumps


@pytest.mark.parametrize(("period_us", "is_empty"), [(15, True), (20, False)])
def test_steps_as_short_as_their_marking_hold_nothing(period_us: int, *, is_empty: bool) -> None:
    at = [period_us * 1000 * index for index in range(9)]
    ranges = [Range(start=one, end=one + 2000) for one in at]
    assert ("steps-empty" in codes(only(build(ranges=ranges)))) == is_empty
    working = build(ranges=ranges, kernels=[Op(start=one + 500, end=one + 900) for one in at])
    assert "steps-empty" not in codes(only(working))


STEPS = """
    range         |----step----|  |----step----|  |----step----|
    """
ON_GPU_0 = """
    launch         ^a              ^b              ^c
    kernel gpu0     |-a-|           |-b-|           |-c-|
    """
REDUCED = """
    nccl gpu0                           |r|
    """


@pytest.mark.parametrize(
    ("lanes", "code"),
    [
        (STEPS + ON_GPU_0, None),
        (
            STEPS + ON_GPU_0 + "    kernel gpu0 pid7                              |----z----|",
            "work-without-steps",
        ),
        (
            STEPS + ON_GPU_0 + "    kernel gpu1 pid7                              |----z----|",
            "gpu-used-by-others",
        ),
        (
            STEPS + "    kernel gpu1 pid7 |-a-|           |-b-|           |-c-|",
            "work-without-steps",
        ),
        (
            STEPS + ON_GPU_0 + REDUCED + "    nccl gpu1 pid7                  |z|",
            "ranks-without-steps",
        ),
        # A server next to it, of which the process with the steps is no rank.
        (
            STEPS + ON_GPU_0 + "    nccl gpu1 pid7                                |----z----|",
            "gpu-used-by-others",
        ),
    ],
)
def test_work_of_processes_without_steps_is_in_no_metric(lanes: str, code: str | None) -> None:
    sample = only(draw(lanes))
    of_others = {"work-without-steps", "gpu-used-by-others", "ranks-without-steps"}
    found = [one for one in sample.notes if one.code in of_others]
    if code is None:
        assert found == []
        return
    assert found[0].code == code
    assert found[0].fields["pids"] == ("7",)
    assert (found[0].severity is Severity.WARN) == (code == "gpu-used-by-others")


def one_after_another(apart: int) -> bool:
    ranges = [
        Range(start=apart * pid + 100 * t, end=apart * pid + 100 * t + 90, pid=pid)
        for pid in (1, 2)
        for t in range(3)
    ]
    samples = measure(build(ranges=ranges), step="step")
    return any("processes-consecutive" in codes(one) for one in samples)


def test_processes_whose_steps_follow_one_another_are_no_ranks() -> None:
    assert one_after_another(apart=1000)
    assert not one_after_another(apart=100)


# --- what else is said ---------------------------------------------------------


@pytest.mark.parametrize(
    ("picture", "code", "severity"),
    [
        (
            """
            range   |step| |step| |step|
            launch    ^a     ^b     ^c
            kernel     |-----a-----|-----b-----|-----c-----|
            """,
            "cpu-runs-ahead",
            Severity.ROUTINE,
        ),
        ("range |--step--| |--step--|   |--step--|", "cpu-only", Severity.ROUTINE),
        (
            """
            range   |----step----|  |----step----|  |----step----|
            launch                     ^b
            kernel      |a|             |b|             |c|
            """,
            "counted-where-run",
            Severity.INFO,
        ),
        (
            """
            range   |----step----|  |----step----|  |----step----|
            launch     ^a              ^b              ^c
            graph       |-a-|           |-b-|           |-c-|
            """,
            "graphs-traced-whole",
            Severity.INFO,
        ),
    ],
)
def test_what_counts_otherwise_than_one_would_think_is_said(
    picture: str, code: str, severity: Severity
) -> None:
    assert code in codes(only(draw(picture)), severity)


def full_queue(*, calls_lost: int = 0) -> ProcessSample:
    """Twelve steps of 10 us of kernel each, launched two steps ahead of the GPU."""
    ran = [Op(start=10_000 * k, end=10_000 * (k + 1), correlation=k + 1) for k in range(14)]
    calls = [
        Call(start=10_000 * k + 100, end=10_000 * k + 200, correlation=k + 3)
        for k in range(calls_lost, 12)
    ]
    ranges = [Range(start=10_000 * k, end=10_000 * k + 500) for k in range(12)]
    return only(build(ranges=ranges, calls=calls, kernels=ran))


def test_what_was_launched_before_the_capture_is_no_part_of_the_steps_it_ran_in() -> None:
    sample = full_queue()
    assert (sample.values[Metric.KERNEL_MS], sample.values[Metric.STEP_MS]) == (0.01, 0.01)
    assert fields(sample, "launched-before-capture") == {"operations": 2}
    # Where the calls of the first three steps are lost, what ran in them counts where it ran.
    assert fields(full_queue(calls_lost=3), "counted-where-run") == {"operations": 5}
