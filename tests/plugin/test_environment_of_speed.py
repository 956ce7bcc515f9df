"""Which environment variables of a workload are kept, and named where they are not those of its
baseline."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.project import Project

from perfgate.model.machine import differing, tuning

pytestmark = [pytest.mark.behaviour]

LOOP = """\
import time
from perfgate import workload

@workload(steps=4, warmup=1)
def loop(steps):
    for _ in steps:
        time.sleep(0.05)
"""
COMMAND = """\
command: [env, NCCL_ALGO=Ring, python, train.py]
step: step
warmup: 1
steps: 4
capture: all
"""
SCRIPT = """\
import time
import nvtx

for _ in range(5):
    with nvtx.annotate("step"):
        time.sleep(0.1)
"""


def test_what_differs_from_run_to_run_or_is_secret_is_left_out() -> None:
    kept = tuning(
        {
            "NCCL_ALGO": "Ring",
            "OMP_NUM_THREADS": "8",
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
            "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
            "NVIDIA_TF32_OVERRIDE": "0",
            "CUDA_VISIBLE_DEVICES": "3",
            "CUDA_HOME": "/usr/local/cuda",
            "NVIDIA_VISIBLE_DEVICES": "GPU-1",
            "TRITON_CACHE_DIR": "/home/me/.triton",
            "NCCL_DEBUG_FILE": "/tmp/nccl.log",
            "TORCH_LOGS_OUT": "/work/project/logs",
            "TORCHELASTIC_RUN_ID": "a1",
            "CUDA_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so",
            "NCCL_API_TOKEN": "s3cr3t-s3cr3t-s3cr3t",
            "LANG": "C",
        },
        places=("/work/project",),
    )
    assert sorted(kept) == [
        "NCCL_ALGO",
        "NVIDIA_TF32_OVERRIDE",
        "OMP_NUM_THREADS",
        "PYTORCH_CUDA_ALLOC_CONF",
        "TORCHINDUCTOR_MAX_AUTOTUNE",
    ]


@pytest.mark.parametrize(
    ("then", "now", "named"),
    [
        ([{"NCCL_ALGO": "Ring"}], {"NCCL_ALGO": "Tree"}, True),
        ([{"NCCL_ALGO": "Ring"}], {}, True),
        ([{}], {"NCCL_ALGO": "Ring"}, True),
        ([{"NCCL_ALGO": "Ring"}, {}], {"NCCL_ALGO": "Ring"}, False),
        ([None], {"NCCL_ALGO": "Ring"}, False),
        ([{"NCCL_ALGO": "Ring"}], None, False),
        ([], {"NCCL_ALGO": "Ring"}, False),
    ],
)
def test_what_is_as_it_was_once_or_is_not_known_is_not_named(
    then: list[Mapping[str, str] | None], now: Mapping[str, str] | None, named: bool
) -> None:
    assert (differing(then, now) is not None) is named


def warnings(project: Project) -> str:
    (one,) = project.written("gate.json").workloads
    return " ".join(one.verdict.warnings)


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_variables_that_are_not_those_of_the_baseline_are_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.workload(LOOP)
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    options = (
        "--perfgate",
        "--perfgate-runs=1",
        "--perfgate-max-runs=1",
        "--perfgate-json=gate.json",
    )
    project.run(*options)
    environment = project.written("gate.json").workloads[0].environment
    assert environment is not None
    assert (environment["NCCL_ALGO"], environment["OMP_NUM_THREADS"]) == ("Ring", "2")
    project.repeat()
    blessed = project.perfgate("bless", "loop", "--reason", "first")
    assert blessed.status == 0, blessed.err + blessed.out
    project.run(*options)
    assert "NCCL_ALGO" not in warnings(project)
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    project.run(*options)
    found = warnings(project)
    assert "NCCL_ALGO" in found
    assert "OMP_NUM_THREADS" not in found
    assert "CUDA_VISIBLE_DEVICES" not in found


@pytest.mark.nsys
@pytest.mark.usefixtures("real_nsys")
def test_of_a_command_it_is_what_the_process_of_the_steps_was_started_with(
    project: Project,
) -> None:
    project.write("train.py", SCRIPT)
    project.write("workloads/train.yaml", COMMAND)
    project.run("--perfgate", "--perfgate-runs=1", "--perfgate-json=gate.json")
    (one,) = project.written("gate.json").workloads
    assert one.environment is not None
    assert one.environment["NCCL_ALGO"] == "Ring"
