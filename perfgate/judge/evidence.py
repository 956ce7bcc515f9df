"""What a verdict rests on: the runs of both sides, and what is known of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfgate.judge.compare import Learnt
from perfgate.judge.looks import Plan
from perfgate.judge.times import SPECS, Columns, columns
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
    """What other workloads say of how occasions on this machine differ (`hold.learn`)."""
    spent: int = 0
    """Runs of both sides that were made before the pairs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One stage of a gate: what is compared, and by what terms."""

    evidence: Evidence
    policy: Policy
    plan: Plan
    other: Sequence[BlessedRun]
    """The blessed runs, or the other commit's of today."""
    runs: Sequence[Run]
    """The candidate's; of an A/B run those of pairs."""
    there: Columns
    """What all runs of the other side have."""
    times: int
    """How many time metrics share alpha."""
    budgets: Mapping[Metric, float]
    """Fractions, over the defaults."""
    most: int
    """Runs that may be made; of one side, or pairs."""
    is_look: bool
    """Whether times are judged at so many runs."""
    wanted: int
    """How many further runs, or pairs, the next look takes; 0 where there is none."""


def case_of(evidence: Evidence, policy: Policy, plan: Plan) -> Case:
    """Return what of the evidence a stage compares.

    Raises:
        ValueError: there is no baseline to compare with.
    """
    other: Sequence[BlessedRun] = [BlessedRun.of(there) for there, _ in evidence.pairs]
    runs: Sequence[Run] = [here for _, here in evidence.pairs]
    if not plan.is_ab_run:
        if evidence.blessed is None:
            raise ValueError("there is no baseline to compare with")
        other, runs = evidence.blessed.runs, evidence.alone
    there, number = columns(other), len(runs)
    first, most = looks_of(plan, policy, alone=len(evidence.alone), spent=evidence.spent)
    is_early = number < first
    return Case(
        evidence=evidence,
        policy=policy,
        plan=plan,
        other=other,
        runs=runs,
        there=there,
        times=sum(metric in there for metric in SPECS),
        budgets=with_held(policy.budgets, evidence.blessed),
        most=most,
        is_look=plan.is_look(number, first=first, most=most),
        wanted=(first if is_early else plan.next_look(number, max_runs=most)) - number,
    )


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
