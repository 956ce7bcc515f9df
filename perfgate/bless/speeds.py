"""Whether two sets of runs are of one speed, so that they may be taken together; knows no verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from perfgate.judge.compare import PRIOR_DF, Occasions, SideSums, with_stored
from perfgate.model.metric import Basis, TimeSpec

_SURELY: Final = 0.0005
_BUDGETS: Final = 2
"""The level and the size that leave no doubt."""


def plainly_differ(
    spec: TimeSpec, one: Sequence[float], other: Sequence[float], *, step_ms: float, budget: float
) -> bool:
    """Whether a time metric lies further apart than chance and another occasion account for, and
    than two budgets.

    As against a baseline of one occasion, by the default SDs: what is calibrated may be of another
    speed.

    Args:
        spec: the metric's.
        one: its values, ms of each run, at least one.
        other: the same of the other set.
        step_ms: above 0, what metrics on the step's basis are measured against.
        budget: a fraction.
    """
    if spec.basis is Basis.LOG:
        if min(*one, *other) <= 0:
            return max(min(one), min(other)) > 0
        sides, beyond = [np.log(np.array(side)) for side in (one, other)], math.log1p(budget)
    else:
        sides, beyond = [np.array(side) / step_ms for side in (one, other)], budget
    before, after = (SideSums.of(x, np.ones_like(x, dtype=np.bool_)) for x in sides)
    occasions = Occasions(sd=np.asarray(spec.occasion_sd), df=PRIOR_DF, number=1)
    found = with_stored(before, after, prior_sd=spec.prior_sd, occasions=occasions)
    return bool(
        abs(found.estimate) > _BUDGETS * beyond and min(found.p_slower, found.p_faster) < _SURELY
    )
