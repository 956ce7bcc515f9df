"""A gate as a job: what becomes of its inputs, what it may publish, what a runner is left with."""

from __future__ import annotations

import json
import sys
from pathlib import Path, PurePath

import pytest
from support.actions import read_outputs

from perfgate.github import job, leftovers
from perfgate.github.context import base_branch
from perfgate.github.inputs import Inputs
from perfgate.github.job import Job, is_scrubbed
from perfgate.model.errors import ConfigInvalid, RepositoryUnreadable, StoreFailed
from perfgate.model.note import Note, Severity, noted
from perfgate.model.order import RUN_COOKIE
from perfgate.system import git


def a_job(root: Path, **env: str) -> Job:
    return Job(root=root, cwd=root, env=env, python=sys.executable)


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
    inputs = Inputs.from_env({f"PERFGATE_INPUT_{name}": text for name, text in given.items()})
    assert set(inputs.options) == {
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
    assert Inputs.from_env({}).options == ("--perfgate-label=perfgate",)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("WORKLOADS", "--perfgate-new=allow", "expects-node"),
        ("CAPTURES", "yes", "expects-boolean"),
        ("NAME", "a/b", "expects-name"),
        ("MACHINE", "NVIDIA H200", "expects-machine"),
        ("SHARD", "1 of 2", "expects-shard"),
        ("BASELINE_BRANCH", "-x", "expects-branch"),
    ],
)
def test_an_input_that_is_none_is_refused(name: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        Inputs.from_env({f"PERFGATE_INPUT_{name}": value})
    said = noted(refused.value).fields["expected"]
    assert isinstance(said, Note)
    assert said.code == expected


def test_a_gate_is_marked_and_keeps_its_environment() -> None:
    kept = {"PATH": "/bin", "GITHUB_RUN_ID": "7", "GITHUB_JOB": "gate", "RUNNER_NAME": "the r: 1"}
    gone = {"PERFGATE_INPUT_NAME": "a", "GITHUB_OUTPUT": "/output", "GITHUB_ENV": "/env"}
    made = a_job(Path("/project"), **kept, **gone)
    assert made.environment == kept | {"COLUMNS": "120", RUN_COOKIE: "github-7--gate-the-r--1-a"}
    inside = a_job(Path("/project"), **made.environment, **gone)
    assert inside.environment[RUN_COOKIE] == f"{made.mark}:{made.mark}"


@pytest.mark.parametrize(
    ("file", "may_leave"),
    [
        ("run-1/capture-0.sqlite", True),
        ("run-1/capture-0-reports/nvtx_sum.csv", True),
        ("reference-1/capture-12.sqlite", True),
        ("run-1/capture-0.nsys-rep", False),
        ("run-1/nsys/capture-0.sqlite", False),
        ("run-1/nsys/capture-0-reports/nvtx_sum.csv", False),
        ("run-1/workload.log", False),
        ("run-1/order.json", False),
        ("run-1/data.sqlite", False),
        ("run-1/notes.csv", False),
        ("result.json", False),
    ],
)
def test_only_scrubbed_exports_and_summaries_may_leave_the_machine(
    file: str, may_leave: bool
) -> None:
    assert is_scrubbed(PurePath(file)) is may_leave


@pytest.mark.parametrize("value", ["", "open", "two\nlines", "a=b<<c", "x\nother<<EOF\nshut\nEOF"])
def test_an_output_is_read_as_it_was_written(tmp_path: Path, value: str) -> None:
    made = a_job(tmp_path, GITHUB_OUTPUT=str(tmp_path / "output"))
    made.output(outcome=value, next="whole")
    assert read_outputs(tmp_path / "output") == {"outcome": value, "next": "whole"}


@pytest.mark.parametrize("which", [".perfgate", ".perfgate/github"])
def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path, which: str) -> None:
    root, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (elsewhere / "github").mkdir(parents=True)
    (elsewhere / "github" / "precious").touch()
    (root / which).parent.mkdir(parents=True)
    (root / which).symlink_to(elsewhere if which == ".perfgate" else elsewhere / "github")
    lines: list[str] = []
    output = tmp_path / "output"
    with pytest.raises(StoreFailed):
        job.run(a_job(root, GITHUB_OUTPUT=str(output)), lines.append)
    assert [line.startswith("::error title=perfgate::") for line in lines] == [True]
    assert read_outputs(output) == {"outcome": "none"}
    assert (elsewhere / "github" / "precious").exists()


