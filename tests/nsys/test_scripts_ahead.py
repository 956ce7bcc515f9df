"""Scripts that are started together under a real nsys: held at their first use of CUDA and at their
end, by a torch that has no more of CUDA than its first use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from support.held import NOTING, processes_in, times_of
from support.processes import until
from support.project import Project
from support.runs import PERFGATE, command, context_of

from perfgate.execute import fresh
from perfgate.execute.ahead import RunFailed, Wanted, start_together
from perfgate.model.sample import Form
from perfgate.model.workload import CaptureMode
from perfgate.profilers.nsys.tool import NsysTool

pytestmark = pytest.mark.nsys

TORCH = {
    "__init__.py": """
        from torch import cuda
        class _C:
            def _cuda_synchronize():
                pass
        """,
    "cuda/__init__.py": """
        import threading
        lock, queued, used = threading.RLock(), [], []
        def _lazy_call(call):
            queued.append(call)
        def _lazy_init():
            with lock:
                if not used:
                    for call in queued:
                        call()
                    used.append(True)
        from torch.cuda import nvtx
        """,
    "cuda/nvtx.py": "",
}

TRAIN = (
    NOTING
    + """
import nvtx, torch
BEFORE
noted("imported")
torch.cuda._lazy_init()
noted("built")
noted("began")
for number in range(5):
    with nvtx.annotate(f"Batch {number}"):
        time.sleep(0.05)
noted("ended")
AFTER
"""
)
LAUNCH = (
    NOTING
    + """
import subprocess, sys
status = subprocess.run([sys.executable, Path(__file__).with_name("train.py")]).returncode
noted("left")
sys.exit(status)
"""
)
"""A launcher, which never uses CUDA, and outlives what does."""


def write(root: Path, *, before: str = "", after: str = "") -> None:
    """A project with the script, its launcher and torch."""
    text = TRAIN.replace("BEFORE", textwrap.dedent(before)).replace("AFTER", textwrap.dedent(after))
    files = {"scripts/train.py": text, "scripts/launch.py": LAUNCH, "pyproject.toml": ""}
    files |= {f"lib/torch/{name}": textwrap.dedent(body) for name, body in TORCH.items()}
    for name, body in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(body, encoding="utf-8")


def wanted(tool: NsysTool, root: Path, *, runs: int = 3, script: str = "train") -> list[Wanted]:
    """Runs of the script, or of its launcher."""
    paths = os.pathsep.join((str(root / "lib"), str(PERFGATE)))
    context = context_of(root, {**os.environ, "PYTHONPATH": paths}, tool=tool)
    update = {"steps": 5, "step": r"Batch \d+", "capture": CaptureMode.ALL, "timeout_s": 60.0}
    workload = command(sys.executable, f"scripts/{script}.py").model_copy(update=update)
    return [
        Wanted(context=context, workload=workload, folder=root / f"run-{number}")
        for number in range(runs)
    ]


def refused(runs: Sequence[Wanted]) -> str:
    """Why one of them was refused."""
    with pytest.raises(RunFailed) as failed:
        list(start_together(runs, Form.EARLY))
    return str(failed.value.error.fields["why"])


def test_scripts_use_cuda_one_after_another_and_end_together(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    write(tmp_path)
    made = list(start_together(wanted(nsys_tool, tmp_path, script="launch"), Form.EARLY))
    assert [one.run.form for one in made] == [Form.EARLY] * 3
    assert [process.steps for one in made for process in one.run.processes] == [5, 5, 5]
    times = times_of(tmp_path)
    launchers, scripts = times[:3], times[3:]
    assert len(scripts) == 3
    assert max(one["imported"] for one in scripts) < scripts[0]["built"]
    for before, after in pairwise(scripts):
        assert before["ended"] < after["built"]
    assert scripts[-1]["ended"] < min(one["left"] for one in launchers)
    assert not processes_in(tmp_path)
    assert not list(tmp_path.glob("run-*/gate")) + list(tmp_path.glob("run-*/imports"))


def test_a_thread_may_be_the_first_to_use_cuda_and_forked_children_hold_nobody(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    """As a loader's thread that pins memory, and its workers, which outlive the loop."""
    write(
        tmp_path,
        before="""
        import multiprocessing, threading
        fork = multiprocessing.get_context("fork")
        def child():
            torch.cuda._lazy_init()
            time.sleep(600)
        fork.Process(target=child, daemon=True).start()
        thread = threading.Thread(target=torch.cuda._lazy_init)
        thread.start()
        time.sleep(0.3)
        """,
        after="fork.Process(target=time.sleep, args=(600,), daemon=True).start()\nos._exit(0)",
    )
    made = list(start_together(wanted(nsys_tool, tmp_path, runs=2), Form.EARLY))
    assert len(made) == 2
    first, second = times_of(tmp_path)
    assert first["ended"] < second["built"]
    assert not processes_in(tmp_path)


