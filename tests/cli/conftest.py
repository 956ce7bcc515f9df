"""What the tests of `perfgate` share."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from support.project import Project

GOLDEN = Path(__file__).parent.parent / "golden" / "data"


@pytest.fixture
def here(project: Project) -> Project:
    """A project with a workload on an H200; commands run in it."""
    project.gpus()
    project.workload()
    return project


@pytest.fixture
def capture(project: Project) -> Path:
    """A recorded capture of an MLP on an H200, as `mlp.sqlite` in the project."""
    file = project.root / "mlp.sqlite"
    file.write_bytes(lzma.decompress((GOLDEN / "mlp-h200-nsys2024.2.3.sqlite.xz").read_bytes()))
    return file


@pytest.fixture
def graphs(project: Project) -> tuple[str, str]:
    """Recorded captures of one loop with a CUDA graph, in the project: traced whole, and node by
    node."""
    for mode in ("graph", "node"):
        packed = GOLDEN / f"graph-by-{mode}-h200-nsys2025.3.sqlite.xz"
        (project.root / f"{mode}.sqlite").write_bytes(lzma.decompress(packed.read_bytes()))
    return "graph.sqlite", "node.sqlite"
