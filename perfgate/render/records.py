"""What is on disk as text, for `perfgate show`, `compare` and `bless`: values and differences, no
judgement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median

from perfgate.model.baseline import Baseline, Blessing, Commit, Occasion, common_step_names
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Basis, Metric
from perfgate.model.note import Note
from perfgate.model.side import Side
from perfgate.model.verdict import MetricVerdict
from perfgate.render.page import Cell, Page, Row, columns
from perfgate.render.samples import (
    absent_lines,
    complaint_lines,
    kernels_table,
    missing_lines,
    ranges_table,
)
from perfgate.render.text import change_cell, share_rows
from perfgate.words import numbers, say
from perfgate.words.escape import one_line
from perfgate.words.names import listed, plural


def baseline_text(
    baseline: Baseline, *, width: int, colour: bool, holds: str = "", path: str | None = None
) -> str:
    """Return all that a baseline says: who blessed it and why, where it was measured, what it
    holds, its values."""
    page = Page(width=width, colour=colour)
    blessing = baseline.blessing
    page.line(
        Cell(text=one_line(baseline.workload), style="bold"),
        f" on {one_line(baseline.machine.gpu_name)}",
    )
    page.prose(
        f"{moment(blessing.at)} by {one_line(blessing.by)}{_at(blessing.commit)}", label="blessed"
    )
    page.prose(blessing.reason, label="reason")
    if text := ci_run(blessing):
        page.prose(text, label="CI run")
    for occasion in baseline.occasions:
        text = f"{moment(occasion.measured_at)}: {plural(len(occasion.runs), 'run')}{_at(occasion.commit)}"
        clocks = [run.sm_clock_mhz for run in occasion.runs if run.sm_clock_mhz is not None]
        text += f", SM clock {median(clocks):.0f} MHz" if clocks else ""
        page.prose(f"{text}{_added(occasion)}", label="measured")
    if baseline.anchor is not None:
        best = f"{numbers.milliseconds(baseline.anchor.step_ms)} ms"
        page.prose(
            f"best step ever {best}, {moment(baseline.anchor.at)}{_at(baseline.anchor.commit)}",
            label="anchor",
        )
    if holds:
        page.prose(holds, label="holds")
    page.prose(
        ", ".join(
            f"{name} {one_line(value or 'unknown')}"
            for name, value in machine_facts(baseline.machine)
        ),
        label="machine",
    )
    parameters = (
        f"{one_line(name)} {one_line(value)}" for name, value in sorted(baseline.parameters.items())
    )
    page.prose(", ".join(parameters), label="parameters")
    for metric, spread in baseline.calibration.items():
        basis = METRICS[metric].basis
        sds = (
            numbers.change(sd, basis.unit).removeprefix("+")
            for sd in (spread.run_sd, spread.occasion_sd)
        )
        text = "SD {} between runs, {} between occasions".format(*sds)
        page.prose(
            f"{metric}: {text}, from {plural(spread.runs, 'run')}, {moment(spread.at)}",
            label="calibration",
        )
    if path is not None:
        page.file(path)
    page.blank()
    rows: list[Row] = []
    for metric in METRICS:
        values = baseline.values(metric)
        if values:
            shown_values = (
                numbers.value(metric, value) for value in (median(values), min(values), max(values))
            )
            rows.append((metric.value, *shown_values, METRICS[metric].meaning))
    titles = columns("metric", ">median", ">lowest", ">highest", "what it is~")
    page.table(titles, rows)
    ranges_table(page, baseline.breakdown.ranges, "per step")
    kernels_table(page, baseline.breakdown.kernels, "per step")
    return page.text


def comparison_text(
    a: Side,
    b: Side,
    rows: Sequence[MetricVerdict],
    *,
    width: int,
    colour: bool,
    captures: tuple[bool, bool] = (False, False),
    warnings: Sequence[Note] = (),
) -> str:
    """Return how two measurements differ: `rows` of medians.

    No judgement. `captures` says of each whether it is one capture, which is one run even where no
    metric could be measured; `warnings` are what else makes the two unlike.
    """
    page = Page(width=width, colour=colour)
    for title, side, is_capture in (("a", a, captures[0]), ("b", b, captures[1])):
        runs = 1 if is_capture else max((len(values) for values in side.values.values()), default=0)
        side_lines(page, title, side, f" ({plural(runs, 'run')})")
    unlike_lines(page, a, b, warnings)
    page.blank()
    if rows:
        difference_table(page, rows, titles=("a", "b"))
    else:
        page.prose("Neither holds a metric that could be compared.")
    return page.text


def bless_text(
    old: Baseline | None,
    new: Baseline,
    rows: Sequence[MetricVerdict],
    *,
    width: int,
    colour: bool,
    costs: str = "",
    remarks: Sequence[str] = (),
    path: str | None = None,
) -> str:
    """Return what a blessing changes. `rows` are its differences, `costs` what its number of runs
    costs."""
    page = Page(width=width, colour=colour)
    what = "first baseline" if old is None else "new baseline"
    page.line(
        Cell(text=one_line(new.workload), style="bold"),
        f": {what} on {one_line(new.machine.gpu_name)}",
    )
    page.prose(new.blessing.reason, label="reason")
    if text := ci_run(new.blessing):
        page.prose(text, label="CI run")
    if old is not None:
        before = (
            f"{moment(old.blessing.at)} by {one_line(old.blessing.by)}{_at(old.blessing.commit)}"
        )
        page.prose(f"blessed {before}: {old.blessing.reason}", label="replaces")
        for warning in unlike(Side.of_baseline("the old", old), Side.of_baseline("the new", new)):
            page.prose(warning, label="not alike", style="yellow")
        then, now = common_step_names(old.runs), common_step_names(new.runs)
        other_steps = bool(then and now) and then != now
        if other_steps:
            page.prose(
                f"the steps' ranges were {', '.join(then)}, are {', '.join(now)}",
                label="not alike",
                style="yellow",
            )
        if (
            other_steps
            or old.digest != new.digest
            or old.machine.differences_that_forbid_comparison(new.machine)
        ):
            page.prose(
                "So the two were not held against one another: a loss between them is not seen, and the anchor starts "
                "anew.",
                label="not alike",
                style="yellow",
            )
    page.blank()
    difference_table(page, rows, titles=("before", "after") if old is not None else ("", "now"))
    page.blank()
    if new.anchor is not None:
        page.prose(_told_anchor(old, new, new.anchor.step_ms), label="anchor")
    if costs:
        page.prose(costs, label="runs")
    for remark in remarks:
        page.prose(remark, label="note", style="yellow")
    if path is not None:
        page.file(path)
    return page.text


def occasion_text(
    old: Baseline,
    new: Baseline,
    rows: Sequence[MetricVerdict],
    *,
    width: int,
    colour: bool,
    costs: str = "",
    path: str | None = None,
) -> str:
    """Return what one more occasion changes. `rows` are the differences, `costs` what the number of
    runs costs."""
    page = Page(width=width, colour=colour)
    page.line(
        Cell(text=one_line(new.workload), style="bold"),
        f": one more occasion on {one_line(new.machine.gpu_name)}",
    )
    for added in (occasion.added for occasion in new.occasions if occasion not in old.occasions):
        if added is not None:
            page.prose(added.reason, label="reason")
            if text := ci_run(added):
                page.prose(text, label="CI run")
    before = f"{moment(old.blessing.at)} by {one_line(old.blessing.by)}{_at(old.blessing.commit)}"
    page.prose(f"to what was blessed {before}: {old.blessing.reason}", label="added")
    page.prose(f"before {extent(old)}, after {extent(new)}", label="holds")
    for occasion in old.occasions:
        if occasion not in new.occasions:
            gone = f"{moment(occasion.measured_at)}: {plural(len(occasion.runs), 'run')}, the oldest, to make room"
            page.prose(gone, label="left out", style="yellow")
    page.blank()
    difference_table(page, rows, titles=("before", "after"))
    page.blank()
    if costs:
        page.prose(costs, label="runs")
    if path is not None:
        page.file(path)
    return page.text


def extent(baseline: Baseline) -> str:
    """Write how much a baseline rests on: `8 runs over 2 occasions`."""
    return f"{plural(len(baseline.runs), 'run')} over {plural(len(baseline.occasions), 'occasion')}"


def ci_run(blessing: Blessing) -> str:
    """Write which CI run measured what was blessed, and where; empty of what was measured at a
    desk."""
    runner = "" if blessing.runner is None else f"on {one_line(blessing.runner)}"
    return " ".join(
        word for word in (one_line(blessing.run_url or "", longest=1000), runner) if word
    )


def moment(at: datetime) -> str:
    """Write a moment in UTC to the minute; at the ends of the calendar, where UTC has none, as it
    is."""
    try:
        return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except OverflowError:
        return at.isoformat(" ", "minutes")


def _told_anchor(old: Baseline | None, new: Baseline, best_ms: float) -> str:
    if old is not None and old.anchor is not None and old.anchor.step_ms < best_ms:
        then = numbers.milliseconds(old.anchor.step_ms)
        return f"starts anew at {numbers.milliseconds(best_ms)} ms, this one: the best step before was {then} ms"
    text = f"best step ever blessed here {numbers.milliseconds(best_ms)} ms"
    now = median(new.values(Metric.STEP_MS) or [best_ms])
    slower = now / best_ms - 1
    return (
        f"{text}; this one is {numbers.percent(slower)} slower"
        if slower >= 0.00005
        else f"{text}: this one"
    )


def difference_table(page: Page, rows: Sequence[MetricVerdict], *, titles: tuple[str, str]) -> None:
    """Write values before and after, and the change in each metric's own basis."""
    cells: list[Row] = []
    for row in rows:
        before, after = (
            "" if amount is None else numbers.value(row.metric, amount)
            for amount in (row.baseline, row.now)
        )
        cells.append(
            (
                row.metric.value,
                before,
                after,
                row.reason or change_cell(row) or _one_sided(row, titles),
            )
        )
        cells += share_rows(rows, row.metric, blanks=1)
    page.table(columns("metric", *(f">{title}" for title in titles), "change"), cells)
    if any(row.basis is Basis.STEP and row.change is not None for row in rows):
        page.prose(f"pp: percentage points of the step {_of(titles[0])}", style="dim")


