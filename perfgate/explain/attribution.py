"""Takes apart what moved, by range, kernel, kind of copy and call; it adds nothing of its own and
judges nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from perfgate.explain.breakdown import ReadableBreakdown
from perfgate.explain.names import apart, identity, short, unnumbered
from perfgate.explain.processes import told_pair
from perfgate.explain.traces import NOTHING, graph_trace, graphs_unlike, has_calls, is_all_in_graphs
from perfgate.explain.untold import (
    by_identity,
    has_ranges,
    kernels_of,
    smallest_kernel,
    smallest_range,
    summed,
    untold_gains,
)
from perfgate.model.metric import EXPOSED, METRICS, PERIODS, Kind, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import (
    MEMSETS,
    OTHER_KERNELS,
    OTHER_RANGES,
    OTHER_SYNCS,
    WHOLE_GRAPHS,
    Breakdown,
    CopySample,
    KernelSample,
)
from perfgate.model.settings import GraphTrace
from perfgate.model.verdict import Attribution, Axis, MetricVerdict, Part

NEW: Final = "new"
PERHAPS_NEW: Final = "not among the baseline's largest"
GONE: Final = "gone"
PERHAPS_GONE: Final = "not among the largest now"
PERHAPS_HIDDEN: Final = "perhaps in a graph"
"""Of what a side does not show whose graphs were traced whole: what they hold has no name there."""
IN_GRAPHS: Final = "run by CUDA graphs {when}"
MANY_TIMES: Final = 9.0
"""A kernel that takes longer by so many times is told by the factor, and not in per cent."""

_COPIED: Final[
    Mapping[Metric, tuple[Callable[[CopySample], bool], Callable[[CopySample], float]]]
] = {
    Metric.H2D_MS: (lambda row: "Host-to-Device" in row.direction, lambda row: row.gpu_ms),
    Metric.H2D_COPIES: (lambda row: row.direction == "Host-to-Device", lambda row: row.count),
    Metric.H2D_BYTES: (lambda row: row.direction == "Host-to-Device", lambda row: row.bytes),
    Metric.D2H_COPIES: (lambda row: row.direction == "Device-to-Host", lambda row: row.count),
    Metric.PAGEABLE_COPIES: (lambda row: row.host == "pageable", lambda row: row.count),
    Metric.MEM_EXPOSED_MS: (
        lambda row: "Host-to-Device" not in row.direction,
        lambda row: row.gpu_ms,
    ),
    # Those to the GPU are told of h2d_ms.
    **dict.fromkeys(
        PERIODS, (lambda row: "Host-to-Device" not in row.direction, lambda row: row.gpu_ms)
    ),
}
"""Which copies a metric is made of, and what it takes of each."""
_WITH_MEMSETS: Final = (Metric.MEM_EXPOSED_MS, *PERIODS)
_PARTS_OF_STEP: Final = (Metric.KERNEL_MS, Metric.GAP_MS, *EXPOSED)


@dataclass(frozen=True, kw_only=True)
class _Sides:
    """One metric along one axis, by name: before and now; the row of all others bears `other`."""

    before: Mapping[str, float]
    now: Mapping[str, float]
    other: str
    complete: bool = True
    """Whether the baseline's rows are known to be all there were."""
    most: tuple[float, float] = (math.inf, math.inf)
    """What a name that a side does not tell has there at most: such are no larger than those that
    it tells."""


def judged_to_move(row: MetricVerdict) -> bool:
    """Whether a metric is REGRESSED or IMPROVED, or INCONCLUSIVE with a change of more than half
    its budget."""
    if row.outcome is Outcome.INCONCLUSIVE:
        return row.change is not None and row.budget is not None and row.change > row.budget / 2
    return row.outcome in (Outcome.REGRESSED, Outcome.IMPROVED)


