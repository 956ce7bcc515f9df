"""Verdicts as text for a terminal or a CI log; colour repeats what words already say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from perfgate.model.metric import METRICS, Basis, Kind, Metric
from perfgate.model.outcome import PASSING, WORST_FIRST, OnInconclusive, OnNew, Outcome
from perfgate.model.summary import PartChosen
from perfgate.model.verdict import Drift, Dropped, MetricVerdict, Stage, Verdict
from perfgate.render.page import HELD, Cell, Page, Row, columns, shortened
from perfgate.words import numbers
from perfgate.words.escape import LONGEST_PROSE, one_line
from perfgate.words.names import listed, plural

SHORTEST_NAME: Final = 24
"""Cells that a workload's name is left with next to its outcome, however long the line becomes."""
SHARES: Final = {Metric.GAP_MS: "gap_share", Metric.H2D_MS: "h2d_share"}
"""Metrics that are shown with their share of the step."""
STYLES: Final = {
    Outcome.PASSED: "green",
    Outcome.IMPROVED: "bold green",
    Outcome.REGRESSED: "bold red",
    Outcome.INCONCLUSIVE: "yellow",
    Outcome.NO_BASELINE: "yellow",
    Outcome.INCOMPARABLE: "bold yellow",
    Outcome.INVALID: "bold yellow",
    Outcome.NOT_MEASURED: "bold red",
}
NOT_SHOWN: Final = {
    Outcome.INCONCLUSIVE: "not shown to be within budget",
    Outcome.NO_BASELINE: "compared with nothing",
}
"""What an outcome that the settings let through leaves open."""
_COLUMNS: Final = columns(
    "metric", ">baseline", ">now", ">lowest", ">highest", "change", ">budget", "outcome"
)
_STATISTICS: Final = columns(">p", ">could show")


# A whole verdict


def verdict_table(verdict: Verdict, *, width: int, colour: bool, files: str | None = None) -> str:
    """Return all there is to say of one workload: outcome, reason, table, where, notes, next step.

    `files` is where its captures and logs lie.
    """
    page = Page(width=width, colour=colour)
    runs = f" ({compared_text(verdict)})" if verdict.runs else ""
    room = max(page.width - len(verdict.outcome) - len(runs) - 2, SHORTEST_NAME)
    name = Cell(text=shortened(one_line(verdict.workload, longest=room), room), style="bold")
    page.line(name, ": ", Cell(text=verdict.outcome, style=STYLES[verdict.outcome]), runs)
    page.prose(verdict.reason)
    if verdict.metrics:
        page.blank()
        _metrics(page, verdict)
    parts = verdict_parts(verdict)
    if (parts or files is not None) and (verdict.metrics or "\n" in verdict.reason):
        page.blank()
    for label, text in parts:
        page.prose(text, label=label)
    if files is not None:
        page.file(files, label="files")
    return page.text


def verdict_parts(verdict: Verdict) -> list[tuple[str, str]]:
    """Return what is said of a verdict below its table, each with its label."""
    return [
        *(("where", f"{metric}: {where}") for metric, where in verdict.where.items()),
        *([("anchor", anchor_text(verdict.drift))] if verdict.drift else []),
        *(("ranks", text) for text in verdict.ranks),
        *(("advice", f"{advice.evidence}. {advice.usually}") for advice in verdict.advice),
        *(("dropped", dropped_text(dropped)) for dropped in verdict.dropped),
        *(("note", note) for note in (*verdict.caveats, *verdict.remarks)),
        *([("next", verdict.next_step)] if verdict.next_step else []),
    ]


def compared_text(verdict: Verdict) -> str:
    """Return how many runs were compared with what; empty where there were none."""
    if verdict.ab_run is not None:
        screened = verdict.ab_run.screen_runs
        after = f", after {plural(screened, 'run')}" if screened else ""
        noun = "interleaved pair" if verdict.stage is Stage.BLOCKS else "pair"
        revision = one_line(verdict.ab_run.revision, longest=60)
        return f"{plural(verdict.ab_run.pairs, noun)} with {revision}{after}"
    if not verdict.runs:
        return ""
    against = f" against {verdict.baseline_runs} blessed" if verdict.baseline_runs else ""
    return f"{plural(verdict.runs, 'run')}{against}"


def dropped_text(dropped: Dropped) -> str:
    """Say which run was dropped as an outlier and why; runs are counted from 1."""
    basis = METRICS[dropped.metric].basis
    distance = numbers.change(dropped.distance, basis.unit)
    off = " of a step off" if basis is Basis.STEP else " off"
    if basis is Basis.LOG and dropped.distance >= numbers.FACTORS_FROM:
        off = ""  # it is shown as a factor
    what = "pair" if dropped.side == "pair" else f"{dropped.side} run"
    return f"{what} {dropped.index + 1}: {dropped.metric} {distance}{off} its group's median"


