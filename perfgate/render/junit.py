"""A verdict as JUnit properties, the pairs of pytest's `user_properties`: text for machines, nothing rounded."""

from __future__ import annotations

from perfgate.model.verdict import MetricVerdict, Verdict
from perfgate.render.page import inert_prose

PREFIX = "perfgate."


def properties(verdict: Verdict) -> list[tuple[str, str]]:
    """Return outcome, reason and runs, then of each metric its outcome, values, change, interval, budget and p.

    Names are `perfgate.outcome`, `perfgate.step_ms.now` and so on; times in ms, changes as fractions; what is not known
    is left out.
    """
    pairs = [
        ("outcome", verdict.outcome.value),
        ("reason", _line(verdict.reason)),
        ("runs", str(verdict.runs)),
        ("baseline_runs", str(verdict.baseline_runs)),
        ("stage", "" if verdict.stage is None else verdict.stage.value),
        ("commit", "" if verdict.duet is None else verdict.duet.commit),
    ]
    for row in verdict.metrics:
        pairs += [(f"{row.metric}.{name}", value) for name, value in _of(row)]
    pairs += [(f"{metric}.where", _line(where)) for metric, where in verdict.where.items()]
    return [(PREFIX + name, value) for name, value in pairs if value]


def _of(row: MetricVerdict) -> list[tuple[str, str]]:
    numbers = {
        "baseline": row.baseline,
        "now": row.now,
        "change": row.change,
        "low": row.low,
        "high": row.high,
        "budget": row.budget,
        "p_value": row.p_value,
        "smallest": row.smallest,
    }
    outcome = "" if row.outcome is None else row.outcome.value
    return [("outcome", outcome), *((name, repr(value)) for name, value in numbers.items() if value is not None)]


def _line(text: str) -> str:
    return " ".join(inert_prose(text))
