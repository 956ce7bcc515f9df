"""Whether kept results may become a baseline, and which: pure, it measures nothing and touches no
disk."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import PurePath
from statistics import median
from typing import Final

from perfgate.bless.holds import Hold, budgets_of, last_plan, why_no_ab_run, wider_budgets
from perfgate.bless.repeats import (
    SAME_OCCASION,
    few,
    gated,
    is_in,
    occasion_of,
    plainly_differ,
    together,
    why_no_repeat,
)
from perfgate.explain import sides
from perfgate.explain.breakdown import breakdown_of, kept
from perfgate.judge.evidence import Evidence
from perfgate.judge.hold import holds
from perfgate.judge.judge import judge
from perfgate.judge.looks import STORED_PLAN
from perfgate.model.baseline import (
    FEWEST_RUNS,
    Anchor,
    Baseline,
    Blessing,
    Milestone,
    Result,
    changed_code,
    code_digest,
    code_files,
    with_held,
)
from perfgate.model.comparison import Side
from perfgate.model.errors import BlessRefused
from perfgate.model.metric import METRICS, Basis, Metric, budget_of
from perfgate.model.note import Note, note, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.settings import Policy, Settings
from perfgate.model.verdict import MetricVerdict, Stage

MOST_RUNS: Final = 30
"""Runs in a baseline: beyond them the occasion term rules, and the file would no longer be a few
KB."""
MOST_MILESTONES: Final = 20
"""Blessings in the path from the anchor; of a longer one the latest."""
_SOUND: Final = (Outcome.PASSED, Outcome.IMPROVED, Outcome.NO_BASELINE, Outcome.INCOMPARABLE)
COARSEST: Final = 0.25
"""A slowdown of step_ms below which a gate that can show none is no gate; or its budget, where that
is wider."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Consent:
    """What whoever blesses agrees to besides."""

    accept_regression: bool = False
    """A loss beyond budget; the best ever blessed is then forgotten."""
    hold: Hold | None = None
    """Wider budgets where a gate cannot hold its own, and what it could hardly compare with."""


def bless(
    results: Sequence[Result],
    baseline: Baseline | None,
    blessing: Blessing,
    *,
    code_now: Mapping[str, str],
    settings: Settings,
    consent: Consent = Consent(),
) -> Baseline:
    """Return the baseline that kept results make.

    The first result is the one that is blessed. Of the others, those of the same code, workload and
    machine that may be blessed as well are joined to it, newest first, up to 30 runs; runs of
    results within 15 minutes of one another are one occasion.

    Args:
        results: kept results of one workload, newest first; at least one.
        baseline: what is blessed for this workload and machine now. Where it is of other parameters
            or another nsys, blessing is how it is replaced, and there is no loss to refuse.
        blessing: who blesses it, when, why and where.
        code_now: SHA-256 by path of the files as they are now; only the paths of `Result.code` are
            looked up.
        settings: of the project: budgets, and which A/B runs a gate may make.
        consent: what is agreed to besides.

    Raises:
        BlessRefused: with the one thing to do about it.
    """
    newest = results[0]
    _refuse_unsound(newest, insist=consent.hold is not None)
    _refuse_stale(newest, code_now)
    if _has_lost(newest) and not consent.accept_regression:
        raise _loss(newest, note("bless-regressed", reason=_reason(newest)))
    old = baseline if baseline is not None and is_alike(baseline, newest) else None
    written = budgets_of(newest.workload, settings)
    budgets = with_held(written, old)
    joined = _joined(results, _baseline([newest], blessing), budgets)
    new = _baseline(joined, blessing)
    if old is not None:
        new = new.model_copy(update={"held": old.held, "calibration": old.calibration})
    if len(new.runs) < FEWEST_RUNS:
        raise _refused(
            "bless-too-few-runs",
            newest,
            runs=len(new.runs),
            occasions=len(new.occasions),
            fewest=FEWEST_RUNS,
            options="--accept-regression " if consent.accept_regression else "",
            reason=blessing.reason,
        )
    if old is not None and not consent.accept_regression:
        _refuse_loss(joined, old, budgets)
    if consent.hold is None:
        _refuse_coarse(new, written, settings)
    else:
        plan = last_plan(newest.workload, new, settings)
        held = wider_budgets(new, written, plan, consent.hold)
        new = new.model_copy(update={"held": held})
    anchor = _anchor(old, new, newest, forgotten=consent.accept_regression)
    return new.model_copy(update={"anchor": anchor})


