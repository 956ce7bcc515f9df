"""One workload: the stages in their order, until one of them settles it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from perfgate.execute.lab import Pair
from perfgate.explain.shown import start_notes
from perfgate.gate.alike import differs, first_time_work, other_form
from perfgate.gate.conclude import (
    because,
    conclude,
    drifted,
    noting,
    other_packages,
    with_run_notes,
)
from perfgate.gate.expect import why_no_screen
from perfgate.gate.plan import (
    AB_PLANS,
    BUSY_CORES,
    asked_in_pairs,
    begins_in_blocks,
    cores_of,
    forms_in_order,
    opening,
    to_start,
    why_straight,
)
from perfgate.gate.underway import Ended, SideUnavailable, Underway, step_times
from perfgate.judge.anchor import clock_moved
from perfgate.judge.looks import looks_of
from perfgate.model.baseline import FEWEST_RUNS, STEP_VALUE, Baseline, BlessedRun
from perfgate.model.metric import METRICS, PERIODS, Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.outcome import PASSING, Outcome
from perfgate.model.sample import Form, Run
from perfgate.model.verdict import MetricVerdict, Stage, Verdict

_FOLLOW_CLOCK: Final = (*PERIODS, Metric.KERNEL_MS)
"""Of which all, or nearly all, may take longer at a lower clock; copies and the host do not."""
SLOWER_ON_ONE_CORE: Final = 1.1
"""Steps that keep several cores busy lose by the one core of blocks where one takes so many times
as long there as alone.

Launch-bound loops are faster there (`benchmarks/host-noise`: 17 %), since their threads take turns.
"""


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
            return _by_pairs(underway, form)
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


# Against another commit


def _by_pairs(underway: Underway, form: Form) -> Verdict:
    """Make pairs and judge them until the plan of the form is settled.

    Raises:
        SideUnavailable: the other commit cannot be run, or there is no room for a first look.
        Ended: a run of the candidate came to nothing, or the two sides have other steps.
    """
    plan, policy, alone = AB_PLANS[form], underway.policy, len(underway.runs)
    underway.spent = alone + plan.alone_runs
    first, most = looks_of(plan, policy, alone=alone, spent=underway.spent)
    if most < plan.fewest_to_fail:
        needed = underway.spent + 2 * plan.fewest_to_fail
        raise SideUnavailable(note("no-runs-for-pairs", runs=policy.max_runs, needed=needed))
    if not underway.may_spend(2 * first + plan.alone_runs):
        raise SideUnavailable(note("no-time-for-pairs", pairs=first))
    underway.lab.prepare(*asked_in_pairs(form, first))
    if form is Form.BLOCK:  # what a step takes on either side that may use all cores
        (pair,) = underway.make_pairs(Form.ALONE, 1)
        _hold_together(underway, pair)
    verdict = underway.judged(plan.stage)
    while verdict.more and (not underway.references or underway.may_spend(2 * verdict.more)):
        for pair in underway.make_pairs(form, verdict.more):
            _hold_together(underway, pair)
            verdict = underway.judged(plan.stage)
            if not verdict.more:
                break
    return conclude(underway, verdict)


def _hold_together(underway: Underway, pair: Pair) -> None:
    """Hold the other commit's runs against what is known of them, and the candidate's against them.

    Raises:
        Ended: the machine was not fit for one, or the candidate does something else.
        SideUnavailable: one is no measurement, or not of what was blessed.
    """
    run, there = pair.reference, underway.references or underway.alone_there
    if unfit := run.conditions.invalid:
        raise Ended(Outcome.INVALID, note("reference-unfit", why=unfit))
    if why := (*run.invalid, *first_time_work(underway.references)):
        loud = (one for one in run.notes if one.severity is Severity.WARN)
        raise SideUnavailable(note("reference-invalid", why=(*why, *loud)))
    stored = underway.stored
    if stored is not None:
        _check_blessed(run, stored)
    measured = [one.measured().keys() for one in there]
    wanted = {one for one in METRICS if stored is not None and stored.values(one)}.union(*measured)
    lacking = [one for one in METRICS if one in wanted and not all(one in of for of in measured)]
    if gated := tuple(one for one in lacking if METRICS[one].gated):
        # Were the candidate's runs to lack it as well, nobody would miss it.
        raise SideUnavailable(note("side-lacks-metrics", metrics=gated))
    then = [BlessedRun.of(one) for one in there]
    for own in underway.own[-len(then) :]:
        if (other := differs(then, own)) is not None:
            raise underway.not_comparable(other)
    if underway.blocks:
        _check_one_core(underway)


def _check_blessed(run: Run, stored: Baseline) -> None:
    """Hold a run of the baseline's commit against what was blessed of it.

    Raises:
        SideUnavailable: it does something else now.
    """
    if (other := differs(stored.runs, run)) is not None:
        raise SideUnavailable(note("side-differs-from-blessed", differs=other))
    for metric, value in run.counts().items():
        blessed = stored.values(metric)
        spread = max(blessed) - min(blessed) if blessed else 0.0
        if blessed and not min(blessed) - spread <= value <= max(blessed) + spread:
            raise SideUnavailable(
                note("side-count-changed", metric=metric, then=median(blessed), now=value)
            )


def _check_one_core(underway: Underway) -> None:
    """Hold the steps of blocks, on one core, against those of runs alone.

    What several cores do at once is lost there on both sides, and a change that loses it would not
    show. By how much the slowest of the blessed runs of this machine took longer, one of today may.

    Raises:
        SideUnavailable: a side that keeps several busy is slower there than a run alone may be.
    """
    stored, slowest = underway.stored, 1.0
    if stored is not None and why_no_screen(stored, underway.lab.machine) is None:
        blessed = stored.values(Metric.STEP_MS)
        slowest = max(blessed) / median(blessed) if blessed and median(blessed) else 1.0
    for side, alone, in_blocks in (
        ("other commit", underway.alone_there, underway.references),
        ("candidate", underway.runs, underway.blocks),
    ):
        cores, before, now = cores_of(alone[-1:]), step_times(alone), step_times(in_blocks)
        if cores <= BUSY_CORES or not before or not now:
            continue
        if median(now) > SLOWER_ON_ONE_CORE * slowest * max(before):
            raise SideUnavailable(
                note(
                    "needs-several-cores",
                    side=side,
                    step_ms=median(now),
                    alone_ms=max(before),
                    cores=cores,
                )
            )


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
