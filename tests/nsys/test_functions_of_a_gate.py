"""How much of the house one passed gate walks through: functions, modules, and frames at once.

Whoever wants to know how a gate works reads these. Lambdas and what stands in the bodies of classes
and modules do not count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from support.repository import run_git

from perfgate.profilers.nsys.tool import VARIABLE, NsysTool

pytestmark = pytest.mark.nsys

MOST_FUNCTIONS: Final = 672
"""Counted alone it is 668, and up to 3 more where it ends what a gate of another test has left.
docs/house.md says what was counted last, and what is wanted: 400 of 70 modules, 20 frames."""
MOST_MODULES: Final = 110
MOST_FRAMES: Final = 20

LOOP: Final = """\
import time
from perfgate import workload

@workload(steps=8, warmup=1)
def loop(steps):
    for _ in steps:
        time.sleep(0.05)
"""
COUNTING: Final = """\
import json, sys, threading
import pytest
import perfgate

package = perfgate.__file__.removesuffix("__init__.py")
ran, deepest, depths = set(), [], threading.local()

def ours(frame):
    code = frame.f_code
    is_function = code.co_flags & 1 and not code.co_name.startswith("<")
    return is_function and code.co_filename.startswith(package)

def name(frame):
    return frame.f_code.co_filename.removeprefix(package), frame.f_code.co_qualname

def count(frame, event, argument):
    if event not in ("call", "return") or not ours(frame):
        return
    here = getattr(depths, "here", 0) + (1 if event == "call" else -1)
    if event == "call":
        ran.add(name(frame))
        if here > len(deepest):
            stack = []
            while frame is not None:
                stack += [name(frame)] if ours(frame) else []
                frame = frame.f_back
            here = len(stack)
            deepest[:] = max(deepest, stack, key=len)
    depths.here = here

threading.setprofile(count)
sys.setprofile(count)
options = ["-q", "-p", "no:cacheprovider", "--perfgate-budget=step_ms=0.9"]
status = pytest.main(["--perfgate", *options])
sys.setprofile(None)
with open("counted.json", "w") as file:
    json.dump({"status": int(status), "ran": sorted(ran), "deepest": deepest}, file)
"""


def run(project: Path, nsys: NsysTool, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    return subprocess.run(
        command,
        cwd=project,
        # A lock of its own: to wait for a gate of another test is none of it.
        env={**os.environ, VARIABLE: str(nsys.path), "PERFGATE_LOCKS": str(project.parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )


def test_one_passed_gate_is_no_larger_than_it_was(tmp_path: Path, nsys_tool: NsysTool) -> None:
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "loop.py").write_text(LOOP, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.perfgate]\n", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("counted.json\n__pycache__\n", encoding="utf-8")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "one")):
        run_git(tmp_path, *words)
    assert run(tmp_path, nsys_tool, "-m", "pytest", "--perfgate", "-q").returncode == 1
    blessed = run(tmp_path, nsys_tool, "-m", "perfgate", "bless", "--reason", "the first")
    assert blessed.returncode == 0, blessed.stdout + blessed.stderr
    shown = run(tmp_path, nsys_tool, "-c", COUNTING)
    found = json.loads((tmp_path / "counted.json").read_text(encoding="utf-8"))
    assert found["status"] == 0, shown.stdout
    modules = {module for module, _ in found["ran"]}
    assert len(found["ran"]) <= MOST_FUNCTIONS
    assert len(modules) <= MOST_MODULES
    assert len(found["deepest"]) <= MOST_FRAMES
