"""What a verdict rests on: the runs of both sides, what is known of the machine, and what of that
one stage compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from perfgate.judge.compare import Floats, Learnt
from perfgate.judge.looks import Plan, looks_of
from perfgate.judge.outliers import Sides
from perfgate.judge.times import SPECS, Columns, as_x, columns
from perfgate.model.baseline import Baseline, BlessedRun, with_held
from perfgate.model.metric import Metric
from perfgate.model.sample import NO_NCCL, Run, why_absent
from perfgate.model.settings import Policy


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """All that was measured of one workload, and how it came about."""

    workload: str
    blessed: Baseline | None = None
    """None where another commit is all there is to compare with."""
    alone: Sequence[Run] = ()
    """The candidate's, apart from those of pairs."""
    alone_there: Sequence[Run] = ()
    """The other commit's of today, made alone before pairs in blocks."""
    pairs: Sequence[tuple[Run, Run]] = ()
    """The other commit's run and the candidate's."""
    spread: Mapping[Metric, Learnt] = field(default_factory=dict)
    """What other workloads say of how occasions on this machine differ (`hold.learn`)."""
    spent: int = 0
    """Runs of both sides that were made before the pairs."""


class Case:
    """One stage of a gate: what is compared, and by what terms."""

    def __init__(self, evidence: Evidence, policy: Policy, plan: Plan) -> None:
        """Take what of the evidence a stage compares.

        Raises:
            ValueError: there is no baseline to compare with.
        """
        self.evidence, self.policy, self.plan = evidence, policy, plan
        self.stored = () if evidence.blessed is None else evidence.blessed.runs
        """The blessed runs."""
        self.other: Sequence[BlessedRun] = self.stored
        """The blessed runs, or the other commit's of today."""
        self.runs = evidence.alone
        """The candidate's; of an A/B run those of pairs."""
        if plan.is_ab_run:
            self.other = [BlessedRun.of(there) for there, _ in evidence.pairs]
            self.runs = [here for _, here in evidence.pairs]
        elif not self.stored:
            raise ValueError("there is no baseline to compare with")
        self.there = columns(self.other)
        """What all runs of the other side have."""
        self.here = {metric: x for metric in self.there if (x := _column(self.runs, metric)).size}
        """What of that all of the candidate's have."""
        self.in_graphs = _in_graphs(self.there, self.here)
        """Whether CUDA graphs have taken the place of launches."""
        self.times = sum(metric in self.there for metric in SPECS)
        """How many time metrics share alpha."""
        self.budgets = with_held(policy.budgets, evidence.blessed)
        """Fractions, over the defaults."""
        number = len(self.runs)
        first, self.most = looks_of(plan, policy, alone=len(evidence.alone), spent=evidence.spent)
        """Runs that may be made; of one side, or pairs."""
        following = plan.next_look(number, max_runs=self.most)
        is_later = number > first and (number in plan.looks or number >= self.most)
        self.is_look = number == first or is_later
        """Whether times are judged at so many runs."""
        self.is_last = number > plan.looks[-2] and following == number
        """Whether it is the plan's last look; of fewer runs chance could excuse any."""
        self.wanted = (first if number < first else following) - number
        """How many further runs, or pairs, the next look takes; 0 where there is none."""

    def sides(self, metric: Metric) -> Sides:
        """A time metric that both sides have, as x."""
        return as_x(metric, self.there[metric], self.there), as_x(
            metric, self.here[metric], self.there
        )


def _in_graphs(there: Columns, here: Columns) -> bool:
    """Whether more graphs are launched, and at most half as many calls in all; never without a
    step, which is to decide then."""
    if not here.keys() >= {Metric.STEP_MS, Metric.GRAPH_LAUNCHES, Metric.LAUNCHES}:
        return False
    (graphs, calls), (graphs_now, calls_now) = (
        (side[Metric.GRAPH_LAUNCHES], side[Metric.GRAPH_LAUNCHES] + side[Metric.LAUNCHES])
        for side in (there, here)
    )
    return bool(graphs_now.min() > graphs.max() and 2 * calls_now.max() <= calls.min())


def _column(runs: Sequence[Run], metric: Metric) -> Floats:
    """A metric of the candidate's runs, of NCCL's times 0 where no NCCL kernel ran; empty where a
    run lacks it."""
    values = [
        0.0 if value is None and why_absent([run], metric) == NO_NCCL else value
        for run in runs
        for value in (run.value(metric),)
    ]
    return np.array([] if None in values else values, dtype=np.float64)