def anchor_text(drift: Drift) -> str:
    """Say how far the step is from the best ever blessed."""
    best, unit = drift.path[0], Basis.LOG.unit
    return (
        f"step_ms {numbers.change(drift.change, unit, drift.low, drift.high)} against the best ever "
        f"blessed ({numbers.milliseconds(best.step_ms)} ms on {best.at:%Y-%m-%d}), budget "
        f"{numbers.limit(drift.budget, unit)}"
    )


def choice_text(choice: PartChosen) -> str:
    """Return which part of the workloads this is: "3 of 7 workloads, chosen by -k"."""
    return f"{choice.workloads} of {plural(choice.of, 'workload')}, chosen by {listed(choice.by)}"


# The cells of a metric's row, for every form of a gate


def unit_of(row: MetricVerdict) -> str:
    """Return the unit of a row's change and budget."""
    return (row.basis or Basis.LOG).unit


def value_cell(row: MetricVerdict, amount: float | None) -> str:
    """Return a value of the row's metric, empty where it is not known."""
    return "" if amount is None else numbers.value(row.metric, amount)


def change_cell(row: MetricVerdict) -> str:
    """Return a row's change with its interval; of a count the difference."""
    if is_count(row):
        known = row.baseline is not None and row.now is not None
        before, now = row.baseline or 0.0, row.now or 0.0
        return numbers.count_change(row.metric, before, now) if known else ""
    return "" if row.change is None else numbers.change(row.change, unit_of(row), row.low, row.high)


def budget_cell(row: MetricVerdict) -> str:
    """Return what a metric may lose; of a count whether it is exact."""
    if is_count(row):
        return {None: "", True: "exact", False: "varies"}[row.exact]
    return "" if row.budget is None else numbers.limit(row.budget, unit_of(row))


def p_cell(row: MetricVerdict) -> str:
    """Return the probability of such a rise by chance."""
    return "" if row.p_value is None else numbers.probability(row.p_value)


def smallest_cell(row: MetricVerdict) -> str:
    """Return the smallest loss that the runs could have shown."""
    return "" if row.smallest is None else numbers.change(row.smallest, unit_of(row))


def why_unjudged(row: MetricVerdict, verdict: Verdict) -> str:
    """Return a word for a row without an outcome; without a baseline all are alike and need none."""
    if not verdict.baseline_runs:
        return ""
    # An estimate is of a time that a count left no runs to judge.
    return "new" if row.baseline is None else "estimate" if row.low is not None else "not gated"


def is_count(row: MetricVerdict) -> bool:
    """Whether it is a count, not a time."""
    return METRICS[row.metric].kind is Kind.COUNT


def is_unchanged_count(row: MetricVerdict) -> bool:
    """Whether a row is a count that is what it was: worth a word, not a line."""
    same = row.baseline == row.now and row.now is not None
    return is_count(row) and row.outcome is Outcome.PASSED and same


def worst_first(rows: Iterable[MetricVerdict]) -> list[MetricVerdict]:
    """Order rows by outcome, and those of one by the table of metrics."""
    metrics = list(METRICS)

    def place(row: MetricVerdict) -> tuple[int, int]:
        rank = len(WORST_FIRST) if row.outcome is None else WORST_FIRST.index(row.outcome)
        return rank, metrics.index(row.metric)

    return sorted(rows, key=place)


def shares(rows: Sequence[MetricVerdict], metric: Metric) -> tuple[str, str]:
    """Return a metric's share of its own side's step, before and now; empty where it is not known."""
    by = {row.metric: row for row in rows}
    part, whole = by[metric], by.get(Metric.STEP_MS)
    if metric not in SHARES or whole is None:
        return "", ""
    sides = ((part.baseline, whole.baseline), (part.now, whole.now))
    before, now = ("" if None in side else numbers.share(*side) for side in sides)  # type: ignore[arg-type]
    return before, now


def share_rows(rows: Sequence[MetricVerdict], metric: Metric, *, blanks: int) -> list[Row]:
    """Return the row that shows a metric's share of the step, none where no side has one."""
    known = shares(rows, metric)
    cells = (f"  {SHARES.get(metric, '')}", *known, *[""] * blanks)
    return [[Cell(text=text, style="dim") for text in cells]] if any(known) else []


