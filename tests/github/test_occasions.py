"""`perfgate github occasions` as its workflow runs it: what is added, what is not, and the one pull
request that proposes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from support import records
from support.jobs import Job, Seen, without_commits
from support.promotion import RUN_URL, Scene
from support.rest import BOT, GitHub
from syrupy.assertion import SnapshotAssertion

from perfgate.github.occasions import BRANCH, BY, with_occasions
from perfgate.model.baseline import Baseline, Commit, Result
from perfgate.model.outcome import Outcome
from perfgate.store import baseline_text

pytestmark = pytest.mark.behaviour
FOLDER = "baselines/nvidia-h200"


@pytest.fixture
def base(hub: GitHub, tmp_path: Path, job_of: Callable[[Scene], Job]) -> Job:
    """A job on the base branch, which has baselines of two workloads."""
    scene = Scene(tmp_path / "base", hub, branch="main")
    scene.bless(scene.baseline(), scene.baseline(name="cnn"))
    return job_of(scene)


def weekly(
    base: Job, week: int = 1, name: str = "mlp", outcome: Outcome = Outcome.PASSED
) -> Result:
    at = records.NOON + timedelta(days=7 * week)
    times = (12.4, 12.42, 12.41 + week / 100)
    return base.scene.result(*times, name=name, at=at, outcome=outcome, reason="step_ms rose 3 %")


def scheduled(base: Job, *results: Result, event: str = "schedule", sha: str = "") -> Seen:
    """The gate of the base branch, and then the command."""
    run = 9001 + len(base.hub.runs)
    base.hub.run(run_id=run, head_sha=base.scene.head, head_branch="main", event="schedule")
    for number, result in enumerate(results):
        base.scene.keep(run, result, artifact=f"kept-h200-{number}")
    env = base.hub.env(
        GITHUB_EVENT_NAME=event,
        GITHUB_RUN_ID=str(run),
        GITHUB_SHA=sha or base.scene.head,
        GITHUB_REF="refs/heads/main",
    )
    return base.run("occasions", env)


def proposed(base: Job, name: str = "mlp") -> Baseline:
    made = base.scene.on_branch(name, branch=BRANCH)
    assert made is not None
    return made


def occasions(base: Job) -> list[int]:
    """How many the proposed baselines have."""
    return [len(proposed(base, name).occasions) for name in ("mlp", "cnn")]


def test_the_scheduled_gate_opens_one_pull_request(base: Job) -> None:
    seen = scheduled(base, weekly(base))
    (number,) = base.hub.pulls
    address = f"https://github.example/octo/loops/pull/{number}"
    assert (seen.status, seen.err) == (0, "")
    assert address in seen.out
    assert address in seen.summary
    assert base.hub.pulls[number]["user"] == {"login": BOT, "id": 1, "type": "Bot"}
    assert f"]({RUN_URL}/9001)" in json.dumps(base.hub.pulls[number]["body"])


def test_what_is_proposed_and_what_is_left_is_shown_whole(
    base: Job, snapshot: SnapshotAssertion
) -> None:
    left = weekly(base, name="cnn", outcome=Outcome.REGRESSED)
    assert scheduled(base, left).wording == snapshot(name="nothing")
    assert scheduled(base, weekly(base), left).wording == snapshot(name="summary")
    (pull,) = base.hub.pulls.values()
    assert without_commits(f"{pull['title']}\n\n{pull['body']}") == snapshot(name="pull request")


def test_an_unchanged_repeat_is_an_occasion_of_its_baseline(base: Job) -> None:
    scheduled(base, weekly(base))
    old = base.scene.baseline()
    assert proposed(base).model_copy(update={"occasions": old.occasions}) == old
    added = proposed(base).occasions[-1].added
    assert added is not None
    assert (added.by, added.run_url) == (BY, f"{RUN_URL}/9001")
    assert added.commit == Commit(sha=base.scene.head)


def test_nothing_to_add_opens_none_and_is_no_failure(base: Job) -> None:
    seen = scheduled(base, weekly(base, outcome=Outcome.REGRESSED))
    assert (seen.status, seen.err) == (0, "")
    assert "step\\_ms rose 3 %" in seen.summary
    assert (base.hub.pulls, base.hub.changes) == ({}, [])


def test_what_is_no_occasion_is_left_and_the_others_are_added(base: Job) -> None:
    other = base.scene.result(name="new", at=records.NOON + timedelta(days=7))
    seen = scheduled(base, weekly(base), other, weekly(base, name="cnn"))
    assert occasions(base) == [2, 2]
    assert "| `new` | `NVIDIA H200` |" in seen.summary


def test_a_baseline_that_cannot_be_read_gets_none(base: Job) -> None:
    broken = (base.scene.root / FOLDER / "cnn.json").read_text().replace("12.34", "12.35")
    base.scene.push({f"{FOLDER}/cnn.json": broken})
    scheduled(base, weekly(base), weekly(base, name="cnn"))
    assert len(proposed(base).occasions) == 2
    assert base.hub.content(BRANCH)[f"{FOLDER}/cnn.json"].decode() == broken


def test_the_next_gate_adds_to_what_is_not_merged_yet(base: Job) -> None:
    scheduled(base, weekly(base), weekly(base, name="cnn"))
    assert occasions(base) == [2, 2]
    scheduled(base, weekly(base, week=2))
    assert len(base.hub.pulls) == 1
    assert occasions(base) == [3, 2]
    assert base.hub.commits[base.hub.branches[BRANCH]].parents == (base.scene.head,)
    assert base.hub.branches["main"] == base.scene.head


def test_what_was_blessed_meanwhile_counts(base: Job) -> None:
    scheduled(base, weekly(base))
    anew = base.scene.baseline(*[12.4] * 5, at=records.NOON + timedelta(days=1))
    base.scene.bless(anew)
    scheduled(base, weekly(base, week=3))
    assert proposed(base).blessing == anew.blessing
    assert len(proposed(base).occasions) == 2


def test_what_somebody_else_put_on_the_branch_is_not_taken_over(base: Job) -> None:
    scheduled(base, weekly(base))
    forged = proposed(base).model_copy(update={"anchor": None, "digest": "0" * 16})
    files = {f"{FOLDER}/mlp.json": baseline_text(forged), f"{FOLDER}/cnn.json": "{}", "x.py": "x"}
    base.hub.commit(files, branch=BRANCH)
    (pull,) = base.hub.pulls.values()
    pull["head"]["sha"] = base.hub.branches[BRANCH]  # type: ignore[index]
    scheduled(base, weekly(base, week=2))
    assert len(proposed(base).occasions) == 2
    assert proposed(base).digest == base.scene.baseline().digest
    content, main = base.hub.content(BRANCH), base.hub.content("main")
    assert "x.py" not in content
    assert content[f"{FOLDER}/cnn.json"] == main[f"{FOLDER}/cnn.json"]


def test_only_added_occasions_are_taken_from_another_baseline(base: Job) -> None:
    old = base.scene.baseline()
    scheduled(base, weekly(base))
    (added,) = proposed(base).occasions[1:]

    def taken(**update: object) -> int:
        return len(with_occasions(old, proposed(base).model_copy(update=update)).occasions)

    assert taken() == 2
    assert taken(digest="0" * 16) == 1
    assert taken(occasions=(*old.occasions, added.model_copy(update={"added": None}))) == 1
    many = [
        added.model_copy(update={"measured_at": added.measured_at + timedelta(days=day)})
        for day in range(20)
    ]
    full = with_occasions(old, proposed(base).model_copy(update={"occasions": tuple(many)}))
    assert (len(full.runs), full.occasions[-1]) == (30, many[-1])


def test_a_branch_that_was_left_behind_is_made_anew(base: Job) -> None:
    scheduled(base, weekly(base))
    (pull,) = base.hub.pulls.values()
    pull["state"] = "closed"
    scheduled(base, weekly(base, week=2))
    assert len(base.hub.pulls) == 2
    assert len(proposed(base).occasions) == 2


def test_another_commit_or_event_than_the_runs_adds_none(base: Job) -> None:
    assert scheduled(base, sha="0" * 40).code == "checkout-elsewhere"
    assert scheduled(base, event="pull_request").code == "occasions-event-wanted"
