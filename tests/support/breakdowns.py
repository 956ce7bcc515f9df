"""Breakdowns of loops that launch their kernels one by one, and of loops that launch them as CUDA
graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perfgate.model.metric import Metric
from perfgate.model.sample import WHOLE_GRAPHS, Breakdown, KernelSample, RangeSample


def kernels(**times: tuple[float, float]) -> Breakdown:
    """Kernels by name, each with its number and its ms per step."""
    return Breakdown(
        kernels=tuple(
            KernelSample(name=name, count=count, gpu_ms=ms) for name, (count, ms) in times.items()
        )
    )


def launching(
    names: Mapping[str, float], *, launches: float, graphs: float = 0.0, under: str = "step"
) -> Breakdown:
    """Kernels by name and number per step, of a loop that launches so many one by one, and so many
    graphs."""
    rows = tuple(
        KernelSample(name=name, count=count, gpu_ms=0.1 * count) for name, count in names.items()
    )
    values = {
        Metric.LAUNCHES: launches,
        Metric.GRAPH_LAUNCHES: graphs,
        Metric.KERNEL_MS: sum(row.gpu_ms for row in rows),
    }
    return Breakdown(
        kernels=rows, ranges=(RangeSample(name=under, count=1, cpu_ms=1.0, values=values),)
    )


EAGER: Final = launching({"gemm": 8, "add": 92}, launches=100)
BY_NODE: Final = launching({"gemm": 8, "add": 92}, launches=0, graphs=1)
"""The same as one graph, traced node by node."""
WHOLE: Final = launching({WHOLE_GRAPHS: 1}, launches=0, graphs=1)
"""The same graph, traced as a whole."""
