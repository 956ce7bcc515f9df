"""Gates on a real GPU, each made as a user makes it: whether one can be made here, and what came of
it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from support.repository import run_git

from perfgate.machine import read_machine
from perfgate.model.errors import PerfgateError
from perfgate.profilers.nsys.tool import find_nsys

PERFGATE: Final = (sys.executable, "-m", "perfgate")


def why_no_gate(gpus: int = 1) -> str | None:
    """Say why no gate on so many GPUs can be made here; None if one can."""
    try:
        shown = len(read_machine(os.environ, nsys=None, nsys_options=()).gpus)
        if shown < gpus:
            return (
                "no NVIDIA GPU on this machine"
                if gpus == 1
                else f"{gpus} NVIDIA GPUs are needed, {shown} are here"
            )
        find_nsys(None, os.environ)
    except PerfgateError as missing:
        return f"no gate can be made here: {missing.fact}"
    return None


def needs_a_gate(gpus: int = 1) -> None:
    """Skip the test, and say why, where none can be made."""
    if (reason := why_no_gate(gpus)) is not None:
        pytest.skip(reason)


@dataclass(frozen=True, kw_only=True)
class Gate:
    """How a gate of one workload ended."""

    status: int
    output: str
    document: Mapping[str, Any]

    @property
    def workload(self) -> Mapping[str, Any]:
        """What the document says of it."""
        (found,) = self.document["workloads"]
        return dict(found)

    @property
    def verdict(self) -> Mapping[str, Any]:
        """What was found."""
        return dict(self.workload["verdict"])

    @property
    def ended(self) -> tuple[int, str]:
        """Exit status and outcome."""
        return self.status, str(self.verdict["outcome"])

    @property
    def regressed(self) -> set[str]:
        """The metrics that got slower, or more."""
        return {*self.of_outcome("REGRESSED")}

    def of_outcome(self, outcome: str) -> tuple[str, ...]:
        """The metrics of one outcome, in order."""
        rows = self.verdict["metrics"]
        return tuple(row["metric"] for row in rows if row["outcome"] == outcome)

    @property
    def codes(self) -> set[str]:
        """Codes of all that the verdict notes, with their causes."""
        found: set[str] = set()
        left = [self.verdict["why"], *self.verdict["notes"]]
        while left:
            one = left.pop()
            found.add(one["code"])
            left += one["causes"]
            left += [field for field in one["fields"].values() if _is_note(field)]
            lists = (field for field in one["fields"].values() if isinstance(field, list))
            left += [each for field in lists for each in field if _is_note(each)]
        return found

    def row(self, metric: str) -> Mapping[str, Any]:
        """What is said of one metric."""
        (row,) = (row for row in self.verdict["metrics"] if row["metric"] == metric)
        return dict(row)


def _is_note(field: object) -> bool:
    return isinstance(field, dict) and "code" in field


def gate(project: Path, *options: str, timeout_s: float = 900, **environment: str) -> Gate:
    """Gate the only workload that the options choose, and show what a user sees, which is worth
    reading in the log."""
    document = project / ".perfgate" / "out.json"
    document.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--perfgate",
        f"--perfgate-json={document}",
        *options,
    ]
    done = run(project, *command, timeout_s=timeout_s, **environment)
    found = json.loads(document.read_text(encoding="utf-8"))
    return Gate(status=done.returncode, output=done.stdout, document=found)


def committed(root: Path, settings: str = "") -> Path:
    """A repository of what lies in a folder, with these settings."""
    (root / "pyproject.toml").write_text(f"[tool.perfgate]\n{settings}")
    (root / ".gitignore").write_text(".perfgate/\n__pycache__/\n")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "loops")):
        run_git(root, *words)
    return root


def bless(project: Path, *words: str) -> None:
    """Bless what was measured last."""
    assert run(project, *PERFGATE, "bless", *words, timeout_s=60).returncode == 0


def run(
    project: Path, *command: str, timeout_s: float, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in the project and show what it says."""
    done = subprocess.run(
        command,
        cwd=project,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    print(done.stdout, done.stderr)  # noqa: T201
    return done
