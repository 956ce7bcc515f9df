"""One workload: the stages in their order, until one of them settles it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from perfgate.explain.shown import start_notes
from perfgate.gate.ab import by_pairs
from perfgate.gate.alike import other_form
from perfgate.gate.conclude import (
    because,
    conclude,
    drifted,
    noting,
    other_packages,
    with_run_notes,
)
from perfgate.gate.expect import why_no_screen
from perfgate.gate.plan import begins_in_blocks, forms_in_order, opening, to_start, why_straight
from perfgate.gate.underway import Ended, SideUnavailable, Underway
from perfgate.judge.anchor import clock_moved
from perfgate.model.baseline import FEWEST_RUNS, STEP_VALUE, Baseline
from perfgate.model.metric import METRICS, PERIODS, Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import PASSING, Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import MetricVerdict, Stage, Verdict

_FOLLOW_CLOCK: Final = (*PERIODS, Metric.KERNEL_MS)
"""Of which all, or nearly all, may take longer at a lower clock; copies and the host do not."""


def check(underway: Underway) -> Verdict:
    """Measure one workload as often as its judgement needs, and return the verdict; `underway` has
    the runs that it rests on.

    ```
    no baseline to compare with    runs, to be shown
    a baseline                     screen (counts first), or counts alone where stored times do not
                                   hold; then pairs or blocks of its commit; else stored runs
    against another commit         pairs or blocks
    ```
    Errors of `NotMeasured` become the outcome NOT_MEASURED.
    """
    underway.lab.prepare(*opening(underway))
    try:
        try:
            if underway.against:
                return _by_forms(underway, in_blocks=begins_in_blocks(underway))
            return _against_baseline(underway)
        except Ended as ended:
            if not ended.shows:
                raise
            return _show(underway, ended)
    except Ended as ended:
        return with_run_notes(underway, underway.unjudged(ended.outcome, ended.why))


def _against_baseline(underway: Underway) -> Verdict:
    baseline, own, lab = underway.stored, underway.runs, underway.lab
    if underway.incomparable is not None:
        raise Ended(*underway.incomparable, shows=underway.expected.trouble is None)
    assert baseline is not None
    if not lab.forms:
        return _by_stored(underway, note("no-forms"))
    straight = why_straight(underway)
    verdict = _look(underway, Stage.SCREEN if straight is None else Stage.COUNTS)
    moved = (
        why_no_screen(baseline, underway.expected.machine)
        or clock_moved(baseline.runs, own)[0]
        or other_form(baseline.runs, own)
    )
    if verdict.outcome is Outcome.REGRESSED:  # a count rose
        return conclude(underway, verdict)
    rows = [row.outcome for row in verdict.metrics if not row.exact]
    is_open = verdict.outcome is Outcome.INCONCLUSIVE and Outcome.INCONCLUSIVE in rows
    drift = drifted(underway)
    has_drifted = drift is not None and drift.shown
    if straight is None and moved is None and not is_open and not has_drifted:
        return conclude(underway, verdict)
    if moved is None and (other := other_packages(underway)) is not None:
        return _by_stored(underway, note("packages-of-both-sides", change=other))
    underway.straight = straight or moved
    in_blocks = begins_in_blocks(underway, () if straight else own)
    return _by_forms(underway, in_blocks=in_blocks or (straight is None and verdict.noisy))


def _by_forms(underway: Underway, *, in_blocks: bool) -> Verdict:
    """Settle it by the first form of an A/B run that can be had, `in_blocks` if it may be; where
    none can, by stored runs."""
    for form in forms_in_order(underway, in_blocks=in_blocks):
        try:
            return by_pairs(underway, form)
        except SideUnavailable as none:
            last, underway.no_pairs = none, none.why
            # Nothing else is judged by what pairs have made that came to nothing.
            underway.references.clear()
            underway.blocks.clear()
            if none.in_no_form:
                break
    if underway.stored is not None:
        return _by_stored(underway, last.why)
    if last.in_no_form:
        raise Ended(Outcome.NO_BASELINE, last.why, shows=True)
    raise Ended(Outcome.NOT_MEASURED, last.why)


# Against stored runs


def _look(underway: Underway, stage: Stage) -> Verdict:
    """Measure and judge by the looks of a stage until it is settled, or may spend no more.

    Raises:
        Ended: a run came to nothing, or cannot be held against the stored ones.
    """
    verdict, runs = underway.judged(stage), underway.runs
    while verdict.more and _may_go_on(underway, verdict):
        looks_at = len(runs) + verdict.more
        for _ in underway.make(to_start(underway, stage, verdict.more)):
            verdict = underway.judged(stage)
            if not verdict.more:
                break
            if len(runs) == looks_at:
                if not _may_go_on(underway, verdict):
                    return verdict
                looks_at += verdict.more
    return verdict


def _may_go_on(underway: Underway, verdict: Verdict) -> bool:
    """Whether there is time for the runs that a verdict wants; the first look always has it."""
    return len(underway.runs) < underway.policy.runs or underway.may_spend(verdict.more)


def _by_stored(underway: Underway, no_pairs: Note) -> Verdict:
    """Settle it by stored runs alone; `no_pairs` says why there is no A/B run.

    Raises:
        Ended: as `_look` does.
    """
    baseline = underway.stored
    assert baseline is not None
    if baseline.step_value != STEP_VALUE:
        why = note("step-value-differs", workload=baseline.workload, value=baseline.step_value)
        raise Ended(Outcome.INCOMPARABLE, why, shows=True)
    underway.no_pairs = no_pairs
    verdict = _look(underway, Stage.STORED)
    if (other := other_form(baseline.runs, underway.runs)) is not None:
        raise underway.not_comparable(other)
    verdict = _left_open_by_clock(verdict, baseline, underway.runs)
    if underway.lab.forms and verdict.outcome is Outcome.INCONCLUSIVE:
        verdict = verdict.model_copy(update={"next": no_pairs})
    return conclude(underway, verdict)


def _left_open_by_clock(verdict: Verdict, baseline: Baseline, runs: Sequence[Run]) -> Verdict:
    """Leave open what a lower SM clock alone would make of the code that was blessed, and a loss
    that a higher one may hide: stored times are not what they would be now."""
    moved, longer = clock_moved(baseline.runs, runs)
    rise = 1 / (1 + longer) - 1
    lost = [row for row in verdict.metrics if row.outcome is Outcome.REGRESSED]
    following = [
        row
        for row in verdict.metrics
        if row.metric in _FOLLOW_CLOCK and row.change is not None and row.budget is not None
    ]
    by_it = [row for row in following if row.low is not None and row.low <= longer]
    if moved is not None and lost and all(row in by_it for row in lost):
        code, opened = "clock-may-be-the-loss", lost
    # All follow the clock, and whichever is held closest must not lose unseen.
    elif verdict.outcome in PASSING and rise > min(
        (row.budget or 0.0 for row in following), default=0.0
    ):
        code, opened = "clock-may-hide-a-loss", following
    else:
        return verdict
    rows = tuple(
        row.model_copy(
            update={
                "outcome": Outcome.INCONCLUSIVE,
                "estimate": (1 + (row.change or 0.0)) * (1 + rise) - 1,
            }
        )
        if row in opened
        else row
        for row in verdict.metrics
    )
    metrics = tuple(row.metric for row in opened)
    fields = {"clock": moved, "longer": longer, "rise": rise, "metrics": metrics}
    why = Note(code=code, fields={"workload": verdict.workload, **fields})
    left = {"metrics": rows, "loss_level": None, "loss_by": None}
    return because(verdict.model_copy(update=left), Outcome.INCONCLUSIVE, why)


# Nothing to compare with


def _show(underway: Underway, ended: Ended) -> Verdict:
    """Measure what a baseline needs, and show it with why nothing is compared.

    Raises:
        Ended: a run came to nothing.
    """
    runs, underway.stored = underway.runs, None
    for _ in underway.make(max(underway.policy.new_runs - len(runs), 0)):
        pass
    few = [note("too-few-runs-to-bless", runs=FEWEST_RUNS)] if len(runs) < FEWEST_RUNS else []
    baseline, rows = underway.expected.baseline, list[MetricVerdict]()
    # Medians next to the baseline's, where nothing can be judged.
    for metric in METRICS:
        then = baseline.values(metric) if baseline else ()
        now = [value for run in runs if (value := run.value(metric)) is not None]
        if now and len(now) == len(runs):
            rows.append(
                MetricVerdict(
                    metric=metric,
                    outcome=None,
                    baseline=median(then) if then else None,
                    now=median(now),
                    lowest=min(now),
                    highest=max(now),
                )
            )
    verdict = underway.unjudged(ended.outcome, ended.why)
    verdict = verdict.model_copy(update={"metrics": tuple(rows)})
    return with_run_notes(underway, noting(verdict, *few, *start_notes(runs)))
