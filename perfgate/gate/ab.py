"""Against another commit: pairs of it and the candidate, one after the other or in blocks, until it
is settled."""

from __future__ import annotations

from collections.abc import Collection

from perfgate.execute.lab import Asked
from perfgate.gate.conclude import conclude
from perfgate.gate.expect import why_no_screen
from perfgate.gate.reference import (
    StepsAlone,
    as_baseline,
    check_alike,
    check_reference,
    check_steps,
)
from perfgate.gate.underway import STAGES, Checked, SideUnavailable, Underway, step_times
from perfgate.judge.judge import judge
from perfgate.judge.looks import PLANS, Plan, looks_of
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import Form
from perfgate.model.verdict import ABRun, Verdict


def forms_in_order(forms: Collection[Form], *, in_blocks: bool) -> tuple[Form, ...]:
    """The forms to try: blocks first where they serve, else only where there are no pairs.

    What both sides of a pair of blocks meet at once falls out of their difference, so they settle
    in 3 pairs what processes one after another do in 12, or never (`docs/how-it-decides.md`).
    """
    wanted = (Form.BLOCK, Form.PAIR) if in_blocks else (Form.PAIR, Form.BLOCK)
    there = tuple(form for form in wanted if form in forms)
    return there if in_blocks else there[:1]


def first_look(underway: Underway, form: Form, *, counts: int) -> tuple[Asked, ...]:
    """All that is made up to the first look at pairs, behind a run for its counts if there is one;
    only that where there is no room or time for such a look."""
    plan = PLANS[STAGES[form]]
    spent = counts + plan.alone_runs
    first, most = looks_of(plan, underway.policy, alone=counts, spent=spent)
    asked: tuple[Asked, ...] = ((None, counts),) if counts else ()
    if most < plan.fewest_to_fail or not underway.affords(spent + 2 * first, underway.run_s):
        return asked
    return *asked, *_asked(plan, form, first)


def _asked(plan: Plan, form: Form, pairs: int) -> tuple[Asked, ...]:
    return ((Form.ALONE, 1), (form, pairs)) if plan.alone_runs else ((form, pairs),)


def by_pairs(
    underway: Underway,
    form: Form,
    stored: Baseline | None,
    *,
    straight: Note | None,
    no_blocks: Note | None = None,
) -> Checked:
    """Make pairs until the plan of the form is settled.

    Args:
        underway: the gate.
        form: of the pairs.
        stored: the baseline whose commit is the other one; None where any other was asked for.
        straight: why the screen does not count, where it does not.
        no_blocks: why they could not be made in blocks, where that was tried.

    Raises:
        SideUnavailable: the other commit cannot be run, or there is no room for a first look.
        Differs: the two sides have other steps.
        Ended: a run of the candidate came to nothing.
    """
    stage, policy = STAGES[form], underway.policy
    plan, alone = PLANS[stage], len(underway.runs)
    underway.spent = alone + plan.alone_runs
    first, most = looks_of(plan, policy, alone=alone, spent=underway.spent)
    if most < plan.fewest_to_fail:
        needed = underway.spent + 2 * plan.fewest_to_fail
        why = note("no-runs-for-pairs", runs=policy.max_runs, needed=needed)
        raise SideUnavailable(why, has_remedy=True)
    to_start = 2 * first + plan.alone_runs - underway.lab.started
    if to_start > 0 and not underway.may_spend(to_start):
        raise SideUnavailable(note("no-time-for-pairs", pairs=first), has_remedy=True)
    underway.lab.prepare(*_asked(plan, form, first))
    try:
        steps = _alone(underway, stored) if form is Form.BLOCK else None
        screened = len(underway.runs)
        verdict = _pairs(underway, form, stored, steps)
    except SideUnavailable:
        underway.without_pairs()
        raise
    if no_blocks is not None:
        underway.note("no-blocks", why=no_blocks)
    if straight is not None:
        underway.note("straight-to-ab-run", why=straight)
    if form is Form.BLOCK:
        underway.note("in-blocks")
    ab_run = ABRun(
        revision=underway.lab.revision,
        commit=underway.lab.commit,
        pairs=len(underway.references),
        screen_runs=screened,
    )
    reference = as_baseline(underway.expected, underway.references, stored)
    return conclude(underway, verdict, stored, reference=reference, ab_run=ab_run)


def _alone(underway: Underway, stored: Baseline | None) -> StepsAlone:
    """What a step takes on either side where it is alone and may use all cores."""
    (pair,) = underway.make_pairs(Form.ALONE, 1)
    check_reference(pair.reference, stored, pair.candidate)
    check_steps([pair.reference], [pair.candidate], underway.expected, stored)
    blessed: tuple[float, ...] = ()
    if stored is not None and why_no_screen(stored, underway.lab.machine) is None:
        blessed = stored.values(Metric.STEP_MS)
    then, now = step_times([pair.reference]), step_times(underway.runs)
    return StepsAlone(then=then, now=now, pair=pair, blessed=blessed)


def _pairs(
    underway: Underway, form: Form, stored: Baseline | None, steps: StepsAlone | None
) -> Verdict:
    """Make pairs and judge them, from the first look on, until the plan is settled."""
    stage, references = STAGES[form], underway.references
    own = underway.blocks if form is Form.BLOCK else underway.runs
    before = len(own)
    verdict = judge(underway.evidence(stored), underway.policy, stage)
    while verdict.more and (not references or underway.may_spend(2 * verdict.more)):
        for pair in underway.make_pairs(form, verdict.more):
            check_reference(pair.reference, stored, pair.candidate)
            check_steps(references, own[before:], underway.expected, stored)
            check_alike(references)
            if steps is not None:
                steps.check(step_times(references), step_times(own))
            verdict = judge(underway.evidence(stored), underway.policy, stage)
            if not verdict.more:
                break
    return verdict
