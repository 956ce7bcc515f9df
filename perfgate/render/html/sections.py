"""One workload as a section of the page: everything but the pictures stands there without a script."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median
from typing import Final

from perfgate.model import numbers
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Basis, Kind, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.pagedata import PageWorkload
from perfgate.model.sample import OUTSIDE_RANGES, UNNAMED, RangeSample
from perfgate.model.side import Side
from perfgate.model.stepview import Lane, StepView
from perfgate.model.told import ToldRun
from perfgate.model.verdict import Attribution, MetricVerdict, Stage, Verdict
from perfgate.model.words import inflected, plural
from perfgate.render.explanation import TITLES, large_parts, matters, named_rest
from perfgate.render.html import plots
from perfgate.render.html.markup import LONGEST, Td, Th, data, listed, name, prose, table, words
from perfgate.render.page import inert
from perfgate.render.records import moment
from perfgate.render.text import (
    SHARES,
    change_cell,
    told_creep,
    told_dropped,
    told_interval,
    why_unjudged,
)

MOST_PARTS: Final = 30
"""Rows of an attribution; smaller parts are told as one."""
SYMBOLS: Final = {
    Outcome.PASSED: "✓",
    Outcome.IMPROVED: "▲",
    Outcome.REGRESSED: "✗",
    Outcome.INCONCLUSIVE: "≈",
    Outcome.NO_BASELINE: "○",
    Outcome.INCOMPARABLE: "&lt;&gt;",
    Outcome.INVALID: "!",
    Outcome.NOT_MEASURED: "?",
}
"""Beside each outcome's word, as markup."""
IN_RANGES: Final = (
    Metric.KERNEL_MS,
    Metric.NCCL_MS,
    Metric.GAP_MS,
    Metric.H2D_MS,
    Metric.LAUNCHES,
    Metric.SYNCS,
)
"""Metrics that are shown by range."""
PASSING: Final = (Outcome.PASSED, Outcome.IMPROVED)
WORST_FIRST: Final = (
    Outcome.REGRESSED,
    Outcome.NOT_MEASURED,
    Outcome.INVALID,
    Outcome.INCOMPARABLE,
    Outcome.NO_BASELINE,
    Outcome.INCONCLUSIVE,
    Outcome.IMPROVED,
    Outcome.PASSED,
)
"""As the summary in a terminal has them."""
LEFT_OUT: Final = '<p class="left-out">Its timeline is left out of this page to keep it small.</p>'
_US_PER_MS: Final = 1000.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """A workload and where its section stands."""

    identity: str
    """Of the section: what a link names after `#`."""
    told: PageWorkload
    shown: str = ""
    """What it is called where its own name is not enough."""

    @property
    def name(self) -> str:
        """What it is called on this page."""
        return self.shown or self.told.verdict.workload


def badge(outcome: Outcome) -> str:
    """Return an outcome as a word with a sign and a colour."""
    return f'<span class="badge {outcome.lower()}"><span aria-hidden="true">{SYMBOLS[outcome]}</span> {outcome}</span>'


def section(placed: Placed, *, steps_left_out: bool = False) -> str:
    """Return the section of one workload, closed where it passed; its timelines are data that stand elsewhere."""
    workload, verdict = placed.told, placed.told.verdict
    opened = "" if verdict.outcome in PASSING else " open"
    parts = (
        _says(workload),
        _judged(placed),
        _runs(placed),
        _timeline(placed, left_out=steps_left_out),
        _attributions(verdict),
        _made_of(workload),
        _beside(verdict),
        _history(placed),
        _environment(workload),
        _again(workload),
    )
    held: dict[str, object] = {"intervals": plots.intervals(verdict), "runs": plots.runs(workload)}
    if workload.history:
        held["history"] = plots.history(workload.history)
    return (
        f'<details class="workload" id="{placed.identity}"{opened}><summary>{badge(verdict.outcome)} '
        f"<h3>{name(placed.name)}</h3>{_compared(verdict)}</summary>"
        f"{''.join(parts)}{data(f'data-{placed.identity}', held)}</details>"
    )


