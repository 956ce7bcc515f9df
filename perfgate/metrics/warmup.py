"""Whether the measured steps hold what belongs in the warm-up: first-time work; it must not know
the judge."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from perfgate.metrics.calls import base_name
from perfgate.metrics.intervals import sum_by
from perfgate.metrics.process import Process
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.timeline import Flags, Ints

FEWEST_STEPS: Final = 8
"""Below this the later half of the window is too short to say what a step usually takes."""
BEYOND: Final = 1.25
"""A step with setup calls counts from this multiple of the later steps' median on."""
FAR_BEYOND: Final = 2.0
"""Steps without any count from this on, if the window begins with at least `AT_LEAST` of them.

Of the launch-bound loop of `benchmarks/host-noise`, whose pace changes by itself on an H200's host,
none of the 8024 windows of 20, 30, 50 or 100 steps of one process and block begins so; 1.6 to 2.3 %
begin with a step beyond `BEYOND` and beyond all of the later half.
"""
OUT_OF_TURN_NS: Final = 50_000_000
"""Without kernels, such a step counts from so much above the later steps' median on.

Other processes that want the CPU take its turns, many times as long as such a step.
"""
EXPLAINED: Final = 0.25
"""Share of what a step takes longer that must be its setup calls, or no work of the GPU, for these
calls to count."""
AT_LEAST: Final = 3
"""A slow step or two come by chance on a busy host, and now and then they come first."""
SPARED: Final = 8
"""Of so many later steps one may be longer than a step that loads code: an evaluation, a
checkpoint, a stall."""
MOST_LOADING: Final = 0.25
"""Share of the steps that load code up to which that is no part of a step's own work."""
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
    neither longer kernels nor more of them.
    """
    window = _Window.of(process)
    if window is None:
        return None
    return _at_the_start(window) or _filling(window) or _anywhere(window)


@dataclass(frozen=True, kw_only=True)
class _Window:
    """The measured steps, each by what it took and did; of shape (n,)."""

    resumes: bool
    """Whether the process waits for another one between some of them."""
    counted: Flags
    period: _Times
    """ns, 0 where none counts."""
    kernel_ns: Ints
    busy_ns: Ints
    """Of kernels, NCCL's too, launched between it and the next as well."""
    operations: Ints
    calls: Mapping[int, Counter[str]]
    """Setup calls by step and name, on whichever thread; those before it count to a step."""
    calls_ns: Ints
    made: Ints
    """How many."""
    loading: Ints
    """How many that do not take memory."""

    @classmethod
    def of(cls, process: Process) -> _Window | None:
        """None where there are too few steps to say what one usually takes."""
        steps, sums, counted = process.steps, process.totals.by_segment, process.kept
        if steps.whole or len(steps) < FEWEST_STEPS or not counted[len(steps) // 2 :].any():
            return None
        step, name, lasted = _setup_calls(process)
        calls: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for one, text in zip(step.tolist(), name, strict=True):
            calls[one][text] += 1
        loads = np.array([not _TAKES_MEMORY.match(text) for text in name], np.bool_)
        return cls(
            resumes=bool(steps.resumes.any()),
            counted=counted,
            period=np.where(counted, np.diff(process.done, prepend=0), 0).astype(np.float64),
            kernel_ns=process.by_step(sums[Metric.KERNEL_MS]),
            busy_ns=process.by_turn(sums[Metric.KERNEL_MS] + sums[Metric.NCCL_MS]),
            operations=process.by_turn(process.totals.operations),
            calls=calls,
            calls_ns=sum_by(step, lasted, len(steps)),
            made=np.bincount(step, minlength=len(steps)),
            loading=np.bincount(step[loads], minlength=len(steps)),
        )

    def __len__(self) -> int:
        return len(self.period)

    def note(self, which: Flags, slow: Flags, start: int, *, with_calls: bool = True) -> Note:
        """What those steps took, next to those from `start` on."""
        numbers = np.flatnonzero(which)
        values = self.period if slow[numbers].any() else self.kernel_ns
        usual = values[start:][values[start:] > 0]
        calls = sum((self.calls.get(one, Counter()) for one in numbers.tolist()), Counter[str]())
        named = tuple(f"{name} ({count})" for name, count in calls.most_common(3))
        with_calls = with_calls and bool(named)
        return note(
            "first-time-calls" if with_calls else "first-time-work",
            Severity.INVALID,
            slow=len(numbers),
            steps=len(self),
            last=int(numbers[-1]) + 1,
            longest_ms=float(values[numbers].max()) / 1e6,
            usual_ms=float(np.median(usual)) / 1e6 if len(usual) else 0.0,
            calls=named if with_calls else (),
        )


def _setup_calls(process: Process) -> tuple[Ints, list[str], Ints]:
    """Step, name and length of those begun in each step, or between it and the one before: both are
    in the period that its completion ends."""
    steps, calls = process.steps, process.timeline.calls
    keys = {
        key: base
        for key, name in process.timeline.names.items()
        if SETUP_CALLS.fullmatch(base := base_name(name))
    }
    rows = np.flatnonzero(np.isin(calls.name, list(keys)) & (calls.process == steps.process))
    begun = calls.start[rows]
    index = np.searchsorted(steps.ends, begun, side="right")
    inside = (index < len(steps)) & (begun >= steps.starts[0])
    # What is called while another process has its turn lengthens no period.
    nearest = np.minimum(index, len(steps) - 1)
    inside &= (begun >= steps.starts[nearest]) | ~steps.resumes[nearest]
    rows = rows[inside]
    names = [keys[key] for key in calls.name[rows].tolist()]
    return index[inside], names, (calls.end - calls.start)[rows]


def _at_the_start(window: _Window) -> Note | None:
    """Of the first half, held against the later one.

    - Slow with more setup calls than any later step; those for memory alone count only if
      `EXPLAINED` of the excess is these calls, or no work of the GPU, or if the step runs far more
      operations than any later one (an autotuner's trials).
    - Kernel time alone also shows such a step: an autotuner's kernels run next to others.
    - The first steps, `AT_LEAST` and a quarter of the window at most, all `FAR_BEYOND`; never where
      two processes take turns, since a change of pace outlasts a start.
    """
    half = len(window) // 2
    period, counted = window.period[:half], window.counted[:half]
    later = window.period[half:][window.counted[half:]]
    typical = float(np.median(later))
    excess = period - typical
    longer = window.busy_ns[:half] - float(np.median(window.busy_ns[half:]))
    operations = window.operations.astype(np.float64)
    more = operations[:half] / max(float(np.median(operations[half:])), 1.0) - 1
    unexplained = excess - np.maximum(longer, more * typical)
    is_due = np.maximum(window.calls_ns[:half], unexplained) >= EXPLAINED * excess
    more_code = window.loading[:half] > window.loading[half:].max()
    loading = more_code & _beyond(period, later, FAR_BEYOND, sparing=True) & is_due
    slow = _beyond(period, later, BEYOND) | loading
    kernel_ns = window.kernel_ns.astype(np.float64)
    suspects = slow | _beyond(kernel_ns[:half], kernel_ns[half:], BEYOND)
    far = _beyond(period, later, FAR_BEYOND) & (unexplained >= EXPLAINED * excess)
    if not kernel_ns.any():
        far &= period > typical + OUT_OF_TURN_NS
    leading = np.logical_and.accumulate(far | ~counted) & counted
    most = max(AT_LEAST, len(window) // 4)
    leading &= AT_LEAST <= leading.sum() <= most and not window.resumes
    trials = _beyond(operations[:half], operations[half:], FAR_BEYOND)
    with_calls = (window.made[:half] > window.made[half:].max()) & suspects
    with_calls &= (slow & is_due) | trials | more_code
    with_calls |= loading
    which = with_calls | leading
    if not suspects.any() or not which.any():
        return None
    return window.note(which, slow, half, with_calls=bool(with_calls.any()))


def _filling(window: _Window) -> Note | None:
    """`AT_LEAST` steps before the last quarter that load more code than any of that quarter.

    Where a window is short, first-time work may fill more than half of it: PyTorch compiles a
    function anew up to 8 times.
    """
    start = len(window) - len(window) // 4
    later = window.period[start:][window.counted[start:]]
    if not len(later):
        return None
    slow = _beyond(window.period[:start], later, FAR_BEYOND) & window.counted[:start]
    slow &= window.loading[:start] > window.loading[start:].max()
    return window.note(slow, slow, start) if slow.sum() >= AT_LEAST else None


def _anywhere(window: _Window) -> Note | None:
    """Steps that load code and last `FAR_BEYOND` the median, and take up `HARMFUL` of the window.

    What a stall takes is no compilation because code is loaded as well: either these calls take the
    time, or it is more than other processes take by their turns. And what the last quarter does
    again, or more than `MOST_LOADING` of all do, is the loop's own.
    """
    period, loads = window.period, window.loading > 0
    typical = float(np.median(period[window.counted]))
    excess = period - typical
    longer = window.kernel_ns - float(np.median(window.kernel_ns))
    compiling = (excess - longer >= EXPLAINED * excess) & (excess > OUT_OF_TURN_NS)
    compiling |= window.calls_ns >= EXPLAINED * excess
    slow = window.counted & loads & (period > FAR_BEYOND * typical) & compiling
    last = len(period) - len(period) // 4
    recurs = bool(loads[:last].any() and loads[last:].any())
    if recurs or loads.sum() > MOST_LOADING * len(period) or not slow.any():
        return None
    if excess[slow].sum() < HARMFUL * period[window.counted].sum():
        return None
    return window.note(slow, slow, 0)


def _beyond(first: _Times, later: _Times, factor: float, *, sparing: bool = False) -> Flags:
    """Which are longer than each of the later ones, but for `SPARED` of them, and than so many
    times their median."""
    spared = len(later) // SPARED if sparing else 0
    longest = float(np.sort(later)[len(later) - 1 - spared])
    return np.asarray(first > max(longest, factor * float(np.median(later))), np.bool_)
