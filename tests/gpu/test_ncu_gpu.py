"""`perfgate explain --ncu` with a real ncu: one kernel that got twice as much to do, and one that
is new.

About two minutes on an H200. Skipped where ncu is missing, or may not read the GPU's counters.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from support.gpu import PERFGATE, bless, committed, gate, needs_a_gate, run
from support.repository import run_git

from perfgate.model.errors import PerfgateError
from perfgate.views.ncu.command import find_ncu

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1200)]

LOOP = '''\
"""A pass over memory, step by step."""

import torch

from perfgate import workload

MILLIONS = 64


@workload(steps=20, warmup=10)
def stream(steps):
    values = torch.ones(MILLIONS * 1_000_000, device="cuda")
    for _ in steps:
        values.mul_(1.0001)
'''
TWICE = LOOP.replace("MILLIONS = 64", "MILLIONS = 128") + "        values.exp_().clamp_(max=2.0)\n"
"""The same pass over twice as much, and two kernels more."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose loop was blessed at a commit, and has more to do since."""
    needs_a_gate()
    try:
        find_ncu(os.environ)
    except PerfgateError as missing:
        pytest.skip(f"nothing to look with: {missing.fact}")
    root = tmp_path_factory.mktemp("project")
    (root / "workloads").mkdir()
    (root / "workloads" / "loops.py").write_text(LOOP)
    committed(root, 'ab_run = "off"\n')
    assert gate(root).ended == (1, "NO_BASELINE")
    bless(root, "--reason", "first baseline")
    (root / "workloads" / "loops.py").write_text(TWICE)
    assert gate(root).ended == (1, "REGRESSED")
    return root


@pytest.fixture(scope="module")
def kernels(project: Path) -> dict[str, str]:
    """What is shown of each kernel, by the start of its name."""
    done = run(project, *PERFGATE, "explain", "stream", "--ncu", "--no-rules", timeout_s=900)
    if done.returncode and "ERR_NVGPUCTRPERM" in done.stderr:
        pytest.skip("ncu may not read the GPU's counters here")
    assert done.returncode == 0, done.stderr
    _, _, found = done.stdout.partition("\nkernels under ncu ")
    blocks = re.split(r"\n\n", found)[1:]
    return {block.splitlines()[0]: block for block in blocks}


def row(block: str, title: str) -> list[str]:
    """The cells of a row, without units."""
    line = next(line for line in block.splitlines() if line.strip().startswith(title))
    return line.strip().removeprefix(title).replace(" %", "").replace(" pp", "").split()


def number(cell: str) -> float:
    return float(cell.replace(",", ""))


def test_the_kernel_that_got_more_to_do_is_reported_before_and_now(kernels: dict[str, str]) -> None:
    (block,) = (block for name, block in kernels.items() if "MulFunctor" in name)
    before, now, *_ = row(block, "duration, us")
    assert 1.7 < number(now) / number(before) < 2.3
    # 2 passes over 256 MB at some 4 TB/s: 100 to 250 us on the GPUs that this is run on.
    assert 50 < number(before) < 1000
    memory_before, memory_now, *_ = row(block, "memory throughput")
    assert min(number(memory_before), number(memory_now)) > 60
    assert max(map(number, row(block, "compute throughput")[:2])) < number(memory_before)
    assert len(row(block, "registers a thread")) >= 2
    assert 300 < number(row(block, "SM clock, MHz")[1]) < 4000


def test_a_kernel_that_is_new_has_figures_of_now_alone(kernels: dict[str, str]) -> None:
    (block,) = (block for name, block in kernels.items() if "exp" in name.lower())
    before, now, *_ = row(block, "duration, us")
    assert before == "-"
    assert number(now) > 50
    assert re.search(r"^  a +no figures: ", block, re.MULTILINE)


def test_nothing_is_left_behind(project: Path, kernels: dict[str, str]) -> None:
    assert kernels
    assert list((project / ".perfgate").rglob("*.ncu-rep")) == []
    assert len(run_git(project, "worktree", "list").splitlines()) == 1
