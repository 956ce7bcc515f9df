"""First-time work in the measured steps: found where it is shown, not where a step is slow by
chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from support.cases import named
from support.timelines import Call, Op, Range, build

from perfgate.metrics.measure import measure
from perfgate.model.note import Severity
from perfgate.model.timeline import Timeline
from perfgate.model.workload import WAIT_RANGE

MS = 1_000_000
FIRST_TIME = {
    "first-time-work": Severity.INVALID,
    "first-steps-slow": Severity.WARN,
    "first-time-calls": Severity.INVALID,
}
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
    """A process whose steps take `lengths` ms, each with kernels as long as given (or 2 ms) and API
    calls by name.

    Kernels are one a step, or as many as there are `trials`; calls last so many ns, and one begins
    20 ns after another.
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


def last(timeline: Timeline) -> int | None:
    """The last step with first-time work, from 1; None where none is shown."""
    (sample,) = measure(timeline, step="step", steps=1000)
    found = [one for one in sample.notes if one.code in FIRST_TIME]
    assert [one.severity for one in found] == [FIRST_TIME[one.code] for one in found]
    return int(str(found[0].fields["last"])) if found else None


def steps(*lengths: float, of: int = 20) -> list[float]:
    """Steps that begin with these lengths and go on as usual."""
    return [*lengths, *[float(USUAL)] * (of - len(lengths))]


CODE, MEMORY = "cuModuleLoadData", "cudaMalloc_v3020"
LONG = {3: 52.0}


@pytest.mark.parametrize(
    ("timeline", "expected"),
    named(
        {
            "all alike": (loop(steps()), None),
            "code": (loop(steps(300, 10, 10, 40), calls={0: [CODE], 3: [MEMORY, CODE]}), 4),
            "thread": (loop(steps(10, 10, 10, 13), calls={3: [CODE]}, thread=7), 4),
            # A longer batch takes memory as well.
            "batch": (loop(steps(10, 10, 10, 60), calls={3: [MEMORY]}, kernels=LONG), None),
            "loads code": (loop(steps(10, 10, 10, 60), calls={3: [CODE]}, kernels=LONG), 4),
            "calls last": (
                loop(steps(10, 10, 10, 60), calls={3: [MEMORY]}, lasting=20 * MS, kernels=LONG),
                4,
            ),
            "nothing runs": (loop(steps(10, 10, 10, 60), calls={3: [MEMORY]}), 4),
            "trials": (
                loop(steps(10, 10, 10, 60), kernels={3: 12.0}, trials={3: 4}, calls={3: [MEMORY]}),
                4,
            ),
            "autotuner": (
                loop(steps(), kernels={0: 9.0}, trials={0: 4}, calls={0: [MEMORY] * 2}),
                1,
            ),
            # Compiling may fill most of a short window.
            "most": (loop(steps(*[500.0] * 8, of=12), calls={n: [CODE] for n in range(8)}), 8),
            "most, memory": (
                loop(steps(*[500.0] * 8, of=12), calls={n: [MEMORY] for n in range(8)}),
                None,
            ),
            "in all": (
                loop(steps(*[500.0] * 8, of=12), calls={n: [CODE] for n in range(12)}),
                None,
            ),
            "a slow step later": (
                loop(
                    [*steps(*[500.0] * 9, of=24), 600.0, *[10.0] * 5],
                    calls={n: [CODE] * 4 for n in range(9)},
                ),
                9,
            ),
            "far slower at the start": (loop(steps(90, 80, 60, 50, 30)), 5),
            "batches": (
                loop(steps(90, 80, 60, 50, 30), kernels={0: 82, 1: 72, 2: 52, 3: 42, 4: 22}),
                None,
            ),
            "one slow step": (loop(steps(10, 10, 10, 10, 60)), None),
            "two at the start": (loop(steps(10, 10, 60, 50)), None),
            "a pace that changes": (loop(steps(*[30.0] * 8)), None),
            "as slow later": (loop([*steps(10, 10, 30, of=19), 35]), None),
            "hardly slower": (loop(steps(10, 10, 12, 12), calls={2: [CODE]}), None),
            "async memory": (
                loop(steps(10, 10, 10, 60), calls={3: ["cudaMallocAsync_v11020"]}),
                None,
            ),
            "too few steps": (loop(steps(10, 10, 60, of=7), calls={2: [CODE]}), None),
            "memory, late": (loop(steps(*[10.0] * 15, 90), calls={15: [MEMORY]}), None),
        }
    ),
)
def test_first_time_work_is_found_and_a_slow_step_alone_is_none(
    timeline: Timeline, expected: int | None
) -> None:
    assert last(timeline) == expected


