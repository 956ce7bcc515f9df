"""What a verdict rests on: the runs of both sides, and what is known of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfgate.judge.compare import Learnt
from perfgate.judge.looks import Plan
from perfgate.judge.times import Columns
from perfgate.model.baseline import Baseline, BlessedRun
from perfgate.model.metric import Metric
from perfgate.model.sample import Run
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
    is_last: bool
    """Whether it is the plan's last look; of fewer runs chance could excuse any."""
    wanted: int
    """How many further runs, or pairs, the next look takes; 0 where there is none."""
