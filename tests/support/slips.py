"""The loops of `workloads/slips.py` as a module, and what their explanations must name."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

WORKLOADS = Path(__file__).parents[2] / "workloads"


def load_slips(name: str, patch: pytest.MonkeyPatch) -> ModuleType:
    """Import the loops, clean, under a name of the test's own: they are not importable by theirs."""
    for variable in ("SLIP", "SLIP_CYCLES"):
        patch.delenv(variable, raising=False)
    spec = importlib.util.spec_from_file_location(name, WORKLOADS / "slips.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def named_first(line: str, culprit: str) -> bool:
    """Whether a line names the culprit; a range (`under log`) before any other."""
    return culprit in line and (not culprit.startswith("under ") or line.index("under ") == line.index(culprit))