def add_occasion(result: Result, baseline: Baseline | None, added: Blessing) -> Baseline:
    """Return the baseline with a result as one more occasion; of more than 30 runs the oldest
    occasions go.

    Nothing else in it changes: who blessed it and why, its anchor, its calibration, what it was
    made of.

    Args:
        result: a kept result of the workload.
        baseline: what is blessed for this workload and machine now.
        added: who adds it, when, why and where.

    Raises:
        BlessRefused: it is no unchanged repeat of what is blessed, was lost against it, or is of no
            other occasion.
    """
    if baseline is None:
        raise BlessRefused(
            "occasion-of-no-baseline", workload=result.workload.id, gpu=result.machine.gpu_name
        )
    _refuse_no_occasion(baseline, result)
    occasion = occasion_of(result, added)
    older = sorted(baseline.occasions, key=lambda one: one.measured_at)
    runs = len(baseline.runs) + len(occasion.runs)
    while older and runs > MOST_RUNS:
        runs -= len(older.pop(0).runs)
    if not older or runs < FEWEST_RUNS:
        raise _refused(
            "occasion-no-room",
            result,
            blessed=len(baseline.runs),
            more=len(occasion.runs),
            left=runs,
            most=MOST_RUNS,
            fewest=STORED_PLAN.fewest_to_fail,
        )
    occasions = sorted((*older, occasion), key=lambda one: one.measured_at)
    return baseline.model_copy(update={"occasions": tuple(occasions)})


def differences(old: Baseline | None, new: Baseline) -> tuple[MetricVerdict, ...]:
    """Return what blessing changes: medians over the runs of both, without a judgement."""
    before = Side(label=quoted("old"), values={}) if old is None else Side.of_baseline("old", old)
    return sides.differences(before, Side.of_baseline("new", new))


def is_alike(baseline: Baseline, result: Result) -> bool:
    """Whether a result is measured against a baseline: not where machine, nsys, parameters or what
    is a step are others.

    A baseline that could not be read when it was gated says nothing of that.
    """
    return not (
        result.verdict.why.code == "runs-differ"
        or baseline.machine.differences_that_forbid_comparison(result.machine)
        or baseline.step_value != result.step_value
        or baseline.digest != baseline.as_noted(result.workload).digest()
    )


def _baseline(joined: Sequence[Result], blessing: Blessing) -> Baseline:
    """What results make, the newest first, of which the rest is taken."""
    newest, workload = joined[0], joined[0].workload
    in_project = not PurePath(workload.source).is_absolute()
    return Baseline(
        workload=workload.id,
        digest=workload.digest(),
        parameters=workload.comparable_parameters(),
        has_options=workload.options is not None,
        machine=newest.machine,
        occasions=together(map(occasion_of, joined)),
        blessing=blessing,
        code=code_digest(newest.code),
        code_files=code_files(newest.code),
        source=workload.source if in_project else None,
        breakdown=kept(breakdown_of(_runs(joined))),
        step_value=newest.step_value,
    )


def _runs(results: Sequence[Result]) -> list[Run]:
    return [run for result in results for run in result.runs]


def _joined(
    results: Sequence[Result], alone: Baseline, budgets: Mapping[Metric, float]
) -> list[Result]:
    """Return the newest result and those that may be joined to it, newest first, up to the most
    runs of a baseline.

    `alone` is what the newest makes. Nobody knows all that makes a loop's speed (data, settings,
    packages), so the others must be of its speed as well.
    """
    joined, runs, outcome = [results[0]], len(results[0].runs), results[0].verdict.outcome
    moved = outcome in (Outcome.IMPROVED, Outcome.REGRESSED)
    for result in results[1:]:
        alike = result.verdict.outcome is outcome if moved else _is_sound(result)
        if (
            alike
            and why_no_repeat(alone, result) is None
            and not plainly_differ(alone, result, budgets)
        ):
            runs += len(result.runs)
            if runs > MOST_RUNS:
                break
            joined.append(result)
    return joined


def _refuse_loss(results: Sequence[Result], old: Baseline, budgets: Mapping[Metric, float]) -> None:
    """Refuse a loss against what is blessed now, which may be another baseline than the result was
    judged by."""
    allowed = gated(old, budgets)
    evidence = Evidence(workload=old.workload, blessed=old, alone=_runs(results))
    policy = Policy(runs=len(evidence.alone), budgets=allowed)
    for row in judge(evidence, policy, Stage.STORED).metrics:
        metric, change = row.metric, row.change or 0.0
        if row.is_count:
            # What a gate takes for chance is no loss here either.
            if row.outcome in (Outcome.REGRESSED, Outcome.INCONCLUSIVE):
                raise _loss(results[0], note("bless-count-rose", metric=metric, reason=row.reason))
        elif change >= allowed[metric]:
            code = "bless-share-rose" if row.basis is Basis.STEP else "bless-time-rose"
            rose = note(code, metric=metric, change=change, budget=allowed[metric])
            raise _loss(results[0], rose)


def _refuse_coarse(new: Baseline, budgets: Mapping[Metric, float], settings: Settings) -> None:
    """Refuse runs that differ so much that a gate could show nothing by them, where it can make no
    others."""
    smallest, no_pairs = holds(new, Metric.STEP_MS, budgets), why_no_ab_run(new, settings)
    enough = max(COARSEST, budget_of(Metric.STEP_MS, budgets) or 0.0)
    if smallest is None or no_pairs is None or smallest <= enough:
        return
    steps = new.values(Metric.STEP_MS)
    raise BlessRefused(
        "bless-coarse",
        workload=new.workload,
        lowest=min(steps),
        highest=max(steps),
        smallest=smallest,
        why=no_pairs,
        coarsest=COARSEST,
    )