def _compared(verdict: Verdict) -> str:
    """Say how many runs were compared with what."""
    if not verdict.runs:
        return ""
    told = plural(verdict.runs, "run")
    if verdict.duet is not None:
        noun = "interleaved pair" if verdict.stage is Stage.INTERLEAVED else "pair"
        told = f"{plural(verdict.duet.pairs, noun)} with {inert(verdict.duet.revision, longest=60)}"
    elif verdict.baseline_runs:
        told += f" against {verdict.baseline_runs} blessed"
    return f' <span class="dim">{words(told)}</span>'


def _says(workload: PageWorkload) -> str:
    verdict = workload.verdict
    told = [prose(verdict.reason, mark="reason")]
    told += [prose(f"Next: {verdict.next_step}", mark="next")] if verdict.next_step else []
    moved = [f"{escape(metric)}: {_inline(where)}" for metric, where in verdict.where.items()]
    if moved:
        told.append(f"<h4>Where</h4>{listed(moved)}")
    if verdict.creep is not None:
        told.append(f"<p>{words(told_creep(verdict.creep))}.</p>")
    if verdict.classified is not None:
        told.append(
            f"<p>It is {words(f'{verdict.classified.bound}: {verdict.classified.evidence}')}</p>"
        )
    usual = [words(f"{one.evidence}. {one.usually}") for one in verdict.advice]
    if usual:
        told.append(f"<h4>What usually helps</h4>{listed(usual)}")
    return "".join(told)


def _inline(text: str) -> str:
    return f"<bdi>{words(text)}</bdi>"


def _judged(placed: Placed) -> str:
    verdict = placed.told.verdict
    if not verdict.metrics:
        return ""
    drawn = plots.drawn_rows(verdict)
    figure = ""
    if drawn:
        told = "; ".join(
            f"{row.metric} {change_cell(row)}, budget {numbers.limit(row.budget or 0.0, row.basis or Basis.LOG)}, "
            f"{row.outcome or 'shown only'}"
            for row in drawn
        )
        figure = _figure(
            placed,
            "intervals",
            "Change of each clock with its interval, against its budget",
            f"Changes against budgets. {told}.",
            rows=len(drawn),
        )
    order = list(METRICS)
    rows = sorted(verdict.metrics, key=lambda row: (_rank(row), order.index(row.metric)))
    columns = (
        Th(title="metric"),
        Th(title="baseline", right=True),
        Th(title="now", right=True),
        Th(title="change"),
        Th(title="budget", right=True),
        Th(title="p", right=True),
        Th(title="could show", right=True),
        Th(title="outcome"),
        Th(title="note"),
    )
    told_rows = [_metric(row, verdict) for row in rows]
    caption = (
        f"Metrics, per step. {told_interval(verdict)}; pp: percentage points of the baseline's step; "
        "p: probability of such a rise by chance; could show: the smallest loss these runs could have shown"
    )
    return f"<h4>Metrics</h4>{figure}{table(escape(caption), columns, told_rows, sortable=True)}"


def _rank(row: MetricVerdict) -> int:
    return len(WORST_FIRST) if row.outcome is None else WORST_FIRST.index(row.outcome)


def _metric(row: MetricVerdict, verdict: Verdict) -> tuple[str | Td, ...]:
    spec = METRICS[row.metric]
    basis = row.basis or Basis.LOG
    is_count = spec.kind is Kind.COUNT
    limit = {None: "", True: "exact", False: "varies"}[row.exact] if is_count else ""
    if row.budget is not None and not is_count:
        limit = numbers.limit(row.budget, basis)
    before, now = (
        Td(html=_value(row.metric, amount), by=amount) for amount in (row.baseline, row.now)
    )
    outcome = why_unjudged(row, verdict)
    return (
        f'<abbr title="{escape(spec.meaning)}">{row.metric.value}</abbr>',
        before,
        now,
        Td(html=escape(change_cell(row)), by=row.change),
        Td(html=limit, by=row.budget),
        Td(
            html="" if row.p_value is None else escape(numbers.probability(row.p_value)),
            by=row.p_value,
        ),
        Td(
            html="" if row.smallest is None else numbers.change(row.smallest, basis),
            by=row.smallest,
        ),
        badge(row.outcome) if row.outcome is not None else outcome,
        _share(row, verdict) + words(row.reason),
    )


