"""How the gate of a workload begins: with a screen against stored values, or straight with a duet of either form."""

from __future__ import annotations

from dataclasses import dataclass

from perfgate.gate.comparable import why_incomparable, why_no_screen
from perfgate.gate.terms import Expectation, Policy
from perfgate.judge.forecast import differs_too_much
from perfgate.judge.rows import Terms
from perfgate.judge.stages import DUET_PLAN, INTERLEAVED_PLAN, Plan
from perfgate.model.baseline import Baseline


@dataclass(frozen=True, kw_only=True, slots=True)
class Beginning:
    """What is known of a gate against a stored baseline before any run is made."""

    no_screen: str | None
    """Why stored values are not asked first; None where they are."""
    noisy: bool
    """Whether the blessed runs differ so much that a duet is better interleaved."""


def beginning(expectation: Expectation, policy: Policy, baseline: Baseline, *, interleaved: bool) -> Beginning:
    """How it begins; `interleaved` says whether that form of a duet is at hand."""
    # Not where a user asked for runs: those of an interleaved duet cannot be blessed.
    noisy = interleaved and policy.stops_early and known_noisy(expectation, policy)
    elsewhere = why_no_screen(baseline, expectation.machine)
    if elsewhere is None and noisy:
        return Beginning(no_screen="its blessed runs differ by more than what it is held to", noisy=True)
    return Beginning(no_screen=elsewhere, noisy=noisy)


def known_noisy(expectation: Expectation, policy: Policy) -> bool:
    """Whether the blessed runs, where they may be compared, differ so much that a duet is better interleaved."""
    baseline = expectation.baseline
    if baseline is None or why_incomparable(expectation) is not None:
        return False
    return differs_too_much(baseline, Terms(budgets=policy.budgets, workloads=policy.workloads))


def plans_in_order(*, alternate: bool, interleaved: bool, noisy: bool) -> tuple[Plan, ...]:
    """The plans of the forms at hand in the order in which they are tried."""
    first = (DUET_PLAN,) if alternate else ()
    other = (INTERLEAVED_PLAN,) if interleaved else ()
    return (*other, *first) if noisy else first or other


def first_pairs(plan: Plan, policy: Policy, *, before: int, most: int) -> int:
    """Pairs that a duet makes before its first look, of `most` at all and after so many runs of the candidate.

    Where a user asked for runs, pairs are made until there are so many: a bless takes those that were alone.
    """
    asked = 0 if policy.stops_early or plan.in_pairs else policy.runs - before
    return min(max(plan.fewest_to_fail, asked), most)
