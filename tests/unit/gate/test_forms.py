"""How many steps a side of an interleaved duet takes."""

from __future__ import annotations

import pytest

from perfgate.gate.forms import steps_in_bouts


@pytest.mark.parametrize(
    ("step_ms", "steps"),
    [(None, 450), (0.0, 450), (3.4, 450), (10.0, 450), (30.0, 150), (100.0, 40), (2000.0, 30)],
)
def test_a_side_takes_whole_bouts_for_about_five_seconds_and_at_least_three_of_them(
    step_ms: float | None, steps: int
) -> None:
    assert steps_in_bouts(step_ms) == steps
