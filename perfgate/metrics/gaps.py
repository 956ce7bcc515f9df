"""To which moments of a process its time, or the idle time of a device, belongs; it must not know
what they cost."""

from __future__ import annotations

import numpy as np

from perfgate.metrics.attribution import Segments
from perfgate.metrics.intervals import Idle
from perfgate.metrics.queued import Queued
from perfgate.metrics.windows import Windows
from perfgate.model.arrays import parts
from perfgate.model.timeline import Ints


def gaps_by_segment(segments: Segments, idle: Idle, windows: Windows, queued: Queued) -> Ints:
    """A device's idle ns in the windows: under the launch of what was queued already, else where
    the CPU was."""
    own = idle.only(~queued.flags)
    by_time = segments.passed(
        lambda times: windows.until(times, own), windows.starts[:1], windows.ends[-1:]
    )
    begins, ends, at = idle.starts[queued.flags], idle.ends[queued.flags], queued.segment
    for part in parts(len(at)):
        np.add.at(by_time, at[part], windows.within(begins[part], ends[part]))
    return by_time


def time_by_segment(segments: Segments, windows: Windows) -> Ints:
    """The ns of each segment that lie in the windows: what the innermost ranges of steps without a
    GPU took."""
    return segments.passed(windows.until, windows.starts[:1], windows.ends[-1:])