def _share(row: MetricVerdict, verdict: Verdict) -> str:
    step = verdict.of(Metric.STEP_MS)
    if row.metric not in SHARES or step is None or row.now is None or step.now is None:
        return ""
    was = (
        ""
        if row.baseline is None or step.baseline is None
        else numbers.share(row.baseline, step.baseline)
    )
    now = numbers.share(row.now, step.now)
    return f"{escape(f'{was} -> {now}' if was else now)} of its step. " if now else ""


def _value(metric: Metric, amount: float | None) -> str:
    return "" if amount is None else numbers.value(metric, amount)


def _runs(placed: Placed) -> str:
    workload = placed.told
    sides = plots.sides(workload)
    metrics = plots.dotted(workload)
    if not metrics:
        return _made(workload)
    medians = [
        f"{called} {numbers.value(metrics[0], median(values))}"
        for called, side in sides
        if (values := _kept(workload, called, side, metrics[0]))
    ]
    figure = _figure(
        placed,
        "runs",
        "Runs as dots, a side a line",
        f"Medians of {metrics[0]}: {', '.join(medians)}. The table has each run.",
        rows=len(sides),
    )
    most = max(len(side.values.get(metric, ())) for _, side in sides for metric in metrics)
    columns = (
        Th(title="metric"),
        Th(title="side"),
        Th(title="median", right=True),
        *(Th(title=f"run {number + 1}", right=True) for number in range(most)),
    )

    def rows() -> Iterator[tuple[str | Td, ...]]:
        for metric in metrics:
            for called, side in sides:
                values = side.values.get(metric, ())
                if values:
                    aside = plots.set_aside(called, metric, workload)
                    kept = _kept(workload, called, side, metric)
                    yield (
                        metric.value,
                        called,
                        numbers.value(metric, median(kept)) if kept else "",
                        *(
                            numbers.value(metric, value)
                            + (" (set aside)" if number in aside else "")
                            for number, value in enumerate(values)
                        ),
                        *[""] * (most - len(values)),
                    )

    labels = "; ".join(f"{called}: {name(side.label)}" for called, side in sides)
    caption = (
        f"Values run by run, per step; medians are of the runs that were not set aside; {labels}"
    )
    return f"<h4>Runs</h4>{figure}{_fold('Values run by run', table(caption, columns, rows()))}{_made(workload)}"


def _kept(workload: PageWorkload, called: str, side: Side, metric: Metric) -> list[float]:
    """The values of a side without the runs that were set aside."""
    aside = plots.set_aside(called, metric, workload)
    return [
        value for number, value in enumerate(side.values.get(metric, ())) if number not in aside
    ]


def _made(workload: PageWorkload) -> str:
    """When the runs were made and what was noticed."""
    told = [(f"run {number + 1}", run) for number, run in enumerate(workload.runs)]
    told += [
        (f"other commit, run {number + 1}", run) for number, run in enumerate(workload.other_runs)
    ]
    if not told:
        return ""
    columns = (
        Th(title="run"),
        Th(title="started"),
        Th(title="took, s", right=True),
        Th(title="SM clock, MHz", right=True),
        Th(title="noticed"),
    )
    rows = [
        (
            called,
            moment(run.started_at),
            f"{run.wall_s:.1f}",
            "" if run.sm_clock_mhz is None else f"{run.sm_clock_mhz:.0f}",
            "; ".join(_inline(one) for one in _noticed(run)),
        )
        for called, run in told
    ]
    return _fold("When the runs were made", table("Runs of this gate", columns, rows))


def _noticed(run: ToldRun) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for metric, reason in run.absent.items():
        reasons.setdefault(reason, []).append(metric)
    absent = [f"without {', '.join(metrics)}: {reason}" for reason, metrics in reasons.items()]
    return [*run.complaints, *run.remarks, *absent]


