"""Samples of drawn timelines, for tests of the metrics room, and pictures that several of them
measure."""

from __future__ import annotations

from collections.abc import Sequence

from support.timelines import Call, Op, Range, build

from perfgate.metrics.measure import measure
from perfgate.model.metric import Metric
from perfgate.model.note import Severity
from perfgate.model.sample import ProcessSample
from perfgate.model.timeline import Timeline

SYNCHRONOUS = """
    range   |---step---|  |---step---|  |---step---|  |---step---|
    launch   ^a            ^b            ^c            ^d
    kernel    |--a--|       |--b--|       |--c--|       |--d--|
"""
"""The CPU waits for the GPU in each step."""
GRAPH_MODE = """
        range   |----step----|  |----step----|  |----step----|
        launch     ^g              ^h              ^i
        graph       |---g---|       |---h---|       |---i---|
        """
"""A CUDA graph in each step, traced whole."""
NODE_MODE = """
        range   |----step----|  |----step----|  |----step----|
        launch     ^g              ^h              ^i
        node        |-g-|-g-|       |-h-|-h-|       |-i-|-i-|
        """
"""And traced by its nodes."""


def only(timeline: Timeline, step: str | None = "step") -> ProcessSample:
    """The sample of the one process with steps."""
    (sample,) = measure(timeline, step=step)
    return sample


def of_range(sample: ProcessSample, name: str, metric: Metric) -> float:
    """What falls to one range."""
    return next(row.values[metric] for row in sample.ranges if row.name == name)


def copied(
    held: int,
    *,
    name: str = "cudaMemcpyAsync_v3020",
    empty: Sequence[int] = (),
) -> Timeline:
    """40 steps with one copying call each, of which the capture holds the copies of the first
    ones.

    In each step so many calls more are `empty`: they leave no copy.
    """
    calls = 40
    spare = [
        (t * 100 + 10 + 2 * n, 2001 + 100 * t + n)
        for t, number in enumerate(empty)
        for n in range(number)
    ]
    return build(
        ranges=[Range(start=t * 100, end=t * 100 + 90) for t in range(calls)],
        calls=[
            *(
                Call(start=t * 100 + 5, end=t * 100 + 6, correlation=t + 1, name=name)
                for t in range(calls)
            ),
            *(Call(start=t * 100 + 8, end=t * 100 + 9, correlation=t + 1001) for t in range(calls)),
            *(Call(start=at, end=at + 1, correlation=one, name=name) for at, one in spare),
        ],
        copies=[Op(start=t * 100 + 10, end=t * 100 + 30, correlation=t + 1) for t in range(held)],
        kernels=[
            Op(start=t * 100 + 40, end=t * 100 + 60, correlation=t + 1001) for t in range(calls)
        ],
    )


def codes(sample: ProcessSample, severity: Severity | None = None) -> list[str]:
    """The codes of a sample's notes, of one severity or all."""
    return [one.code for one in sample.notes if severity in (None, one.severity)]