def interval_text(verdict: Verdict) -> str:
    """Say what the ends of an interval are: the bounds that decide, with their levels."""
    if verdict.loss_alpha is None:
        return "[ ]: interval"
    return (
        f"[ ]: a loss is shown where the lower end ({100 * (1 - verdict.loss_alpha):.4g} %) is above "
        "0, a pass where the upper end (97.5 %) is below the budget"
    )


# The table of a verdict


def _metrics(page: Page, verdict: Verdict) -> None:
    unchanged = [row for row in verdict.metrics if is_unchanged_count(row)]
    new = [row for row in verdict.metrics if _is_new_count(row, verdict)]
    shown = worst_first(row for row in verdict.metrics if row not in unchanged and row not in new)
    rows: list[Row] = []
    for row in shown:
        outcome = Cell(text=why_unjudged(row, verdict))
        if row.outcome is not None:
            outcome = Cell(text=row.outcome, style=STYLES[row.outcome])
        values = (value_cell(row, one) for one in (row.baseline, row.now, row.lowest, row.highest))
        cells = (row.metric.value, *values, change_cell(row), budget_cell(row), outcome)
        rows.append((*cells, p_cell(row), smallest_cell(row)))
        rows += share_rows(verdict.metrics, row.metric, blanks=7)
    wide = page.fits((*_COLUMNS, *_STATISTICS), rows)
    if rows and wide:
        page.table((*_COLUMNS, *_STATISTICS), rows)
    elif rows:
        page.table(_COLUMNS, [row[: len(_COLUMNS)] for row in rows])
    _captions(page, shown, verdict, wide=wide)
    for label, folded in (("unchanged", unchanged), ("new", new)):
        page.prose(_folded((row, value_cell(row, row.now)) for row in folded), label=label)


def _is_new_count(row: MetricVerdict, verdict: Verdict) -> bool:
    is_new = row.outcome is None and row.baseline is None and row.now is not None
    return is_count(row) and is_new and verdict.baseline_runs > 0


def _folded(cells: Iterable[tuple[MetricVerdict, str]]) -> str:
    return ", ".join(f"{row.metric}{HELD}{text}" for row, text in cells if text)


def _captions(page: Page, rows: Sequence[MetricVerdict], verdict: Verdict, *, wide: bool) -> None:
    """Write what the table's columns mean, and what of it did not fit into columns."""
    tested = any(row.p_value is not None for row in rows)
    captions = {
        interval_text(verdict): any(row.low is not None for row in rows),
        "pp: percentage points of the baseline's step": any(
            row.basis is Basis.STEP and row.change is not None for row in rows
        ),
        "p: probability of such a rise by chance": wide and tested,
        "could show: the smallest loss these runs could have shown": wide and tested,
    }
    page.prose("; ".join(text for text, holds in captions.items() if holds), style="dim")
    if not wide:
        page.prose(_folded((row, p_cell(row)) for row in rows), label="p-value")
        if shown := _folded((row, smallest_cell(row)) for row in rows if p_cell(row)):
            caption = "(the smallest loss these runs could have shown)"
            page.prose(f"{shown} {caption}", label="could show")
    for row in rows:
        if row.reason and row.change is None and not is_count(row) and row.outcome is not None:
            page.prose(f"{row.metric}: {row.reason}", label="note")


# The summary of a gate


