"""The baselines of a workload through the history of real repositories: what is followed, and what
is a row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from support import records
from support.refused import refused
from support.repository import Repository

from perfgate.model.baseline import Anchor, Baseline, Blessing, Spread
from perfgate.model.errors import BaselineMissing
from perfgate.model.history import History, MachineHistory
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.store import Store, baseline_text, file_name
from perfgate.views.history import points, read_history

H200 = records.machine()


class Scene(Repository):
    """A repository in which baselines are blessed, a day apart."""

    def __init__(self, top: Path, *, within: str = ".", baselines: str = "baselines") -> None:
        super().__init__(top, within=within)
        self.baselines = baselines
        self.days = 0
        self.commit({"pyproject.toml": ""})

    def baseline(
        self,
        step_ms: float,
        reason: str = "faster",
        *,
        on: Machine = H200,
        name: str = "mlp",
        values: Mapping[Metric, float] | None = None,
        anchor: Anchor | None = None,
    ) -> Baseline:
        """Make a baseline of five like runs, blessed a day after the one made before."""
        self.days += 1
        run = {Metric.STEP_MS: step_ms, **(values or {})}
        at = records.NOON + timedelta(days=self.days)
        return records.baseline([run] * 5, name=name, on=on, at=at, reason=reason, anchor=anchor)

    def path(self, *, on: Machine = H200, name: str = "mlp") -> str:
        """Where a baseline lies, from the project's root."""
        return f"{self.baselines}/{on.slug}/{file_name(name)}.json"

    def put(self, baseline: Baseline) -> Path:
        """Write a baseline, and leave it uncommitted."""
        path = self.path(on=baseline.machine, name=baseline.workload)
        self.write({path: baseline_text(baseline)})
        return self.root / path

    def bless(
        self, step_ms: float, reason: str = "faster", *, on: Machine = H200, name: str = "mlp"
    ) -> str:
        """Commit a baseline; return the SHA."""
        self.put(self.baseline(step_ms, reason, on=on, name=name))
        return self.commit()

    def history(
        self, workload: str = "mlp", metric: Metric = Metric.STEP_MS, *, root: Path | None = None
    ) -> History:
        store = Store(root or self.root, self.baselines)
        return read_history(store, workload, metric)

    def machine(self, workload: str = "mlp", metric: Metric = Metric.STEP_MS) -> MachineHistory:
        """The history on the only machine."""
        (machine,) = self.history(workload, metric).machines
        return machine


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "project")


def steps(machine: MachineHistory) -> list[float | None]:
    return [version.values.get(Metric.STEP_MS) for version in machine.versions]


def states(machine: MachineHistory) -> list[str]:
    return [version.state for version in machine.versions]


def test_changes_are_those_of_the_metric_that_is_asked_for(scene: Scene) -> None:
    anchor = Anchor(step_ms=8.0, at=records.NOON)
    scene.put(scene.baseline(10.0, values={Metric.GAP_MS: 1.0, Metric.SYNCS: 0}))
    scene.commit()
    scene.put(scene.baseline(20.0, values={Metric.GAP_MS: 1.5, Metric.SYNCS: 2}, anchor=anchor))
    scene.commit()
    assert scene.machine(metric=Metric.STEP_MS).versions[-1].change == pytest.approx(1.0)
    # gap_ms is judged as a share of the step before.
    assert scene.machine(metric=Metric.GAP_MS).versions[-1].change == pytest.approx(0.05)
    for metric in (Metric.SYNCS, Metric.NCCL_MS):  # of 0, and not measured
        last = scene.machine(metric=metric).versions[-1]
        assert last.change is None
        assert last.since_anchor == pytest.approx(1.5)


def test_another_nsys_or_other_parameters_are_named(scene: Scene) -> None:
    scene.put(scene.baseline(12.0, on=records.machine(nsys="2023.4.4")))
    scene.commit()
    later = scene.baseline(12.0)
    scene.put(later.model_copy(update={"parameters": {**later.parameters, "steps": "60"}}))
    scene.commit()
    machine = scene.machine()
    assert [dict(one.fields) for one in machine.versions[-1].unlike] == [
        {"name": "nsys", "then": "2023.4.4", "now": "2024.2.3"},
        {"name": "steps", "then": "30", "now": "60"},
    ]
    assert [point.joined for point in points(machine)] == [False, False]


def test_a_calibration_is_no_row_and_an_added_occasion_is_one(scene: Scene) -> None:
    made = scene.baseline(12.0)
    scene.put(made)
    scene.commit()
    spread = Spread(run_sd=0.004, occasion_sd=0.003, runs=20, at=records.NOON)
    made = made.model_copy(update={"calibration": {Metric.STEP_MS: spread}})
    scene.put(made)
    scene.commit()
    assert states(scene.machine()) == ["blessed"]
    (first,) = made.occasions
    added = Blessing(by="perfgate", at=records.NOON + timedelta(days=3), reason="weekly")
    later = first.measured_at + timedelta(days=2)
    occasion = first.model_copy(update={"measured_at": later, "added": added})
    scene.put(made.model_copy(update={"occasions": (first, occasion)}))
    scene.commit()
    machine = scene.machine()
    rows = [(one.state, one.by, one.reason, one.runs) for one in machine.versions[1:]]
    assert rows == [("blessed", "perfgate", "weekly", 10)]


