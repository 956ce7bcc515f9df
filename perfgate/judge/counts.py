"""Judges one count: exactly where the baseline was exact, by how many runs rose or fell where not; knows no clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.judge.compare import middle
from perfgate.judge.words import amount, percent
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import MetricVerdict
from perfgate.model.words import plural

_CONFIRMED = 2
"""Processes that must show a rise of an exact count: one may be a fluke of its start."""
_CHANCE = 0.005
"""What a look may spend of alpha, 1 %, on counts that vary: there are up to four, of the same runs and more."""
_MOST_RUNS = 60
"""How far to look for a number of runs that would show a rise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CountJudgement:
    """One count's row, and what it asks of the gate."""

    row: MetricVerdict
    wants_second_run: bool = False
    """A rise in the only run so far: a second process must confirm it."""
    shown_by: int | None = None
    """Of one that varies and rose in every run: how many runs would show it, if those to come rose as well."""
    remark: str | None = None


def judge_count(
    metric: Metric,
    blessed: Sequence[float],
    now: Sequence[float],
    *,
    max_runs: int,
    exact: bool,
    varying: int = 1,
    in_pairs: bool = False,
    budget: float = 0.0,
) -> CountJudgement:
    """Judge one count; both sides hold at least one value, one per run.

    `exact` is one that is known to be the same in every run of `blessed`'s code. Of others, runs of the same code are
    above all of `blessed` by chance; `varying` such counts are judged together. `in_pairs` says that each further run
    brings one more of `blessed`; `budget` is what it may rise by, as a fraction.
    """
    limit, least = max(blessed) * (1 + budget), min(blessed)
    risen = [value for value in now if value > limit and not same((value, limit))]
    fallen = [value for value in now if value < least and not same((value, least))]
    range_told = "" if same(blessed) else f": {amount(least)} to {amount(limit)} in the baseline"
    bound = "exact" if exact else f"not exact{range_told}"
    runs = len(now)

    def row(outcome: Outcome, reason: str, values: Sequence[float] = now) -> MetricVerdict:
        here, there = middle(values), middle(blessed)
        change = (here - there) / there if there else None
        return MetricVerdict(
            metric=metric,
            outcome=outcome,
            baseline=there,
            now=here,
            change=change if change is not None and math.isfinite(change) else None,
            exact=exact,
            reason=reason,
        )

    rise = (
        f"rose from {amount(limit)} to {amount(middle(risen))} per step ({bound})" if risen else ""
    )
    if risen and exact:
        if len(risen) >= _CONFIRMED:
            return CountJudgement(row=row(Outcome.REGRESSED, rise, risen))
        if runs == 1 and max_runs < _CONFIRMED:
            alone = f"{rise}, in the only run allowed"
            return CountJudgement(
                row=row(Outcome.REGRESSED, alone, risen), remark=f"{metric} {alone}"
            )
        if runs == 1:
            asked = f"{rise}, to be confirmed by a second run"
            return CountJudgement(
                row=row(Outcome.INCONCLUSIVE, asked, risen), wants_second_run=True
            )
        once = f"{rise} in 1 of {plural(runs, 'run')}, not confirmed"
        return CountJudgement(row=row(Outcome.PASSED, once), remark=f"{metric} {once}")
    if risen:
        chance = _chance(len(risen), of=runs, blessed=len(blessed))
        if chance * varying <= _CHANCE:
            return CountJudgement(row=row(Outcome.REGRESSED, rise, risen))
        told = f"{rise} in {len(risen)} of {plural(runs, 'run')}, as chance alone has it in {percent(chance)} % of gates"
        if len(risen) == runs:
            shown_by = _shown_by(runs, len(blessed), varying=varying, in_pairs=in_pairs)
            return CountJudgement(row=row(Outcome.INCONCLUSIVE, told, risen), shown_by=shown_by)
        return CountJudgement(row=row(Outcome.PASSED, told), remark=f"{metric} {told}")
    if len(fallen) == runs:
        if exact or _chance(runs, of=runs, blessed=len(blessed)) * varying <= _CHANCE:
            fall = f"fell from {amount(least)} to {amount(middle(fallen))} per step ({bound})"
            return CountJudgement(row=row(Outcome.IMPROVED, fall))
    elif fallen and exact:
        some = f"fell from {amount(least)} in {len(fallen)} of {plural(runs, 'run')}"
        return CountJudgement(row=row(Outcome.PASSED, some), remark=f"{metric} {some}")
    return CountJudgement(
        row=row(Outcome.PASSED, "unchanged (exact)" if exact else f"within its maximum ({bound})")
    )


def same(values: Sequence[float]) -> bool:
    """Whether a count is one: they are medians over steps, so x.5 occurs; only the last bits are forgiven."""
    return all(math.isclose(value, values[0], rel_tol=1e-9, abs_tol=1e-9) for value in values)


def _chance(risen: int, *, of: int, blessed: int) -> float:
    """How probable it is that the `risen` highest of `of` runs and `blessed` ones of the same code are all runs."""
    return math.comb(of, risen) / math.comb(of + blessed, risen)


def _shown_by(runs: int, blessed: int, *, varying: int, in_pairs: bool) -> int | None:
    return next(
        (
            wanted
            for wanted in range(runs + 1, _MOST_RUNS + 1)
            if varying * _chance(wanted, of=wanted, blessed=blessed + (wanted - runs) * in_pairs)
            <= _CHANCE
        ),
        None,
    )
