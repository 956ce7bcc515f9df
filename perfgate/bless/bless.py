"""Whether kept results may become a baseline, and which: pure, it measures nothing and touches no
disk."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import PurePath
from statistics import median
from typing import Final, Literal

from perfgate.bless.refusals import (
    loss,
    refuse_by_outcome,
    refuse_formally,
    refuse_judged_loss,
    refuse_no_repeat,
    refuse_same_occasion,
    refuse_stale,
    refuse_uneven,
    selector,
)
from perfgate.bless.repeats import SAME_OCCASION, gated, once
from perfgate.bless.speeds import plainly_differ
from perfgate.explain.breakdown import breakdown_of, kept
from perfgate.explain.pace import pace_notes
from perfgate.judge.evidence import Evidence
from perfgate.judge.hold import COARSEST, holds, too_coarse
from perfgate.judge.judge import judge
from perfgate.judge.looks import AB_PLAN, INTERLEAVED_PLAN, STORED_PLAN, Plan
from perfgate.model.baseline import (
    FEWEST_RUNS,
    Anchor,
    Baseline,
    BlessedRun,
    Blessing,
    Commit,
    Milestone,
    Occasion,
    Result,
    code_digest,
    code_files,
    common_step_names,
    common_step_ranges,
    with_held,
)
from perfgate.model.errors import BlessRefused
from perfgate.model.metric import GATED_TIMES, METRICS, Basis, Kind, Metric, budget_of
from perfgate.model.note import note
from perfgate.model.outcome import Outcome
from perfgate.model.policy import Policy
from perfgate.model.sample import Run
from perfgate.model.settings import ABForm, Settings
from perfgate.model.verdict import FEWEST_TO_JUDGE, MetricVerdict, Stage
from perfgate.model.workload import Workload
from perfgate.words import numbers, say
from perfgate.words.names import listed, plural

WANTED_RUNS: Final = 10
WANTED_OCCASIONS: Final = 5
"""What blessing wants; it accepts FEWEST_RUNS over 1 occasion, and says what that costs."""
MOST_RUNS: Final = 30
"""Runs in a baseline: beyond them the occasion term rules, and the file would no longer be a few
KB."""
MOST_MILESTONES: Final = 20
"""Blessings in the path from the anchor; of a longer one the latest."""

_FEWEST_TO_ADD: Final = STORED_PLAN.fewest_to_fail


def bless(
    results: Sequence[Result],
    baseline: Baseline | None,
    *,
    reason: str,
    by: str,
    at: datetime,
    commit: Commit | None,
    code_now: Mapping[str, str],
    budgets: Mapping[Metric, float] | None = None,
    accept_regression: bool = False,
    in_ci: bool = False,
    allow_ci: bool = False,
    run_url: str | None = None,
    runner: str | None = None,
    measure_more: str = "",
    pairs: bool = True,
    blocks: bool = True,
    insist: bool = False,
    hold: float | Literal["auto"] | None = None,
) -> Baseline:
    """Return the baseline that kept results make.

    The first result is the one that is blessed. Of the others, those of the same code, workload and
    machine that may be blessed as well are joined to it, each measurement once, newest first, up to
    30 runs; runs of results within 15 minutes of one another are one occasion.

    Args:
        results: kept results of one workload, newest first; at least one.
        baseline: what is blessed for this workload and machine now. Where it is of other parameters
            or another nsys,
            blessing is how it is replaced, and there is no loss to refuse.
        reason: why this is to be the baseline.
        by: who blesses.
        at: when, aware.
        commit: where the repository stands now.
        code_now: SHA-256 by path of the files as they are now; only the paths of `Result.code` are
            looked up.
        budgets: the project's and the workload's, as fractions, for what no gate has judged.
        accept_regression: bless a loss beyond budget; the best ever blessed is then forgotten.
        in_ci: whether this runs in CI, where nobody reads what is blessed.
        allow_ci: bless there nevertheless.
        run_url: the CI run that measured it.
        runner: where that ran.
        measure_more: what to do where runs are wanting; by default what is done at a desk.
        pairs: whether the project's settings let a gate run the baseline's commit again.
        blocks: whether they let it do so in blocks.
        insist: bless also what a gate could hardly compare with.
        hold: where a gate cannot hold a budget, write this one, as a fraction, or what it can hold
            (`auto`).

    Raises:
        BlessRefused: with the one thing to do about it.
    """
    newest = results[0]
    refuse_formally(newest, reason=reason, in_ci=in_ci, allow_ci=allow_ci)
    refuse_by_outcome(newest, insist=insist)
    refuse_stale(newest, code_now)
    refuse_uneven(newest)
    if not accept_regression:
        refuse_judged_loss(newest)
    budgets = newest.workload.budgets if budgets is None else budgets
    joined = _joined(results, budgets, accept_regression=accept_regression)
    runs = [run for result in joined for run in result.runs]
    if len(runs) < FEWEST_RUNS:
        raise BlessRefused(
            "bless-too-few-runs-in-ci" if measure_more else "bless-too-few-runs",
            workload=newest.workload.id,
            runs=len(runs),
            occasions=len(_occasions(joined)),
            fewest=FEWEST_RUNS,
            selector=selector(newest),
            options="--accept-regression " if accept_regression else "",
            reason=reason.strip(),
            measure_more=measure_more,
        )
    like = None if baseline is None or why_not_alike(baseline, newest) else baseline
    new = Baseline(
        workload=newest.workload.id,
        digest=newest.workload.digest(),
        parameters=newest.workload.comparable_parameters(),
        has_options=newest.workload.options is not None,
        machine=newest.machine,
        occasions=_occasions(joined),
        blessing=Blessing(
            by=by, at=at, reason=reason.strip(), commit=commit, run_url=run_url, runner=runner
        ),
        code=code_digest(newest.code),
        code_files=code_files(newest.code),
        source=_within(newest.workload.source),
        breakdown=kept(breakdown_of(runs)),
        calibration={} if like is None else like.calibration,
        step_value=newest.step_value,
    )
    if like is not None and not accept_regression:
        _refuse_loss(newest, like, new, budgets, runs=runs)
    if not insist:
        _refuse_coarse(newest, new, budgets, pairs=pairs)
    held: Mapping[Metric, float] = {} if like is None else like.held
    if hold is not None:
        plan = last_plan(newest.workload, new, pairs=pairs, blocks=blocks)
        held = wider_budgets(new, budgets, plan, hold=None if hold == "auto" else hold)
    anchor = _anchor(like, new, commit=newest.commit, accepted=accept_regression)
    return new.model_copy(update={"anchor": anchor, "held": held})


def last_plan(workload: Workload, baseline: Baseline, *, pairs: bool, blocks: bool) -> Plan:
    """Return the looks that a gate of this baseline ends with, by what the settings and the
    baseline allow."""
    if not pairs or why_no_ab_run(baseline):
        return STORED_PLAN
    return (
        INTERLEAVED_PLAN
        if blocks and workload.form == "function" and len(baseline.machine.gpus) <= 1
        else AB_PLAN
    )


def wider_budgets(
    baseline: Baseline, budgets: Mapping[Metric, float], plan: Plan, *, hold: float | None = None
) -> dict[Metric, float]:
    """Return the budgets, as fractions, of time metrics that a gate cannot hold to theirs: what it
    can hold, or `hold`.

    What it can hold is rounded up to a tenth of a per cent, and is 100 % at most.
    """
    found: dict[Metric, float] = {}
    for metric in gated(baseline):
        loss, budget = holds(baseline, metric, budgets, plan), budget_of(metric, budgets)
        if loss is None or budget is None or loss <= budget * _AS_GOOD_AS:
            continue
        found[metric] = max(
            budget, hold if hold is not None else min(1.0, math.ceil(1000 * loss) / 1000)
        )
    return found


def not_held(
    baseline: Baseline, workload: Workload, budgets: Mapping[Metric, float], settings: Settings
) -> tuple[str, ...]:
    """Say which budgets a gate cannot hold with what it may measure, and what to do; nothing where
    it holds all."""
    plan = last_plan(
        workload,
        baseline,
        pairs=allows_pairs(settings),
        blocks=settings.ab_run is not ABForm.ALTERNATE,
    )
    wider = wider_budgets(baseline, with_held(budgets, baseline), plan)
    if not wider:
        return ()
    text = listed(
        [f"{metric} to {numbers.short_percent(budget)}" for metric, budget in wider.items()]
    )
    guards = listed(["counts", *(metric for metric in gated(baseline) if metric not in wider)])
    said = (
        f"A gate can hold {text} here, and is INCONCLUSIVE below that now and then, which shuts it; {guards} guard it "
        "at their own budgets. Add occasions (--occasion), let A/B runs settle it (a baseline of a commit, A/B run not "
        f'off), or write the wider budgets: perfgate bless {shlex.quote(baseline.workload)} --reason "..." --hold auto'
    )
    return (said,)


def holding(baseline: Baseline, budgets: Mapping[Metric, float]) -> str:
    """Say what a gate holds it to: `counts exact, kernel_ms 1 %, step_ms 2 %`."""
    merged = with_held(budgets, baseline)
    text = {
        metric: budget
        for metric in gated(baseline)
        if (budget := budget_of(metric, merged)) is not None
    }
    ordered = sorted(text.items(), key=lambda one: (one[1], one[0]))
    return ", ".join(
        [
            "counts exact",
            *(f"{metric} {numbers.short_percent(budget)}" for metric, budget in ordered),
        ]
    )


_AS_GOOD_AS: Final = 1.001
"""A kernel's budget may be wider by what the step may lose; rounding apart, that is its own."""


