"""Whether small losses have added up: what a gate's runs say next to the best step ever blessed."""

from __future__ import annotations

from statistics import median

from perfgate.execute.pairing import in_noise_of
from perfgate.gate.underway import Underway, step_times
from perfgate.judge.anchor import drift
from perfgate.judge.clock import by_clock, clock_moved
from perfgate.model.baseline import Baseline, with_held
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.verdict import Drift


def drifted(
    underway: Underway, baseline: Baseline, reference: Baseline | None = None
) -> Drift | None:
    """How far it has come from the anchor, if known; `reference` is an A/B run's other side."""
    now, medians = _to_anchor(underway, baseline, reference)
    budget = underway.policy.anchor_budget
    budgets = with_held(underway.policy.budgets, baseline)
    found = drift(baseline, now, budgets, anchor_budget=budget, medians=medians)
    longer = 0.0 if reference is not None else _longer(underway, baseline)
    if found is None or not found.shown or not longer:
        return found
    at_clock = [value / (1 + longer) for value in now]
    rest = drift(baseline, at_clock, budgets, anchor_budget=budget)
    return found.model_copy(update={"shown": rest is not None and rest.shown})


def has_drifted(underway: Underway, baseline: Baseline) -> bool:
    """Whether the runs so far, next to the stored ones, show that small losses have added up."""
    found = drifted(underway, baseline)
    return found is not None and found.shown


def _longer(underway: Underway, baseline: Baseline) -> float:
    """By which fraction kernels may take longer since the SM clock is lower now, else 0."""
    runs = underway.runs
    is_moved = clock_moved(baseline.runs, runs) is not None
    return max(by_clock(baseline.runs, runs), 0.0) if is_moved else 0.0


def drift_unknown(found: Drift) -> Note | None:
    """Note that a step is beyond the anchor's budget where its runs do not show that it is."""
    if found.shown or found.change < found.budget:
        return None
    return note(
        "drift-not-shown",
        loss=found.change,
        low=found.low,
        high=found.high,
        budget=found.budget,
        best_ms=found.path[0].step_ms,
    )


def _to_anchor(
    underway: Underway, baseline: Baseline, reference: Baseline | None
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """What is held against the anchor, ms of each run, and the runs of each median it rests on.

    After an A/B run that is its ratio, put on top of the stored times. In blocks each pair has its
    own: what a step takes on one core says nothing next to stored times.
    """
    then = baseline.values(Metric.STEP_MS)
    if reference is not None and then and underway.blocks:
        sides = [
            (there.value(Metric.STEP_MS), in_noise_of(there, run).value(Metric.STEP_MS))
            for there, run in zip(underway.references, underway.blocks, strict=True)
        ]
        ratios = [here / there for there, here in sides if there and here is not None]
        return tuple(median(then) * ratio for ratio in ratios), (len(then),)
    now = step_times(underway.runs)
    there = () if reference is None else reference.values(Metric.STEP_MS)
    if then and there and median(there) > 0:
        ratio = median(then) / median(there)
        return tuple(ratio * value for value in now[-len(there) :]), (len(then), len(there))
    return now, ()
