"""Says before runs are made how many there may be, how long they take and what they can show."""

from __future__ import annotations

from perfgate.gate.comparable import why_incomparable, why_no_screen
from perfgate.gate.terms import Expectation, Policy
from perfgate.judge.forecast import differs_too_much, expected_interleaved, expected_smallest
from perfgate.judge.rows import Terms
from perfgate.judge.stages import DUET_PLAN, INTERLEAVED_PLAN, STORED_PLAN, Plan
from perfgate.judge.words import listed, percent, plural
from perfgate.model.baseline import Baseline
from perfgate.model.metric import METRICS, Metric


def known_noisy(expectation: Expectation, policy: Policy) -> bool:
    """Whether the blessed runs, where they may be compared, differ so much that a duet is better interleaved."""
    baseline = expectation.baseline
    if baseline is None or why_incomparable(expectation) is not None:
        return False
    return differs_too_much(baseline, Terms(budgets=policy.budgets, workloads=policy.workloads))


def forecast(
    expectation: Expectation,
    policy: Policy,
    *,
    run_s: float | None,
    duet: bool,
    interleaved: bool = False,
    against: str | None = None,
) -> tuple[str, ...]:
    """Say before runs are made how many there may be, how long they take, and what they can show; a line a stage.

    `run_s` is what a run of this workload last took, where that is known; `against` another commit to compare with.
    `duet` and `interleaved` say which forms of a duet are at hand.
    """
    baseline = expectation.baseline
    if against is not None:
        in_pairs = interleaved and (not duet or known_noisy(expectation, policy))
        return _with_commit(policy, INTERLEAVED_PLAN if in_pairs else DUET_PLAN, run_s=run_s, commit=against)
    if expectation.trouble is not None:
        return ("nothing to measure while its baseline cannot be read",)
    if baseline is None or why_incomparable(expectation) is not None:
        return (f"{_spending(policy.new_runs, run_s)}, to be shown: there is nothing to compare with",)
    room = _pairs(policy, INTERLEAVED_PLAN) >= INTERLEAVED_PLAN.fewest_to_fail
    if room and interleaved and policy.stops_early and known_noisy(expectation, policy):
        return _without_screen(baseline, policy, INTERLEAVED_PLAN, run_s=run_s, alone=_alone(run_s))
    beyond = _duet_of(policy, alternate=duet, interleaved=interleaved)
    if beyond is not None and why_no_screen(baseline, expectation.machine) is not None:
        return _without_screen(baseline, policy, beyond, run_s=run_s)
    told = f"{_spending(policy.runs, run_s)}{_can_show(baseline, policy, policy.runs, STORED_PLAN)}"
    return told, *_after_screen(baseline, policy, beyond, run_s=run_s)


def _with_commit(policy: Policy, plan: Plan, *, run_s: float | None, commit: str) -> tuple[str, ...]:
    """The stages of a duet with another commit than the baseline's, before which there is no screen."""
    pairs = _pairs(policy, plan)
    alone = _alone(run_s) if plan.in_pairs else ""
    first = f"{alone}{_spending(min(plan.fewest_to_fail, pairs), run_s, plan)} with {commit}"
    more = f"if that does not do, up to {_spending(pairs, run_s, plan)}"
    return (first, more) if pairs > plan.fewest_to_fail else (first,)


def _without_screen(
    baseline: Baseline, policy: Policy, plan: Plan, *, run_s: float | None, alone: str = ""
) -> tuple[str, ...]:
    """The stages where it goes straight to a duet with the baseline's commit."""
    pairs = _pairs(policy, plan)
    first = f"{alone}{_spending(plan.fewest_to_fail, run_s, plan)} with the baseline's commit"
    up_to = f"{_spending(pairs, run_s, plan)}{_can_show(baseline, policy, pairs, plan)}"
    return first, f"if that does not do, up to {up_to}"


def _after_screen(baseline: Baseline, policy: Policy, duet: Plan | None, *, run_s: float | None) -> tuple[str, ...]:
    """The stage after the first look, if there can be one."""
    if duet is not None:
        pairs = _pairs(policy, duet, before=policy.runs)
        more = f"{_spending(pairs, run_s, duet)} with the baseline's commit"
        return (f"if that does not do, up to {more}{_can_show(baseline, policy, pairs, duet)}",)
    most = max(min(STORED_PLAN.most_runs, policy.max_runs), policy.runs)
    if most < (needed := STORED_PLAN.fewest_to_fail):
        never = f"{plural(most, 'run')} can pass, and never fail on a clock, however slow: that takes {needed}"
        return (f"{never} (--perfgate-max-runs={needed})",)
    if most <= policy.runs:
        return ()
    more = _spending(most - policy.runs, run_s)
    return (f"if that does not do, up to {more} more{_can_show(baseline, policy, most, STORED_PLAN)}",)


def _alone(run_s: float | None) -> str:
    """The pair that is made before interleaved ones."""
    return f"{_spending(1, run_s, DUET_PLAN)} and "


def _pairs(policy: Policy, plan: Plan, *, before: int = 0) -> int:
    """How many pairs there may be after so many runs that were made `before`."""
    return min((policy.max_runs - before - plan.alone_runs) // 2, plan.most_runs)


def _duet_of(policy: Policy, *, alternate: bool, interleaved: bool) -> Plan | None:
    """The duet that there would be after a screen; None where there would be none."""
    plan = DUET_PLAN if alternate else INTERLEAVED_PLAN if interleaved else None
    room = plan is not None and _pairs(policy, plan, before=policy.runs) >= plan.fewest_to_fail
    return plan if room else None


def _budget(policy: Policy, metric: Metric) -> float:
    spec = METRICS[metric].clock
    assert spec is not None
    return policy.budgets.get(metric, spec.budget)


def _spending(number: int, run_s: float | None, plan: Plan = STORED_PLAN) -> str:
    """Write a number of runs, or of pairs, and about how long they take."""
    noun = "interleaved pair" if plan.in_pairs else "pair" if plan.is_duet else "run"
    told = f"{number} {noun}" + ("" if number == 1 else "s")
    return told if run_s is None else f"{told} (about {number * run_s * (2 if plan.is_duet else 1):.0f} s)"


def _can_show(baseline: Baseline, policy: Policy, runs: int, plan: Plan) -> str:
    if runs < plan.fewest_to_fail:
        return ""
    terms = Terms(budgets=policy.budgets, plan=plan, workloads=policy.workloads)
    found = {
        metric: expected_smallest(baseline, metric, runs=runs, terms=terms)
        for metric in (Metric.STEP_MS, Metric.KERNEL_MS)
    }
    if plan.in_pairs:
        found |= {
            metric: expected_interleaved(metric, pairs=runs, budget=_budget(policy, metric), workloads=policy.workloads)
            for metric, smallest in found.items()
            if smallest is not None
        }
    told = [f"{percent(smallest)} % of {metric}" for metric, smallest in found.items() if smallest is not None]
    return f": can show {listed(told)}" if told else ""