def add_occasion(
    results: Sequence[Result],
    baseline: Baseline | None,
    *,
    reason: str,
    by: str,
    at: datetime,
    commit: Commit | None,
    in_ci: bool = False,
    allow_ci: bool = False,
    run_url: str | None = None,
    runner: str | None = None,
) -> Baseline:
    """Return the baseline with the first result as one more occasion; of more than 30 runs the
    oldest occasions go.

    Nothing else in it changes: who blessed it and why, its anchor, its calibration, what it was
    made of.

    Args:
        results: kept results of one workload, newest first; at least one. The others only say how
            long occasions
            that are in the baseline lasted.
        baseline: what is blessed for this workload and machine now.
        reason: why it is added.
        by: who adds it.
        at: when, aware.
        commit: where the repository stands now.
        in_ci: whether this runs in CI, where nobody reads what is added.
        allow_ci: add it there nevertheless.
        run_url: the CI run that measured it.
        runner: where that ran.

    Raises:
        BlessRefused: it is no unchanged repeat of what is blessed, was lost against it, or is of no
        other occasion.
    """
    newest = results[0]
    refuse_formally(newest, reason=reason, in_ci=in_ci, allow_ci=allow_ci)
    if baseline is None:
        raise BlessRefused(
            "occasion-of-no-baseline", workload=newest.workload.id, gpu=newest.machine.gpu_name
        )
    refuse_no_repeat(baseline, newest)
    refuse_same_occasion(baseline, newest, results[1:])
    added = Blessing(
        by=by, at=at, reason=reason.strip(), commit=commit, run_url=run_url, runner=runner
    )
    occasion = Occasion(
        measured_at=newest.measured_at,
        commit=newest.commit,
        runs=tuple(map(BlessedRun.of, newest.runs)),
        gpus=tuple(gpu.uuid for gpu in newest.machine.gpus),
        environment=newest.environment,
        added=added,
    )
    older = sorted(baseline.occasions, key=lambda one: one.measured_at)
    room = MOST_RUNS - len(occasion.runs)
    while older and sum(len(one.runs) for one in older) > room:
        older = older[1:]
    kept_runs = len(occasion.runs) + sum(len(one.runs) for one in older)
    if kept_runs < min(WANTED_RUNS, len(baseline.runs)) or not older:
        raise BlessRefused(
            "occasion-no-room",
            workload=newest.workload.id,
            blessed=len(baseline.runs),
            more=len(occasion.runs),
            left=kept_runs,
            most=MOST_RUNS,
            fewest=_FEWEST_TO_ADD,
            selector=selector(newest),
        )
    occasions = sorted((*older, occasion), key=lambda one: one.measured_at)
    return baseline.model_copy(update={"occasions": tuple(occasions)})


