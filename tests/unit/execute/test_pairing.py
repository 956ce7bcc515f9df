"""Pairs from block to block: what host noise leaves of a difference."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import named
from support.judging import MOMENT

from perfgate.execute.pairing import in_noise_of
from perfgate.model.metric import Metric
from perfgate.model.sample import BlockSample, ProcessSample, Run

KERNEL_MS = 0.7


def side(
    steps: Sequence[float | None],
    *,
    begins: bool | None,
    gaps: bool = True,
    values: dict[Metric, float] | None = None,
) -> Run:
    """A run of these blocks, ms a step; None is one without a period. All but `KERNEL_MS` of a step
    is idle."""
    blocks = tuple(
        BlockSample(number=number, step_ms=step, gap_ms=step - KERNEL_MS if gaps else None)
        for number, step in enumerate(steps)
        if step is not None
    )
    middle = sorted(block.step_ms for block in blocks)[len(blocks) // 2] if blocks else 1.0
    own = {Metric.STEP_MS: middle, Metric.KERNEL_MS: KERNEL_MS, Metric.GAP_MS: middle - KERNEL_MS}
    process = ProcessSample(
        pid=1, steps=60, values=own if values is None else values, window_ms=1.0, blocks=blocks
    )
    return Run(started_at=MOMENT, wall_s=1.0, processes=(process,), begins=begins)


def noisy(levels: Sequence[float], *, slower: float = 0.0, begins: bool = True) -> tuple[Run, Run]:
    """A pair of 1 ms steps, the candidate's so much slower, the noise of each block its own."""
    first, second = [1 * level for level in levels[0::2]], [1 * level for level in levels[1::2]]
    reference, candidate = (first, second) if begins else (second, first)
    return side(reference, begins=begins), side(
        [ms * (1 + slower) for ms in candidate], begins=not begins
    )


def test_neighbours_in_the_same_noise_show_the_difference_though_the_medians_are_of_two() -> None:
    # Two speeds, as measured: 8 of the reference's 15 blocks met the slow one, 6 of the
    # candidate's.
    levels = [8.4] * 7 + [5.1] * 7 + [8.4] * 7 + [5.1] * 9
    reference, candidate = noisy(levels, slower=0.02)
    assert reference.value(Metric.STEP_MS) == pytest.approx(8.4)
    assert candidate.value(Metric.STEP_MS) == pytest.approx(5.1 * 1.02)
    found = in_noise_of(reference, candidate)
    assert found.value(Metric.STEP_MS) == pytest.approx(8.4 * 1.02)
    # Its idle time is so much longer as the step was, in the noise that most neighbours were in.
    gap = found.value(Metric.GAP_MS)
    assert gap is not None
    assert 5.1 * 0.02 <= gap - (8.4 - KERNEL_MS) <= 8.4 * 0.02
    assert found.value(Metric.KERNEL_MS) == KERNEL_MS


@pytest.mark.parametrize("begins", [True, False])
def test_a_steady_drift_makes_neither_side_slower(begins: bool) -> None:
    drift = [math.exp(0.01 * place) for place in range(30)]
    reference, candidate = noisy(drift, begins=begins)
    ratio = (in_noise_of(reference, candidate).value(Metric.STEP_MS) or 0) / (
        reference.value(Metric.STEP_MS) or 1
    )
    # To the neighbour before it each block is 1 % slower, to the one after it as much faster.
    assert ratio == pytest.approx(1.0)


@given(
    st.lists(st.sampled_from([1.0, 1.6]), min_size=6, max_size=30),
    st.floats(0.5, 2.0),
    st.floats(0.0, 0.3),
    st.booleans(),
)
def test_noise_that_lasts_change_nothing(
    spells: list[float], slower: float, jump: float, begins: bool
) -> None:
    """Each level lasts for four blocks: three of its four neighbours differ alike, the fourth is a
    change of level."""
    levels = [level * (1 + jump) for level in spells for _ in range(4)]
    reference, candidate = noisy(levels, slower=slower - 1, begins=begins)
    found = in_noise_of(reference, candidate).value(Metric.STEP_MS)
    assert found == pytest.approx((reference.value(Metric.STEP_MS) or 0) * slower)


def side_of_means(means: Sequence[float | None], *, begins: bool) -> Run:
    """A run whose blocks differ in their means alone; its own is 1.2 ms."""
    run = side([1.0] * len(means), begins=begins)
    blocks = tuple(
        block.model_copy(update={"mean_ms": mean})
        for block, mean in zip(run.processes[0].blocks, means, strict=True)
    )
    values = {**run.processes[0].values, Metric.STEP_MEAN_MS: 1.2}
    process = run.processes[0].model_copy(update={"blocks": blocks, "values": values})
    return run.model_copy(update={"processes": (process,)})


def test_means_are_compared_as_medians_are_and_only_where_both_are_known() -> None:
    reference = side_of_means([1.0, 1.2, 1.0, 1.2], begins=True)
    slower = in_noise_of(reference, side_of_means([1.5, 1.8, 1.5, 1.8], begins=False))
    assert slower.value(Metric.STEP_MEAN_MS) == pytest.approx(1.2 * 1.5, rel=0.1)
    assert slower.value(Metric.STEP_MS) == pytest.approx(1.0)
    assert (
        in_noise_of(reference, side_of_means([None] * 4, begins=False)).value(Metric.STEP_MEAN_MS)
        == 1.2
    )


def test_a_block_without_a_period_is_no_neighbour() -> None:
    reference, candidate = (
        side([None, 1.0, 1.0, 1.0], begins=True),
        side([9.0, 1.1, 1.1, 1.1], begins=False),
    )
    # 9.0 stands next to the second of the reference alone.
    assert in_noise_of(reference, candidate).value(Metric.STEP_MS) == pytest.approx(1.1)


UNEQUAL = 1.5
"""What each run's own median differs by."""


@pytest.mark.parametrize(
    ("reference", "candidate"),
    named(
        {
            "no turns": (side([1.0] * 9, begins=None), side([UNEQUAL] * 9, begins=None)),
            "too few": (side([1.0] * 2, begins=True), side([UNEQUAL] * 3, begins=False)),
            "no time": (
                side([0.0] * 9, begins=True),
                side([UNEQUAL] * 9, begins=False, gaps=False),
            ),
            "nothing to put it on": (
                side([1.0] * 9, begins=True, values={}),
                side([UNEQUAL] * 9, begins=False),
            ),
        }
    ),
)
def test_what_cannot_be_compared_from_block_to_block_stays_as_it_was_measured(
    reference: Run, candidate: Run
) -> None:
    assert in_noise_of(reference, candidate).measured() == candidate.measured()