def attributions(
    before: Breakdown,
    now: Breakdown,
    rows: Sequence[MetricVerdict],
    *,
    moved: Callable[[MetricVerdict], bool] = judged_to_move,
    named: Callable[[str], str] = short,
) -> tuple[Attribution, ...]:
    """Take apart what `moved`: per metric one attribution an axis that both sides tell of, by range
    first.

    The metrics that say most come first: losses before gains, counts before clocks, which follow
    from them, of clocks what changed most, and the step, in which all of it shows, last, unless it
    holds what no other shows. A step is no range's own: kernel time, idle time and copies that
    nothing hides, which are, stand for it; and of steps that use no GPU the ranges' own time on the
    CPU. Kernels bear the names that `named` makes of theirs. Of several processes each metric is
    told of the one that `told_pair` chooses.
    """
    found: list[Attribution] = []
    of_metric = {row.metric: row for row in rows}
    step_tells = _tells_more(of_metric, _gpus(now))
    for row in sorted(rows, key=lambda row: _weight(row, step_last=not step_tells)):
        if row.baseline is None or row.now is None or not moved(row):
            continue
        pair = told_pair(row, before, now, partial(taken_apart, rows=of_metric))
        found += [_of_process(one, *pair) for one in taken_apart(row, *pair, of_metric, named)]
    return tuple(found)


def _of_process(attribution: Attribution, before: Breakdown, now: Breakdown) -> Attribution:
    """What is told of one of several processes, with what that process itself changed by, and not
    the worst of each."""
    sides = [
        side.own.get(attribution.metric)
        for side in (before, now)
        if isinstance(side, ReadableBreakdown)
    ]
    if len(sides) < 2 or sides[0] is None or sides[1] is None:
        return attribution
    change = sides[1] - sides[0]
    rest = attribution.rest + change - attribution.change
    process = now.of if isinstance(now, ReadableBreakdown) else ""
    return attribution.model_copy(update={"change": change, "rest": rest, "process": process})


def taken_apart(
    row: MetricVerdict,
    before: Breakdown,
    now: Breakdown,
    rows: Mapping[Metric, MetricVerdict],
    named: Callable[[str], str] = str,
) -> list[Attribution]:
    """Take apart one metric that moved, between one process and itself; `rows` are those of all
    metrics."""
    of_cpu = any(Metric.STEP_MS in sample.values for sample in now.ranges)
    sources = _PARTS_OF_STEP if row.metric in PERIODS and not of_cpu else (row.metric,)
    gpus, in_step = _gpus(now), row.metric in PERIODS
    by_range = [
        part
        for source in sources
        for part in _on_each(
            _by_range(rows.get(source), before, now),
            gpus if in_step and source is Metric.KERNEL_MS else 1,
        )
    ]
    by_axis = {
        Axis.RANGE: by_range,
        Axis.KERNEL: _by_kernel(row.metric, before, now, named),
        Axis.COPY: _on_each(
            _by_copy(row.metric, before, now), gpus if row.metric in _WITH_MEMSETS else 1
        ),
        Axis.CALL: _by_call(row.metric, before, now),
    }
    return [
        _attribution(row.metric, axis, _growth(row), parts)
        for axis, parts in by_axis.items()
        if parts
    ]


def _gpus(side: Breakdown) -> int:
    """Over how many GPUs its kernels and copies are sums; 1 where that is not known."""
    return max(1, side.gpus) if isinstance(side, ReadableBreakdown) else 1


def _on_each(parts: list[Part], gpus: int) -> list[Part]:
    """Work of so many GPUs as it takes part in a step, or in a clock of waiting: in the mean."""
    return parts if gpus == 1 else [_scaled(part, gpus) for part in parts]


def _scaled(part: Part, gpus: int) -> Part:
    before = None if part.before is None else part.before / gpus
    return part.model_copy(
        update={"before": before, "now": part.now / gpus, "change": part.change / gpus}
    )


def _tells_more(rows: Mapping[Metric, MetricVerdict], gpus: int) -> bool:
    """Whether most of the step's change is in none of its parts: waits of other streams."""
    step = rows.get(Metric.STEP_MS)
    growths = {
        metric: _growth(row) for metric in _PARTS_OF_STEP if (row := rows.get(metric)) is not None
    }
    parts = [
        growth / (gpus if metric is Metric.KERNEL_MS else 1) for metric, growth in growths.items()
    ]
    return step is not None and abs(sum(parts)) * 2 < abs(_growth(step))


def _weight(row: MetricVerdict, *, step_last: bool) -> tuple[int, bool, bool, bool, float]:
    outcomes = (Outcome.REGRESSED, Outcome.INCONCLUSIVE, Outcome.IMPROVED)
    loss = outcomes.index(row.outcome) if row.outcome in outcomes else len(outcomes)
    is_clock = METRICS[row.metric].kind is Kind.CLOCK
    change = abs(row.change) if is_clock and row.change is not None else 0.0
    return loss, _growth(row) < 0, is_clock, step_last and row.metric in PERIODS, -change


