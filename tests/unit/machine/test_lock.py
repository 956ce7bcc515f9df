"""Gates take turns: two real processes on one lock."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from perfgate.machine import gpu_lock, machine_folder
from perfgate.model.errors import GpuTaken, StoreFailed
from perfgate.model.machine import Gpu

A = Gpu(name="NVIDIA H200", uuid="GPU-a")
B = Gpu(name="NVIDIA H200", uuid="GPU-b")

HOLD = """
import json, sys, time
from pathlib import Path
from perfgate.machine import gpu_lock
from perfgate.model.machine import Gpu
gpus = [Gpu(name="NVIDIA H200", uuid=uuid) for uuid in json.loads(sys.argv[2])]
asked = {"workload": "resnet18[pinned]", "folder": Path(sys.argv[1])}
with gpu_lock(gpus, timeout_s=10, on_wait=lambda waited: None, **asked):
    print("held", flush=True)
    sys.stdin.readline()
print("free", flush=True)
"""


@contextmanager
def held_elsewhere(folder: Path, uuids: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), json.dumps(uuids)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def free(gpus: Sequence[Gpu], folder: Path) -> bool:
    """Whether they can be had at once."""
    try:
        with gpu_lock(gpus, workload="mlp", timeout_s=0, on_wait=print, folder=folder):
            return True
    except GpuTaken:
        return False


def test_a_killed_gate_holds_nothing(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path, ["GPU-a"]) as holder:
        assert not free([A], tmp_path)
        holder.send_signal(signal.SIGKILL)
        holder.wait(timeout=20)
        assert free([A], tmp_path)


def test_another_gpu_is_free_and_one_of_two_is_not_enough(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path, ["GPU-b"]):
        assert free([A], tmp_path)
        assert not free([B, A], tmp_path)
        assert free([A], tmp_path), "a gate that gave up still holds what it had"


def test_a_child_of_the_gate_does_not_keep_the_lock(tmp_path: Path) -> None:
    with gpu_lock([A], workload="mlp", timeout_s=0, on_wait=print, folder=tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert free([A], tmp_path)
    finally:
        child.kill()
        child.wait()


def test_folder_and_file_are_open_to_all_users_whatever_the_umask(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    before = os.umask(0o077)
    try:
        assert free([Gpu(name="old", uuid="MIG-GPU-1/2/0")], folder)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    assert stat.S_IMODE((folder / "MIG-GPU-1_2_0.lock").stat().st_mode) == 0o666


NOBODY = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
@pytest.mark.parametrize("mode", [0o666, 0o644])
def test_a_file_of_another_user_is_locked_all_the_same(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "locks"
    assert free([A], folder)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.owner() == "root" and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    (folder / "GPU-a.lock").chmod(mode)
    program = (
        "import os, sys; from pathlib import Path; from perfgate.machine.lock import gpu_lock\n"
        "from perfgate.model.machine import Gpu\n"
        "gpus = [Gpu(name='x', uuid='GPU-a')]  # what it imports, only root may read here\n"
        f"os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "asked = {'workload': 'mlp', 'folder': Path(sys.argv[1])}\n"
        "with gpu_lock(gpus, timeout_s=0, on_wait=print, **asked):\n"
        "    print('held')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("held\n", "")


def test_gates_that_share_no_tmp_are_given_a_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PERFGATE_LOCKS", str(tmp_path / "mounted"))
    assert machine_folder() == tmp_path / "mounted" / "perfgate-locks"
    monkeypatch.setenv("PERFGATE_LOCKS", "mounted")
    with pytest.raises(StoreFailed, match="PERFGATE_LOCKS=mounted"):
        machine_folder()