def _within(source: str) -> str | None:
    """A file by its path in the project; None of one that lies elsewhere, whose path is this
    machine's alone."""
    return None if PurePath(source).is_absolute() else source


def why_not_alike(baseline: Baseline, result: Result) -> tuple[str, ...]:
    """Name what forbids to compare a result with a baseline; empty where the new one is measured
    against the old."""
    found = list(baseline.machine.differences_that_forbid_comparison(result.machine))
    if baseline.step_value != result.step_value:
        found.append("step_ms was another value of the periods")
    workload = baseline.as_noted(result.workload)
    now = workload.comparable_parameters()
    if baseline.digest != workload.digest():
        names = sorted(
            name
            for name in {*now, *baseline.parameters}
            if now.get(name) != baseline.parameters.get(name)
        )
        found += [
            f"{name} was {baseline.parameters.get(name)}, is {now.get(name)}" for name in names
        ]
    then_steps, now_steps = (
        common_step_names(baseline.runs),
        common_step_names(map(BlessedRun.of, result.runs)),
    )
    if then_steps and now_steps and then_steps != now_steps:
        found.append(f"the steps' ranges were {', '.join(then_steps)}, are {', '.join(now_steps)}")
    then_drawn = common_step_ranges(baseline.runs)
    now_drawn = common_step_ranges(map(BlessedRun.of, result.runs))
    processes = max((len(run.processes) for run in result.runs), default=0)
    if then_drawn is not None and now_drawn is not None and abs(now_drawn - then_drawn) > processes:
        found.append(f"{then_drawn} ranges matched the pattern of the steps, {now_drawn} do")
    return tuple(found)


