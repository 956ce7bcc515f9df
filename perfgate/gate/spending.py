"""Says before runs are made how many there may be, how long they take and what they can show."""

from __future__ import annotations

from perfgate.gate.comparable import why_incomparable
from perfgate.gate.terms import Expectation, Policy
from perfgate.judge.forecast import expected_smallest
from perfgate.judge.rows import Terms
from perfgate.judge.stages import DUET_PLAN, STORED_PLAN, Plan
from perfgate.judge.words import listed, percent
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric


def forecast(
    expectation: Expectation, policy: Policy, *, run_s: float | None, duet: bool, against: str | None = None
) -> tuple[str, ...]:
    """Say before runs are made how many there may be, how long they take, and what they can show; a line a stage.

    `run_s` is what a run of this workload last took, where that is known; `against` another commit to compare with.
    """
    baseline = expectation.baseline
    pairs = min((policy.max_runs - (0 if against else policy.runs)) // 2, DUET_PLAN.most_runs)
    if against is not None:
        first = min(DUET_PLAN.fewest_to_fail, pairs)
        return (
            f"{_spending(first, run_s, pairs=True)} with {against}",
            f"if that does not do, up to {_spending(pairs, run_s, pairs=True)}",
        )
    if expectation.trouble is not None:
        return ("nothing to measure while its baseline cannot be read",)
    if baseline is None or why_incomparable(expectation) is not None:
        return (f"{_spending(policy.new_runs, run_s)}, to be shown: there is nothing to compare with",)
    told = f"{_spending(policy.runs, run_s)}{_can_show(baseline, policy, policy.runs, STORED_PLAN)}"
    if duet and pairs >= DUET_PLAN.fewest_to_fail:
        more = f"{_spending(pairs, run_s, pairs=True)} with the baseline's commit"
        return told, f"if that does not do, up to {more}{_can_show(baseline, policy, pairs, DUET_PLAN)}"
    most = min(STORED_PLAN.most_runs, policy.max_runs)
    if most <= policy.runs:
        return (told,)
    more = _spending(most - policy.runs, run_s)
    return told, f"if that does not do, up to {more} more{_can_show(baseline, policy, most, STORED_PLAN)}"


def _spending(number: int, run_s: float | None, *, pairs: bool = False) -> str:
    """Write a number of runs, or of pairs, and about how long they take."""
    told = f"{number} {'pair' if pairs else 'run'}" + ("" if number == 1 else "s")
    return told if run_s is None else f"{told} (about {number * run_s * (2 if pairs else 1):.0f} s)"


def _can_show(baseline: Baseline, policy: Policy, runs: int, plan: Plan) -> str:
    terms = Terms(budgets=policy.budgets, plan=plan, workloads=policy.workloads)
    found = {
        metric: expected_smallest(baseline, metric, runs=runs, terms=terms)
        for metric in (Metric.STEP_MS, Metric.KERNEL_MS)
    }
    told = [f"{percent(smallest)} % of {metric}" for metric, smallest in found.items() if smallest is not None]
    return f": can show {listed(told)}" if told else ""
