"""What a machine is expected to be is not read from what may have broken: lost GPUs keep the gate
shut."""

from __future__ import annotations

import pytest
from support import records
from support.fake_nvml import FakeGpu
from support.project import LOOP, Project

from perfgate.model.machine import Machine

pytestmark = pytest.mark.behaviour

NEEDS_GPUS = """\
import os, time
import pytest
from perfgate import workload

@pytest.mark.skipif(not os.environ.get("GPUS"), reason="too few GPUs")
@workload(steps=4, warmup=1)
def train(steps):
    for _ in steps:
        time.sleep(0.001)
"""
"""A workload that skips itself where there are too few GPUs for it."""
SKIPS_ITS_FILE = NEEDS_GPUS.replace(
    "@pytest",
    'if not os.environ.get("GPUS"):\n    pytest.skip("too few GPUs", allow_module_level=True)\n\n'
    "@pytest",
)
ONE = FakeGpu(utilisation=0)


def h200(*, count: int, name: str = "NVIDIA H200") -> Machine:
    (gpu,) = records.machine(name).gpus
    return records.machine().model_copy(
        update={
            "gpus": tuple(gpu.model_copy(update={"uuid": f"GPU-{index}"}) for index in range(count))
        }
    )


@pytest.fixture
def no_gpu(project: Project) -> Project:
    """A machine that reads as one without a GPU, and a workload that has a baseline there."""
    project.gpus(ONE)
    project.patch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert project.machine.slug == "no-gpu"
    project.workload(LOOP)
    project.bless(project.baseline())
    project.measures(records.run())
    return project


@pytest.mark.parametrize(
    "text", [NEEDS_GPUS, SKIPS_ITS_FILE, ""], ids=["a mark", "the file", "gone"]
)
def test_a_gpu_workload_that_is_not_measured_without_a_gpu_keeps_the_gate_shut(
    no_gpu: Project, text: str
) -> None:
    if text:
        no_gpu.workload(text, file="train.py")
    assert no_gpu.gate().status == 0
    baseline = no_gpu.bless(no_gpu.baseline("train", on=h200(count=1)))
    seen = no_gpu.gate()
    assert seen.status == 1
    assert "GATE SHUT: train" in seen.summary
    assert no_gpu.gate("--perfgate-machine=no-gpu").status == 0
    baseline.write_text("{}")  # one that cannot be read is one
    assert no_gpu.gate().status == 1


@pytest.mark.parametrize(
    ("named", "settings", "arguments", "opens"),
    [
        ("train", 'machine = "no-gpu"', (), True),
        ("train", "", ("-k", "loop"), True),
        ("train", "", ("-k", "not loop"), False),
        ("train", "", ("workloads/loops.py",), True),
        ("loop", "", (), True),  # measured here as well
    ],
)
def test_it_is_missed_unless_no_gpu_is_meant_or_it_was_not_chosen(
    no_gpu: Project, named: str, settings: str, arguments: tuple[str, ...], opens: bool
) -> None:
    no_gpu.workload(NEEDS_GPUS, file="train.py")
    no_gpu.bless(no_gpu.baseline(named, on=h200(count=1)))
    no_gpu.write("pyproject.toml", f"[tool.perfgate]\n{settings}\n")
    assert (no_gpu.gate(*arguments).status == 0) is opens


@pytest.mark.parametrize(
    ("on", "status"),
    [
        (h200(count=2), 1),
        (h200(count=1, name="NVIDIA H100 80GB HBM3"), 0),
        (h200(count=2, name="NVIDIA H100 80GB HBM3"), 0),
        (records.machine().model_copy(update={"gpus": ()}), 0),
    ],
    ids=["one more", "another", "others", "none"],
)
def test_so_does_one_for_more_gpus_than_are_left(
    project: Project, on: Machine, status: int
) -> None:
    project.unchanged()
    project.workload(NEEDS_GPUS, file="train.py")
    project.bless(project.baseline("train", on=on))
    assert project.gate().status == status
    assert project.gate("--perfgate-machine=nvidia-h200").status == 0


@pytest.mark.parametrize("place", ["option", "setting"])
@pytest.mark.parametrize(
    "expected", ["no-gpu", "nvidia-h200-x2", "nvidia-h100-80gb-hbm3", "NVIDIA H200"]
)
def test_nothing_is_measured_on_another_machine_than_expected(
    project: Project, place: str, expected: str
) -> None:
    asked = project.unchanged()
    assert project.gate("--perfgate-machine=nvidia-h200").status == 0
    asked.clear()
    if place == "setting":
        project.write("pyproject.toml", f'[tool.perfgate]\nmachine = "{expected}"\n')
    seen = project.gate(*([f"--perfgate-machine={expected}"] if place == "option" else []))
    assert (seen.status, asked) == (1, [])
    assert expected in seen.summary
    assert "nvidia-h200" in seen.summary


def test_the_option_outranks_the_setting(project: Project) -> None:
    project.unchanged()
    project.write("pyproject.toml", '[tool.perfgate]\nmachine = "nvidia-h200-x2"\n')
    assert project.gate("--perfgate-machine=nvidia-h200").status == 0
