"""The scheduled gate's occasions: what is added, what is not, and the one pull request that
proposes it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from github.PullRequest import PullRequest
from github.Repository import Repository
from support import records
from support.promotion import RUN_URL, Scene
from support.rest import GitHub

from perfgate.github.context import Context
from perfgate.github.occasions import (
    BRANCH,
    BY,
    ResultsOfGate,
    _pull_request,
    adds_only,
    find,
    not_merged,
    propose,
    publish,
)
from perfgate.github.promote import Origin
from perfgate.model.baseline import Baseline, Commit, Occasion, Result
from perfgate.model.errors import (
    ActionsContextMissing,
    BranchMoved,
)
from perfgate.model.outcome import Outcome
from perfgate.store import baseline_text

MONDAY = records.NOON + timedelta(days=7)
ORIGIN = Origin(by=BY, run_url=f"{RUN_URL}/9001", runner="h200-a")


@pytest.fixture
def scene(tmp_path: Path, hub: GitHub) -> Scene:
    """The base branch, with baselines of two workloads."""
    scene = Scene(tmp_path / "project", hub, branch="main")
    scene.bless(scene.baseline(), scene.baseline(name="cnn"))
    return scene


def weekly(
    scene: Scene, week: int = 1, name: str = "mlp", outcome: Outcome = Outcome.PASSED
) -> Result:
    at = records.NOON + timedelta(days=7 * week)
    return scene.result(12.4, 12.42, 12.41 + week / 100, name=name, at=at, outcome=outcome)


def found(scene: Scene, *results: Result, week: int = 1) -> ResultsOfGate:
    at = records.NOON + timedelta(days=7 * week)
    return find(results, scene.checkout, {}, ORIGIN, at=at)


def proposes(scene: Scene, repository: Repository, *results: Result, week: int = 1) -> PullRequest:
    """What the command does of the results that were read."""
    pull = _pull_request(repository)
    earlier = {} if pull is None else not_merged(repository, pull, scene.checkout)
    at = records.NOON + timedelta(days=7 * week)
    made = find(results, scene.checkout, earlier, ORIGIN, at=at)
    here = Context.from_env(scene.hub.env(GITHUB_SHA=scene.head))
    return publish(repository, here, made, pull, ORIGIN)


def proposed(scene: Scene, name: str = "mlp") -> Baseline:
    made = scene.on_branch(name, branch=BRANCH)
    assert made is not None
    return made


# What it comes to


def test_an_unchanged_repeat_is_an_occasion_of_its_baseline(scene: Scene) -> None:
    old = scene.baseline()
    (one,) = found(scene, weekly(scene)).planned
    assert (one.old, one.path) == (scene.on_branch(), "baselines/nvidia-h200/mlp.json")
    assert one.new.model_copy(update={"occasions": old.occasions}) == old
    added = one.new.occasions[-1].added
    assert added is not None
    assert (added.by, added.run_url, added.runner) == (BY, ORIGIN.run_url, "h200-a")
    assert added.commit == Commit(sha=scene.head)


def test_what_is_no_occasion_is_left_and_the_others_are_added(scene: Scene) -> None:
    broken = scene.root / "baselines" / "nvidia-h200" / "cnn.json"
    other = scene.result(name="new", at=MONDAY)
    twice = [weekly(scene, name="cnn"), weekly(scene, week=2, name="cnn")]
    made = found(scene, weekly(scene, outcome=Outcome.REGRESSED), other, *twice)
    assert made.added == 0
    assert [result.workload.id for result, _ in made.left] == ["cnn", "mlp", "new"]
    scene.push({"baselines/nvidia-h200/cnn.json": broken.read_text().replace("12.34", "12.35")})
    made = found(scene, weekly(scene), weekly(scene, name="cnn"))
    assert [one.new.workload for one in made.planned] == ["mlp"]
    assert [result.workload.id for result, _ in made.left] == ["cnn"]


def test_only_added_occasions_are_taken_from_another_baseline(scene: Scene) -> None:
    base = scene.baseline()
    (one,) = found(scene, weekly(scene)).planned
    (added,) = one.new.occasions[1:]

    def adds(*occasions: Occasion, **more: object) -> bool:
        return adds_only(base, one.new.model_copy(update={"occasions": occasions, **more}))

    assert adds(*base.occasions, added)
    assert not adds(*base.occasions)
    assert not adds(added)
    assert not adds(*base.occasions, added, digest="0" * 16)
    assert not adds(*base.occasions, added.model_copy(update={"added": None}))
    # It was made before the base had its newest.
    full = base.model_copy(update={"occasions": one.new.occasions})
    again = added.model_copy(update={"measured_at": MONDAY + timedelta(days=7)})
    update = {"occasions": (*base.occasions, again)}
    assert not adds_only(full, full.model_copy(update=update))
    # There is no room for the oldest.
    assert adds_only(full, full.model_copy(update={"occasions": (added, again)}))


# The pull request


def test_one_pull_request_proposes_all_and_the_next_gate_adds_to_it(
    scene: Scene, repository: Repository
) -> None:
    first = proposes(scene, repository, weekly(scene), weekly(scene, name="cnn"))
    assert (first.head.ref, first.base.ref) == (BRANCH, "main")
    assert [len(proposed(scene, name).occasions) for name in ("mlp", "cnn")] == [2, 2]
    second = proposes(scene, repository, weekly(scene, week=2), week=2)
    assert second.number == first.number
    assert [len(proposed(scene, name).occasions) for name in ("mlp", "cnn")] == [3, 2]
    assert scene.hub.commits[scene.hub.branches[BRANCH]].parents == (scene.head,)
    assert scene.hub.branches["main"] == scene.head


def test_what_was_blessed_meanwhile_counts(scene: Scene, repository: Repository) -> None:
    proposes(scene, repository, weekly(scene))
    anew = scene.baseline(*[12.4] * 5, at=records.NOON + timedelta(days=1))
    scene.bless(anew)
    proposes(scene, repository, weekly(scene, week=3), week=3)
    assert proposed(scene).blessing == anew.blessing
    assert len(proposed(scene).occasions) == 2


def test_what_somebody_else_put_on_the_branch_is_not_taken_over(
    scene: Scene, repository: Repository
) -> None:
    proposes(scene, repository, weekly(scene))
    forged = proposed(scene).model_copy(update={"anchor": None, "digest": "0" * 16})
    folder = "baselines/nvidia-h200"
    files = {f"{folder}/mlp.json": baseline_text(forged), f"{folder}/cnn.json": "{}", "x.py": "x"}
    scene.hub.commit(files, branch=BRANCH)
    scene.hub.pulls[1]["head"]["sha"] = scene.hub.branches[BRANCH]  # type: ignore[index]
    proposes(scene, repository, weekly(scene, week=2), week=2)
    assert len(proposed(scene).occasions) == 2
    assert proposed(scene).digest == scene.baseline().digest
    content, base = scene.hub.content(BRANCH), scene.hub.content("main")
    assert "x.py" not in content
    assert content[f"{folder}/cnn.json"] == base[f"{folder}/cnn.json"]


def test_a_branch_that_was_left_behind_is_made_anew_and_a_push_meanwhile_wins(
    scene: Scene, repository: Repository
) -> None:
    first = proposes(scene, repository, weekly(scene))
    scene.hub.pulls[first.number]["state"] = "closed"
    second = proposes(scene, repository, weekly(scene, week=2), week=2)
    assert second.number != first.number
    assert len(proposed(scene).occasions) == 2
    moved = scene.hub.commit({"x": "y"}, branch=BRANCH)
    with pytest.raises(BranchMoved):
        proposes(scene, repository, weekly(scene, week=3), week=3)
    assert scene.hub.branches[BRANCH] == moved


def test_a_run_of_another_event_adds_no_occasion(scene: Scene) -> None:
    env = scene.hub.env(GITHUB_EVENT_NAME="pull_request")
    with pytest.raises(ActionsContextMissing):
        propose(scene.root, env, lambda _note: None)
