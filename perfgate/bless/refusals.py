"""Why a kept result may not become a baseline, or an occasion of one: each refusal names the one
thing to do."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from perfgate.bless.repeats import SAME_OCCASION, is_in, near_occasion, why_no_repeat
from perfgate.model.baseline import Baseline, Result, changed_code
from perfgate.model.errors import BlessRefused
from perfgate.model.metric import METRICS
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import why_absent


def refuse_unasked(reason: str, *, in_ci: bool, allow_ci: bool) -> None:
    """Refuse without a reason, and in CI unless somebody said that CI may."""
    if not reason.strip():
        raise BlessRefused("bless-without-reason")
    if in_ci and not allow_ci:
        raise BlessRefused("bless-in-ci")


def refuse_by_outcome(result: Result, *, insist: bool = False) -> None:
    """Refuse an unsound measurement; with `insist`, an INCONCLUSIVE one may be blessed."""
    verdict = result.verdict
    reason = verdict.reason.rstrip(".")
    match verdict.outcome:
        case Outcome.INCONCLUSIVE if not insist:
            again = f"Measure again: pytest --perfgate --perfgate-runs=10 {selector(result)}"
            raise BlessRefused(
                "bless-inconclusive",
                workload=result.workload.id,
                reason=reason,
                next_step=verdict.next_step or again,
            )
        case Outcome.INVALID | Outcome.NOT_MEASURED:
            raise _unsound(result, note("bless-of-outcome", outcome=verdict.outcome, reason=reason))
        case _:
            pass
    for n, run in enumerate(result.runs, start=1):
        for why in run.conditions.invalid:
            raise _unsound(result, note("bless-run-unsound", run=n, why=why))


def refuse_stale(result: Result, code_now: Mapping[str, str]) -> None:
    """Refuse a result of other code than what is there now."""
    if not result.code:
        measured = bool(result.runs)
        why = note(
            "bless-code-unknown" if measured else "bless-nothing-measured",
            outcome=result.verdict.outcome,
        )
    elif changed := changed_code(result.code, code_now):
        gone = {path for path in changed if path in result.code and path not in code_now}
        shown = [f"{path} (deleted)" if path in gone else path for path in changed]
        why = note("bless-code-changed", files=few(shown))
    else:
        return
    raise BlessRefused(
        "bless-stale", workload=result.workload.id, why=why, selector=selector(result)
    )


def refuse_uneven(result: Result) -> None:
    """Refuse runs that measured nothing, or not the same metrics."""
    runs = [run.measured() for run in result.runs]
    if not any(runs):
        raise _unsound(result, note("bless-nothing-measured", outcome=result.verdict.outcome))
    for metric in METRICS:
        having = sum(metric in run for run in runs)
        if 0 < having < len(runs):
            reason = why_absent(result.runs, metric) or "no reason is known"
            raise _unsound(
                result,
                note(
                    "bless-metric-in-some-runs",
                    metric=metric,
                    having=having,
                    runs=len(runs),
                    reason=reason,
                ),
            )


def has_lost(result: Result) -> bool:
    """Whether its gate has judged it, or a metric of it, to be REGRESSED."""
    verdict = result.verdict
    rows = (row.outcome for row in verdict.metrics)
    return Outcome.REGRESSED in (verdict.outcome, *rows)


def refuse_judged_loss(result: Result) -> None:
    """Refuse what its gate has judged to be a loss."""
    if has_lost(result):
        reason = result.verdict.reason.rstrip(".")
        code = "bless-regressed" if reason else "bless-regressed-unexplained"
        raise loss(result, note(code, reason=reason))


def refuse_no_occasion(baseline: Baseline, result: Result, others: Sequence[Result]) -> None:
    """Refuse what is not the blessed measurement once more, went so badly that somebody has to look
    first, or was measured within a quarter of an hour of an occasion that is in the baseline.

    `others` are further kept results: those in the baseline say how long its occasions lasted.
    """
    workload, verdict = result.workload.id, result.verdict
    why = why_no_repeat(baseline, result)
    if why is not None:
        raise BlessRefused("occasion-no-repeat", workload=workload, why=why)
    reason = verdict.reason.rstrip(".")
    if verdict.outcome is Outcome.REGRESSED:
        raise BlessRefused("occasion-regressed", workload=workload, reason=reason)
    if verdict.outcome not in (Outcome.PASSED, Outcome.IMPROVED, Outcome.INCONCLUSIVE):
        raise BlessRefused(
            "occasion-not-judged",
            workload=workload,
            outcome=verdict.outcome,
            reason=reason,
            selector=selector(result),
        )
    near = near_occasion(baseline, result, others)
    if is_in(baseline, result):
        why = note("occasion-is-in", at=_moment(result.measured_at))
    elif near is not None:
        why = note("occasion-is-near", at=_moment(result.measured_at), near=_moment(near))
    else:
        return
    raise BlessRefused(
        "occasion-not-another",
        workload=workload,
        why=why,
        minutes=int(SAME_OCCASION.total_seconds() // 60),
        selector=selector(result),
    )


def few(paths: Sequence[str]) -> tuple[str, ...]:
    """The first three of some paths, and how many more there are."""
    return (*paths[:3], *([f"{len(paths) - 3} more"] if len(paths) > 3 else []))


def loss(result: Result, why: Note) -> BlessRefused:
    """Return the refusal of a loss that nobody said is meant."""
    return BlessRefused("bless-loss", workload=result.workload.id, why=why)


def _unsound(result: Result, why: Note) -> BlessRefused:
    return BlessRefused(
        "bless-unsound", workload=result.workload.id, why=why, selector=selector(result)
    )


def selector(result: Result) -> str:
    """Return the arguments that make pytest run this workload only."""
    return shlex.quote(result.workload.nodeid or f"{result.workload.source}::{result.workload.id}")


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