def _anchor(
    old: Baseline | None, new: Baseline, newest: Result, *, forgotten: bool
) -> Anchor | None:
    """Return the best step time ever blessed, with the path from there; an accepted loss starts
    anew."""
    at, commit = new.blessing.at, newest.commit
    now = median(new.values(Metric.STEP_MS) or [0.0])
    best = None if old is None or forgotten else old.anchor
    if not now:
        return None if old is None else old.anchor
    if best is None or now <= best.step_ms:
        runs, occasions = len(new.runs), len(new.occasions)
        return Anchor(step_ms=now, at=at, commit=commit, runs=runs, occasions=occasions)
    milestone = Milestone(step_ms=now, at=at, commit=commit, reason=new.blessing.reason)
    return best.model_copy(update={"path": (*best.path, milestone)[-MOST_MILESTONES:]})


# Why a result may not: each refusal names the one thing to do


def _refuse_unsound(result: Result, *, insist: bool = False) -> None:
    """Refuse an unsound measurement; with `insist`, an INCONCLUSIVE one may be blessed."""
    if result.verdict.outcome is Outcome.INCONCLUSIVE and not insist:
        raise _refused("bless-inconclusive", result, reason=_reason(result))
    for why in _unsound(result):
        raise _refused("bless-unsound", result, why=why)


def _unsound(result: Result) -> Iterator[Note]:
    outcome = result.verdict.outcome
    if outcome in (Outcome.INVALID, Outcome.NOT_MEASURED):
        yield note("bless-of-outcome", outcome=outcome, reason=_reason(result))
    for n, run in enumerate(result.runs, start=1):
        for why in run.conditions.invalid:
            yield note("bless-run-unsound", run=n, why=why)
    runs = [run.measured() for run in result.runs]
    if not any(runs):
        yield note("bless-nothing-measured", outcome=outcome)
    for metric in METRICS:
        having = sum(metric in run for run in runs)
        if 0 < having < len(runs):
            yield note("bless-metric-in-some-runs", metric=metric, having=having, runs=len(runs))


def _refuse_stale(result: Result, code_now: Mapping[str, str]) -> None:
    """Refuse a result of other code than what is there now."""
    changed = changed_code(result.code, code_now)
    if changed or not result.code:
        files = few(changed)
        why = note("bless-code-changed", files=files) if changed else note("bless-code-unknown")
        raise _refused("bless-stale", result, why=why)


def _has_lost(result: Result) -> bool:
    """Whether its gate has judged it, or a metric of it, to be REGRESSED."""
    rows = (row.outcome for row in result.verdict.metrics)
    return Outcome.REGRESSED in (result.verdict.outcome, *rows)


def _is_sound(result: Result) -> bool:
    """Whether its gate found nothing that speaks against it."""
    return result.verdict.outcome in _SOUND and not _has_lost(result)


def _refuse_no_occasion(baseline: Baseline, result: Result) -> None:
    """Refuse what is not the blessed measurement once more, went so badly that somebody has to look
    first, or was measured within a quarter of an hour of an occasion that is in the baseline."""
    why, outcome = why_no_repeat(baseline, result), result.verdict.outcome
    if why is not None:
        raise _refused("occasion-no-repeat", result, why=why)
    begun = (occasion.measured_at for occasion in baseline.occasions)
    is_near = any(abs(result.measured_at - at) < SAME_OCCASION for at in begun)
    # First of all: an accepted loss REGRESSED when it was measured, and is blessed.
    if is_near or is_in(baseline, result):
        raise _refused(
            "occasion-not-another",
            result,
            at=result.measured_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            minutes=int(SAME_OCCASION.total_seconds() // 60),
        )
    if outcome is Outcome.REGRESSED:
        raise _refused("occasion-regressed", result, reason=_reason(result))
    if outcome not in (Outcome.PASSED, Outcome.IMPROVED, Outcome.INCONCLUSIVE):
        raise _refused("occasion-not-judged", result, outcome=outcome, reason=_reason(result))
    # Next to another commit, which is as slow today, it may have PASSED all the same.
    rows = result.verdict.metrics
    budgets = {row.metric: row.budget for row in rows if row.budget is not None}
    in_ab_run = result.verdict.stage in (Stage.AB_RUN, Stage.BLOCKS)
    if in_ab_run and plainly_differ(baseline, result, budgets):
        raise _refused("occasion-other-speed", result)


def _loss(result: Result, why: Note) -> BlessRefused:
    """Return the refusal of a loss that nobody said is meant."""
    return BlessRefused("bless-loss", workload=result.workload.id, why=why)


def _refused(code: str, result: Result, **fields: str | int | Note) -> BlessRefused:
    """Return a refusal that names the workload, and what makes pytest run it alone."""
    workload = result.workload
    selector = shlex.quote(workload.nodeid or f"{workload.source}::{workload.id}")
    return BlessRefused(code, workload=workload.id, selector=selector, **fields)


def _reason(result: Result) -> str:
    """Why its gate came to its verdict, without a full stop."""
    return result.verdict.reason.rstrip(".")
