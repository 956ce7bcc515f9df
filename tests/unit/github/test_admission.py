"""Which jobs a runner takes, whatever their workflow says."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.rest import GitHub

from perfgate.github.approval import admit
from perfgate.model.errors import ActionsContextMissing, JobNotAdmitted

SHA = "0123456789abcdef0123456789abcdef01234567"
APPROVAL = "perfgate-approved"


def pull_request(
    head: str | None = "eve/loops", *, action: str = "opened", label: str | None = None
) -> dict[str, object]:
    side = {"sha": SHA, "ref": "faster", "repo": None if head is None else {"full_name": head}}
    event: dict[str, object] = {"action": action, "pull_request": {"number": 7, "head": side}}
    return event if label is None else {**event, "label": {"name": label}}


def asked(hub: GitHub, folder: Path, event: dict[str, object], kind: str = "pull_request") -> str:
    return admit(hub.env_of(kind, event, folder)).code


@pytest.mark.parametrize("kind", ["push", "schedule", "workflow_dispatch", "merge_group"])
def test_events_of_the_repository_itself_are_admitted(
    hub: GitHub, tmp_path: Path, kind: str
) -> None:
    assert asked(hub, tmp_path, {}, kind) == "admitted"


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (pull_request("octo/loops"), "admitted"),
        (pull_request("Octo/Loops"), "admitted"),
        (pull_request(action="labeled", label=APPROVAL), "label-approves"),
        (pull_request(None, action="labeled", label=APPROVAL), "label-approves"),
    ],
)
def test_a_branch_of_its_own_and_an_approved_fork_are_admitted(
    hub: GitHub, tmp_path: Path, event: dict[str, object], code: str
) -> None:
    assert asked(hub, tmp_path, event) == code


@pytest.mark.parametrize(
    "event",
    [
        pull_request(),
        pull_request(None),
        pull_request("octo/loops2"),
        pull_request(action="synchronize", label=APPROVAL),
        pull_request(action="unlabeled", label=APPROVAL),
        pull_request(action="labeled", label=f"{APPROVAL} "),
        pull_request(action="labeled"),
    ],
)
def test_a_fork_is_not_admitted_otherwise(
    hub: GitHub, tmp_path: Path, event: dict[str, object]
) -> None:
    with pytest.raises(JobNotAdmitted) as caught:
        asked(hub, tmp_path, event)
    assert (caught.value.code, caught.value.exit_code) == ("fork-not-approved", 44)


@pytest.mark.parametrize(
    "kind", ["pull_request_target", "pull_request_review", "issue_comment", "workflow_run"]
)
def test_an_event_that_a_stranger_may_cause_is_not_admitted(
    hub: GitHub, tmp_path: Path, kind: str
) -> None:
    with pytest.raises(JobNotAdmitted):
        asked(hub, tmp_path, pull_request("octo/loops"), kind)


def test_what_is_no_such_event_is_not_admitted(hub: GitHub, tmp_path: Path) -> None:
    with pytest.raises(ActionsContextMissing):
        asked(hub, tmp_path, {"action": "opened"})
