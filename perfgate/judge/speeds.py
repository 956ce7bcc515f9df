"""Whether two sets of runs are of one speed, so that they may be taken together; knows no verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from perfgate.judge.compare import Prior, compare
from perfgate.model.metric import Basis, ClockSpec

_SURELY: Final = 0.0005
_BUDGETS: Final = 2
"""The level and the size of the screen's losses (`stages.CLEAR`)."""


def plainly_differ(
    spec: ClockSpec, one: Sequence[float], other: Sequence[float], *, step_ms: float, budget: float
) -> bool:
    """Whether a clock lies further apart than chance and another occasion account for, and than two budgets.

    As against a baseline of one occasion (`compare`), by the default SDs: what is calibrated may be of another speed.

    Args:
        spec: the clock's.
        one: its values, ms of each run, at least one.
        other: the same of the other set.
        step_ms: above 0, what clocks on the step's basis are measured against.
        budget: a fraction.
    """
    if spec.basis is Basis.LOG:
        if min(*one, *other) <= 0:
            return max(min(one), min(other)) > 0
        sides, beyond = [np.log(np.array(side)) for side in (one, other)], math.log1p(budget)
    else:
        sides, beyond = [np.array(side) / step_ms for side in (one, other)], budget
    found = compare(sides[0], sides[1], prior=Prior(sd=spec.prior_sd), occasion_sd=spec.occasion_sd, occasions=1)
    return abs(found.estimate) > _BUDGETS * beyond and min(found.p_slower, found.p_faster) < _SURELY
