"""A duet: which form of it suits a workload, and pairs of another commit and the candidate until it is settled."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from perfgate.gate.beginning import first_pairs, plans_in_order
from perfgate.gate.comparable import why_no_screen
from perfgate.gate.conclusion import conclude
from perfgate.gate.endings import NoDuet
from perfgate.gate.reference import (
    StepsAlone,
    as_baseline,
    check_alike,
    check_reference,
    check_steps,
)
from perfgate.gate.terms import NO_DUET_BY, Checked, Duel, Forms, OpenDuel
from perfgate.gate.underway import Underway, step_times
from perfgate.judge.evidence import Evidence
from perfgate.judge.judge import judge
from perfgate.judge.looks import DUET_PLAN, INTERLEAVED_PLAN, Plan
from perfgate.judge.pairing import beside
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.note import quoted
from perfgate.model.verdict import Duet, Stage, Verdict
from perfgate.model.words import plural


def in_order(forms: Forms, *, noisy: bool) -> tuple[tuple[OpenDuel, Plan], ...]:
    """The forms to try, the one that suits what is known of how much runs differ first, each with its looks."""
    plans = plans_in_order(
        alternate=forms.alternate is not None,
        interleaved=forms.interleaved is not None,
        noisy=noisy,
    )
    by_plan = {DUET_PLAN: forms.alternate, INTERLEAVED_PLAN: forms.interleaved}
    return tuple((form, plan) for plan in plans if (form := by_plan[plan]) is not None)


def settle_by_duet(
    underway: Underway,
    form: OpenDuel,
    plan: Plan,
    stored: Baseline | None,
    *,
    why: str | None,
    could_interleave: bool = False,
) -> Checked:
    """Make pairs until the plan of the duet is settled.

    Args:
        underway: the gate.
        form: makes the other commit ready.
        plan: the looks that suit that form.
        stored: the baseline, whose commit is the other one; None where any other was asked for.
        why: tells why the screen does not count, where it does not.
        could_interleave: whether there is an interleaved duet to be had, where this is none.

    Raises:
        NoDuet: the other commit cannot be run, or what may be spent does not suffice for its first look.
        OtherSteps: the two sides have other steps.
        Ended: a run of the candidate came to nothing.
    """
    first = first_pairs(plan, underway.policy, before=len(underway.runs), most=plan.most_runs)
    if not underway.may_spend(2 * first + plan.alone_runs):
        raise NoDuet(
            f"the time budget leaves no room for {first} pairs.\nAllow more: --perfgate-time-budget"
        )
    try:
        with form() as duel:
            _refuse_too_few(underway, plan)
            before = len(underway.runs) + plan.alone_runs
            alone = _alone(underway, duel, stored) if plan.in_pairs else None
            screen_runs = len(underway.runs)
            evidence = replace(
                underway.evidence(stored),
                spent=before,
                can_pair=frozenset({Stage.INTERLEAVED} if could_interleave else ()),
            )
            verdict, reference = _pairs(underway, duel, evidence, plan, alone)
    except (*NO_DUET_BY, NoDuet) as impossible:
        underway.without_duet()
        if isinstance(impossible, NoDuet):
            raise
        raise NoDuet(str(impossible)) from impossible
    if why is not None:
        underway.notes.append(quoted(f"Straight to the duet: {why}"))
    if plan.in_pairs:
        underway.notes.append(
            quoted(
                "Interleaved: both sides took turns of a few steps on one CPU core, where steps take "
                "another time than alone; what is judged is how each turn differs from the other "
                "side's before and after it"
            )
        )
    pairs = len(underway.reference_runs)
    told = Duet(revision=duel.revision, commit=duel.commit, pairs=pairs, screen_runs=screen_runs)
    return conclude(underway, verdict, stored, reference=reference, duet=told)


def _refuse_too_few(underway: Underway, plan: Plan) -> None:
    """Refuse an A/B run that could make no pairs to speak of.

    Raises:
        NoDuet: fewer than the duet's first look takes.
    """
    first, before, max_runs = (
        plan.fewest_to_fail,
        len(underway.runs) + plan.alone_runs,
        underway.policy.max_runs,
    )
    most = min((max_runs - before) // 2, plan.most_runs)
    if most < first:
        needed = before + 2 * first
        raise NoDuet(
            f"{plural(max_runs, 'run')} {'leaves' if max_runs == 1 else 'leave'} no room for {first} pairs.\n"
            f"Allow {needed}: --perfgate-max-runs={needed}"
        )


def _alone(underway: Underway, duel: Duel, stored: Baseline | None) -> StepsAlone:
    """What a step takes on either side where it is alone and may use all cores.

    Raises:
        NoDuet: the other commit cannot be run.
    """
    pair = underway.make_pair(INTERLEAVED_PLAN, duel.alone)
    underway.take(pair.candidate)
    check_reference(pair.reference, underway.expectation, stored, pair.candidate)
    check_steps([pair.reference], [pair.candidate], stored)
    then = step_times([pair.reference])
    if stored is not None and why_no_screen(stored, underway.machine) is None:
        then = (*then, *stored.values(Metric.STEP_MS))
    return StepsAlone(then=then, now=step_times(underway.runs), cores=pair.cores)


def _pairs(
    underway: Underway, duel: Duel, evidence: Evidence, plan: Plan, alone: StepsAlone | None
) -> tuple[Verdict, Baseline]:
    """Make pairs and judge them until the plan is settled.

    Returns:
        The last verdict, and what it compared with.
    """
    stored, references = evidence.blessed, underway.reference_runs
    own = underway.interleaved_runs if plan.in_pairs else underway.runs
    before = len(own)
    verdict = judge(evidence, underway.policy, plan.stage)
    while True:
        wanted = len(references) + verdict.more
        pair = underway.make_pair(plan, partial(duel.pair, len(references), wanted))
        references.append(pair.reference)
        underway.take(pair.candidate, own)
        candidates = own[before:]
        check_reference(pair.reference, underway.expectation, stored, pair.candidate)
        check_steps(references, candidates, stored)
        check_alike(references)
        if alone is not None:
            alone.check(step_times(references), step_times(own))
        pairs = tuple(zip(references, candidates, strict=True))
        if plan.in_pairs:
            pairs = tuple((there, beside(there, here)) for there, here in pairs)
        verdict = judge(replace(evidence, pairs=pairs), underway.policy, plan.stage)
        is_look = len(references) >= wanted
        if not verdict.more or (is_look and not underway.may_spend(2 * verdict.more)):
            return verdict, as_baseline(underway.expectation, references, stored)
