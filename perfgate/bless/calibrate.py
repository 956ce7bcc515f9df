"""How much a workload's times differ when nothing changed: SDs from unchanged repeats. Pure:
measures, writes nothing.

A model of nested errors, `x = mean + occasion + run`: runs of one occasion share its error, and are
drawn about it::

    occasion 1     x x  x x x      |
    occasion 2          x x x  x x      run_sd: within the rows
    occasion 3   x x x x x         |    occasion_sd: between the rows' means, beyond what run_sd explains
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd

from perfgate.bless.bless import WANTED_OCCASIONS
from perfgate.bless.repeats import (
    Repeats,
    clean_commits,
    gated,
    is_blessed_commit,
    known_to_differ,
    repeats,
    why_no_repeat,
)
from perfgate.judge.compare import FLOOR_SD, PRIOR_DF, Floats
from perfgate.judge.hold import holds
from perfgate.judge.looks import AB_PLAN, STORED_PLAN
from perfgate.judge.outliers import keep
from perfgate.judge.rule import as_x, columns, is_usable
from perfgate.model.baseline import Baseline, Commit, Result, Spread, changed_code, code_digest
from perfgate.model.errors import CalibrationRefused
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Basis, Metric, TimeSpec, budget_of
from perfgate.model.outcome import Outcome
from perfgate.model.workload import Workload

# Statistics


@dataclass(frozen=True, kw_only=True, slots=True)
class Components:
    """Variance within occasions and between them, from groups of unequal size; degrees of freedom
    may be 0."""

    within: float
    """Mean square within occasions; 0 where no occasion has two runs."""
    within_df: int
    between: float
    """Mean square between the occasions' means, weighted by runs; 0 of one occasion."""
    between_df: int
    runs_per_occasion: float
    """Searle's n0: their mean, a little less where they are unequal."""

    def occasion_variance(self, *, run_variance: float) -> float:
        """Return what the occasions' means vary by beyond `run_variance`, never below 0; 0 of one
        occasion."""
        return (
            max(0.0, self.between - run_variance) / self.runs_per_occasion
            if self.between_df
            else 0.0
        )


def components(occasions: Sequence[Floats]) -> Components:
    """Split the variance of runs by occasion: one-way random-effects ANOVA, method of moments,
    unequal group sizes.

    Searle, Casella and McCulloch, Variance Components (1992), 3.6: with N runs in a groups of n_i,
    MSW = SSW / (N - a), MSB = sum n_i (mean_i - mean)^2 / (a - 1), n0 = (N - sum n_i^2 / N) / (a -
    1), and the variance between groups is (MSB - MSW) / n0. At least one occasion; each has at
    least one run.
    """
    # Sorted, so that the order in which runs and occasions come changes no bit.
    ordered = sorted(
        (np.sort(runs) for runs in occasions), key=lambda runs: (len(runs), *runs.tolist())
    )
    numbers = np.repeat(np.arange(len(ordered)), [len(runs) for runs in ordered])
    runs = pd.DataFrame({"occasion": numbers, "x": np.concatenate(ordered)}).groupby("occasion")[
        "x"
    ]
    sizes, means, total = runs.size(), runs.mean(), len(numbers)
    inner = float((runs.var(ddof=0) * sizes).sum())
    outer = float((sizes * (means - (sizes * means).sum() / total) ** 2).sum())
    within_df, between_df = total - len(ordered), len(ordered) - 1
    return Components(
        within=inner / within_df if within_df else 0.0,
        within_df=within_df,
        between=outer / between_df if between_df else 0.0,
        between_df=between_df,
        runs_per_occasion=(total - float(np.sum(np.square(sizes))) / total) / between_df
        if between_df
        else total,
    )


def moderated(variance: float, df: float, *, prior_sd: float, prior_df: float = PRIOR_DF) -> float:
    """Return an SD from a variance of so many degrees of freedom and a prior SD: s^2 = (d0 s0^2 + d
    s^2) / (d0 + d).

    Smyth, Linear models and empirical Bayes methods (2004), 3: what few runs say is drawn towards
    what is usual.
    """
    return math.sqrt((prior_df * prior_sd * prior_sd + df * variance) / (prior_df + df))


def spreads(occasions: Sequence[Floats], default: TimeSpec) -> tuple[float, float]:
    """Return the SD between runs (never below the judge's floor) and between occasions, both in the
    metric's basis.

    Of one occasion the second is the default: nothing is known of it.
    """
    found = components(occasions)
    run_sd = max(moderated(found.within, found.within_df, prior_sd=default.prior_sd), FLOOR_SD)
    # Of single runs nobody knows what lies within an occasion; the default then stands for it.
    run_variance = found.within if found.within_df else default.prior_sd**2
    beyond = found.occasion_variance(run_variance=run_variance)
    return run_sd, moderated(beyond, found.between_df, prior_sd=default.occasion_sd)


