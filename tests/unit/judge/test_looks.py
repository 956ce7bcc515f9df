"""What each look may spend, and what the workloads of one gate share, by Holm's step-down."""

from __future__ import annotations

import pytest

from perfgate.judge.looks import (
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
