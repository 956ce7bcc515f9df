"""Puts rows together into one verdict and says how many runs it wants; knows no file, no clock and no other room."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfgate.judge.clocks import ClockJudgement, ClockRule, judge_clock
from perfgate.judge.compare import middle
from perfgate.judge.counts import CountJudgement, judge_count
from perfgate.judge.stages import FEWEST_TO_FAIL, LOOKS, next_look
from perfgate.judge.words import (
    amount,
    bless_command,
    listed,
    milliseconds,
    percent,
    plural,
    told_move,
)
from perfgate.model.baseline import Baseline
from perfgate.model.metric import GATED_CLOCKS, METRICS, Basis, ClockSpec, Kind, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import MetricVerdict, Verdict

_MOST_RUNS = LOOKS[-1].runs
"""More than this one gate never measures."""
_FARTHEST_RUNS = 60
"""How far to look for a number of runs that would settle a gate."""
_CLOCK_CHANGE = 0.005
"""Kernel time follows the SM clock: a change of more than this is worth a remark."""
_OCCASIONS_WANTED = 5
_NEXT_TO_NOTHING = 1e-9
"""Stands for a budget of zero where one must be divided by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """A verdict, and whether it is the last word."""

    verdict: Verdict
    wanted_runs: int
    """More than `verdict.runs`: not settled; measure up to so many and judge again."""

    @property
    def settled(self) -> bool:
        """Whether no further run is wanted."""
        return self.wanted_runs <= self.verdict.runs


@dataclass(kw_only=True, slots=True)
class _Rows:
    """What was judged so far, in the order of the metrics table."""

    rows: list[MetricVerdict] = field(default_factory=list)
    clocks: list[ClockJudgement] = field(default_factory=list)
    counts: list[CountJudgement] = field(default_factory=list)

    def of(self, outcome: Outcome) -> list[MetricVerdict]:
        return [row for row in self.rows if row.outcome is outcome]


def judge(
    baseline: Baseline,
    runs: Sequence[Run],
    *,
    budgets: Mapping[Metric, float],
    max_runs: int = _MOST_RUNS,
) -> Judgement:
    """Judge valid runs against a comparable baseline, by DECISION's stored-only looks.

    `budgets` are fractions and override the defaults; one for a metric that is shown only has no effect. While
    `wanted_runs` exceeds the runs given, the verdict is INCONCLUSIVE: what would be said if they stayed all.

    Raises ValueError for a budget that is negative or no number: the border should have refused it.
    """
    for metric, budget in budgets.items():
        if not (math.isfinite(budget) and budget >= 0):
            raise ValueError(f"budget of {metric} is {budget}, expected a fraction of at least 0")
    judged = _judge_rows(baseline, runs, budgets=budgets, max_runs=max_runs)
    outcome = _aggregate(judged, runs)
    wanted = len(runs)
    if outcome is Outcome.INCONCLUSIVE:
        unconfirmed = any(count.wants_second_run for count in judged.counts)
        wanted = len(runs) + 1 if unconfirmed else next_look(len(runs), max_runs=max_runs)
    settled = wanted == len(runs)
    reason, next_step = _tell(outcome, judged, baseline, runs, wanted=wanted, settled=settled)
    return Judgement(
        verdict=Verdict(
            workload=baseline.workload,
            outcome=outcome,
            reason=reason,
            next_step=next_step,
            metrics=tuple(judged.rows),
            runs=len(runs),
            baseline_runs=len(baseline.runs),
            dropped=tuple(drop for clock in judged.clocks for drop in clock.dropped),
            remarks=_remarks(judged, baseline, runs, budgets),
        ),
        wanted_runs=wanted,
    )


