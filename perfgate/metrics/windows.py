"""When steps were complete, and over which times periods and gaps are taken; it must not know the
metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from perfgate.metrics.attribution import Segments
from perfgate.metrics.intervals import Idle, max_by
from perfgate.metrics.steps import StepSpans
from perfgate.metrics.tally import Tally
from perfgate.model.note import Note, note
from perfgate.model.timeline import Flags, Ints

MIN_STEPS = 3
"""Below this no period is left once the first is dropped."""
LONGEST_COUNTED: Final = 1.2
"""Medians of the periods beyond which a period counts as that long and no longer.

With 1 % of stalls in 50 steps the mean then has an SD of 0.43 % (capped at three medians 2.7, the
median 0.35), and +6 % in a third of the steps reads +2.0 (in the median +0.7).
"""


@dataclass(frozen=True, slots=True)
class Windows:
    """The times that gaps are taken over, disjoint and in order, and how many steps they are.

    ```
    range      |--0--| |--1--| |--2--| |--3--|               |--4--| |--5--|
    wait                                       |---wait---|
    complete         ^       ^       ^       ^                     ^       ^
    window                   |---------------|                     |-------|      1-2, 2-3, 4-5
    ```
    """

    starts: Ints
    ends: Ints
    periods: int
    steps: float
    """Their length in steps of `step_ms`: more than they hold where some are longer than is
    counted."""

    @classmethod
    def of_whole(cls, steps: StepSpans) -> Windows:
        """The captured window without the waits in it; nothing is left of one inside a wait."""
        first, last = steps.starts, steps.ends
        begun, ended = (np.clip(times, first, last) for times in steps.waits)
        return cls(np.concatenate((first, ended)), np.concatenate((begun, last)), 1, 1.0)

    @classmethod
    def of_periods(cls, done: Ints, kept: Flags) -> Windows | None:
        """Periods kept, by the step that ends each, joined where they follow one another; None if
        there is none."""
        if not kept.any():
            return None
        opens = np.flatnonzero(kept[1:] & ~kept[:-1])
        closes = np.flatnonzero(kept & ~np.append(kept[1:], False))
        periods = np.diff(done)[kept[1:]]
        number, step = len(periods), capped_mean(periods)
        return cls(
            done[opens],
            done[closes],
            number,
            float(periods.sum()) / step if step > 0 else float(number),
        )

    @property
    def ns(self) -> int:
        """Their length together."""
        return int((self.ends - self.starts).sum())

    def idle_ns(self, idle: Idle) -> int:
        """How much of them is idle."""
        return int(self.until(self.ends[-1:], idle)[0])

    def by_segment(self, segments: Segments, idle: Idle | None = None) -> Ints:
        """How much of them, or of the idle time in them, lies in each segment, ns."""
        return segments.passed(
            lambda times: self.until(times, idle), self.starts[:1], self.ends[-1:]
        )

    def within(self, begins: Ints, ends: Ints) -> Ints:
        """How much of each interval lies in the windows, ns."""
        return np.asarray(self.until(ends) - self.until(begins), np.int64)

    def until(self, times: Ints, idle: Idle | None = None) -> Ints:
        """How much of the windows, or of the idle time in them, lies before each time, ns."""

        def passed(moments: Ints) -> Ints:
            return moments if idle is None else idle.until(moments)

        index = np.maximum(np.searchsorted(self.starts, times, side="right") - 1, 0)
        opened = passed(self.starts)
        before = np.append(0, np.cumsum(passed(self.ends) - opened))
        clipped = np.clip(times, self.starts[index], self.ends[index])
        return np.asarray(before[index] + passed(clipped) - opened[index], np.int64)


def completions(steps: StepSpans, segments: Segments, totals: Tally) -> Ints:
    """When each step was complete.

    ```
    range      |--0--|       |--1--|
    kernel        |---k0---|     |------k1------|
    complete               ^                    ^
    ```
    """
    return np.maximum.accumulate(np.maximum(steps.ends, last_ends(steps, segments, totals)))


def last_ends(steps: StepSpans, segments: Segments, totals: Tally) -> Ints:
    """When the last GPU operation of each step ended; `-FOREVER` where there is none."""
    inside = segments.step >= 0
    return max_by(segments.step[inside], totals.last_end[inside], len(steps))


def end_periods(steps: StepSpans) -> Flags:
    """Which steps end a period that counts: not the first one, and none across a wait.

    Nor the last one where most steps are measured until the next begins, as work in flight is: none
    cuts it short.
    """
    kept = ~steps.resumes
    kept[:2] = False
    cut_short = steps.range_ends[:-1] > steps.ends[:-1]
    if len(steps) > MIN_STEPS and 2 * int(cut_short.sum()) > len(cut_short):
        kept[-1] = False
    return kept


def capped_mean(periods: Ints) -> float:
    """Return the mean of periods, each counted up to `LONGEST_COUNTED` medians; 0 where most take
    no time."""
    return float(np.mean(np.minimum(periods, LONGEST_COUNTED * np.median(periods))))


def counted_periods(done: Ints, kept: Flags) -> Flags:
    """Which steps end a period that is counted whole: what a step is taken apart over."""
    periods = np.append(0, np.diff(done))
    return np.asarray(
        kept & (periods <= LONGEST_COUNTED * np.median(periods[kept])) if kept.any() else kept
    )


def no_period(steps: StepSpans) -> Note:
    """Of steps of which none ends a period that counts."""
    return note("no-period", steps=len(steps), blocks=1 + int(steps.resumes.sum()))
