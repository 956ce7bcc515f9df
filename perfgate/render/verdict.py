"""What is shown of a verdict, in plain text: its metrics' cells and what stands below them.

The terminal, Markdown and the page draw these same values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from perfgate.model.metric import METRICS, Basis, Metric
from perfgate.model.outcome import WORST_FIRST, Outcome
from perfgate.model.verdict import Dropped, MetricVerdict, Stage, Verdict
from perfgate.words import numbers
from perfgate.words.escape import lines, one_line
from perfgate.words.numbers import plural

SHARES: Final = {Metric.GAP_MS: "gap_share", Metric.H2D_MS: "h2d_share"}
"""Metrics that are shown with their share of the step."""

PROPERTIES: Final = ("baseline", "now", "change", "low", "high", "budget", "p_value", "smallest")
"""Of a metric: fields of its row, and names of properties."""


def shown_metrics(verdict: Verdict) -> list[MetricVerdict]:
    """Return the rows of all metrics, those with the worst outcome first."""
    metrics = list(METRICS)

    def place(row: MetricVerdict) -> tuple[int, int]:
        rank = len(WORST_FIRST) if row.outcome is None else WORST_FIRST.index(row.outcome)
        return rank, metrics.index(row.metric)

    return sorted(verdict.metrics, key=place)


def change_cell(row: MetricVerdict) -> str:
    """Return a row's change with its interval; of a count the difference."""
    if not row.is_count:
        if row.change is None:
            return ""
        return numbers.change(row.change, row.unit, row.low, row.high)
    if row.baseline is None or row.now is None:
        return ""
    return numbers.count_change(row.metric, row.baseline, row.now)


def budget_cell(row: MetricVerdict) -> str:
    """Return a row's budget; of a count whether it is exact."""
    if row.is_count:
        return {None: "", True: "exact", False: "varies"}[row.exact]
    return "" if row.budget is None else numbers.limit(row.budget, row.unit)


def outcome_cell(row: MetricVerdict, verdict: Verdict) -> str:
    """Return a row's outcome; of one without a word why."""
    if row.outcome is not None or not verdict.baseline_runs:
        return row.outcome or ""
    # An estimate is of a time that a count left no runs to judge.
    return "new" if row.baseline is None else "estimate" if row.low is not None else "not gated"


def is_unchanged_count(row: MetricVerdict) -> bool:
    """Whether a row is a count that is what it was: worth a word, not a line."""
    same = row.baseline == row.now and row.now is not None
    return row.is_count and row.outcome is Outcome.PASSED and same


def shares(rows: Sequence[MetricVerdict], metric: Metric) -> tuple[str, str]:
    """Return a metric's share of its side's step, before and now; empty where it is not known."""
    by = {row.metric: row for row in rows}
    part, whole = by[metric], by.get(Metric.STEP_MS)
    if metric not in SHARES or whole is None:
        return "", ""
    sides = ((part.baseline, whole.baseline), (part.now, whole.now))
    before, now = ("" if a is None or b is None else numbers.share(a, b) for a, b in sides)
    return before, now


def headline(verdict: Verdict) -> str:
    """Return the first line of a verdict's reason."""
    return next(iter(verdict.reason.splitlines()), "")


def compared_text(verdict: Verdict) -> str:
    """Return how many runs were compared with what; empty where there were none."""
    if verdict.ab_run is not None:
        screened = verdict.ab_run.screen_runs
        after = f", after {plural(screened, 'run')}" if screened else ""
        noun = "interleaved pair" if verdict.stage is Stage.BLOCKS else "pair"
        revision = one_line(verdict.ab_run.revision, longest=60)
        return f"{plural(verdict.ab_run.pairs, noun)} with {revision}{after}"
    against = f" against {verdict.baseline_runs} blessed" if verdict.baseline_runs else ""
    return f"{plural(verdict.runs, 'run')}{against}" if verdict.runs else ""


