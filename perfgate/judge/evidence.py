"""What a verdict rests on: the runs of both sides, and what is known of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from perfgate.judge.compare import PRIOR_DF, Learnt
from perfgate.model.baseline import Baseline, BlessedRun
from perfgate.model.metric import Metric
from perfgate.model.note import Note
from perfgate.model.sample import Run
from perfgate.model.verdict import Stage

_OCCASIONS_TO_KNOW = 2
"""Over fewer, a calibration has measured nothing of what occasions differ by."""


class Held(Protocol):
    """What of a policy the judge is held to."""

    @property
    def runs(self) -> int:
        """Of the first look at runs alone."""

    @property
    def max_runs(self) -> int:
        """Of both sides together."""

    @property
    def stops_early(self) -> bool:
        """Whether a count that rose, and rose again, ends the gate before its first look."""

    @property
    def budgets(self) -> Mapping[Metric, float]:
        """Fractions, over the defaults."""

    @property
    def workloads(self) -> int:
        """Among how many workloads of this gate the time metrics share the error (Holm)."""


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
    no_pairs: Note | None = None
    """Why there is no A/B run, where runs are held against stored ones alone."""
    spread: Mapping[Metric, Learnt] = field(default_factory=dict)
    """What other workloads say of how occasions on this machine differ (`spread.learn`)."""
    spent: int = 0
    """Runs of both sides that were made before the pairs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Other:
    """The side that the candidate is compared with: blessed runs, or the other commit's of today."""

    runs: tuple[BlessedRun, ...]
    occasion_runs: tuple[int, ...]
    """How many of them each occasion has, in order."""
    calibrated: Mapping[Metric, tuple[float, float]] = field(default_factory=dict)
    """tau as `perfgate calibrate` measured it, and its degrees of freedom."""
    spread: Mapping[Metric, Learnt] = field(default_factory=dict)

    @classmethod
    def blessed(cls, baseline: Baseline, spread: Mapping[Metric, Learnt] | None = None) -> Other:
        """Take the blessed runs."""
        return cls(
            runs=baseline.runs,
            occasion_runs=tuple(len(occasion.runs) for occasion in baseline.occasions),
            calibrated={
                metric: (found.occasion_sd, PRIOR_DF + found.occasions - 1)
                for metric, found in baseline.calibration.items()
                if found.occasions >= _OCCASIONS_TO_KNOW
            },
            spread=spread or {},
        )

    @classmethod
    def today(cls, runs: Sequence[Run]) -> Other:
        """Take the other commit's runs: one occasion, the candidate's own."""
        return cls(runs=tuple(map(BlessedRun.of, runs)), occasion_runs=(len(runs),))

    def values(self, metric: Metric) -> tuple[float, ...]:
        """One metric over all runs; empty unless every run has it."""
        found = [value for run in self.runs if (value := run.values.get(metric)) is not None]
        return tuple(found) if len(found) == len(self.runs) else ()
