"""Where nothing can be compared: measures what a baseline needs, and shows it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from perfgate.explain.pace import told_of_pace
from perfgate.gate.comparable import bless_command, verdict_of
from perfgate.gate.endings import Ended, OtherSteps
from perfgate.gate.reference import as_baseline
from perfgate.gate.terms import Checked
from perfgate.gate.underway import Underway
from perfgate.judge.hold import too_coarse
from perfgate.model.baseline import FEWEST_RUNS, Baseline
from perfgate.model.metric import METRICS
from perfgate.model.note import quoted
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import MetricVerdict, Verdict
from perfgate.words import numbers


def measure_alone(underway: Underway, verdict: Verdict) -> Checked:
    """Measure what a baseline needs, and show it with a verdict that says why nothing is compared."""
    wanted = max(underway.policy.new_runs, len(underway.runs))
    while len(underway.runs) < wanted:
        underway.make_run(wanted)
    few = f"Gate with --perfgate-runs={FEWEST_RUNS}: a baseline needs as many, and gates of the same code are joined. "
    changed = told_of_pace(underway.runs)
    enough = len(underway.runs) >= FEWEST_RUNS
    blessed = as_baseline(underway.expectation, underway.runs, None)
    differ: tuple[str, ...] = ()
    if (coarse := too_coarse(blessed, underway.policy.budgets)) is not None:
        shown = f"stored runs could hold no budget of step_ms below {numbers.loss(coarse)}"
        differ = (
            f"Runs differ so much that {shown}: steady the workload or its machine before it is blessed",
        )
    measured = {
        "notes": (
            *verdict.notes,
            *map(quoted, (*differ, *(() if changed is None else (changed,)))),
        ),
        "runs": len(underway.runs),
        "metrics": _shown(underway.expectation.baseline, underway.runs),
        "next": verdict.next if enough else quoted(f"{few}{verdict.next_step}"),
    }
    return underway.checked(verdict.model_copy(update=measured))


def of_other_steps(underway: Underway, other: OtherSteps) -> Checked:
    """Say that its steps are not those of the other side, after measuring what a bless takes where one helps."""
    workload = underway.expectation.workload
    correct = f"Correct the pattern of the steps ({workload.source})"
    bless = f", or bless what they are now: {bless_command(workload.id)}"
    advice = (
        f"{correct}{bless}" if other.stored else f"{correct}, so that both sides have the same."
    )
    verdict = verdict_of(
        underway.expectation, Outcome.INCOMPARABLE, other.differs, advice, runs=underway.runs
    )
    if not other.stored:
        return underway.checked(verdict)
    try:
        return measure_alone(underway, verdict)
    except Ended as ended:
        return underway.checked(ended.verdict)


def _shown(baseline: Baseline | None, runs: Sequence[Run]) -> tuple[MetricVerdict, ...]:
    """What was measured, as medians beside the baseline's, where nothing can be judged."""
    measured = [run.measured() for run in runs]
    return tuple(
        MetricVerdict(
            metric=metric,
            outcome=None,
            baseline=median(baseline.values(metric))
            if baseline is not None and baseline.values(metric)
            else None,
            now=median(values[metric] for values in measured),
            lowest=min(values[metric] for values in measured),
            highest=max(values[metric] for values in measured),
        )
        for metric in METRICS
        if measured and all(metric in values for values in measured)
    )
