"""A store in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfgate.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, "baselines")
