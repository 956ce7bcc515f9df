"""Which sets of runs may be taken together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support import records

from perfgate.bless.repeats import plainly_differ
from perfgate.model.metric import Metric


def differ(metric: Metric, one: Sequence[float], other: Sequence[float], *, budget: float) -> bool:
    """Whether runs of these values, of steps of 10 ms where they are not the steps themselves,
    differ from those of a baseline."""
    alike = {Metric.STEP_MS: 10.0}
    blessed, runs = ([{**alike, metric: value} for value in values] for values in (one, other))
    result = records.result(measured=[records.run({**records.VALUES, **of}) for of in runs])
    return plainly_differ(records.baseline(blessed), result, {metric: budget})


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ([4.18, 4.14, 4.14], [12.16, 12.18], True),
        ([12.16], [4.18, 4.14, 4.14, 4.15, 4.17], True),
        ([10.0, 10.05, 9.95], [10.3, 10.25, 10.35], False),
        ([10.0, 10.05, 9.95], [10.9, 10.85, 10.95], True),
        ([7.3, 8.4, 6.1, 7.9, 6.8], [5.3, 5.6, 5.0], False),
        ([0.0, 0.0], [0.0], False),
    ],
    ids=["3 : 1", "one run", "within an occasion", "9 %", "moods", "zeros"],
)
def test_steps_of_two_speeds_are_distinguished_from_those_of_two_occasions(
    one: list[float], other: list[float], apart: bool
) -> None:
    assert differ(Metric.KERNEL_MS, one, other, budget=0.02) is apart
    assert differ(Metric.KERNEL_MS, other, one, budget=0.02) is apart


@pytest.mark.parametrize(("now", "apart"), [(0.3, False), (3.0, True)])
def test_idle_time_differs_by_shares_of_a_step(now: float, apart: bool) -> None:
    assert differ(Metric.GAP_MS, [0.2, 0.21, 0.2], [now, now, now], budget=0.01) is apart


def test_nothing_differs_within_a_wide_budget() -> None:
    assert not differ(Metric.STEP_MS, [4.18, 4.14, 4.14], [12.16, 12.18], budget=2.5)
