"""Says before runs are made how many there may be, how long they take and what they can hold."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.gate.beginning import first_pairs, known_noisy, plans_in_order
from perfgate.gate.comparable import why_incomparable, why_no_screen
from perfgate.gate.terms import Expectation, Policy
from perfgate.judge.hold import holds
from perfgate.judge.looks import DUET_PLAN, SCREEN_PLAN, STORED_PLAN, Plan
from perfgate.judge.rows import Terms
from perfgate.model.baseline import Baseline, with_held
from perfgate.model.metric import Metric
from perfgate.model.words import listed, plural
from perfgate.words import numbers


def forecast(
    expectation: Expectation,
    policy: Policy,
    *,
    run_s: float | None,
    duet: bool,
    interleaved: bool = False,
    against: str | None = None,
) -> tuple[str, ...]:
    """Say before runs are made how many there may be, how long they take, and what they can hold; a line a stage.

    `run_s` is what a run of this workload last took, where that is known; `against` another commit to compare with.
    `duet` and `interleaved` say which forms of a duet are at hand.
    """
    baseline = expectation.baseline
    if against is not None:
        noisy = known_noisy(expectation)
        plans = plans_in_order(alternate=duet, interleaved=interleaved, noisy=noisy) or (DUET_PLAN,)
        plan = _affordable(plans, policy, before=0)
        if plan is None:
            return _without_room(policy, plans[-1])
        return _with_commit(policy, plan, run_s=run_s, commit=against)
    if expectation.trouble is not None:
        return ("nothing to measure while its baseline cannot be read",)
    if baseline is None or why_incomparable(expectation) is not None:
        return (
            f"{_spending(policy.new_runs, run_s)}, to be shown: there is nothing to compare with",
        )
    no_screen = why_no_screen(baseline, expectation.machine)
    before = policy.runs if no_screen is None else 0
    noisy = policy.stops_early and known_noisy(expectation)
    plans = plans_in_order(alternate=duet, interleaved=interleaved, noisy=noisy)
    beyond = _affordable(plans, policy, before=before)
    if beyond is not None and no_screen is not None:
        return _without_screen(baseline, policy, beyond, run_s=run_s)
    first = max(policy.runs, (SCREEN_PLAN if beyond is not None else STORED_PLAN).fewest_to_pass)
    told = f"{_spending(min(first, policy.max_runs), run_s)}"
    return told, *_after_screen(baseline, policy, beyond, run_s=run_s)


def _affordable(plans: Sequence[Plan], policy: Policy, *, before: int) -> Plan | None:
    """The first plan for whose first look there may be pairs enough."""
    return next(
        (plan for plan in plans if _pairs(policy, plan, before=before) >= plan.fewest_to_fail), None
    )


def _without_room(policy: Policy, plan: Plan) -> tuple[str, ...]:
    """What is said where no duet can be begun, and a duet is all there is."""
    fewest = plan.fewest_to_fail
    needed = 2 * fewest + plan.alone_runs
    return (
        f"{plural(policy.max_runs, 'run')}: no room for {fewest} pairs (--perfgate-max-runs={needed})",
    )


def _with_commit(
    policy: Policy, plan: Plan, *, run_s: float | None, commit: str
) -> tuple[str, ...]:
    """The stages of a duet with another commit than the baseline's, before which there is no screen."""
    pairs = _pairs(policy, plan)
    first = first_pairs(plan, policy, before=0, most=pairs)
    told = f"{_alone(plan, run_s)}{_spending(first, run_s, plan)} with {commit}"
    more = f"if that does not do, up to {_spending(pairs, run_s, plan)}"
    return (told, more) if pairs > first else (told,)


def _without_screen(
    baseline: Baseline, policy: Policy, plan: Plan, *, run_s: float | None
) -> tuple[str, ...]:
    """The stages where it goes straight to a duet with the baseline's commit."""
    pairs = _pairs(policy, plan)
    first = first_pairs(plan, policy, before=0, most=pairs)
    told = f"{_alone(plan, run_s)}{_spending(first, run_s, plan)} with the baseline's commit"
    shows = _can_hold(baseline, policy, pairs, plan)
    if first == pairs:
        return (f"{told}{shows}",)
    return told, f"if that does not do, up to {_spending(pairs, run_s, plan)}{shows}"


def _after_screen(
    baseline: Baseline, policy: Policy, duet: Plan | None, *, run_s: float | None
) -> tuple[str, ...]:
    """The stage after the first look, if there can be one."""
    if duet is not None:
        pairs = _pairs(policy, duet, before=policy.runs)
        more = (
            f"{_alone(duet, run_s)}up to {_spending(pairs, run_s, duet)} with the baseline's commit"
        )
        return (f"if that does not do, {more}{_can_hold(baseline, policy, pairs, duet)}",)
    most = max(min(STORED_PLAN.most_runs, policy.max_runs), policy.runs)
    if most < (needed := STORED_PLAN.fewest_to_pass):
        return (
            f"{plural(most, 'run')} cannot pass: that takes {needed} (--perfgate-max-runs={needed})",
        )
    first = max(policy.runs, needed)
    if most <= first:
        return ()
    more = _spending(most - first, run_s)
    return (
        f"if that does not do, up to {more} more{_can_hold(baseline, policy, most, STORED_PLAN)}",
    )


def _alone(plan: Plan, run_s: float | None) -> str:
    """The pair that is made before interleaved ones."""
    return f"{_spending(1, run_s, DUET_PLAN)} and " if plan.in_pairs else ""


def _pairs(policy: Policy, plan: Plan, *, before: int = 0) -> int:
    """How many pairs there may be after so many runs that were made `before`."""
    return min((policy.max_runs - before - plan.alone_runs) // 2, plan.most_runs)


def _spending(number: int, run_s: float | None, plan: Plan = STORED_PLAN) -> str:
    """Write a number of runs, or of pairs, and about how long they take."""
    noun = "interleaved pair" if plan.in_pairs else "pair" if plan.is_duet else "run"
    told = plural(number, noun)
    return (
        told
        if run_s is None
        else f"{told} (about {number * run_s * (2 if plan.is_duet else 1):.0f} s)"
    )


def _can_hold(baseline: Baseline, policy: Policy, runs: int, plan: Plan) -> str:
    """What so many runs, or pairs, hold of what leads a verdict."""
    terms = Terms(
        budgets=with_held(policy.budgets, baseline), plan=plan, workloads=policy.workloads
    )
    found = {
        metric: holds(baseline, metric, terms, runs=runs)
        for metric in (Metric.STEP_MS, Metric.KERNEL_MS)
    }
    told = [
        f"{metric} to {numbers.loss(loss)}" for metric, loss in found.items() if loss is not None
    ]
    return f": holds {listed(told)}" if told else ""
