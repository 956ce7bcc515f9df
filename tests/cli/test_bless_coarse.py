"""What no gate could compare with is no baseline, unless somebody insists: runs that differ far too
much, or of which there are too few."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import pytest
from support import records
from support.cases import named
from support.project import LOOP, Project

from perfgate.model.metric import Metric
from perfgate.model.sample import Run

pytestmark = pytest.mark.behaviour

GARBAGE = (0.2, 34.0, 2.3, 28.0, 12.0)
BLESS = ("bless", "loop", "--reason", "first")


def run(step_ms: float) -> Run:
    values = {Metric.STEP_MS: step_ms, Metric.H2D_COPIES: 2}
    return records.run().model_copy(update={"processes": (records.process(values),)})


def gated(
    project: Project, steps: Sequence[float], *, commit: bool = False, settings: str = ""
) -> str:
    """What a first gate of these runs says."""
    project.gpus()
    project.patch.setenv("GIT_AUTHOR_NAME", "Ada")
    project.patch.setenv("GIT_AUTHOR_EMAIL", "ada@example.org")
    project.workload(LOOP)
    project.write(".gitignore", ".perfgate/\n__pycache__/\n.out\n.err\nbin/\n")
    if settings:
        project.write("pyproject.toml", f"[tool.perfgate]\n{settings}\n")
    if commit:
        project.commit()
    project.measures(*map(run, steps), code=[project.code()])
    return project.gate("workloads/loops.py").out


def is_blessed(project: Project) -> bool:
    return project.store.baselines.load(project.machine.slug, "loop") is not None


def test_a_first_gate_shows_how_far_its_runs_lie_apart(project: Project) -> None:
    out = gated(project, GARBAGE)
    line = next(line for line in out.splitlines() if line.split()[:1] == ["step_ms"])
    assert {"12.00", "0.2000", "34.00"} <= set(line.split())


@pytest.mark.parametrize(
    ("commit", "settings", "hold", "blessed"),
    named(
        {
            "no commit": (False, "", (), False),
            "somebody insists": (False, "", ("--hold", "auto"), True),
            "its commit can be run again": (True, "", (), True),
            "ab_run off": (True, 'ab_run = "off"', (), False),
            "no room for pairs": (True, "max_runs = 5", (), False),
        }
    ),
)
def test_garbage_is_no_baseline_where_nobody_can_run_it_again(
    project: Project, commit: bool, settings: str, hold: tuple[str, ...], blessed: bool
) -> None:
    gated(project, GARBAGE, commit=commit, settings=settings)
    seen = project.perfgate(*BLESS, *hold)
    assert (seen.status == 0, is_blessed(project)) == (blessed, blessed)


def test_nor_is_it_with_uncommitted_changes(project: Project) -> None:
    gated(project, (10.0, 10.1, 9.9, 10.0, 10.0), commit=True)
    project.write("model.py", "width = 2\n")
    project.git("add", "model.py")
    project.measures(*map(run, GARBAGE), code=[project.code()])
    project.gate("workloads/loops.py")
    assert project.perfgate(*BLESS).status != 0
    assert not is_blessed(project)


# Held budgets

ROUGH = (10.0, 10.15, 9.87, 10.1, 9.92)


def held(project: Project, *options: str) -> float:
    """What a baseline of rough runs holds of step_ms, as a fraction."""
    gated(project, ROUGH)
    assert project.perfgate(*BLESS, *options).status == 0
    baseline = project.store.baselines.load(project.machine.slug, "loop")
    assert baseline is not None
    return baseline.held.get(Metric.STEP_MS, 0.0)


def test_what_cannot_be_held_is_said_and_written_only_at_ones_word(project: Project) -> None:
    assert held(project) == 0.0
    wide = held(project, "--hold", "auto")
    assert 0.1 < wide < 1
    assert (
        f"step_ms {100 * wide:.1f}".rstrip("0").rstrip(".") in project.perfgate("show", "loop").out
    )


@pytest.mark.parametrize("hold", ["0%", "100%", "-3", "8", "wide", "nan"])
def test_what_is_no_budget_is_refused(project: Project, hold: str) -> None:
    gated(project, ROUGH)
    assert project.perfgate(*BLESS, "--hold", hold).status == 2
    assert not is_blessed(project)


@pytest.mark.parametrize(
    ("hold", "budget"),
    [((), 0.0), (("--hold", "60%"), 0.6), (("--hold", "0.6"), 0.6)],
    ids=["budget", "held", "as a fraction"],
)
def test_a_gate_is_held_to_what_is_written(
    project: Project, hold: tuple[str, ...], budget: float
) -> None:
    assert held(project, *hold) == pytest.approx(budget)
    project.measures(*(run(1.15 * step_ms) for step_ms in ROUGH), code=[project.code()])
    assert (project.gate("workloads/loops.py").status == 0) is (budget > 0.15)


# Too few runs


def test_what_bless_names_lets_it_be_blessed(here: Project) -> None:
    here.bless(here.baseline())
    here.measures(records.run({Metric.H2D_COPIES: 9}), code=[here.code()])
    here.gate("workloads/loops.py")
    words = ("loop", "--accept-regression", "--reason", "it's meant")
    refused = here.perfgate("bless", *words, columns=400)
    assert refused.status == 22
    named = [
        line.partition(": ")[2]
        for line in refused.err.splitlines()
        if ": pytest " in line or ": perfgate bl" in line
    ]
    measure, bless = (shlex.split(line) for line in named[-2:])
    here.pytest(*measure[1:])
    seen = here.perfgate(*bless[1:])
    assert seen.status == 0, seen.err
    made = here.store.baselines.load("nvidia-h200", "loop")
    assert made is not None
    assert len(made.runs) >= 5
    assert made.blessing.reason == "it's meant"
