"""Which jobs a runner takes, whatever their workflow says."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.rest import GitHub

from perfgate.cli import main
from perfgate.github.admission import admit
from perfgate.github.context import Context
from perfgate.model.errors import ActionsContextMissing, JobNotAdmitted

SHA = "0123456789abcdef0123456789abcdef01234567"


def pull_request(
    head: str | None = "eve/loops", *, action: str = "opened", label: str | None = None
) -> dict[str, object]:
    side = {"sha": SHA, "ref": "faster", "repo": None if head is None else {"full_name": head}}
    event: dict[str, object] = {"action": action, "pull_request": {"number": 7, "head": side}}
    return event if label is None else {**event, "label": {"name": label}}


def asked(hub: GitHub, folder: Path, event: dict[str, object], kind: str = "pull_request") -> str:
    return admit(Context.from_env(hub.env_of(kind, event, folder)))


@pytest.mark.parametrize("kind", ["push", "schedule", "workflow_dispatch", "merge_group"])
def test_events_of_the_repository_itself_are_admitted(
    hub: GitHub, tmp_path: Path, kind: str
) -> None:
    assert asked(hub, tmp_path, {}, kind) == f"Admitted: {kind} is an event of octo/loops itself."


def test_a_branch_of_the_repository_itself_is_admitted(hub: GitHub, tmp_path: Path) -> None:
    told = f"Admitted: pull request 7 at {SHA} is of a branch of octo/loops itself."
    assert asked(hub, tmp_path, pull_request("octo/loops")) == told
    assert asked(hub, tmp_path, pull_request("Octo/Loops")) == told


def test_a_fork_is_admitted_by_the_event_of_its_approval(hub: GitHub, tmp_path: Path) -> None:
    event = pull_request(action="labeled", label="perfgate-approved")
    assert asked(hub, tmp_path, event) == (
        f"Admitted: pull request 7 at {SHA} was given the label perfgate-approved."
    )


@pytest.mark.parametrize(
    "event",
    [
        pull_request(),
        pull_request(action="synchronize"),
        pull_request(action="synchronize", label="perfgate-approved"),
        pull_request(action="unlabeled", label="perfgate-approved"),
        pull_request(action="labeled", label="perfgate-approved "),
        pull_request(action="labeled", label="bug"),
        pull_request(action="labeled"),
    ],
)
def test_a_fork_without_approval_is_refused(
    hub: GitHub, tmp_path: Path, event: dict[str, object]
) -> None:
    with pytest.raises(JobNotAdmitted) as refused:
        asked(hub, tmp_path, event)
    assert str(refused.value) == (
        f"pull request 7 at {SHA}: it is from eve/loops, and this run is not of its approval. "
        "A fork's code runs here only for a commit that a maintainer has read.\n"
        "A maintainer who has read it adds the label perfgate-approved, or removes it and adds it again."
    )


def test_a_fork_that_is_gone_is_refused(hub: GitHub, tmp_path: Path) -> None:
    with pytest.raises(
        JobNotAdmitted, match="it is from a fork that is gone, and this run is not of its approval"
    ):
        asked(hub, tmp_path, pull_request(None))


@pytest.mark.parametrize(
    "kind", ["pull_request_target", "pull_request_review", "issue_comment", "workflow_run"]
)
def test_events_by_which_strangers_start_workflows_are_refused(
    hub: GitHub, tmp_path: Path, kind: str
) -> None:
    with pytest.raises(JobNotAdmitted) as refused:
        asked(hub, tmp_path, pull_request("octo/loops"), kind)
    assert str(refused.value) == (
        f"this job: it was started by {kind}. "
        "This runner takes jobs of pull_request, merge_group, push, schedule, workflow_dispatch.\n"
        "Let the job run on one of GitHub's runners."
    )


@pytest.mark.parametrize(
    "event", [{}, {"action": "labeled", "label": {"name": "perfgate-approved"}}]
)
def test_an_event_that_is_not_as_github_sends_it_is_refused(
    hub: GitHub, tmp_path: Path, event: dict[str, object]
) -> None:
    with pytest.raises(
        ActionsContextMissing, match="event pull_request: it is not what this command is for"
    ):
        asked(hub, tmp_path, event)


def test_the_command_ends_with_the_refusals_status(
    hub: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in hub.env_of("pull_request", pull_request(), tmp_path).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main(["github", "admit"])
    assert ended.value.code == 44
    assert capsys.readouterr().err.startswith(
        f"perfgate: pull request 7 at {SHA}: it is from eve/loops, "
    )
