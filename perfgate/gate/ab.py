"""Against another commit: pairs of it and the candidate, one after the other or in blocks, until it is settled."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from perfgate.gate.conclude import conclude
from perfgate.gate.expect import why_no_screen
from perfgate.gate.reference import (
    StepsAlone,
    as_baseline,
    check_alike,
    check_reference,
    check_steps,
)
from perfgate.gate.underway import Checked, SideUnavailable, Underway, step_times
from perfgate.judge.evidence import Evidence
from perfgate.judge.judge import judge
from perfgate.judge.looks import DUET_PLAN, INTERLEAVED_PLAN, Plan
from perfgate.judge.pairing import beside
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.policy import Policy
from perfgate.model.sample import Form
from perfgate.model.verdict import Duet, Verdict

PLANS: Final = {Form.PAIR: DUET_PLAN, Form.BLOCK: INTERLEAVED_PLAN}
"""The looks that suit a form."""


def forms_in_order(forms: Collection[Form], *, noisy: bool) -> tuple[Form, ...]:
    """The forms to try: blocks first where runs differ much, else only where there are no pairs."""
    wanted = (Form.BLOCK, Form.PAIR) if noisy else (Form.PAIR, Form.BLOCK)
    there = tuple(form for form in wanted if form in forms)
    return there if noisy else there[:1]


def first_pairs(plan: Plan, policy: Policy, *, before: int, most: int) -> int:
    """Pairs before the first look, of `most` at all and after so many runs of the candidate.

    Where a user asked for runs, pairs are made until there are so many: a bless takes those that
    were alone.
    """
    asked = 0 if policy.stops_early or plan.in_pairs else policy.runs - before
    return min(max(plan.fewest_to_fail, asked), most)


def most_pairs(plan: Plan, policy: Policy, *, before: int) -> int:
    """How many pairs there may be after so many runs of the candidate."""
    return min((policy.max_runs - before - plan.alone_runs) // 2, plan.most_runs)


def by_pairs(
    underway: Underway, form: Form, stored: Baseline | None, *, straight: Note | None
) -> Checked:
    """Make pairs until the plan of the form is settled.

    Args:
        underway: the gate.
        form: of the pairs.
        stored: the baseline whose commit is the other one; None where any other was asked for.
        straight: why the screen does not count, where it does not.

    Raises:
        SideUnavailable: the other commit cannot be run, or there is no room for a first look.
        Differs: the two sides have other steps.
        Ended: a run of the candidate came to nothing.
    """
    plan, before = PLANS[form], len(underway.runs)
    most = most_pairs(plan, underway.policy, before=before)
    first = first_pairs(plan, underway.policy, before=before, most=plan.most_runs)
    if most < plan.fewest_to_fail:
        needed = before + plan.alone_runs + 2 * plan.fewest_to_fail
        raise SideUnavailable(
            note("no-runs-for-pairs", runs=underway.policy.max_runs, needed=needed)
        )
    if not underway.may_spend(2 * first + plan.alone_runs):
        raise SideUnavailable(note("no-time-for-pairs", pairs=first))
    try:
        alone = _alone(underway, stored) if form is Form.BLOCK else None
        screened = tuple(underway.runs)
        evidence = replace(
            underway.evidence(stored),
            spent=before + plan.alone_runs,
            can_pair=frozenset(PLANS[one].stage for one in underway.lab.forms),
        )
        verdict, reference = _pairs(underway, form, evidence, alone)
    except SideUnavailable:
        underway.without_pairs()
        raise
    if straight is not None:
        underway.note("straight-to-ab-run", why=straight)
    if form is Form.BLOCK:
        underway.note("in-blocks")
    duet = Duet(
        revision=underway.lab.revision,
        commit=underway.lab.commit,
        pairs=len(underway.references),
        screen_runs=len(screened),
    )
    return conclude(underway, verdict, stored, reference=reference, duet=duet)


def _alone(underway: Underway, stored: Baseline | None) -> StepsAlone:
    """What a step takes on either side where it is alone and may use all cores."""
    (pair,) = underway.make_pairs(Form.ALONE, 1)
    check_reference(pair.reference, stored, pair.candidate)
    check_steps([pair.reference], [pair.candidate], underway.expected, stored)
    then = step_times([pair.reference])
    if stored is not None and why_no_screen(stored, underway.lab.machine) is None:
        then = (*then, *stored.values(Metric.STEP_MS))
    return StepsAlone(then=then, now=step_times(underway.runs), cores=pair.cores)


def _pairs(
    underway: Underway, form: Form, evidence: Evidence, alone: StepsAlone | None
) -> tuple[Verdict, Baseline]:
    """Make pairs and judge them until the plan is settled.

    Returns the last verdict, and what it compared with.
    """
    expected, stored, references = underway.expected, evidence.blessed, underway.references
    own, stage = (underway.blocks if form is Form.BLOCK else underway.runs), PLANS[form].stage
    before = len(own)
    verdict = judge(evidence, underway.policy, stage)
    while verdict.more and (not references or underway.may_spend(2 * verdict.more)):
        for pair in underway.make_pairs(form, verdict.more):
            candidates = own[before:]
            check_reference(pair.reference, stored, pair.candidate)
            check_steps(references, candidates, expected, stored)
            check_alike(references)
            if alone is not None:
                alone.check(step_times(references), step_times(own))
                candidates = [beside(*both) for both in zip(references, candidates, strict=True)]
            pairs = tuple(zip(references, candidates, strict=True))
            verdict = judge(replace(evidence, pairs=pairs), underway.policy, stage)
            if not verdict.more:
                break
    return verdict, as_baseline(expected, references, stored)
