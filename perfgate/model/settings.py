"""What a project sets for perfgate: `[tool.perfgate]`, with each default written down once."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from pydantic import AliasChoices, Field

from perfgate.model.metric import Budget, Metric
from perfgate.model.outcome import OnInconclusive, OnLoosened, OnNew
from perfgate.model.record import Record


class GraphTrace(StrEnum):
    """nsys's `--cuda-graph-trace`: a CUDA graph as one span, or kernel by kernel."""

    GRAPH = "graph"
    NODE = "node"


class ABForm(StrEnum):
    """How another commit and the candidate are run beside one another."""

    AUTO = "auto"
    """Alternately, or interleaved where alternate runs differ too much to show the budget."""
    ALTERNATE = "alternate"
    """In fresh processes one after another, in ABBA order."""
    INTERLEAVE = "interleave"
    """In processes that are alive at once and take turns of a few steps on one CPU core."""
    OFF = "off"


OLD_NAMES: Final = {"duet": "ab_run", "duet_setup": "ab_setup", "duet_python": "ab_python"}
"""What keys of `[tool.perfgate]` were called, and are called now."""


class Settings(Record):
    """The project's settings, after `[tool.perfgate]` and options have been merged."""

    workloads: str = Field(default="workloads", min_length=1)
    """Folder of the workloads, relative to the project's root."""
    baselines: str = Field(default="baselines", min_length=1)
    """Folder of the baselines, relative to the project's root."""
    runs: int = Field(default=3, ge=1, le=10)
    """Runs of the first look; nothing passes by fewer than 5."""
    max_runs: int = Field(default=29, ge=1, le=100)
    """Runs of one workload in one gate, an A/B run's baseline runs included: 5 and 12 pairs by
    default.
    """
    ahead: int | None = Field(default=None, ge=1, le=16)
    """Runs that are alive at once; as many as there is room for where it is not set."""
    time_budget_s: float | None = Field(default=None, gt=0)
    """Seconds that a whole gate may take; what does not fit is INCONCLUSIVE or NOT_MEASURED."""
    ab_run: ABForm = Field(default=ABForm.AUTO, validation_alias=AliasChoices("ab_run", "duet"))
    """How the baseline's commit is run again beside the candidate where stored values do not settle
    a gate."""
    ab_setup: tuple[str, ...] = Field(
        default=(), validation_alias=AliasChoices("ab_setup", "duet_setup")
    )
    """A command, word by word, that makes a fresh checkout of the project ready to run; run in its
    root."""
    ab_python: str | None = Field(
        default=None, min_length=1, validation_alias=AliasChoices("ab_python", "duet_python")
    )
    """The interpreter of a checkout's runs, relative to its root; by default the gate's own."""
    anchor_budget: float = Field(default=0.05, gt=0, lt=1)
    """What step_ms may lose against the best ever blessed, as a fraction: where many small losses
    end."""
    timeout_s: float = Field(default=600.0, gt=0)
    """Time limit of one run where the workload sets none."""
    inconclusive: OnInconclusive = OnInconclusive.FAIL
    new: OnNew = OnNew.FAIL
    loosened: OnLoosened = OnLoosened.FAIL
    """What a change that loosens its own gate does to it in GitHub Actions; read from the branch
    that it is for."""
    budgets: Mapping[Metric, Budget] = {}
    """Budgets of the project, as fractions."""
    machine: str | None = Field(default=None, min_length=1)
    """The machine that a gate must run on, as the folder of its baselines is called:
    `nvidia-h200-x2`, `no-gpu`."""
    nsys: str | None = Field(default=None, min_length=1)
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
