"""Before runs are made: how many there may be, how long they take, and what they can hold."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from perfgate.gate.ab import forms_in_order
from perfgate.gate.expect import Expectation, known_noisy, why_incomparable, why_straight
from perfgate.gate.underway import STAGES
from perfgate.judge.evidence import looks_of
from perfgate.judge.hold import holds
from perfgate.judge.looks import PLANS, SCREEN_PLAN, STORED_PLAN, Plan
from perfgate.model.baseline import Baseline, with_held
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.policy import Policy
from perfgate.model.sample import Form

_LEADING: Final = (Metric.STEP_MS, Metric.KERNEL_MS)
"""What leads a verdict."""


def forecast(
    expected: Expectation,
    policy: Policy,
    forms: Collection[Form],
    *,
    run_s: float | None,
    against: bool = False,
) -> tuple[Note, ...]:
    """Return what is to be measured, a note a stage.

    `run_s` is what a run of this workload last took, where that is known; `forms` are those of an
    A/B run that may be had; `against` is a gate with another commit than the baseline's.
    """
    baseline = expected.baseline
    if expected.trouble is not None and not against:
        return (note("plan-nothing"),)
    if not against and (baseline is None or why_incomparable(expected) is not None):
        return (note("plan-to-show", spending=_spending(policy.new_runs, run_s)),)
    has_screen = not against and baseline is not None
    if has_screen and why_straight(expected, policy, forms) is not None:
        has_screen = False
    before = 0 if against else policy.runs if has_screen else 1
    noisy = (against or policy.stops_early) and known_noisy(expected)
    plan = _affordable(forms, policy, before=before, noisy=noisy)
    if plan is None and against:
        needed = before + 2 * STORED_PLAN.fewest_to_pass
        return (note("no-runs-for-pairs", runs=policy.max_runs, needed=needed),)
    if plan is None:
        assert baseline is not None
        return _stored(baseline, policy, run_s=run_s)
    first, pairs = _looks(plan, policy, before)
    up_to = note("plan-if-inconclusive", spending=_spending(pairs, run_s, plan))
    held = () if baseline is None else _held(baseline, policy, pairs, plan)
    if has_screen:
        screen = min(max(policy.runs, SCREEN_PLAN.fewest_to_pass), policy.max_runs)
        return _spending(screen, run_s), up_to, *held
    begin = () if against else (note("plan-counts", spending=_spending(before, run_s)),)
    more = (up_to,) if pairs > first else ()
    return *begin, _spending(first, run_s, plan), *more, *held


def _affordable(
    forms: Collection[Form], policy: Policy, *, before: int, noisy: bool
) -> Plan | None:
    """The first plan for whose first look there may be pairs enough."""
    plans = [PLANS[STAGES[form]] for form in forms_in_order(forms, noisy=noisy)]
    return next(
        (one for one in plans if _looks(one, policy, before)[1] >= one.fewest_to_fail), None
    )


def _looks(plan: Plan, policy: Policy, before: int) -> tuple[int, int]:
    """Pairs at the first look and at most, after so many runs of the candidate."""
    return looks_of(plan, policy, alone=before, spent=before + plan.alone_runs)


def _stored(baseline: Baseline, policy: Policy, *, run_s: float | None) -> tuple[Note, ...]:
    """The looks at stored runs where there is no A/B run to be had."""
    most = max(min(STORED_PLAN.most_runs, policy.max_runs), policy.runs)
    needed = STORED_PLAN.fewest_to_pass
    first = max(policy.runs, needed)
    begin = _spending(min(first, policy.max_runs), run_s)
    if most < needed:
        return begin, note("plan-cannot-pass", runs=most, needed=needed)
    if most <= first:
        return (begin,)
    more = note("plan-if-inconclusive", spending=_spending(most - first, run_s))
    return begin, more, *_held(baseline, policy, most, STORED_PLAN)


def _spending(number: int, run_s: float | None, plan: Plan = STORED_PLAN) -> Note:
    """A number of runs or pairs, and about how long they take."""
    runs = number * (2 if plan.is_ab_run else 1) + plan.alone_runs
    about = None if run_s is None else note("plan-seconds", seconds=float(round(runs * run_s)))
    if not plan.is_ab_run:
        return note("plan-runs", number=number, about=about)
    return note("plan-blocks" if plan.in_pairs else "plan-pairs", number=number, about=about)


def _held(baseline: Baseline, policy: Policy, runs: int, plan: Plan) -> tuple[Note, ...]:
    """What so many runs, or pairs, hold of what leads a verdict."""
    budgets = with_held(policy.budgets, baseline)
    found = {metric: holds(baseline, metric, budgets, plan, runs=runs) for metric in _LEADING}
    held = [
        note("held-loss", metric=metric, loss=loss)
        for metric, loss in found.items()
        if loss is not None
    ]
    return (note("plan-holds", losses=tuple(held)),) if held else ()
