"""Of several processes, `explain` names the one that its heading and its tables are of."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.exports import PID, Call, Kernel, Range, write_export

pytestmark = pytest.mark.behaviour
STEPS = 5
MS = 1_000_000


def rank(number: int, name: str, kernel_ms: int) -> list[Range | Call | Kernel]:
    """Steps with one kernel, under a range that no other process has."""
    process = PID + number
    rows: list[Range | Call | Kernel] = []
    for turn in range(STEPS):
        at = turn * 100 * MS
        rows += [
            Range("step", at, at + 90 * MS, process=process),
            Range(name, at + MS, at + 3 * MS, process=process),
            Call(
                "cudaLaunchKernel_v7000",
                at + MS,
                at + 2 * MS,
                correlation=turn + 1,
                process=process,
            ),
            Kernel(
                f"gemm_{name}",
                at + 2 * MS,
                at + (2 + kernel_ms) * MS,
                correlation=turn + 1,
                process=process,
                device=number,
            ),
        ]
    return rows


@pytest.mark.parametrize(
    ("now", "found"), [((10, 30), 1), ((60, 40), 0)], ids=["the worse now", "the worst now"]
)
def test_heading_and_tables_are_of_one_process(
    tmp_path: Path, now: tuple[int, int], found: int
) -> None:
    names = ("left", "right")
    for file, times in (("a.sqlite", (10, 20)), ("b.sqlite", now)):
        rows = [row for place, ms in enumerate(times) for row in rank(place, names[place], ms)]
        write_export(tmp_path / file, *rows)
    argv = [sys.executable, "-m", "perfgate", "explain", "a.sqlite", "b.sqlite", "--step", "step"]
    done = subprocess.run(
        argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    of_kernels = re.search(
        r"^kernel_ms (\S+) ms in (.*?)\n(.*?)(?=^\S|\Z)", done.stdout, re.MULTILINE | re.DOTALL
    )
    assert of_kernels is not None
    change, process, tables = of_kernels.groups()
    before = (10, 20)[found]
    assert float(change) == pytest.approx(now[found] - before)
    assert process.endswith(f"GPU {found}")
    assert names[found] in tables
    assert names[1 - found] not in tables
