"""Whether the measured steps begin with what belongs in the warm-up: first-time work; it must not know the judge."""

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
from perfgate.metrics.steps import Steps
from perfgate.model.metric import Metric
from perfgate.model.timeline import Flags, Ints, Timeline

FEWEST_STEPS: Final = 8
"""Below this the later half of the window is too short to say what a step usually takes."""
BEYOND: Final = 1.25
"""A step with setup calls counts from this multiple of the later steps' median on."""
FAR_BEYOND: Final = 2.0
"""Steps without any count from this on, if the window begins with at least `AT_LEAST` of them.

Of the launch-bound loop of `benchmarks/host-noise`, whose pace changes by itself on an H200's host, none of the 8024 windows
of 20, 30, 50 or 100 steps of one process and block begins so; 1.6 to 2.3 % begin with a step beyond `BEYOND` and beyond
all of the later half.
"""
OUT_OF_TURN_NS: Final = 50_000_000
"""Without kernels, such a step counts from so much above the later steps' median on.

Other processes that want the CPU take its turns, many times as long as such a step.
"""
EXPLAINED: Final = 0.25
"""Share of what a step takes longer that must be its setup calls, or no work of the GPU, for these calls to count."""
AT_LEAST: Final = 3
"""A slow step or two come by chance on a busy host, and now and then they come first."""
SPARED: Final = 8
"""Of so many later steps one may be longer than a step that loads code: an evaluation, a checkpoint, a stall."""
MOST_LOADING: Final = 0.25
"""Share of the steps that load code up to which that is no part of a step's own work."""
HARMFUL: Final = 0.02
"""Share of the measured time that first-time work in the later half must take up: the budget of a step."""

SETUP_CALLS: Final = re.compile(
    r"cu(?:da)?(?:Module|Library)Load\w*"
    r"|cuda(?:Malloc|HostAlloc|GraphInstantiate)(?!\w*Async)\w*"
    r"|cu(?:MemAlloc|MemHostAlloc|MemCreate|GraphInstantiate|LinkComplete)(?!\w*Async)\w*"
)
"""Calls that load code, take memory or make a graph: compiling, autotuning and the growth of a cache end in them."""
_TAKES_MEMORY: Final = re.compile(r"cuda(?:Malloc|HostAlloc)|cuMem")


