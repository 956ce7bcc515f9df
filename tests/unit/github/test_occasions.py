"""The scheduled gate's occasions: what is added, what is not and why, and the one pull request that proposes it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support import records
from support.promotion import RUN_URL, Scene, member, place
from support.rest import GitHub

from perfgate.github.api import PullRequest, Repository
from perfgate.github.context import Context
from perfgate.github.occasions import (
    BRANCH,
    Found,
    find,
    not_merged,
    publish,
    pull_request_markdown,
    read_kept,
    refuse_event,
    summary_markdown,
    with_added,
)
from perfgate.model.baseline import Baseline, Commit, Occasion, Result
from perfgate.model.errors import (
    ActionsContextMissing,
    BlessRefused,
    BranchMoved,
    GitHubRefused,
    PerfgateError,
    ResultMissing,
    ResultUnreadable,
)
from perfgate.model.outcome import Outcome
from perfgate.store import baseline_text

MONDAY = records.NOON + timedelta(days=7)
RUN = f"{RUN_URL}/9001"


@pytest.fixture
def scene(tmp_path: Path, hub: GitHub) -> Scene:
    """The base branch, with baselines of two workloads."""
    scene = Scene(tmp_path / "project", hub, branch="main")
    scene.bless(scene.baseline(), scene.baseline(name="cnn"))
    return scene


def context(scene: Scene) -> Context:
    return Context.from_env(scene.hub.env(GITHUB_SHA=scene.head))


def found(
    scene: Scene, *results: Result, repository: Repository | None = None, at: datetime = MONDAY
) -> Found:
    """What results come to, with what an open pull request holds."""
    pull = None if repository is None else repository.find_pull_request(BRANCH)
    earlier = {}
    if repository is not None and pull is not None:
        earlier = not_merged(repository, pull, scene.checkout, "baselines")
    return find(results, scene.checkout, earlier, at=at, run_url=RUN, runner="h200-a")


def propose(
    scene: Scene, repository: Repository, *results: Result, at: datetime = MONDAY
) -> PullRequest:
    pull = repository.find_pull_request(BRANCH)
    return publish(
        repository,
        context(scene),
        found(scene, *results, repository=repository, at=at),
        pull,
        runner="h200-a",
    )


def weekly(
    scene: Scene, week: int = 1, name: str = "mlp", outcome: Outcome = Outcome.PASSED
) -> Result:
    at = records.NOON + timedelta(days=7 * week)
    return scene.result(
        12.4,
        12.42,
        12.41 + week / 100,
        name=name,
        at=at,
        outcome=outcome,
        reason="step_ms rose 3 %",
    )


def message_of(error: type[PerfgateError], act: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def proposed(scene: Scene, name: str = "mlp") -> Baseline:
    made = scene.on_branch(name, branch=BRANCH)
    assert made is not None
    return made


# What was downloaded


def test_kept_results_are_found_in_whichever_folders_they_came(
    scene: Scene, tmp_path: Path
) -> None:
    one, two = weekly(scene), weekly(scene, name="cnn")
    for folder, result in (("kept/kept-h200-1", one), ("kept", two)):
        file = tmp_path / folder / place(result)
        file.parent.mkdir(parents=True)
        file.write_bytes(member(result))
    assert sorted(result.workload.id for result in read_kept(tmp_path / "kept", scene.head)) == [
        "cnn",
        "mlp",
    ]


def test_a_folder_that_is_not_there_is_told(scene: Scene, tmp_path: Path) -> None:
    assert message_of(ResultMissing, lambda: read_kept(tmp_path / "kept", scene.head)) == (
        f"{tmp_path}/kept: there is no such folder. It should hold the artifacts kept-... of this run.\n"
        "Download them before: actions/download-artifact with pattern: kept-*"
    )


def test_a_gate_that_kept_nothing_has_no_results(scene: Scene, tmp_path: Path) -> None:
    assert read_kept(tmp_path, scene.head) == ()


def test_a_result_of_another_commit_is_refused(scene: Scene, tmp_path: Path) -> None:
    result = weekly(scene).model_copy(update={"commit": Commit(sha="0" * 40)})
    file = tmp_path / "kept" / place(result)
    file.parent.mkdir(parents=True)
    file.write_bytes(member(result))
    assert message_of(BlessRefused, lambda: read_kept(tmp_path / "kept", scene.head)).startswith(
        f"mlp: the kept result is of commit {'0' * 12}. It should be of {scene.head[:12]}"
    )


def test_a_link_is_not_followed(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "kept" / place(weekly(scene))
    file.parent.mkdir(parents=True)
    file.symlink_to("/dev/zero")
    assert message_of(ResultUnreadable, lambda: read_kept(tmp_path / "kept", scene.head)) == (
        f"{place(weekly(scene))}: the kept result cannot be read (it is a link).\nDownload the artifacts again."
    )


# What it comes to


def test_an_unchanged_repeat_is_an_occasion_of_its_baseline(scene: Scene) -> None:
    old = scene.baseline()
    (one,) = found(scene, weekly(scene)).extended
    assert (one.old, one.path) == (scene.on_branch(), "baselines/nvidia-h200/mlp.json")
    assert one.new.model_copy(update={"occasions": old.occasions}) == old
    added = one.new.occasions[-1].added
    assert added is not None
    assert (added.by, added.reason) == (
        "perfgate, by its schedule",
        "the scheduled gate of 2026-03-09",
    )
    assert (added.run_url, added.runner) == (RUN, "h200-a")
    assert added.commit == Commit(sha=scene.head)


def test_what_is_no_occasion_is_left_with_the_reason(scene: Scene) -> None:
    other = scene.result(name="new", at=MONDAY)
    twice = [weekly(scene, name="cnn"), weekly(scene, week=2, name="cnn")]
    told = found(scene, weekly(scene, outcome=Outcome.REGRESSED), other, *twice)
    assert not told.adds
    assert {one.workload: one.why.fact for one in told.left} == {
        "mlp": "it REGRESSED: step_ms rose 3 %",
        "new": "it has no baseline on NVIDIA H200 that an occasion could be added to",
        "cnn": "the gate has kept 2 results of it on NVIDIA H200",
    }


def test_a_broken_baseline_is_left_and_the_others_are_extended(scene: Scene) -> None:
    file = scene.root / "baselines" / "nvidia-h200" / "cnn.json"
    scene.push({"baselines/nvidia-h200/cnn.json": file.read_text().replace("12.34", "12.35")})
    told = found(scene, weekly(scene), weekly(scene, name="cnn"))
    assert [one.new.workload for one in told.extended] == ["mlp"]
    assert [one.why.fact for one in told.left] == ["the baseline was changed after it was blessed"]


def test_only_added_occasions_are_taken_from_another_baseline(scene: Scene) -> None:
    base = scene.baseline()
    (one,) = found(scene, weekly(scene)).extended
    assert with_added(base, one.new) == one.new
    assert with_added(base, base) is None
    assert with_added(one.new, base) is None
    assert with_added(base, one.new.model_copy(update={"digest": "0" * 16})) is None
    foisted = one.new.occasions[-1].model_copy(update={"added": None})
    assert (
        with_added(base, one.new.model_copy(update={"occasions": (*base.occasions, foisted)}))
        is None
    )


@pytest.mark.parametrize("order", [(1,), (1, 1), (0, 1, 1), (1, 0)])
def test_what_another_baseline_drops_or_doubles_is_there_once(
    scene: Scene, order: tuple[int, ...]
) -> None:
    base = scene.baseline()
    (one,) = found(scene, weekly(scene)).extended
    other = one.new.model_copy(
        update={"occasions": tuple(one.new.occasions[index] for index in order)}
    )
    assert with_added(base, other) == one.new


def test_an_occasion_that_was_added_to_the_base_branch_meanwhile_is_kept(
    scene: Scene, repository: Repository
) -> None:
    propose(scene, repository, weekly(scene))
    (at_a_desk,) = found(scene, weekly(scene, week=2), at=MONDAY + timedelta(days=7)).extended
    scene.bless(at_a_desk.new)
    propose(scene, repository, weekly(scene, week=3), at=MONDAY + timedelta(days=14))
    measured = [occasion.measured_at - records.NOON for occasion in proposed(scene).occasions]
    assert measured == [timedelta(weeks=week) for week in (0, 1, 2, 3)]


def test_more_occasions_than_a_baseline_holds_push_the_oldest_out_and_never_all(
    scene: Scene,
) -> None:
    base = scene.baseline()
    (one,) = found(scene, weekly(scene)).extended
    added = one.new.occasions[-1]  # three runs, and the baseline has five

    def of_weeks(count: int) -> tuple[Occasion, ...]:
        weeks = (timedelta(weeks=week) for week in range(1, count + 1))
        return tuple(
            added.model_copy(update={"measured_at": records.NOON + week}) for week in weeks
        )

    full = with_added(base, base.model_copy(update={"occasions": (*base.occasions, *of_weeks(8))}))
    assert full is not None
    assert (len(full.occasions), len(full.runs)) == (9, 29)
    assert (
        with_added(base, base.model_copy(update={"occasions": (*base.occasions, *of_weeks(9))}))
        is None
    )
    again = with_added(
        full, full.model_copy(update={"occasions": (*full.occasions, *of_weeks(10)[-1:])})
    )
    assert again is not None
    assert again.occasions == of_weeks(10)[:8] + of_weeks(10)[-1:]


# The pull request


def test_one_pull_request_proposes_all_of_them(scene: Scene, repository: Repository) -> None:
    pull = propose(scene, repository, weekly(scene), weekly(scene, name="cnn"))
    assert (pull.head_branch, pull.base_branch) == (BRANCH, "main")
    assert pull.title == "perfgate: more occasions for 2 baselines"
    made = scene.hub.commits[scene.hub.branches[BRANCH]]
    assert made.parents == (scene.head,)
    assert made.message == (
        'bless: cnn, mlp\n\n"one more occasion each, measured by the scheduled gate of unchanged code"\n\n'
        f"Perfgate-Run: {RUN}\nPerfgate-Runner: h200-a\nBlessed-by: perfgate, by its schedule\n"
    )
    assert scene.hub.branches["main"] == scene.head
    assert [len(proposed(scene, name).occasions) for name in ("mlp", "cnn")] == [2, 2]


def test_the_next_gate_adds_to_the_same_pull_request_and_loses_nothing(
    scene: Scene, repository: Repository
) -> None:
    first = propose(scene, repository, weekly(scene), weekly(scene, name="cnn"))
    second = propose(scene, repository, weekly(scene, week=2), at=MONDAY + timedelta(days=7))
    assert second.number == first.number
    assert [len(proposed(scene, name).occasions) for name in ("mlp", "cnn")] == [3, 2]
    made = scene.hub.commits[scene.hub.branches[BRANCH]]
    assert made.parents == (scene.head,)
    assert "| `cnn` | `NVIDIA H200` | 1 | 2 | 12.34 | not merged yet |  |" in str(
        scene.hub.pulls[first.number]["body"]
    )


def test_what_was_blessed_anew_meanwhile_counts_and_the_old_occasion_does_not(
    scene: Scene, repository: Repository
) -> None:
    propose(scene, repository, weekly(scene), weekly(scene, name="cnn"))
    anew = scene.baseline(12.4, 12.4, 12.4, 12.4, 12.4, at=records.NOON + timedelta(days=1))
    scene.bless(anew)
    propose(scene, repository, weekly(scene, week=2), at=MONDAY + timedelta(days=7))
    assert proposed(scene).blessing == anew.blessing
    assert len(proposed(scene).occasions) == 2
    assert len(proposed(scene, "cnn").occasions) == 2
    assert scene.hub.commits[scene.hub.branches[BRANCH]].parents == (scene.head,)


def test_what_somebody_else_put_on_the_branch_is_not_taken_over(
    scene: Scene, repository: Repository
) -> None:
    propose(scene, repository, weekly(scene))
    forged = proposed(scene).model_copy(update={"anchor": None, "digest": "0" * 16})
    scene.hub.commit(
        {
            "baselines/nvidia-h200/mlp.json": baseline_text(forged),
            "baselines/nvidia-h200/cnn.json": "{}",
            "x.py": "evil",
        },
        branch=BRANCH,
    )
    scene.hub.pulls[1]["head"]["sha"] = scene.hub.branches[BRANCH]  # type: ignore[index]
    propose(scene, repository, weekly(scene, week=2), at=MONDAY + timedelta(days=7))
    assert len(proposed(scene).occasions) == 2
    assert proposed(scene).digest == scene.baseline().digest
    content = scene.hub.content(BRANCH)
    assert "x.py" not in content
    assert (
        content["baselines/nvidia-h200/cnn.json"]
        == scene.hub.content("main")["baselines/nvidia-h200/cnn.json"]
    )


def test_a_branch_that_was_left_behind_is_made_anew(scene: Scene, repository: Repository) -> None:
    first = propose(scene, repository, weekly(scene))
    scene.hub.pulls[first.number]["state"] = "closed"
    second = propose(scene, repository, weekly(scene, week=2), at=MONDAY + timedelta(days=7))
    assert second.number != first.number
    assert [occasion.measured_at for occasion in proposed(scene).occasions] == [
        records.NOON,
        records.NOON + timedelta(days=14),
    ]


def test_a_push_to_the_branch_meanwhile_wins(scene: Scene, repository: Repository) -> None:
    propose(scene, repository, weekly(scene))
    pull = repository.find_pull_request(BRANCH)
    told = found(scene, weekly(scene, week=2), repository=repository)
    scene.hub.commit({"x.py": "x"}, branch=BRANCH)
    moved = scene.hub.branches[BRANCH]
    assert message_of(
        BranchMoved, lambda: publish(repository, context(scene), told, pull, runner=None)
    ).startswith(f'branch "{BRANCH}": it is at {moved[:12]}.')
    assert scene.hub.branches[BRANCH] == moved


def test_a_repository_that_lets_actions_open_none_is_told_which_setting(
    scene: Scene, repository: Repository
) -> None:
    scene.hub.may_open_pull_requests = False
    assert message_of(GitHubRefused, lambda: propose(scene, repository, weekly(scene))) == (
        'opening a pull request from "perfgate/occasions": GitHub answered 403: '
        "GitHub Actions is not permitted to create or approve pull requests. "
        "The token needs pull-requests: write.\n"
        "Give it to the job, in its workflow: permissions: {pull-requests: write} "
        "And in the repository's settings, under Actions, General: \"Allow GitHub Actions to create and approve pull "
        'requests".'
    )


# What is told


def test_the_pull_request_says_what_it_adds_and_what_not(scene: Scene) -> None:
    told = found(scene, weekly(scene), weekly(scene, name="cnn", outcome=Outcome.REGRESSED))
    assert pull_request_markdown(told, RUN) == (
        f"[The scheduled gate]({RUN}) has repeated what is blessed. Unchanged repeats are added to their baselines as "
        "occasions: the more of them, the smaller a slowdown the gate can see. Blessings, anchors and calibrations "
        "stay as they are.\n\n"
        "| workload | machine | occasions before | after | step_ms then | now | change |\n"
        "|---|---|---:|---:|---:|---:|---|\n"
        "| `mlp` | `NVIDIA H200` | 1 | 2 | 12.34 | 12.42 | \\+0\\.65 % |\n\n"
        "Not added:\n\n"
        "| workload | machine | why |\n|---|---|---|\n"
        "| `cnn` | `NVIDIA H200` | it REGRESSED: step\\_ms rose 3 %\\. The code is the blessed one, so what moved is "
        "the machine: that wants eyes first\\. |\n\n"
        "perfgate makes the branch `perfgate/occasions` anew with each scheduled gate: what else is committed to it "
        "goes. GitHub starts no workflow for it by itself; close and open this pull request to let the gate run.\n"
    )


def test_the_summary_says_that_there_is_nothing_to_propose(scene: Scene) -> None:
    assert summary_markdown(found(scene), None) == (
        "### perfgate: occasions\n\n"
        "No result of this gate is an occasion of a baseline, so there is nothing to propose.\n\n"
    )


def test_a_long_text_is_cut_at_a_line(scene: Scene) -> None:
    many = [scene.result(name=f"{n:04}{'x' * 100}", at=MONDAY) for n in range(400)]
    told = pull_request_markdown(found(scene, *many), RUN)
    assert len(told) < 61_000
    assert told.endswith("|\n\nThe rest is too long.\n")


def test_a_run_of_another_event_adds_no_occasion() -> None:
    with pytest.raises(ActionsContextMissing) as caught:
        refuse_event(Context.from_env({"GITHUB_EVENT_NAME": "pull_request"}))
    assert str(caught.value) == (
        "occasions: the event is pull_request. A gate of the base branch is started by schedule or workflow_dispatch.\n"
        "Call it in a workflow with that trigger; perfgate init writes one."
    )
    for event in ("schedule", "workflow_dispatch"):
        refuse_event(Context.from_env({"GITHUB_EVENT_NAME": event}))