def _judge_rows(baseline: Baseline, runs: Sequence[Run], *, budgets: Mapping[Metric, float], max_runs: int) -> _Rows:
    judged = _Rows()
    if not runs:
        return judged
    sharing = sum(bool(baseline.values(metric)) for metric in GATED_CLOCKS)
    steps = baseline.values(Metric.STEP_MS)
    step_ms = middle(steps) if steps else None
    for metric, spec in METRICS.items():
        blessed = baseline.values(metric)
        found = [value for run in runs if (value := run.value(metric)) is not None]
        missing = len(found) < len(runs)
        if not blessed:
            if found or any(metric in run.values for run in baseline.runs):
                judged.rows.append(_new(metric, baseline, found))
        elif not spec.gated:
            judged.rows.append(_shown(metric, blessed, found, why=_why_missing(metric, runs) if missing else None))
        elif missing:
            reason = _why_missing(metric, runs)
            row = MetricVerdict(metric=metric, outcome=Outcome.NOT_MEASURED, baseline=middle(blessed), reason=reason)
            judged.rows.append(row)
        elif spec.clock is None:
            count = judge_count(metric, blessed, found, max_runs=max_runs)
            judged.counts.append(count)
            judged.rows.append(count.row)
        else:
            rule = _rule(metric, spec.clock, baseline, budgets, clocks=sharing)
            clock = judge_clock(rule, blessed, found, step_ms=step_ms)
            judged.clocks.append(clock)
            judged.rows.append(clock.row)
    return judged


def _rule(
    metric: Metric, spec: ClockSpec, baseline: Baseline, budgets: Mapping[Metric, float], *, clocks: int
) -> ClockRule:
    calibrated = baseline.calibration.get(metric)
    return ClockRule(
        metric=metric,
        basis=spec.basis,
        budget=budgets.get(metric, spec.budget),
        prior_sd=spec.prior_sd if calibrated is None else calibrated.run_sd,
        occasion_sd=spec.occasion_sd if calibrated is None else calibrated.occasion_sd,
        occasions=len(baseline.occasions),
        clocks=clocks,
    )


def _new(metric: Metric, baseline: Baseline, found: Sequence[float]) -> MetricVerdict:
    having = sum(metric in run.values for run in baseline.runs)
    told = f"in {having} of {plural(len(baseline.runs), 'baseline run')} only" if having else "new"
    reason = f"{told}, not gated: bless to gate it" if METRICS[metric].gated else f"{told}; shown, not gated"
    return MetricVerdict(metric=metric, outcome=None, now=middle(found) if found else None, reason=reason)


def _shown(metric: Metric, blessed: Sequence[float], found: Sequence[float], *, why: str | None) -> MetricVerdict:
    there = middle(blessed)
    here = middle(found) if found else None
    ratio = here / there - 1 if here is not None and there > 0 else math.nan
    change = ratio if math.isfinite(ratio) else None
    return MetricVerdict(
        metric=metric,
        outcome=None,
        baseline=there,
        now=here,
        basis=None if change is None else Basis.LOG,
        change=change,
        reason=why or "shown, not gated",
    )


def _why_missing(metric: Metric, runs: Sequence[Run]) -> str:
    without = [run for run in runs if run.value(metric) is None]
    why = next((told for run in without if (told := run.why_absent(metric)) is not None), None)
    return f"not measured in {len(without)} of {plural(len(runs), 'run')}" + (f": {why}" if why else "")


def _aggregate(judged: _Rows, runs: Sequence[Run]) -> Outcome:
    """Say what the rows come to. PASSED is what remains when something was judged and nothing spoke against it."""
    gated = [row.outcome for row in judged.rows if row.outcome is not None]
    if not runs or not gated:
        return Outcome.NOT_MEASURED
    ranked = (Outcome.REGRESSED, Outcome.NOT_MEASURED, Outcome.INCONCLUSIVE, Outcome.IMPROVED)
    return next((outcome for outcome in ranked if outcome in gated), Outcome.PASSED)


