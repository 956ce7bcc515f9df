"""When the judge looks, and at what level, as one table; how workloads share it. Knows no metric
and no message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from perfgate.model.settings import Policy
from perfgate.model.verdict import Stage

PASS_CONFIDENCE: Final = 0.975
"""Of the upper bound that must lie below the budget: a loss of the budget passes 2.5 % of looks."""
LATER_CONFIDENCE: Final = 0.995
"""The same of all looks but the first in blocks: so such a loss passes at most 4 % of gates."""
ALPHA: Final = 0.01
"""Of one gate, over its time metrics and looks, and by Holm over its workloads."""
FEWEST_WITH_EXTREMES: Final = 5
"""Pairs before which nothing fails where a run of either side is extreme: a mode met by chance."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The looks of one stage of a gate.

    A look at another number of runs (a user's first or last) takes the place of one of these, so
    that alpha holds.
    """

    stage: Stage
    looks: tuple[int, ...]
    """Numbers of runs, or of pairs."""
    fewest_to_pass: int
    """Runs before which nothing passes."""
    later_confidence: float = PASS_CONFIDENCE
    """Of the upper bound at all looks but the first."""
    fails: bool = True
    """Whether a time metric can be called a loss here."""
    is_ab_run: bool = False
    """Whether both sides are measured on the same occasion, in pairs."""
    in_pairs: bool = False
    """Whether a run's value only means something next to that of the other side of its pair."""
    alone_runs: int = 0
    """Runs that are made before its pairs: one of either side, where the pairs are of blocks."""
    slow_chance: float | None = None
    """At the last look: the other side must have as many slow runs, but for this chance."""

    @property
    def fewest_to_fail(self) -> int:
        """Runs of the first look."""
        return self.looks[0]

    @property
    def most_runs(self) -> int:
        """More than this the stage never measures."""
        return self.looks[-1]

    @property
    def alpha(self) -> float:
        """What one look may spend, to be shared by the gate's time metrics and workloads."""
        return ALPHA / len(self.looks)

    def may_fail(self, runs: int) -> bool:
        """Whether so many runs can show a loss of a time metric."""
        return self.fails and runs >= self.fewest_to_fail

    def pass_confidence(self, runs: int) -> float:
        """Of the upper bound that must lie below the budget, after so many runs."""
        return PASS_CONFIDENCE if runs <= self.looks[0] else self.later_confidence

    def next_look(self, runs: int, *, max_runs: int) -> int:
        """Return the number of runs to judge next; `runs` itself where nothing is left to spend."""
        planned = next((look for look in self.looks if look > runs), runs)
        return max(runs, min(planned, max_runs))


COUNTS_PLAN: Final = Plan(stage=Stage.COUNTS, looks=(1, 2), fewest_to_pass=1, fails=False)
"""Counts alone: a rise in the first run, confirmed by a second, ends the gate."""
SCREEN_PLAN: Final = Plan(stage=Stage.SCREEN, looks=(3, 5), fewest_to_pass=5, fails=False)
"""Against the stored baseline, to pass at the second look; an A/B run is there to fail."""
STORED_PLAN: Final = Plan(stage=Stage.STORED, looks=(5, 8, 10), fewest_to_pass=5, slow_chance=0.3)
"""Against the stored baseline alone, where its commit cannot be run."""
AB_PLAN: Final = Plan(
    stage=Stage.AB_RUN,
    looks=(3, 5, 8, 12),
    fewest_to_pass=3,
    slow_chance=0.1,
    is_ab_run=True,
)
"""Against fresh runs of the baseline's commit, made alternately with the candidate's; runs are
pairs."""
INTERLEAVED_PLAN: Final = replace(
    AB_PLAN, stage=Stage.BLOCKS, in_pairs=True, alone_runs=2, later_confidence=LATER_CONFIDENCE
)
"""In blocks of processes that are alive at once, where runs differ by more than `NOISY`."""
NOISY: Final = 0.01
"""SD of kept step times, of both sides or the candidate's, from which an A/B run is in blocks."""

PLANS: Final[Mapping[Stage, Plan]] = {
    plan.stage: plan for plan in (COUNTS_PLAN, SCREEN_PLAN, STORED_PLAN, AB_PLAN, INTERLEAVED_PLAN)
}


def looks_of(plan: Plan, policy: Policy, *, alone: int, spent: int) -> tuple[int, int]:
    """Return the first look's and the most runs of one side, or pairs; `alone` and `spent` before.

    Where a user asked for runs, pairs are made until there are so many: a bless takes those alone.
    """
    if not plan.is_ab_run:
        most = max(min(plan.most_runs, policy.max_runs), policy.runs)
        return (1 if plan.stage is Stage.COUNTS else policy.runs), most
    most = min((policy.max_runs - spent) // 2, plan.most_runs)
    asked = 0 if policy.stops_early or plan.in_pairs else policy.runs - alone
    return max(min(max(plan.fewest_to_fail, asked), most), 1), most


def step_down(levels: Mapping[str, float | None], *, workloads: int) -> frozenset[str]:
    """Return the workloads whose times are shown to have lost, of so many judged together.

    Holm (1979): by rising level (p over what a single workload may spend), the first against 1/W,
    the next against 1/(W - 1), until one is not reached. A level of None is no loss.
    """
    found: list[str] = []
    ordered = sorted((level, name) for name, level in levels.items() if level is not None)
    for level, name in ordered:
        if level * max(workloads - len(found), 1) > 1:
            break
        found.append(name)
    return frozenset(found)
