"""How much a workload's times differ when nothing changed: SDs from unchanged repeats. Pure:
measures, writes nothing.

A model of nested errors, `x = mean + occasion + run`: runs of one occasion share its error, and are
drawn about it::

    occasion 1     x x  x x x      |
    occasion 2          x x x  x x      run_sd: within the rows
    occasion 3   x x x x x         |    occasion_sd: between the rows' means, beyond run_sd
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby

import numpy as np

from perfgate.bless.holds import WANTED_OCCASIONS
from perfgate.bless.repeats import Repeats, few, gated, repeats, why_no_repeat
from perfgate.judge.compare import FLOOR_SD, PRIOR_DF, Floats, between_occasions
from perfgate.judge.hold import holds
from perfgate.judge.looks import STORED_PLAN
from perfgate.judge.outliers import keep
from perfgate.judge.times import SPECS, as_x, columns, is_usable, to_x
from perfgate.model.baseline import Baseline, Result, Spread, changed_code
from perfgate.model.errors import CalibrationRefused
from perfgate.model.history import CalibratedTime, Calibration
from perfgate.model.metric import Metric, TimeSpec
from perfgate.model.note import Note, note


def calibrate(
    baseline: Baseline,
    results: Sequence[Result],
    *,
    budgets: Mapping[Metric, float],
    at: datetime,
    unreadable: int = 0,
) -> Calibration:
    """Return the baseline with the SDs of its time metrics, from all unchanged repeats; nothing
    else in it changes.

    Args:
        baseline: what is blessed; its own runs are repeats.
        results: kept results of the workload, in any order; those that are no repeats are left out,
            and counted.
        budgets: fractions, over the defaults.
        at: when this is done, aware.
        unreadable: how many more results are kept, which cannot be read.

    Raises:
        CalibrationRefused: the baseline holds no time metric of which an SD could be known.
    """
    found, there = repeats(baseline, results), columns(baseline.runs)
    budgets = gated(baseline, budgets)
    known: dict[Metric, Spread] = {}
    dropped: dict[Metric, int] = {}
    for metric, budget in budgets.items():
        values = [[run.values[metric] for run in one.runs] for one in found.occasions]
        x = [as_x(metric, np.array(of_occasion), there) for of_occasion in values]
        if is_usable(*x):
            known[metric] = spread = _spread(SPECS[metric], x, budget, at)
            dropped[metric] = found.runs - spread.runs
    calibrated = baseline.model_copy(update={"calibration": {**baseline.calibration, **known}})
    times = [
        CalibratedTime(metric=metric, spread=spread, budget=budgets[metric], smallest=smallest)
        for metric, spread in known.items()
        if (smallest := holds(calibrated, metric, budgets)) is not None
    ]
    if not times or found.runs < 2:
        raise CalibrationRefused("calibrate-nothing-gated", workload=baseline.workload)
    return Calibration(
        baseline=calibrated,
        runs=found.runs,
        occasions=len(found.occasions),
        first=found.occasions[0].measured_at,
        last=found.occasions[-1].measured_at,
        times=tuple(times),
        gate_runs=STORED_PLAN.most_runs,
        notes=tuple(_notes(found, dropped, baseline, unreadable)),
    )


# Statistics


def spreads(occasions: Sequence[Floats], spec: TimeSpec) -> tuple[float, float]:
    """Return the SD between runs (never below the judge's floor) and between occasions, in the
    metric's basis.

    Of one occasion the second is the default: nothing is known of it.
    """
    x, sizes = np.concatenate(occasions), [len(runs) for runs in occasions]
    shown, within = map(float, between_occasions(x, np.ones_like(x, dtype=np.bool_), sizes))
    within_df = len(x) - len(sizes)
    if not within_df:
        # Of single runs nobody knows what lies within an occasion; the default then stands for it.
        shown = max(0.0, shown - spec.prior_sd**2)
    run_sd = _moderated(within, within_df, prior_sd=spec.prior_sd)
    return max(run_sd, FLOOR_SD), _moderated(shown, len(sizes) - 1, prior_sd=spec.occasion_sd)


def _moderated(variance: float, df: float, *, prior_sd: float) -> float:
    """Return an SD from a variance of so many degrees of freedom and a prior SD: s^2 = (d0 s0^2 + d
    s^2) / (d0 + d).

    Smyth, Linear models and empirical Bayes methods (2004), 3: what few runs say is drawn towards
    what is usual.
    """
    return math.sqrt((PRIOR_DF * prior_sd * prior_sd + df * variance) / (PRIOR_DF + df))


def _spread(spec: TimeSpec, x: Sequence[Floats], budget: float, at: datetime) -> Spread:
    """Return the SDs of one time metric, of the runs that are no outliers of their occasion."""
    flags = keep(x, prior_sd=spec.prior_sd, budget=to_x(spec.basis, budget)).flags
    kept = [runs[flag] for runs, flag in zip(x, flags, strict=True)]
    run_sd, occasion_sd = spreads(kept, spec)
    taken = sum(map(len, kept))
    return Spread(run_sd=run_sd, occasion_sd=occasion_sd, runs=taken, occasions=len(kept), at=at)


# What should be known besides the numbers


def _notes(
    found: Repeats,
    dropped: Mapping[Metric, int],
    baseline: Baseline,
    unreadable: int,
) -> Iterator[Note]:
    occasions = len(found.occasions)
    if occasions < WANTED_OCCASIONS:
        yield note("few-occasions", occasions=occasions, wanted=WANTED_OCCASIONS)
    if found.regressed:
        yield note("repeats-regressed", n=found.regressed)
    for metric, n in dropped.items():
        if n:
            yield note("repeats-dropped", metric=metric, n=n, runs=found.runs - n, of=found.runs)
    for metric in gated(baseline, {}):
        if metric not in dropped:
            yield note("not-calibrated", metric=metric)
    groups = [list(group) for _, group in groupby(sorted(found.left_out, key=repr), key=repr)]
    reasons = [note("of-results", n=len(group), why=group[0]) for group in groups]
    if unreadable:
        reasons.append(note("of-results", n=unreadable, why=note("repeat-unreadable")))
    if reasons:
        yield note("results-left-out", reasons=tuple(reasons))


# Refusals


def refuse_changed(baseline: Baseline, *, code_now: Mapping[str, str]) -> None:
    """Refuse, before minutes are spent on it, to measure what cannot be a repeat of what is
    blessed; `code_now` is the SHA-256 by path, as the files are now, of those that it is of.

    Raises:
        CalibrationRefused: the code has changed, or there is nothing to calibrate.
    """
    if not gated(baseline, {}):
        raise CalibrationRefused("calibrate-nothing-gated", workload=baseline.workload)
    if changed := changed_code(baseline.code_files, code_now):
        raise CalibrationRefused(
            "calibrate-code-changed", workload=baseline.workload, files=few(changed)
        )


def refuse_fresh(baseline: Baseline, fresh: Result | None) -> None:
    """Refuse to go on where what was measured to be a repeat is none.

    Raises:
        CalibrationRefused: there is no fresh result, or it is of something else.
    """
    if fresh is None:
        raise CalibrationRefused("calibrate-no-result", workload=baseline.workload)
    if (why := why_no_repeat(baseline, fresh)) is not None:
        raise CalibrationRefused("calibrate-no-repeat", workload=baseline.workload, why=why)