def unsettled(process: Process) -> str | None:
    """Say which steps hold first-time work, or None where none is shown to: first of those of the first half.

    Such a step takes longer than every step of the later half, and either than `BEYOND` times their median, while the
    process makes more setup calls in it than in any of those, or than `FAR_BEYOND` times, as all counted ones before
    it, `AT_LEAST` in all and a quarter of the window or that many at most (never in an interleaved duet), where
    `EXPLAINED` of what it takes longer is due neither to longer kernels nor to more of them: larger batches may come
    first. Kernel time alone also shows a step of the first kind: an autotuner's kernels run beside others. Where a step
    loads code, makes graphs or links more than any of the later half, lasts `FAR_BEYOND` times their median, and is no
    larger batch either, one of `SPARED` of these may be as long.

    A longer batch takes memory as well. So a step whose setup calls are more by those for memory alone counts only if
    `EXPLAINED` of what it takes longer than the later median is the time of these calls, or due neither to longer
    kernels nor to more of them (a launch that loads code); or if it runs more operations than every step of the later
    half, and than `FAR_BEYOND` times their median (an autotuner's trials).

    Where a window is short, first-time work may fill more than half of it: PyTorch compiles a function anew up to 8
    times. So `AT_LEAST` steps before the last quarter that load code, make graphs or link, each with more such calls
    than any step of that quarter, count as well, from `FAR_BEYOND` times its median on. And where none of all this is,
    a compilation that comes late, as `_anywhere` finds it.
    """
    steps, totals = process.steps, process.totals
    half = len(steps) // 2
    counted = process.kept
    period = np.where(counted, np.diff(process.done, prepend=0), 0).astype(np.float64)
    later = period[half:][counted[half:]]
    if steps.whole or len(steps) < FEWEST_STEPS or not len(later):
        return None
    kernel_ns = process.by_step(totals.by_segment[Metric.KERNEL_MS])
    busy_ns = process.by_turn(
        totals.by_segment[Metric.KERNEL_MS] + totals.by_segment[Metric.NCCL_MS]
    )
    operations = process.by_turn(totals.operations)
    typical = float(np.median(later))
    by_kernels = _beyond(
        kernel_ns[:half].astype(np.float64), kernel_ns[half:].astype(np.float64), BEYOND
    )
    setup = _setup_calls(process.timeline, steps)
    made, others = setup.made, setup.beside_memory
    excess = period[:half] - typical
    longer = busy_ns[:half] - float(np.median(busy_ns[half:]))
    more = operations[:half] / max(float(np.median(operations[half:])), 1.0) - 1
    unexplained = excess - np.maximum(longer, more * typical)
    is_due = np.maximum(setup.lasted[:half], unexplained) >= EXPLAINED * excess
    more_code = others[:half] > others[half:].max()
    loading = more_code & _beyond(period[:half], later, FAR_BEYOND, sparing=True) & is_due
    slow = _beyond(period[:half], later, BEYOND) | loading
    suspects = slow | by_kernels
    if not suspects.any():
        return _scattered(process, period, kernel_ns, setup)
    far = _beyond(period[:half], later, FAR_BEYOND) & (unexplained >= EXPLAINED * excess)
    if not kernel_ns.any():
        far &= period[:half] > typical + OUT_OF_TURN_NS
    leading = np.logical_and.accumulate(far | ~counted[:half]) & counted[:half]
    # In turns with another process, steps are slow or fast by the bout; and a change of pace outlasts a start.
    leading &= (
        AT_LEAST <= leading.sum() <= max(AT_LEAST, len(steps) // 4) and not steps.resumes.any()
    )
    with_calls = (made[:half] > made[half:].max()) & suspects
    trials = _beyond(
        operations[:half].astype(np.float64), operations[half:].astype(np.float64), FAR_BEYOND
    )
    with_calls &= (slow & is_due) | trials | more_code
    with_calls |= loading
    if not (with_calls | leading).any():
        return _scattered(process, period, kernel_ns, setup)
    told = setup.calls if with_calls.any() else {}
    return _told(
        np.flatnonzero(with_calls | leading),
        period,
        kernel_ns,
        slow,
        half,
        told,
        later="later half",
    )


def _scattered(
    process: Process, period: NDArray[np.float64], kernel_ns: Ints, setup: _Setup
) -> str | None:
    """Say which steps load code where the first half shows none: most of the window, or a few anywhere in it."""
    return _filled(process, period, kernel_ns, setup) or _anywhere(
        process, period, kernel_ns, setup
    )


def _anywhere(
    process: Process, period: NDArray[np.float64], kernel_ns: Ints, setup: _Setup
) -> str | None:
    """Say which steps load code and last `FAR_BEYOND` times the median of all, and take up `HARMFUL` of the window.

    None where more than `MOST_LOADING` of all load code.

    What a stall takes is no compilation because code is loaded as well: either these calls take the time, or it is
    more than other processes take by their turns. And what the last quarter does again is the loop's own.
    """
    counted = process.kept
    typical = float(np.median(period[counted]))
    others = setup.beside_memory
    excess = period - typical
    longer = kernel_ns - float(np.median(kernel_ns))
    compiling = (setup.lasted >= EXPLAINED * excess) | (
        (excess - longer >= EXPLAINED * excess) & (excess > OUT_OF_TURN_NS)
    )
    slow = counted & (others > 0) & (period > FAR_BEYOND * typical) & compiling
    last = len(period) - len(period) // 4
    recurs = bool((others[:last] > 0).any() and (others[last:] > 0).any())
    if recurs or (others > 0).sum() > MOST_LOADING * len(period):
        return None
    if excess[slow].sum() < HARMFUL * period[counted].sum() or not slow.any():
        return None
    return _told(
        np.flatnonzero(slow), period, kernel_ns, slow, 0, setup.calls, later="median of all"
    )


def _filled(
    process: Process, period: NDArray[np.float64], kernel_ns: Ints, setup: _Setup
) -> str | None:
    """Say which steps before the last quarter load code, if they are `AT_LEAST`."""
    start = len(period) - len(period) // 4
    counted = process.kept
    later = period[start:][counted[start:]]
    if not len(later):
        return None
    slow = _beyond(period[:start], later, FAR_BEYOND) & counted[:start]
    slow &= setup.beside_memory[:start] > setup.beside_memory[start:].max()
    if slow.sum() < AT_LEAST:
        return None
    return _told(
        np.flatnonzero(slow), period, kernel_ns, slow, start, setup.calls, later="last quarter"
    )


def _beyond(
    first: NDArray[np.float64], later: NDArray[np.float64], factor: float, *, sparing: bool = False
) -> Flags:
    """Which are longer than each of the later ones, and than so many times their median; but for `SPARED` of them."""
    spared = len(later) // SPARED if sparing else 0
    longest = float(np.sort(later)[len(later) - 1 - spared])
    return np.asarray(first > max(longest, factor * float(np.median(later))), np.bool_)


@dataclass(frozen=True, kw_only=True)
class _Setup:
    """The setup calls of each step, on whichever thread of the process."""

    calls: Mapping[int, Counter[str]]
    """By name."""
    lasted: Ints
    """Their time, ns."""
    made: Ints
    """How many."""
    beside_memory: Ints
    """How many that do not take memory."""


def _setup_calls(timeline: Timeline, steps: Steps) -> _Setup:
    """Those begun in each step, or between it and the one before: both are in the period that its completion ends."""
    found: defaultdict[int, Counter[str]] = defaultdict(Counter)
    calls = timeline.calls
    keys = {
        key: base
        for key, name in timeline.names.items()
        if SETUP_CALLS.fullmatch(base := base_name(name))
    }
    rows = np.flatnonzero(np.isin(calls.name, list(keys)) & (calls.process == steps.process))
    begun = calls.start[rows]
    index = np.searchsorted(steps.ends, begun, side="right")
    inside = (index < len(steps)) & (begun >= steps.starts[0])
    # What is called while another process has its turn lengthens no period.
    nearest = np.minimum(index, len(steps) - 1)
    inside &= (begun >= steps.starts[nearest]) | ~steps.resumes[nearest]
    for step, key in zip(index[inside].tolist(), calls.name[rows][inside].tolist(), strict=True):
        found[step][keys[key]] += 1
    takes_memory = np.isin(
        calls.name[rows], [key for key, base in keys.items() if _TAKES_MEMORY.match(base)]
    )
    return _Setup(
        calls=found,
        lasted=sum_by(index[inside], (calls.end - calls.start)[rows][inside], len(steps)),
        made=np.bincount(index[inside], minlength=len(steps)),
        beside_memory=np.bincount(index[inside & ~takes_memory], minlength=len(steps)),
    )


def _told(
    which: Ints,
    period: NDArray[np.float64],
    kernel_ns: Ints,
    slow: Flags,
    start: int,
    calls: Mapping[int, Counter[str]],
    *,
    later: str,
) -> str:
    """What those steps took, beside those from `start` on, which are called `later`."""
    numbers = which.tolist()
    of_period = bool(slow[which].any())
    values, what = (period, "took") if of_period else (kernel_ns, "ran kernels for")
    usually = values[start:][values[start:] > 0]
    longest, usual = (
        float(values[which].max()) / 1e6,
        float(np.median(usually)) / 1e6 if len(usually) else 0.0,
    )
    named = ", ".join(str(number + 1) for number in numbers[:5]) + (
        ", ..." if len(numbers) > 5 else ""
    )
    made = sum((calls[number] for number in numbers), Counter[str]()) if calls else Counter[str]()
    evidence = ", ".join(
        f"{name} {count} times" if count > 1 else f"{name} once"
        for name, count in made.most_common(3)
    )
    return (
        f"step{'s' if len(numbers) > 1 else ''} {named} of the measured {len(period)} {what} up to {longest:.4g} ms, "
        f"the {later} {usual:.4g} ms"
        + (f", and called {evidence}" if evidence else "")
        + f": first-time work that belongs in the warm-up; raise warmup by at least {numbers[-1] + 1}"
    )
