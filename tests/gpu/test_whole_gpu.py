"""A step as a whole on a real GPU with a real nsys: an overlap that every third step loses is a
loss, although most steps take as long as before.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.gpu import bless, committed, gate, needs_a_gate

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]

LOOP = '''\
"""Two kernels at once while the CPU works for a little longer: 4.5 ms of either in 6 ms."""

import time

import torch

from perfgate import workload

CYCLES = 8_800_000
SERIAL = False


@workload(steps=60, warmup=20)
def side_by_side(steps):
    other = torch.cuda.Stream()
    here = torch.cuda.current_stream()
    for turn, _ in enumerate(steps):
        began = time.perf_counter()
        other.wait_stream(here)
        torch.cuda._sleep(CYCLES)
        with torch.cuda.stream(here if SERIAL and turn % 3 == 0 else other):
            torch.cuda._sleep(CYCLES)
        here.wait_stream(other)
        while time.perf_counter() - began < 0.006:
            pass
        torch.cuda.synchronize()
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a blessed baseline of the loop."""
    needs_a_gate()
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "loops.py").write_text(LOOP)
    committed(tmp_path)
    assert gate(tmp_path).ended == (1, "NO_BASELINE")
    bless(tmp_path, "side_by_side", "--reason", "first baseline")
    return tmp_path


def test_an_overlap_that_is_lost_every_third_step_is_a_loss(project: Path) -> None:
    file = project / "workloads" / "loops.py"
    file.write_text(LOOP.replace("SERIAL = False", "SERIAL = True"))
    serial = gate(project)
    assert serial.ended == (1, "REGRESSED")
    assert serial.regressed == {"step_ms"}
    # A third of the periods is half as long again, of which a fifth of the median counts; the plain
    # mean takes all of it.
    assert 0.03 < serial.row("step_ms")["change"] < 0.12
    assert 0.1 < serial.row("step_mean_ms")["change"] < 0.35
