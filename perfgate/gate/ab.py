"""Against another commit: pairs of it and the candidate, one after the other or in blocks, until it
is settled; and what a run of that commit must be to be compared with."""

from __future__ import annotations

from statistics import median
from typing import Final

from perfgate.execute.lab import Pair
from perfgate.gate.alike import differs, first_time_work
from perfgate.gate.conclude import conclude
from perfgate.gate.expect import why_no_screen
from perfgate.gate.plan import BUSY_CORES, asked_in_pairs, cores_of
from perfgate.gate.underway import STAGES, Ended, SideUnavailable, Underway, step_times
from perfgate.judge.looks import PLANS, looks_of
from perfgate.model.baseline import Baseline, BlessedRun
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import Severity, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Form, Run
from perfgate.model.verdict import Verdict

SLOWER_ON_ONE_CORE: Final = 1.1
"""And lose by it, where one takes so many times as long on the one core of blocks as alone.

Launch-bound loops are faster there (`benchmarks/host-noise`: 17 %), since their threads take turns.
"""


def by_pairs(underway: Underway, form: Form) -> Verdict:
    """Make pairs and judge them until the plan of the form is settled.

    Raises:
        SideUnavailable: the other commit cannot be run, or there is no room for a first look.
        Ended: a run of the candidate came to nothing, or the two sides have other steps.
    """
    stage, policy = STAGES[form], underway.policy
    plan, alone = PLANS[stage], len(underway.runs)
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
        _check(underway, pair)
    verdict = underway.judged(stage)
    while verdict.more and (not underway.references or underway.may_spend(2 * verdict.more)):
        for pair in underway.make_pairs(form, verdict.more):
            _check(underway, pair)
            verdict = underway.judged(stage)
            if not verdict.more:
                break
    return conclude(underway, verdict)


def _check(underway: Underway, pair: Pair) -> None:
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
