"""What the gate of a commit has kept: whose it must be, what is refused, and that the commit beside it is only read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from support import records
from support.promotion import CODE, Scene, member, place
from support.rest import NOT_ACCESSIBLE, Answer, GitHub, zipped

from perfgate.github.api import Repository
from perfgate.github.kept import Checkout, Kept, checkout, kept_by_gate, read_result, runner_of
from perfgate.github.request import Branch
from perfgate.model.baseline import Commit
from perfgate.model.errors import (
    ArtifactUnreadable,
    BlessRefused,
    GitHubUnreachable,
    PerfgateError,
    ResultMissing,
    ResultUnreadable,
)
from perfgate.model.limits import LARGEST_RESULT
from perfgate.model.metric import Metric

OTHER = "0123456789abcdef" * 2 + "01234567"
LATER = records.NOON + timedelta(hours=2)


@pytest.fixture
def scene(tmp_path: Path, hub: GitHub) -> Scene:
    return Scene(tmp_path / "project", hub)


def kept(scene: Scene, repository: Repository) -> Kept:
    return kept_by_gate(repository, Branch(name=scene.branch, head_sha=scene.head), asked_at=None)


def message_of(error: type[PerfgateError], act: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


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
    assert sorted(found.results) == [
        ("nvidia-h200", "cnn"),
        ("nvidia-h200", "mlp"),
        ("nvidia-l4", "mlp"),
    ]
    assert found.results["nvidia-l4", "mlp"] == [on_l4]


def test_the_newest_finished_gate_counts(scene: Scene, repository: Repository) -> None:
    scene.gate(scene.result(13.0, 13.0, 13.0, 13.0, 13.0))
    newer = scene.gate(scene.result(), created_at=LATER)
    scene.gate(created_at=LATER, conclusion="skipped")
    scene.gate(scene.result(14.0), created_at=LATER + timedelta(hours=1), conclusion="cancelled")
    scene.gate(created_at=LATER + timedelta(hours=2), status="in_progress", conclusion=None)
    found = kept(scene, repository)
    assert found.run.id == newer
    (results,) = found.results.values()
    assert [len(result.runs) for result in results] == [5]


def test_a_run_of_a_fork_that_holds_the_commit_is_no_gate_of_the_branch(
    scene: Scene, repository: Repository
) -> None:
    ours = scene.gate(scene.result())
    theirs = scene.hub.run(
        head_sha=scene.head, head_branch=scene.branch, created_at=LATER, fork="eve/loops"
    )
    scene.keep(theirs, scene.result(9.0, 9.0, 9.0, 9.0, 9.0, at=LATER))
    found = kept(scene, repository)
    assert found.run.id == ours
    assert found.results == {("nvidia-h200", "mlp"): [scene.result()]}


@pytest.mark.parametrize(("label_later", "speed"), [(True, 9.0), (False, 12.3)])
def test_a_gate_that_a_label_started_is_one_of_the_branch_and_the_newest_of_all_counts(
    scene: Scene, repository: Repository, label_later: bool, speed: float
) -> None:
    pushed = scene.gate(scene.result(*[12.3] * 5))
    at = LATER if label_later else records.NOON - timedelta(hours=1)
    labelled = scene.hub.run(
        head_sha=scene.head,
        head_branch=scene.branch,
        workflow="perfgate-approved.yml",
        created_at=at,
    )
    scene.keep(labelled, scene.result(*[9.0] * 5, at=at))
    found = kept(scene, repository)
    assert found.run.id == (labelled if label_later else pushed)
    expected = scene.result(*[speed] * 5, at=at if label_later else records.NOON)
    assert found.results == {("nvidia-h200", "mlp"): [expected]}


def test_a_label_of_others_starts_no_gate_that_would_be_waited_for_or_count(
    scene: Scene, repository: Repository
) -> None:
    ours = scene.gate(scene.result())
    scene.hub.run(
        head_sha=scene.head,
        head_branch=scene.branch,
        workflow="perfgate-approved.yml",
        conclusion="skipped",
        created_at=LATER,
    )
    assert kept(scene, repository).run.id == ours


def test_where_github_does_not_answer_about_the_labels_gates_nothing_is_promoted(
    scene: Scene, repository: Repository
) -> None:
    scene.gate(scene.result())
    scene.hub.fail(
        "GET /actions/workflows/perfgate-approved.yml",
        Answer(502, {"message": "Bad Gateway"}),
        times=99,
    )
    with pytest.raises(GitHubUnreachable):
        kept(scene, repository)


def test_where_runs_are_wanting_older_gates_of_the_same_commit_are_asked(
    scene: Scene, repository: Repository
) -> None:
    first = scene.result(12.3, 12.3, 12.3, at=records.NOON - timedelta(hours=1))
    scene.gate(first, scene.result(12.3, name="gone"))
    second = scene.result(12.4, 12.4, 12.4, at=LATER)
    scene.gate(second, created_at=LATER)
    found = kept(scene, repository)
    assert found.results == {("nvidia-h200", "mlp"): [second, first]}


def test_an_older_gate_that_has_kept_nothing_is_passed_over(
    scene: Scene, repository: Repository
) -> None:
    scene.gate()
    second = scene.result(12.4, 12.4, 12.4)
    scene.gate(second, created_at=LATER)
    assert kept(scene, repository).results == {("nvidia-h200", "mlp"): [second]}


def test_of_one_name_the_newest_artifact_counts(scene: Scene, repository: Repository) -> None:
    run = scene.gate(scene.result(13.0, 13.0, 13.0, 13.0, 13.0))
    again = scene.result()
    scene.keep(run, again)
    assert kept(scene, repository).results == {("nvidia-h200", "mlp"): [again]}


def test_a_gate_of_another_commit_is_none(scene: Scene, repository: Repository) -> None:
    scene.gate(scene.result())
    scene.push({"model.py": "LAYERS = 4\n"})
    assert message_of(ResultMissing, lambda: kept(scene, repository)) == (
        f"commit {scene.head[:12]}: no gate of it (perfgate.yml) came to an end. "
        "What the gate of this very commit has kept is blessed, and nothing is measured for it.\n"
        "Let perfgate.yml run on the branch, then ask again."
    )


def test_a_gate_that_still_runs_is_waited_for(scene: Scene, repository: Repository) -> None:
    scene.gate(status="in_progress", conclusion=None)
    assert message_of(ResultMissing, lambda: kept(scene, repository)) == (
        f"commit {scene.head[:12]}: its gate has not come to an end yet. "
        "What the gate of this very commit has kept is blessed, and nothing is measured for it.\n"
        "Wait for it, then ask again."
    )


def test_a_gate_that_kept_nothing_is_told(scene: Scene, repository: Repository) -> None:
    scene.gate()
    assert message_of(ResultMissing, lambda: kept(scene, repository)) == (
        f"commit {scene.head[:12]}: its gate has kept no result. It is uploaded as kept-..., by perfgate's action.\n"
        "Let the gate run again on the branch, then ask again."
    )


def test_what_has_expired_is_told(scene: Scene, repository: Repository) -> None:
    run = scene.gate(scene.result())
    scene.hub.artifacts[run][0]["expired"] = True
    assert message_of(ResultMissing, lambda: kept(scene, repository)) == (
        f"commit {scene.head[:12]}: what its gate has kept has expired. It is uploaded as kept-..., "
        "by perfgate's action.\nLet the gate run again on the branch, then ask again."
    )


def test_a_commit_that_was_pushed_after_the_comment_is_not_what_was_looked_at(
    scene: Scene, repository: Repository
) -> None:
    scene.gate(scene.result(), created_at=LATER)
    branch = Branch(name=scene.branch, head_sha=scene.head)
    assert message_of(
        BlessRefused,
        lambda: kept_by_gate(repository, branch, asked_at=LATER - timedelta(seconds=1)),
    ) == (
        f"commit {scene.head[:12]}: it was pushed after the comment was written. "
        "What is blessed is what there was to look at.\nLook at it, then comment anew."
    )
    assert kept_by_gate(repository, branch, asked_at=LATER).results


def test_the_same_workload_twice_on_one_machine_is_ambiguous(
    scene: Scene, repository: Repository
) -> None:
    run = scene.gate(scene.result())
    scene.keep(run, scene.result(12.0, at=LATER), artifact="kept-perfgate-h200-2")
    assert message_of(BlessRefused, lambda: kept(scene, repository)) == (
        "mlp: the gate has kept two results of it on NVIDIA H200. Which of them is meant cannot be told.\n"
        "Let each workload be in one shard and one gate of a machine only."
    )


def test_more_artifacts_than_a_gate_has_are_not_read(scene: Scene, repository: Repository) -> None:
    run = scene.gate()
    for number in range(51):
        scene.hub.artifact(run, f"kept-{number}", b"")
    assert message_of(ArtifactUnreadable, lambda: kept(scene, repository)).startswith(
        f"commit {scene.head[:12]}: its gate has 51 artifacts kept-.... At most 50 are read."
    )
    assert scene.hub.fetched == []


# A result


def test_a_result_of_another_commit_is_refused(scene: Scene, repository: Repository) -> None:
    scene.gate(scene.result(commit=Commit(sha=OTHER)))
    assert message_of(BlessRefused, lambda: kept(scene, repository)) == (
        f"mlp: the kept result is of commit {OTHER[:12]}. "
        f"It should be of {scene.head[:12]}, and of nothing else.\n"
        "See the gate's log: its checkout should be the head commit, and clean."
    )


def test_a_result_with_changes_or_of_no_commit_is_refused(scene: Scene) -> None:
    dirty = scene.result(commit=Commit(sha=scene.head, dirty=True))
    nowhere = scene.result().model_copy(update={"commit": None})
    for result, fact in (
        (dirty, f"is of commit {scene.head[:12]}, with changes that it does not hold"),
        (nowhere, "is of no commit"),
    ):
        told = message_of(
            BlessRefused, partial(read_result, place(result), member(result), "kept-x", scene.head)
        )
        assert told.startswith(f"mlp: the kept result {fact}. It should be of {scene.head[:12]}")


def test_a_result_that_does_not_fit_is_refused_and_told_where(
    scene: Scene, repository: Repository
) -> None:
    run = scene.gate()
    result = scene.result()
    raw = member(result).replace(b'"wall_s"', b'"wall"', 1)
    scene.hub.artifact(run, "kept-a", zipped({place(result): raw}))
    assert message_of(ResultUnreadable, lambda: kept(scene, repository)) == (
        f"kept-a/{place(result)}: the kept result does not fit: runs[0].wall_s: field required.\n"
        "Measure again: pytest --perfgate"
    )


@pytest.mark.parametrize(
    "path", ["result.json", "results/a/b/c/result.json", "x/results/a/b/c/result.json", "kept.txt"]
)
def test_what_lies_elsewhere_is_no_kept_result(scene: Scene, path: str) -> None:
    assert message_of(ResultUnreadable, lambda: read_result(path, b"{}", "kept-a", scene.head)) == (
        f"kept-a/{path}: this is no place of a kept result. "
        "Expected are results/<machine>/<workload>/<time>/result.json, of a few hundred KB.\n"
        "See what the gate's job has uploaded."
    )


def test_a_result_in_the_folder_of_another_is_refused(scene: Scene) -> None:
    result = scene.result()
    path = place(result).replace("/mlp/", "/cnn/")
    assert message_of(
        ResultUnreadable, lambda: read_result(path, member(result), "kept-a", scene.head)
    ) == (
        f"kept-a/{path}: the result in it is that of mlp on NVIDIA H200. "
        "A result lies in the folder of its machine and workload.\nSee what the gate's job has uploaded."
    )


def test_a_result_is_read_up_to_a_limit(scene: Scene) -> None:
    path = place(scene.result())
    told = message_of(
        ResultUnreadable,
        lambda: read_result(path, b" " * (LARGEST_RESULT + 1), "kept-a", scene.head),
    )
    assert told.startswith(f"kept-a/{path}: it has {LARGEST_RESULT + 1:,} bytes.")


@pytest.mark.parametrize("name", ["mlp\n::error::x", "mlp\u202e"])
def test_a_name_that_is_none_is_refused(scene: Scene, name: str) -> None:
    result = scene.result(name=name)
    told = message_of(
        ResultUnreadable, lambda: read_result(place(result), member(result), "kept-a", scene.head)
    )
    assert "From CI, a name is one line of at most 2000 characters that can be seen." in told
    assert "\n::" not in told


def test_a_hostile_archive_is_refused_whole(scene: Scene, repository: Repository) -> None:
    run = scene.gate()
    result = scene.result()
    scene.hub.artifact(run, "kept-a", zipped({place(result): member(result), "../../escaped": "x"}))
    assert message_of(ArtifactUnreadable, lambda: kept(scene, repository)).startswith(
        'artifact kept-a: its member "../../escaped" has a name that leads elsewhere.'
    )


# The commit beside it


def test_the_checkout_has_to_be_the_commit(scene: Scene) -> None:
    assert scene.checkout.commit == Commit(sha=scene.head)
    assert message_of(
        BlessRefused, lambda: checkout(scene.root, "baselines", OTHER, env=scene.env)
    ) == (
        f"the checkout: it is at {scene.head[:12]}. "
        f"It should be {OTHER[:12]}, the head of the branch, whose files say what is blessed.\n"
        "The branch may have moved: look at its newest commit, then ask again."
    )


def test_the_checkout_has_to_be_unchanged(scene: Scene) -> None:
    scene.write({"model.py": "LAYERS = 9\n"})
    assert message_of(BlessRefused, lambda: scene.checkout) == (
        f"the checkout: files in it are not those of {scene.head[:12]}. The files of the commit say what is blessed.\n"
        "See what was changed or added before this step: git status"
    )


@pytest.mark.parametrize(
    "folder",
    [
        "../elsewhere",
        "/etc",
        ".github/workflows",
        ".git/hooks",
        "a/../../b",
        ".",
        "a\n::error::b",
        ".GIT",
    ],
)
def test_baselines_that_lie_elsewhere_are_not_committed(scene: Scene, folder: str) -> None:
    told = message_of(BlessRefused, lambda: checkout(scene.root, folder, scene.head, env=scene.env))
    assert told.startswith("[tool.perfgate] baselines: it is '")
    assert told.endswith(
        "From CI, baselines are committed to a folder of the project's own.\nBless at a desk."
    )
    assert "\n::" not in told


@pytest.mark.parametrize(
    "link", ["baselines", "baselines/nvidia-h200", "baselines/nvidia-h200/mlp.json"]
)
def test_a_link_is_not_committed_to(scene: Scene, link: str) -> None:
    (scene.root / "elsewhere").mkdir()
    (scene.root / link).parent.mkdir(parents=True, exist_ok=True)
    (scene.root / link).symlink_to(scene.root / "elsewhere")
    assert message_of(
        BlessRefused, lambda: scene_checkout(scene).path_in_tree(scene.baseline())
    ) == (
        f"{link}: it is a link. From CI, baselines are committed as files, to folders.\nBless at a desk."
    )


def scene_checkout(scene: Scene) -> Checkout:
    scene.head = scene.commit()
    return scene.checkout


def test_a_project_below_the_top_is_committed_there(tmp_path: Path, hub: GitHub) -> None:
    scene = Scene(tmp_path / "project", hub, within="services/train")
    assert (
        scene.checkout.path_in_tree(scene.baseline(name="a/b"))
        == "services/train/baselines/nvidia-h200/a%2Fb.json"
    )


def test_only_files_of_the_project_are_read_for_their_digests(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    (scene.root / "link.py").symlink_to(tmp_path / "secret")
    (scene.root / "zero.py").symlink_to("/dev/zero")
    (scene.root / "circle.py").symlink_to("circle.py")
    named = {
        **CODE,
        **dict.fromkeys(
            (
                "../secret",
                str(tmp_path / "secret"),
                "link.py",
                "zero.py",
                "workloads",
                "gone.py",
                "a\0b",
            ),
            "0",
        ),
        **dict.fromkeys(("circle.py", "circle.py/x", "n" * 5000), "0"),
    }
    assert scene_checkout(scene).code_now(named) == CODE


# Where it ran


def test_the_runner_is_the_self_hosted_one(scene: Scene, repository: Repository) -> None:
    run = scene.gate(scene.result(), runners=["h200-b", "h200-a", "h200-b"])
    assert runner_of(repository, run) == "h200-a, h200-b"
    assert runner_of(repository, scene.gate(scene.result(), runners=[])) is None


def test_a_runner_that_github_does_not_tell_is_none(scene: Scene, repository: Repository) -> None:
    run = scene.gate(scene.result())
    scene.hub.fail(r"/jobs", NOT_ACCESSIBLE)
    assert runner_of(repository, run) is None


def test_nothing_of_the_branch_is_run(scene: Scene, repository: Repository, tmp_path: Path) -> None:
    """Whatever Python, pytest or git would run of a checkout by themselves."""
    witness = tmp_path / "ran"
    run_it = f"import pathlib; pathlib.Path({str(witness)!r}).touch()\n"
    files = (
        "conftest.py",
        "sitecustomize.py",
        "usercustomize.py",
        "perfgate.py",
        "workloads/conftest.py",
        "setup.py",
    )
    scene.push(dict.fromkeys(files, run_it))
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        script = scene.root / ".git" / "hooks" / hook
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\ntouch {witness}\n")
        script.chmod(0o755)
    scene.gate(scene.result())
    found = kept(scene, repository)
    assert scene.checkout.code_now(next(iter(found.results.values()))[0].code) == CODE
    assert scene.checkout.store.baselines.listed() == ()
    assert not witness.exists()
    assert Metric.STEP_MS in found.results["nvidia-h200", "mlp"][0].runs[0].measured()
