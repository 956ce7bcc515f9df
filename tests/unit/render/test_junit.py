"""JUnit properties of a verdict."""

from __future__ import annotations

from support import records
from syrupy.assertion import SnapshotAssertion

from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.render.verdict import properties


def test_properties_say_outcome_and_every_known_number(snapshot: SnapshotAssertion) -> None:
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
    assert properties(verdict) == snapshot
