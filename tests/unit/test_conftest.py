"""Unit tests start no process, and the list of those that may is kept."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def may_start_processes() -> set[str]:
    """The list of the conftest next to this file, by its literal."""
    tree = ast.parse((HERE / "conftest.py").read_text(encoding="utf-8"))
    found = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MAY_START_PROCESSES"
    ]
    return set(ast.literal_eval(found[0]))


def test_starting_a_process_fails_a_unit_test() -> None:
    with pytest.raises(AssertionError, match="a unit test started a process"):
        subprocess.run([sys.executable, "--version"], check=True)
    with pytest.raises(AssertionError, match="a unit test started a process"):
        subprocess.Popen(["true"])
    with pytest.raises(AssertionError, match="a unit test started a process"):
        os.fork()


def test_every_file_that_may_start_processes_is_there() -> None:
    assert [name for name in sorted(may_start_processes()) if not (HERE / name).is_file()] == []
