"""What is on disk as text, for `perfgate show`, `compare` and `bless`: values and differences, no
judgement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Final

from perfgate.model.baseline import Baseline, common_step_names
from perfgate.model.comparison import ComparedSides, Side
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Basis
from perfgate.model.note import Note
from perfgate.model.verdict import MetricVerdict
from perfgate.render.filling import environment
from perfgate.render.page import Page, Row
from perfgate.render.samples import invalid_lines, kernels_table, ranges_table, reasons
from perfgate.render.text import share_rows
from perfgate.render.verdict import change_cell
from perfgate.words import numbers, say
from perfgate.words.escape import LONGEST_NAME, one_line
from perfgate.words.numbers import plural

if TYPE_CHECKING:
    from jinja2 import Environment


def baseline_text(
    page: Page, baseline: Baseline, *, holds: str = "", path: str | None = None
) -> str:
    """Return all that a baseline says: who blessed it and why, where it was measured, what it
    holds, its values."""
    gpu = one_line(baseline.machine.gpu_name)
    page.heading(baseline.workload, f" on {gpu}")
    _write(page, "baseline", baseline, holds, machine_facts(baseline.machine))
    page.file(path)
    page.blank()
    rows: list[Row] = []
    for metric in METRICS:
        if values := baseline.values(metric):
            of = (numbers.value(metric, of(values)) for of in (median, min, max))
            rows.append((metric.value, *of, METRICS[metric].meaning))
    page.table(("metric", ">median", ">lowest", ">highest", "what it is*"), rows)
    ranges_table(page, baseline.breakdown.ranges, "per step")
    kernels_table(page, baseline.breakdown.kernels, "per step")
    return page.text


def comparison_text(page: Page, found: ComparedSides) -> str:
    """Return how two measurements differ: no judgement."""
    # A capture is a run also where no metric could be measured.
    runs = [
        max((len(values) for values in side.values.values()), default=0) or 1
        for side in (found.a, found.b)
    ]
    compared_lines(page, found, ends=[f" ({plural(number, 'run')})" for number in runs])
    return page.text


def compared_lines(page: Page, found: ComparedSides, *, ends: Sequence[str] = ("", "")) -> None:
    """Write what two sides are, what they lack, what makes them incomparable, and how they
    differ."""
    for title, side, end in zip("ab", (found.a, found.b), ends, strict=True):
        page.heading(title, f": {one_line(say.fact(side.label), longest=1000)}{end}")
        reasons(page, "missing", side.missing)
        reasons(page, "unmeasured", side.absent)
        invalid_lines(page, side.invalid)
    texts = (*unlike(found.a, found.b), *map(say.message, found.warnings))
    page.facts("not alike", texts, "yellow")
    page.blank()
    difference_table(page, found.rows, titles=("a", "b"))


def bless_text(
    page: Page,
    old: Baseline | None,
    new: Baseline,
    rows: Sequence[MetricVerdict],
    *,
    notes: Mapping[str, Sequence[Note]],
    path: str | None = None,
) -> str:
    """Return what a blessing, or one more occasion, changes: `rows` are the differences, `notes`
    what else there is to say, by their label."""
    is_occasion = old is not None and old.blessing == new.blessing
    what = "one more occasion" if is_occasion else "new baseline" if old else "first baseline"
    gpu = one_line(new.machine.gpu_name)
    page.heading(new.workload, f": {what} on {gpu}")
    _write(page, "occasion" if is_occasion else "blessing", old, new)
    if is_occasion:
        _write(page, "left_out", old, new, style="yellow")
    elif old is not None:
        _write(page, "unlike", *_apart(old, new), style="yellow")
    page.blank()
    difference_table(page, rows, titles=("before", "after") if old is not None else ("", "now"))
    page.blank()
    _write(page, "anchor", old, new)
    for label, said in notes.items():
        page.facts(label, map(say.in_one_line, said))
    page.file(path)
    return page.text


def _apart(old: Baseline, new: Baseline) -> tuple[list[str], list[tuple[str, ...]], bool]:
    """What is unlike of two baselines, the names of their steps where those are, and whether that
    forbids to compare them."""
    found = unlike(Side.of_baseline("the old", old), Side.of_baseline("the new", new))
    steps = [common_step_names(one.runs) for one in (old, new)]
    other_steps = steps if all(steps) and steps[0] != steps[1] else []
    forbidden = old.machine.differences_that_forbid_comparison(new.machine)
    return found, other_steps, bool(other_steps or old.digest != new.digest or forbidden)


def extent(baseline: Baseline) -> str:
    """Write how much a baseline rests on: `8 runs over 2 occasions`."""
    return f"{plural(len(baseline.runs), 'run')} over {plural(len(baseline.occasions), 'occasion')}"


def moment(at: datetime) -> str:
    """Write a moment in UTC to the minute; at the ends of the calendar, where UTC has none, as it
    is."""
    try:
        return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except OverflowError:
        return at.isoformat(" ", "minutes")


def difference_table(page: Page, rows: Sequence[MetricVerdict], *, titles: tuple[str, str]) -> None:
    """Write values before and after, and the change in each metric's own basis."""
    if not rows:
        page.prose("Neither holds a metric that could be compared.")
    cells: list[Row] = []
    for row in rows:
        values = (numbers.value(row.metric, one) for one in (row.baseline, row.now))
        change = row.reason or change_cell(row) or _in_its_unit(row) or _one_sided(row, titles)
        cells.append((row.metric.value, *values, change))
        cells += share_rows(row.metric, rows, blanks=1)
    page.table(("metric", *(f">{title}" for title in titles), "change"), cells)
    if any(row.basis is Basis.STEP and row.change is not None for row in rows):
        of = "of a" if titles[0] == "a" else titles[0]
        page.prose(f"pp: percentage points of the step {of}", style="dim")


