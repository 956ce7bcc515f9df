"""Against stored runs: looks at more and more runs of the candidate, until a plan of looks is
settled; and where nothing can be compared, what a baseline needs, to be shown."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from perfgate.execute.lab import Asked
from perfgate.explain.shown import start_notes
from perfgate.gate.alike import launches_gone, other_form, other_processes, other_steps
from perfgate.gate.conclude import conclude, drifted
from perfgate.gate.notes import because, noting, verdict_of
from perfgate.gate.reference import as_baseline
from perfgate.gate.underway import Checked, Differs, Underway
from perfgate.judge.anchor import by_clock, clock_moved
from perfgate.judge.hold import too_coarse
from perfgate.judge.judge import judge
from perfgate.judge.looks import PLANS
from perfgate.model.baseline import FEWEST_RUNS, STEP_VALUE, Baseline
from perfgate.model.metric import METRICS, PERIODS, Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import PASSING, Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import MetricVerdict, Stage, Verdict

_FOLLOW_CLOCK: Final = (*PERIODS, Metric.KERNEL_MS)
"""Of which all, or nearly all, may take longer at a lower clock; copies and the host do not."""


def look(underway: Underway, baseline: Baseline, stage: Stage) -> Verdict:
    """Measure and judge by the looks of a stage until it is settled, or may spend no more.

    Raises:
        Ended: a run came to nothing.
        Differs: a run cannot be held against the stored ones.
    """
    refuse_others(underway, baseline)
    verdict = judge(underway.evidence(baseline), underway.policy, stage)
    runs = underway.runs
    while verdict.more and _may_go_on(underway, baseline, verdict):
        looks_at = len(runs) + verdict.more
        for _ in underway.make(_to_start(underway, verdict, stage)):
            refuse_others(underway, baseline)
            verdict = judge(underway.evidence(baseline), underway.policy, stage)
            if not verdict.more:
                break
            if len(runs) == looks_at:
                if not _may_go_on(underway, baseline, verdict):
                    return verdict
                looks_at += verdict.more
    return verdict


def first_runs(underway: Underway, baseline: Baseline, stage: Stage) -> tuple[Asked, ...]:
    """What `look` begins with."""
    verdict = judge(underway.evidence(baseline), underway.policy, stage)
    return ((None, _to_start(underway, verdict, stage)),)


def _to_start(underway: Underway, verdict: Verdict, stage: Stage) -> int:
    """A pass takes no fewer, and what is started with the others costs little more."""
    to_pass = min(PLANS[stage].fewest_to_pass, underway.policy.max_runs) - len(underway.runs)
    return max(verdict.more, to_pass)


def _may_go_on(underway: Underway, baseline: Baseline, verdict: Verdict) -> bool:
    """Whether there is time for the runs that a verdict wants, and they may still change it."""
    if len(underway.runs) < underway.policy.runs:
        return True
    if verdict.stage is Stage.STORED:
        drift = drifted(underway, baseline)
        if drift is not None and drift.shown:
            return False
    return underway.may_spend(verdict.more)


def is_settled(
    underway: Underway, baseline: Baseline, verdict: Verdict, *, clock: Note | None
) -> bool:
    """Whether a screen in which no count rose has the last word: all is well at the blessed
    clock."""
    rows = verdict.metrics
    is_open = any(row.outcome is Outcome.INCONCLUSIVE and not row.exact for row in rows)
    if clock is not None or (is_open and verdict.outcome is Outcome.INCONCLUSIVE):
        return False
    drift = drifted(underway, baseline)
    return drift is None or not drift.shown


def by_stored(
    underway: Underway,
    baseline: Baseline,
    *,
    no_pairs: Note | None = None,
    remedy: Note | None = None,
) -> Checked:
    """Settle it by stored runs alone; `no_pairs` says why an A/B run came to nothing, if tried."""
    if baseline.step_value != STEP_VALUE:
        why = note("step-value-differs", workload=baseline.workload, value=baseline.step_value)
        raise Differs(why, stored=True)
    underway.no_pairs = no_pairs
    verdict = look(underway, baseline, Stage.STORED)
    if (differs := other_form(baseline.runs, underway.runs)) is not None:
        raise Differs(note("runs-differ", workload=baseline.workload, differs=differs), stored=True)
    verdict = left_open_by_clock(verdict, baseline, underway.runs)
    if remedy is not None and verdict.outcome is Outcome.INCONCLUSIVE:
        verdict = verdict.model_copy(update={"next": remedy})
    return conclude(underway, verdict, baseline)


def refuse_others(underway: Underway, baseline: Baseline) -> None:
    """Refuse runs of other steps or processes than the baseline's.

    Raises:
        Differs: one is.
    """
    workload = underway.expected.workload
    for run in underway.runs:
        if (differs := other_steps(baseline.runs, run)) is not None:
            why = note("steps-differ", workload=workload.id, file=workload.source, differs=differs)
            raise Differs(why, stored=True)
        differs = other_processes(baseline, run) or launches_gone(baseline.runs, run)
        if differs is not None:
            why = note("runs-differ", workload=workload.id, differs=differs)
            raise Differs(why, stored=True)


# Another SM clock than at the blessing: stored times are not what they would be now


def left_open_by_clock(verdict: Verdict, baseline: Baseline, runs: Sequence[Run]) -> Verdict:
    """Leave open what a lower SM clock alone would make of the code that was blessed, and a loss
    that a higher one may hide."""
    moved, longer = clock_moved(baseline.runs, runs), by_clock(baseline.runs, runs)
    lost = [row for row in verdict.metrics if row.outcome is Outcome.REGRESSED]
    if moved is not None and lost and all(_is_by_clock(row, longer) for row in lost):
        why = note(
            "clock-may-be-the-loss",
            workload=verdict.workload,
            clock=moved,
            longer=longer,
            metrics=tuple(row.metric for row in lost),
        )
        rows = [_opened(row) if row in lost else row for row in verdict.metrics]
        no_loss = {"metrics": tuple(rows), "loss_level": None, "loss_by": None}
        return because(verdict.model_copy(update=no_loss), Outcome.INCONCLUSIVE, why)
    # All follow the clock, and whichever is held closest must not lose unseen.
    following = [
        row
        for row in verdict.metrics
        if row.metric in _FOLLOW_CLOCK and row.change is not None and row.budget is not None
    ]
    closest = min((row.budget or 0.0 for row in following), default=0.0)
    rise = 1 / (1 + longer) - 1
    if verdict.outcome not in PASSING or rise <= closest:
        return verdict
    why = note("clock-may-hide-a-loss", workload=verdict.workload, clock=moved, rise=rise)
    rows = [
        _opened(row, estimate=(1 + (row.change or 0.0)) * (1 + rise) - 1)
        if row in following
        else row
        for row in verdict.metrics
    ]
    opened = verdict.model_copy(update={"metrics": tuple(rows)})
    return because(opened, Outcome.INCONCLUSIVE, why)


def _is_by_clock(row: MetricVerdict, longer: float) -> bool:
    return row.metric in _FOLLOW_CLOCK and row.low is not None and row.low <= longer


def _opened(row: MetricVerdict, **more: float) -> MetricVerdict:
    return row.model_copy(update={"outcome": Outcome.INCONCLUSIVE, **more})


# Nothing to compare with


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
    notes += start_notes(runs)
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
