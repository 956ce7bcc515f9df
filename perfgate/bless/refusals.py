"""Why a kept result may not become a baseline, or an occasion of one: each refusal names the one
thing to do."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from typing import Final

from perfgate.bless.repeats import SAME_OCCASION, is_in, why_no_repeat
from perfgate.model.baseline import Baseline, Result, changed_code
from perfgate.model.errors import BlessRefused
from perfgate.model.metric import METRICS
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome

_SOUND: Final = (Outcome.PASSED, Outcome.IMPROVED, Outcome.NO_BASELINE, Outcome.INCOMPARABLE)


def refuse_unsound(result: Result, *, insist: bool = False) -> None:
    """Refuse an unsound measurement; with `insist`, an INCONCLUSIVE one may be blessed."""
    if result.verdict.outcome is Outcome.INCONCLUSIVE and not insist:
        raise refused("bless-inconclusive", result, reason=reason_of(result))
    for why in _unsound(result):
        raise refused("bless-unsound", result, why=why)


def _unsound(result: Result) -> Iterator[Note]:
    outcome = result.verdict.outcome
    if outcome in (Outcome.INVALID, Outcome.NOT_MEASURED):
        yield note("bless-of-outcome", outcome=outcome, reason=reason_of(result))
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


def refuse_stale(result: Result, code_now: Mapping[str, str]) -> None:
    """Refuse a result of other code than what is there now."""
    changed = changed_code(result.code, code_now)
    if changed or not result.code:
        files = few(changed)
        why = note("bless-code-changed", files=files) if changed else note("bless-code-unknown")
        raise refused("bless-stale", result, why=why)


def has_lost(result: Result) -> bool:
    """Whether its gate has judged it, or a metric of it, to be REGRESSED."""
    rows = (row.outcome for row in result.verdict.metrics)
    return Outcome.REGRESSED in (result.verdict.outcome, *rows)


def is_sound(result: Result) -> bool:
    """Whether its gate found nothing that speaks against it."""
    return result.verdict.outcome in _SOUND and not has_lost(result)


def refuse_no_occasion(baseline: Baseline, result: Result) -> None:
    """Refuse what is not the blessed measurement once more, went so badly that somebody has to look
    first, or was measured within a quarter of an hour of an occasion that is in the baseline."""
    why, outcome = why_no_repeat(baseline, result), result.verdict.outcome
    if why is not None:
        raise refused("occasion-no-repeat", result, why=why)
    begun = (occasion.measured_at for occasion in baseline.occasions)
    is_near = any(abs(result.measured_at - at) < SAME_OCCASION for at in begun)
    # First of all: an accepted loss REGRESSED when it was measured, and is blessed.
    if is_near or is_in(baseline, result):
        raise refused(
            "occasion-not-another",
            result,
            at=result.measured_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            minutes=int(SAME_OCCASION.total_seconds() // 60),
        )
    if outcome is Outcome.REGRESSED:
        raise refused("occasion-regressed", result, reason=reason_of(result))
    if outcome not in (Outcome.PASSED, Outcome.IMPROVED, Outcome.INCONCLUSIVE):
        raise refused("occasion-not-judged", result, outcome=outcome, reason=reason_of(result))


def few(paths: Sequence[str]) -> tuple[str, ...]:
    """The first three of some paths, and how many more there are."""
    return (*paths[:3], *([f"{len(paths) - 3} more"] if len(paths) > 3 else []))


def loss(result: Result, why: Note) -> BlessRefused:
    """Return the refusal of a loss that nobody said is meant."""
    return BlessRefused("bless-loss", workload=result.workload.id, why=why)


def refused(code: str, result: Result, **fields: str | int | Note) -> BlessRefused:
    """Return a refusal that names the workload, and what makes pytest run it alone."""
    workload = result.workload
    selector = shlex.quote(workload.nodeid or f"{workload.source}::{workload.id}")
    return BlessRefused(code, workload=workload.id, selector=selector, **fields)


def reason_of(result: Result) -> str:
    """Why its gate came to its verdict, without a full stop."""
    return result.verdict.reason.rstrip(".")
