"""Collection: which files hold workloads, and how their functions become pytest items. Decides nothing about speed."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from perfgate.workload import declaration_of, holds_workloads

SIMPLE = (str, int, float, bool, type(None))
TOLD_BY_NAME = ("dtype", "device")
"""Types of torch whose text says all; pytest numbers their values, so that an id does not tell them apart."""


class WorkloadModule(pytest.Module):
    """A Python file of workloads: only functions marked `@workload` are collected, whatever their names."""

    def istestfunction(self, obj: object, name: str) -> bool:  # noqa: ARG002 - the signature is pytest's
        """Whether an object is a workload, and declared in this file rather than imported from a sister file."""
        if declaration_of(obj) is None or not inspect.isfunction(obj):
            return False
        declared = inspect.unwrap(obj)
        declared_in = Path(declared.__code__.co_filename)
        if declared_in == self.path or not declared_in.is_relative_to(self.path.parent):
            return True
        # A sister that makes workloads, or is collected from nowhere, does not show them under their names.
        sister = sys.modules.get(declared.__module__)
        shown_there = sister is not None and any(held is obj for held in vars(sister).values())
        return not (shown_there and holds_workloads(declared_in))

    def istestclass(self, obj: object, name: str) -> bool:  # noqa: ARG002 - the signature is pytest's
        """No class is a workload."""
        return False

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """The module's workloads as the plain pytest functions that they are."""
        return [item for item in super().collect() if isinstance(item, pytest.Function)]


def parameters_of(function: pytest.Function) -> dict[str, str]:
    """A parametrised function's arguments as text that is the same in every process."""
    callspec = getattr(function, "callspec", None)
    if callspec is None:
        return {}
    told = {
        name: repr(value) if _is_told_by_text(value) else f"{type(value).__name__} in {callspec.id}"
        for name, value in callspec.params.items()
    }
    return dict(sorted(told.items()))


def _is_told_by_text(value: object) -> bool:
    """Whether a value's text says all of it, and the same in every process; that of a set's order does not."""
    match value:
        case tuple() | list():
            return all(map(_is_told_by_text, value))
        case dict():
            return all(map(_is_told_by_text, (*value, *value.values())))
        case _:
            return isinstance(value, SIMPLE) or type(value).__name__ in TOLD_BY_NAME


def spared_by_timeouts(item: pytest.Item) -> None:
    """Exempt an item from pytest-timeout: a gate is several runs, each with a time limit of its own."""
    if item.config.pluginmanager.hasplugin("timeout"):
        # In front, or a workload's own mark would win.
        item.add_marker(pytest.mark.timeout(0), append=False)
