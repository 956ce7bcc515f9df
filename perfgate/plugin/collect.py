"""Collection: which files hold workloads, and how their functions become pytest items. Decides nothing about speed."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path

import pytest

from perfgate.workload import declaration_of

SIMPLE = (str, int, float, bool, type(None))


class WorkloadModule(pytest.Module):
    """A Python file of workloads: only functions marked `@workload` are collected, whatever their names."""

    def istestfunction(self, obj: object, name: str) -> bool:  # noqa: ARG002 - the signature is pytest's
        """Whether an object is a workload, and declared in this file rather than imported from a sister file."""
        if declaration_of(obj) is None or not inspect.isfunction(obj):
            return False
        declared_in = Path(inspect.unwrap(obj).__code__.co_filename)
        return declared_in == self.path or not declared_in.is_relative_to(self.path.parent)

    def istestclass(self, obj: object, name: str) -> bool:  # noqa: ARG002 - the signature is pytest's
        """No class is a workload."""
        return False

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """The module's workloads as the plain pytest functions that they are."""
        return [item for item in super().collect() if isinstance(item, pytest.Function)]


def holds_workloads(file_path: Path) -> bool:
    """Whether a file is a Python file of workloads by its name."""
    return file_path.suffix == ".py" and file_path.name != "conftest.py" and not file_path.name.startswith("_")


def holds_command(file_path: Path) -> bool:
    """Whether a file is the YAML file of one workload by its name."""
    return file_path.suffix in {".yaml", ".yml"} and not file_path.name.startswith(("_", "."))


def parameters_of(function: pytest.Function) -> dict[str, str]:
    """A parametrised function's arguments as text that is the same in every process."""
    callspec = getattr(function, "callspec", None)
    if callspec is None:
        return {}
    told = {
        name: repr(value) if isinstance(value, SIMPLE) else f"{type(value).__name__} in {callspec.id}"
        for name, value in callspec.params.items()
    }
    return dict(sorted(told.items()))


def spared_by_timeouts(item: pytest.Item) -> None:
    """Exempt an item from pytest-timeout: a gate is several runs, each with a time limit of its own."""
    if item.config.pluginmanager.hasplugin("timeout"):
        item.add_marker(pytest.mark.timeout(0))
