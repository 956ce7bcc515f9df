"""What a gate can hold with a baseline: budgets, and whether its code can be run again; it judges
nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from perfgate.bless.repeats import gated
from perfgate.explain.shown import start_notes
from perfgate.judge.hold import holds
from perfgate.judge.looks import AB_PLAN, INTERLEAVED_PLAN, STORED_PLAN, Plan
from perfgate.model.baseline import Baseline, Result, with_held
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.settings import ABForm, Settings
from perfgate.model.verdict import FEWEST_TO_JUDGE
from perfgate.model.workload import Workload

Hold = float | Literal["auto"]
"""The budget to write where a gate cannot hold its own: this fraction, or what it can hold."""

WANTED_RUNS: Final = 10
WANTED_OCCASIONS: Final = 5
"""What blessing wants; it accepts fewer runs over 1 occasion, and says what that costs."""

_LEADING: Final = (Metric.STEP_MS, Metric.KERNEL_MS)
"""What leads a verdict."""
_AS_GOOD_AS: Final = 1.001
"""A kernel's budget may be wider by what the step may lose; rounding apart, that is its own."""


def budgets_of(workload: Workload, settings: Settings) -> dict[Metric, float]:
    """Return the budgets of a workload, as fractions: its own before the project's."""
    return {**settings.budgets, **workload.budgets}


def why_no_ab_run(baseline: Baseline, settings: Settings | None = None) -> Note | None:
    """Why its code cannot, or by the settings may not, be run again next to a candidate."""
    if not baseline.commits:
        return note("no-ab-run-no-commit")
    if baseline.commits[-1].dirty:
        return note("no-ab-run-uncommitted")
    if settings is None:
        return None
    room = settings.max_runs - settings.runs
    if settings.ab_run is ABForm.OFF or room < 2 * FEWEST_TO_JUDGE:
        return note("no-ab-run-by-settings")
    return None


def wider_budgets(
    baseline: Baseline, budgets: Mapping[Metric, float], plan: Plan, hold: Hold = "auto"
) -> dict[Metric, float]:
    """Return the budgets, as fractions, of time metrics that a gate cannot hold to theirs: what it
    can hold, or `hold`.

    What it can hold is rounded up to a tenth of a per cent, and is 100 % at most. Under a wider
    budget fewer runs are outliers, so it is what a gate can hold with itself as the budget.
    """
    found: dict[Metric, float] = {}
    for metric, budget in gated(baseline, budgets).items():
        can_hold = budget
        while can_hold < 1.0:
            loss = holds(baseline, metric, {**budgets, metric: can_hold}, plan)
            if loss is None or loss <= can_hold * _AS_GOOD_AS:
                break
            can_hold = min(1.0, math.ceil(1000 * loss) / 1000)
        if can_hold > budget:
            found[metric] = can_hold if hold == "auto" else max(budget, hold)
    return found


def last_plan(workload: Workload, baseline: Baseline, settings: Settings) -> Plan:
    """Return the looks that a gate of this baseline ends with, by what the settings and the
    baseline allow."""
    if why_no_ab_run(baseline, settings) is not None:
        return STORED_PLAN
    in_blocks = (
        settings.ab_run is not ABForm.ALTERNATE
        and workload.form == "function"
        and len(baseline.machine.gpus) <= 1
    )
    return INTERLEAVED_PLAN if in_blocks else AB_PLAN


# What is said of it


def holding(baseline: Baseline, workload: Workload, settings: Settings) -> Iterator[Note]:
    """Say what a gate holds it to, and which of these budgets it cannot hold with what it may
    measure."""
    budgets = with_held(budgets_of(workload, settings), baseline)
    yield held_to(baseline, budgets)
    wider = wider_budgets(baseline, budgets, last_plan(workload, baseline, settings))
    if wider:
        yield note(
            "cannot-be-held",
            workload=baseline.workload,
            wider=_each("held-to", wider),
            guards=("counts", *(one for one in gated(baseline, budgets) if one not in wider)),
        )


def held_to(baseline: Baseline, budgets: Mapping[Metric, float]) -> Note:
    """Say what a gate holds a baseline to: `counts exact, kernel_ms 1 %, step_ms 2 %`."""
    found = gated(baseline, with_held(budgets, baseline))
    ordered = dict(sorted(found.items(), key=lambda one: (one[1], one[0])))
    return note("holds", held=(note("counts-exact"), *_each("has-budget", ordered)))


def costs(baseline: Baseline, budgets: Mapping[Metric, float]) -> Note:
    """Say what the number of runs and occasions costs: what stored runs can hold."""
    runs, occasions = len(baseline.runs), len(baseline.occasions)
    held = _held(baseline, budgets, (runs, occasions))
    if Metric.STEP_MS not in held:
        return note("costs-nothing", runs=runs, occasions=occasions)
    of = _each("held-loss", held)
    if runs >= WANTED_RUNS and occasions >= WANTED_OCCASIONS:
        return note("costs", runs=runs, occasions=occasions, held=of)
    wanted = max(runs, WANTED_RUNS), max(occasions, WANTED_OCCASIONS)
    return note(
        "costs-fewer",
        runs=runs,
        occasions=occasions,
        held=of,
        wanted_runs=wanted[0],
        wanted_occasions=wanted[1],
        then=_each("held-loss", _held(baseline, budgets, wanted)),
    )


def _held(
    baseline: Baseline, budgets: Mapping[Metric, float], fuller: tuple[int, int]
) -> dict[Metric, float]:
    found = {metric: holds(baseline, metric, budgets, fuller=fuller) for metric in _LEADING}
    return {metric: loss for metric, loss in found.items() if loss is not None}


def _each(code: str, of: Mapping[Metric, float]) -> tuple[Note, ...]:
    return tuple(note(code, metric=metric, loss=loss) for metric, loss in of.items())


def worth_knowing(
    baseline: Baseline, newest: Result, not_on: str | None = None
) -> tuple[Note, ...]:
    """Say what to know of a baseline besides its numbers.

    `newest` is the last result that it is of, `not_on` the default branch where that does not hold
    its commit.
    """
    found = start_notes(newest.runs)
    if (why := why_no_ab_run(baseline)) is not None:
        return (note("never-an-ab-run", why=why), *found)
    return (*([] if not_on is None else [note("commit-not-on-branch", branch=not_on)]), *found)
