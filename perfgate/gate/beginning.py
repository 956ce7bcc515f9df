"""In which order the forms of an A/B run are tried, and how many pairs come before its first look."""

from __future__ import annotations

from perfgate.gate.comparable import why_incomparable
from perfgate.gate.terms import Expectation, Policy
from perfgate.judge.hold import differs_much
from perfgate.judge.looks import DUET_PLAN, INTERLEAVED_PLAN, Plan


def known_noisy(expectation: Expectation) -> bool:
    """Whether the blessed runs, where they may be compared, differ so much that an A/B run is better made in blocks."""
    baseline = expectation.baseline
    return baseline is not None and why_incomparable(expectation) is None and differs_much(baseline)


def plans_in_order(*, alternate: bool, interleaved: bool, noisy: bool) -> tuple[Plan, ...]:
    """The plans of the forms at hand in the order in which they are tried."""
    first = (DUET_PLAN,) if alternate else ()
    other = (INTERLEAVED_PLAN,) if interleaved else ()
    return (*other, *first) if noisy else first or other


def first_pairs(plan: Plan, policy: Policy, *, before: int, most: int) -> int:
    """Pairs that an A/B run makes before its first look, of `most` at all and after so many runs of the candidate.

    Where a user asked for runs, pairs are made until there are so many: a bless takes those that were alone.
    """
    asked = 0 if policy.stops_early or plan.in_pairs else policy.runs - before
    return min(max(plan.fewest_to_fail, asked), most)