def summary(
    verdicts: Sequence[Verdict],
    *,
    opens: bool,
    width: int,
    colour: bool,
    on_inconclusive: OnInconclusive = OnInconclusive.FAIL,
    on_new: OnNew = OnNew.FAIL,
    opening: Sequence[bool] | None = None,
    why: str = "",
    longest_name: int | None = None,
) -> str:
    """Return a line a workload, worst first, and last whether the gate is open and why.

    Args:
        verdicts: of all workloads.
        opens: what the exit status says.
        width: cells of a line.
        colour: whether escape codes may be used.
        on_inconclusive: names the outcomes that shut the gate, as `on_new` does.
        on_new: see there.
        opening: stands for them: whether each verdict lets the gate open.
        why: the reason in the last line where it lies elsewhere, such as in an interrupt.
        longest_name: cells of a name, a third of the width by default.
    """
    page = Page(width=width, colour=colour)
    if opening is None:
        opening = [one.opens(on_inconclusive=on_inconclusive, on_new=on_new) for one in verdicts]
    ordered = sorted(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.outcome))
    if ordered:
        _workload_lines(page, ordered, longest_name or page.width // 3)
    judged = list(zip(verdicts, opening, strict=True))
    shutting = Counter(verdict.outcome for verdict, lets in judged if not lets)
    let_in = Counter(verdict.outcome for verdict, lets in judged if lets)
    if opens:
        word, style = "GATE OPEN", "bold green"
        reason = "; ".join(filter(None, _let_in(let_in))) or "nothing was measured"
    else:
        word, style = "GATE SHUT", "bold red"
        reason = "not every workload that was expected has a verdict"
        if shutting:
            reason = f"{counted_text(shutting)} of {plural(len(ordered), 'workload')}"
        elif not ordered:
            reason = "no workload was measured"
    reason = one_line(why, longest=LONGEST_PROSE) or reason
    first, *more = page.wrapped(f"{word}: {reason}", page.width)
    page.line(Cell(text=word, style=style), first.removeprefix(word))
    for line in more:
        page.line(line)
    return page.text


def _workload_lines(page: Page, verdicts: Sequence[Verdict], longest: int) -> None:
    outcomes = max(len(verdict.outcome) for verdict in verdicts)
    shown = [one_line(verdict.workload) for verdict in verdicts]
    names = min(max(map(len, shown)), longest)
    cells = [step_cells(verdict) for verdict in verdicts]
    steps = [_aligned(own, cells) for own in cells]
    fits = outcomes + names + 4 + max(map(len, steps)) <= page.width
    for verdict, name, step in zip(verdicts, shown, steps, strict=True):
        outcome = Cell(text=verdict.outcome.ljust(outcomes), style=STYLES[verdict.outcome])
        name_cell = shortened(name, names).ljust(names)
        page.line(outcome, "  ", name_cell, "  " if fits else "", step if fits else "")
        if step and not fits:
            page.line(step, indent=4)
        # The others have a table, which shows theirs.
        passed = verdict.outcome is Outcome.PASSED
        for sentence in (
            [f"note: {one}" for one in verdict.caveats] if passed else [headline(verdict)]
        ):
            for line in page.wrapped(one_line(sentence, longest=1000), page.width - 4):
                if line:
                    page.line(line, indent=4)


def _aligned(row: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A row's cells below those of the others, if it has all of them, else one after the other."""
    if not all(row):
        return "  ".join(filter(None, row))
    widths = [max(len(other[place]) for other in rows if all(other)) for place in range(len(row))]
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def step_cells(verdict: Verdict) -> tuple[str, str, str, str]:
    """Return what a step takes, its change, its budget, and the runs; empty where unknown."""
    step = verdict.of(Metric.STEP_MS)
    noun = "run" if verdict.ab_run is None else "pair"
    runs = plural(verdict.compared, noun) if verdict.runs else ""
    if step is None or step.now is None:
        return "", "", "", runs
    budget = budget_cell(step)
    now = f"step_ms {value_cell(step, step.now)}"
    return now, change_cell(step), budget and f"budget {budget}", runs


def headline(verdict: Verdict) -> str:
    """Return the first line of a verdict's reason."""
    return next(iter(verdict.reason.splitlines()), "")


def why_shut(shutting: Mapping[Outcome, int], others: Sequence[str], *, place: str) -> str:
    """Say why a gate is shut where its workloads alone do not say it; empty where they do.

    Args:
        shutting: how many workloads of each outcome keep it shut.
        others: the other reasons, a sentence each.
        place: where they are shown, `above` or `below`.
    """
    if not others:
        return ""
    if len(others) == 1 and not shutting:
        return others[0]
    more = plural(len(others), "other reason" if shutting else "reason")
    return ", and ".join(filter(None, (counted_text(shutting), f"{more} {place}")))


def counted_text(counted: Mapping[Outcome, int]) -> str:
    """Return how many there are of each outcome, the worst first."""
    shown = [outcome for outcome in WORST_FIRST if counted.get(outcome)]
    return ", ".join(f"{counted[outcome]} {outcome}" for outcome in shown)


def _let_in(counted: Mapping[Outcome, int]) -> tuple[str, str]:
    """What passed, and which outcomes open the gate by the settings alone."""
    passing = {outcome: times for outcome, times in counted.items() if outcome in PASSING}
    lenient = [
        f"{counted[outcome]} {outcome}{f' ({NOT_SHOWN[outcome]})' if outcome in NOT_SHOWN else ''}"
        for outcome in WORST_FIRST
        if counted.get(outcome) and outcome not in PASSING
    ]
    more = f"{', '.join(lenient)} let through by the settings" if lenient else ""
    return counted_text(passing), more


def skipped_text(skipped: Mapping[str, str], *, width: int) -> str:
    """Return what was skipped, with its reason by name, a line each."""
    page = Page(width=width, colour=False)
    for name, why in skipped.items():
        reason = f" ({one_line(why)})" if why else ""
        page.prose(f"skipped: {one_line(name)}{reason}", indent=0)
    return page.text
