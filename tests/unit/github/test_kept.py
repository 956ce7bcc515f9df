"""What the gate of a commit has kept: whose it must be, what is refused, and that the commit beside
it is only read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from github.Repository import Repository
from support import records
from support.promotion import Scene, member, place
from support.rest import NOT_ACCESSIBLE, Answer, GitHub, zipped

from perfgate.github.kept import (
    Checkout,
    KeptByGate,
    checkout,
    kept_by_gate,
    read_result,
    runner_of,
)
from perfgate.github.request import Branch
from perfgate.model.baseline import Commit
from perfgate.model.errors import (
    BlessRefused,
    GitHubUnreachable,
    PerfgateError,
    ResultMissing,
    ResultUnreadable,
)
from perfgate.model.limits import LARGEST_RESULT

OTHER = "0123456789abcdef" * 2 + "01234567"
LATER = records.NOON + timedelta(hours=2)
MLP = ("nvidia-h200", "mlp")


@pytest.fixture
def scene(tmp_path: Path, hub: GitHub) -> Scene:
    return Scene(tmp_path / "project", hub)


def kept(scene: Scene, repository: Repository) -> KeptByGate:
    return kept_by_gate(repository, Branch(name=scene.branch, head_sha=scene.head), asked_at=None)


def code_of(error: type[PerfgateError], act: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        act()
    return caught.value.code


# The gate


def test_the_results_of_all_shards_and_machines_are_found(
    scene: Scene, repository: Repository
) -> None:
    on_l4 = scene.result(on=records.machine("NVIDIA L4"))
    run = scene.gate(scene.result(), scene.result(name="cnn"))
    scene.keep(run, on_l4, artifact="kept-perfgate-l4-1")
    scene.hub.artifact(run, "perfgate", zipped({"perfgate.json": "{}"}))
    found = kept(scene, repository)
    assert found.run.id == run
    assert sorted(found.results) == [("nvidia-h200", "cnn"), MLP, ("nvidia-l4", "mlp")]
    assert found.results["nvidia-l4", "mlp"] == on_l4


def test_the_newest_finished_gate_of_the_repository_itself_counts(
    scene: Scene, repository: Repository
) -> None:
    scene.gate(scene.result(*[13.0] * 5))
    newer = scene.gate(scene.result(), created_at=LATER)
    scene.gate(created_at=LATER, conclusion="skipped")
    scene.gate(scene.result(14.0), created_at=LATER + timedelta(hours=1), conclusion="cancelled")
    scene.gate(created_at=LATER + timedelta(hours=2), status="in_progress", conclusion=None)
    theirs = scene.hub.run(
        head_sha=scene.head, head_branch=scene.branch, created_at=LATER, fork="eve/loops"
    )
    scene.keep(theirs, scene.result(*[9.0] * 5, at=LATER))
    found = kept(scene, repository)
    assert (found.run.id, found.results) == (newer, {MLP: scene.result()})


@pytest.mark.parametrize("label_later", [True, False])
def test_a_gate_that_a_label_started_is_one_of_the_branch(
    scene: Scene, repository: Repository, label_later: bool
) -> None:
    pushed = scene.gate(scene.result(*[12.3] * 5))
    labelled = scene.hub.run(
        head_sha=scene.head,
        head_branch=scene.branch,
        workflow="perfgate-approved.yml",
        created_at=LATER if label_later else records.NOON - timedelta(hours=1),
    )
    scene.keep(labelled, scene.result(*[9.0] * 5))
    assert kept(scene, repository).run.id == (labelled if label_later else pushed)


def test_where_github_does_not_answer_about_the_labels_gates_nothing_is_promoted(
    scene: Scene, repository: Repository
) -> None:
    scene.gate(scene.result())
    bad = Answer(502, {"message": "Bad Gateway"})
    scene.hub.fail("GET /actions/workflows/perfgate-approved.yml", bad, times=99)
    with pytest.raises(GitHubUnreachable):
        kept(scene, repository)


def test_of_one_name_the_newest_artifact_counts(scene: Scene, repository: Repository) -> None:
    run = scene.gate(scene.result(*[13.0] * 5))
    again = scene.result()
    scene.keep(run, again)
    assert kept(scene, repository).results == {MLP: again}


def test_a_gate_that_kept_nothing_of_this_commit_is_no_result(
    scene: Scene, repository: Repository
) -> None:
    def code() -> str:
        return code_of(ResultMissing, lambda: kept(scene, repository))

    scene.gate(scene.result())
    scene.push({"model.py": "LAYERS = 4\n"})
    assert code() == "gate-never-ended"
    scene.gate(status="in_progress", conclusion=None)
    assert code() == "gate-still-runs"
    run = scene.gate()
    assert code() == "kept-nothing"
    scene.keep(run, scene.result())
    scene.hub.artifacts[run][0]["expired"] = True
    assert code() == "kept-expired"


def test_a_commit_that_was_pushed_after_the_comment_is_not_what_was_looked_at(
    scene: Scene, repository: Repository
) -> None:
    scene.gate(scene.result(), created_at=records.NOON)
    branch = Branch(name=scene.branch, head_sha=scene.head)
    before, after = records.NOON - timedelta(seconds=1), records.NOON + timedelta(seconds=1)
    assert kept_by_gate(repository, branch, asked_at=after).results
    code = code_of(BlessRefused, lambda: kept_by_gate(repository, branch, asked_at=before))
    assert code == "commit-after-comment"


def test_the_same_workload_twice_on_one_machine_is_ambiguous(
    scene: Scene, repository: Repository
) -> None:
    run = scene.gate(scene.result())
    scene.keep(run, scene.result(), artifact="kept-perfgate-h200-2")
    assert code_of(BlessRefused, lambda: kept(scene, repository)) == "kept-twice"


# A result


@pytest.mark.parametrize("commit", [Commit(sha=OTHER), None, "dirty"])
def test_a_result_of_anything_but_the_commit_is_refused(
    scene: Scene, commit: Commit | str | None
) -> None:
    of = Commit(sha=scene.head, dirty=True) if commit == "dirty" else commit
    result = scene.result().model_copy(update={"commit": of})
    code = code_of(
        BlessRefused, lambda: read_result(place(result), member(result), "kept", scene.head)
    )
    assert code == "kept-of-another-commit"


@pytest.mark.parametrize("path", ["result.json", "results/a/b/result.json", "x/{place}", "{cnn}"])
def test_what_lies_elsewhere_is_no_kept_result(scene: Scene, path: str) -> None:
    result = scene.result()
    named = path.format(place=place(result), cnn=place(scene.result(name="cnn")))
    with pytest.raises(ResultUnreadable):
        read_result(named, member(result), "kept", scene.head)


@pytest.mark.parametrize("name", ["mlp\n::error::x", "mlp\u202e"])
def test_a_name_that_is_none_is_refused_and_harmless(scene: Scene, name: str) -> None:
    result = scene.result(name=name)
    with pytest.raises(ResultUnreadable) as caught:
        read_result(place(result), member(result), "kept", scene.head)
    assert not {"\n", "\u202e"} & set(caught.value.fact)


def test_a_result_is_read_up_to_a_limit_and_only_if_it_is_one(scene: Scene) -> None:
    where = place(scene.result())
    for raw in (b" " * (LARGEST_RESULT + 1), b"{}", b"\xff"):
        with pytest.raises(ResultUnreadable):
            read_result(where, raw, "kept", scene.head)


# The checkout


def refused(scene: Scene, folder: str = "baselines", sha: str = "") -> str:
    return code_of(
        BlessRefused, lambda: checkout(scene.root, folder, sha or scene.head, env=scene.env)
    )


def test_the_checkout_has_to_be_the_commit_unchanged(scene: Scene) -> None:
    assert isinstance(scene.checkout, Checkout)
    assert refused(scene, sha=OTHER) == "checkout-elsewhere"
    scene.write({"model.py": "LAYERS = 9\n"})
    assert refused(scene) == "checkout-changed"


@pytest.mark.parametrize(
    "folder", ["/etc", "../other", "a/../../b", ".git", ".github/workflows", ".", "a\nb", ".GIT/x"]
)
def test_baselines_that_lie_elsewhere_are_not_committed(scene: Scene, folder: str) -> None:
    assert refused(scene, folder) == "baselines-elsewhere"


def test_a_project_below_the_top_is_committed_there(tmp_path: Path, hub: GitHub) -> None:
    scene = Scene(tmp_path / "project", hub, within="services/train")
    path = scene.checkout.path_in_tree(scene.baseline())
    assert path == "services/train/baselines/nvidia-h200/mlp.json"


def test_the_runner_is_the_self_hosted_one_if_github_says_which(
    scene: Scene, repository: Repository
) -> None:
    run = scene.gate(scene.result(), runners=("h200-b", "h200-a"))
    assert runner_of(repository, run) == "h200-b, h200-a"
    scene.hub.fail("GET /actions", NOT_ACCESSIBLE)
    assert runner_of(repository, run) is None