def _tell(
    outcome: Outcome, judged: _Rows, baseline: Baseline, runs: Sequence[Run], *, wanted: int, settled: bool
) -> tuple[str, str]:
    """Say why, and what to do next, in whole sentences."""
    bless = bless_command(baseline.workload)
    match outcome:
        case Outcome.REGRESSED:
            accept = bless_command(baseline.workload, "--accept-regression")
            return _headline(judged, outcome, also="Also regressed"), f"If this is meant, bless it: {accept}"
        case Outcome.IMPROVED:
            return _headline(judged, outcome, also="Also improved"), f"To hold the gain, bless it: {bless}"
        case Outcome.NOT_MEASURED:
            return _tell_not_measured(judged, runs, bless)
        case Outcome.INCONCLUSIVE if not settled:
            worst = _worst(judged.of(outcome))
            return (
                f"Not settled by {plural(len(runs), 'run')}: {worst.metric} {worst.reason}.",
                f"Measure up to {wanted} runs and judge again.",
            )
        case Outcome.INCONCLUSIVE:
            return _tell_inconclusive(judged, baseline, runs)
        case _:  # PASSED: rows never come to the gate's own outcomes, such as NO_BASELINE
            parts = [
                plural(len(kind), name) for kind, name in ((judged.clocks, "clock"), (judged.counts, "count")) if kind
            ]
            against = f"{plural(len(runs), 'run')} against {len(baseline.runs)} blessed"
            return f"Within budget: {listed(parts)}, {against}.", ""


def _headline(judged: _Rows, outcome: Outcome, *, also: str) -> str:
    """Tell the worst row, or the best gain, and name the others."""
    rows = judged.of(outcome)
    worst = _worst(rows)
    told = f"{worst.metric} {_moved(worst)}."
    others = [str(row.metric) for row in rows if row is not worst]
    return f"{told} {also}: {listed(others)}." if others else told


def _moved(row: MetricVerdict) -> str:
    if row.change is None or row.low is None or row.high is None or row.basis is None or row.budget is None:
        return row.reason
    moved = told_move(row.change, row.low, row.high, basis=row.basis)
    return f"{moved}, budget {percent(row.budget)} %" if row.outcome is Outcome.REGRESSED else moved


def _worst(rows: Sequence[MetricVerdict]) -> MetricVerdict:
    """Return the row that says most: counts before clocks, as they are exact; then by size, in budgets for clocks."""

    def size(row: MetricVerdict) -> tuple[bool, float]:
        is_count = METRICS[row.metric].kind is Kind.COUNT
        reach = row.high if row.outcome is Outcome.INCONCLUSIVE and not is_count else row.change
        change = math.inf if reach is None else abs(reach)
        return is_count, change if is_count else change / (row.budget or _NEXT_TO_NOTHING)

    return max(rows, key=size)


def _tell_not_measured(judged: _Rows, runs: Sequence[Run], bless: str) -> tuple[str, str]:
    if not runs:
        return "There is no run to judge.", "Measure again: pytest --perfgate"
    missing = judged.of(Outcome.NOT_MEASURED)
    if not missing:
        return "The baseline holds no metric that is gated.", f"Bless a baseline that does: {bless}"
    told = "; ".join(f"{row.metric}: {row.reason}" for row in missing[:3])
    more = f"; and {len(missing) - 3} more" if len(missing) > 3 else ""
    return (
        f"The baseline has what these runs lack. {told}{more}.",
        f"See the runs' captures and logs for the cause. If this is meant, bless it: {bless}",
    )


