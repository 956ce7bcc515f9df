"""JUnit properties of a verdict."""

from __future__ import annotations

from support import records

from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.render.verdict import properties


def test_properties_say_outcome_and_every_known_number() -> None:
    row = records.clock(
        Metric.STEP_MS,
        Outcome.REGRESSED,
        was=12.34,
        now=12.72,
        change=0.03125,
        around=0.0078125,
        p_value=1e-6,
    )
    verdict = records.verdict(
        Outcome.REGRESSED,
        reason="step_ms rose.\nBy far.",
        metrics=[row, records.count(Metric.SYNCS, None, was=None, now=2)],
        where={Metric.STEP_MS: 'under "loss"'},
    )
    assert properties(verdict) == [
        ("perfgate.outcome", "REGRESSED"),
        ("perfgate.reason", "step_ms rose. By far."),
        ("perfgate.runs", "3"),
        ("perfgate.baseline_runs", "5"),
        ("perfgate.step_ms.outcome", "REGRESSED"),
        ("perfgate.step_ms.baseline", "12.34"),
        ("perfgate.step_ms.now", "12.72"),
        ("perfgate.step_ms.change", "0.03125"),
        ("perfgate.step_ms.low", "0.0234375"),
        ("perfgate.step_ms.high", "0.0390625"),
        ("perfgate.step_ms.budget", "0.02"),
        ("perfgate.step_ms.p_value", "1e-06"),
        ("perfgate.syncs.now", "2.0"),
        ("perfgate.step_ms.where", 'under "loss"'),
    ]
