"""Recorded output of real nsys versions; data/README.md says what it is."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def recorded() -> Path:
    """The folder of recorded files."""
    return DATA


@pytest.fixture(scope="session")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded H200 capture, as the SQLite export it was."""
    path = tmp_path_factory.mktemp("capture") / "mlp-h200-nsys2024.2.3.sqlite"
    path.write_bytes(lzma.decompress((DATA / f"{path.name}.xz").read_bytes()))
    return path
