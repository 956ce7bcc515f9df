"""A gate as a job: what becomes of its inputs, what it may publish, and what it tells the runner."""

from __future__ import annotations

import json
import sys
from pathlib import Path, PurePath

import pytest
from support.actions import read_outputs

from perfgate.github import job
from perfgate.github.job import Files, Inputs, Job, gate_environment, gate_options, is_scrubbed
from perfgate.model.errors import RepositoryUnreadable, StoreFailed
from perfgate.model.order import RUN_COOKIE
from perfgate.system import git

FILES = Files(folder=Path("/project/.perfgate/github"))


def a_job(root: Path, **env: str) -> Job:
    return Job(root=root, cwd=root, env=env, python=sys.executable)


def test_without_inputs_a_gate_has_the_options_of_its_files() -> None:
    assert gate_options(Inputs.from_env({}), FILES, summary=Path("/runner/summary")) == (
        "--perfgate-label=perfgate",
        "--perfgate-json=/project/.perfgate/github/perfgate.json",
        "--perfgate-page-data=/project/.perfgate/github/page.json",
        "--perfgate-html=/project/.perfgate/github/perfgate.html",
        "--perfgate-markdown=/runner/summary",
        "--junit-xml=/project/.perfgate/github/junit.xml",
    )


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
    options = gate_options(inputs, FILES, summary=None)
    assert [option for option in options if "/project/" not in option] == [
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
    ]


def test_a_gate_is_marked_and_keeps_its_environment() -> None:
    env = {
        "PATH": "/bin",
        "GITHUB_RUN_ID": "7",
        "GITHUB_RUN_ATTEMPT": "2",
        "GITHUB_JOB": "gate",
        "RUNNER_NAME": "the runner: 1",
        "PERFGATE_INPUT_NAME": "perfgate-a",
        "GITHUB_OUTPUT": "/runner/output",
        "GITHUB_ENV": "/runner/env",
    }
    gate = gate_environment(a_job(Path("/project"), **env))
    assert gate == {
        "COLUMNS": "120",
        "PATH": "/bin",
        "GITHUB_RUN_ID": "7",
        "GITHUB_RUN_ATTEMPT": "2",
        "GITHUB_JOB": "gate",
        "RUNNER_NAME": "the runner: 1",
        RUN_COOKIE: "github-7-2-gate-the-runner--1-perfgate-a",
    }
    assert (
        gate_environment(a_job(Path("/project"), **env, **{RUN_COOKIE: "outer"}))[RUN_COOKIE]
        == f"outer:{gate[RUN_COOKIE]}"
    )


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
        ("run-1/account.json", False),
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
    file = tmp_path / "output"
    file.write_text(
        job.output_text("outcome", value) + job.output_text("next", "whole"), encoding="utf-8"
    )
    assert read_outputs(file) == {"outcome": value, "next": "whole"}


@pytest.mark.parametrize("which", [".perfgate", ".perfgate/github"])
def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path, which: str) -> None:
    root, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (elsewhere / "github").mkdir(parents=True)
    (elsewhere / "github" / "precious").touch()
    (root / which).parent.mkdir(parents=True)
    (root / which).symlink_to(elsewhere if which == ".perfgate" else elsewhere / "github")
    said: list[str] = []
    output = tmp_path / "output"
    with pytest.raises(StoreFailed) as refused:
        job.run(a_job(root, GITHUB_OUTPUT=str(output)), said.append)
    told = (
        f"{root / which}: it is a link. perfgate's own folder is emptied, and what is behind a link would be lost.\n"
        "Delete the link."
    )
    assert str(refused.value) == told
    assert said == [f"::error title=perfgate::{told}".replace("\n", "%0A")]
    assert read_outputs(output) == {"outcome": "none"}
    assert (elsewhere / "github" / "precious").exists()


# The branch of the baselines


