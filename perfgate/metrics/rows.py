"""The tables of a sample, by range and by kernel, the small ones folded; it must not know how they were measured."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perfgate.metrics.attribution import Segments
from perfgate.metrics.intervals import sum_by
from perfgate.metrics.tally import Work
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.sample import KernelSample, RangeSample
from perfgate.model.timeline import Ints

TOP_RANGES = 40
OTHER_RANGES = "(other ranges)"
TOP_KERNELS = 20
OTHER_KERNELS = "(other kernels)"
_TIMES = (Metric.KERNEL_MS, Metric.NCCL_MS, Metric.H2D_MS, Metric.GAP_MS)


def range_samples(
    segments: Segments, by_segment: Mapping[Metric, tuple[Ints, float]], *, steps: int
) -> tuple[RangeSample, ...]:
    """One row a range name, by time, descending; the values of all rows add up to the whole.

    `by_segment` holds for each metric its sums by segment (ns for clocks) and what they are divided by: steps, or
    periods. Rows after the TOP_RANGES by time on GPU, idle and CPU are folded into one. `count` and `cpu_ms` are of
    ranges begun in steps; nested ranges count in their own row and in their parents' `cpu_ms`, so this does not add up.
    """
    size = len(segments.labels)
    values: dict[Metric, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
    for metric in METRICS:
        if metric not in by_segment:
            continue
        sums, divisor = by_segment[metric]
        unit = 1e6 if METRICS[metric].kind is Kind.CLOCK else 1.0
        values[metric] = sum_by(segments.label, sums, size) / unit / divisor
    count, cpu_ms = segments.instances / steps, segments.cpu_ns / 1e6 / steps
    time = cpu_ms + sum((values[metric] for metric in _TIMES if metric in values), np.zeros(size))
    something = (count > 0) | (time > 0)
    for each in values.values():
        something |= each > 0
    order = [row for row in np.argsort(-time, kind="stable").tolist() if something[row]]
    kept, folded = order[:TOP_RANGES], order[TOP_RANGES:]
    rows = [
        RangeSample(
            name=segments.labels[row],
            count=float(count[row]),
            cpu_ms=float(cpu_ms[row]),
            values={metric: float(each[row]) for metric, each in values.items()},
        )
        for row in kept
    ]
    if folded:
        rows.append(
            RangeSample(
                name=OTHER_RANGES,
                count=float(count[folded].sum()),
                cpu_ms=float(cpu_ms[folded].sum()),
                values={metric: float(each[folded].sum()) for metric, each in values.items()},
            )
        )
    return tuple(rows)


def kernel_samples(kernels: Mapping[str, Work], memory: Mapping[str, Work], *, steps: int) -> tuple[KernelSample, ...]:
    """The TOP_KERNELS by time and one row for the rest, with every kind of copy and memset; by time, descending."""
    by_time = sorted(kernels.items(), key=lambda item: (-item[1].gpu_ns, item[0]))
    named = [*by_time[:TOP_KERNELS], *memory.items()]
    if rest := [work for _, work in by_time[TOP_KERNELS:]]:
        named.append((OTHER_KERNELS, Work(count=sum(w.count for w in rest), gpu_ns=sum(w.gpu_ns for w in rest))))
    return tuple(
        KernelSample(name=name, count=work.count / steps, gpu_ms=work.gpu_ns / 1e6 / steps)
        for name, work in sorted(named, key=lambda item: (-item[1].gpu_ns, item[0]))
    )