def _in_its_unit(row: MetricVerdict) -> str:
    """The difference of a time that is no share of anything: of what was 0, or without a step."""
    if row.baseline is None or row.now is None or row.is_count:
        return ""
    return f"{numbers.difference(row.metric, row.now - row.baseline)} {METRICS[row.metric].unit}"


def _one_sided(row: MetricVerdict, titles: tuple[str, str]) -> str:
    """What is said of a metric that one of two lacks; of any two it is not known that there was
    none."""
    is_blessing = titles != ("a", "b")
    if row.now is None:
        return "gone" if is_blessing else "not measured in b"
    if row.baseline is None and titles[0]:
        return "new" if is_blessing else "not measured in a"
    return ""


def unlike(a: Side, b: Side) -> list[str]:
    """Name what makes two measurements incomparable, as far as it is known."""
    return [
        f"{one_line(name)} of {say.fact(a.label)}: {one_line(before)}; "
        f"of {say.fact(b.label)}: {one_line(now)}"
        for name, before, now in a.unlike(b)
    ]


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


_LINE_END: Final = "\0"
"""Stands for the end of a line within a text that a template is filled with."""


def _write(page: Page, macro: str, *fields: object, style: str = "") -> None:
    """Write what a macro of `records.txt.j2` says: a fact a line, `label | text`."""
    module = _environment().get_template("records.txt.j2").module
    for line in getattr(module, macro)(*fields).splitlines():
        label, _, text = line.partition("|")
        page.prose(text.strip().replace(_LINE_END, "\n"), label=label.strip(), style=style)


@cache
def _environment() -> Environment:
    return environment(
        escape=lambda shown: _LINE_END.join(str(shown).splitlines()),
        filters={
            "line": lambda text, longest=LONGEST_NAME: one_line(str(text), longest=longest),
            "moment": moment,
            "plural": plural,
            "extent": extent,
            "median": median,
            "ms": numbers.milliseconds,
            "percent": numbers.percent,
            "distance": lambda sd, of: numbers.change(sd, METRICS[of].basis.unit).lstrip("+"),
        },
    )
