"""When the judge looks and what shuts the gate at each look, as a table; knows no metric and no message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from perfgate.judge.compare import Comparison

PASS_CONFIDENCE: Final = 0.975
"""Of the upper bound that must lie below the budget (beta 2.5 % per look)."""
SHOWN_COVERAGE: Final = 0.9875
"""Of the interval that is shown as "95 %, adjusted for looking more than once": a plain one covers 88 %."""
_ALPHA: Final = 0.01
"""Of one gate, over its clocks and looks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """What it takes to call a clock's change a loss."""

    alpha: float
    """To be shared by the gate's clocks."""
    budgets: float
    """The estimate must be at least so many budgets."""
    every_run_slower: bool = False
    """Whether every candidate run must be slower than every kept baseline run."""

    def smallest(self, comparison: Comparison, *, budget: float, clocks: int) -> float:
        """Return the smallest estimate that these runs would have shown as a loss."""
        return max(self.budgets * budget, comparison.margin(1 - self.alpha / clocks))

    def shown(self, comparison: Comparison, *, budget: float, clocks: int, separated: bool) -> bool:
        """Say whether the change is a loss; `separated`: every candidate run is slower than every baseline run."""
        return (
            comparison.estimate >= self.budgets * budget
            and comparison.p_slower <= self.alpha / clocks
            and (separated or not self.every_run_slower)
        )


CLEAR: Final = Loss(alpha=0.0005, budgets=2.0, every_run_slower=True)
"""The screen's: so large that no second opinion is needed. `STORED` implies it until a duet takes STORED's place."""
STORED: Final = Loss(alpha=_ALPHA / 4, budgets=0.5)
"""Against the stored baseline alone, at each of four looks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """One row of the plan: from this many runs on, until the next row, any of these is a loss."""

    runs: int
    losses: tuple[Loss, ...]


LOOKS: Final = (
    Look(runs=1, losses=()),
    Look(runs=3, losses=(CLEAR, STORED)),
    Look(runs=5, losses=(STORED,)),
    Look(runs=8, losses=(STORED,)),
    Look(runs=10, losses=(STORED,)),
)
"""The plan. Before three runs a clock can pass, never fail.

Looks at other numbers of runs (a user's first or last) take the place of one of these, so whoever follows `next_look`
looks for losses at most four times, and `STORED.alpha` holds.
"""

FEWEST_TO_FAIL: Final = next(look.runs for look in LOOKS if look.losses)
MOST_RUNS: Final = LOOKS[-1].runs
"""More than this one gate never measures."""


def losses_at(runs: int) -> tuple[Loss, ...]:
    """Return what may be called a loss after this many runs."""
    return next((look.losses for look in reversed(LOOKS) if look.runs <= runs), ())


def next_look(runs: int, *, max_runs: int) -> int:
    """Return the number of runs to judge next; `runs` itself where the budget is spent."""
    planned = next((look.runs for look in LOOKS if look.runs > runs and look.losses), runs)
    return max(runs, min(planned, max_runs))
