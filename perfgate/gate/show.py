"""Where nothing can be compared: measures what a baseline needs, and shows it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from perfgate.explain.pace import pace_notes
from perfgate.gate.notes import noting, verdict_of
from perfgate.gate.reference import as_baseline
from perfgate.gate.underway import Checked, Underway
from perfgate.judge.hold import too_coarse
from perfgate.model.baseline import FEWEST_RUNS, Baseline
from perfgate.model.metric import METRICS
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import MetricVerdict


def show(underway: Underway, outcome: Outcome, why: Note) -> Checked:
    """Measure what a baseline needs, and show it with why nothing is compared.

    Raises:
        Ended: a run came to nothing.
    """
    runs = underway.runs
    for _ in underway.make(max(underway.policy.new_runs - len(runs), 0)):
        pass
    notes: list[Note] = []
    if len(runs) < FEWEST_RUNS:
        notes.append(note("too-few-runs-to-bless", runs=FEWEST_RUNS))
    blessed = as_baseline(underway.expected, runs, None)
    if (coarse := too_coarse(blessed, underway.policy.budgets)) is not None:
        notes.append(note("runs-too-coarse", loss=coarse))
    notes += pace_notes(runs)
    verdict = verdict_of(underway.expected, outcome, why, runs=len(runs))
    rows = _medians(underway.expected.baseline, runs)
    return underway.checked(noting(verdict.model_copy(update={"metrics": rows}), *notes))


def _medians(baseline: Baseline | None, runs: Sequence[Run]) -> tuple[MetricVerdict, ...]:
    """What was measured, as medians next to the baseline's, where nothing can be judged."""
    measured = [run.measured() for run in runs]
    then = {
        metric: median(values)
        for metric in METRICS
        if baseline is not None and (values := baseline.values(metric))
    }
    return tuple(
        MetricVerdict(
            metric=metric,
            outcome=None,
            baseline=then.get(metric),
            now=median(values[metric] for values in measured),
            lowest=min(values[metric] for values in measured),
            highest=max(values[metric] for values in measured),
        )
        for metric in METRICS
        if measured and all(metric in values for values in measured)
    )
