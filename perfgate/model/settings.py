"""What a project sets for perfgate: `[tool.perfgate]`, with each default written down once."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from perfgate.model.metric import Metric
from perfgate.model.outcome import OnInconclusive, OnNew
from perfgate.model.record import Record


class GraphTrace(StrEnum):
    """nsys's `--cuda-graph-trace`: a CUDA graph as one span, or kernel by kernel."""

    GRAPH = "graph"
    NODE = "node"


class Settings(Record):
    """The project's settings, after `[tool.perfgate]`, environment and options have been merged."""

    workloads: str = Field(default="workloads", min_length=1)
    """Folder of the workloads, relative to the project's root."""
    baselines: str = Field(default="baselines", min_length=1)
    """Folder of the baselines, relative to the project's root."""
    runs: int = Field(default=3, ge=1, le=10)
    """Runs of the first look; the gate grows them to 5, 8 and 10 where it must."""
    max_runs: int = Field(default=10, ge=1, le=10)
    timeout_s: float = Field(default=600.0, gt=0)
    """Time limit of one run where the workload sets none."""
    inconclusive: OnInconclusive = OnInconclusive.WARN
    new: OnNew = OnNew.FAIL
    budgets: Mapping[Metric, float] = {}
    """Budgets of the project, as fractions."""
    nsys: str | None = Field(default=None, min_length=1)
    """The nsys program, where it is not to be searched for."""
    trace_osrt: bool = False
    cuda_graph_trace: GraphTrace = GraphTrace.GRAPH
    pass_env: tuple[str, ...] = ()
    """Variables handed to workloads although their names look like secrets."""
    lock_timeout_s: float = Field(default=3600.0, gt=0)
    """How long to wait for another gate on the same GPU."""
