"""Who may read and write what a gate and its workloads leave: as the umask of whoever started it
has it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.project import Project

pytestmark = [pytest.mark.behaviour, pytest.mark.nsys]

LEAVES = """\
import json, os, pathlib, resource, signal

def leave(name):
    cache = pathlib.Path("cache", name)
    cache.mkdir(parents=True)
    (cache / "kernel.py").write_text("")
    os.close(os.open(cache / "kernel.so", os.O_CREAT, 0o777))
    noted = {
        "cwd": os.getcwd(),
        "nice": os.nice(0),
        "limits": [*map(resource.getrlimit, (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE))],
        "ignored": [one for one in range(1, 32) if signal.getsignal(one) == signal.SIG_IGN],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "coerced": "LC_CTYPE" in os.environ,
        "libraries": os.environ.get("LD_LIBRARY_PATH", ""),
    }
    (cache / "noted.json").write_text(json.dumps(noted, default=int))
"""
LOOP = """\
import time
from leaves import leave
from perfgate import workload

@workload(steps=4, warmup=1)
def loop(steps):
    leave("loop")
    for _ in steps:
        time.sleep(0.001)
"""
SCRIPT = """\
import time
import nvtx
from leaves import leave

leave("script")
for _ in range(4):
    with nvtx.annotate("step"):
        time.sleep(0.001)
"""
COMMAND = """\
command: [python, train.py]
step: step
warmup: 1
steps: 3
capture: all
"""


def modes(folder: Path) -> dict[str, int]:
    """Permissions of what is below a folder, by path; of links those of nobody."""
    return {
        str(path.relative_to(folder)): path.lstat().st_mode & 0o777
        for path in sorted(folder.rglob("*"))
        if not path.is_symlink()
    }


@pytest.mark.parametrize("name", ["loop", "script"])
def test_a_workload_and_its_gate_write_with_the_umask_of_who_started_them(
    project: Project, real_nsys: Sequence[str], name: str
) -> None:
    project.write("leaves.py", LEAVES)
    if name == "loop":
        project.workload(LOOP)
    else:
        project.write("train.py", SCRIPT)
        project.workload(COMMAND, file="train.yaml")
    project.patch.setenv("PYTHONPATH", str(project.root))
    project.patch.delenv("PYTHONDONTWRITEBYTECODE")
    project.patch.delenv("LD_LIBRARY_PATH", raising=False)
    umask = 0o077
    before = set(modes(project.root))
    options = (
        "--perfgate",
        "--perfgate-new=allow",
        "--perfgate-runs=1",
        "--perfgate-keep-captures",
    )
    outside = [sys.executable, "-c", "from leaves import leave; leave('outside')"]
    subprocess.run(outside, cwd=project.root, umask=umask, check=True)
    with project.start(*options, umask=umask) as gate:
        assert gate.wait(120) == 0
    written = {path: mode for path, mode in modes(project.root).items() if path not in before}
    assert {
        path: oct(mode) for path, mode in written.items() if mode & umask and "/nsys/" not in path
    } == {}
    assert written[f"cache/{name}/kernel.so"] == 0o777 & ~umask
    (raw,) = [path for path in written if path.endswith("/nsys")]
    assert written[raw] == 0o700
    worker_reports = [
        mode for path, mode in written.items() if path.endswith("/worker-report.json")
    ]
    assert worker_reports == ([0o600] if name == "loop" else [])

    without, under = (
        json.loads((project.root / "cache" / one / "noted.json").read_text("utf-8"))
        for one in ("outside", name)
    )
    assert under == without | {"libraries": under["libraries"]}
    assert "" not in under["libraries"].split(":")[:1] or not under["libraries"]
