"""Which sets of runs may be taken together."""

from __future__ import annotations

import pytest

from perfgate.bless.speeds import plainly_differ
from perfgate.model.metric import METRICS, Metric

STEP, GAP = METRICS[Metric.STEP_MS].time, METRICS[Metric.GAP_MS].time


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ([4.18, 4.14, 4.14], [12.16, 12.18], True),
        ([12.16], [4.18, 4.14, 4.14, 4.15, 4.17], True),
        ([10.0, 10.05, 9.95], [10.3, 10.25, 10.35], False),
        ([10.0, 10.05, 9.95], [10.9, 10.85, 10.95], True),
        ([7.3, 8.4, 6.1, 7.9, 6.8], [5.3, 5.6, 5.0], False),
        ([0.0, 0.0], [0.0], False),
        ([0.0, 0.0], [4.0], True),
        ([4.0, 4.0], [0.0, 4.0], True),
    ],
    ids=["3 : 1", "one run", "within an occasion", "9 %", "moods", "zeros", "from zero", "a zero"],
)
def test_steps_of_two_speeds_are_told_from_those_of_two_occasions(
    one: list[float], other: list[float], differ: bool
) -> None:
    assert STEP is not None
    assert plainly_differ(STEP, one, other, step_ms=10.0, budget=0.02) is differ
    assert plainly_differ(STEP, other, one, step_ms=10.0, budget=0.02) is differ


@pytest.mark.parametrize(("now", "differ"), [(0.3, False), (3.0, True)])
def test_other_clocks_differ_by_shares_of_a_step(now: float, differ: bool) -> None:
    assert GAP is not None
    assert (
        plainly_differ(GAP, [0.2, 0.21, 0.2], [now, now, now], step_ms=10.0, budget=0.01) is differ
    )


def test_nothing_differs_within_a_wide_budget() -> None:
    assert STEP is not None
    assert not plainly_differ(STEP, [4.18, 4.14, 4.14], [12.16, 12.18], step_ms=10.0, budget=2.5)
