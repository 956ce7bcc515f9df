"""What a label approves: the commit of its own event, once that has been the head for a while, and
no other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support.rest import NOON, GitHub, finished_run

from perfgate.cli import main
from perfgate.model.options import APPROVAL

pytestmark = pytest.mark.behaviour

READ, LATER = "a" * 40, "c" * 40
FORK = "eve/loops"
LABELLED = NOON + timedelta(minutes=30)


class Scene:
    """A pull request of a fork whose head was pushed some time before it was labelled."""

    def __init__(self, hub: GitHub, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hub, self.folder, self.monkeypatch = hub, folder, monkeypatch
        self.number = hub.pull(sha=READ, head=FORK, labels=[APPROVAL])

    def pushed(self, sha: str, at: datetime, workflow: str = "perfgate.yml") -> None:
        self.hub.run(
            head_sha=sha, created_at=at, fork=FORK, conclusion="failure", workflow=workflow
        )

    def labelled(self, sha: str = READ, at: datetime = LABELLED) -> int:
        """The run that the label starts."""
        return self.hub.run(
            head_sha=sha,
            created_at=at,
            fork=FORK,
            conclusion="failure",
            workflow="perfgate-approved.yml",
        )

    def asked(self, command: str, event_name: str, event: Mapping[str, object], **env: str) -> int:
        """The exit status of a command in a job of this event."""
        for name, value in self.hub.env_of(event_name, event, self.folder, **env).items():
            self.monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main(["github", command])
        assert isinstance(ended.value.code, int | None)
        return ended.value.code or 0

    def approval(self, *, label: str = APPROVAL, action: str = "labeled") -> int:
        run = self.labelled(READ)
        event = {
            "action": action,
            "label": {"name": label},
            "pull_request": {
                "number": self.number,
                "head": {"sha": READ, "repo": {"full_name": FORK}},
            },
        }
        return self.asked("approval", "pull_request", event, GITHUB_RUN_ID=str(run))

    def comment(self, sha: str, *, workflow: str = "perfgate.yml") -> str:
        """What the comment says once a run has ended."""
        event = finished_run(
            self.hub.url("/actions/runs/700/artifacts"),
            sha=sha,
            head=FORK,
            conclusion="failure",
            workflow=workflow,
        )
        self.hub.artifacts.setdefault(700, [])
        assert self.asked("comment", "workflow_run", event) == 0
        return str(self.hub.comments[self.number][-1]["body"])

    @property
    def labels(self) -> object:
        return self.hub.pulls[self.number]["labels"]


@pytest.fixture
def scene(hub: GitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(hub, tmp_path, monkeypatch)


def test_a_commit_that_was_the_head_for_a_while_is_approved(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.pushed(READ, LABELLED - timedelta(minutes=5))
    assert scene.approval() == 0
    assert READ in capsys.readouterr().out


@pytest.mark.parametrize("minutes", [0, 1, 4.9, -3])
def test_a_commit_that_came_just_before_the_label_is_not(scene: Scene, minutes: float) -> None:
    scene.pushed(READ, LABELLED - timedelta(minutes=minutes))
    assert scene.approval() == 44


def test_a_commit_that_no_run_is_known_of_is_not(scene: Scene) -> None:
    assert scene.approval() == 44


def test_a_commit_that_was_there_before_and_was_pushed_again_is_not(scene: Scene) -> None:
    scene.pushed(READ, LABELLED - timedelta(hours=2))
    scene.pushed(LATER, LABELLED - timedelta(hours=1))
    scene.pushed(READ, LABELLED - timedelta(seconds=20))
    assert scene.approval() == 44


def test_runs_of_other_branches_say_nothing_of_the_head(scene: Scene) -> None:
    scene.hub.run(head_sha=READ, created_at=NOON, fork=FORK, head_branch="elsewhere")
    scene.hub.run(head_sha=READ, created_at=NOON, event="push")
    assert scene.approval() == 44


def test_other_labels_do_not_make_a_commit_younger(scene: Scene) -> None:
    scene.pushed(READ, NOON)
    scene.pushed(READ, LABELLED - timedelta(seconds=5), workflow="labeler.yml")
    scene.labelled(at=LABELLED - timedelta(seconds=5))
    assert scene.approval() == 0


def test_a_head_that_has_moved_on_is_not_approved_by_the_label_of_the_older(scene: Scene) -> None:
    scene.pushed(READ, NOON)
    scene.hub.pulls[scene.number]["head"]["sha"] = LATER  # type: ignore[index]
    assert scene.approval() == 44


@pytest.mark.parametrize(
    ("label", "action"), [("bug", "labeled"), (APPROVAL, "synchronize"), (APPROVAL, "unlabeled")]
)
def test_nothing_else_is_an_approval(scene: Scene, label: str, action: str) -> None:
    scene.pushed(READ, NOON)
    assert scene.approval(label=label, action=action) != 0


def test_the_label_stays_on_what_it_approves_and_comes_off_what_follows(scene: Scene) -> None:
    scene.pushed(READ, NOON)
    scene.labelled()
    assert READ in scene.comment(READ, workflow="perfgate-approved.yml")
    assert scene.labels == [{"name": APPROVAL}]
    scene.pushed(LATER, LABELLED + timedelta(minutes=1))
    scene.hub.pulls[scene.number]["head"]["sha"] = LATER  # type: ignore[index]
    scene.comment(LATER)
    assert scene.labels == []


def test_a_label_that_came_too_soon_comes_off(scene: Scene) -> None:
    scene.pushed(READ, LABELLED - timedelta(minutes=1))
    scene.labelled()
    said = scene.comment(READ, workflow="perfgate-approved.yml").replace("\\", "")
    assert f"The label {APPROVAL} was taken off" in said
    assert scene.labels == []


@pytest.mark.parametrize(("minutes", "status"), [(6, 0), (4, 44), (-1, 44)])
def test_a_runner_refuses_a_label_that_follows_a_push_at_once(
    scene: Scene, minutes: int, status: int
) -> None:
    pushed = LABELLED - timedelta(minutes=minutes)
    event = {
        "action": "labeled",
        "label": {"name": APPROVAL},
        "pull_request": {
            "number": scene.number,
            "updated_at": LABELLED.isoformat(),
            "head": {"sha": READ, "repo": {"full_name": FORK, "pushed_at": pushed.isoformat()}},
        },
    }
    assert scene.asked("admit", "pull_request", json.loads(json.dumps(event))) == status


def test_the_folders_that_judge_are_the_ones_that_the_default_branch_names(
    scene: Scene, tmp_path: Path
) -> None:
    table = '[tool.perfgate]\nworkloads = "perf/loops"\nbaselines = "perf/blessed"\n'
    (tmp_path / "pyproject.toml").write_text(table, encoding="utf-8")
    scene.monkeypatch.chdir(tmp_path)
    for path in (
        "services/train/perf/loops/mlp.yaml",
        "services/train/perf/blessed/h200/mlp.json",
        "baselines/x.json",
    ):
        scene.hub.change(scene.number, path)
    body = scene.comment(READ)
    assert "perf/loops/mlp.yaml" in body
    assert "perf/blessed/h200/mlp.json" in body
    assert "baselines/x.json" not in body
