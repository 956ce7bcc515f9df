"""What a verdict rests on: the runs of both sides, and what is known of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from perfgate.judge.compare import Learnt
from perfgate.judge.looks import Plan
from perfgate.judge.rule import SPECS, Columns, columns
from perfgate.model.baseline import Baseline, BlessedRun, with_held
from perfgate.model.metric import Metric
from perfgate.model.sample import Run
from perfgate.model.settings import Policy
from perfgate.model.verdict import Stage


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """All that was measured of one workload, and how it came about."""

    workload: str
    blessed: Baseline | None = None
    """None where another commit is all there is to compare with."""
    alone: Sequence[Run] = ()
    """The candidate's, apart from those of pairs."""
    pairs: Sequence[tuple[Run, Run]] = ()
    """The other commit's run and the candidate's."""
    can_pair: frozenset[Stage] = frozenset()
    """The forms of an A/B run that are to be had."""
    spread: Mapping[Metric, Learnt] = field(default_factory=dict)
    """What other workloads say of how occasions on this machine differ (`spread.learn`)."""
    spent: int = 0
    """Runs of both sides that were made before the pairs."""


@dataclass(frozen=True)
class Case:
    """One stage of a gate: what is compared, and by what terms."""

    evidence: Evidence
    policy: Policy
    plan: Plan

    @cached_property
    def other(self) -> Sequence[BlessedRun]:
        """The blessed runs, or the other commit's of today.

        Raises:
            ValueError: there is neither.
        """
        if self.plan.is_ab_run:
            return [BlessedRun.of(there) for there, _ in self.evidence.pairs]
        if self.evidence.blessed is None:
            raise ValueError("there is no baseline to compare with")
        return self.evidence.blessed.runs

    @cached_property
    def runs(self) -> Sequence[Run]:
        """The candidate's; of an A/B run those of pairs."""
        if self.plan.is_ab_run:
            return [here for _, here in self.evidence.pairs]
        return self.evidence.alone

    @cached_property
    def there(self) -> Columns:
        """What all runs of the other side have."""
        return columns(self.other)

    @property
    def times(self) -> int:
        """How many time metrics share alpha."""
        return sum(metric in self.there for metric in SPECS)

    @cached_property
    def budgets(self) -> Mapping[Metric, float]:
        """Fractions, over the defaults."""
        return with_held(self.policy.budgets, self.evidence.blessed)

    @cached_property
    def looks(self) -> tuple[int, int]:
        """Runs of the first look, and what may be made at most; of one side, or pairs."""
        alone, spent = len(self.evidence.alone), self.evidence.spent
        return looks_of(self.plan, self.policy, alone=alone, spent=spent)

    @property
    def is_look(self) -> bool:
        """Whether times are judged at so many runs."""
        first, most = self.looks
        return self.plan.is_look(len(self.runs), first=first, most=most)

    @property
    def wanted(self) -> int:
        """How many further runs, or pairs, the next look takes; 0 where there is none."""
        runs, (first, most) = len(self.runs), self.looks
        return (first if runs < first else self.plan.next_look(runs, max_runs=most)) - runs


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