@pytest.mark.parametrize(
    ("lengths", "calls", "is_found"),
    named(
        {
            "once": ({15: 90.0}, {15: 1}, True),
            "without a call": ({15: 90.0}, {}, False),
            "twice": ({12: 90.0, 14: 95.0}, {12: 1, 14: 1}, True),
            "what comes again at the end": ({5: 90.0, 16: 95.0}, {5: 1, 16: 1}, False),
            "a stall that a busy host explains": ({15: 58.0}, {15: 1}, False),
            "not far longer": ({15: 19.0}, {15: 1}, False),
            "loading is part of a step's work": (
                {15: 90.0},
                dict.fromkeys(range(4, 16, 2), 1),
                False,
            ),
            "an evaluation whose first time loads code": (
                {15: 90.0, 5: 90.0, 10: 90.0},
                {5: 1},
                True,
            ),
        }
    ),
)
def test_code_that_is_loaded_late_is_first_time_work(
    lengths: Mapping[int, float], calls: Mapping[int, int], is_found: bool
) -> None:
    timeline = loop(
        [lengths.get(number, float(USUAL)) for number in range(20)],
        calls={number: ["cuModuleLoadData"] * count for number, count in calls.items()},
    )
    assert last(timeline) == (max(calls) + 1 if is_found else None)


@pytest.mark.parametrize(("of", "expected"), [(300, 300), (400, None)])
def test_code_that_is_loaded_late_may_take_up_next_to_nothing(
    of: int, expected: int | None
) -> None:
    lengths = [80.0 if number == of - 1 else float(USUAL) for number in range(of)]
    assert last(loop(lengths, calls={of - 1: [CODE]})) == expected


@pytest.mark.parametrize(("slow_ms", "is_found"), [(59, False), (61, True)])
def test_without_kernels_a_step_that_lost_the_cpu_for_a_while_proves_nothing(
    slow_ms: float, is_found: bool
) -> None:
    lengths = steps(*[slow_ms] * 5)
    assert last(loop(lengths)) is not None
    ends = [int(MS * sum(lengths[: number + 1])) for number in range(len(lengths))]
    ranges = [Range(start=start, end=end) for start, end in zip([0, *ends], ends, strict=False)]
    assert (last(build(ranges=ranges)) is not None) == is_found


def test_in_turns_with_another_process_a_slow_first_block_proves_nothing() -> None:
    slow, usual = 30, 10
    ranges, at = [], 0
    for block in range(4):
        for _ in range(5):
            length = (slow if block == 0 else usual) * MS
            ranges.append(Range(start=at, end=at + length))
            at += length
        ranges.append(Range(start=at, end=at + 100 * MS, name=WAIT_RANGE))
        at += 100 * MS
    assert last(build(ranges=ranges)) is None
    assert last(loop([slow] * 5 + [usual] * 15)) is not None


def test_code_that_is_loaded_late_is_found_behind_a_start_that_proves_nothing() -> None:
    lengths = [*steps(50, 50, 50, 50, 50, of=15), 40.0, *steps(of=4)]
    assert last(loop(lengths)) == 5
    (sample,) = measure(loop(lengths, calls={15: [CODE]}, lasting=20 * MS), step="step", steps=1000)
    assert [one.code for one in sample.notes if one.code in FIRST_TIME] == ["first-time-calls"]


@pytest.mark.parametrize(
    ("slow_ms", "code"), [(59.0, "first-steps-slow"), (61.0, "first-time-work")]
)
def test_what_no_call_shows_is_proven_by_one_run_only_where_no_host_is_so_slow(
    slow_ms: float, code: str
) -> None:
    (sample,) = measure(loop(steps(90.0, 90.0, slow_ms, 80.0, 70.0)), step="step", steps=1000)
    assert [one.code for one in sample.notes if one.code in FIRST_TIME] == [code]