def worth_knowing(
    baseline: Baseline, newest: Result, *, not_on: str | None = None
) -> tuple[str, ...]:
    """Say in sentences what to know of a baseline beside its numbers.

    `newest` is the last result that it is of, `not_on` the default branch where that does not hold
    its commit.
    """
    text = (
        why_no_ab_run(baseline, uncommitted=newest.uncommitted)
        or (f"Its commit is not on {not_on}: {_GONE}" if not_on is not None else ""),
        *(f"{say.fact(one)}." for one in pace_notes(newest.runs)),
    )
    return tuple(sentence for sentence in text if sentence)


_GONE: Final = (
    "after a squash or a rebase no branch will hold it. Gates then run a commit with the same files, or fetch it from "
    "the remote as long as that keeps it."
)


def allows_pairs(settings: Settings) -> bool:
    """Whether the settings let a gate make the pairs of an A/B run after its screen."""
    room = settings.max_runs - settings.runs
    return settings.ab_run is not ABForm.OFF and room >= 2 * FEWEST_TO_JUDGE


def why_no_ab_run(baseline: Baseline, *, uncommitted: Sequence[str] = ()) -> str:
    """Say in a sentence why its code cannot, or may not, be run again beside a candidate; empty
    where it can.

    `uncommitted` are the first paths that no commit holds, as far as they are known.
    """
    commits = [occasion.commit for occasion in baseline.occasions if occasion.commit is not None]
    if not commits:
        return "It was not measured at a commit, so no gate can run it again: there will be no A/B run with it."
    if all(commit.dirty for commit in commits):
        named = f" ({', '.join(uncommitted)})" if uncommitted else ""
        return f"It was measured with uncommitted changes{named}, which no commit holds: there will be no A/B run with it."
    return ""


def differences(old: Baseline | None, new: Baseline) -> tuple[MetricVerdict, ...]:
    """Return what blessing changes: medians over the runs of both, metric by metric, without a
    judgement."""
    before = {} if old is None else _medians(old)
    after = _medians(new)
    rows: list[MetricVerdict] = []
    for metric, spec in METRICS.items():
        was, now = before.get(metric), after.get(metric)
        if was is None and now is None:
            continue
        basis = None if spec.kind is Kind.COUNT else spec.basis
        change = (
            None
            if was is None or now is None
            else spec.change(was, now, step_ms=before.get(Metric.STEP_MS))
        )
        rows.append(
            MetricVerdict(
                metric=metric, outcome=None, baseline=was, now=now, basis=basis, change=change
            )
        )
    return tuple(rows)