def _attribution(metric: Metric, axis: Axis, whole: float, parts: Iterable[Part]) -> Attribution:
    moved = sorted(
        (part for part in parts if abs(part.change) > NOTHING), key=lambda part: -abs(part.change)
    )
    rest = whole - sum(part.change for part in moved)
    return Attribution(metric=metric, axis=axis, change=whole, parts=tuple(moved), rest=rest)


def _growth(row: MetricVerdict) -> float:
    return (row.now or 0.0) - (row.baseline or 0.0)


def _by_range(row: MetricVerdict | None, before: Breakdown, now: Breakdown) -> list[Part]:
    if row is None or row.baseline is None or row.now is None:
        return []
    metric = row.metric
    sides = [
        summed(
            (sample.name, sample.values[metric])
            for sample in side.ranges
            if metric in sample.values
        )
        for side in (before, now)
    ]
    if (
        (row.baseline and not sides[0])
        or (row.now and not sides[1])
        or not before.ranges
        or not now.ranges
    ):
        return []  # measured and never attributed: what its ranges hold is unknown, not zero
    if has_ranges(before) != has_ranges(now):
        return []
    if metric is not Metric.GAP_MS and has_calls(before) != has_calls(now):
        return []  # under the range that launched it, and under the one in which it ran, are two things
    # Rows that do not account for all of it are not all rows: an unknown one may have been small.
    whole = (
        before.own.get(metric, row.baseline)
        if isinstance(before, ReadableBreakdown)
        else row.baseline
    )
    complete = math.isclose(sum(sides[0].values()), whole, rel_tol=0.01, abs_tol=NOTHING)
    # A range without this metric is none that is new.
    silent = {sample.name: 0.0 for sample in before.ranges}
    most = (
        (smallest_range(before), smallest_range(now))
        if METRICS[metric].kind is Kind.CLOCK
        else (math.inf, math.inf)
    )
    return _parts(
        metric,
        _Sides(
            before={**silent, **sides[0]},
            now=sides[1],
            other=OTHER_RANGES,
            complete=complete,
            most=most,
        ),
    )


def _by_kernel(
    metric: Metric, before: Breakdown, now: Breakdown, named: Callable[[str], str]
) -> list[Part]:
    if metric not in (Metric.KERNEL_MS, Metric.LAUNCHES) or not before.kernels or not now.kernels:
        return []
    if graphs_unlike(before, now):
        return []
    of_metric = kernels_of if metric is Metric.KERNEL_MS else _launched
    blessed, own = of_metric(before), of_metric(now)
    if blessed is None or own is None:
        return []
    names = {identity(row.name): row.name for row in (*before.kernels, *now.kernels)}

    def value(row: KernelSample) -> float:
        return row.gpu_ms if metric is Metric.KERNEL_MS else row.count

    parts = _parts(
        metric,
        _Sides(
            before={name: value(row) for name, row in blessed.items()},
            now={name: value(row) for name, row in own.items()},
            other=OTHER_KERNELS,
            most=(smallest_kernel(blessed), smallest_kernel(own))
            if metric is Metric.KERNEL_MS
            else (math.inf, math.inf),
        ),
    )
    kernels = [part.name for part in parts if part.name != OTHER_KERNELS]
    shown = apart({name: named(unnumbered(names.get(name, name))) for name in kernels})
    return [
        part
        if part.name == OTHER_KERNELS
        else part.model_copy(
            update={
                "name": shown[part.name],
                "note": _of_kernel(
                    _unless_hidden(part.note, before, now),
                    blessed.get(part.name),
                    own.get(part.name),
                ),
            }
        )
        for part in parts
    ]


def _launched(side: Breakdown) -> dict[str, KernelSample] | None:
    """A side's kernels, NCCL's as well, with what the CPU launched of each; None where that is not
    known.

    The launch of a CUDA graph is one, and none of a kernel: `launches` counts neither it nor the
    kernels in the graph. Traced node by node these are among all others of their names, and only
    where the CPU launches none but graphs is it known which they are.
    """
    rows = [row for row in side.kernels if row.kind != "memory" and row.name != WHOLE_GRAPHS]
    if is_all_in_graphs(side):
        return by_identity(row.model_copy(update={"count": 0.0}) for row in rows)
    return None if graph_trace(side) is GraphTrace.NODE else by_identity(rows)


