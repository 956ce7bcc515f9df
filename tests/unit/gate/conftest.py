"""Runs of series and duels are prepared here."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stand import Stand

from perfgate.execute import running
from perfgate.gate import series


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    """Benches of two commits whose runs are prepared."""
    made = Stand(tmp_path)
    monkeypatch.setattr(running, "measure_run", made.measure_run)
    monkeypatch.setattr(running, "measure_pair", made.measure_pair)
    monkeypatch.setattr(series, "wait_until_idle", lambda _gpus, _patience_s: made.busy)
    return made
