"""What other workloads of a machine say of how its occasions differ."""

from __future__ import annotations

import numpy as np
import pytest
from support.judging import Columns, blessed

from perfgate.judge.hold import learn
from perfgate.model.metric import Metric

M = Metric
SHIFTS = (0.0, 0.02, -0.02)


def columns(idle: float, *, shifts: tuple[float, ...] = SHIFTS) -> Columns:
    """Two runs of each occasion, the same but for the occasion; dealt in turn."""
    steps = [10.0 * float(np.exp(shift)) for shift in (*shifts, *shifts)]
    return {M.STEP_MS: steps, M.GAP_MS: [10.0 * idle] * len(steps)}


OWN = blessed(columns(0.2), occasions=3)
BUSY, WAITING = (
    blessed(columns(idle), occasions=3, workload=name) for idle, name in ((0.01, "a"), (0.3, "b"))
)
ONCE = blessed(columns(0.3), occasions=1, workload="c")


@pytest.mark.behaviour
def test_occasions_of_workloads_of_like_kind_are_pooled() -> None:
    found = learn([OWN, BUSY, WAITING, WAITING, ONCE], of=OWN)[M.STEP_MS]
    assert found.df == 4
    assert float(found.squares) == pytest.approx(2 * 2 * 0.02**2, rel=1e-3)
    assert learn([WAITING], of=BUSY) == {}


def test_a_workload_says_nothing_of_itself_nor_does_one_occasion() -> None:
    assert learn([OWN, ONCE], of=OWN) == {}
    unknown = blessed({M.STEP_MS: [10.0] * 2}, occasions=2, workload="d")
    assert learn([unknown], of=OWN) == {}
