"""Collection: which files hold workloads, and how their functions become pytest items. Decides
nothing about speed."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

import pytest

from perfgate.workload import declaration_of, holds_workloads


class WorkloadModule(pytest.Module):
    """A Python file of workloads: only functions marked `@workload` are collected, whatever their
    names."""

    def istestfunction(self, obj: object, name: str) -> bool:  # noqa: ARG002 - as pytest asks
        """Whether an object is a workload, and declared in this file rather than imported from a
        sister file."""
        if declaration_of(obj) is None or not inspect.isfunction(obj):
            return False
        declared = inspect.unwrap(obj)
        declared_in = Path(declared.__code__.co_filename)
        if declared_in == self.path or not declared_in.is_relative_to(self.path.parent):
            return True
        # A sister that makes workloads, or is collected from nowhere, does not show them under
        # their names.
        sister = sys.modules.get(declared.__module__)
        shown_there = sister is not None and any(held is obj for held in vars(sister).values())
        return not (shown_there and holds_workloads(declared_in))

    def istestclass(self, obj: object, name: str) -> bool:  # noqa: ARG002 - as pytest asks
        """No class is a workload."""
        return False

    def collect(self) -> list[pytest.Function]:
        """The module's workloads as the plain pytest functions that they are."""
        return [item for item in super().collect() if isinstance(item, pytest.Function)]


def may_declare(file: Path) -> bool:
    """Whether a file may declare workloads: it names perfgate's, or decorates a function that takes
    steps.

    A file that cannot be read may as well.
    """
    try:
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return True
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return ("perfgate" in text and "workload" in text) or any(
        function.decorator_list and argument.arg == "steps"
        for function in functions
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    )


def spared_by_timeouts(item: pytest.Item) -> None:
    """Exempt an item from pytest-timeout: a gate is several runs, each with a time limit of its
    own."""
    if item.config.pluginmanager.hasplugin("timeout"):
        # In front, or a workload's own mark would win.
        item.add_marker(pytest.mark.timeout(0), append=False)
