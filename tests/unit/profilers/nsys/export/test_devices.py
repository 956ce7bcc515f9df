"""Which GPU a process's own number means."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.exports import (
    Call,
    Copy,
    Event,
    Kernel,
    Memset,
    Row,
    write_export,
)

from perfgate.model.note import note
from perfgate.model.timeline import CapturedGpu
from perfgate.profilers.nsys.export.timeline import read_timeline


def test_two_processes_that_each_call_their_gpu_zero_have_two_gpus(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Kernel("k", 0, 1, process=47),
            Kernel("k", 0, 1, process=48),
            Copy(0, 1, 2, process=47),
            Row("TARGET_INFO_GPU", id=0, name="NVIDIA H200", uuid="aa", cuDevice=0),
            Row("TARGET_INFO_GPU", id=1, name="NVIDIA H200", uuid="bb", cuDevice=1),
            Row("TARGET_INFO_CUDA_DEVICE", gpuId=1, cudaId=0, pid=47, uuid=None),
            Row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=48, uuid=None),
        )
    )
    assert timeline.kernels.device.tolist() == [1, 0]
    assert timeline.copies.device.tolist() == [1]
    assert timeline.gpus == (
        CapturedGpu(device=0, name="NVIDIA H200", uuid="aa"),
        CapturedGpu(device=1, name="NVIDIA H200", uuid="bb"),
    )


def test_without_a_table_of_processes_devices_go_by_their_cuda_number(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Kernel("k", 0, 1, device=0),
            Kernel("k", 0, 1, device=1),
            Row("TARGET_INFO_GPU", id=0, name="NVIDIA T400", uuid=None, cuDevice=1),
            Row("TARGET_INFO_GPU", id=1, name="NVIDIA H200", uuid=None, cuDevice=0),
        )
    )
    assert timeline.kernels.device.tolist() == [1, 0]


TWO_GPUS = tuple(
    Row("TARGET_INFO_GPU", id=number, name="NVIDIA H200", uuid=str(number), cuDevice=number)
    for number in (0, 1)
)


def both(*rows: Event | Row) -> tuple[Event | Row, ...]:
    return (Kernel("k", 0, 1, process=47), Kernel("k", 0, 1, process=48), *rows)


def named(pid: int) -> Row:
    return Row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=pid, uuid=None)


@pytest.mark.parametrize(
    ("rows", "processes"),
    [
        (both(*TWO_GPUS), 2),
        (both(), 2),
        (both(Memset(0, 1, process=49), *TWO_GPUS), 3),
        ((Kernel("k", 0, 1, host=1), Kernel("k", 0, 1, host=2), *TWO_GPUS), 2),
        (both(*TWO_GPUS, named(47)), 2),
        (both(TWO_GPUS[0]), 0),
        ((Kernel("k", 0, 1, process=47), Kernel("k", 0, 1, process=48, device=1), *TWO_GPUS), 0),
        ((Kernel("k", 0, 1, process=47), Call("c", 0, 1, process=48), *TWO_GPUS), 0),
        (both(*TWO_GPUS, named(47), named(48)), 0),
    ],
    ids=[
        "two ranks that each call their GPU 0",
        "of a machine whose GPUs are not described",
        "kernels and memsets",
        "one process id on two hosts",
        "only one process is described",
        "there is but one GPU",
        "each has its own number",
        "the other runs nothing",
        "both are described",
    ],
)
def test_processes_that_may_share_a_gpu(
    path: Path, rows: tuple[Event | Row, ...], processes: int
) -> None:
    found = read_timeline(write_export(path, *rows)).missing.get("devices")
    assert found == (note("devices-unknown", processes=processes) if processes else None)


def test_descriptions_that_make_no_sense_are_left_out(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Kernel("k", 0, 1, device=2),
            Row("TARGET_INFO_GPU", id="first", name="NVIDIA H200", uuid=None, cuDevice=2),
            Row("TARGET_INFO_GPU", id=3, name=b"NVIDIA \xff", uuid=None, cuDevice="two"),
            Row("TARGET_INFO_CUDA_DEVICE", gpuId="three", cudaId=2, pid=548, uuid=None),
            Row("TARGET_INFO_CUDA_DEVICE", gpuId=2**40, cudaId=2, pid=548, uuid=None),
            Row("DIAGNOSTIC_EVENT", severity="bad", text=None),
        )
    )
    assert timeline.kernels.device.tolist() == [2]
    assert timeline.gpus == (
        CapturedGpu(device=3, name="NVIDIA \N{REPLACEMENT CHARACTER}", uuid=None),
    )
