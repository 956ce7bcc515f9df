"""The action says what its runner must be, and a runner that reads as another is no pass."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from support.actions import ACTION, Machine, load

pytestmark = pytest.mark.behaviour


@pytest.mark.parametrize(
    ("machine", "opens"),
    [("nvidia-h200", True), ("nvidia-a100", False), ("no-gpu", False), ("NVIDIA H200", False)],
)
def test_a_gate_is_open_only_on_the_machine_that_is_meant(
    runner: Callable[..., Machine], machine: str, opens: bool
) -> None:
    action = load(ACTION)
    (gate,) = (step for step in action["runs"]["steps"] if step.get("id") == "gate")
    inputs = {name: declared["default"] for name, declared in action["inputs"].items()}
    done = runner("unchanged").run(
        gate, {"inputs": inputs | {"python": sys.executable, "machine": machine}}
    )
    assert (done.status == 0, done.outputs["outcome"] == "open") == (opens, opens), done.log