@pytest.mark.parametrize(
    ("base", "event", "branch"),
    [
        ("release/1.0", {"repository": {"default_branch": "trunk"}}, "release/1.0"),
        ("", {"repository": {"default_branch": "trunk"}}, "trunk"),
        ("", {"repository": {"default_branch": "--upload-pack=touch x"}}, None),
        ("", {"repository": {"default_branch": ["trunk"]}}, None),
        ("a..b", {}, None),
        ("a@{1}", {}, None),
        ("a.lock", {}, None),
        ("", {"repository": "octo/loops"}, None),
        ("", {}, None),
        ("main:refs/heads/main", {}, None),
    ],
)
def test_the_branch_of_the_baselines_is_the_base_or_the_default_one(
    tmp_path: Path, base: str, event: dict[str, object], branch: str | None
) -> None:
    file = tmp_path / "event.json"
    file.write_text(json.dumps(event), encoding="utf-8")
    assert job._base_branch({"GITHUB_BASE_REF": base, "GITHUB_EVENT_PATH": str(file)}) == (
        branch,
        None,
    )


def test_without_an_event_there_is_no_default_branch_to_know() -> None:
    assert job._base_branch({}) == (None, None)


# What a runner is left with


@pytest.fixture
def at_rest(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine on which nothing of the gate runs, and a workspace that is clean."""
    monkeypatch.setattr(job, "end_marked", lambda _mark: ())
    monkeypatch.setattr(job, "processes_of", lambda _mark: [])
    monkeypatch.setattr(git, "changes", lambda _root, **_env: ())
    return monkeypatch


def test_processes_that_cannot_be_ended_are_an_error(
    tmp_path: Path, at_rest: pytest.MonkeyPatch
) -> None:
    at_rest.setattr(job, "processes_of", lambda _mark: [object(), object()])
    assert job.clean(a_job(tmp_path, GITHUB_ACTIONS="true"), before=False) == job.Cleaned(
        told=(), errors=("2 processes of this gate cannot be ended, and may hold the GPU.",)
    )


def test_results_go_and_what_later_steps_read_stays(
    tmp_path: Path, at_rest: pytest.MonkeyPatch
) -> None:
    for name in ("results/h200/mlp", "github", "locks"):
        (tmp_path / ".perfgate" / name).mkdir(parents=True)
    job.clean(a_job(tmp_path, GITHUB_ACTIONS="true"), before=False)
    assert sorted(path.name for path in (tmp_path / ".perfgate").iterdir()) == ["github", "locks"]
    job.clean(a_job(tmp_path, GITHUB_ACTIONS="true"), before=True)
    assert [path.name for path in (tmp_path / ".perfgate").iterdir()] == ["locks"]


def test_nothing_behind_a_link_is_removed(tmp_path: Path, at_rest: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    (tmp_path / ".perfgate").mkdir()
    results = tmp_path / ".perfgate" / "results"
    results.symlink_to(elsewhere)
    cleaned = job.clean(a_job(tmp_path, GITHUB_ACTIONS="true"), before=False)
    assert cleaned.warnings == (f"{results} is a link, and was left.",)
    assert (elsewhere / "precious").exists()


def test_many_changes_are_counted_and_the_first_are_named(
    tmp_path: Path, at_rest: pytest.MonkeyPatch
) -> None:
    at_rest.setattr(
        git, "changes", lambda _root, **_env: tuple(f"{number}.py" for number in range(7))
    )
    assert job.clean(a_job(tmp_path, GITHUB_ACTIONS="true"), before=False).warnings == (
        (
            "The workspace is not clean after the gate. "
            "7 files changed or not tracked: 0.py, 1.py, 2.py, 3.py, 4.py and 2 more."
        ),
    )


def test_a_workspace_that_git_cannot_read_is_told(
    tmp_path: Path, at_rest: pytest.MonkeyPatch
) -> None:
    def refuse(_root: Path, **_env: object) -> tuple[str, ...]:
        raise RepositoryUnreadable(subject="x", fact="it is not in a git repository", next_step="y")

    at_rest.setattr(git, "changes", refuse)
    assert job.clean(a_job(tmp_path, GITHUB_ACTIONS="true"), before=True) == job.Cleaned(
        told=(),
        warnings=("git cannot say whether the workspace is clean: it is not in a git repository.",),
    )
