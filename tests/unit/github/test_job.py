"""A gate as a job: what becomes of its inputs, what it may publish, what a runner is left with."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.actions import read_outputs

from perfgate.github import job
from perfgate.github.job import Job, inputs_of, options_of
from perfgate.model.errors import RepositoryUnreadable, StoreFailed
from perfgate.model.note import Severity
from perfgate.model.order import RUN_COOKIE
from perfgate.system import git


def a_job(root: Path, **env: str) -> Job:
    return Job(root=root, env=env)


def test_every_input_becomes_its_own_option() -> None:
    given = {
        "AGAINST": "HEAD~1 --perfgate-new=allow",
        "BUDGETS": "step_ms=0.03\nkernel_ms=0.02",
        "INCONCLUSIVE": "fail",
        "MAX_RUNS": "9",
        "NAME": "perfgate-h200-1",
        "NEW": "allow",
        "NSYS": "/opt/nsys with a space",
        "RUNS": " 5 ",
        "SHARD": "1/2",
        "TIME_BUDGET": "600",
        "WORKLOADS": "workloads/a.py::mlp[4-64]\n\n  workloads/b c.yaml  \n",
    }
    env = {f"PERFGATE_INPUT_{name}": text for name, text in given.items()}
    assert set(options_of(inputs_of(env))) == {
        "--perfgate-runs=5",
        "--perfgate-max-runs=9",
        "--perfgate-time-budget=600",
        "--perfgate-inconclusive=fail",
        "--perfgate-new=allow",
        "--perfgate-against=HEAD~1 --perfgate-new=allow",
        "--perfgate-shard=1/2",
        "--perfgate-nsys=/opt/nsys with a space",
        "--perfgate-label=perfgate-h200-1",
        "--perfgate-budget=step_ms=0.03",
        "--perfgate-budget=kernel_ms=0.02",
        "workloads/a.py::mlp[4-64]",
        "workloads/b c.yaml",
    }
    assert options_of(inputs_of({})) == ["--perfgate-label=perfgate"]


def test_a_gate_is_marked_and_keeps_its_environment() -> None:
    kept = {"PATH": "/bin", "GITHUB_RUN_ID": "7", "GITHUB_JOB": "gate", "RUNNER_NAME": "the r: 1"}
    gone = {"PERFGATE_INPUT_NAME": "a", "GITHUB_OUTPUT": "/output", "GITHUB_ENV": "/env"}
    made = a_job(Path("/project"), **kept, **gone)
    assert made.environment == kept | {"COLUMNS": "120", RUN_COOKIE: "github-7--gate-the-r--1-a"}
    inside = a_job(Path("/project"), **made.environment, **gone)
    assert inside.environment[RUN_COOKIE] == f"{made.mark}:{made.mark}"


# What a runner is left with


@pytest.fixture
def at_rest(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine on which nothing of the gate runs, and a workspace that is clean."""
    monkeypatch.setattr(job, "end_marked", lambda _mark: ())
    monkeypatch.setattr(job, "processes_of", lambda _mark: [])
    monkeypatch.setattr(git, "changes", lambda _root, **_env: ())
    return monkeypatch


def cleaned(root: Path, *, before: bool = False) -> list[tuple[str, Severity]]:
    made = a_job(root, GITHUB_ACTIONS="true")
    return [(one.code, one.severity) for one in job.clean(made, before=before)]


def test_processes_that_cannot_be_ended_are_an_error(
    tmp_path: Path, at_rest: pytest.MonkeyPatch
) -> None:
    assert cleaned(tmp_path) == [("runner-clean", Severity.INFO)]
    at_rest.setattr(job, "processes_of", lambda _mark: [object(), object()])
    assert cleaned(tmp_path) == [("gate-processes-left", Severity.INVALID)]


def test_an_output_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = a_job(tmp_path, GITHUB_OUTPUT=str(tmp_path / "output"))
    made.output(outcome="none")
    made.output(outcome="x\nother<<EOF\nshut\nEOF", next="")
    outputs = {"outcome": "x\nother<<EOF\nshut\nEOF", "next": ""}
    assert read_outputs(tmp_path / "output") == outputs


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    (root / ".perfgate").mkdir(parents=True)
    (root / ".perfgate" / "github").symlink_to(elsewhere)
    lines: list[str] = []
    with pytest.raises(StoreFailed):
        job.run(a_job(root), lines.append)
    assert [line.startswith("::error title=perfgate::") for line in lines] == [True]
    assert (elsewhere / "precious").exists()


@pytest.mark.usefixtures("at_rest")
def test_results_go_and_what_later_steps_read_stays(tmp_path: Path) -> None:
    for name in ("results/h200/mlp", "github", "locks"):
        (tmp_path / ".perfgate" / name).mkdir(parents=True)
    cleaned(tmp_path)
    assert sorted(path.name for path in (tmp_path / ".perfgate").iterdir()) == ["github", "locks"]
    cleaned(tmp_path, before=True)
    assert [path.name for path in (tmp_path / ".perfgate").iterdir()] == ["locks"]


def test_a_workspace_that_is_not_clean_or_not_known_is_a_warning(
    tmp_path: Path, at_rest: pytest.MonkeyPatch
) -> None:
    at_rest.setattr(git, "changes", lambda _root, **_env: ("a.py", "b.py"))
    assert cleaned(tmp_path) == [("workspace-changed", Severity.WARN)]

    def refuse(_root: Path, **_env: object) -> tuple[str, ...]:
        raise RepositoryUnreadable("quoted", text="no repository")

    at_rest.setattr(git, "changes", refuse)
    assert cleaned(tmp_path) == [("workspace-unknown", Severity.WARN)]
