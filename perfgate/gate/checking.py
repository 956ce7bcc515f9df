"""The gate of one workload: screen, duet and further looks, until it is settled or nothing is left to spend."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.gate.anchor import has_crept
from perfgate.gate.beginning import known_noisy
from perfgate.gate.comparable import parts_of, verdict_of, why_incomparable, why_no_screen
from perfgate.gate.conclusion import conclude, other_packages
from perfgate.gate.duet import in_order, settle_by_duet
from perfgate.gate.endings import Ended, NoDuet, OtherSteps
from perfgate.gate.settled import count_rose, is_open
from perfgate.gate.stored import look, settle_by_stored
from perfgate.gate.terms import Affords, Checked, Expectation, Forms, OpenDuel, Policy, Series
from perfgate.gate.uncompared import measure_alone, of_other_steps
from perfgate.gate.underway import Underway
from perfgate.judge.clock import clock_moved
from perfgate.judge.looks import SCREEN_PLAN, Plan
from perfgate.model.baseline import Baseline
from perfgate.model.errors import RevisionMissing
from perfgate.model.note import quoted
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Verdict
from perfgate.words import say


def check(
    expectation: Expectation,
    policy: Policy,
    series: Series,
    duet: OpenDuel | None = None,
    *,
    interleaved: OpenDuel | None = None,
    against: bool = False,
    own_environment: bool = False,
    affords: Affords = lambda _runs, _seconds: True,
) -> Checked:
    """Measure one workload as often as its judgement needs, and say what came of it.

    Without `against`, runs are screened against the stored baseline; what that does not settle is settled by a duet,
    and where there is none, or it cannot be had, by more runs against the stored baseline. With `against`, the duet
    is all there is, and no stored baseline is needed. Of the two forms of a duet, `interleaved` is taken where the
    screen's runs differ so much that `duet` could not show the budget, or where it is the only one. `own_environment`
    says that the other commit brings its own packages: without, both sides would run with today's torch and CUDA.

    Errors of `NOT_MEASURED_BY` become the outcome NOT_MEASURED, with their whole message.
    """
    underway = Underway(expectation, policy, series, affords, own_environment=own_environment)
    forms = Forms(alternate=duet, interleaved=interleaved)
    try:
        if against:
            return _against_commit(underway, forms)
        if expectation.trouble is not None:
            return Checked(
                verdict=verdict_of(
                    expectation, Outcome.INCOMPARABLE, *parts_of(expectation.trouble)
                )
            )
        alone = why_incomparable(expectation)
        if alone is not None or expectation.baseline is None:
            assert alone is not None
            return measure_alone(underway, alone)
        return _against_stored(underway, expectation.baseline, forms)
    except OtherSteps as other:
        return of_other_steps(underway, other)
    except Ended as ended:
        return underway.checked(ended.verdict)


def _against_stored(underway: Underway, baseline: Baseline, forms: Forms) -> Checked:
    """Screen against the stored baseline, and go on with a duet or with further looks where that does not do."""
    if forms == Forms():
        return settle_by_stored(underway, baseline)
    skipped = why_no_screen(baseline, underway.expectation.machine)
    screened: Verdict | None = None
    if skipped is None:
        told = look(underway, baseline, SCREEN_PLAN)
        if isinstance(told, Checked):
            return told
        moved = clock_moved(baseline.runs, underway.runs)
        final = told.outcome is not Outcome.INCONCLUSIVE or not is_open(told)
        if count_rose(told) or (final and moved is None and not has_crept(underway, baseline)):
            return conclude(underway, told, baseline)
        updated = other_packages(underway, baseline)
        if updated is not None and moved is None:
            none_shown = f"{updated}: both sides would run with that, and none would show its loss"
            return settle_by_stored(underway, baseline, no_duet=none_shown)
        skipped = (
            f"{say.fact(moved)}, so the stored times are not what they would be now"
            if moved is not None
            else None
        )
        screened = told
    # Not where a user asked for runs: those of blocks cannot be blessed.
    noisy = underway.policy.stops_early and known_noisy(underway.expectation)
    order = in_order(forms, noisy=noisy if screened is None else screened.noisy)
    could = _could_interleave(forms, order)
    why_none = ""
    for form, plan in order:
        try:
            return settle_by_duet(
                underway, form, plan, baseline, why=skipped, could_interleave=could
            )
        except NoDuet as none:
            why_none = none.why
            if isinstance(none.__cause__, RevisionMissing):
                break
            if len(order) > 1 and plan.in_pairs:
                underway.notes.append(quoted(f"No interleaved duet: {none.why}"))
    return settle_by_stored(underway, baseline, no_duet=why_none)


def _against_commit(underway: Underway, forms: Forms) -> Checked:
    """Compare with another commit, in a duet and nothing else: interleaved first where stored runs differ much."""
    expectation = underway.expectation
    last: NoDuet | None = None
    order = in_order(forms, noisy=known_noisy(expectation))
    could = _could_interleave(forms, order)
    for form, plan in order:
        if last is not None:
            underway.notes.append(quoted(f"No interleaved duet: {last.why}"))
        try:
            return settle_by_duet(underway, form, plan, None, why=None, could_interleave=could)
        except NoDuet as none:
            last = none
            if isinstance(none.__cause__, RevisionMissing):
                break
    assert last is not None  # there is a form, and it came to nothing
    reason, next_step = parts_of(last.why, subject=f"{expectation.workload.id}: ")
    if plan.in_pairs and not next_step:
        next_step = 'Compare runs that are alone: duet = "alternate" in [tool.perfgate].'
    if isinstance(last.__cause__, RevisionMissing):
        return measure_alone(
            underway, verdict_of(expectation, Outcome.NO_BASELINE, reason, next_step)
        )
    return underway.checked(
        verdict_of(expectation, Outcome.NOT_MEASURED, reason, next_step, runs=underway.runs)
    )


def _could_interleave(forms: Forms, order: Sequence[tuple[OpenDuel, Plan]]) -> bool:
    """Whether an interleaved duet is at hand, and none of those that are tried."""
    return forms.interleaved is not None and not any(plan.in_pairs for _, plan in order)
