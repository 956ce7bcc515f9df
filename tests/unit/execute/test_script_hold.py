"""What holds a script, with the torch that is installed: an interpreter, and the test as gate."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.runs import command, context_of

from perfgate.execute import import_log, script_hold
from perfgate.execute.run import ordered
from perfgate.execute.script_hold import DONE, FIFOS, HELD, READY, TURN
from perfgate.model.sample import Form

pytest.importorskip("torch", reason="no torch here: it is in the extra torch")

SCRIPT = """
import torch
(held,) = [call for call, _ in torch.cuda._queued_calls if call.__qualname__ == "ScriptHold.wait"]
held()  # as torch does where it has initialised CUDA
print("works", flush=True)
"""


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """The gate's own ends: what it hears and what it says."""
    (tmp_path / "imports").mkdir()
    shutil.copyfile(import_log.__file__, tmp_path / "imports" / "sitecustomize.py")
    shutil.copyfile(script_hold.__file__, tmp_path / "imports" / f"{script_hold.NAME}.py")
    own, other = (tmp_path / name for name in FIFOS)
    for fifo in (own, other):
        os.mkfifo(fifo)
    opened = os.open(other, os.O_RDWR), os.open(own, os.O_RDWR)
    yield opened
    for end in opened:
        os.close(end)


@contextmanager
def start(folder: Path, text: str = SCRIPT) -> Iterator[subprocess.Popen[str]]:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder / "imports")}
    with subprocess.Popen(
        [sys.executable, "-c", text],
        env={**env, import_log.HOLD: str(folder), import_log.FOLDER: str(folder / "imports")},
        stdout=subprocess.PIPE,
        text=True,
    ) as script:
        try:
            yield script
        finally:
            script.kill()


def test_torch_lets_it_wait_for_its_turn_and_for_the_others_ends(
    ends: tuple[int, int], tmp_path: Path
) -> None:
    hears, says = ends
    with start(tmp_path) as script:
        assert script.stdout is not None
        assert os.read(hears, 1) == READY
        assert (tmp_path / HELD).read_text() == str(script.pid)
        assert not select.select([script.stdout], [], [], 0.2)[0]
        os.write(says, TURN)
        assert script.stdout.readline() == "works\n"
        assert os.read(hears, 1) == DONE
        # What it did is logged before that: it is work too.
        assert list((tmp_path / "imports").glob(f"{script.pid}-*.json"))
        assert script.poll() is None
        os.write(says, DONE)
        assert script.wait(timeout=60) == 0


def test_a_torch_that_is_never_asked_for_cuda_changes_nothing(
    ends: tuple[int, int], tmp_path: Path
) -> None:
    with start(
        tmp_path, "import sys, os\nprint(sys.meta_path[0], flush=True)\nos._exit(3)"
    ) as script:
        assert "Hold" in script.communicate(timeout=60)[0]
    assert script.returncode == 3
    assert not (tmp_path / HELD).exists()


@pytest.mark.parametrize("form", [Form.ALONE, Form.EARLY])
def test_only_a_run_that_is_held_is_and_not_what_is_within_another(
    tmp_path: Path, form: Form
) -> None:
    context = context_of(tmp_path, {import_log.HOLD: "/of/a/gate/around/this/one"})
    run = tmp_path / "run"
    with ordered(context, command("python"), run, run_id="r", form=form) as one:
        held = str(run) if form is Form.EARLY else None
        assert one.spec.env.get(import_log.HOLD) == held