@pytest.mark.parametrize(
    ("base", "event", "branch"),
    [
        ("release/1.0", {"repository": {"default_branch": "trunk"}}, "release/1.0"),
        ("", {"repository": {"default_branch": "trunk"}}, "trunk"),
        ("", {"repository": {"default_branch": "--upload-pack=touch x"}}, None),
        ("", {"repository": {"default_branch": ["trunk"]}}, None),
        *((name, {}, None) for name in ("a..b", "a@{1}", "a.lock", "main:refs/heads/main")),
        ("", {"repository": "octo/loops"}, None),
        ("", {}, None),
    ],
)
def test_the_branch_of_the_baselines_is_the_base_or_the_default_one(
    tmp_path: Path, base: str, event: dict[str, object], branch: str | None
) -> None:
    file = tmp_path / "event.json"
    file.write_text(json.dumps(event), encoding="utf-8")
    env = {"GITHUB_BASE_REF": base, "GITHUB_EVENT_PATH": str(file)}
    assert base_branch(env) == (branch, None)
    assert base_branch({}) == (None, None)


# What a runner is left with


@pytest.fixture
def at_rest(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine on which nothing of the gate runs, and a workspace that is clean."""
    monkeypatch.setattr(leftovers, "end_marked", lambda _mark: ())
    monkeypatch.setattr(leftovers, "processes_of", lambda _mark: [])
    monkeypatch.setattr(git, "changes", lambda _root, **_env: ())
    return monkeypatch


def cleaned(root: Path, *, before: bool = False) -> list[tuple[str, Severity]]:
    made = a_job(root, GITHUB_ACTIONS="true")
    return [(one.code, one.severity) for one in leftovers.clean(made, before=before)]


def test_processes_that_cannot_be_ended_are_an_error(
    tmp_path: Path, at_rest: pytest.MonkeyPatch
) -> None:
    assert cleaned(tmp_path) == [("runner-clean", Severity.INFO)]
    at_rest.setattr(leftovers, "processes_of", lambda _mark: [object(), object()])
    assert cleaned(tmp_path) == [("gate-processes-left", Severity.INVALID)]


@pytest.mark.usefixtures("at_rest")
def test_results_go_and_what_later_steps_read_stays(tmp_path: Path) -> None:
    for name in ("results/h200/mlp", "github", "locks"):
        (tmp_path / ".perfgate" / name).mkdir(parents=True)
    cleaned(tmp_path)
    assert sorted(path.name for path in (tmp_path / ".perfgate").iterdir()) == ["github", "locks"]
    cleaned(tmp_path, before=True)
    assert [path.name for path in (tmp_path / ".perfgate").iterdir()] == ["locks"]


@pytest.mark.usefixtures("at_rest")
def test_nothing_behind_a_link_is_removed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "precious").mkdir(parents=True)
    (tmp_path / ".perfgate").mkdir()
    (tmp_path / ".perfgate" / "results").symlink_to(tmp_path / "elsewhere")
    assert cleaned(tmp_path) == [("folder-not-removed", Severity.WARN)]
    assert (tmp_path / "elsewhere" / "precious").exists()


def test_a_workspace_that_is_not_clean_or_not_known_is_a_warning(
    tmp_path: Path, at_rest: pytest.MonkeyPatch
) -> None:
    at_rest.setattr(git, "changes", lambda _root, **_env: ("a.py", "b.py"))
    assert cleaned(tmp_path, before=True) == [("workspace-changed-before", Severity.WARN)]
    assert cleaned(tmp_path) == [("workspace-changed-after", Severity.WARN)]

    def refuse(_root: Path, **_env: object) -> tuple[str, ...]:
        raise RepositoryUnreadable("quoted", text="no repository")

    at_rest.setattr(git, "changes", refuse)
    assert cleaned(tmp_path) == [("workspace-unknown", Severity.WARN)]
