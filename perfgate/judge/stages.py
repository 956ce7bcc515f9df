"""When the judge looks and what shuts the gate at each look, as tables; knows no metric and no message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from perfgate.judge.compare import Comparison
from perfgate.model.metric import Metric
from perfgate.model.verdict import FEWEST_TO_JUDGE, Stage

PASS_CONFIDENCE: Final = 0.975
"""Of the upper bound that must lie below the budget: a loss of the budget passes 2.5 % of looks."""
ALPHA: Final = 0.01
"""Of one gate, over its clocks and looks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """What it takes to call a clock's change a loss."""

    alpha: float
    """To be shared by the gate's clocks, and by the workloads judged together."""
    budgets: float
    """The estimate must be at least so many budgets."""
    every_run_slower: bool = False
    """Whether every candidate run must be slower than every kept baseline run."""

    def smallest(self, comparison: Comparison, *, budget: float, shares: int) -> float:
        """Return the smallest estimate that these runs would have shown as a loss; `shares` divide alpha."""
        return max(self.budgets * budget, comparison.margin(1 - self.alpha / shares))

    def level(self, comparison: Comparison, *, budget: float, separated: bool) -> float | None:
        """Return p over alpha: the change is a loss if this, times the shares of alpha, is at most 1.

        None where it is none whatever its p-value. `separated`: every candidate run is slower than every baseline run.
        """
        if comparison.estimate < self.budgets * budget or (self.every_run_slower and not separated):
            return None
        return comparison.p_slower / self.alpha


CLEAR: Final = Loss(alpha=0.0005, budgets=2.0, every_run_slower=True)
"""The screen's: so large that no second opinion is needed."""
STORED: Final = Loss(alpha=ALPHA / 4, budgets=0.5)
"""Against the stored baseline alone, at each of four looks; `CLEAR` implies it."""
DUEL: Final = Loss(alpha=ALPHA / 3, budgets=0.5)
"""In a duet, at each of three looks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """One row of a plan: from this many runs on, until the next row, any of these is a loss."""

    runs: int
    losses: tuple[Loss, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The looks of one stage of a gate.

    Looks at other numbers of runs (a user's first or last) take the place of one of these, so whoever follows
    `next_look` looks for losses at most as often as the plan does, and its alpha holds.
    """

    stage: Stage
    looks: tuple[Look, ...]
    told: Loss
    """The loss by which it is told what the runs could have shown."""
    in_pairs: bool = False
    """Whether a run's value only means something beside that of the other side of its pair."""

    @property
    def fewest_to_fail(self) -> int:
        """Before so many runs a clock can pass, never fail."""
        return next(look.runs for look in self.looks if look.losses)

    @property
    def most_runs(self) -> int:
        """More than this the stage never measures."""
        return self.looks[-1].runs

    def losses_at(self, runs: int) -> tuple[Loss, ...]:
        """Return what may be called a loss after this many runs."""
        return next((look.losses for look in reversed(self.looks) if look.runs <= runs), ())

    @property
    def is_duet(self) -> bool:
        """Whether both sides are measured on the same occasion, in pairs."""
        return self.stage in (Stage.DUET, Stage.INTERLEAVED)

    @property
    def alone_runs(self) -> int:
        """Runs that are made before its pairs: one of either side alone, where the pairs are interleaved."""
        return 2 if self.in_pairs else 0

    def next_look(self, runs: int, *, max_runs: int) -> int:
        """Return the number of runs to judge next; `runs` itself where the budget is spent."""
        planned = next((look.runs for look in self.looks if look.runs > runs and look.losses), runs)
        return max(runs, min(planned, max_runs))


SCREEN_PLAN: Final = Plan(stage=Stage.SCREEN, looks=(Look(runs=FEWEST_TO_JUDGE, losses=(CLEAR,)),), told=STORED)
"""Against the stored baseline, to pass; a duet is there to fail."""
STORED_PLAN: Final = Plan(
    stage=Stage.STORED,
    looks=(
        Look(runs=FEWEST_TO_JUDGE, losses=(CLEAR, STORED)),
        Look(runs=5, losses=(STORED,)),
        Look(runs=8, losses=(STORED,)),
        Look(runs=10, losses=(STORED,)),
    ),
    told=STORED,
)
"""Against the stored baseline alone, where its commit cannot be run."""
DUET_PLAN: Final = Plan(
    stage=Stage.DUET, looks=tuple(Look(runs=pairs, losses=(DUEL,)) for pairs in (FEWEST_TO_JUDGE, 5, 8)), told=DUEL
)
"""Against fresh runs of the baseline's commit, made alternately with the candidate's; runs are pairs."""
BOUT: Final = Loss(alpha=ALPHA / 4, budgets=0.5)
"""In an interleaved duet, at each of four looks."""
INTERLEAVED_PLAN: Final = Plan(
    stage=Stage.INTERLEAVED,
    looks=tuple(Look(runs=pairs, losses=(BOUT,)) for pairs in (FEWEST_TO_JUDGE, 5, 8, 12)),
    told=BOUT,
    in_pairs=True,
)
"""In pairs of processes that are alive at once, for loops whose runs differ by the mood of the host.

Measured on an H200's host (`benchmarks/moods`): a pair's ratio repeats within 1.0 % where runs one after another
repeat within 4 to 6 %; 2 % then take 10 or 11 pairs, hence a fourth look.
"""
NOISY: Final = 1.5
"""Budgets that the smallest loss of all alternate pairs may come to before a duet is interleaved."""
INTERLEAVED_SDS: Final[Mapping[Metric, float]] = {
    Metric.STEP_MS: 0.007,
    Metric.STEP_MEAN_MS: 0.016,
    Metric.GAP_MS: 0.007,
    Metric.KERNEL_MS: 0.004,
}
"""Run-to-run SD in such pairs, of step and idle time as a fraction of a step: 1.0 % of their difference (ibid.).

Of the mean step, where no bout is left out, 2.25 % of their difference over the 72 pairs of a host of two speeds
(`benchmarks/moods/h200-two-speeds.npz`), where that of the median step is 1.6 %.

Kernels take longer or shorter by up to 1.3 % for the whole of a process where two share a GPU by turns: 0.41 % over the
358 pairs of `benchmarks/decision`'s CPU-bound loop, whose runs alone repeat within 0.05 %. By the prior of runs alone,
three pairs of which each fell the same way were a loss of 0.8 % with p < 0.0001.
"""
