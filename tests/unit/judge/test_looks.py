"""What each look may spend, and what the workloads of one gate share, by Holm's step-down."""

from __future__ import annotations

import pytest

from perfgate.judge.looks import (
    AB_PLAN,
    INTERLEAVED_PLAN,
    SCREEN_PLAN,
    STORED_PLAN,
    Plan,
    step_down,
)


@pytest.mark.parametrize(
    ("levels", "lost"),
    [
        ({}, ""),
        ({"a": None, "b": None}, ""),
        ({"a": 0.25}, "a"),
        ({"a": 0.26}, ""),
        # The second has one workload less to share with: 1/3.
        ({"a": 0.33, "b": 0.25}, "ab"),
        ({"a": 0.34, "b": 0.25}, "b"),
        # One that is not reached ends it, and what comes behind it is none either.
        ({"a": 0.2, "b": 0.4, "c": 0.45}, "a"),
        ({"a": 0.2, "b": 0.3, "c": 0.5, "d": 1.0}, "abcd"),
    ],
)
def test_each_loss_leaves_more_to_spend_for_the_next(
    levels: dict[str, float | None], lost: str
) -> None:
    assert step_down(levels, workloads=4) == set(lost)


@pytest.mark.parametrize(
    ("plan", "levels"),
    [
        (INTERLEAVED_PLAN, [0.975, 0.995, 0.995, 0.995]),
        (AB_PLAN, [0.975] * 4),
        (STORED_PLAN, [0.975] * 3),
        (SCREEN_PLAN, [0.975] * 2),
    ],
    ids=lambda of: of.stage if isinstance(of, Plan) else None,
)
def test_later_looks_in_blocks_pass_by_a_higher_bound(plan: Plan, levels: list[float]) -> None:
    assert [plan.pass_confidence(runs) for runs in plan.looks] == levels
