"""Before runs are made: which come first, how many more there may be, how long they take, and what
they can hold."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from perfgate.execute.lab import Asked
from perfgate.gate.expect import why_no_screen
from perfgate.gate.underway import Underway
from perfgate.judge.hold import differs_much, holds, may_screen
from perfgate.judge.judge import number_of
from perfgate.judge.looks import AB_PLAN, INTERLEAVED_PLAN, PLANS, STORED_PLAN, Plan, looks_of
from perfgate.model.baseline import BlessedRun, with_held
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import Form, Run
from perfgate.model.verdict import Stage

AB_PLANS: Final = {Form.PAIR: AB_PLAN, Form.BLOCK: INTERLEAVED_PLAN}
"""By the form of an A/B run's pairs."""
BUSY_CORES: Final = 1.1
"""Steps that keep more CPU cores than this busy do several things at once."""
_LEADING: Final = (Metric.STEP_MS, Metric.KERNEL_MS)
"""What leads a verdict."""


# Which way it goes


def why_straight(underway: Underway) -> Note | None:
    """Why an A/B run is begun without a screen; None where runs are screened first.

    Where blessed runs differ so much that unchanged ones could not pass it, blocks will decide
    anyway. Not where a user asked for runs: those of blocks cannot be blessed.
    """
    baseline = underway.stored
    assert baseline is not None
    if (older := why_no_screen(baseline, underway.expected.machine)) is not None:
        return older
    if Form.BLOCK not in _forms(underway) or not begins_in_blocks(underway):
        return None
    budgets = with_held(underway.policy.budgets, baseline)
    return None if may_screen(baseline, budgets, underway.spread) else note("blessed-runs-differ")


def begins_in_blocks(underway: Underway, runs: Sequence[Run] = ()) -> bool:
    """Whether an A/B run is first tried in blocks, by these runs or else the blessed ones.

    What keeps several cores busy does several things at once, and loses that on the one core of
    blocks: then only if runs differ much. Nor where a user asked for a number of runs, which pairs
    of processes make: those of blocks cannot be blessed.
    """
    blessed = underway.blessed
    noisy = blessed is not None and differs_much(blessed)
    if not underway.policy.stops_early:
        return underway.against and noisy
    return noisy or cores_of(runs or (blessed.runs if blessed else ())) <= BUSY_CORES


def cores_of(runs: Sequence[Run | BlessedRun]) -> float:
    """CPU cores that steps kept busy, in the middle of the runs; 0 where nobody knows."""
    known = [run.needs.cores for run in runs if run.needs is not None]
    found = [cores for cores in known if cores is not None]
    return median(found) if found else 0.0


def forms_in_order(underway: Underway, *, in_blocks: bool) -> tuple[Form, ...]:
    """The forms to try: blocks first where they serve, else only where there are no pairs.

    What both sides of a pair of blocks meet at once falls out of their difference, so they settle
    in 3 pairs what processes one after another do in 12, or never (`docs/how-it-decides.md`).
    """
    wanted = (Form.BLOCK, Form.PAIR) if in_blocks else (Form.PAIR, Form.BLOCK)
    there = tuple(form for form in wanted if form in underway.lab.forms)
    return there if in_blocks else there[:1]


def _forms(underway: Underway) -> frozenset[Form]:
    """The forms that an A/B run may have, as far as can be seen before: none where the baseline is
    of no commit."""
    stored = underway.stored
    if stored is not None and all(commit.dirty for commit in stored.commits):
        return frozenset()
    return underway.lab.forms


# What is asked of a lab


def opening(underway: Underway) -> tuple[Asked, ...]:
    """What is asked for first, whatever comes of it.

    Of an A/B run without a screen that is all up to its first look, behind a run for its counts if
    there is a baseline; only that where there is no room or time for such a look.
    """
    policy, forms, asked = underway.policy, _forms(underway), tuple[Asked, ...]()
    if not underway.against:
        if underway.expected.trouble is not None:
            return ()
        if underway.stored is None:
            return ((None, policy.new_runs),)
        if not forms or why_straight(underway) is None:
            return ((None, to_start(underway, Stage.SCREEN, policy.runs)),)
        asked = ((None, 1),)
    form = forms_in_order(underway, in_blocks=begins_in_blocks(underway))[0]
    plan, counts = AB_PLANS[form], len(asked)
    spent = counts + plan.alone_runs
    first, most = looks_of(plan, policy, alone=counts, spent=spent)
    if most < plan.fewest_to_fail or not underway.affords(spent + 2 * first, underway.run_s):
        return asked
    return *asked, *asked_in_pairs(form, first)


def asked_in_pairs(form: Form, pairs: int) -> tuple[Asked, ...]:
    """So many pairs, behind what is made alone before them."""
    alone = AB_PLANS[form].alone_runs
    return ((Form.ALONE, 1), (form, pairs)) if alone else ((form, pairs),)


def to_start(underway: Underway, stage: Stage, more: int) -> int:
    """How many runs are started for so many: a pass takes no fewer, and what is started with the
    others costs little more."""
    to_pass = min(PLANS[stage].fewest_to_pass, underway.policy.max_runs) - len(underway.runs)
    return max(more, to_pass)


# What is said of it


def forecast(underway: Underway) -> tuple[Note, ...]:
    """Return what is to be measured, a note a stage, behind one that says how long that takes."""
    asked, policy, baseline = opening(underway), underway.policy, underway.blessed
    if not asked:
        return (note("plan-nothing"),)
    made = dict(asked)
    runs, first = made.get(None, 0), sum(one if form is None else 2 * one for form, one in asked)
    longest, stages = first, [number_of(STORED_PLAN, runs)] if runs else []
    if underway.stored is None and not underway.against:
        stages = [note("plan-to-show", spending=stages[0])]
    else:
        plan, most = _last(underway, min(runs, policy.runs))
        pairs = sum(made.get(form, 0) for form in AB_PLANS)
        if pairs:
            stages = [note("plan-counts", spending=one) for one in stages]
            stages.append(number_of(plan, pairs))
        left = most - (pairs if plan.is_ab_run else runs)
        if left > 0:
            longest += left * (2 if plan.is_ab_run else 1) + (0 if pairs else plan.alone_runs)
            stages.append(note("plan-if-inconclusive", spending=number_of(plan, left)))
        if baseline is not None:
            budgets = with_held(policy.budgets, baseline)
            known = {one: holds(baseline, one, budgets, plan, runs=most) for one in _LEADING}
            held = [note("held-loss", metric=one, loss=known[one]) for one in known if known[one]]
            stages += [note("plan-holds", losses=tuple(held))] if held else []
    if not underway.run_s:
        return tuple(stages)
    seconds, at_most = (float(round(number * underway.run_s)) for number in (first, longest))
    up_to = note("plan-at-most", seconds=at_most) if longest > first else None
    return note("plan-time", seconds=seconds, at_most=up_to), *stages


def _last(underway: Underway, runs: int) -> tuple[Plan, int]:
    """By which plan it is settled where the first runs do not, and with how many runs or pairs."""
    forms = forms_in_order(underway, in_blocks=begins_in_blocks(underway))
    forms = tuple(form for form in forms if form in _forms(underway))
    plans = [
        (plan, looks_of(plan, underway.policy, alone=runs, spent=runs + plan.alone_runs)[1])
        for plan in (*(AB_PLANS[form] for form in forms), STORED_PLAN)
    ]
    return next((one for one in plans if one[1] >= one[0].fewest_to_fail), plans[-1])
