"""One workload: the stages in their order, until one of them settles it."""

from __future__ import annotations

from perfgate.gate.ab import by_pairs
from perfgate.gate.alike import other_form
from perfgate.gate.conclude import conclude, drifted, other_packages
from perfgate.gate.expect import why_no_screen
from perfgate.gate.plan import begins_in_blocks, forms_in_order, opening, why_straight
from perfgate.gate.stored import by_stored, look, show
from perfgate.gate.underway import Checked, Ended, SideUnavailable, Underway
from perfgate.judge.anchor import clock_moved
from perfgate.model.note import note
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Stage


def check(underway: Underway) -> Checked:
    """Measure one workload as often as its judgement needs, and return what came of it.

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
            return show(underway, ended)
    except Ended as ended:
        return underway.checked(underway.unjudged(ended.outcome, ended.why))


def _against_baseline(underway: Underway) -> Checked:
    baseline, own, lab = underway.stored, underway.runs, underway.lab
    if underway.incomparable is not None:
        raise Ended(*underway.incomparable, shows=underway.expected.trouble is None)
    assert baseline is not None
    if not lab.forms:
        return by_stored(underway, note("no-forms"))
    straight = why_straight(underway)
    verdict = look(underway, Stage.SCREEN if straight is None else Stage.COUNTS)
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
        return by_stored(underway, note("packages-of-both-sides", change=other))
    underway.straight = straight or moved
    in_blocks = begins_in_blocks(underway, () if straight else own)
    return _by_forms(underway, in_blocks=in_blocks or (straight is None and verdict.noisy))


def _by_forms(underway: Underway, *, in_blocks: bool) -> Checked:
    """Settle it by the first form of an A/B run that can be had, `in_blocks` if it may be; where
    none can, by stored runs."""
    for form in forms_in_order(underway.lab.forms, in_blocks=in_blocks):
        try:
            return by_pairs(underway, form)
        except SideUnavailable as none:
            last, underway.no_pairs = none, none.why
            underway.without_pairs()
            if none.in_no_form:
                break
    if underway.stored is not None:
        return by_stored(underway, last.why)
    if last.in_no_form:
        raise Ended(Outcome.NO_BASELINE, last.why, shows=True)
    raise Ended(Outcome.NOT_MEASURED, last.why)
