"""How many steps a side of an interleaved duet takes."""

from __future__ import annotations

import pytest

from perfgate.plugin.bench import steps_in_bouts


@pytest.mark.parametrize(
    ("step_ms", "steps"), [(None, 150), (0.0, 150), (3.4, 150), (20.0, 150), (30.0, 100), (100.0, 30), (2000.0, 30)]
)
def test_a_side_takes_whole_bouts_for_about_three_seconds_and_at_least_three_of_them(
    step_ms: float | None, steps: int
) -> None:
    assert steps_in_bouts(step_ms) == steps
