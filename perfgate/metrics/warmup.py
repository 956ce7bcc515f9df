"""Whether the measured steps hold what belongs in the warm-up: first-time work; it must not know
the judge."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from perfgate.metrics.calls import base_name
from perfgate.metrics.intervals import sum_by
from perfgate.metrics.process import Process
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.timeline import Flags

FEWEST_STEPS: Final = 8
"""Below this the later half of the window is too short to say what a step usually takes."""
BEYOND: Final = 1.25
"""A step with setup calls counts from this multiple of the later steps' median on."""
FAR_BEYOND: Final = 2.0
"""Steps without any count from this on, if the window begins with at least `AT_LEAST` of them.

Of the launch-bound loop of `benchmarks/host-noise`, whose pace changes by itself on an H200's host,
none of the 8024 windows of 20, 30, 50 or 100 steps of one process and block begins so; 1.6 to 2.3 %
begin with a step beyond `BEYOND` and beyond all of the later half. Of some hundred windows of
`benchmarks/ahead` on slower hosts two did: so it takes several runs to prove it.
"""
OUT_OF_TURN_NS: Final = 50_000_000
"""What a step may take longer because other processes want the CPU, which take its turns."""
EXPLAINED: Final = 0.25
"""Share of what a step takes longer that must be its setup calls, or no work of the GPU, for these
calls to count."""
AT_LEAST: Final = 3
"""A slow step or two come by chance on a busy host, and now and then they come first."""
HARMFUL: Final = 0.02
"""Share of the measured time that first-time work in the later half must take up: the budget of a
step."""

SETUP_CALLS: Final = re.compile(
    r"cu(?:da)?(?:Module|Library)Load\w*"
    r"|cuda(?:Malloc|HostAlloc|GraphInstantiate)(?!\w*Async)\w*"
    r"|cu(?:MemAlloc|MemHostAlloc|MemCreate|GraphInstantiate|LinkComplete)(?!\w*Async)\w*"
)
"""Calls that load code, take memory or make a graph: compiling, autotuning and the growth of a
cache end in them."""
_TAKES_MEMORY: Final = re.compile(r"cuda(?:Malloc|HostAlloc)|cuMem")

_Times = NDArray[np.float64]