def side_lines(page: Page, title: str, side: Side, end: str = "") -> None:
    """Write what a side is and, of a capture, what `perfgate inspect` says that it lacks."""
    page.line(Cell(text=title, style="bold"), f": {one_line(side.label, longest=1000)}{end}")
    missing_lines(page, side.missing)
    absent_lines(page, side.absent)
    complaint_lines(page, side.complaints)


def unlike_lines(page: Page, a: Side, b: Side, warnings: Sequence[Note]) -> None:
    """Write what makes two measurements incomparable, and the warnings that say more of it."""
    for warning in (*unlike(a, b), *map(say.message, warnings)):
        page.prose(warning, label="not alike", style="yellow")


def _one_sided(row: MetricVerdict, titles: tuple[str, str]) -> str:
    """What is said of a metric that one of two lacks; of any two it is not known that there was
    none."""
    is_blessing = titles != ("a", "b")
    if row.now is None:
        return "gone" if is_blessing else "not measured in b"
    if row.baseline is None and titles[0]:
        return "new" if is_blessing else "not measured in a"
    return ""


def _of(title: str) -> str:
    return f"of {title}" if title == "a" else title


def unlike(a: Side, b: Side) -> list[str]:
    """Name what makes two measurements incomparable, as far as it is known."""
    found: list[str] = []
    if a.machine is not None and b.machine is not None:
        gpus, nsys, options = (
            (a.machine, b.machine),
            (a.machine.nsys, b.machine.nsys),
            "nsys options",
        )
        if gpus[0].gpu_name != gpus[1].gpu_name:
            found.append(f"{a.label} is of {gpus[0].gpu_name}, {b.label} of {gpus[1].gpu_name}")
        if nsys[0] != nsys[1]:
            found.append(f"{a.label} was captured by nsys {nsys[0]}, {b.label} by nsys {nsys[1]}")
        if a.machine.nsys_options != b.machine.nsys_options:
            both = [" ".join(machine.nsys_options) or "none" for machine in gpus]
            found.append(f"{options} of {a.label}: {both[0]}; of {b.label}: {both[1]}")
    elif (models := a.gpu_models()) and (others := b.gpu_models()) and models != others:
        found.append(
            f"{a.label} is of {listed(sorted(models))}, {b.label} of {listed(sorted(others))}"
        )
    if a.parameters is not None and b.parameters is not None:
        for name in sorted({*a.parameters, *b.parameters}):
            values = [side.get(name, "not set") for side in (a.parameters, b.parameters)]
            if values[0] != values[1]:
                found.append(
                    f"{one_line(name)} is {one_line(values[0])} in {a.label}, {one_line(values[1])} in {b.label}"
                )
    return found


def machine_facts(machine: Machine) -> list[tuple[str, str | None]]:
    """Return what is known of a machine, by name; None where it is not known."""
    return [
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


def _added(occasion: Occasion) -> str:
    if occasion.added is None:
        return ""
    run = f"; {run}" if (run := ci_run(occasion.added)) else ""
    return f"; added by {one_line(occasion.added.by)}{run}: {one_line(occasion.added.reason, longest=400)}"


def _at(commit: Commit | None) -> str:
    if commit is None:
        return ""
    return f" at {one_line(commit.sha[:12])}{' with uncommitted changes' if commit.dirty else ''}"