# Calibration


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeCalibration:
    """One time metric: its SDs, and what a gate can see with them."""

    metric: Metric
    spread: Spread
    budget: float
    smallest: float
    """The loss, a fraction in the metric's basis, that stored runs can hold."""
    in_the_end: float
    """The same of all that a gate may measure: an A/B run's pairs where there are any, else the
    stored looks."""
    set_aside: tuple[float, ...] = ()
    """Outliers, by their distance from the median of their occasion, as fractions in the basis."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """A baseline with what was found, and what is to be told."""

    baseline: Baseline
    repeats: Repeats
    times: tuple[TimeCalibration, ...]
    information: tuple[str, ...] = ()


def calibrate(
    baseline: Baseline,
    results: Sequence[Result],
    *,
    at: datetime,
    budgets: Mapping[Metric, float] | None = None,
    ab_run: bool = False,
    unreadable: int = 0,
) -> Calibration:
    """Return the baseline with the SDs of its time metrics, from all unchanged repeats; nothing else in
    it changes.

    Args:
        baseline: what is blessed; its own runs are repeats.
        results: kept results of the workload, in any order; those that are no repeats are left out,
            and counted.
        at: when this is done, aware.
        budgets: fractions, over the defaults.
        A/B run: whether a gate may run the baseline's commit again beside the candidate.
        unreadable: how many more results are kept, which cannot be read.

    Raises:
        CalibrationRefused: the baseline holds no time metric of which an SD could be known.
    """
    found = repeats(baseline, results)
    spreads_by: dict[Metric, tuple[Spread, tuple[float, ...]]] = {}
    given = {
        metric: budget
        for metric, budget in (budgets or {}).items()
        if METRICS[metric].time is not None
    }
    budget_by = {
        metric: budget_of(metric, given) or _time_spec(metric).budget for metric in gated(baseline)
    }
    for metric in budget_by:
        spec = _time_spec(metric)
        values = [[run[metric] for run in occasion] for occasion in found.occasions]
        there = {**columns(baseline.runs), metric: np.concatenate(values)}
        x = [as_x(metric, np.asarray(runs), there) for runs in values]
        if is_usable(*x):
            spreads_by[metric] = _spread(spec, x, budget=budget_by[metric], at=at)
    measured = {metric: spread for metric, (spread, _) in spreads_by.items()}
    calibrated = baseline.model_copy(update={"calibration": {**baseline.calibration, **measured}})
    last = AB_PLAN if ab_run else STORED_PLAN
    rows: list[TimeCalibration] = []
    for metric, (spread, set_aside) in spreads_by.items():
        smallest = holds(calibrated, metric, given)
        in_the_end = holds(calibrated, metric, given, last)
        if smallest is not None and in_the_end is not None:
            rows.append(
                TimeCalibration(
                    metric=metric,
                    spread=spread,
                    budget=budget_by[metric],
                    smallest=smallest,
                    in_the_end=in_the_end,
                    set_aside=set_aside,
                )
            )
    if not rows or found.runs < 2:
        raise _nothing_to_calibrate(baseline)
    known = {time.metric: time.spread for time in rows}
    return Calibration(
        baseline=baseline.model_copy(update={"calibration": {**baseline.calibration, **known}}),
        repeats=found,
        times=tuple(rows),
        information=_information(
            baseline,
            found,
            rows,
            [metric for metric in gated(baseline) if metric not in known],
            unreadable=unreadable,
        ),
    )


def _spread(
    spec: TimeSpec, x: Sequence[Floats], *, budget: float, at: datetime
) -> tuple[Spread, tuple[float, ...]]:
    """Return the SDs of one time metric, and what was set aside: fractions, from the median of their
    occasion."""
    in_basis = math.log1p(budget) if spec.basis is Basis.LOG else budget
    kept = keep(x, prior_sd=spec.prior_sd, budget=in_basis).flags
    occasions = [runs[flags] for runs, flags in zip(x, kept, strict=True)]
    run_sd, occasion_sd = spreads(occasions, spec)
    far = [
        distance
        for runs, flags in zip(x, kept, strict=True)
        for distance in (runs[~flags] - np.median(runs)).tolist()
    ]
    spread = Spread(
        run_sd=run_sd,
        occasion_sd=occasion_sd,
        runs=sum(len(runs) for runs in occasions),
        occasions=len(occasions),
        at=at,
    )
    return spread, tuple(math.expm1(d) if spec.basis is Basis.LOG else d for d in far)


def _information(
    baseline: Baseline,
    found: Repeats,
    times: Sequence[TimeCalibration],
    skipped: Sequence[str],
    *,
    unreadable: int,
) -> tuple[str, ...]:
    """Return what is worth knowing beside the numbers, in whole sentences."""
    rows: list[str] = []
    occasions = len(found.occasions)
    if occasions == 1:
        rows.append(
            "All runs are of one occasion, so the SD between occasions is the default, which nobody measured here. "
            f"Run this again at other times of day: {WANTED_OCCASIONS} occasions are wanted."
        )
    elif occasions < WANTED_OCCASIONS:
        rows.append(
            f"{occasions} of the {WANTED_OCCASIONS} occasions wanted: run this again at other times of day, and the "
            "default weighs less in the SD between occasions."
        )
    if found.regressed:
        were = "result was" if found.regressed == 1 else "results were"
        rows.append(
            f"{found.regressed} kept {were} REGRESSED. The code is the blessed one, so it counts: what moved was the "
            "machine, and is in the SD between occasions."
        )
    for time in times:
        if time.set_aside:
            far = ", ".join(f"{distance:+.1%}".replace("%", " %") for distance in time.set_aside)
            whole = " of a step" if _time_spec(time.metric).basis is Basis.STEP else ""
            runs = "run" if len(time.set_aside) == 1 else "runs"
            rows.append(
                f"{len(time.set_aside)} {runs} set aside as an outlier of {time.metric}: {far}{whole}. Its SDs are "
                f"of {time.spread.runs} of the {found.runs} runs."
            )
    rows += [
        f"{metric} is not calibrated: it is 0 in some run, or out of all bounds."
        for metric in skipped
    ]
    left_out = {**found.left_out, **({"that cannot be read": unreadable} if unreadable else {})}
    if left_out:
        reasons = ", ".join(f"{count} {why}" for why, count in left_out.items())
        rows.append(f"Kept results left out: {reasons}.")
    if baseline.code is None:
        rows.append(
            "The baseline does not say which files it ran"
            + (
                ", so kept results count only where they are of its commit and nothing was changed in it."
                if clean_commits(baseline)
                else " nor a commit without changes, so only its own runs count. Bless it anew to calibrate it."
            )
        )
    return tuple(rows)


def _time_spec(metric: Metric) -> TimeSpec:
    spec = METRICS[metric].time
    assert spec is not None
    return spec


# Refusals


def refuse_changed(
    baseline: Baseline,
    workload: Workload,
    results: Sequence[Result],
    *,
    code_now: Callable[[Mapping[str, str]], Mapping[str, str]],
    commit: Commit | None,
    machine: Machine,
) -> None:
    """Refuse, before minutes are spent on it, to measure what cannot be a repeat of what is
    blessed.

    Args:
        baseline: what is blessed.
        workload: what would be measured.
        results: kept results; one of the blessed code tells which files that is.
        code_now: returns SHA-256 by path, as the files are now, of the paths it is given.
        commit: where the repository stands now.
        machine: what this one is, with the versions that are installed.

    Raises:
        CalibrationRefused: the parameters have changed, the code or the machine, or there is
        nothing to calibrate.
    """
    refuse_parameters(baseline, workload)
    if not gated(baseline):
        raise _nothing_to_calibrate(baseline)
    if differing := known_to_differ(baseline.machine, machine):
        raise CalibrationRefused(
            "calibrate-other-machine", workload=baseline.workload, differing=", ".join(differing)
        )
    if baseline.code is None and (commit is None or not is_blessed_commit(baseline, commit)):
        raise CalibrationRefused("calibrate-code-unknown", workload=baseline.workload)
    if baseline.code is None:
        return
    known = baseline.code_files
    if not known and workload.form == "command":
        raise CalibrationRefused("calibrate-code-unknown", workload=baseline.workload)
    if not known:
        known = next(
            (result.code for result in results if code_digest(result.code) == baseline.code), {}
        )
    changed = changed_code(known, code_now(known))
    if changed:
        more = [f"{len(changed) - 3} more"] if len(changed) > 3 else []
        raise CalibrationRefused(
            "calibrate-code-changed", workload=baseline.workload, files=(*changed[:3], *more)
        )


def _nothing_to_calibrate(baseline: Baseline) -> CalibrationRefused:
    return CalibrationRefused("calibrate-nothing-gated", workload=baseline.workload)


def refuse_parameters(baseline: Baseline, workload: Workload) -> None:
    """Refuse a baseline that a gate would find INCOMPARABLE.

    Raises:
        CalibrationRefused: the workload's parameters are others than the baseline's.
    """
    workload = baseline.as_noted(workload)
    if baseline.digest == workload.digest():
        return
    was, now = baseline.parameters, workload.comparable_parameters()
    names = sorted(name for name in {*was, *now} if was.get(name) != now.get(name))
    rows = ", ".join(
        f"{name} was {was.get(name, 'not set')}, is {now.get(name, 'not set')}" for name in names
    )
    raise CalibrationRefused("calibrate-other-parameters", workload=baseline.workload, changes=rows)


def refuse_fresh(baseline: Baseline, fresh: Result | None) -> None:
    """Refuse to go on where what was measured to be a repeat is none.

    Raises:
        CalibrationRefused: there is no fresh result, or it is of something else.
    """
    if fresh is None:
        raise CalibrationRefused("calibrate-no-result", workload=baseline.workload)
    why = why_no_repeat(baseline, fresh)
    if why is None:
        return
    unsound = fresh.verdict.outcome in (Outcome.INVALID, Outcome.NOT_MEASURED)
    code = "calibrate-unsound" if unsound else "calibrate-no-repeat"
    raise CalibrationRefused(code, workload=baseline.workload, why=why)
