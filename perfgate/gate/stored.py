"""Against the stored baseline: looks at more and more runs, until a plan of looks is settled or nothing is left."""

from __future__ import annotations

from perfgate.gate.anchor import has_crept
from perfgate.gate.comparable import (
    RECORDS_LOST,
    bless_command,
    launches_gone,
    other_processes,
    other_steps,
    parts_of,
    verdict_of,
)
from perfgate.gate.conclusion import conclude
from perfgate.gate.endings import OtherSteps
from perfgate.gate.terms import Checked
from perfgate.gate.uncompared import measure_alone
from perfgate.gate.underway import Underway
from perfgate.judge.clock import clock_moved, clock_rise, longer_by_clock
from perfgate.judge.judge import judge
from perfgate.judge.looks import SCREEN_PLAN, STORED_PLAN, Plan
from perfgate.model.baseline import STEP_VALUE, Baseline
from perfgate.model.metric import PERIODS, Metric
from perfgate.model.note import Note, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Verdict
from perfgate.model.words import listed
from perfgate.words import say
from perfgate.words.numbers import short_percent

_FOLLOW_CLOCK = (*PERIODS, Metric.KERNEL_MS)
"""Of which all, or nearly all, may take longer at a lower SM clock; copies and the host do not."""


def settle_by_stored(underway: Underway, baseline: Baseline, *, no_duet: str = "") -> Checked:
    """Settle it against the stored baseline alone; `no_duet` says why an A/B run came to nothing, if tried."""
    if baseline.step_value != STEP_VALUE:
        differs = f"step_ms is the {baseline.step_value} period in the baseline, and the mean of capped periods now."
        return _incomparable(
            underway, differs, "Let the baseline's commit be run again (duet not off)"
        )
    underway.no_pairs = quoted(no_duet) if no_duet else None
    verdict = look(underway, baseline, STORED_PLAN)
    if isinstance(verdict, Checked):
        return verdict
    verdict = _beyond_clock(underway, verdict, baseline)
    verdict = _unhidden_by_clock(underway, verdict, baseline)
    _, remedy = parts_of(no_duet)
    if remedy and verdict.outcome is Outcome.INCONCLUSIVE:
        verdict = verdict.model_copy(update={"next": quoted(remedy)})
    return conclude(underway, verdict, baseline)


def look(underway: Underway, baseline: Baseline, plan: Plan) -> Verdict | Checked:
    """Measure and judge by a plan of looks until it is settled; a `Checked` where no plan can go on.

    Raises:
        Ended: a run came to nothing.
        OtherSteps: other ranges than the baseline's are its steps.
    """
    policy, runs = underway.policy, underway.runs
    _refuse_other_steps(underway, baseline)
    verdict = judge(underway.evidence(baseline), policy, plan.stage)
    wanted = len(runs) + verdict.more
    while verdict.more:
        if len(runs) >= policy.runs and not underway.may_spend(verdict.more):
            break
        underway.make_run(wanted)
        if (differs := other_processes(baseline, runs[-1])) is not None:
            return _incomparable(
                underway, differs, "Look for a process that ended early or took no step"
            )
        if (differs := launches_gone(baseline.runs, runs[-1])) is not None:
            return _incomparable(underway, differs, RECORDS_LOST)
        _refuse_other_steps(underway, baseline)
        verdict = judge(underway.evidence(baseline), policy, plan.stage)
        if len(runs) >= wanted and plan is not SCREEN_PLAN and has_crept(underway, baseline):
            return conclude(underway, verdict, baseline)
        wanted = len(runs) + verdict.more
    return verdict


def _refuse_other_steps(underway: Underway, baseline: Baseline) -> None:
    for run in underway.runs:
        if (differs := other_steps(baseline.runs, run, whose="the baseline")) is not None:
            raise OtherSteps(differs, stored=True)


def _incomparable(underway: Underway, differs: str, advice: str) -> Checked:
    advice = (
        f"{advice}. If it is meant, bless it: {bless_command(underway.expectation.workload.id)}"
    )
    return measure_alone(
        underway, verdict_of(underway.expectation, Outcome.INCOMPARABLE, differs, advice)
    )


# Where the SM clock is not what it was


def _beyond_clock(underway: Underway, verdict: Verdict, baseline: Baseline) -> Verdict:
    """Leave open what a lower SM clock alone would make of the code that was blessed."""
    longer = longer_by_clock(baseline.runs, underway.runs)
    lost = [row for row in verdict.metrics if row.outcome is Outcome.REGRESSED]
    by_clock = [
        row
        for row in lost
        if row.metric in _FOLLOW_CLOCK and row.low is not None and row.low <= longer
    ]
    if not longer or not lost or by_clock != lost:
        return verdict
    open_rows = tuple(
        row.model_copy(update={"outcome": Outcome.INCONCLUSIVE}) if row in lost else row
        for row in verdict.metrics
    )
    return verdict.model_copy(
        update={
            "outcome": Outcome.INCONCLUSIVE,
            "why": quoted(
                f"{_clock(underway, baseline)}, which alone can make a step {short_percent(longer)} "
                f"longer: {listed([row.metric for row in lost])} {'is' if len(lost) == 1 else 'are'} not shown to have "
                "lost more than that."
            ),
            "next": _at_this_clock(underway),
            "metrics": open_rows,
            "loss_level": None,
            "loss_by": None,
        }
    )


def _unhidden_by_clock(underway: Underway, verdict: Verdict, baseline: Baseline) -> Verdict:
    """Leave open what a higher SM clock may hide: a loss within what it makes faster."""
    rise = clock_rise(baseline.runs, underway.runs)
    # Both follow the clock, and whichever is held closer must not lose unseen.
    of_clocks = (row.budget for row in verdict.metrics if row.metric in _FOLLOW_CLOCK)
    closest = min((budget for budget in of_clocks if budget is not None), default=0.0)
    if verdict.outcome not in (Outcome.PASSED, Outcome.IMPROVED) or rise <= closest:
        return verdict
    open_rows = tuple(
        row.model_copy(
            update={"outcome": Outcome.INCONCLUSIVE, "estimate": (1 + row.change) * (1 + rise) - 1}
        )
        if row.metric in _FOLLOW_CLOCK
        and row.outcome is not None
        and row.change is not None
        and row.budget is not None
        else row
        for row in verdict.metrics
    )
    return verdict.model_copy(
        update={
            "metrics": open_rows,
            "outcome": Outcome.INCONCLUSIVE,
            "why": quoted(
                f"nothing is shown to be slower than when it was blessed, but "
                f"{_clock(underway, baseline)}: a loss of up to {short_percent(rise)} would not show."
            ),
            "next": _at_this_clock(underway),
        }
    )


def _clock(underway: Underway, baseline: Baseline) -> str:
    moved = clock_moved(baseline.runs, underway.runs)
    return "" if moved is None else say.fact(moved)


def _at_this_clock(underway: Underway) -> Note:
    return quoted(
        "Let the baseline's commit be run again beside it (a clone with its history, duet not off). If this clock is "
        "to stay, delete the baseline's file, gate once more and bless anew: "
        f"{bless_command(underway.expectation.workload.id)}"
    )
