"""The machine room on a real GPU: it knows the card, sees its clock at work, and knows our
processes from others."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perfgate.doctor import Examined, check_gpu, check_trial
from perfgate.machine import read_machine, sampled, wait_until_idle
from perfgate.model.errors import MachineUnreadable, NsysNotFound
from perfgate.model.machine import Gpu
from perfgate.model.order import RUN_COOKIE
from perfgate.model.settings import Settings
from perfgate.profilers.nsys.tool import find_nsys

pytestmark = pytest.mark.gpu

LOOP = """
import sys, time, torch
a = torch.randn(4096, 4096, device="cuda")
torch.cuda.synchronize()
print("up", flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
"""

LAUNCH = """
import subprocess, sys
command = [sys.executable, "-c", *sys.argv[2:]]
with open(sys.argv[1], "wb") as said:
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
print(child.pid, flush=True)
"""


@pytest.fixture
def gpu() -> Gpu:
    try:
        gpus = read_machine(os.environ, nsys=None, nsys_options=()).gpus
    except MachineUnreadable as error:
        pytest.skip(f"no readable GPU: {error.fact}")
    if not gpus:
        pytest.skip("no NVIDIA GPU on this machine")
    complaint = wait_until_idle(gpus[:1], 20)
    if complaint is not None:
        pytest.skip(f"the GPU is not ours alone: {complaint}")
    return gpus[0]


def env_of(run_id: str, gpu: Gpu) -> dict[str, str]:
    return {**os.environ, RUN_COOKIE: run_id, "CUDA_VISIBLE_DEVICES": gpu.uuid}


@contextmanager
def loop_of_nobody(run_id: str, gpu: Gpu) -> Iterator[int]:
    """Run the loop in a session of its own, its parent gone: as nsys may leave a workload, or a
    stranger may run.

    The parent is gone before the loop is on the GPU: from then on, descent would make it one of
    ours.
    """
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        launched = subprocess.run(
            [sys.executable, "-c", LAUNCH, str(said), LOOP, "60"],
            env=env_of(run_id, gpu),
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        pid = int(launched.stdout)
        try:
            deadline = time.monotonic() + 60
            while said.read_text() != "up\n":
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield pid
        finally:
            os.kill(pid, signal.SIGKILL)


def test_the_machine_names_its_gpu_as_nvidia_smi_does(gpu: Gpu) -> None:
    machine = read_machine(os.environ, nsys=None, nsys_options=())
    asked = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,uuid,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    rows = [tuple(line.split(", ")) for line in asked.stdout.strip().splitlines()]
    assert machine.driver == rows[0][2]
    assert re.fullmatch(r"\d+\.\d+", machine.cuda or "")
    if not gpu.mig:
        assert (gpu.name, gpu.uuid) in {(name, uuid) for name, uuid, _ in rows}
        assert gpu.memory_mib is not None
        assert gpu.memory_mib > 1000


def test_hidden_gpus_are_not_the_workloads() -> None:
    assert read_machine({"CUDA_VISIBLE_DEVICES": ""}, nsys=None, nsys_options=()).gpus == ()


def test_a_loop_of_ours_has_a_clock_and_no_neighbour(gpu: Gpu) -> None:
    with sampled([gpu], run_id="a-run") as samples:
        subprocess.run(
            [sys.executable, "-c", LOOP, "3"], env=env_of("a-run", gpu), check=True, timeout=120
        )
    (found,) = samples.conditions().gpus
    print(found)  # noqa: T201  (what a real driver says is worth reading in the log)
    assert found.samples >= 10
    assert found.sm_clock_mhz is not None
    assert found.sm_clock_mhz > 500
    assert found.temperature_c is None or 10 < found.temperature_c < 110
    assert found.neighbours == ()
    assert not [
        one for one in found.information if one.fields.get("sensor") == "clock event reasons"
    ]


def test_a_loop_that_left_our_family_is_ours_by_its_cookie(gpu: Gpu) -> None:
    with sampled([gpu], run_id="a-run") as samples, loop_of_nobody("a-run", gpu):
        time.sleep(1.5)
    (found,) = samples.conditions().gpus
    print(found)  # noqa: T201
    assert found.neighbours == ()
    assert found.samples >= 5


def test_a_stranger_that_comes_during_the_run_is_named(gpu: Gpu) -> None:
    with sampled([gpu], run_id="a-run") as samples:
        ours = subprocess.Popen([sys.executable, "-c", LOOP, "30"], env=env_of("a-run", gpu))
        try:
            with loop_of_nobody("another-run", gpu) as pid:
                time.sleep(1.5)
        finally:
            ours.kill()
            ours.wait()
    conditions = samples.conditions()
    print(conditions)  # noqa: T201
    (found,) = conditions.gpus
    assert len(found.neighbours) == 1
    assert found.neighbours[0].endswith(f" ({pid})")
    assert [one.code for one in conditions.invalid] == ["gpu-shared"]


def test_a_stranger_that_is_there_already_is_complained_about_before_and_named_after(
    gpu: Gpu,
) -> None:
    with loop_of_nobody("another-run", gpu) as pid:
        complaint = wait_until_idle([gpu], 0.5)
        with sampled([gpu], run_id="a-run") as samples:
            time.sleep(0.5)
    assert complaint is not None
    assert (complaint.code, complaint.fields["gpu"]) == ("gpu-in-use", gpu.uuid)
    assert f"({pid})" in str(complaint.fields["by"])
    assert [shown.endswith(f" ({pid})") for shown in samples.conditions().gpus[0].neighbours] == [
        True
    ]


def test_the_doctor_sees_the_gpu_and_its_trace(gpu: Gpu) -> None:
    found, gpus = check_gpu(os.environ)
    assert (found.ok, gpu in gpus) == (True, True)
    try:
        tool = find_nsys(None, os.environ)
    except NsysNotFound as none:
        pytest.skip(f"no nsys: {none.fact}")
    place = Examined(root=Path.cwd(), settings=Settings(), env=os.environ)
    findings = check_trial(tool, place, gpu_expected=True)
    print(findings)  # noqa: T201
    assert {finding.check: finding.ok for finding in findings}["GPU trace"] is True
