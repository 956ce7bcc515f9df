"""Judges one count: exactly where the baseline was exact, by how many runs rose or fell where not.

Formulas, with all others: `docs/how-it-decides.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.judge.compare import middle
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import MetricVerdict

_CONFIRMED = 2
"""Processes that must show a rise of an exact count: one may be a fluke of its start."""
_CHANCE = 0.005
"""What a look may spend of alpha, 1 %, on counts that vary: up to four, of the same runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CountJudgement:
    """One count's row, and what it asks of the gate."""

    row: MetricVerdict
    wants_second_run: bool = False
    """A rise in the only run so far: a second process must confirm it."""
    is_worth_a_note: bool = False
    """Whether the verdict says what its row does."""


def judge_count(
    metric: Metric,
    blessed: Sequence[float],
    now: Sequence[float],
    *,
    max_runs: int,
    exact: bool,
    varying: int = 1,
    budget: float = 0.0,
) -> CountJudgement:
    """Judge one count; both sides hold at least one value, one per run.

    `exact` is one that is known to be the same in every run of `blessed`'s code. Of others, runs of
    the same code are above all of `blessed` by chance; `varying` such counts are judged together.
    `budget` is what it may rise by, as a fraction.
    """
    runs, there = len(now), middle(blessed)
    limit, least = max(blessed) * (1 + budget), min(blessed)
    risen = [value for value in now if value > limit and not same((value, limit))]
    fallen = [value for value in now if value < least and not same((value, least))]

    def judged(
        outcome: Outcome, code: str, values: Sequence[float] = now, *, worth: bool = False
    ) -> CountJudgement:
        found = note(
            code,
            limit=limit,
            least=least,
            now=middle(values),
            times=len(values),
            runs=runs,
            chance=_chance(len(risen), of=runs, blessed=len(blessed)),
        )
        return CountJudgement(
            row=_row(metric, outcome, there, middle(values), exact=exact, why=found),
            is_worth_a_note=worth,
            wants_second_run=code == "count-rose-in-first",
        )

    if risen and exact:
        if len(risen) >= _CONFIRMED:
            return judged(Outcome.REGRESSED, "count-rose", risen)
        if runs == 1 and max_runs < _CONFIRMED:
            return judged(Outcome.REGRESSED, "count-rose-in-only", risen, worth=True)
        if runs == 1:
            return judged(Outcome.INCONCLUSIVE, "count-rose-in-first", risen)
        return judged(Outcome.PASSED, "count-rose-once", worth=True)
    if risen:
        if _chance(len(risen), of=runs, blessed=len(blessed)) * varying <= _CHANCE:
            return judged(Outcome.REGRESSED, "count-rose", risen)
        if len(risen) == runs:
            return judged(Outcome.INCONCLUSIVE, "count-rose-by-chance", risen)
        return judged(Outcome.PASSED, "count-rose-by-chance", worth=True)
    if len(fallen) == runs:
        if exact or _chance(runs, of=runs, blessed=len(blessed)) * varying <= _CHANCE:
            return judged(Outcome.IMPROVED, "count-fell")
    elif fallen and exact:
        return judged(Outcome.PASSED, "count-fell-in-some", worth=True)
    return judged(Outcome.PASSED, "count-same" if exact else "count-within")


def same(values: Sequence[float]) -> bool:
    """Whether a count is one: they are medians over steps; only the last bits are forgiven."""
    return all(math.isclose(value, values[0], rel_tol=1e-9, abs_tol=1e-9) for value in values)


def _chance(risen: int, *, of: int, blessed: int) -> float:
    """How probable it is that the `risen` highest of `of` runs and `blessed` ones are all runs.

    C(of, risen) / C(of + blessed, risen), for runs of the same code.
    """
    return math.comb(of, risen) / math.comb(of + blessed, risen)


def _row(
    metric: Metric, outcome: Outcome, there: float, here: float, *, exact: bool, why: Note
) -> MetricVerdict:
    change = (here - there) / there if there else math.nan
    return MetricVerdict(
        metric=metric,
        outcome=outcome,
        baseline=there,
        now=here,
        change=change if math.isfinite(change) else None,
        exact=exact,
        note=why,
    )
