"""Where the exports of these tests lie; few as their rows are, they are read as many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perfgate.profilers.nsys.export import tables


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.sqlite"


@pytest.fixture(autouse=True, scope="module")
def _out_of_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "FEW_ROWS", -(2**63))
        yield