def _of_kernel(note: str, before: KernelSample | None, now: KernelSample | None) -> str:
    """What changed about a kernel: whether it was there, how often a step it ran, and for how long
    each time."""
    told = [note] if note else []
    if now is not None and before is not None and bool(now.count) != bool(before.count):
        return IN_GRAPHS.format(when="before" if now.count else "now")
    if now is None or before is None or not before.count or not now.count:
        launched = now or before
        return ", ".join([*told, *([] if launched is None else [f"{launched.count:.4g} a step"])])
    if not math.isclose(before.count, now.count, rel_tol=0.001):
        told.append(f"{before.count:.4g} -> {now.count:.4g} a step")
    each = now.gpu_ms / now.count / (before.gpu_ms / before.count) - 1 if before.gpu_ms else 0.0
    if each >= MANY_TIMES:
        told.append(f"each {each + 1:.3g} times as long")
    elif abs(each) >= 0.001:
        told.append(f"each {100 * each:+.3g} %")
    return ", ".join(told)


def _by_copy(metric: Metric, before: Breakdown, now: Breakdown) -> list[Part]:
    if metric not in _COPIED or not (now.copies or _memsets(now)) or graphs_unlike(before, now):
        return []
    belongs, value = _COPIED[metric]
    sides = [
        summed((_copy_name(row), value(row)) for row in side.copies if belongs(row))
        for side in (before, now)
    ]
    if metric in _WITH_MEMSETS:
        sides = [own | _memsets(side) for own, side in zip(sides, (before, now), strict=True)]
    parts = (
        _parts(metric, _Sides(before=sides[0], now=sides[1], other=""))
        if before.copies or not sides[0]
        else []
    )
    return [
        part.model_copy(update={"note": _unless_hidden(part.note, before, now)}) for part in parts
    ]


def _memsets(side: Breakdown) -> dict[str, float]:
    return summed(
        (row.name, row.gpu_ms)
        for row in side.kernels
        if row.kind == "memory" and row.name == MEMSETS
    )


def _unless_hidden(note: str, before: Breakdown, now: Breakdown) -> str:
    """What is new or gone, unless the side without it may hold it in a graph that was traced whole."""
    if note == NEW and graph_trace(before) is GraphTrace.GRAPH:
        return PERHAPS_HIDDEN
    return PERHAPS_HIDDEN if note == GONE and graph_trace(now) is GraphTrace.GRAPH else note


def _copy_name(row: CopySample) -> str:
    if row.host is None:
        return row.direction
    joined = "from" if row.direction.startswith("Host") else "to"
    return f"{row.direction} {joined} {row.host} memory"


def _by_call(metric: Metric, before: Breakdown, now: Breakdown) -> list[Part]:
    if metric is not Metric.SYNCS:
        return []

    def told(side: Breakdown) -> dict[str, float]:
        return summed(
            (OTHER_SYNCS if row.call == OTHER_SYNCS else f"{row.call} under {row.range}", row.count)
            for row in side.syncs
        )

    return _parts(metric, _Sides(before=told(before), now=told(now), other=OTHER_SYNCS))


def _parts(metric: Metric, sides: _Sides) -> list[Part]:
    """The change of every name; all of them add up to the difference of the sides' sums.

    A name that one side does not tell may be among its others. Of such a name only that is told
    which it cannot have had there, and the rest as a change of the others: nothing is blamed for
    staying as it was.
    """
    before, now, other = sides.before, sides.now, sides.other
    came = untold_gains(before, now, other, most=sides.most[0])
    went = untold_gains(now, before, other, most=sides.most[1])
    new = NEW if other not in before and sides.complete else PERHAPS_NEW
    gone = GONE if other not in now else PERHAPS_GONE
    found = [
        Part(metric=metric, name=name, before=None, now=now[name], change=gained, note=new)
        for name, gained in came.items()
    ]
    for name, was in before.items():
        if name != other:
            left = was - went[name] if name in went else now[name]
            note = gone if name in went and was > 0 else ""
            found.append(
                Part(metric=metric, name=name, before=was, now=left, change=left - was, note=note)
            )
    if other in before or other in now:
        hidden_then = sum(before[name] - lost for name, lost in went.items())
        hidden_now = sum(now[name] - gained for name, gained in came.items())
        then = before.get(other, 0.0) + hidden_then
        value = now.get(other, 0.0) + hidden_now
        found.append(
            Part(
                metric=metric,
                name=other,
                before=then if other in before or hidden_then else None,
                now=value,
                change=value - then,
                note=PERHAPS_NEW if hidden_now else "",
            )
        )
    return found
