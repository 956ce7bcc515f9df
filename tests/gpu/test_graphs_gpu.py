"""CUDA graphs on a real GPU with a real nsys: in place of launches they are no loss, and hide none
of the step.

Some thirty runs; on an H200 with a slow host each took 14 to 23 s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from support.gpu import bless, gate, needs_a_gate

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]

LOOPS: Final = '''\
"""Two loops whose whole step is launched kernel by kernel, or as one CUDA graph (GRAPHS=1)."""

import os

import nvtx
import torch
from torch import nn

from perfgate import workload

GRAPHS = os.environ.get("GRAPHS") == "1"
SLEEP_CYCLES = int(os.environ.get("SLEEP_CYCLES", "100"))


def train(steps, width, depth, batch):
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.GELU())]
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, foreach=False)
    rows = [torch.randn(8, width).pin_memory() for _ in range(4)]
    inputs = torch.randn(batch, width, device="cuda")

    def step_once():
        optimizer.zero_grad(set_to_none=True)
        model(inputs).square().mean().backward()
        torch.cuda._sleep(SLEEP_CYCLES)
        optimizer.step()

    if GRAPHS:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step_once()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step_once()
    for step in steps:
        with nvtx.annotate("copy"):
            inputs[:8].copy_(rows[step % len(rows)], non_blocking=True)
        with nvtx.annotate("train"):
            graph.replay() if GRAPHS else step_once()


@workload(steps=150, warmup=50)
def small_kernels(steps):
    train(steps, width=64, depth=40, batch=32)


@workload(steps=60, warmup=50)
def large_kernels(steps):
    # Bound by memory: of matrix products at the GPU's power cap, stored runs held 33 %.
    train(steps, width=64, depth=4, batch=1 << 19)
'''


SMALL: Final = ("-k", "small_kernels")
LARGE: Final = ("-k", "large_kernels")


def blessed_kernel_by_kernel(root: Path, loop: str) -> Path:
    """A project with a baseline of one loop that launches its kernels one by one."""
    (root / "pyproject.toml").write_text(
        '[tool.perfgate]\nab_run = "off"  # its other side would take up graphs as well\n'
    )
    (root / "workloads").mkdir()
    (root / "workloads" / "loops.py").write_text(LOOPS)
    assert gate(root, "-k", loop).ended == (1, "NO_BASELINE")
    # Launched one by one, small kernels vary too much for stored runs to hold 2 %.
    bless(root, loop, "--reason", "kernel by kernel", "--hold", "auto")
    return root


@pytest.fixture(scope="module", autouse=True)
def needs_gpu_and_nsys() -> None:
    needs_a_gate()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return blessed_kernel_by_kernel(tmp_path_factory.mktemp("large"), "large_kernels")


def test_graphs_make_a_launch_bound_loop_faster_and_without_them_it_is_slower_again(
    tmp_path: Path,
) -> None:
    project = blessed_kernel_by_kernel(tmp_path, "small_kernels")
    graphs = gate(project, *SMALL, "--perfgate-runs=5", GRAPHS="1")
    assert graphs.ended == (0, "IMPROVED")
    assert graphs.row("step_ms")["outcome"] == "IMPROVED"
    assert (graphs.row("graph_launches")["baseline"], graphs.row("graph_launches")["now"]) == (0, 1)
    assert graphs.row("launches")["now"] < graphs.row("launches")["baseline"] / 10
    bless(project, "small_kernels", "--reason", "the step is one CUDA graph", "--hold", "auto")
    back = gate(project, *SMALL)
    assert back.ended == (1, "REGRESSED")
    assert {"launches"} <= back.regressed


def test_graphs_in_which_kernels_take_as_long_are_no_loss(large: Path) -> None:
    graphs = gate(large, *LARGE, GRAPHS="1")
    assert graphs.ended == (0, "IMPROVED")
    assert graphs.row("graph_launches")["now"] == 1
    # The span holds what was idle, copied and set between kernels.
    assert graphs.row("kernel_ms")["outcome"] is None


def test_graphs_in_which_kernels_take_longer_are_a_loss_of_the_step(large: Path) -> None:
    slower = gate(large, *LARGE, GRAPHS="1", SLEEP_CYCLES="2000000")  # 1 ms at 1980 MHz
    assert slower.ended == (1, "REGRESSED")
    assert slower.regressed == {"step_ms"}