def test_deletions_and_reverts_are_rows_and_a_deletion_ends_the_line(scene: Scene) -> None:
    scene.bless(12.0, "first")
    scene.bless(13.0, "second")
    scene.git("revert", "--no-edit", "HEAD")
    scene.git("rm", "--quiet", scene.path())
    gone = scene.commit()
    scene.git("revert", "--no-edit", "HEAD")
    machine = scene.machine()
    assert steps(machine) == [12.0, 13.0, 12.0, None, 12.0]
    assert (machine.versions[3].state, machine.versions[3].commit) == ("deleted", gone)
    assert [(point.value, point.joined, point.reason) for point in points(machine)] == [
        (12.0, False, "first"),
        (13.0, True, "second"),
        (12.0, True, "first"),
        (12.0, False, "first"),
    ]


def test_what_is_not_committed_is_the_last_row(scene: Scene) -> None:
    scene.bless(12.0)
    path = scene.put(scene.baseline(12.6, "not yet committed"))
    machine = scene.machine()
    assert [one.commit is None for one in machine.versions] == [False, True]
    assert machine.versions[-1].change == pytest.approx(0.05)
    path.unlink()
    assert states(scene.machine()) == ["blessed", "deleted"]


def branch(scene: Scene, name: str) -> None:
    scene.git("checkout", "--quiet", "-b", name)


def test_a_blessing_on_a_merged_branch_is_its_own_commit(scene: Scene) -> None:
    scene.bless(12.0)
    branch(scene, "feature")
    blessed = scene.bless(11.0)
    scene.git("checkout", "--quiet", "main")
    scene.commit({"train.py": "pass\n"})
    scene.git("merge", "--quiet", "--no-ff", "--no-edit", "feature")
    machine = scene.machine()
    assert steps(machine) == [12.0, 11.0]
    assert machine.versions[-1].commit == blessed


def test_what_a_merge_dropped_is_no_row(scene: Scene) -> None:
    scene.bless(12.0)
    branch(scene, "feature")
    scene.bless(11.0, "on the feature")
    scene.git("checkout", "--quiet", "main")
    scene.bless(13.0, "on main")
    scene.git("merge", "--quiet", "--no-edit", "--strategy=ours", "feature")
    assert steps(scene.machine()) == [12.0, 13.0]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "baseline-broken"),
        ('{"format": 9}', "baseline-other-format"),
        ("{}", "baseline-other-format"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:ab\n", "baseline-lfs-pointer"),
    ],
)
def test_a_version_that_is_no_baseline_is_a_row_with_its_reason(
    scene: Scene, text: str, code: str
) -> None:
    scene.bless(12.0)
    broken = scene.commit({scene.path(): text})
    scene.bless(13.0)
    machine = scene.machine()
    assert states(machine) == ["blessed", "unreadable", "blessed"]
    assert machine.versions[1].commit == broken
    assert machine.versions[1].why is not None
    assert machine.versions[1].why.code == code
    # The blessing after it is compared with the last that could be read.
    assert machine.versions[2].change == pytest.approx(1 / 12)
    assert [point.joined for point in points(machine)] == [False, False]


def test_a_shallow_clone_says_that_it_is_one(scene: Scene, tmp_path: Path) -> None:
    for step_ms in (12.0, 13.0, 14.0):
        scene.bless(step_ms)
    scene.git("clone", "--quiet", "--depth=2", scene.top.as_uri(), str(tmp_path / "shallow"))
    history = scene.history(root=tmp_path / "shallow")
    assert history.shallow
    assert steps(history.machines[0]) == [13.0, 14.0]
    with refused(BaselineMissing, "history-shallow"):
        scene.history("gone", root=tmp_path / "shallow")


def test_a_workload_that_never_had_a_baseline_is_refused_with_those_there_are(scene: Scene) -> None:
    with refused(BaselineMissing, "baselines-none"):
        scene.history()
    scene.bless(12.0, name="mlp[4-64]")
    with pytest.raises(BaselineMissing) as caught:
        scene.history()
    assert (caught.value.code, caught.value.fields["known"]) == ("baseline-unknown", ("mlp[4-64]",))


@pytest.mark.parametrize("name", ["mlp[4-64]", "a/b", "*", "ünï", "x" * 300])
def test_any_workload_has_its_own_file(scene: Scene, name: str) -> None:
    scene.bless(12.0, name="mlp4")
    scene.bless(13.0, name=name)
    scene.bless(14.0, name=name)
    assert steps(scene.machine(name)) == [13.0, 14.0]


@pytest.mark.parametrize("baselines", ["baselines", "perf/[odd]* folder", "../shared"])
def test_a_project_within_a_monorepo_is_found_wherever_its_baselines_lie(
    tmp_path: Path, baselines: str
) -> None:
    scene = Scene(tmp_path / "mono", within="services/train", baselines=baselines)
    scene.bless(12.0)
    scene.bless(13.0)
    scene.put(scene.baseline(14.0))
    assert steps(scene.machine()) == [12.0, 13.0, 14.0]
