"""What a gate is held to: the settings and the workload's own, merged once."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pydantic import Field

from perfgate.model.baseline import FEWEST_RUNS
from perfgate.model.metric import Metric
from perfgate.model.outcome import OnInconclusive, OnNew
from perfgate.model.record import Record
from perfgate.model.settings import Settings
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload


class Policy(Record):
    """What the user decided about runs, budgets and doubtful outcomes."""

    runs: int = Field(default=3, ge=1)
    new_runs: int = Field(default=FEWEST_RUNS, ge=1)
    """Runs where there is no baseline to compare with."""
    max_runs: int = Field(default=29, ge=1)
    """Of both sides together."""
    stops_early: bool = True
    """Whether a count that rose, and rose again, ends the gate before its first look.

    Not where runs were asked for.
    """
    budgets: Mapping[Metric, float] = {}
    anchor_budget: float = Field(default=0.05, gt=0)
    """What step_ms may lose against the best ever blessed."""
    workloads: int = Field(default=1, ge=1)
    """Among how many workloads of this gate the time metrics share the error."""
    own_packages: bool = False
    """Whether another commit brings its own: else both sides run with today's torch and CUDA."""
    on_inconclusive: OnInconclusive = OnInconclusive.FAIL
    on_new: OnNew = OnNew.FAIL

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        workload: Workload | None,
        *,
        runs_given: bool,
        budgets_given: Collection[Metric] = (),
        workloads: int = 1,
    ) -> Policy:
        """The policy for one workload; `runs_given` tells a user's own number of runs from the
        default.

        The workload's own budgets win over those of the settings, and over both those
        `budgets_given` by an option.
        """
        own = {} if workload is None else workload.budgets
        default_new = min(max(settings.runs, FEWEST_RUNS), settings.max_runs)
        return cls(
            runs=settings.runs,
            new_runs=settings.runs if runs_given else default_new,
            max_runs=max(settings.max_runs, settings.runs),
            stops_early=not runs_given,
            budgets={
                **settings.budgets,
                **{metric: budget for metric, budget in own.items() if metric not in budgets_given},
            },
            anchor_budget=settings.anchor_budget,
            workloads=workloads,
            own_packages=bool(settings.ab_setup) or settings.ab_python is not None,
            on_inconclusive=settings.inconclusive,
            on_new=settings.new,
        )

    def opens(self, verdict: Verdict) -> bool:
        """Whether a verdict lets the build pass."""
        return verdict.opens(on_inconclusive=self.on_inconclusive, on_new=self.on_new)
