"""What a project sets for perfgate, with each default written down once; the policy for one
workload that is made of it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePath
from typing import Annotated, Final, assert_never

from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt, ValidationInfo

from perfgate.model.baseline import FEWEST_RUNS
from perfgate.model.metric import Budget, Budgets, Values
from perfgate.model.outcome import OnInconclusive, OnLoosened, OnNew, Outcome
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
    """Runs of the first look; nothing passes by fewer than 5."""
    max_runs: int = Field(default=29, ge=1, le=100)
    """Runs of one workload in one gate, an A/B run's baseline runs included: 5 and 12 pairs by
    default.
    """
    ahead: int | None = Field(default=None, ge=1, le=16)
    """Runs that are alive at once; as many as there is room for where it is not set."""
    time_budget_s: PositiveFloat | None = None
    """Seconds that a whole gate may take; what does not fit is INCONCLUSIVE or NOT_MEASURED."""
    ab_run: ABForm = Field(default=ABForm.AUTO, validation_alias="duet")
    """How the baseline's commit is run again next to the candidate where stored values do not
    settle a gate."""
    ab_setup: tuple[SomeText, ...] = Field(default=(), validation_alias="duet_setup")
    """A command, word by word, that makes a fresh checkout of the project ready to run; run in its
    root."""
    ab_python: SomeText | None = Field(default=None, validation_alias="duet_python")
    """The interpreter of a checkout's runs, relative to its root; by default the gate's own."""
    anchor_budget: Budget = 0.05
    """What step_ms may lose against the best ever blessed, as a fraction: where many small losses
    end."""
    timeout_s: PositiveFloat = 600.0
    """Time limit of one run where the workload sets none."""
    inconclusive: OnInconclusive = OnInconclusive.FAIL
    new: OnNew = OnNew.FAIL
    loosened: OnLoosened = OnLoosened.FAIL
    """What a change that loosens its own gate does to it in GitHub Actions; read from the branch
    that it is for."""
    budgets: Budgets = {}
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
    lock_timeout_s: PositiveFloat = 3600.0
    """How long to wait for another gate on the same GPU."""

    def lets_pass(self, outcome: Outcome) -> bool:
        """Whether a workload of this outcome lets the build pass."""
        match outcome:
            case Outcome.PASSED | Outcome.IMPROVED:
                return True
            case Outcome.INCONCLUSIVE:
                return self.inconclusive is OnInconclusive.WARN
            case Outcome.NO_BASELINE:
                return self.new is OnNew.ALLOW
            case Outcome.REGRESSED | Outcome.INCOMPARABLE | Outcome.INVALID | Outcome.NOT_MEASURED:
                return False
            case _:
                assert_never(outcome)

    def opens(self, verdict: Verdict) -> bool:
        """Whether a verdict lets the build pass: by its outcome, and no open loss is too large."""
        may = self.lets_pass(verdict.outcome)
        return may and not verdict.too_few_runs and not verdict.beyond


class Policy(Settings):
    """The settings as they hold for one workload, with what its gate decided."""

    # Also more than a project may set, where a result is judged again.
    runs: PositiveInt = 3
    max_runs: PositiveInt = 29
    budgets: Values = {}
    new_runs: PositiveInt = FEWEST_RUNS
    """Runs where there is no baseline to compare with."""
    stops_early: bool = True
    """Whether a count that rose, and rose again, ends the gate before its first look.

    Not where runs were asked for.
    """
    sharing: PositiveInt = 1
    """Among how many workloads of this gate the time metrics share the error."""

    @property
    def own_packages(self) -> bool:
        """Whether another commit brings its own: else both sides run with today's torch and
        CUDA."""
        return bool(self.ab_setup) or self.ab_python is not None

    @classmethod
    def of(
        cls,
        settings: Settings,
        workload: Workload,
        *,
        runs_given: bool,
        budgets_given: Values | None = None,
        sharing: int = 1,
    ) -> Policy:
        """The policy for one workload; `runs_given` tells a user's own number of runs from the
        default.

        The workload's own budgets win over those of the settings, and over both those
        `budgets_given` by an option.
        """
        enough = min(max(settings.runs, FEWEST_RUNS), settings.max_runs)
        held = {
            "budgets": {**settings.budgets, **workload.budgets, **(budgets_given or {})},
            "new_runs": settings.runs if runs_given else enough,
            "stops_early": not runs_given,
            "sharing": sharing,
        }
        return cls(**{**dict(settings), **held})