def costs(baseline: Baseline, budgets: Mapping[Metric, float] | None = None) -> str:
    """Say in a sentence what the number of runs and occasions costs: what stored runs can hold.

    `budgets` are the project's and the workload's, as fractions.
    """
    runs, occasions = len(baseline.runs), len(baseline.occasions)
    text = f"{plural(runs, 'run')} over {plural(occasions, 'occasion')}"
    if not baseline.values(Metric.STEP_MS):
        return f"{text}, without {Metric.STEP_MS}: only counts can be judged."
    budgets = budgets or {}
    held = {
        metric: loss for metric in _SHOWN if (loss := holds(baseline, metric, budgets)) is not None
    }
    if Metric.STEP_MS not in held:
        return f"{text}, with step times that nothing can be compared with."
    shown = f"{text}: without A/B runs a gate holds {_held_text(held)}"
    if runs >= WANTED_RUNS and occasions >= WANTED_OCCASIONS:
        return f"{shown}."
    wanted_runs, wanted_occasions = max(runs, WANTED_RUNS), max(occasions, WANTED_OCCASIONS)
    fuller = {
        metric: loss
        for metric in held
        if (loss := holds(baseline, metric, budgets, fuller=(wanted_runs, wanted_occasions)))
        is not None
    }
    return f"{shown}; with {wanted_runs} over {wanted_occasions} it would be {_held_text(fuller)}."


_SHOWN: Final = (Metric.STEP_MS, Metric.KERNEL_MS)


def _held_text(held: Mapping[Metric, float]) -> str:
    return listed([f"{metric} to {numbers.loss(loss)}" for metric, loss in held.items()])


def _refuse_loss(
    result: Result,
    old: Baseline,
    new: Baseline,
    budgets: Mapping[Metric, float],
    *,
    runs: Sequence[Run],
) -> None:
    """Refuse a loss against what is blessed now, which may be another baseline than the result was
    judged by.

    `runs` are those of the new one.
    """
    allowed = {
        metric: budget
        for metric in GATED_TIMES
        if (budget := _budget(result, metric, budgets)) is not None
    }
    evidence = Evidence(workload=old.workload, blessed=old, alone=runs)
    policy = Policy(runs=len(runs), budgets=allowed)
    judged = {row.metric: row for row in judge(evidence, policy, Stage.STORED).metrics}
    for row in differences(old, new):
        metric = row.metric
        if row.baseline is None or row.now is None or metric not in judged:
            continue
        outcome, budget = judged[metric].outcome, allowed.get(metric)
        if METRICS[metric].kind is Kind.COUNT:
            # What a gate takes for chance is no loss here either.
            if outcome in (Outcome.REGRESSED, Outcome.INCONCLUSIVE):
                raise loss(result, f"{metric} {judged[metric].reason}")
        elif outcome is not None and budget is not None and (row.change or 0.0) >= budget:
            of = " of a step" if row.basis is Basis.STEP else ""
            change = row.change or 0.0
            rose = note("bless-rose", metric=metric, change=change, of=of, budget=budget)
            raise loss(result, rose)


def _refuse_coarse(
    result: Result, new: Baseline, budgets: Mapping[Metric, float], *, pairs: bool
) -> None:
    """Refuse runs that differ so much that a gate could show nothing by them, where it can make no
    others."""
    smallest = too_coarse(new, budgets)
    no_pairs = why_no_ab_run(new, uncommitted=result.uncommitted) or (
        "" if pairs else "The settings leave no A/B run."
    )
    if smallest is None or not no_pairs:
        return
    steps = [value for run in new.runs if (value := run.values.get(Metric.STEP_MS)) is not None]
    raise BlessRefused(
        "bless-coarse",
        workload=result.workload.id,
        lowest=min(steps),
        highest=max(steps),
        smallest=numbers.loss(smallest),
        why=no_pairs.rstrip("."),
        coarsest=COARSEST,
    )


def _budget(result: Result, metric: Metric, budgets: Mapping[Metric, float]) -> float | None:
    judged = result.verdict.of(metric)
    if judged is not None and judged.budget is not None:
        return judged.budget
    return budget_of(metric, budgets)


def _joined(
    results: Sequence[Result], budgets: Mapping[Metric, float], *, accept_regression: bool
) -> list[Result]:
    """Return the newest result and those that may be joined to it, newest first, up to the most
    runs of a baseline."""
    newest = results[0]
    joined, runs = [newest], len(newest.runs)
    fitting = [
        one
        for one in results[1:]
        if _joins(one, newest, budgets, accept_regression=accept_regression)
    ]
    for result in once([newest, *fitting])[1:]:
        runs += len(result.runs)
        if runs > MOST_RUNS:
            break
        joined.append(result)
    return joined