UNHELD = {
    "never uses CUDA": "torch.cuda._lazy_init = lambda: None",
    "is one of several ranks": "os.environ['LOCAL_WORLD_SIZE'] = '2'",
    "another process of it was held": """
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "import torch; torch.cuda._lazy_init()"])
        """,
    "ends while a thread of it is held": """
        import threading
        threading.Thread(target=torch.cuda._lazy_init, daemon=True).start()
        torch.cuda._lazy_init = lambda: None
        """,
}


@pytest.mark.parametrize("before", UNHELD.values(), ids=UNHELD)
def test_a_script_whose_steps_were_not_held_is_refused(
    nsys_tool: NsysTool, tmp_path: Path, before: str
) -> None:
    write(tmp_path, before=before)
    assert "script-not-held" in refused(wanted(nsys_tool, tmp_path, runs=2))
    assert not processes_in(tmp_path)


YAML = """
command: [python, scripts/train.py]
step: "Batch \\\\d+"
steps: 5
capture: all
ahead: 3
"""
ON_A_GPU = """
from perfgate.execute import fresh
from perfgate.execute.plan import how_to_run
from perfgate.model.machine import Gpu, Machine

machine = Machine(gpus=(Gpu(name="NVIDIA H200", uuid="GPU-0"),))

def how(workload, _machine, known, *, asked):
    return how_to_run(workload, machine, known, asked=asked)
"""


@pytest.fixture
def script(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the script as a workload, on what is taken for a machine with a GPU."""
    write(project.root)
    project.write("workloads/train.yaml", YAML)
    monkeypatch.setenv("PYTHONPATH", str(project.root / "lib"), prepend=os.pathsep)
    names: dict[str, object] = {}
    exec(ON_A_GPU, names)
    monkeypatch.setattr(fresh, "how_to_run", names["how"])
    return project


@pytest.mark.parametrize(
    ("ahead", "uses", "form"),
    [(3, True, Form.EARLY), (3, False, Form.ALONE), (1, True, Form.ALONE)],
    ids=["held", "never uses CUDA", "one by one"],
)
def test_a_gate_makes_them_together_where_they_can_be_held(
    script: Project, real_nsys: Sequence[str], ahead: int, uses: bool, form: Form
) -> None:
    if not uses:
        write(script.root, before="torch.cuda._lazy_init = lambda: None")
    script.write("workloads/train.yaml", YAML.replace("ahead: 3", f"ahead: {ahead}"))
    seen = script.gate("--perfgate-new=allow", "--perfgate-runs=3")
    assert seen.status == 0
    assert ("ahead-failed" in seen.codes) is not uses
    assert {run.form for run in script.kept("train").runs} == {form}


WORKS = """
if sum("ended" in file.read_text() for file in AT.iterdir()) == 2:
    Path("works").touch()
    time.sleep(8)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_scripts_that_are_held_do_not_outlive_their_gate(
    script: Project, real_nsys: Sequence[str], number: signal.Signals
) -> None:
    """One waits at its end, one works, one has not had its turn."""
    write(script.root, after=WORKS)
    script.write("conftest.py", f"{ON_A_GPU}\nfresh.how_to_run = how\n")
    with script.start("--perfgate", stdout=subprocess.DEVNULL) as gate:
        until((script.root / "works").exists)
        scripts = [one for one in processes_in(script.root) if "scripts/train.py" in one.cmdline()]
        assert len(scripts) >= 3
        gate.send_signal(number)
    until(lambda: not processes_in(script.root), timeout_s=60)  # what measures ends by itself


def test_both_sides_of_a_pair_are_held(script: Project, real_nsys: Sequence[str]) -> None:
    script.write(".gitignore", "times/\n")
    script.patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    script.commit()
    seen = script.gate("--perfgate-against=HEAD")
    assert "ahead-failed" not in seen.codes
    kept = script.kept("train")
    assert {run.form for run in (*kept.runs, *kept.reference_runs)} == {Form.EARLY}
    assert len(kept.runs) == len(kept.reference_runs)
    assert not [file for file in kept.code if "imports" in file]