def _timeline(placed: Placed, *, left_out: bool) -> str:
    views = _views(placed.told)
    if not views:
        return f"<h4>One typical step</h4>{LEFT_OUT}" if placed.told.steps_left_out else ""
    told = [
        f"{side}: {name(view.label)}, {numbers.milliseconds(view.length_us / _US_PER_MS)} ms, {_drawn(view)}"
        + (f", {name(view.source)}" if view.source else "")
        for side, view in views
    ]
    figure = (
        LEFT_OUT
        if left_out
        else _figure(
            placed,
            "timeline",
            "One typical step, baseline above candidate, on one time axis"
            if len(views) > 1
            else "One typical step",
            "; ".join(
                f"{side}: {inert(view.label)}, {numbers.milliseconds(view.length_us / _US_PER_MS)} ms"
                for side, view in views
            )
            + ". The table of lanes has their sums.",
            rows=sum(len(view.lanes) for _, view in views) + len(views),
        )
    )
    columns = (
        Th(title="lane"),
        Th(title="side"),
        Th(title="kind"),
        Th(title="count", right=True),
        Th(title="busy, ms", right=True),
        Th(title="longest"),
        Th(title="ms", right=True),
    )
    rows = [_lane(side, lane) for side, view in views for lane in view.lanes]
    lanes = _fold(
        "Lanes as a table",
        table("Lanes", columns, rows, sortable=True),
    )
    return f"<h4>One typical step</h4>{listed(told)}{figure}{lanes}"


def _views(workload: PageWorkload) -> tuple[tuple[str, StepView], ...]:
    named = (("baseline", workload.baseline_step), ("candidate", workload.candidate_step))
    return tuple((side, view) for side, view in named if view is not None)


def steps_of(workload: PageWorkload) -> str:
    """Return the steps of a workload as its timeline reads them; nothing where there are none."""
    views = _views(workload)
    return plots.packed_steps(dict(views)) if views else ""


def _drawn(view: StepView) -> str:
    if view.drawn == view.operations:
        return f"{view.operations:,} {inflected(view.operations, 'bar')}"
    within = (
        f" within {numbers.milliseconds(view.pixel_us / _US_PER_MS)} ms" if view.pixel_us else ""
    )
    return (
        f"{view.drawn:,} bars for {view.operations:,} ranges, operations and idle times: "
        f"neighbours{within} are drawn as one"
    )


def _lane(side: str, lane: Lane) -> tuple[str | Td, ...]:
    busy = (
        sum(bar.length_us if bar.busy_us is None else bar.busy_us for bar in lane.bars) / _US_PER_MS
    )
    count = sum(bar.count for bar in lane.bars)
    longest = max(lane.bars, key=lambda bar: bar.length_us, default=None)
    length = 0.0 if longest is None else longest.length_us / _US_PER_MS
    return (
        name(lane.title),
        side,
        lane.kind,
        Td(html=f"{count:,}", by=count),
        Td(html=numbers.milliseconds(busy), by=busy),
        "" if longest is None else name(longest.name),
        Td(html=numbers.milliseconds(length), by=length),
    )


def _attributions(verdict: Verdict) -> str:
    told: list[str] = []
    for metric in dict.fromkeys(one.metric for one in verdict.attributions):
        own = [one for one in verdict.attributions if one.metric is metric]
        unit = METRICS[metric].unit
        change = _signed(metric, own[0].change) + (" ms" if unit == "ms" else "")
        tables = "".join(_attribution(one) for one in own)
        told.append(f"<h5>{metric} {change} a step</h5>{tables}")
    return f"<h4>What the change is made of</h4>{''.join(told)}" if told else ""


def _attribution(one: Attribution) -> str:
    shown = large_parts(one, MOST_PARTS)
    hidden = one.parts[len(shown) :]
    columns = (
        Th(title=TITLES[one.axis]),
        Th(title="before", right=True),
        Th(title="now", right=True),
        Th(title="change", right=True),
        Th(title="note"),
    )
    rows = [
        (
            ("" if part.metric is one.metric else f"{part.metric} under ")
            + (
                "(outside any range)" if part.name == OUTSIDE_RANGES else name(part.name or UNNAMED)
            ),
            Td(html=_value(part.metric, part.before), by=part.before),
            Td(html=_value(part.metric, part.now), by=part.now),
            Td(html=_signed(part.metric, part.change), by=part.change),
            words(part.note),
        )
        for part in shown
    ]
    foot: list[tuple[str, ...]] = []
    if matters(smaller := sum(part.change for part in hidden), one):
        foot.append(
            (f"({plural(len(hidden), 'smaller part')})", "", "", _signed(one.metric, smaller), "")
        )
    if matters(one.rest, one):
        why = "medians of runs are no sums" if one.tells_all else ""
        foot.append((named_rest(one), "", "", _signed(one.metric, one.rest), why))
    foot.append(("all", "", "", _signed(one.metric, one.change), ""))
    return table(f"{one.metric} {TITLES[one.axis]}", columns, rows, foot=foot, sortable=True)


