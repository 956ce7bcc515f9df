"""Remarks beside a verdict: unconfirmed counts, creep against the anchor, another SM clock; they decide nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfgate.judge.compare import middle
from perfgate.judge.rows import Rows
from perfgate.judge.words import amount, milliseconds, percent
from perfgate.model.baseline import Baseline
from perfgate.model.metric import METRICS, Metric
from perfgate.model.sample import Run

_CLOCK_CHANGE = 0.005
"""Kernel time follows the SM clock: a change of more than this is worth a remark."""


def remarks(judged: Rows, baseline: Baseline, runs: Sequence[Run], budgets: Mapping[Metric, float]) -> tuple[str, ...]:
    """Return what is worth knowing beside the verdict, as sentences without full stop."""
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
