"""One workload: the stages in their order, until one of them settles it."""

from __future__ import annotations

from perfgate.execute.lab import Asked, Lab
from perfgate.gate.ab import by_pairs, first_look, forms_in_order
from perfgate.gate.alike import other_form
from perfgate.gate.conclude import conclude, other_packages
from perfgate.gate.expect import (
    Expectation,
    begins_in_blocks,
    why_incomparable,
    why_no_screen,
    why_straight,
)
from perfgate.gate.stored import by_stored, first_runs, is_settled, look, show
from perfgate.gate.underway import Affords, Checked, Differs, Ended, SideUnavailable, Underway
from perfgate.judge.anchor import clock_moved
from perfgate.model.baseline import Baseline
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.settings import Policy
from perfgate.model.verdict import Stage


def check(
    expected: Expectation,
    lab: Lab,
    policy: Policy,
    *,
    against: bool = False,
    affords: Affords = lambda _runs, _seconds: True,
) -> Checked:
    """Measure one workload as often as its judgement needs, and return what came of it.

    ```
    no baseline to compare with    runs, to be shown
    a baseline                     screen (counts first), or counts alone where stored times do not
                                   hold; then pairs or blocks of its commit; else stored runs
    against another commit         pairs or blocks
    ```
    Errors of `NotMeasured` become the outcome NOT_MEASURED.
    """
    underway = Underway(expected=expected, policy=policy, lab=lab, affords=affords)
    lab.prepare(*_opening(underway, against=against))
    try:
        try:
            if against:
                in_blocks = begins_in_blocks(expected, policy, against=True)
                return _by_forms(underway, None, None, in_blocks=in_blocks)
            return _against_baseline(underway)
        except Differs as differs:
            if differs.stored:
                return show(underway, Outcome.INCOMPARABLE, differs.why)
            raise Ended(Outcome.INCOMPARABLE, differs.why) from differs
    except Ended as ended:
        return underway.ended(ended)


def opening(
    expected: Expectation,
    lab: Lab,
    policy: Policy,
    *,
    against: bool = False,
    affords: Affords = lambda _runs, _seconds: True,
) -> tuple[Asked, ...]:
    """What `check` will ask of a lab first, whatever comes of it."""
    underway = Underway(expected=expected, policy=policy, lab=lab, affords=affords)
    return _opening(underway, against=against)


def _opening(underway: Underway, *, against: bool) -> tuple[Asked, ...]:
    expected, policy, forms = underway.expected, underway.policy, underway.lab.forms
    baseline = expected.baseline
    in_blocks = begins_in_blocks(expected, policy, against=against)
    if against:
        return first_look(underway, forms_in_order(forms, in_blocks=in_blocks)[0], counts=0)
    if expected.trouble is not None:
        return ()
    if baseline is None or why_incomparable(expected) is not None:
        return ((None, policy.new_runs),)
    if not forms:
        return first_runs(underway, baseline, Stage.STORED)
    if why_straight(expected, policy, forms) is None:
        return first_runs(underway, baseline, Stage.SCREEN)
    return first_look(underway, forms_in_order(forms, in_blocks=in_blocks)[0], counts=1)


def _against_baseline(underway: Underway) -> Checked:
    expected, baseline = underway.expected, underway.expected.baseline
    if expected.trouble is not None:
        raise Ended(Outcome.INCOMPARABLE, expected.trouble)
    if (alone := why_incomparable(expected)) is not None:
        return show(underway, *alone)
    assert baseline is not None
    if not underway.lab.forms:
        return by_stored(underway, baseline, no_pairs=note("no-forms"))
    straight = why_straight(expected, underway.policy, underway.lab.forms)
    verdict = look(underway, baseline, Stage.SCREEN if straight is None else Stage.COUNTS)
    own = underway.runs
    moved = (
        why_no_screen(baseline, expected.machine)
        or clock_moved(baseline.runs, own)
        or other_form(baseline.runs, own)
    )
    rose = verdict.outcome is Outcome.REGRESSED
    if rose or (straight is None and is_settled(underway, baseline, verdict, clock=moved)):
        return conclude(underway, verdict, baseline)
    if moved is None and (other := other_packages(underway, baseline)) is not None:
        why = note("packages-of-both-sides", change=other)
        return by_stored(underway, baseline, no_pairs=why, remedy=why)
    if straight is not None:
        in_blocks = begins_in_blocks(expected, underway.policy)
        return _by_forms(underway, baseline, straight, in_blocks=in_blocks)
    in_blocks = verdict.noisy or begins_in_blocks(expected, underway.policy, runs=own)
    return _by_forms(underway, baseline, moved, in_blocks=in_blocks)


def _by_forms(
    underway: Underway, stored: Baseline | None, straight: Note | None, *, in_blocks: bool
) -> Checked:
    """Settle it by the first form of an A/B run that can be had, `in_blocks` if it may be.

    Where none can, by stored runs; `stored` is None where another commit is to be compared with.
    """
    last: SideUnavailable | None = None
    for form in forms_in_order(underway.lab.forms, in_blocks=in_blocks):
        no_blocks = None if last is None else last.why
        try:
            return by_pairs(underway, form, stored, straight=straight, no_blocks=no_blocks)
        except SideUnavailable as none:
            last = none
            if none.in_no_form:
                break
    assert last is not None  # there is a form, and it came to nothing
    if stored is not None:
        remedy = last.why if last.has_remedy else None
        return by_stored(underway, stored, no_pairs=last.why, remedy=remedy)
    if last.in_no_form:
        return show(underway, Outcome.NO_BASELINE, last.why)
    raise Ended(Outcome.NOT_MEASURED, last.why)
