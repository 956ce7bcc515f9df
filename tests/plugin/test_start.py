"""What starting costs: of a gate, of a worker, and of a pytest that only has perfgate installed.

Counted in calls of functions, Python's and C's, which are the same on a busy machine, with and
without bytecode. Of a gate they go with its time: 660 thousand calls take a third of a second.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

GATE = "import perfgate.plugin.gate_side"
LATE = ("jinja2", "pandas", "plotly", "scipy", "torch", "yaml")
"""What only some gates come to, or only in their end."""
COUNTED = """
import sys
calls = 0

def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")

sys.argv[1:] = {words!r}
sys.setprofile(count)
try:
    {code}
finally:
    sys.setprofile(None)
    print("calls", calls)
"""


def said(folder: Path, code: str) -> str:
    """What a fresh interpreter prints; its bytecode is kept in the folder."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**env, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


def calls_of(folder: Path, code: str, *words: str) -> int:
    """How many functions a fresh interpreter calls for this code."""
    return int(said(folder, COUNTED.format(code=code, words=list(words))).split()[-1])


def test_a_gate_starts_in_twice_the_time_of_what_it_cannot_do_without(tmp_path: Path) -> None:
    needed = calls_of(tmp_path, "import numpy, pydantic.main, pytest")
    assert calls_of(tmp_path, f"import pytest; {GATE}") < 2.25 * needed


def test_a_gate_starts_without_what_it_may_never_need(tmp_path: Path) -> None:
    loaded = f"{GATE}; import sys; print(*sorted(set({LATE!r}) & set(sys.modules)))"
    assert said(tmp_path, loaded).split() == []


def test_a_worker_adds_no_more_than_its_pytest_and_the_records_it_reads(tmp_path: Path) -> None:
    needed = calls_of(tmp_path, "import pydantic.main, pytest")
    worker = calls_of(tmp_path, "import pytest, perfgate.plugin.worker_side")
    assert worker < 1.4 * needed


def test_pytest_compiles_none_of_it_anew(tmp_path: Path) -> None:
    named = "type(sys.modules['perfgate.model.options'].__loader__).__name__"
    code = f"import sys, pytest; pytest.main(['-q']); print({named})"
    assert said(tmp_path, code).split()[-1] == "SourceFileLoader"


def test_an_unused_plugin_costs_a_pytest_next_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n", encoding="utf-8")
    others = ("xdist", "hypothesispytest", "timeout", "syrupy", "cacheprovider")
    words = [word for name in others for word in ("-p", f"no:{name}")]
    code = "import pytest; pytest.main(sys.argv[1:])"
    calls_of(tmp_path, code, "-q", *words)  # pytest rewrites the plugin itself, once
    without = calls_of(tmp_path, code, "-q", *words, "-p", "no:perfgate")
    assert calls_of(tmp_path, code, "-q", *words) < 1.035 * without