def _tell_inconclusive(judged: _Rows, baseline: Baseline, runs: Sequence[Run]) -> tuple[str, str]:
    """Say how small a change this workload can show, and how many runs more would do."""
    worst = _worst(judged.of(Outcome.INCONCLUSIVE))
    if len(runs) < FEWEST_TO_FAIL:
        return (
            f"{worst.metric} {worst.reason}: {plural(len(runs), 'run')} can pass a clock, never fail it.",
            f"Allow at least {FEWEST_TO_FAIL} runs: pytest --perfgate --perfgate-max-runs={FEWEST_TO_FAIL}",
        )
    clock = next((clock for clock in judged.clocks if clock.row is worst), None)
    if clock is None or clock.comparison is None:
        return (
            f"{worst.metric} {worst.reason}.",
            "More runs do not help while this lasts: see the runs' captures and logs for the cause.",
        )
    comparison = clock.comparison
    told = (
        f"{worst.metric} {worst.reason}: neither shown to be within it nor beyond it. The smallest loss that "
        f"{len(runs)} runs can show here is {percent(clock.rule.smallest(comparison))} %."
    )
    needed = _runs_needed(judged.clocks, len(runs))
    if needed is not None and needed <= _MOST_RUNS:
        return (
            f"{told} About {plural(needed - len(runs), 'run')} more would settle it.",
            f"Allow {needed} runs: pytest --perfgate --perfgate-max-runs={needed}",
        )
    if needed is not None:
        told += f" It would take about {needed} runs, more than the {_MOST_RUNS} of one gate."
    if comparison.occasion_share > 0.5:
        occasions = len(baseline.occasions)
        few = f", of which the baseline spans {occasions}" if occasions < _OCCASIONS_WANTED else ""
        if needed is None:
            share = percent(comparison.occasion_share)
            told += f" No number of runs would settle it: {share} % of its variance lies between occasions{few}."
        return told, (
            "Measure the baseline's commit again: if it moved too, it was the machine, and a bless settles it: "
            + bless_command(baseline.workload)
        )
    if needed is None:
        told += f" Not even {_FARTHEST_RUNS} runs would settle it."
    if len(baseline.runs) < _MOST_RUNS:
        has = f"{plural(len(baseline.runs), 'run')}; {_MOST_RUNS} are wanted"
        return told, f"Bless a fuller baseline (this one has {has}): {bless_command(baseline.workload)}"
    spread = percent(comparison.run_sd)
    return told, f"Its runs differ by {spread} % (SD): steady the workload, or set a wider budget for {worst.metric}."


def _runs_needed(clocks: Sequence[ClockJudgement], runs: int) -> int | None:
    """Return with how many runs the gate would be settled, if estimates and SDs stayed as they are."""
    for wanted in range(runs + 1, _FARTHEST_RUNS + 1):
        then = [
            (clock.rule, clock.comparison.with_more_runs(wanted - runs))
            for clock in clocks
            if clock.comparison is not None
        ]
        if any(rule.fails(comparison, runs=wanted, separated=False) for rule, comparison in then):
            return wanted
        if all(rule.passes(comparison) for rule, comparison in then):
            return wanted
    return None


def _remarks(
    judged: _Rows, baseline: Baseline, runs: Sequence[Run], budgets: Mapping[Metric, float]
) -> tuple[str, ...]:
    told = [count.remark for count in judged.counts if count.remark is not None]
    told += _remark_on_anchor(baseline, runs, budgets)
    told += _remark_on_clocks(baseline, runs)
    return tuple(told)


def _remark_on_anchor(baseline: Baseline, runs: Sequence[Run], budgets: Mapping[Metric, float]) -> list[str]:
    """Compare with the best step ever blessed: many losses below budget add up."""
    now = [value for run in runs if (value := run.value(Metric.STEP_MS)) is not None]
    spec = METRICS[Metric.STEP_MS].clock
    if baseline.anchor is None or not now or spec is None:
        return []
    best = baseline.anchor.step_ms
    budget = budgets.get(Metric.STEP_MS, spec.budget)
    slower = middle(now) / best - 1
    if slower <= budget:
        return []
    anchor = f"{milliseconds(best)} ms on {baseline.anchor.at:%Y-%m-%d}"
    return [f"step_ms is {percent(slower)} % slower than the best ever blessed ({anchor}), budget {percent(budget)} %"]


def _remark_on_clocks(baseline: Baseline, runs: Sequence[Run]) -> list[str]:
    before = [run.sm_clock_mhz for run in baseline.runs if run.sm_clock_mhz is not None]
    after = [run.conditions.sm_clock_mhz for run in runs if run.conditions.sm_clock_mhz is not None]
    if not before or not after or middle(before) <= 0:
        return []
    then, now = middle(before), middle(after)
    if abs(now / then - 1) <= _CLOCK_CHANGE:
        return []
    return [f"the SM clock was {amount(then)} MHz in the baseline and {amount(now)} MHz now: kernel time follows it"]
