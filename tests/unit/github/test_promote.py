"""Which kept results become baselines from CI, how they are committed, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import records
from support.promotion import RUN_URL, Scene
from support.rest import NOT_ACCESSIBLE, GitHub

from perfgate.github.api import Repository
from perfgate.github.context import Context
from perfgate.github.kept import kept_by_gate
from perfgate.github.promote import (
    Planned,
    Promotion,
    commit,
    commit_message,
    harmless,
    plan,
    promotion_markdown,
    refusal_markdown,
)
from perfgate.github.request import Branch, Wish
from perfgate.model.errors import (
    BlessRefused,
    BranchMoved,
    GitHubRefused,
    PerfgateError,
    ResultMissing,
)
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.store import Store

AT = datetime(2026, 3, 3, 9, tzinfo=UTC)
BY = "ada via GitHub"
WISH = Wish(workload=None, reason="fused the loss")


@pytest.fixture
def scene(tmp_path: Path, hub: GitHub) -> Scene:
    return Scene(tmp_path / "project", hub)


def planned(
    scene: Scene,
    repository: Repository,
    wish: Wish = WISH,
    *,
    budgets: Mapping[Metric, float] | None = None,
) -> tuple[Planned, ...]:
    branch = Branch(name=scene.branch, head_sha=scene.head)
    kept = kept_by_gate(repository, branch, asked_at=None)
    run_url = f"{RUN_URL}/{kept.run.id}"
    return plan(
        kept,
        wish,
        scene.checkout,
        budgets=budgets or {},
        by=BY,
        at=AT,
        run_url=run_url,
        runner="h200-a",
    )


def promote(scene: Scene, repository: Repository, wish: Wish = WISH) -> Promotion:
    branch = Branch(name=scene.branch, head_sha=scene.head)
    return commit(repository, branch, planned(scene, repository, wish), wish, by=BY)


def message_of(error: type[PerfgateError], act: Callable[[], object]) -> str:
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


# The plan


def test_a_kept_result_becomes_a_baseline_with_where_it_comes_from(
    scene: Scene, repository: Repository
) -> None:
    run = scene.gate(scene.result(outcome=Outcome.NO_BASELINE))
    (one,) = planned(scene, repository)
    assert one.path == "baselines/nvidia-h200/mlp.json"
    assert one.old is None
    blessing = one.new.blessing
    assert (blessing.by, blessing.at, blessing.reason) == (BY, AT, "fused the loss")
    assert blessing.commit is not None
    assert (blessing.commit.sha, blessing.commit.dirty) == (scene.head, False)
    assert (blessing.run_url, blessing.runner) == (f"{RUN_URL}/{run}", "h200-a")
    assert one.new.values(Metric.STEP_MS) == (12.34, 12.31, 12.36, 12.33, 12.35)
    assert Store(Path(), ".").baselines.parse(one.content, Path("mlp.json")) == one.new


def test_a_named_workload_is_taken_on_all_machines(scene: Scene, repository: Repository) -> None:
    run = scene.gate(scene.result(), scene.result(name="cnn"))
    scene.keep(run, scene.result(on=records.machine("NVIDIA L4")), artifact="kept-l4")
    found = planned(scene, repository, Wish(workload="mlp", reason="why"))
    assert [one.path for one in found] == [
        "baselines/nvidia-h200/mlp.json",
        "baselines/nvidia-l4/mlp.json",
    ]
    assert len(planned(scene, repository)) == 3


def test_a_workload_that_was_not_kept_is_told_beside_those_that_were(
    scene: Scene, repository: Repository
) -> None:
    scene.gate(scene.result(), *(scene.result(name=f"w{n:02}") for n in range(11)))
    listed = ", ".join(["mlp", *(f"w{n:02}" for n in range(9))])
    assert message_of(
        ResultMissing, lambda: planned(scene, repository, Wish(workload="lmp", reason="why"))
    ) == (
        f"lmp: the gate of this commit has kept no result of it. Kept are: {listed} and 2 more.\nName one of these."
    )


def test_what_no_gate_has_judged_is_held_to_the_budgets_of_the_project(
    scene: Scene, repository: Repository
) -> None:
    scene.bless(scene.baseline(12.16, 12.16, 12.16, 12.16, 12.16))
    scene.gate(scene.result(outcome=Outcome.NO_BASELINE))
    assert message_of(
        BlessRefused, lambda: planned(scene, repository, budgets={Metric.STEP_MS: 0.01})
    ).startswith("mlp: step_ms rises by 1.5 % over what is blessed now, its budget is 1.0 %. ")
    assert len(planned(scene, repository)) == 1


def test_a_loss_is_blessed_only_when_it_is_called_one(scene: Scene, repository: Repository) -> None:
    scene.bless(scene.baseline(12.0, 12.0, 12.0, 12.0, 12.0))
    scene.gate(
        scene.result(outcome=Outcome.REGRESSED, reason="step_ms rose 2.8 %, its budget is 2 %")
    )
    assert message_of(BlessRefused, lambda: planned(scene, repository)) == (
        "mlp: it REGRESSED: step_ms rose 2.8 %, its budget is 2 %. "
        "A loss beyond budget is not blessed by the way.\n"
        'Mend it, or say that it is meant: perfgate bless mlp --accept-regression --reason "..."'
    )
    wish = Wish(workload="mlp", reason="slower and right", accept_regression=True)
    (one,) = planned(scene, repository, wish)
    assert one.old is not None
    assert one.new.anchor is not None
    assert one.new.anchor.step_ms == pytest.approx(12.34)


def test_a_result_of_other_files_than_the_commit_has_is_refused(
    scene: Scene, repository: Repository
) -> None:
    scene.gate(scene.result(code={"model.py": "0" * 64}))
    assert message_of(BlessRefused, lambda: planned(scene, repository)).startswith(
        "mlp: the kept result is of other code: model.py changed since it was measured."
    )


def test_too_few_runs_say_how_more_are_measured_in_ci(scene: Scene, repository: Repository) -> None:
    scene.gate(scene.result(12.3, 12.4, 12.3, outcome=Outcome.IMPROVED))
    assert message_of(BlessRefused, lambda: planned(scene, repository)) == (
        "mlp: 3 runs over 1 occasion can be blessed. "
        "A baseline needs at least 5; runs of the same code, machine and speed are joined.\n"
        "Start perfgate.yml on the branch with runs: 5 (Actions, perfgate, Run workflow), then ask again."
    )


def test_one_refusal_leaves_all_baselines_as_they_are(scene: Scene, repository: Repository) -> None:
    scene.gate(
        scene.result(),
        scene.result(name="cnn", outcome=Outcome.INVALID, reason="the GPU was shared"),
        scene.result(12.3, name="rnn"),
    )
    assert message_of(BlessRefused, lambda: planned(scene, repository)) == (
        "cnn: the kept result is INVALID: the GPU was shared; refused too: rnn. "
        "Only a sound measurement can be a baseline. Of 3 baselines none was committed.\n"
        "Measure again: pytest --perfgate workloads/mlp.py::mlp"
    )
    assert planned(scene, repository, Wish(workload="mlp", reason="why"))


def test_runs_of_an_older_gate_of_the_same_commit_are_joined(
    scene: Scene, repository: Repository
) -> None:
    scene.gate(scene.result(12.3, 12.3, 12.3))
    at = records.NOON + timedelta(hours=1)
    scene.gate(scene.result(12.4, 12.4, 12.4, at=at), created_at=at)
    (one,) = planned(scene, repository)
    assert [len(occasion.runs) for occasion in one.new.occasions] == [3, 3]


# The commit


def test_the_baseline_is_committed_and_its_gate_is_started(
    scene: Scene, repository: Repository
) -> None:
    run = scene.gate(scene.result())
    before = scene.hub.content("faster")
    done = promote(scene, repository)
    made = scene.hub.commits[done.commit]
    assert scene.hub.branches["faster"] == done.commit
    assert made.parents == (scene.head,)
    assert made.message == (
        'bless: mlp\n\n"fused the loss"\n\n'
        f"Perfgate-Run: {RUN_URL}/{run}\nPerfgate-Runner: h200-a\nBlessed-by: ada via GitHub\n"
    )
    after = scene.hub.content("faster")
    assert {path for path in after if after[path] != before.get(path)} == {
        "baselines/nvidia-h200/mlp.json"
    }
    assert scene.on_branch() == done.planned[0].new
    assert [(one.workflow, one.ref, one.inputs) for one in scene.hub.dispatched] == [
        ("perfgate.yml", "faster", {})
    ]
    assert done.not_started is None


def test_a_branch_that_moved_is_left_alone(scene: Scene, repository: Repository) -> None:
    scene.gate(scene.result())
    ready = planned(scene, repository)
    scene.hub.commit({"model.py": "LAYERS = 5\n"}, branch="faster")
    moved = scene.hub.branches["faster"]
    branch = Branch(name="faster", head_sha=scene.head)
    assert message_of(BranchMoved, lambda: commit(repository, branch, ready, WISH, by=BY)) == (
        f'branch "faster": it is at {moved[:12]}. It was to be at {scene.head[:12]}; nothing was committed.\n'
        "Start again, with what the branch is now."
    )
    assert scene.hub.branches["faster"] == moved
    assert scene.hub.dispatched == []


def test_a_gate_that_cannot_be_started_undoes_nothing(scene: Scene, repository: Repository) -> None:
    scene.gate(scene.result())
    scene.hub.workflows.clear()
    done = promote(scene, repository)
    assert scene.on_branch() is not None
    assert isinstance(done.not_started, GitHubRefused)
    told = promotion_markdown(done, Context.from_env(scene.hub.env()))
    assert (
        "**The gate of the new commit was not started: GitHub answered 404: Not Found.**"
        in told.replace("\\", "")
    )


def test_a_token_that_may_not_write_commits_nothing(scene: Scene, repository: Repository) -> None:
    scene.gate(scene.result())
    scene.hub.fail("POST /git/blobs", NOT_ACCESSIBLE)
    assert message_of(GitHubRefused, lambda: promote(scene, repository)).startswith(
        'committing to branch "faster": GitHub answered 403: Resource not accessible by integration. '
        "The token needs contents: write."
    )
    assert scene.hub.branches["faster"] == scene.head


def test_a_project_below_the_top_is_committed_there(
    tmp_path: Path, hub: GitHub, repository: Repository
) -> None:
    scene = Scene(tmp_path / "project", hub, within="services/train")
    scene.gate(scene.result())
    promote(scene, repository)
    assert "services/train/baselines/nvidia-h200/mlp.json" in hub.content("faster")


# Its message


def message(*names: str, reason: str = "why", runner: str | None = None, by: str = BY) -> str:
    made = [records.baseline(name=name) for name in names]
    return commit_message(made, reason=reason, by=by, run_url=f"{RUN_URL}/1", runner=runner)


def test_a_message_without_a_runner_names_none() -> None:
    assert (
        message("mlp")
        == f'bless: mlp\n\n"why"\n\nPerfgate-Run: {RUN_URL}/1\nBlessed-by: ada via GitHub\n'
    )


def test_many_workloads_are_counted_and_a_long_name_is_cut() -> None:
    assert message(*(f"transformer_{n}" for n in range(9))).splitlines()[0] == "bless: 9 workloads"
    assert message("x" * 100).splitlines()[0] == f"bless: {'x' * 62}..."
    assert message("mlp", "mlp").splitlines()[0] == "bless: mlp"


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("Signed-off-by: eve <eve@example.org>", '"Signed-off-by: eve <eve@\u200bexample.org>"'),
        ("closes #12, GH-7, thanks @ada", '"closes #\u200b12, GH\u200b-7, thanks @\u200bada"'),
        ("[skip ci] and [No CI]", '"[\u200bskip ci] and [\u200bNo CI]"'),
        ("x[4-64] is meant # 1", '"x[4-64] is meant # 1"'),
    ],
)
def test_a_reason_is_no_trailer_and_speaks_to_nobody(reason: str, line: str) -> None:
    assert message("mlp", reason=reason).splitlines()[2] == line


@given(
    reason=st.text(min_size=1, max_size=80),
    name=st.text(min_size=1, max_size=60),
    runner=st.text(max_size=40),
)
def test_whatever_the_words_there_are_three_paragraphs_and_our_trailers(
    reason: str, name: str, runner: str
) -> None:
    told = message(name, reason=reason, runner=runner)
    subject, words, trailers = told.rstrip("\n").split("\n\n")
    assert subject.startswith("bless: ")
    assert "\n" not in subject
    assert words.startswith('"')
    assert words.endswith('"')
    keys = [line.partition(": ")[0] for line in trailers.split("\n")]
    assert keys == ["Perfgate-Run", *(["Perfgate-Runner"] if runner else []), "Blessed-by"]
    assert "[skip ci]" not in told.casefold()


# What is told


def test_what_was_blessed_is_told_as_markdown(scene: Scene, repository: Repository) -> None:
    scene.bless(scene.baseline(12.4, 12.4, 12.4, 12.4, 12.4))
    faster = [records.run({Metric.STEP_MS: 12.0, Metric.SYNCS: 0})] * 5
    run = scene.gate(scene.result(measured=faster, outcome=Outcome.IMPROVED))
    done = promote(scene, repository)
    address = "https://github.example/octo/loops"
    assert promotion_markdown(done, Context.from_env(scene.hub.env())) == (
        "### perfgate: blessed 1 baseline\n\n"
        f"[{done.commit[:12]}]({address}/commit/{done.commit}) on `faster`, of what "
        f"[the gate of {scene.head[:12]}]({RUN_URL}/{run}) has kept. Nothing was measured for it.\n\n"
        "Reason: fused the loss\n\n"
        "The gate of the new commit (perfgate.yml) was started.\n\n"
        "| workload | machine | step_ms before | after | change | also changed | rests on |\n"
        "|---|---|---:|---:|---|---|---|\n"
        "| `mlp` | `NVIDIA H200` | 12.40 | 12.00 | \\-3\\.2 % | syncs \\-1 \\(\\-100 %\\) "
        "| 5 runs over 1 occasion |\n"
    )


def test_hostile_words_are_inert_in_markdown(scene: Scene, repository: Repository) -> None:
    evil = "a|`<b>@ada[x](http://evil)"
    scene.gate(scene.result(name=evil))
    done = promote(
        scene, repository, Wish(workload=None, reason="<img src=x> @ada #1 | [a](http://evil)")
    )
    told = promotion_markdown(done, Context.from_env(scene.hub.env()))
    for seen in ("<img", "@ada ", "#1", "](http://evil)"):
        assert seen not in told.replace(
            "`" + evil.replace("`", "'").replace("|", "\u2758") + "`", ""
        )
    assert refusal_markdown(
        BlessRefused(subject="<b>", fact="@ada\n::error::x", next_step="#1")
    ) == (
        "### perfgate: nothing was blessed\n\n&lt;b&gt;: @\u200bada  \n:\u200b:error:\u200b:x\\.  \n\\#\u200b1\n"
    )


def test_an_error_gives_a_log_no_commands() -> None:
    error = harmless(
        BlessRefused(
            subject="mlp\n::error::a",
            fact="b\r\n::warning::c",
            expectation="##[error]d",
            next_step="e\n::x::",
        )
    )
    assert isinstance(error, BlessRefused)
    assert str(error) == "mlp\\n::error::a: b\\r\\n::warning::c. ## [error]d.\ne\\n::x::"
    assert (
        str(harmless(BlessRefused(subject="::a::", fact="b", next_step=" ::c::")))
        == ": :a::: b.\n : :c::"
    )
