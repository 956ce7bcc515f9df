"""The composite action's steps, taken from its file and run as a runner runs them, on recorded
captures."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest
from support import replayed
from support.actions import (
    ACTION,
    Done,
    Machine,
    Yaml,
    condition,
    filled,
    inputs_of_action,
    load,
    packed,
)

from perfgate.machine import gpu_lock
from perfgate.model.order import RUN_COOKIE
from perfgate.system.ending import processes_of

pytestmark = pytest.mark.behaviour

STEPS = {step["name"]: step for step in load(ACTION)["runs"]["steps"]}

Runner = Callable[..., Machine]


def contexts(**given: str) -> dict[str, Any]:
    """The contexts of the action's expressions, with these inputs and the others' defaults."""
    return {"inputs": inputs_of_action(**given)}


def gated(runs_on: Machine, /, **inputs: str) -> Done:
    return runs_on.run(STEPS["Gate"], contexts(**inputs))


def published(machine: Machine, done: Done, state: str, **inputs: str) -> dict[str, list[str]]:
    """The artifacts that the action would publish, each with its files."""
    known = contexts(**inputs) | {"steps": {"gate": {"outputs": dict(done.outputs)}}}
    found = {}
    for step in STEPS.values():
        if "uses" not in step or not condition(step["if"], known, state=state):
            continue
        files = packed(filled(step["with"]["path"], known).splitlines(), machine.workspace)
        assert files or step["with"]["if-no-files-found"] == "ignore"
        found[filled(step["with"]["name"], known)] = sorted(files)
    return found


def alike(names: list[str]) -> list[str]:
    """Paths with the time of the result as TIME."""
    return [
        "/".join(
            "TIME" if len(part) == len("20260101T000000.000000Z-000000") else part
            for part in name.split("/")
        )
        for name in names
    ]


FOUR = ["junit.xml", "page.json", "perfgate.html", "perfgate.json"]
KEPT = ["nvidia-h200/mlp/TIME/result.json"]


def test_an_unchanged_workload_opens_the_gate(runner: Runner) -> None:
    machine = runner("unchanged")
    before = machine.run(STEPS["Look at the workspace"], contexts())
    assert (before.status, before.commands) == (0, [])
    done = gated(machine)
    assert (done.status, done.commands) == (0, []), done.log
    folder = machine.folder
    assert dict(done.outputs) == {
        "outcome": "open",
        "json": str(folder / "perfgate.json"),
        "page": str(folder / "perfgate.html"),
        "captures": "",
    }
    artifacts = published(machine, done, "success")
    assert {name: alike(files) for name, files in artifacts.items()} == {
        "perfgate": FOUR,
        "kept-perfgate": KEPT,
    }
    assert machine.summary_text.startswith("## perfgate: gate \u2705 open\n")
    assert "| `mlp` | \u2705 PASSED | 3.259 |" in machine.summary_text
    document, head = machine.document, machine.git("rev-parse", "HEAD")
    assert document.commit is not None
    assert (document.commit.sha, document.commit.dirty, document.label) == (head, False, "perfgate")
    (suite,) = ElementTree.parse(folder / "junit.xml").getroot()
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "1",
        "failures": "0",
        "errors": "0",
    }
    after = machine.run(STEPS["Leave the runner clean"], contexts())
    assert (after.status, after.commands) == (0, [])
    assert sorted(path.name for path in (machine.workspace / ".perfgate").iterdir()) == [
        ".gitignore",
        "github",
    ]


@pytest.fixture(scope="module")
def regressed(runner_in: Runner, tmp_path_factory: pytest.TempPathFactory) -> tuple[Machine, Done]:
    """A runner whose gate was shut by a planted regression, and was asked for captures."""
    machine = runner_in(tmp_path_factory.mktemp("regressed"), "regressed")
    return machine, gated(machine, captures="true")


def test_a_regression_shuts_the_gate_and_is_shown_at_the_workload(
    regressed: tuple[Machine, Done],
) -> None:
    machine, done = regressed
    assert (done.status, done.outputs["outcome"]) == (1, "shut"), done.log
    (shown,) = done.commands
    assert shown.startswith(
        "::error file=workloads/small_loops.py,line=4,title=mlp%3A REGRESSED::"
    ), shown
    assert "d2h_copies 0 to 1" in shown.splitlines()[0]
    assert machine.summary_text.startswith("## perfgate: gate \u274c shut\n")
    assert "| `mlp` | \u274c REGRESSED |" in machine.summary_text
    artifacts = published(machine, done, "failure")
    exports = [f"nvidia-h200/mlp/TIME/run-{number}/capture-0.sqlite" for number in (1, 2)]
    reports = [
        f"nvidia-h200/mlp/TIME/run-{number}/capture-0-reports/{name}.csv"
        for number in (1, 2)
        for name in (
            "cuda_gpu_kern_sum",
            "cuda_gpu_mem_time_sum",
            "nvtx_sum",
        )
    ]
    assert alike(artifacts["captures-perfgate"]) == sorted([*exports, *reports])
    assert alike(artifacts["kept-perfgate"]) == KEPT


def test_no_published_file_holds_the_jobs_environment(regressed: tuple[Machine, Done]) -> None:
    machine, done = regressed
    held = [file for file in (machine.workspace / ".perfgate").rglob("*") if file.is_file()]
    secret = replayed.SECRET.encode()
    assert any(secret in file.read_bytes() for file in held), "what must not be published was there"
    captures = packed(done.outputs["captures"].splitlines(), machine.workspace)
    gate = packed([".perfgate/github", ".perfgate/results/**/result.json"], machine.workspace)
    files = captures | gate
    assert [name for name, content in files.items() if secret in content] == []
    suffixes = {name.rpartition(".")[2] for name in files}
    assert suffixes == {"json", "html", "xml", "sqlite", "csv"}


def test_a_project_in_a_subfolder_is_annotated_from_the_repositorys_top(runner: Runner) -> None:
    machine = runner("regressed")
    service = machine.workspace / "services" / "train"
    service.mkdir(parents=True)
    for name in ("pyproject.toml", "workloads", "baselines"):
        (machine.workspace / name).rename(service / name)
    done = gated(machine, working_directory="services/train")
    assert done.commands[0].startswith(
        "::error file=services/train/workloads/small_loops.py,line=4,"
    ), done.log
    assert done.outputs["json"] == str(service / ".perfgate" / "github" / "perfgate.json")
    assert done.outputs["captures"] == "", "nobody asked for them"


def test_a_branch_that_cannot_be_found_shuts_the_gate(runner: Runner) -> None:
    machine = runner("unchanged")
    done = gated(machine, baseline_branch="gone")
    assert (done.status, done.outputs["outcome"]) == (1, "shut")
    assert "origin/gone" in done.log


def test_files_of_an_earlier_gate_are_never_taken_for_this_ones(runner: Runner) -> None:
    machine = runner("unchanged")
    assert gated(machine).status == 0
    machine.summary.unlink()
    done = gated(machine, shard="3/2")
    assert (done.status, dict(done.outputs)) == (4, {"outcome": "none"}), done.log
    assert [one.startswith("::error title=perfgate::") for one in done.commands] == [True]
    assert published(machine, done, "failure") == {}
    assert machine.summary_text.startswith("\n## perfgate: no verdict\n")


def test_a_gate_that_was_killed_has_left_no_verdict(runner: Runner) -> None:
    machine = runner("unchanged")
    machine.write("workloads/conftest.py", "import os\nos.kill(os.getpid(), 9)\n")
    done = gated(machine)
    assert (done.status, done.outputs["outcome"]) == (137, "none"), done.log
    (shown,) = done.commands
    assert shown.startswith("::error title=perfgate::")


def test_a_pytest_that_exits_well_behind_a_shut_gate_does_not_open_it(runner: Runner) -> None:
    machine = runner("regressed")
    machine.write("workloads/conftest.py", "import os\ndef pytest_unconfigure(): os._exit(0)\n")
    done = gated(machine)
    assert (done.status, done.outputs["outcome"]) == (1, "shut"), done.log


def test_a_pytest_that_fails_behind_open_verdicts_shuts_the_gate(runner: Runner) -> None:
    machine = runner("unchanged")
    machine.write("workloads/conftest.py", "import os\ndef pytest_unconfigure(): os._exit(7)\n")
    done = gated(machine)
    assert (done.status, done.outputs["outcome"]) == (7, "shut"), done.log
    assert [one.startswith("::error title=perfgate::") for one in done.commands] == [True]


@pytest.mark.parametrize(
    ("inputs", "status"), [({"runs": "many"}, 4), ({"workloads": "--perfgate-new=allow"}, 10)]
)
def test_an_input_that_is_none_is_refused_before_anything_is_measured(
    runner: Runner, inputs: dict[str, str], status: int
) -> None:
    done = gated(runner("unchanged"), **inputs)
    assert (done.status, dict(done.outputs)) == (status, {"outcome": "none"}), done.log
    (shown,) = done.commands
    assert shown.startswith("::error title=perfgate::")
    assert next(iter(inputs.values())) in done.log


@pytest.mark.parametrize(
    ("machine", "opens"), [("nvidia-h200", True), ("nvidia-a100", False), ("no-gpu", False)]
)
def test_a_gate_is_open_only_on_the_machine_that_is_meant(
    runner: Runner, machine: str, opens: bool
) -> None:
    done = gated(runner("unchanged"), machine=machine)
    assert (done.status == 0, done.outputs["outcome"] == "open") == (opens, opens), done.log


def test_inputs_are_no_part_of_any_command(runner: Runner) -> None:
    machine = runner("unchanged")
    touched = machine.workspace / "touched"
    done = gated(
        machine, workloads=f"workloads/small_loops.py::mlp; touch {touched}\n$(touch {touched})"
    )
    assert (done.status, done.outputs["outcome"]) == (4, "shut")
    assert not touched.exists()


def test_what_a_workload_prints_is_no_command_to_the_runner(runner: Runner) -> None:
    machine = runner("unchanged")
    machine.write(
        "workloads/conftest.py", "import sys\nprint('::error::not ours', file=sys.__stderr__)\n"
    )
    done = gated(machine)
    assert "\n::error::not ours\n" in done.log
    assert done.commands == []


def test_a_workload_does_not_see_the_files_that_speak_to_the_runner(runner: Runner) -> None:
    machine = runner("unchanged", GITHUB_ENV="/nowhere/env", GITHUB_PATH="/nowhere/path")
    machine.write(
        "workloads/conftest.py", "import os\nopen('seen', 'w').write(' '.join(os.environ))\n"
    )
    assert gated(machine).status == 0
    seen = (machine.workspace / "seen").read_text("utf-8").split()
    speaking = {"GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"}
    assert [name for name in seen if name in speaking or name.startswith("PERFGATE_INPUT_")] == []
    assert {RUN_COOKIE, "GITHUB_RUN_ID"} <= set(seen)


# Cancelled

SHUT = "error title=perfgate%3A gate shut"


def marked(machine: Machine) -> str:
    return f"github-{machine.env['GITHUB_RUN_ID']}-1-gate-gpu-1-perfgate"


def the_gpu_is_free(folder: Path) -> None:
    with gpu_lock(
        replayed.MANIFEST_READ.machine.gpus,
        workload="mlp",
        timeout_s=0.1,
        on_wait=lambda waits: pytest.fail(waits.code),
        folder=folder / "perfgate-locks",
    ):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancelled_gate_ends_all_that_it_started_and_frees_the_gpu(
    runner: Runner, number: signal.Signals, tmp_path: Path
) -> None:
    machine = runner("hang")
    began = machine.workspace / replayed.HANGING
    seen: list[psutil.Process] = []

    def hanging() -> bool:
        hangs = began.exists()
        seen.extend(processes_of(marked(machine)) if hangs else ())
        return hangs

    done = machine.run(STEPS["Gate"], contexts(), interrupt=hanging, number=number)
    assert len(seen) >= 3, "pytest, the workload, and what it started"
    assert processes_of(marked(machine)) == []
    assert done.ending_s < 30
    assert (done.status, done.outputs["outcome"]) == (2, "shut"), done.log
    assert [one.split("::")[1] for one in done.commands] == [SHUT, SHUT]
    assert machine.document.shut_codes == ("pytest-interrupted", "expected-not-measured")
    assert "gate \u274c shut" in machine.summary_text
    the_gpu_is_free(tmp_path)
    artifacts = published(machine, done, "cancelled")
    assert artifacts["perfgate"] == FOUR


@pytest.mark.nsys
def test_a_cancelled_gate_leaves_nothing_of_nsys_behind(
    runner: Runner, real_nsys: Sequence[str]
) -> None:
    assert real_nsys
    machine = runner(
        "nothing", PYTEST_ADDOPTS="", PERFGATE_NSYS=os.environ.get("PERFGATE_NSYS", "")
    )
    machine.write("workloads/small_loops.py", SLEEPER)
    began = machine.workspace / "began"
    seen: list[str] = []

    def sleeping() -> bool:
        sleeps = began.exists()
        for process in processes_of(marked(machine)) if sleeps else ():
            with contextlib.suppress(psutil.Error):  # one that ends meanwhile
                seen.append(" ".join(process.cmdline()))
        return sleeps

    done = machine.run(STEPS["Gate"], contexts(), interrupt=sleeping, CUDA_VISIBLE_DEVICES="")
    assert any("--start-agent" in line for line in seen), seen
    assert processes_of(marked(machine)) == []
    assert (done.status, done.outputs["outcome"]) == (2, "shut"), done.log
    assert done.commands[-1].split("::")[1] == SHUT
    assert machine.document.shut_codes[-1] == "gpus-lost"


SLEEPER = """\
import time
from perfgate import workload