def _signed(metric: Metric, change: float) -> str:
    return f"{'-' if change < 0 else '+'}{numbers.value(metric, abs(change))}"


def _made_of(workload: PageWorkload) -> str:
    """What a step of the candidate is made of; ranges beside those that it was compared with."""
    side, was = workload.candidate, workload.other or workload.baseline
    if side is None:
        return ""
    before = {} if was is None else {row.name: row for row in was.breakdown.ranges}
    ranges = sorted(side.breakdown.ranges, key=_size, reverse=True)
    shown = [metric for metric in IN_RANGES if any(metric in row.values for row in ranges)]

    def cell(metric: Metric, row: RangeSample) -> Td:
        now, then = row.values.get(metric), before.get(row.name)
        blessed = None if then is None else then.values.get(metric)
        told = _value(metric, now)
        return Td(
            html=told if blessed is None else f"{_value(metric, blessed)} &rarr; {told or '0'}",
            by=now,
        )

    kernels = sorted(side.breakdown.kernels, key=lambda row: row.gpu_ms, reverse=True)
    count = Th(title="count", right=True)
    gpu_ms = Th(title="GPU ms", right=True)
    tables: tuple[tuple[str, Sequence[Th], Sequence[Sequence[str | Td]]], ...] = (
        (
            "By NVTX range, innermost; an arrow leads from what it was compared with",
            (Th(title="range"), *(Th(title=metric.value, right=True) for metric in shown)),
            [(name(row.name), *(cell(metric, row) for metric in shown)) for row in ranges],
        ),
        (
            "Kernels, copies and memsets",
            (Th(title="name"), count, gpu_ms),
            [(name(row.name), _counted(row.count), _clocked(row.gpu_ms)) for row in kernels],
        ),
        (
            "Copies by kind",
            (
                Th(title="direction"),
                Th(title="host memory"),
                count,
                Th(title="size", right=True),
                gpu_ms,
            ),
            [
                (
                    name(row.direction),
                    words(row.host or ""),
                    _counted(row.count),
                    _sized(row.bytes),
                    _clocked(row.gpu_ms),
                )
                for row in side.breakdown.copies
            ],
        ),
        (
            "Synchronising calls",
            (Th(title="call"), Th(title="range"), count, Th(title="CPU ms", right=True)),
            [
                (name(row.call), name(row.range), _counted(row.count), _clocked(row.cpu_ms))
                for row in side.breakdown.syncs
            ],
        ),
    )
    told = "".join(
        table(
            caption
            if len(rows) <= MOST_PARTS
            else f"{caption}; the first {MOST_PARTS} of {len(rows)}",
            columns,
            rows[:MOST_PARTS],
            sortable=True,
        )
        for caption, columns, rows in tables
        if rows
    )
    return _fold("What a step of the candidate is made of", told) if told else ""


def _size(row: RangeSample) -> float:
    return sum(
        row.values.get(metric, 0.0) for metric in (Metric.KERNEL_MS, Metric.GAP_MS, Metric.NCCL_MS)
    )


def _counted(count: float) -> Td:
    return Td(html=numbers.count(count), by=count)


def _clocked(ms: float) -> Td:
    return Td(html=numbers.milliseconds(ms), by=ms)


def _sized(size: float) -> Td:
    return Td(html=numbers.size(size), by=size)


def _beside(verdict: Verdict) -> str:
    told = ""
    for title, lines in (
        ("Ranks", verdict.ranks),
        ("Set aside", tuple(told_dropped(one) for one in verdict.dropped)),
        ("Remarks", (*verdict.caveats, *verdict.remarks)),
    ):
        if lines:
            told += f"<h4>{title}</h4>{listed(_inline(line) for line in lines)}"
    return told


def _history(placed: Placed) -> str:
    points = placed.told.history
    if not points:
        return ""
    first, last = points[0], points[-1]
    figure = _figure(
        placed,
        "history",
        "step_ms of what was blessed",
        f"From {numbers.milliseconds(first.value)} ms ({moment(first.at)}) to {numbers.milliseconds(last.value)} ms "
        f"({moment(last.at)}) in {plural(len(points), 'blessing')}.",
        rows=5,
    )
    columns = (
        Th(title="blessed"),
        Th(title="step_ms", right=True),
        Th(title="commit"),
        Th(title="by"),
        Th(title="reason"),
    )
    rows = [
        (
            moment(point.at),
            Td(html=numbers.milliseconds(point.value), by=point.value),
            f"<code>{words(point.commit[:12] if point.commit else 'not committed')}</code>",
            name(point.by),
            _inline(point.reason),
        )
        for point in points
    ]
    caption = "Blessings, in the order of git's history"
    return f"<h4>History</h4>{figure}{_fold('Blessings as a table', table(caption, columns, rows))}"


