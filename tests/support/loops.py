"""Files of `workloads/` as modules, and what the explanations of the regressions must name."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.series.lessons import VARIANTS as SERIES

WORKLOADS = Path(__file__).parents[2] / "workloads"
VARIANTS = {
    loop: tuple(variant.name for variant in series.variants) for loop, series in SERIES.items()
}
"""Of each series of workloads, the variants in order."""


def load_file(path: Path, name: str, patch: pytest.MonkeyPatch) -> ModuleType:
    """Import a workload's file anew, under a name of the test's own: it is not importable by its
    own."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def load_regressions(name: str, patch: pytest.MonkeyPatch) -> ModuleType:
    """Import the loops, clean."""
    for variable in ("REGRESSION", "REGRESSION_CYCLES"):
        patch.delenv(variable, raising=False)
    return load_file(WORKLOADS / "regressions.py", name, patch)


def named_first(line: str, culprits: Sequence[str]) -> bool:
    """Whether a line names one of the culprits; a range (`under log`) before any other."""
    return any(
        culprit in line
        and (not culprit.startswith("under ") or line.index("under ") == line.index(culprit))
        for culprit in culprits
    )