def step_cells(verdict: Verdict) -> tuple[str, str, str, str]:
    """Return what a step takes, its change, its budget, and the runs; empty where unknown."""
    noun = "run" if verdict.ab_run is None else "pair"
    runs = plural(verdict.compared, noun) if verdict.runs else ""
    step = verdict.of(Metric.STEP_MS)
    if step is None or step.now is None:
        return "", "", "", runs
    return numbers.value(step.metric, step.now), change_cell(step), budget_cell(step), runs


def verdict_parts(verdict: Verdict) -> dict[str, Sequence[str]]:
    """Return what is said of a verdict below its table, by label; what there is nothing of is left
    out."""
    anchor = anchor_text(verdict)
    parts: dict[str, Sequence[str]] = {
        "where": [f"{metric}: {where}" for metric, where in verdict.where.items()],
        "anchor": [anchor] if anchor else [],
        "ranks": verdict.ranks,
        "advice": [f"{advice.evidence}. {advice.usually}" for advice in verdict.advice],
        "dropped": [dropped_text(dropped) for dropped in verdict.dropped],
        "note": (*verdict.warnings, *verdict.information),
    }
    return {label: texts for label, texts in parts.items() if texts}


def dropped_text(dropped: Dropped) -> str:
    """Say which run was dropped as an outlier and why; runs are counted from 1."""
    basis = METRICS[dropped.metric].basis
    distance = numbers.change(dropped.distance, basis.unit)
    off = {Basis.STEP: " of a step off", Basis.LOG: " off"}[basis]
    if distance.startswith("x"):
        off = ""  # it is shown as a factor
    what = "pair" if dropped.side == "pair" else f"{dropped.side} run"
    return f"{what} {dropped.index + 1}: {dropped.metric} {distance}{off} its group's median"


def anchor_text(verdict: Verdict) -> str:
    """Say how far the step is from the best ever blessed; empty where that is not known."""
    drift, unit = verdict.drift, Basis.LOG.unit
    if drift is None:
        return ""
    best = drift.path[0]
    change = numbers.change(drift.change, unit, drift.low, drift.high)
    return (
        f"step_ms {change} against the best ever blessed ({numbers.milliseconds(best.step_ms)} ms "
        f"on {best.at:%Y-%m-%d}), budget {numbers.limit(drift.budget, unit)}"
    )


def interval_text(verdict: Verdict) -> str:
    """Say what the ends of an interval are: the bounds that decide, with their levels."""
    if verdict.loss_alpha is None:
        return "[ ]: interval"
    loss, passed = (f"{100 * of:.4g} %" for of in (1 - verdict.loss_alpha, verdict.pass_confidence))
    return (
        f"[ ]: a loss is shown where the lower end ({loss}) is above 0, a pass where the upper "
        f"end ({passed}) is below the budget"
    )


def counted_text(counted: Mapping[Outcome, int]) -> str:
    """Return how many there are of each outcome, the worst first."""
    shown = [outcome for outcome in WORST_FIRST if counted.get(outcome)]
    return ", ".join(f"{counted[outcome]} {outcome}" for outcome in shown)


# As properties of a test


def properties(verdict: Verdict) -> list[tuple[str, str]]:
    """Return outcome, reason and runs, then of each metric its outcome, values, change, interval,
    budget and p.

    Names are `perfgate.outcome`, `perfgate.step_ms.now` and so on; times in ms, changes as
    fractions; what is not known is left out.
    """
    pairs = [
        ("outcome", verdict.outcome.value),
        ("reason", joined(verdict.reason)),
        ("runs", str(verdict.runs)),
        ("baseline_runs", str(verdict.baseline_runs)),
        ("stage", verdict.stage or ""),
        ("commit", "" if verdict.ab_run is None else verdict.ab_run.commit),
    ]
    for row in verdict.metrics:
        pairs.append((f"{row.metric}.outcome", row.outcome or ""))
        known = {name: getattr(row, name) for name in PROPERTIES}
        pairs += [(f"{row.metric}.{n}", repr(x)) for n, x in known.items() if x is not None]
    pairs += [(f"{metric}.where", joined(where)) for metric, where in verdict.where.items()]
    return [(f"perfgate.{name}", str(value)) for name, value in pairs if value]


def joined(text: str) -> str:
    """Return a text on one line."""
    return " ".join(lines(text))
