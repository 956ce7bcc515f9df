"""One process of a capture, ready to be measured: its steps, what was added up in them, and when
they were complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from perfgate.metrics.attribution import Segments, cut
from perfgate.metrics.intervals import Windows, sum_by
from perfgate.metrics.steps import StepSpans
from perfgate.metrics.tally import Tally, tally
from perfgate.model.arrays import distinct
from perfgate.model.timeline import Flags, Ints, SmallInts, Spans, Timeline

STRAY: Final = 0.05
"""Share of the steps up to which what they run on a device is no use of it."""
MIN_STEPS: Final = 3
"""Below this no period is left once the first is dropped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """What all metrics, reasons and notes of one process are made of."""

    timeline: Timeline
    pid: int
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
    gpus: int
    """Over how many devices waiting is a mean: those in use, 1 where there is none."""
    periods: Ints
    """The periods that count, ns, in their order; none of a whole window."""
    nvtx_step_ms: float | None
    """Median CPU duration of the step range; None of a whole window."""

    @classmethod
    def of(cls, timeline: Timeline, steps: StepSpans) -> Process:
        """Attribute what the process did to its steps, and add it up.

        A period ends with each step but the first, and with none that follows a wait; nor with the
        last one where most steps are measured until the next begins, as work in flight is: none
        cuts it short. Periods count from the first two steps on that are not complete at once: what
        outlasts the first ones makes the next ones short.
        ```
        range      |--0--|       |--1--|
        kernel        |---k0---|     |------k1------|
        complete               ^                    ^
        ```
        """
        segments = cut(timeline.ranges, steps)
        totals = tally(timeline, steps.process, segments)
        done, inside = steps.ends.copy(), segments.step >= 0
        np.maximum.at(done, segments.step[inside], totals.last_end[inside])
        done = np.maximum.accumulate(done)
        kept = ~steps.resumes
        alone = np.diff(done) > 0
        kept[: 2 + int(np.argmax(np.append(alone[1:] & alone[:-1], True)))] = False
        cut_short = steps.range_ends[:-1] > steps.ends[:-1]
        if len(steps) > MIN_STEPS and 2 * int(cut_short.sum()) > len(cut_short):
            kept[-1] = False
        windows, in_use = Windows.of_periods(done, kept), totals.devices
        if len(in_use) > 1:
            in_use = _in_steady_use(steps, segments, totals)
        periods = np.diff(done)[kept[1:]]
        range_ms = float(np.median(steps.range_ends - steps.starts)) / 1e6
        if steps.waits is not None:
            # The captured window without the waits in it; nothing is left of one inside a wait.
            first, last = steps.starts, steps.ends
            begun, ended = (np.clip(times, first, last) for times in steps.waits)
            starts, ends = np.concatenate((first, ended)), np.concatenate((begun, last))
            whole_ns = float((ends - starts).sum())
            windows, periods = Windows(starts, ends, 1, whole_ns), np.empty(0, np.int64)
        return cls(
            timeline=timeline,
            pid=timeline.processes[steps.process],
            steps=steps,
            segments=segments,
            totals=totals,
            done=done,
            kept=kept,
            windows=windows,
            in_use=in_use,
            gpus=max(1, len(in_use)),
            periods=periods,
            nvtx_step_ms=None if steps.whole else range_ms,
        )

    def gpu_title(self, device: int) -> str:
        """What a GPU is called, by CUDA's number in this process."""
        return self.timeline.gpu_title(self.steps.process, device)

    def segment_of(self, ops: Spans, rows: Ints) -> SmallInts:
        """The segments in which some of its operations were launched; where no call did that, in
        which they began."""
        calls = self.totals.calls
        segment = calls.segment_at(calls.place(ops.correlation[rows]))
        segment[ops.managed(rows)] = -1
        alone = segment < 0
        segment[alone] = self.segments.at(ops.start[rows[alone]])
        return segment

    def by_step(self, by_segment: Ints, *, or_behind: bool = True) -> Ints:
        """Sums by segment as sums by step; with or without what was launched between it and the
        next."""
        of = self.segments.turn if or_behind else self.segments.step
        inside = of >= 0
        return sum_by(of[inside], by_segment[inside], len(self.steps))


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
