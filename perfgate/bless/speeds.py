"""Whether two sets of runs are of one speed, so that they may be taken together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from perfgate.judge.compare import PRIOR_DF, Floats, Occasions, SideSums, with_stored
from perfgate.judge.rule import SPECS, as_x, columns, is_usable
from perfgate.model.baseline import Baseline, BlessedRun, Result
from perfgate.model.metric import Basis, Metric, TimeSpec, budget_of

_SURELY: Final = 0.0005
_BUDGETS: Final = 2
"""The level and the size that leave no doubt."""


def plainly_differ(baseline: Baseline, result: Result, budgets: Mapping[Metric, float]) -> bool:
    """Whether a time metric lies further apart than chance and another occasion account for, and
    than two budgets.

    As against a baseline of one occasion, by the default SDs: what is calibrated may be of another
    speed.
    """
    blessed, now = columns(baseline.runs), columns([BlessedRun.of(run) for run in result.runs])
    for metric in SPECS.keys() & blessed.keys() & now.keys():
        budget = budget_of(metric, budgets)
        before, after = (as_x(metric, of[metric], blessed) for of in (blessed, now))
        if budget is None:
            continue
        if is_usable(before, after):
            if _differ(SPECS[metric], before, after, budget=budget):
                return True
        elif SPECS[metric].basis is Basis.LOG and max(blessed[metric].min(), now[metric].min()) > 0:
            return True  # one of them is 0 now and then, the other never
    return False


def _differ(spec: TimeSpec, before: Floats, after: Floats, *, budget: float) -> bool:
    beyond = math.log1p(budget) if spec.basis is Basis.LOG else budget
    sums = [SideSums.of(x, np.ones_like(x, dtype=np.bool_)) for x in (before, after)]
    occasions = Occasions(sd=np.asarray(spec.occasion_sd), df=PRIOR_DF, number=1)
    found = with_stored(*sums, prior_sd=spec.prior_sd, occasions=occasions)
    return bool(
        abs(found.estimate) > _BUDGETS * beyond and min(found.p_slower, found.p_faster) < _SURELY
    )