@workload(steps=4, warmup=1)
def mlp(steps):
    for _ in steps:
        open("began", "w").close()
        time.sleep(300)
"""


def test_what_a_killed_gate_has_left_is_ended_by_the_last_step(
    runner: Runner, tmp_path: Path
) -> None:
    machine = runner("hang")
    began = machine.workspace / replayed.HANGING
    done = machine.run(STEPS["Gate"], contexts(), interrupt=began.exists, number=signal.SIGKILL)
    assert (done.status, dict(done.outputs)) == (-9, {"outcome": "none"})
    assert len(processes_of(marked(machine))) >= 3
    known = contexts() | {"steps": {"gate": {"outputs": {}}}}
    assert published(machine, done, "cancelled") == {}
    assert condition(STEPS["Leave the runner clean"]["if"], known, state="cancelled")
    cleaned = machine.run(STEPS["Leave the runner clean"], known)
    assert cleaned.status == 0, cleaned.log
    assert "python" in cleaned.log
    assert processes_of(marked(machine)) == []
    the_gpu_is_free(tmp_path)


def test_the_name_of_a_process_is_no_command_to_the_runner(runner: Runner, tmp_path: Path) -> None:
    machine = runner("unchanged")
    program = tmp_path / "a\n::error::b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "300"], env={RUN_COOKIE: marked(machine)}) as left:
        try:
            done = machine.run(STEPS["Leave the runner clean"], contexts())
            assert left.wait(timeout=10) == -signal.SIGTERM
        finally:
            left.kill()
    assert (done.status, done.commands) == (0, [])
    assert "a\\n::error::b" in done.log


# Before and after


def test_a_workspace_that_is_not_clean_is_shown_before_and_after(runner: Runner) -> None:
    machine = runner("unchanged")
    machine.write("engine.egg-info/top_level.txt", "")
    machine.write("pyproject.toml", CHANGED)
    for step in ("Look at the workspace", "Leave the runner clean"):
        done = machine.run(STEPS[step], contexts())
        (shown,) = done.commands
        assert (done.status, shown.startswith("::warning title=perfgate::")) == (0, True)
        assert "pyproject.toml" in shown
        assert "engine.egg-info/" in shown


CHANGED = '[project]\nname = "engine"\nversion = "2"\n'


def test_checkouts_that_a_killed_gate_has_left_are_removed(runner: Runner) -> None:
    machine = runner("unchanged")
    left = machine.workspace / ".perfgate" / "worktrees" / f"{'a' * 12}-00000000"
    left.mkdir(parents=True)
    (left / ".underway").touch()
    (machine.workspace / ".perfgate" / ".gitignore").write_text("*\n", encoding="utf-8")
    machine.git("worktree", "add", "--detach", str(left / "checkout"))
    done = machine.run(STEPS["Look at the workspace"], contexts())
    assert done.status == 0
    assert left.name in done.log
    assert len(machine.git("worktree", "list").splitlines()) == 1


def test_at_a_desk_nothing_is_deleted(runner: Runner) -> None:
    machine = runner("unchanged", GITHUB_ACTIONS="")
    assert gated(machine).status == 0
    done = machine.run(STEPS["Leave the runner clean"], contexts())
    assert done.status == 10
    assert (machine.workspace / ".perfgate" / "results").is_dir()


# The file


def test_every_input_reaches_the_gate() -> None:
    gate: Yaml = STEPS["Gate"]
    taken = {value.strip("${} ").removeprefix("inputs.") for value in gate["env"].values()}
    elsewhere = {"working-directory", "retention-days"}
    assert taken | elsewhere == set(load(ACTION)["inputs"])
    names = {f"PERFGATE_INPUT_{name.upper().replace('-', '_')}" for name in taken - {"python"}}
    assert set(gate["env"]) == names | {"PERFGATE_PYTHON"}


def test_the_signal_of_a_cancellation_reaches_perfgate_itself() -> None:
    runs = [step["run"] for step in STEPS.values() if "run" in step]
    assert runs
    assert [
        run for run in runs if not run.startswith('exec "$PERFGATE_PYTHON" -P -m perfgate ')
    ] == []