def unsettled(process: Process) -> Note | None:
    """The steps that hold first-time work, or None where none is shown to.

    A slow step alone shows nothing: hosts stall, and larger batches may come first. It is slow with
    calls that load code, take memory or make graphs, which the later steps do not make; or the
    window begins with several that are far slower than all that follow. And what it takes longer is
    neither longer kernels nor more of them. Without calls, and for less than `OUT_OF_TURN_NS` a
    step, it is a warning: other runs must show it too.
    """
    steps, kept = process.steps, process.kept
    if steps.whole or len(steps) < FEWEST_STEPS or not kept[len(steps) // 2 :].any():
        return None
    window = _Window(process)
    start = _at_the_start(window)
    is_proven = start is not None and start.severity is Severity.INVALID
    return start if is_proven else _loading(window) or start


class _Window:
    """The measured steps, each by what it took and did; of shape (n,)."""

    def __init__(self, process: Process) -> None:
        """Setup calls are of the step in which they begin, or that follows: both are in the period
        that its completion ends."""
        timeline, steps, size = process.timeline, process.steps, len(process.steps)
        sums, calls = process.totals.by_segment, process.timeline.calls
        self.process = process
        self.period = np.where(process.kept, np.diff(process.done, prepend=0), 0).astype(np.float64)
        """ns, 0 where none counts."""
        kernel_ns = process.by_step(sums[Metric.KERNEL_MS], or_behind=False)
        self.kernel_ns = kernel_ns.astype(np.float64)
        busy_ns = process.by_step(sums[Metric.KERNEL_MS] + sums[Metric.NCCL_MS])
        self.busy_ns = busy_ns.astype(np.float64)
        """Of kernels, NCCL's too, launched between it and the next as well."""
        self.operations = process.by_step(process.totals.operations).astype(np.float64)
        setup = {
            key: bool(_TAKES_MEMORY.match(name))
            for key, name in timeline.names.items()
            if SETUP_CALLS.fullmatch(base_name(name))
        }
        rows = np.flatnonzero(np.isin(calls.name, list(setup)) & (calls.process == steps.process))
        begun = calls.start[rows]
        step = np.searchsorted(steps.ends, begun, side="right")
        inside = (step < size) & (begun >= steps.starts[0])
        # What is called while another process has its turn lengthens no period.
        nearest = np.minimum(step, size - 1)
        inside &= (begun >= steps.starts[nearest]) | ~steps.resumes[nearest]
        self.calls, self.step = rows[inside], step[inside]
        """Setup calls, as rows of `Timeline.calls`, and the step of each."""
        self.made = np.bincount(self.step, minlength=size)
        """How many."""
        loads = ~np.isin(calls.name[self.calls], [key for key, memory in setup.items() if memory])
        self.loading = np.bincount(self.step[loads], minlength=size)
        """How many of them do not take memory."""
        self.calls_ns = sum_by(self.step, calls.end[self.calls] - calls.start[self.calls], size)
        """How long they lasted."""

    def note(
        self, which: Flags, values: _Times, usual: _Times, *, code: str = "first-time-calls"
    ) -> Note:
        """What those steps took, next to what is usual, and what they called."""
        timeline, numbers = self.process.timeline, np.flatnonzero(which)
        keys = timeline.calls.name[self.calls[np.isin(self.step, numbers)]].tolist()
        made = Counter(base_name(timeline.names[key]) for key in keys)
        named = tuple(f"{name} ({count})" for name, count in made.most_common(3))
        return note(
            code,
            Severity.WARN if code == "first-steps-slow" else Severity.INVALID,
            slow=len(numbers),
            steps=len(self.period),
            last=int(numbers[-1]) + 1,
            longest_ms=float(values[numbers].max()) / 1e6,
            usual_ms=float(np.median(usual)) / 1e6 if len(usual) else 0.0,
            calls=named if code == "first-time-calls" else (),
        )


def _at_the_start(window: _Window) -> Note | None:
    """Of the first half, held against the later one.

    - Slow with more setup calls than any later step; those for memory alone count only if
      `EXPLAINED` of the excess is these calls, or no work of the GPU, or if the step runs far more
      operations than any later one (an autotuner's trials).
    - Kernel time alone also shows such a step: an autotuner's kernels run next to others.
    - The first steps, `AT_LEAST` and a quarter of the window at most, all `FAR_BEYOND`; never where
      two processes take turns, since a change of pace outlasts a start.
    """
    half, resumes = len(window.period) // 2, bool(window.process.steps.resumes.any())
    kept = window.process.kept
    period, later = window.period[:half], window.period[half:][kept[half:]]
    typical = float(np.median(later))
    excess = period - typical
    longer = window.busy_ns[:half] - np.median(window.busy_ns[half:])
    more = window.operations[:half] / max(float(np.median(window.operations[half:])), 1.0) - 1
    unexplained = excess - np.maximum(longer, more * typical)
    slow = _beyond(period, later, BEYOND)
    suspects = slow | _beyond(window.kernel_ns[:half], window.kernel_ns[half:], BEYOND)
    counts = slow & (np.maximum(window.calls_ns[:half], unexplained) >= EXPLAINED * excess)
    counts |= _beyond(window.operations[:half], window.operations[half:], FAR_BEYOND)
    counts |= window.loading[:half] > window.loading[half:].max()
    with_calls = suspects & counts & (window.made[:half] > window.made[half:].max())
    far = _beyond(period, later, FAR_BEYOND) & (unexplained >= EXPLAINED * excess)
    if not window.kernel_ns.any():
        far &= excess > OUT_OF_TURN_NS
    leading = np.logical_and.accumulate(far | ~kept[:half]) & kept[:half]
    leading &= AT_LEAST <= leading.sum() <= max(AT_LEAST, half // 2) and not resumes
    which = with_calls | leading
    if not which.any():
        return None
    values = window.period if (slow & which).any() else window.kernel_ns
    usual = values[half:][values[half:] > 0]
    if with_calls.any():
        return window.note(which, values, usual)
    is_proven = (excess[leading] > OUT_OF_TURN_NS).all()
    code = "first-time-work" if is_proven else "first-steps-slow"
    return window.note(which, values, usual, code=code)


def _loading(window: _Window) -> Note | None:
    """Steps that load code and last `FAR_BEYOND` of what those take that do not, and take up
    `HARMFUL` of the window.

    What a stall takes is no compilation because code is loaded as well: either these calls take the
    time, or it is more than other processes take by their turns. And what the last quarter does
    again is the loop's own.
    """
    kept, loads = window.process.kept, window.loading > 0
    last = len(kept) - len(kept) // 4
    usual = window.period[kept & ~loads]
    if not len(usual) or (loads[:last].any() and loads[last:].any()):
        return None
    excess = window.period - np.median(usual)
    longer = window.kernel_ns - np.median(window.kernel_ns)
    compiling = (excess - longer >= EXPLAINED * excess) & (excess > OUT_OF_TURN_NS)
    compiling |= window.calls_ns >= EXPLAINED * excess
    slow = kept & loads & compiling & (window.period > FAR_BEYOND * np.median(usual))
    if excess[slow].sum() < HARMFUL * window.period.sum() or not slow.any():
        return None
    return window.note(slow, window.period, usual)


def _beyond(first: _Times, later: _Times, factor: float) -> Flags:
    """Which are longer than each of the later ones, and than so many times their median."""
    return np.asarray(first > max(float(later.max()), factor * float(np.median(later))), np.bool_)
