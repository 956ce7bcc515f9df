"""First-time work on a real GPU: a warm-up that is too short for it is INVALID, and one that is
long enough is not.

About one minute on an H200.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.gpu import Gate, gate, needs_a_gate

pytestmark = pytest.mark.gpu

LOOP = """\
import torch
from torch import nn
from perfgate import workload

@workload(steps=30, warmup={warmup})
def train(steps):
    torch.backends.cudnn.benchmark = {benchmark}
    network = nn.Sequential(*[nn.Conv2d(64, 64, 3, padding=1) for _ in range(4)]).cuda()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    images = torch.randn(32, 64, 64, 64, device="cuda")
    model = torch.compile(network) if {compiled} else network
    for turn in steps:
        if turn < {few}:
            images = torch.randn(32 + turn, 64, 64, 64, device="cuda")
        loss = model(images).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    needs_a_gate()
    (tmp_path / "pyproject.toml").write_text("[tool.perfgate]\n")
    (tmp_path / "workloads").mkdir()
    return tmp_path


def gated(project: Path, **of_loop: object) -> Gate:
    given = {"warmup": 0, "benchmark": False, "compiled": False, "few": 0, **of_loop}
    (project / "workloads" / "train.py").write_text(LOOP.format(**given))
    return gate(project, "--perfgate-runs=1", timeout_s=280)


@pytest.mark.parametrize(
    "of_loop",
    [{"benchmark": True, "few": 4}, {"compiled": True, "few": 4}],
    ids=["cuDNN tries its algorithms for new shapes", "torch.compile compiles for new shapes"],
)
def test_first_time_work_in_the_measured_steps_is_invalid(
    project: Path, of_loop: dict[str, object]
) -> None:
    made = gated(project, **of_loop)
    assert made.ended == (1, "INVALID")
    assert "first-time-calls" in made.codes


@pytest.mark.parametrize(
    "of_loop",
    [{"benchmark": True, "few": 4}, {"compiled": True, "few": 4}],
    ids=["cuDNN", "compile"],
)
def test_with_a_warmup_that_is_long_enough_it_is_measured(
    project: Path, of_loop: dict[str, object]
) -> None:
    assert gated(project, warmup=10, **of_loop).ended == (1, "NO_BASELINE")
