"""One process of a capture, ready to be measured: its steps, what was added up in them, and when
they were complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from perfgate.metrics.attribution import Segments, cut
from perfgate.metrics.intervals import sum_by
from perfgate.metrics.steps import StepSpans
from perfgate.metrics.tally import Tally, tally
from perfgate.metrics.windows import Windows, completions, counted_periods, end_periods
from perfgate.model.arrays import distinct
from perfgate.model.timeline import (
    MANAGED_COPIES,
    Copies,
    Flags,
    Ints,
    SmallInts,
    Spans,
    Timeline,
)

STRAY: Final = 0.05
"""Share of the steps up to which what they run on a device is no use of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """What all metrics, reasons and notes of one process are made of."""

    timeline: Timeline
    steps: StepSpans
    segments: Segments
    totals: Tally
    done: Ints
    """When each step was complete, shape (n,)."""
    kept: Flags
    """Which steps end a period that counts, shape (n,)."""
    windows: Windows | None
    """What gaps are taken over; None where there is no period."""
    in_use: tuple[int, ...]
    """The devices whose idle time counts, in order."""

    @classmethod
    def of(cls, timeline: Timeline, steps: StepSpans) -> Process:
        """Attribute what the process did to its steps, and add it up."""
        segments = cut(timeline.ranges, steps)
        totals = tally(timeline, steps.process, segments)
        done, kept = completions(steps, segments, totals), end_periods(steps)
        return cls(
            timeline=timeline,
            steps=steps,
            segments=segments,
            totals=totals,
            done=done,
            kept=kept,
            windows=Windows.of_whole(steps) if steps.whole else Windows.of_periods(done, kept),
            in_use=_in_steady_use(steps, segments, totals),
        )

    @property
    def pid(self) -> int:
        return self.timeline.processes[self.steps.process]

    def gpu_title(self, device: int) -> str:
        """What a GPU is called, by CUDA's number in this process."""
        return self.timeline.gpu_title(self.steps.process, device)

    @property
    def gpus(self) -> int:
        """Over how many devices waiting is a mean: those in use, 1 where there is none."""
        return max(1, len(self.in_use))

    @property
    def typical(self) -> Windows | None:
        """What a step is taken apart over; None of a whole window, or where there is no period."""
        return (
            None
            if self.steps.whole
            else Windows.of_periods(self.done, counted_periods(self.done, self.kept))
        )

    @property
    def periods_ms(self) -> NDArray[np.float64]:
        """The periods that count, in their order; none of a whole window."""
        return np.asarray(self.periods_ns / 1e6, np.float64)

    @property
    def periods_ns(self) -> Ints:
        """The same in ns."""
        return np.empty(0, np.int64) if self.steps.whole else np.diff(self.done)[self.kept[1:]]

    @property
    def nvtx_step_ms(self) -> float | None:
        """Median CPU duration of the step range; None of a whole window."""
        steps = self.steps
        return None if steps.whole else float(np.median(steps.range_ends - steps.starts)) / 1e6

    def segment_of(self, ops: Spans, rows: Ints) -> SmallInts:
        """The segments in which some of its operations were launched; where no call did that, in
        which they began."""
        launches = self.totals.launches
        segment = launches.segment_at(launches.place(ops.correlation[rows]))
        if isinstance(ops, Copies):
            segment[np.isin(ops.kind[rows], MANAGED_COPIES)] = -1
        alone = segment < 0
        segment[alone] = self.segments.at(ops.start[rows[alone]])
        return segment

    def by_turn(self, by_segment: Ints) -> Ints:
        """Sums by segment as sums by step, with what was launched between it and the next."""
        inside = self.segments.in_turn
        return sum_by(self.segments.turn[inside], by_segment[inside], len(self.steps))

    def by_step(self, by_segment: Ints) -> Ints:
        """Sums by segment as sums by step, without what was launched between two of them."""
        inside = self.segments.step >= 0
        return sum_by(self.segments.step[inside], by_segment[inside], len(self.steps))


def _in_steady_use(steps: StepSpans, segments: Segments, totals: Tally) -> tuple[int, ...]:
    """The devices that more than `STRAY` of the steps use, in order, or all.

    One operation a window on another device, an allocation or a metric's sum, does not make all of
    its time idle.
    """
    steady = []
    for device in totals.devices:
        used = np.zeros(len(segments), np.bool_)
        for group in totals.groups:
            if group.device == device:
                used[group.segment] = True
        if len(distinct(segments.turn[used])) > STRAY * len(steps):
            steady.append(device)
    return tuple(steady) or totals.devices
