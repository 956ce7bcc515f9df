"""Whether small losses have added up: what a gate's runs, alone or in a duet, say beside the best ever blessed."""

from __future__ import annotations

from statistics import median

from perfgate.gate.underway import Underway, step_times
from perfgate.judge.anchor import beyond_anchor, creep
from perfgate.judge.clock import clock_moved, longer_by_clock
from perfgate.judge.pairing import beside
from perfgate.judge.rows import Terms
from perfgate.model.baseline import Baseline, with_held
from perfgate.model.metric import Metric
from perfgate.model.verdict import Creep
from perfgate.model.words import plural
from perfgate.words import say
from perfgate.words.numbers import milliseconds, short_percent


def crept(
    underway: Underway, baseline: Baseline, reference: Baseline | None = None
) -> Creep | None:
    """How far it has come from the anchor, where that can be told; `reference` is a duet's other side."""
    (now, medians), budget = (
        _to_anchor(underway, baseline, reference),
        underway.policy.anchor_budget,
    )
    terms = Terms(budgets=with_held(underway.policy.budgets, baseline))
    found = creep(baseline, now, terms, anchor_budget=budget, medians=medians)
    longer = 0.0 if reference is not None else longer_by_clock(baseline.runs, underway.runs)
    if found is None or not found.shown or not longer:
        return found
    at_its_clock = creep(
        baseline, [value / (1 + longer) for value in now], terms, anchor_budget=budget
    )
    return found if at_its_clock is not None and at_its_clock.shown else None


def _clock(baseline: Baseline, underway: Underway) -> str:
    moved = clock_moved(baseline.runs, underway.runs)
    return "" if moved is None else say.fact(moved)


def has_crept(underway: Underway, baseline: Baseline) -> bool:
    """Whether the runs so far, beside the stored ones, show that small losses have added up."""
    found = crept(underway, baseline)
    return found is not None and found.shown


def creep_unknown(
    underway: Underway, baseline: Baseline, reference: Baseline | None, found: Creep | None
) -> str | None:
    """Say that a step is beyond the anchor's budget where its runs cannot show whether that is so."""
    (now, _), budget = _to_anchor(underway, baseline, reference), underway.policy.anchor_budget
    if found is not None and found.change >= budget:
        low, high = short_percent(found.low), short_percent(found.high)
        return (
            f"Small losses have added up to {short_percent(found.change)} above the best step_ms ever blessed "
            f"({milliseconds(found.path[0].step_ms)} ms), which does not show yet that it is more than the budget "
            f"of {short_percent(budget)} ({low} to {high})"
        )
    above = beyond_anchor(baseline, now, anchor_budget=budget)
    at_a_lower_clock = reference is None and longer_by_clock(baseline.runs, underway.runs)
    if above is None or baseline.anchor is None or found is not None or not at_a_lower_clock:
        return None
    return (
        f"Whether small losses have added up is not known: by {plural(len(now), 'run')} step_ms is "
        f"{short_percent(above)} above the best ever blessed ({milliseconds(baseline.anchor.step_ms)} ms), "
        f"budget {short_percent(budget)}, and {_clock(baseline, underway)}"
    )


def _to_anchor(
    underway: Underway, baseline: Baseline, reference: Baseline | None
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """What is held against the anchor, ms of each run, and the runs of each median that all of it was reckoned by.

    After a duet that is its ratio, put on top of the stored times. Of an interleaved one each pair has its own: what a
    step takes on one core says nothing beside stored times.
    """
    then = baseline.values(Metric.STEP_MS)
    if reference is not None and then and underway.interleaved_runs:
        pairs = zip(underway.reference_runs, underway.interleaved_runs, strict=True)
        sides = [
            (there.value(Metric.STEP_MS), beside(there, run).value(Metric.STEP_MS))
            for there, run in pairs
        ]
        return tuple(
            median(then) / there * here for there, here in sides if there and here is not None
        ), (len(then),)
    now = step_times(underway.runs)
    there = () if reference is None else reference.values(Metric.STEP_MS)
    if then and there and median(there) > 0:
        ratio = median(then) / median(there)
        return tuple(ratio * value for value in now[-len(there) :]), (len(then), len(there))
    return now, ()
