"""Which kept results become baselines from CI, and how they are committed."""

from __future__ import annotations

from pathlib import Path

import pytest
from github.Repository import Repository
from hypothesis import given
from hypothesis import strategies as st
from support import records
from support.promotion import RUN_URL, Scene
from support.rest import GitHub

from perfgate.github.context import Context
from perfgate.github.kept import kept_by_gate
from perfgate.github.promote import (
    Origin,
    Planned,
    Promotion,
    commit_message,
    plan,
    promotion_markdown,
    refusal_markdown,
)
from perfgate.github.request import Branch, Wish
from perfgate.model.errors import BlessRefused, ResultMissing
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.settings import Settings

WISH = Wish(workload=None, reason="fused the loss")
ORIGIN = Origin(by="ada via GitHub", run_url=f"{RUN_URL}/7", runner="h200-a")


@pytest.fixture
def scene(tmp_path: Path, hub: GitHub) -> Scene:
    return Scene(tmp_path / "project", hub)


def planned(scene: Scene, repository: Repository, wish: Wish = WISH) -> tuple[Planned, ...]:
    branch = Branch(name=scene.branch, head_sha=scene.head)
    kept = kept_by_gate(repository, branch, asked_at=None)
    return plan(kept, wish, scene.checkout, Settings(), ORIGIN)


def test_a_kept_result_becomes_a_baseline_with_where_it_comes_from(
    scene: Scene, repository: Repository
) -> None:
    scene.gate(scene.result(outcome=Outcome.NO_BASELINE))
    (one,) = planned(scene, repository)
    assert (one.path, one.old) == ("baselines/nvidia-h200/mlp.json", None)
    blessing = one.new.blessing
    assert (blessing.by, blessing.reason) == (ORIGIN.by, "fused the loss")
    assert blessing.commit is not None
    assert (blessing.commit.sha, blessing.commit.dirty) == (scene.head, False)
    assert (blessing.run_url, blessing.runner) == (ORIGIN.run_url, "h200-a")
    assert one.new.values(Metric.STEP_MS) == (12.34, 12.31, 12.36, 12.33, 12.35)


def test_a_named_workload_is_taken_on_all_machines(scene: Scene, repository: Repository) -> None:
    run = scene.gate(scene.result(), scene.result(name="cnn"))
    scene.keep(run, scene.result(on=records.machine("NVIDIA L4")), artifact="kept-l4")
    found = planned(scene, repository, Wish(workload="mlp", reason="why"))
    assert [one.path for one in found] == [
        "baselines/nvidia-h200/mlp.json",
        "baselines/nvidia-l4/mlp.json",
    ]
    assert len(planned(scene, repository)) == 3
    with pytest.raises(ResultMissing) as caught:
        planned(scene, repository, Wish(workload="lmp", reason="why"))
    assert caught.value.fields["known"] == ("cnn", "mlp")


def test_what_no_gate_has_judged_is_held_to_the_budgets_of_the_project(
    scene: Scene, repository: Repository
) -> None:
    scene.bless(scene.baseline(*[12.16] * 5))
    scene.gate(scene.result(*[12.9] * 5, outcome=Outcome.NO_BASELINE))
    with pytest.raises(BlessRefused):
        planned(scene, repository)


def test_a_loss_is_blessed_only_when_it_is_called_one(scene: Scene, repository: Repository) -> None:
    scene.bless(scene.baseline())
    scene.gate(scene.result(*[14.0] * 5, outcome=Outcome.REGRESSED))
    with pytest.raises(BlessRefused):
        planned(scene, repository)
    meant = Wish(workload=None, reason="meant", accept_regression=True)
    assert len(planned(scene, repository, meant)) == 1


def test_one_refusal_leaves_all_baselines_as_they_are(scene: Scene, repository: Repository) -> None:
    scene.gate(scene.result(), scene.result(name="cnn", code={"model.py": "0" * 64}))
    with pytest.raises(BlessRefused) as caught:
        planned(scene, repository)
    assert (caught.value.code, caught.value.fields["count"]) == ("bless-all-or-none", 2)


# The commit


def test_many_workloads_are_counted_and_a_long_name_is_cut() -> None:
    many = [records.baseline(name=f"workload-{n}") for n in range(20)]
    lines = [commit_message(named, "why", ORIGIN).splitlines() for named in (many, many[:1])]
    assert [line[0] for line in lines] == ["bless: 20 workloads", "bless: workload-0"]
    (long,) = [records.baseline(name="x" * 99)]
    assert len(commit_message([long], "why", ORIGIN).splitlines()[0]) <= 72


@given(st.text(min_size=1, max_size=300).filter(lambda text: text.strip() and text.isprintable()))
def test_whatever_the_words_there_are_three_paragraphs_and_our_trailers(reason: str) -> None:
    made = commit_message([records.baseline()], f"{reason} closes #1 @ada [skip ci] GH-2", ORIGIN)
    subject, said, trailers = made.rstrip("\n").split("\n\n")
    assert (subject, said[0], said[-1]) == ("bless: mlp", '"', '"')
    assert len(said.splitlines()) == 1
    assert [line.partition(": ")[0] for line in trailers.splitlines()] == [
        "Perfgate-Run",
        "Perfgate-Runner",
        "Blessed-by",
    ]
    assert not any(word in said for word in ("#1", "@ada", "[skip ci]", "GH-2"))


def test_hostile_words_are_only_text_in_markdown(scene: Scene, repository: Repository) -> None:
    evil = "<img src=x> [x](https://evil.example) @octocat | closes #1"
    scene.gate(scene.result())
    found = planned(scene, repository, Wish(workload=None, reason=evil))
    branch = Branch(name="a`b|c", head_sha=scene.head)
    made = Promotion(planned=found, branch=branch, commit="c" * 40)
    error = BlessRefused(subject="mlp", fact=evil, next_step=evil)
    for text in (
        promotion_markdown(made, Context.from_env(scene.hub.env())),
        refusal_markdown(error),
    ):
        assert not any(part in text for part in ("<img", "](https://evil", "@octocat", "#1"))
