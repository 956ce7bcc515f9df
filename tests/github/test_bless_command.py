"""`perfgate github bless` and `occasions` as their workflows run them: by event and environment, in
a checkout."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from support import records
from support.promotion import HASTY, RUN_URL, Scene
from support.rest import BOT, GitHub, primary_limit

from perfgate import cli
from perfgate.github import api
from perfgate.github.occasions import BRANCH
from perfgate.model.outcome import Outcome


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a step leaves."""

    status: int
    out: str
    err: str
    summary: str


class Job:
    """One job of a workflow, its branch being checked out."""

    def __init__(
        self,
        scene: Scene,
        folder: Path,
        patch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.scene = scene
        self.hub = scene.hub
        self._folder = folder
        self._patch = patch
        self._capsys = capsys

    def dispatched(
        self, reason: str = "fused the loss", workload: str = "", accept: str = "false"
    ) -> Seen:
        return self.run("bless", self.dispatch(reason, workload, accept))

    def dispatch(
        self, reason: str = "fused the loss", workload: str = "", accept: str = "false"
    ) -> dict[str, str]:
        """The environment of a job that a maintainer has started on the branch."""
        more = {
            "GITHUB_REF": f"refs/heads/{self.scene.branch}",
            "GITHUB_SHA": self.scene.head,
            "PERFGATE_INPUT_REASON": reason,
            "PERFGATE_INPUT_WORKLOAD": workload,
            "PERFGATE_INPUT_ACCEPT_REGRESSION": accept,
        }
        return self.hub.env_of("workflow_dispatch", {"inputs": {}}, self._folder, **more)

    def commented(self, body: str, number: int, *, login: str = "ada", minutes: int = 10) -> Seen:
        """Run it for a comment that was made so many minutes after noon."""
        event = {
            "action": "created",
            "issue": {"number": number, "pull_request": {}},
            "comment": {
                "body": body,
                "created_at": (records.NOON + timedelta(minutes=minutes)).isoformat(),
                "user": {"login": login},
            },
        }
        inputs = dict.fromkeys(("REASON", "WORKLOAD", "ACCEPT_REGRESSION"), "")
        env = self.hub.env_of("issue_comment", event, self._folder)
        return self.run(
            "bless", env | {f"PERFGATE_INPUT_{name}": value for name, value in inputs.items()}
        )

    def run(self, command: str, env: Mapping[str, str], *arguments: str) -> Seen:
        """Run a command in this process."""
        summary = self._folder / "summary.md"
        summary.write_text("", encoding="utf-8")
        for name, value in {
            **self.scene.env,
            **env,
            "GITHUB_STEP_SUMMARY": str(summary),
            "CI": "true",
        }.items():
            self._patch.setenv(name, value)
        self._patch.chdir(self.scene.root)
        status = 0
        try:
            cli.main(["github", command, *arguments])
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else int(left.code is not None)
        seen = self._capsys.readouterr()
        return Seen(
            status=status, out=seen.out, err=seen.err, summary=summary.read_text(encoding="utf-8")
        )

    def pull(self, **more: object) -> int:
        """Open the branch's pull request."""
        return self.hub.pull(branch=self.scene.branch, sha=self.scene.head, **more)  # type: ignore[arg-type]


@pytest.fixture
def hub() -> Iterator[GitHub]:
    """A GitHub with one repository, octo/loops."""
    with GitHub() as hub:
        yield hub


@pytest.fixture
def job(
    hub: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Job:
    """A job on the branch `faster`, of which GitHub is asked without the pauses that it wants."""
    monkeypatch.setattr(api, "PATIENCE", HASTY)
    return Job(Scene(tmp_path / "project", hub), tmp_path, monkeypatch, capsys)


def test_a_dispatch_commits_what_the_gate_has_kept_and_starts_the_next(job: Job) -> None:
    run = job.scene.gate(job.scene.result())
    seen = job.dispatched()
    made = job.hub.branches["faster"]
    assert (seen.status, seen.err) == (0, "")
    assert made in seen.out
    assert made in seen.summary
    baseline = job.scene.on_branch()
    assert baseline is not None
    blessing = baseline.blessing
    assert (blessing.by, blessing.reason) == ("ada via GitHub", "fused the loss")
    assert (blessing.run_url, blessing.runner) == (f"{RUN_URL}/{run}", "h200-a")
    assert [one.workflow for one in job.hub.dispatched] == ["perfgate.yml"]
    assert job.hub.comments == {}


def test_a_maintainers_comment_does_the_same_and_is_answered(job: Job) -> None:
    number = job.pull()
    job.scene.gate(job.scene.result(), job.scene.result(name="cnn"))
    seen = job.commented("/perfgate bless mlp fused the loss\n\nThank you!", number)
    assert (seen.status, seen.err) == (0, "")
    (answer,) = job.hub.comments[number]
    assert answer["body"] == seen.summary
    assert job.scene.on_branch("mlp") is not None
    assert job.scene.on_branch("cnn") is None


def test_a_comment_of_somebody_who_may_not_write_does_nothing_and_is_not_answered(job: Job) -> None:
    number = job.pull()
    job.scene.gate(job.scene.result())
    seen = job.commented("/perfgate bless mlp please", number, login="eve")
    assert (seen.status, seen.out, seen.summary) == (22, "", "")
    assert job.hub.lines == ["GET /collaborators/eve/permission"]


def test_a_refusal_is_told_where_it_was_asked(job: Job) -> None:
    number = job.pull()
    job.scene.gate(
        job.scene.result(outcome=Outcome.REGRESSED, reason="h2d_copies rose\n::error::from 2 to 3")
    )
    seen = job.commented("/perfgate bless mlp why not", number)
    (answer,) = job.hub.comments[number]
    assert answer["body"] == seen.summary
    assert not [line for line in seen.err.splitlines() if line.startswith("::")]
    assert (seen.status, job.hub.branches["faster"]) == (22, job.scene.head)


def test_a_comment_of_another_form_is_answered_with_the_form(job: Job) -> None:
    number = job.pull()
    seen = job.commented("/perfgate bless mlp", number)
    assert seen.status == 22
    assert len(job.hub.comments[number]) == 1


def test_a_fork_is_left_to_a_desk(job: Job) -> None:
    number = job.pull(head="eve/loops")
    seen = job.commented("/perfgate bless mlp why", number)
    assert seen.status == 22


def test_a_push_between_the_comment_and_its_job_is_not_blessed(job: Job) -> None:
    number = job.pull()
    job.scene.gate(job.scene.result(), created_at=records.NOON + timedelta(minutes=20))
    seen = job.commented("/perfgate bless mlp why", number, minutes=10)
    assert seen.status == 22
    assert job.hub.branches["faster"] == job.scene.head


def test_a_push_while_the_job_starts_leaves_the_branch_alone(job: Job) -> None:
    job.scene.gate(job.scene.result())
    env = job.dispatch()
    job.hub.commit({"model.py": "LAYERS = 9\n"}, branch="faster")
    moved = job.hub.branches["faster"]
    seen = job.run("bless", env)
    assert (seen.status, job.hub.branches["faster"]) == (37, moved)
    assert moved[:12] in seen.summary


def test_a_gate_that_cannot_be_started_is_an_error_beside_the_commit(job: Job) -> None:
    job.scene.gate(job.scene.result())
    job.hub.workflows.clear()
    seen = job.dispatched()
    assert job.scene.on_branch() is not None
    assert seen.out.startswith("Committed ")
    assert seen.status == 35
    assert job.hub.branches["faster"] in seen.summary


def test_an_answer_that_cannot_be_posted_undoes_nothing(job: Job) -> None:
    number = job.pull()
    job.scene.gate(job.scene.result())
    job.hub.fail(r"POST /issues", primary_limit(3000))
    seen = job.commented("/perfgate bless mlp why", number)
    assert seen.status == 0
    assert job.scene.on_branch() is not None


def test_what_is_not_there_is_asked_for_by_name(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    env = job.dispatch()
    del env["GITHUB_TOKEN"]
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    seen = job.run("bless", env)
    assert "GITHUB_TOKEN" in seen.err
    assert seen.status == 33


def test_nothing_of_the_branch_is_run_by_the_whole_command(job: Job, tmp_path: Path) -> None:
    """As the workflow starts it: the installed script, in the folder of a branch that would like to
    be run."""
    witness = tmp_path / "ran"
    run_it = f"import pathlib; pathlib.Path({str(witness)!r}).touch()\n"
    modules = (
        "perfgate",
        "click",
        "pydantic",
        "github",
        "sitecustomize",
        "usercustomize",
        "conftest",
        "_pytest",
    )
    job.scene.push(
        {f"{name}.py": run_it for name in modules}
        | {"pytest.ini": "[pytest]\naddopts = -p conftest\n", "workloads/conftest.py": run_it}
    )
    job.scene.gate(job.scene.result())
    script = Path(sys.executable).parent / "perfgate"
    done = subprocess.run(
        [script, "github", "bless"],
        cwd=job.scene.root,
        env={**job.scene.env, **job.dispatch()},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not witness.exists()


# Occasions


@pytest.fixture
def base(
    job: Job,
    tmp_path: Path,
    hub: GitHub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Job:
    """A job on the base branch, which has a baseline."""
    scene = Scene(tmp_path / "base", hub, branch="main")
    scene.bless(scene.baseline())
    return Job(scene, tmp_path, monkeypatch, capsys)


def scheduled(base: Job, *outcomes: Outcome) -> Seen:
    """The gate of the base branch, a day later, and then the command."""
    run = base.hub.run(run_id=9001, head_sha=base.scene.head, head_branch="main", event="schedule")
    for number, outcome in enumerate(outcomes):
        result = base.scene.result(
            12.4,
            12.41,
            12.42,
            at=records.NOON + timedelta(days=number + 1),
            outcome=outcome,
            reason="step_ms rose 3 %",
        )
        base.scene.keep(run, result, artifact=f"kept-h200-{number}")
    env = base.hub.env(
        GITHUB_EVENT_NAME="schedule",
        GITHUB_RUN_ID=str(run),
        GITHUB_SHA=base.scene.head,
        GITHUB_REF="refs/heads/main",
    )
    return base.run("occasions", env)


def test_the_scheduled_gate_opens_one_pull_request(base: Job) -> None:
    seen = scheduled(base, Outcome.PASSED)
    (number,) = base.hub.pulls
    address = f"https://github.example/octo/loops/pull/{number}"
    assert (seen.status, seen.err) == (0, "")
    assert address in seen.out
    assert address in seen.summary
    made = base.scene.on_branch(branch=BRANCH)
    assert made is not None
    assert len(made.occasions) == 2
    assert base.hub.pulls[number]["user"] == {"login": BOT, "id": 1, "type": "Bot"}
    assert f"]({RUN_URL}/9001)" in json.dumps(base.hub.pulls[number]["body"])


def test_nothing_to_add_opens_none_and_is_no_failure(base: Job) -> None:
    seen = scheduled(base, Outcome.REGRESSED)
    assert (seen.status, seen.err) == (0, "")
    assert "step\\_ms rose 3 %" in seen.summary
    assert (base.hub.pulls, base.hub.changes) == ({}, [])


def test_a_repository_that_lets_actions_open_none_is_told_the_setting(base: Job) -> None:
    base.hub.may_open_pull_requests = False
    seen = scheduled(base, Outcome.PASSED)
    assert '"Allow GitHub Actions to create and approve pull requests"' in seen.err
    assert seen.status == 35


def test_another_commit_than_the_runs_is_no_base(base: Job) -> None:
    env = base.hub.env(GITHUB_EVENT_NAME="schedule", GITHUB_SHA="0" * 40)
    seen = base.run("occasions", env)
    assert seen.status == 22
