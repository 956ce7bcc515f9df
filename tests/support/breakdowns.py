"""Builders of breakdowns: kernels, copies and ranges by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perfgate.model.metric import Metric
from perfgate.model.sample import (
    WHOLE_GRAPHS,
    Breakdown,
    CopySample,
    KernelSample,
    RangeSample,
)


def kernels(**times: tuple[float, float]) -> Breakdown:
    """Kernels by name, each with its number and its ms per step."""
    rows = (KernelSample(name=name, count=n, gpu_ms=ms) for name, (n, ms) in times.items())
    return Breakdown(kernels=tuple(rows))


def ranges(values: Mapping[str, Mapping[Metric, float]]) -> Breakdown:
    """Ranges by name, each with its values per step and 1 ms on the CPU."""
    rows = (RangeSample(name=name, count=1, cpu_ms=1, values=of) for name, of in values.items())
    return Breakdown(ranges=tuple(rows))


def under(metric: Metric, **values: float) -> Breakdown:
    """Ranges by name, each with one metric."""
    return ranges({name: {metric: value} for name, value in values.items()})


def copied(
    host: str, count: float, *, direction: str = "Host-to-Device", gpu_ms: float | None = None
) -> CopySample:
    """Copies of 1000 bytes, each of 0.1 ms unless all of them take so long."""
    ms = 0.1 * count if gpu_ms is None else gpu_ms
    return CopySample(direction=direction, host=host, count=count, bytes=1000 * count, gpu_ms=ms)


def launching(names: Mapping[str, float], *, launches: float, graphs: float = 0.0) -> Breakdown:
    """Kernels by name and number per step, of a loop that launches so many one by one, and so many
    graphs."""
    made = kernels(**{name: (count, 0.1 * count) for name, count in names.items()})
    values = {
        Metric.LAUNCHES: launches,
        Metric.GRAPH_LAUNCHES: graphs,
        Metric.KERNEL_MS: sum(row.gpu_ms for row in made.kernels),
    }
    return made.model_copy(update={"ranges": ranges({"step": values}).ranges})


EAGER: Final = launching({"gemm": 8, "add": 92}, launches=100)
BY_NODE: Final = launching({"gemm": 8, "add": 92}, launches=0, graphs=1)
"""The same as one graph, traced node by node."""
WHOLE: Final = launching({WHOLE_GRAPHS: 1}, launches=0, graphs=1)
"""The same graph, traced as a whole."""
