"""The variables that the processes of a run get."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import records
from support.runs import command, context_of

from perfgate.execute.command import given_environment
from perfgate.execute.run import ordered
from perfgate.execute.worktree import Worktree
from perfgate.model.order import RUN_COOKIE, Ending, Order, WorkerReport
from perfgate.model.settings import Settings
from perfgate.model.workload import Workload


@pytest.mark.parametrize(
    ("workload", "path"),
    [
        (command("python", "train.py"), "/venv/bin:/usr/bin"),
        (command("python", "train.py").model_copy(update={"env": {"PATH": "/mine"}}), "/mine"),
        (records.workload(), "/usr/bin"),
    ],
    ids=["command", "command with a PATH of its own", "function"],
)
def test_a_command_finds_the_programs_of_the_gates_environment(
    tmp_path: Path, workload: Workload, path: str
) -> None:
    context = context_of(tmp_path, {"PATH": "/usr/bin"}, python="/venv/bin/python")
    with ordered(context, workload, tmp_path / "run", run_id="r") as one:
        assert one.spec.env["PATH"] == path


def test_programs_of_a_checkouts_own_interpreter_come_first(tmp_path: Path) -> None:
    tree = Worktree(
        top=tmp_path, root=tmp_path, commit="1" * 40, origin=tmp_path, origin_top=tmp_path
    )
    context = context_of(tmp_path, {"PATH": "/usr/bin"}, python="/there/bin/python")
    settings = Settings(ab_python="bin/python")
    context = replace(context, tree=tree, settings=settings)
    given = given_environment(context, records.workload(), tmp_path / "imports")
    assert given["PATH"] == "/there/bin:/usr/bin"


def test_what_looks_like_a_secret_is_passed_on_where_it_is_named_or_set_by_the_workload_itself(
    tmp_path: Path,
) -> None:
    context = context_of(
        tmp_path, {"PATH": "/usr/bin", "A_TOKEN": "one", "B_TOKEN": "two", "C_TOKEN": "three"}
    )
    workload = command("python").model_copy(
        update={"env": {"B_TOKEN": "four"}, "pass_env": ("C_TOKEN",)}
    )
    with ordered(context, workload, tmp_path / "run", run_id="r") as one:
        assert {name: one.spec.env.get(name) for name in ("A_TOKEN", "B_TOKEN", "C_TOKEN")} == {
            "A_TOKEN": None,
            "B_TOKEN": "four",
            "C_TOKEN": "three",
        }
        assert one.spec.withheld == ("A_TOKEN",)


@pytest.mark.parametrize("folder", [None, "examples"])
def test_pwd_is_the_folder_that_it_runs_in(tmp_path: Path, folder: str | None) -> None:
    """In an A/B run the caller's would be the project instead of the checkout, and both sides read
    one file.
    """
    context = context_of(tmp_path, {"PATH": "/usr/bin", "PWD": "/elsewhere"})
    with ordered(context, command("python", cwd=folder), tmp_path / "run", run_id="r") as one:
        assert one.spec.env["PWD"] == str(one.spec.cwd) == str(tmp_path / (folder or ""))


@pytest.mark.parametrize("given", [None, "/lib"])
@pytest.mark.parametrize(
    "workload", [command("python"), records.workload()], ids=["command", "function"]
)
def test_what_runs_in_the_project_logs_what_it_loads(
    tmp_path: Path, workload: Workload, given: str | None
) -> None:
    context = context_of(tmp_path, {} if given is None else {"PYTHONPATH": given})
    imports = tmp_path / "run" / "imports"
    with ordered(context, workload, tmp_path / "run", run_id="r") as one:
        assert one.spec.env["PYTHONPATH"] == f"{imports}:/lib" if given else str(imports)
        assert one.spec.env["PERFGATE_IMPORT_LOG"] == str(imports)
        is_command = workload.form == "command"
        assert ("PERFGATE_IMPORT_LOG_SIGTERM" in one.spec.env) == is_command
        assert (imports / "sitecustomize.py").is_file()
    assert not imports.exists()


def test_a_run_bears_the_mark_of_its_gate_as_well(tmp_path: Path) -> None:
    context = context_of(tmp_path, {RUN_COOKIE: "of-a-job"})
    with ordered(context, records.workload(), tmp_path / "run", run_id="r") as one:
        assert one.spec.env[RUN_COOKIE] == "of-a-job:r"


@pytest.mark.parametrize(
    "text", [None, "", '{"ending": "finis', '{"ending": "finished"}', "[]", "\udcff"]
)
def test_a_workers_report_that_is_none_or_half_is_none(tmp_path: Path, text: str | None) -> None:
    context = context_of(tmp_path)
    with ordered(context, records.workload(), tmp_path / "run", run_id="r") as one:
        order = Order.model_validate_json((one.folder / "order.json").read_text())
        assert (order.workload, order.steps, order.warmup) == ("mlp", 30, 10)
        file = Path(order.worker_report)
        if text is not None:
            file.write_bytes(text.encode(errors="surrogateescape"))
        assert one.worker_report is None
        file.write_text('{"ending": "wrong steps", "pid": 3}', encoding="utf-8")
        assert one.worker_report == WorkerReport(ending=Ending.WRONG_STEPS, pid=3)