def _environment(workload: PageWorkload) -> str:
    machines = [
        (called, side.machine) for called, side in plots.sides(workload) if side.machine is not None
    ]
    told = ""
    if workload.environment is not None:
        columns = (Th(title="what"), Th(title="before"), Th(title="now"))
        rows = [
            (
                name(one.name),
                *("unknown" if value is None else name(value) for value in (one.before, one.now)),
            )
            for one in workload.environment
        ]
        told += (
            table("What differs in the environment", columns, rows)
            if rows
            else "<p>Nothing in it differs."
        )
    if machines:
        told += _fold(
            "Machine",
            "".join(f"<h5>{called}</h5>{machine_list(machine)}" for called, machine in machines),
        )
    return f"<h4>Environment</h4>{told}" if told else ""


def machine_list(machine: Machine) -> str:
    """Return what is known of a machine."""
    facts = [
        ("GPU", machine.gpu_name),
        ("driver", machine.driver),
        ("CUDA", machine.cuda),
        ("torch", machine.torch),
        ("nsys", machine.nsys),
        ("nsys options", " ".join(machine.nsys_options) or None),
        ("nvtx", machine.nvtx),
        ("Python", machine.python),
        ("CPU", machine.cpu),
        ("CPUs", None if machine.cpu_count is None else str(machine.cpu_count)),
        *(("UUID", gpu.uuid) for gpu in machine.gpus),
    ]
    told = "".join(
        f"<dt>{fact}<dd>{'unknown' if value is None else name(value)}" for fact, value in facts
    )
    return f"<dl>{told}</dl>"


def _again(workload: PageWorkload) -> str:
    verdict = workload.verdict
    known = [*workload.commands]
    explained = f"perfgate explain {shlex.quote(verdict.workload)} --full"
    if verdict.attributions and explained not in known:
        known.append(explained)
    told = "".join(_command(one) for one in known)
    kept = [
        f"{what}: <code>{words(path)}</code>"
        for what, path in (
            ("baseline", workload.baseline_file),
            ("result and captures", workload.files),
        )
        if path is not None
    ]
    return f"<h4>Again</h4>{told}{listed(kept)}" if told or kept else ""


def _command(command: str) -> str:
    """Return a command to copy; one with invisible or control characters is not offered, whoever put them there."""
    shown = inert(command, longest=10 * len(command))  # ten letters spell any character
    if shown != command or len(command) > 10 * LONGEST:
        told = f"<bdi><code>{escape(shown[: 10 * LONGEST])}</code></bdi>"
        return f"<p>{told} (holds characters that cannot be seen, or is too long to be copied from here)</p>"
    label = escape(command, quote=True)
    return (
        f'<div class="command"><pre><code>{escape(command)}</code></pre>'
        f'<button type="button" class="copy" aria-label="Copy {label}">Copy</button></div>'
    )


def _figure(placed: Placed, what: str, caption: str, alternative: str, *, rows: int) -> str:
    """Return the place of a plot: its caption, and in words what it shows."""
    size = max(rows, 1)
    return (
        f'<figure class="plot" data-plot="{what}" data-of="{placed.identity}">'
        f"<figcaption>{escape(caption)}</figcaption>"
        f'<div class="canvas" data-rows="{size}" role="img" aria-label="{escape(alternative)}"></div></figure>'
    )


def _fold(title: str, markup: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{markup}</details>"


def identities(names: Sequence[str]) -> list[str]:
    """Return an id for each workload, readable where its name is, and each only once."""
    found: dict[str, None] = {}
    for told in names:
        plain = "w-" + (re.sub(r"[^A-Za-z0-9_]+", "-", told[:80]).strip("-") or "workload")
        numbered = (f"{plain}-{number}" for number in itertools.count(2))
        found[next(one for one in itertools.chain([plain], numbered) if one not in found)] = None
    return list(found)
