"""First-time work at the start of the measured steps: told where it is shown, not where a step is slow by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from support.timelines import Call, Op, Range, build

from perfgate.metrics.measure import measure
from perfgate.model.timeline import Timeline
from perfgate.model.workload import WAIT_RANGE

MS = 1_000_000
USUAL = 10
"""Length of a step that does nothing for the first time, ms."""


def loop(
    lengths: Sequence[float],
    *,
    kernels: Mapping[int, float] | None = None,
    trials: Mapping[int, int] | None = None,
    lasting: int = 10,
    calls: Mapping[int, Sequence[str]] | None = None,
    thread: int = 1,
) -> Timeline:
    """A process whose steps take `lengths` ms, each with kernels as long as told (or 2 ms) and API calls by name.

    Kernels are one a step, or as many as there are `trials`; calls last so many ns, and one begins 20 ns after another.
    """
    ranges, ops, made = [], [], []
    at = 0
    for number, length in enumerate(lengths):
        end = at + int(length * MS)
        ranges.append(Range(start=at, end=end))
        made.append(Call(start=at + 10, end=at + 20, correlation=number))
        busy = int((kernels or {}).get(number, 2.0) * MS)
        each = busy // (parts := (trials or {}).get(number, 1))
        begins = [end - busy - 10 + each * part for part in range(parts)]
        ops += [Op(start=begin, end=begin + each, correlation=number) for begin in begins]
        for place, name in enumerate((calls or {}).get(number, ())):
            begin = at + 100 + 20 * place
            made.append(Call(start=begin, end=begin + lasting, name=name, thread=thread))
        at = end
    return build(kernels=ops, calls=made, ranges=ranges)


def complaint(timeline: Timeline) -> str | None:
    (sample,) = measure(timeline, step="step", steps=1000)
    assert len(sample.complaints) <= 1
    return sample.complaints[0] if sample.complaints else None


def steps(*lengths: float, of: int = 20) -> list[float]:
    """Steps that begin with these lengths and go on as usual."""
    return [*lengths, *[float(USUAL)] * (of - len(lengths))]


def test_steps_that_all_take_as_long_have_nothing_of_the_warmup() -> None:
    assert complaint(loop(steps())) is None


def test_steps_that_load_code_or_take_memory_and_are_slow_are_told() -> None:
    calls = {
        0: ["cuModuleLoadData", "cuLibraryLoadData"],
        3: ["cudaMalloc_v3020", "cuModuleLoadData"],
    }
    assert complaint(loop(steps(300, 10, 10, 40), calls=calls)) == (
        "step 4 of the measured 20 took up to 40 ms, the later half 10 ms, and called cudaMalloc once, "
        "cuModuleLoadData once: first-time work that belongs in the warm-up; raise warmup by at least 4"
    )


def test_setup_calls_count_on_whichever_thread_they_were_made() -> None:
    told = complaint(
        loop(steps(10, 10, 10, 13), calls={3: ["cudaGraphInstantiateWithFlags_v11040"]}, thread=7)
    )
    assert told is not None
    assert "called cudaGraphInstantiateWithFlags once" in told


@pytest.mark.parametrize(
    ("call", "kernels", "trials", "lasting", "is_told"),
    [
        pytest.param("cudaMalloc_v3020", 52.0, 1, 10, False, id="longer kernels"),
        pytest.param("cudaMalloc_v3020", 12.0, 4, 10, True, id="as many kernels as of trials"),
        pytest.param("cudaMalloc_v3020", 52.0, 1, 20 * MS, True, id="calls that last"),
        pytest.param("cudaMalloc_v3020", 2.0, 1, 10, True, id="time in which nothing runs"),
        pytest.param("cuModuleLoadData", 52.0, 1, 10, True, id="code that is loaded"),
    ],
)
def test_a_longer_batch_that_takes_memory_is_no_first_time_work(
    call: str, kernels: float, trials: int, lasting: int, is_told: bool
) -> None:
    told = complaint(
        loop(
            steps(10, 10, 10, 60),
            kernels={3: kernels},
            trials={3: trials},
            lasting=lasting,
            calls={3: [call]},
        )
    )
    assert (told is not None) == is_told


def test_a_step_of_more_turns_is_longer_by_as_much() -> None:
    trials = {n: 19 if n == 3 else 10 for n in range(20)}
    calls = {3: ["cudaMalloc_v3020"]}
    assert complaint(loop(steps(10, 10, 10, 19), trials=trials, calls=calls)) is None
    assert complaint(loop(steps(10, 10, 10, 29), trials=trials, calls=calls)) is not None


def test_an_autotuner_is_seen_by_its_kernels_also_where_no_period_counts() -> None:
    calls = {0: ["cudaMalloc_v3020", "cudaMalloc_v3020"]}
    assert complaint(loop(steps(), kernels={0: 9.0}, trials={0: 4}, calls=calls)) == (
        "step 1 of the measured 20 ran kernels for up to 9 ms, the later half 2 ms, and called cudaMalloc 2 times: "
        "first-time work that belongs in the warm-up; raise warmup by at least 1"
    )


def test_compiling_that_fills_most_of_a_short_window_is_told_by_its_last_quarter() -> None:
    compiling = {number: ["cuModuleLoadData", "cuModuleLoadData"] for number in range(8)}
    assert complaint(loop(steps(*[500.0] * 8, of=12), calls=compiling)) == (
        "steps 3, 4, 5, 6, 7, ... of the measured 12 took up to 500 ms, the last quarter 10 ms, and called "
        "cuModuleLoadData 12 times: first-time work that belongs in the warm-up; raise warmup by at least 8"
    )
    assert (
        complaint(
            loop(steps(*[500.0] * 14, of=20), calls={n: ["cuModuleLoadData"] for n in range(14)})
        )
        is not None
    )
    # Two of them, calls that take memory, calls in every step, and steps that are as slow later are none.
    two = {number: ["cuModuleLoadData"] for number in (5, 6)}
    assert complaint(loop(steps(*[500.0] * 8, of=12), calls=two)) is None
    memory = {number: ["cudaMalloc_v3020"] for number in range(8)}
    assert complaint(loop(steps(*[500.0] * 8, of=12), calls=memory)) is None
    assert (
        complaint(
            loop(steps(*[500.0] * 8, of=12), calls={n: ["cuModuleLoadData"] for n in range(12)})
        )
        is None
    )
    assert complaint(loop([*steps(*[500.0] * 8, of=11), 500.0], calls=compiling)) is None


def test_a_slow_step_later_hides_no_compiling() -> None:
    compiling = {number: ["cuModuleLoadData"] * 4 for number in range(9)}
    lengths = [*steps(*[500.0] * 9, of=24), 600.0, *[float(USUAL)] * 5]
    told = complaint(loop(lengths, calls=compiling))
    assert told is not None
    assert told.endswith(
        "called cuModuleLoadData 28 times: first-time work that belongs in the warm-up; raise warmup by at least 9"
    )
    # Without the calls it may be a pace that changed.
    assert complaint(loop(lengths)) is None


def test_a_late_evaluation_that_loads_a_kernel_is_no_compilation() -> None:
    lengths = {number: 90.0 if number in (15, 20) else float(USUAL) for number in range(40)}
    timeline = loop(
        [*lengths.values()], kernels={15: 88.0, 20: 88.0}, calls={15: ["cuModuleLoadData"]}
    )
    assert complaint(timeline) is None
    lasting = loop(
        [*lengths.values()],
        kernels={15: 88.0, 20: 88.0},
        calls={20: ["cuModuleLoadData"]},
        lasting=40 * MS,
    )
    assert complaint(lasting) is not None
    # In the first half likewise, and a step that is hardly longer behind one that is.
    assert (
        complaint(
            loop(
                [*lengths.values()][10:30],
                kernels={5: 88.0, 10: 88.0},
                calls={5: ["cuModuleLoadData"]},
            )
        )
        is None
    )
    assert (
        complaint(
            loop(
                [*steps(10, 10, 10, 14, of=12), 30.0, *[10.0] * 7], calls={3: ["cuModuleLoadData"]}
            )
        )
        is None
    )


@pytest.mark.parametrize(
    ("lengths", "calls", "is_told"),
    [
        pytest.param({15: 90.0}, {15: 1}, True, id="once"),
        pytest.param({15: 90.0}, {}, False, id="without a call"),
        pytest.param({12: 90.0, 14: 95.0}, {12: 1, 14: 1}, True, id="twice"),
        pytest.param({5: 90.0, 16: 95.0}, {5: 1, 16: 1}, False, id="what comes again at the end"),
        pytest.param({15: 58.0}, {15: 1}, False, id="a stall that a busy host explains"),
        pytest.param({15: 19.0}, {15: 1}, False, id="not far longer"),
        pytest.param(
            {15: 90.0},
            dict.fromkeys(range(4, 16, 2), 1),
            False,
            id="loading is part of a step's work",
        ),
        pytest.param(
            {15: 90.0, 5: 90.0, 10: 90.0},
            {5: 1},
            True,
            id="an evaluation whose first time loads code",
        ),
    ],
)
def test_code_that_is_loaded_late_is_first_time_work(
    lengths: Mapping[int, float], calls: Mapping[int, int], is_told: bool
) -> None:
    timeline = loop(
        [lengths.get(number, float(USUAL)) for number in range(20)],
        calls={number: ["cuModuleLoadData"] * count for number, count in calls.items()},
    )
    told = complaint(timeline)
    assert (told is not None) == is_told
    if told is not None:
        assert told.endswith(f"raise warmup by at least {max(calls) + 1}")


def test_code_that_is_loaded_late_and_takes_up_next_to_nothing_is_not_told() -> None:
    def told(of: int) -> str | None:
        lengths = [80.0 if number == of - 1 else float(USUAL) for number in range(of)]
        return complaint(loop(lengths, calls={of - 1: ["cuModuleLoadData"]}))

    assert told(300) is not None
    assert told(400) is None


def test_what_is_called_between_two_steps_is_of_the_later_ones_period() -> None:
    ranges, made, ops = [], [], []
    for number in range(20):
        at = number * USUAL * MS + (30 * MS if number > 4 else 0)
        ranges.append(Range(start=at, end=at + 8 * MS))
        made.append(Call(start=at + 10, end=at + 20, correlation=number))
        ops.append(Op(start=at + 5 * MS, end=at + 8 * MS - 10, correlation=number))
    between = [
        Call(start=49 * MS + n, end=49 * MS + n + 1, name="cuModuleLoadData") for n in range(20)
    ]
    told = complaint(build(ranges=ranges, calls=[*made, *between], kernels=ops))
    assert told is not None
    assert "step 6 of the measured 20 took up to 40 ms" in told
    assert told.endswith(
        "called cuModuleLoadData 20 times: first-time work that belongs in the warm-up; raise warmup by at least 6"
    )
    assert complaint(build(ranges=ranges, calls=made, kernels=ops)) is None


def test_steps_far_slower_at_the_very_start_are_told_without_such_calls() -> None:
    assert complaint(loop(steps(90, 80, 60, 50, 30))) == (
        "steps 3, 4, 5 of the measured 20 took up to 60 ms, the later half 10 ms: first-time work that belongs in the "
        "warm-up; raise warmup by at least 5"
    )


def test_larger_batches_at_the_very_start_are_no_first_time_work() -> None:
    lengths = steps(90, 80, 60, 50, 30)
    assert complaint(loop(lengths, kernels={n: lengths[n] - 8 for n in range(5)})) is None
    assert complaint(loop(lengths, trials={n: int(lengths[n]) for n in range(20)})) is None
    assert complaint(loop(lengths, kernels={n: 0.4 * lengths[n] for n in range(5)})) is not None


@pytest.mark.parametrize(
    ("lengths", "calls"),
    [
        pytest.param(steps(10, 10, 10, 10, 60), {}, id="one slow step within"),
        pytest.param(steps(10, 10, 60, 50), {}, id="two slow steps at the start"),
        pytest.param(steps(10, 10, 19, 18), {}, id="a pace that changes"),
        pytest.param(
            steps(*[30.0] * 8), {}, id="a pace that changes for longer than a start lasts"
        ),
        pytest.param([*steps(10, 10, 30, of=19), 35], {}, id="as slow later"),
        pytest.param(steps(10, 10, 12, 12), {2: ["cuModuleLoadData"]}, id="hardly slower"),
        pytest.param(
            steps(10, 10, 10, 60),
            {3: ["cudaMallocAsync_v11020"]},
            id="memory in the order of a stream",
        ),
        pytest.param(
            steps(10, 10, 10, 60),
            {n: ["cudaMalloc_v3020"] for n in range(20)},
            id="memory in every step",
        ),
        pytest.param(steps(400, 300), {}, id="periods that do not count"),
        pytest.param(steps(10, 10, 60, of=7), {2: ["cuModuleLoadData"]}, id="too few steps"),
        pytest.param(
            steps(*[10.0] * 15, 90), {15: ["cudaMalloc_v3020"]}, id="memory in the later half"
        ),
    ],
)
def test_what_is_no_first_time_work_is_not_told(
    lengths: Sequence[float], calls: Mapping[int, Sequence[str]]
) -> None:
    assert complaint(loop(lengths, calls=calls)) is None


@pytest.mark.parametrize(("slow_ms", "is_told"), [(59, False), (61, True)])
def test_without_kernels_a_step_that_lost_the_cpu_for_a_while_proves_nothing(
    slow_ms: float, is_told: bool
) -> None:
    lengths = steps(*[slow_ms] * 5)
    assert complaint(loop(lengths)) is not None
    ends = [int(MS * sum(lengths[: number + 1])) for number in range(len(lengths))]
    ranges = [Range(start=start, end=end) for start, end in zip([0, *ends], ends, strict=False)]
    assert (complaint(build(ranges=ranges)) is not None) == is_told


def test_a_window_measured_as_one_has_no_first_steps() -> None:
    (sample,) = measure(loop(steps(90, 80, 60, 50)), step=None)
    assert sample.complaints == ()


def test_the_calls_of_another_process_prove_nothing() -> None:
    ranges = [
        Range(start=n * USUAL * MS, end=(n + 1) * USUAL * MS, pid=pid)
        for n in range(20)
        for pid in (1, 2)
    ]
    late = [
        Range(start=20 * USUAL * MS, end=20 * USUAL * MS + 1, name="x", pid=pid) for pid in (1, 2)
    ]
    slow = [
        Op(start=31 * MS, end=39 * MS, pid=2, correlation=1),
        *(Op(start=n * 10 * MS, end=n * 10 * MS + 1, pid=2) for n in range(20)),
    ]
    calls = [
        Call(start=30 * MS, end=31 * MS, pid=2, correlation=1),
        Call(start=32 * MS, end=33 * MS, name="cuModuleLoadData", pid=1),
    ]
    samples = measure(
        build(kernels=slow, calls=calls, ranges=[*ranges, *late]), step="step", steps=1000
    )
    assert [sample.complaints for sample in samples] == [(), ()]


def test_in_turns_with_another_process_a_slow_first_bout_proves_nothing() -> None:
    slow, usual = 30, 10
    ranges, at = [], 0
    for bout in range(4):
        for _ in range(5):
            length = (slow if bout == 0 else usual) * MS
            ranges.append(Range(start=at, end=at + length))
            at += length
        ranges.append(Range(start=at, end=at + 100 * MS, name=WAIT_RANGE))
        at += 100 * MS
    assert complaint(build(ranges=ranges)) is None
    assert complaint(loop([slow] * 5 + [usual] * 15)) is not None


def test_of_kernels_that_only_the_first_steps_run_the_later_half_has_none() -> None:
    kernels = {1: 5.0, **dict.fromkeys((0, *range(2, 10)), 0.0)}
    timeline = loop(steps(of=10), kernels=kernels, trials={1: 5}, calls={1: ["cudaMalloc"]})
    told = complaint(timeline)
    assert told is not None
    assert "ran kernels for up to 5 ms, the later half 0 ms, and called cudaMalloc once" in told
