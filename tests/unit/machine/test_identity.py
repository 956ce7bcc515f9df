"""What read_machine says of machines with and without a driver."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest
from support.fake_nvml import NOT_SUPPORTED, FakeGpu, FakeNvml
from support.refused import refused

from perfgate.machine import read_machine
from perfgate.machine.identity import read_cpu_model
from perfgate.model.errors import MachineUnreadable
from perfgate.model.machine import Gpu

UUID = "GPU-11111111-aaaa-bbbb-cccc-000000000001"


def test_a_machine_is_described_in_full(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor\t: 0\nmodel name\t: INTEL(R) XEON(R) PLATINUM 8581C\nflags\t\t: fpu\n"
    )
    library = FakeNvml([FakeGpu()])
    machine = read_machine(
        {}, nsys="2025.3.1", nsys_options=("--trace=cuda,nvtx",), library=library, cpuinfo=cpuinfo
    )
    assert machine.gpus == (Gpu(name="NVIDIA H200", uuid=UUID, mig=False, memory_mib=144384),)
    assert (machine.driver, machine.cuda) == ("580.159.04", "13.2")
    assert (machine.nsys, machine.nsys_options) == ("2025.3.1", ("--trace=cuda,nvtx",))
    assert machine.python == platform.python_version()
    assert (machine.cpu, machine.cpu_count) == (
        "INTEL(R) XEON(R) PLATINUM 8581C",
        len(os.sched_getaffinity(0)),
    )
    assert machine.gpu_name == "NVIDIA H200"
    assert library.started == 0


@pytest.mark.parametrize(
    "code",
    [
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
    ],
)
def test_without_a_driver_there_are_no_gpus(code: int) -> None:
    machine = read_machine({}, nsys=None, nsys_options=(), library=FakeNvml(init_error=code))
    assert (machine.gpus, machine.driver, machine.cuda) == ((), None, None)
    assert machine.slug == "no-gpu"


def test_a_driver_that_fails_to_start_is_an_error() -> None:
    library = FakeNvml(init_error=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    with refused(MachineUnreadable, "nvml-failed"):
        read_machine({}, nsys=None, nsys_options=(), library=library)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (pynvml.NVML_ERROR_GPU_IS_LOST, "GPU is lost"),
        # What nvmlInit says where there is no GPU for us is no such answer of one that is there.
        (pynvml.NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"),
    ],
)
def test_a_gpu_that_does_not_answer_is_an_error_and_nvml_is_stopped(code: int, why: str) -> None:
    library = FakeNvml([FakeGpu()], refuses={"nvmlDeviceGetHandleByIndex": code})
    with pytest.raises(MachineUnreadable, match=why):
        read_machine({}, nsys=None, nsys_options=(), library=library)
    assert library.started == 0


def test_a_gpu_that_knows_neither_mig_nor_its_memory_is_still_a_gpu() -> None:
    library = FakeNvml(
        [FakeGpu(name="GeForce GTX 1080")],
        refuses={"nvmlDeviceGetMigMode": NOT_SUPPORTED, "nvmlDeviceGetMemoryInfo": NOT_SUPPORTED},
    )
    machine = read_machine({}, nsys=None, nsys_options=(), library=library)
    assert machine.gpus == (Gpu(name="GeForce GTX 1080", uuid=UUID, mig=False, memory_mib=None),)


def test_reading_the_machine_imports_neither_torch_nor_nvtx() -> None:
    program = (
        "import sys; from perfgate.machine import read_machine; read_machine({}, nsys=None, "
        "nsys_options=());"
        "print({'torch', 'nvtx', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_a_cpu_without_a_model_name_is_named_by_its_architecture(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nBogoMIPS\t: 50.00\n")
    assert read_cpu_model(tmp_path / "cpuinfo") == platform.machine()
    assert read_cpu_model(tmp_path / "absent") == platform.machine()
