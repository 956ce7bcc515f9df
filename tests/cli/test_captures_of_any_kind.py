"""What `inspect` and `compare` say of captures: many ranges, nested ones, GPUs by CUDA's number."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.exports import PID, Call, Kernel, Range, Row, write_export

pytestmark = pytest.mark.behaviour


def perfgate(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "perfgate", *map(str, words)]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=300)


def inspected(*words: str | Path, cwd: Path) -> list[dict[str, Any]]:
    found = perfgate("inspect", *words, "--json", cwd=cwd)
    assert found.returncode == 0, found.stderr
    processes: list[dict[str, Any]] = json.loads(found.stdout)["processes"]
    return processes


def steps_on(device: int, *, process: int = PID) -> list[Range | Call | Kernel]:
    """Five steps of which each launches one kernel."""
    rows: list[Range | Call | Kernel] = []
    for at in range(0, 5000, 1000):
        correlation = at // 1000 + 1
        rows += [
            Range("step", at, at + 900, process=process),
            Call(
                "cudaLaunchKernel_v7000",
                at + 10,
                at + 20,
                correlation=correlation,
                process=process,
            ),
            Kernel(
                "gemm", at + 100, at + 600, correlation=correlation, device=device, process=process
            ),
        ]
    return rows


def gpu(number: int, cuda: int) -> Row:
    return Row(
        "TARGET_INFO_GPU",
        id=number,
        name="NVIDIA H200",
        uuid=f"GPU-{number}",
        busLocation=f"0000:{number:02d}:00.0",
        cuDevice=cuda,
    )


def seen(process: int, own: int, number: int) -> Row:
    return Row(
        "TARGET_INFO_CUDA_DEVICE", pid=process, cudaId=own, gpuId=number, uuid=f"GPU-{number}"
    )


def test_a_gpu_is_named_as_cuda_does(tmp_path: Path) -> None:
    write_export(tmp_path / "one.sqlite", *steps_on(0), gpu(0, 1), gpu(2, 0))
    ((device,),) = [
        process["devices"] for process in inspected("one.sqlite", "--step", "step", cwd=tmp_path)
    ]
    assert (device["ordinal"], device["uuid"], device["bus"]) == (0, "GPU-2", "0000:02:00.0")
    shown = perfgate("inspect", "one.sqlite", "--step", "step", cwd=tmp_path).stdout
    assert "GPU 0" in shown
    assert "GPU 2" not in shown


def test_gpus_that_their_processes_call_the_same_are_named_by_what_distinguishes_them(
    tmp_path: Path,
) -> None:
    write_export(
        tmp_path / "two.sqlite",
        *steps_on(0),
        *steps_on(0, process=PID + 1),
        gpu(0, 0),
        gpu(1, 1),
        seen(PID, 0, 0),
        seen(PID + 1, 0, 1),
    )
    processes = inspected("two.sqlite", "--step", "step", cwd=tmp_path)
    assert [[(d["ordinal"], d["uuid"]) for d in process["devices"]] for process in processes] == [
        [(None, "GPU-0")],
        [(None, "GPU-1")],
    ]


@pytest.mark.parametrize("closed", [True, False])
def test_matches_that_are_no_steps_are_counted(tmp_path: Path, *, closed: bool) -> None:
    """Pushes without pop: nsys ends them with the capture, or leaves their end out."""
    lost = [Range("step", at, 60_000 if closed else None) for at in range(0, 60_000, 1000)]
    write_export(
        tmp_path / "lost.sqlite", *lost, *(() if closed else (Range("step", 60_000, 61_000),))
    )
    (process,) = inspected("lost.sqlite", "--step", "step", cwd=tmp_path)
    assert process["steps"] == 1
    (found,) = [remark for remark in process["information"] if "not counted" in remark]
    assert f"({59 if closed else 60})" in found


def test_captures_without_steps_are_compared_as_whole_windows(tmp_path: Path) -> None:
    for name in ("a.sqlite", "b.sqlite"):
        write_export(tmp_path / name, *steps_on(0))
    assert perfgate("compare", "a.sqlite", "b.sqlite", cwd=tmp_path).returncode == 0
    refused = perfgate("compare", "a.sqlite", "b.sqlite", "--step", "epoch", cwd=tmp_path)
    assert refused.returncode not in (0, 1)
    assert "Perhaps you meant step" in refused.stderr
