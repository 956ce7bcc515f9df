"""Before runs are made: how many there may be, how long they take, and what they can hold."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from perfgate.gate.ab import forms_in_order
from perfgate.gate.expect import (
    Expectation,
    begins_in_blocks,
    known_noisy,
    why_incomparable,
    why_straight,
)
from perfgate.gate.underway import STAGES
from perfgate.judge.hold import holds
from perfgate.judge.looks import PLANS, SCREEN_PLAN, STORED_PLAN, Plan, looks_of
from perfgate.model.baseline import Baseline, with_held
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import Form
from perfgate.model.settings import Policy

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
    """Return what is to be measured, a note a stage, behind one that says how long that takes.

    `run_s` is what a run of this workload last took, where that is known; `forms` are those of an
    A/B run that may be had; `against` is a gate with another commit than the baseline's.
    """
    stages, first, most = _stages(expected, policy, forms, against=against)
    if run_s is None or not first:
        return stages
    up_to = note("plan-at-most", seconds=float(round(most * run_s))) if most > first else None
    return note("plan-time", seconds=float(round(first * run_s)), at_most=up_to), *stages


Stages = tuple[tuple[Note, ...], int, int]
"""What is to be measured, how many runs of both sides that takes as a rule, and at most."""


def _stages(
    expected: Expectation, policy: Policy, forms: Collection[Form], *, against: bool
) -> Stages:
    baseline = expected.baseline
    if expected.trouble is not None and not against:
        return (note("plan-nothing"),), 0, 0
    if not against and (baseline is None or why_incomparable(expected) is not None):
        runs = policy.new_runs
        return (note("plan-to-show", spending=_spending(runs)),), runs, runs
    has_screen = not against and baseline is not None
    if has_screen and why_straight(expected, policy, forms) is not None:
        has_screen = False
    before = 0 if against else policy.runs if has_screen else 1
    # Also behind a screen of as many runs as were asked for, where it is as noisy as the blessed.
    in_blocks = begins_in_blocks(expected, policy, against=against) or (
        has_screen and known_noisy(expected)
    )
    affordable = _affordable(forms, policy, before=before, in_blocks=in_blocks)
    if affordable is None and against:
        needed = before + 2 * STORED_PLAN.fewest_to_pass
        return (note("no-runs-for-pairs", runs=policy.max_runs, needed=needed),), 0, 0
    if affordable is None:
        assert baseline is not None
        return _stored(baseline, policy)
    plan, first, pairs = affordable
    held = () if baseline is None else _held(baseline, policy, pairs, plan)
    of_pairs = plan.alone_runs + 2 * pairs
    if has_screen:
        screen = min(max(policy.runs, SCREEN_PLAN.fewest_to_pass), policy.max_runs)
        up_to = note("plan-if-inconclusive", spending=_spending(pairs, plan))
        return (_spending(screen), up_to, *held), screen, screen + of_pairs
    begin = () if against else (note("plan-counts", spending=_spending(before)),)
    up_to = note("plan-if-inconclusive", spending=_spending(pairs - first, plan))
    more = (up_to,) if pairs > first else ()
    stages = (*begin, _spending(first, plan), *more, *held)
    return stages, before + plan.alone_runs + 2 * first, before + of_pairs


def _affordable(
    forms: Collection[Form], policy: Policy, *, before: int, in_blocks: bool
) -> tuple[Plan, int, int] | None:
    """The first plan for whose first look there may be pairs enough after so many runs of the
    candidate, with the pairs at its first look and at most."""
    for form in forms_in_order(forms, in_blocks=in_blocks):
        plan = PLANS[STAGES[form]]
        first, most = looks_of(plan, policy, alone=before, spent=before + plan.alone_runs)
        if most >= plan.fewest_to_fail:
            return plan, first, most
    return None


def _stored(baseline: Baseline, policy: Policy) -> Stages:
    """The looks at stored runs where there is no A/B run to be had."""
    most = max(min(STORED_PLAN.most_runs, policy.max_runs), policy.runs)
    needed = STORED_PLAN.fewest_to_pass
    first = min(max(policy.runs, needed), policy.max_runs)
    begin = _spending(first)
    if most < needed:
        return (begin, note("plan-cannot-pass", runs=most, needed=needed)), first, first
    if most <= first:
        return (begin,), first, first
    more = note("plan-if-inconclusive", spending=_spending(most - first))
    return (begin, more, *_held(baseline, policy, most, STORED_PLAN)), first, most


def _spending(number: int, plan: Plan = STORED_PLAN) -> Note:
    """A number of runs or pairs."""
    if not plan.is_ab_run:
        return note("plan-runs", number=number)
    return note("plan-blocks" if plan.in_pairs else "plan-pairs", number=number)


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
