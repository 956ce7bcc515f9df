"""`perfgate history`: what a user sees of a project in git, from wherever in it, and where there is
none."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from support import records
from support.project import Project, Seen
from syrupy.assertion import SnapshotAssertion

from perfgate.model.history import History
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Metric
from perfgate.store import baseline_text


class Blessed:
    """A project in git, in which baselines are blessed a day apart."""

    def __init__(self, project: Project) -> None:
        self.project = project
        for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
            project.patch.setenv(name, "/dev/null")
        project.patch.setenv("GIT_CEILING_DIRECTORIES", str(project.root.parent))
        self._days = 0

    def put(
        self, step_ms: float, reason: str, *, name: str = "loop", on: Machine | None = None
    ) -> Path:
        self._days += 1
        run = {Metric.STEP_MS: step_ms, Metric.KERNEL_MS: step_ms * 0.75}
        at = records.NOON + timedelta(days=self._days)
        made = records.baseline([run] * 5, name=name, on=on, at=at, reason=reason)
        return self.project.write(f"baselines/{made.machine.slug}/{name}.json", baseline_text(made))

    def bless(
        self, step_ms: float, reason: str, *, name: str = "loop", on: Machine | None = None
    ) -> None:
        self.put(step_ms, reason, name=name, on=on)
        self.project.commit(f"bless: {reason}")

    def history(self, *words: str, columns: int = 100) -> Seen:
        return self.project.perfgate("history", "loop", *words, columns=columns)

    def alike(self, text: str) -> str:
        """Make commits the same on every day: each is its number in the history, as often as it is
        long."""
        shas = self.project.git("rev-list", "--reverse", "HEAD").splitlines()
        for number, sha in enumerate(shas):
            for length in (40, 12, 8):
                text = text.replace(sha[:length], str(number % 10) * length)
        return text


@pytest.fixture
def blessed(here: Project) -> Blessed:
    made = Blessed(here)
    here.write(".gitignore", ".out\n.err\n.perfgate/\n__pycache__/\n")
    here.commit()
    return made


def story(blessed: Blessed) -> None:
    """Bless on two machines, delete, bless anew, and leave one uncommitted."""
    blessed.bless(12.0, "first H200 baseline")
    blessed.bless(50.0, "first L4 baseline", on=records.machine("NVIDIA L4"))
    blessed.bless(12.6, "the tokenizer was replaced by one that is slower, and right")
    blessed.project.git("rm", "--quiet", "baselines/nvidia-h200/loop.json")
    blessed.project.commit("loop is no longer measured")
    blessed.bless(11.4, "fused loss")
    blessed.project.write("baselines/nvidia-h200/loop.json", "<<<<<<< ours\n{\n")
    blessed.project.commit("merge")
    blessed.bless(11.5, "mended")
    blessed.put(11.7, "newer torch")


def test_a_story_at_80_columns(blessed: Blessed, snapshot: SnapshotAssertion) -> None:
    story(blessed)
    seen = blessed.history(columns=80)
    assert (seen.status, seen.err) == (0, "")
    today = r"\d{4}-\d\d-\d\d(?= +Ada +[46]{8} )"
    assert re.sub(today, "THEN      ", blessed.alike(seen.out)) == snapshot


@pytest.mark.parametrize("metric", [Metric.KERNEL_MS, Metric.SYNCS])
def test_any_metric_can_be_asked_for(blessed: Blessed, metric: Metric) -> None:
    blessed.bless(12.0, "first")
    seen = blessed.history("--metric", metric.value)
    assert seen.status == 0
    assert f" {metric.value} " in seen.out
    # Of a metric that no version has the row is there, and says so.
    assert (" none " in seen.out) is (metric not in records.VALUES)


def test_an_unknown_metric_is_a_usage_error_that_names_all(blessed: Blessed) -> None:
    seen = blessed.history("--metric", "steps")
    assert seen.status == 2
    assert all(f"'{metric}'" in seen.err for metric in METRICS)


def test_json_is_the_same_as_a_document(blessed: Blessed) -> None:
    story(blessed)
    seen = blessed.history("--json")
    assert (seen.status, seen.err) == (0, "")
    history = History.model_validate_json(seen.out)
    assert (history.format, history.workload, history.metric) == (2, "loop", Metric.STEP_MS)
    assert {one.slug: [version.state for version in one.versions] for one in history.machines} == {
        "nvidia-l4": ["blessed"],
        "nvidia-h200": [
            "blessed",
            "blessed",
            "deleted",
            "blessed",
            "unreadable",
            "blessed",
            "blessed",
        ],
    }


def test_without_a_repository_or_git_there_is_no_history(here: Project, tmp_path: Path) -> None:
    made = Blessed(here)
    made.put(12.0, "first")
    seen = made.history()
    assert (seen.status, seen.out) == (25, "")
    here.commit()
    assert made.history().status == 0
    here.patch.setenv("PATH", str(tmp_path))
    seen = made.history()
    assert seen.status == 25


def test_what_bless_writes_is_the_last_point(blessed: Blessed) -> None:
    project = blessed.project
    project.measures(*records.runs(), code=[project.code()])
    project.gate()
    assert project.perfgate("bless", "--reason", "measured here").status == 0
    seen = blessed.history(columns=200)
    assert (seen.status, seen.err) == (0, "")
    (row,) = [line for line in seen.out.splitlines() if line.endswith("measured here")]
    assert "none yet" in row
    assert "12.34" in row