def _joins(
    result: Result, newest: Result, budgets: Mapping[Metric, float], *, accept_regression: bool
) -> bool:
    """Whether a result is a further measurement of the same thing: code, workload, and machine down
    to the driver.

    Nobody knows all that makes a loop's speed (data, settings, packages), so it must be of the same
    speed as well.
    """
    if (result.code, result.machine, result.workload.id) != (
        newest.code,
        newest.machine,
        newest.workload.id,
    ):
        return False
    if (result.workload.digest(), result.step_value) != (
        newest.workload.digest(),
        newest.step_value,
    ):
        return False
    if not result.runs or any(
        run.measured().keys() != newest.runs[0].measured().keys() for run in result.runs
    ):
        return False
    # Other counts mean other work, whatever the code says; joined, no count would be exact any
    # more.
    if not {_counts(run) for run in result.runs} <= {_counts(run) for run in newest.runs}:
        return False
    if newest.verdict.outcome in (
        Outcome.IMPROVED,
        Outcome.REGRESSED,
    ) and result.verdict.outcome is not (newest.verdict.outcome):
        return False
    try:
        refuse_by_outcome(result)
        if not accept_regression:
            refuse_judged_loss(result)
    except BlessRefused:
        return False
    return not any(_plainly_differ(metric, result, newest, budgets) for metric in GATED_TIMES)


def _plainly_differ(
    metric: Metric, result: Result, newest: Result, budgets: Mapping[Metric, float]
) -> bool:
    spec, budget = METRICS[metric].time, _budget(newest, metric, budgets)
    one, other, steps = (
        [value for run in of.runs if (value := run.value(which)) is not None]
        for of, which in ((result, metric), (newest, metric), (newest, Metric.STEP_MS))
    )
    if spec is None or budget is None or not one or not other or not steps or median(steps) <= 0:
        return False
    return plainly_differ(spec, one, other, step_ms=median(steps), budget=budget)


def _counts(run: Run) -> tuple[float, ...]:
    return tuple(run.counts().values())


def _occasions(joined: Sequence[Result]) -> tuple[Occasion, ...]:
    """Return the results' runs by occasion, oldest first."""
    found: list[list[Result]] = []
    for result in sorted(joined, key=lambda result: result.measured_at):
        if found and result.measured_at - found[-1][-1].measured_at < SAME_OCCASION:
            found[-1].append(result)
        else:
            found.append([result])
    return tuple(
        Occasion(
            measured_at=together[0].measured_at,
            commit=together[-1].commit,
            runs=tuple(BlessedRun.of(run) for result in together for run in result.runs),
            gpus=tuple(gpu.uuid for gpu in together[-1].machine.gpus),
            environment=together[-1].environment,
        )
        for together in found
    )


def _medians(baseline: Baseline) -> dict[Metric, float]:
    return {metric: median(values) for metric in METRICS if (values := baseline.values(metric))}


def _anchor(
    old: Baseline | None, new: Baseline, *, commit: Commit | None, accepted: bool
) -> Anchor | None:
    """Return the best step time ever blessed, with the path from there; an accepted loss starts
    anew."""
    now = _medians(new).get(Metric.STEP_MS)
    if not now:
        return None if old is None else old.anchor
    own = Anchor(
        step_ms=now,
        at=new.blessing.at,
        commit=commit,
        runs=len(new.runs),
        occasions=len(new.occasions),
    )
    best = None if old is None or accepted else _anchor_of(old)
    if best is None or now <= best.step_ms:
        return own
    milestone = Milestone(
        step_ms=now, at=new.blessing.at, commit=commit, reason=new.blessing.reason
    )
    path = [
        step
        for step in best.path
        if commit is None or step.commit is None or step.commit.sha != commit.sha
    ]
    return best.model_copy(update={"path": (*path, milestone)[-MOST_MILESTONES:]})


def _anchor_of(baseline: Baseline) -> Anchor | None:
    if baseline.anchor is not None:
        return baseline.anchor
    step_ms = _medians(baseline).get(Metric.STEP_MS)
    blessing = baseline.blessing
    return Anchor(step_ms=step_ms, at=blessing.at, commit=blessing.commit) if step_ms else None
