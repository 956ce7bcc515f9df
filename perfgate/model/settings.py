"""What a project sets for perfgate, with each default written down once; the policy for one
workload that is made of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from pathlib import PurePath
from typing import Annotated, Final

from pydantic import AfterValidator, AliasChoices, Field, ValidationInfo

from perfgate.model.baseline import FEWEST_RUNS
from perfgate.model.metric import Budget, Budgeted, Metric
from perfgate.model.outcome import OnInconclusive, OnLoosened, OnNew
from perfgate.model.record import Record, SomeText
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload


class GraphTrace(StrEnum):
    """nsys's `--cuda-graph-trace`: a CUDA graph as one span, or kernel by kernel."""

    GRAPH = "graph"
    NODE = "node"


class ABForm(StrEnum):
    """How another commit and the candidate are run next to one another."""

    AUTO = "auto"
    """Interleaved where the workload can be, and a step keeps one CPU core busy at most or its runs
    differ much; else alternately."""
    ALTERNATE = "alternate"
    """In fresh processes one after another, in ABBA order."""
    INTERLEAVE = "interleave"
    """In processes that are alive at once and take turns of a few steps on one CPU core."""
    OFF = "off"


OLD_NAMES: Final = {"duet": "ab_run", "duet_setup": "ab_setup", "duet_python": "ab_python"}
"""What keys of `[tool.perfgate]` were called, and are called now."""


_NOT_ITS_OWN: Final = ((), (".git",), (".perfgate",))
"""Where folders begin that are the project's root, or others' own and in no commit."""


def _in_project(folder: str, others: ValidationInfo) -> str:
    """Refuse a folder outside, and one of baselines whose changes git could not leave out."""
    path = PurePath(folder)
    if ".." in path.parts:
        raise ValueError("expected a folder without '..' on the way to it")
    workloads = others.data.get("workloads")
    if workloads is not None and (
        path.is_absolute()
        or path.parts[:1] in _NOT_ITS_OWN
        or PurePath(workloads).is_relative_to(path)
    ):
        raise ValueError("expected a folder of its own in the project")
    return folder


class Settings(Record):
    """The project's settings, after `[tool.perfgate]` and options have been merged."""

    workloads: Annotated[SomeText, AfterValidator(_in_project)] = "workloads"
    """Folder of the workloads, relative to the project's root."""
    baselines: Annotated[SomeText, AfterValidator(_in_project)] = "baselines"
    """Folder of the baselines, relative to the project's root."""
    runs: int = Field(default=3, ge=1, le=10)
    """Runs of the first look."""
    max_runs: int = Field(default=29, ge=1, le=100)
    """Runs of one workload in one gate, an A/B run's baseline runs included: 5 and 12 pairs by
    default.
    """
    ahead: int | None = Field(default=None, ge=1, le=16)
    """Runs that are alive at once; as many as there is room for where it is not set."""
    time_budget_s: float | None = Field(default=None, gt=0)
    """Seconds that a whole gate may take; what does not fit is INCONCLUSIVE or NOT_MEASURED."""
    ab_run: ABForm = Field(default=ABForm.AUTO, validation_alias=AliasChoices("ab_run", "duet"))
    """How the baseline's commit is run again next to the candidate where stored values do not
    settle a gate."""
    ab_setup: tuple[SomeText, ...] = Field(
        default=(), validation_alias=AliasChoices("ab_setup", "duet_setup")
    )
    """A command, word by word, that makes a fresh checkout of the project ready to run; run in its
    root."""
    ab_python: SomeText | None = Field(
        default=None, validation_alias=AliasChoices("ab_python", "duet_python")
    )
    """The interpreter of a checkout's runs, relative to its root; by default the gate's own."""
    anchor_budget: Budget = 0.05
    """What step_ms may lose against the best ever blessed, as a fraction: where many small losses
    end."""
    timeout_s: float = Field(default=600.0, gt=0)
    """Time limit of one run where the workload sets none."""
    inconclusive: OnInconclusive = OnInconclusive.FAIL
    new: OnNew = OnNew.FAIL
    loosened: OnLoosened = OnLoosened.FAIL
    """What a change that loosens its own gate does to it in GitHub Actions; read from the branch
    that it is for."""
    budgets: Mapping[Budgeted, Budget] = {}
    """Budgets of the project, as fractions."""
    machine: SomeText | None = None
    """The machine that a gate must run on, as the folder of its baselines is called:
    `nvidia-h200-x2`, `no-gpu`."""
    nsys: SomeText | None = None
    """The nsys program, where it is not to be searched for."""
    trace_osrt: bool = False
    """Of older projects: has no effect, since nothing was read of what it recorded."""
    cuda_graph_trace: GraphTrace = GraphTrace.GRAPH
    pass_env: tuple[str, ...] = ()
    """Variables handed to workloads although their names look like secrets."""
    old_names: tuple[str, ...] = Field(default=(), exclude=True)
    """Keys that the file has by their old names."""
    lock_timeout_s: float = Field(default=3600.0, gt=0)
    """How long to wait for another gate on the same GPU."""


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
