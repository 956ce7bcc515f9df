"""The baselines of a workload through the history of real repositories: what is followed, told and left out."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support import records
from support.repository import Repository

from perfgate.model.baseline import Anchor, Baseline, Blessing, Occasion, Spread
from perfgate.model.errors import BaselineMissing, RepositoryUnreadable
from perfgate.model.history import Creation, History, MachineHistory, Version, VersionKind, points
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Metric
from perfgate.store import baseline_text, file_name
from perfgate.views.history import FoundHistory, read_history

H200 = records.machine()
L4 = records.machine("NVIDIA L4")


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

    def found(
        self, workload: str = "mlp", metric: Metric = Metric.STEP_MS, *, root: Path | None = None
    ) -> FoundHistory:
        return read_history(root or self.root, self.baselines, workload, metric, env=self.env)

    def history(
        self, workload: str = "mlp", metric: Metric = Metric.STEP_MS, *, root: Path | None = None
    ) -> History:
        found = self.found(workload, metric, root=root)
        assert found.trouble is None
        return found.history

    def machine(self, workload: str = "mlp", metric: Metric = Metric.STEP_MS) -> MachineHistory:
        """The history on the only machine."""
        (machine,) = self.history(workload, metric).machines
        return machine


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "project")


def steps(machine: MachineHistory) -> list[float | None]:
    return [version.values.get(Metric.STEP_MS) for version in machine.versions]


def kinds(machine: MachineHistory) -> list[VersionKind]:
    return [version.kind for version in machine.versions]


def faults(machine: MachineHistory) -> list[str]:
    return [version.fault for version in machine.versions]


BLESSED, RECREATED, RESTORED = VersionKind.BLESSED, VersionKind.RECREATED, VersionKind.RESTORED
REWRITTEN, MOVED, DELETED = VersionKind.REWRITTEN, VersionKind.MOVED, VersionKind.DELETED
EXTENDED = VersionKind.EXTENDED
UNREADABLE = VersionKind.UNREADABLE


# One line


def test_each_blessing_is_told_newest_last(scene: Scene) -> None:
    shas = [
        scene.bless(12.0, "first"),
        scene.bless(11.4, "fused the loss"),
        scene.bless(11.97, "new tokenizer"),
    ]
    scene.commit({"train.py": "pass\n"})
    machine = scene.machine()
    assert (machine.slug, machine.gpu, machine.file) == (
        "nvidia-h200",
        "NVIDIA H200",
        "baselines/nvidia-h200/mlp.json",
    )
    assert [version.commit for version in machine.versions] == shas
    assert kinds(machine) == [BLESSED] * 3
    assert [v.blessing and v.blessing.reason for v in machine.versions] == [
        "first",
        "fused the loss",
        "new tokenizer",
    ]
    assert [v.change for v in machine.versions] == [None, pytest.approx(-0.05), pytest.approx(0.05)]
    assert [v.since_first for v in machine.versions] == [
        None,
        pytest.approx(-0.05),
        pytest.approx(-0.0025),
    ]
    assert [(v.before, v.first) for v in machine.versions] == [
        (None, None),
        (12.0, 12.0),
        (11.4, 12.0),
    ]
    last = machine.versions[-1]
    assert (last.author, last.subject, last.runs, last.occasions) == (
        "Ada <ada@example.org>",
        "a commit",
        5,
        1,
    )
    assert (last.path, last.merge, last.at_cut) == ("baselines/nvidia-h200/mlp.json", False, False)
    assert last.at is not None
    assert abs(last.at - datetime.now(UTC)) < timedelta(minutes=5)


def test_the_document_names_what_is_checked_out(scene: Scene) -> None:
    sha = scene.bless(12.0)
    history = scene.history()
    assert (history.commit, history.branch, history.shallow, history.trouble) == (
        sha,
        "main",
        False,
        "",
    )
    scene.git("checkout", "--quiet", "--detach")
    assert scene.history().branch is None


def test_changes_are_those_of_the_metric_that_is_asked_for(scene: Scene) -> None:
    scene.put(scene.baseline(10.0, values={Metric.GAP_MS: 1.0, Metric.SYNCS: 0}))
    scene.commit()
    scene.put(scene.baseline(20.0, values={Metric.GAP_MS: 1.5, Metric.SYNCS: 2}))
    scene.commit()
    assert scene.machine(metric=Metric.STEP_MS).versions[-1].change == pytest.approx(1.0)
    # gap_ms is judged as a share of the step before.
    assert scene.machine(metric=Metric.GAP_MS).versions[-1].change == pytest.approx(0.05)
    syncs = scene.machine(metric=Metric.SYNCS).versions[-1]
    assert (syncs.before, syncs.values[Metric.SYNCS], syncs.change) == (0, 2, None)
    absent = scene.machine(metric=Metric.NCCL_MS).versions[-1]
    assert (absent.before, absent.change, absent.first, absent.since_first) == (
        None,
        None,
        None,
        None,
    )
    assert Metric.NCCL_MS not in absent.values


def test_the_anchor_is_that_of_each_baseline_and_of_step_ms_only(scene: Scene) -> None:
    scene.put(scene.baseline(10.4, anchor=Anchor(step_ms=10.0, at=records.NOON)))
    scene.commit()
    assert scene.machine().versions[0].anchor_ms == 10.0
    assert scene.machine().versions[0].since_anchor == pytest.approx(0.04)
    assert scene.machine(metric=Metric.KERNEL_MS).versions[0].since_anchor is None


def test_medians_are_over_all_runs_of_all_occasions(scene: Scene) -> None:
    runs = [[{Metric.STEP_MS: 9.0}, {Metric.STEP_MS: 10.0}], [{Metric.STEP_MS: 14.0}]]
    scene.put(records.baseline(*runs))
    scene.commit()
    (version,) = scene.machine().versions
    assert (version.values[Metric.STEP_MS], version.runs, version.occasions) == (10.0, 3, 2)
    assert list(version.values) == [metric for metric in METRICS if metric in records.VALUES]


def test_another_nsys_or_other_parameters_are_named(scene: Scene) -> None:
    scene.put(scene.baseline(12.0, on=records.machine(nsys="2023.4.4")))
    scene.commit()
    later = scene.baseline(12.0)
    scene.put(later.model_copy(update={"parameters": {**later.parameters, "steps": "60"}}))
    scene.commit()
    scene.bless(12.0)
    assert [version.unlike for version in scene.machine().versions] == [
        (),
        ("nsys 2023.4.4, then 2024.2.3", "steps 30, then 60"),
        ("steps 60, then 30",),
    ]
    assert [version.unlike_first for version in scene.machine().versions][2] == (
        "nsys 2023.4.4, then 2024.2.3",
    )


# What is no blessing


def test_a_calibration_is_a_rewriting_and_no_point(scene: Scene) -> None:
    made = scene.baseline(12.0)
    scene.put(made)
    scene.commit()
    spread = Spread(run_sd=0.004, occasion_sd=0.003, runs=20, at=records.NOON)
    scene.put(made.model_copy(update={"calibration": {Metric.STEP_MS: spread}}))
    scene.commit()
    machine = scene.machine()
    assert kinds(machine) == [BLESSED, REWRITTEN]
    assert [point.value for point in points(machine, Metric.STEP_MS)] == [12.0]


def test_an_added_occasion_is_told_with_who_added_it_and_no_point(scene: Scene) -> None:
    made = scene.baseline(12.0)
    scene.put(made)
    scene.commit()
    (first,) = made.occasions
    added = Blessing(
        by="perfgate", at=records.NOON + timedelta(days=3), reason="the weekly occasion"
    )
    later = first.model_copy(
        update={"measured_at": first.measured_at + timedelta(days=2), "added": added}
    )
    scene.put(made.model_copy(update={"occasions": (first, later)}))
    scene.commit()
    machine = scene.machine()
    assert kinds(machine) == [BLESSED, EXTENDED]
    assert [version.added for version in machine.versions] == [(), (added,)]
    assert (machine.versions[-1].runs, machine.versions[-1].occasions) == (10, 2)
    assert [point.value for point in points(machine, Metric.STEP_MS)] == [12.0]
    scene.put(made)
    scene.commit()
    assert kinds(scene.machine()) == [BLESSED, EXTENDED, RESTORED]


def test_the_revert_of_an_occasion_that_left_out_another_is_none(scene: Scene) -> None:
    made = scene.baseline(12.0)
    (first,) = made.occasions

    def later(days: int) -> Occasion:
        added = Blessing(
            by="perfgate", at=records.NOON + timedelta(days=days, hours=1), reason=f"day {days}"
        )
        return first.model_copy(
            update={"measured_at": first.measured_at + timedelta(days=days), "added": added}
        )

    for occasions in ([first, later(1)], [first, later(1), later(2)], [first, later(2), later(3)]):
        scene.put(made.model_copy(update={"occasions": tuple(occasions)}))
        scene.commit()
    assert kinds(scene.machine()) == [BLESSED, EXTENDED, EXTENDED]
    scene.put(made.model_copy(update={"occasions": (first, later(1), later(2))}))
    scene.commit()
    assert kinds(scene.machine()) == [BLESSED, EXTENDED, EXTENDED, RESTORED]


def test_other_runs_under_an_old_blessing_are_no_rewriting(scene: Scene) -> None:
    made = scene.baseline(12.0)
    scene.put(made)
    scene.commit()
    occasions = records.baseline([{Metric.STEP_MS: 11.0}] * 5).occasions
    scene.put(made.model_copy(update={"occasions": occasions}))
    scene.commit()
    assert kinds(scene.machine()) == [BLESSED, RESTORED]
    assert [point.value for point in points(scene.machine(), Metric.STEP_MS)] == [12.0, 11.0]


def test_deletion_and_re_creation_are_told(scene: Scene) -> None:
    scene.bless(12.0)
    scene.git("rm", "--quiet", scene.path())
    gone = scene.commit()
    scene.bless(13.0, "again")
    machine = scene.machine()
    assert kinds(machine) == [BLESSED, DELETED, RECREATED]
    assert (machine.versions[1].commit, machine.versions[1].author) == (
        gone,
        "Ada <ada@example.org>",
    )
    assert machine.versions[2].change == pytest.approx(1 / 12)
    assert [point.joined for point in points(machine, Metric.STEP_MS)] == [False, False]


def test_a_baseline_that_is_gone_for_good_ends_in_its_deletion(scene: Scene) -> None:
    scene.bless(12.0)
    scene.git("rm", "--quiet", scene.path())
    scene.commit()
    assert kinds(scene.machine()) == [BLESSED, DELETED]


def test_a_revert_restores_an_old_blessing(scene: Scene) -> None:
    scene.bless(12.0, "first")
    scene.bless(13.0, "second")
    scene.git("revert", "--no-edit", "HEAD")
    scene.git("rm", "--quiet", scene.path())
    scene.commit()
    scene.git("revert", "--no-edit", "HEAD")
    machine = scene.machine()
    assert kinds(machine) == [BLESSED, BLESSED, RESTORED, DELETED, RESTORED]
    assert steps(machine) == [12.0, 13.0, 12.0, None, 12.0]
    told = points(machine, Metric.STEP_MS)
    assert [(point.value, point.joined, point.reason) for point in told] == [
        (12.0, False, "first"),
        (13.0, True, "second"),
        (12.0, True, "first"),
        (12.0, False, "first"),
    ]


# The working tree


def test_an_uncommitted_baseline_is_the_last_point(scene: Scene) -> None:
    scene.bless(12.0)
    scene.put(scene.baseline(12.6, "not yet committed"))
    machine = scene.machine()
    assert [(v.kind, v.commit is None) for v in machine.versions] == [
        (BLESSED, False),
        (BLESSED, True),
    ]
    assert machine.versions[-1].change == pytest.approx(0.05)
    assert points(machine, Metric.STEP_MS)[-1].commit is None
    scene.git("add", "--all")
    assert [v.commit is None for v in scene.machine().versions] == [False, True]


def test_an_uncommitted_calibration_is_told_as_what_it_is(scene: Scene) -> None:
    made = scene.baseline(12.0)
    scene.put(made)
    scene.commit()
    spread = Spread(run_sd=0.004, occasion_sd=0.003, runs=20, at=records.NOON)
    scene.put(made.model_copy(update={"calibration": {Metric.STEP_MS: spread}}))
    machine = scene.machine()
    assert [(v.kind, v.commit is None) for v in machine.versions] == [
        (BLESSED, False),
        (REWRITTEN, True),
    ]


def test_a_file_that_only_looks_otherwise_is_no_version(scene: Scene) -> None:
    made = scene.baseline(12.0)
    scene.put(made)
    scene.commit()
    path = scene.root / scene.path()
    path.write_bytes(json.dumps(json.loads(path.read_text())).encode() + b"\r\n")
    assert kinds(scene.machine()) == [BLESSED]


def test_an_uncommitted_deletion_is_told(scene: Scene) -> None:
    scene.bless(12.0)
    (scene.root / scene.path()).unlink()
    last = scene.machine().versions[-1]
    assert (last.kind, last.commit, last.at) == (DELETED, None, None)


def test_an_uncommitted_wreck_is_told(scene: Scene) -> None:
    scene.bless(12.0)
    (scene.root / scene.path()).write_text("{")
    last = scene.machine().versions[-1]
    assert (last.kind, last.commit) == (UNREADABLE, None)
    assert last.fault.startswith("the baseline is broken: its JSON ends too early")


def test_a_first_baseline_before_any_commit_is_a_history_of_one(tmp_path: Path) -> None:
    scene = Scene.__new__(Scene)
    Repository.__init__(scene, tmp_path / "fresh")
    scene.baselines, scene.days = "baselines", 0
    scene.put(scene.baseline(12.0))
    assert [(v.kind, v.commit) for v in scene.machine().versions] == [(BLESSED, None)]
    assert scene.history().commit is None


def test_ignored_baselines_are_uncommitted_ones(scene: Scene) -> None:
    scene.commit({".gitignore": "baselines/\n"})
    scene.put(scene.baseline(12.0))
    assert [(v.kind, v.commit) for v in scene.machine().versions] == [(BLESSED, None)]


# Machines


def test_the_machine_with_the_newest_version_is_last(scene: Scene) -> None:
    scene.env = {**scene.env, "GIT_AUTHOR_DATE": "2026-03-05T12:00:00Z"}
    scene.bless(12.0)
    scene.env = {**scene.env, "GIT_AUTHOR_DATE": "2026-03-04T12:00:00Z"}
    scene.bless(50.0, on=L4)
    assert [machine.slug for machine in scene.history().machines] == ["nvidia-l4", "nvidia-h200"]
    scene.put(scene.baseline(51.0, on=L4))
    assert [machine.slug for machine in scene.history().machines] == ["nvidia-h200", "nvidia-l4"]


def test_a_second_machine_does_not_continue_with_the_history_of_the_first(scene: Scene) -> None:
    scene.bless(12.0)
    scene.bless(13.0)
    scene.bless(13.5, on=L4)
    # What git's own following takes the new file for, and why it is not used.
    followed = scene.git("log", "--follow", "--format=", "--name-status", "--", scene.path(on=L4))
    assert scene.path() in followed
    h200, l4 = scene.history().machines
    assert (steps(h200), steps(l4)) == ([12.0, 13.0], [13.5])


def test_a_machine_whose_baseline_is_deleted_is_still_told(scene: Scene) -> None:
    scene.bless(12.0)
    scene.bless(50.0, on=L4)
    scene.git("rm", "--quiet", scene.path(on=L4))
    scene.commit()
    assert {machine.slug: kinds(machine) for machine in scene.history().machines} == {
        "nvidia-h200": [BLESSED],
        "nvidia-l4": [BLESSED, DELETED],
    }


# Moves


def move(scene: Scene, old: str, new: str, *, also: Mapping[str, str] | None = None) -> str:
    (scene.root / new).parent.mkdir(parents=True, exist_ok=True)
    scene.git("mv", old, new, cwd=scene.root)
    return scene.commit(also)


def test_a_renamed_folder_is_followed_for_every_machine(scene: Scene) -> None:
    for step_ms, on in ((12.0, H200), (50.0, L4), (13.0, H200)):
        scene.bless(step_ms, on=on)
    moved = move(scene, "baselines", "perf/blessed")
    scene.baselines = "perf/blessed"
    scene.bless(14.0)
    by = {machine.slug: machine for machine in scene.history().machines}
    assert steps(by["nvidia-h200"]) == [12.0, 13.0, 13.0, 14.0]
    assert kinds(by["nvidia-h200"]) == [BLESSED, BLESSED, MOVED, BLESSED]
    assert kinds(by["nvidia-l4"]) == [BLESSED, MOVED]
    version = by["nvidia-h200"].versions[2]
    assert (version.commit, version.path, version.moved_from) == (
        moved,
        "perf/blessed/nvidia-h200/mlp.json",
        "baselines/nvidia-h200/mlp.json",
    )
    assert version.change == 0
    assert [point.value for point in points(by["nvidia-h200"], Metric.STEP_MS)] == [
        12.0,
        13.0,
        14.0,
    ]
    assert by["nvidia-h200"].file == "perf/blessed/nvidia-h200/mlp.json"


def test_a_move_with_a_blessing_in_it_is_followed(scene: Scene) -> None:
    scene.bless(12.0)
    scene.git("mv", "baselines", "blessed")
    scene.baselines = "blessed"
    scene.bless(13.0)
    machine = scene.machine()
    assert kinds(machine) == [BLESSED, BLESSED]
    assert machine.versions[-1].moved_from == "baselines/nvidia-h200/mlp.json"
    assert machine.versions[-1].change == pytest.approx(1 / 12)


def test_a_folder_that_went_and_came_back_is_told_once(scene: Scene) -> None:
    scene.bless(12.0)
    move(scene, "baselines", "perf")
    scene.baselines = "perf"
    scene.bless(13.0)
    move(scene, "perf", "baselines")
    scene.baselines = "baselines"
    scene.bless(14.0)
    machine = scene.machine()
    assert kinds(machine) == [BLESSED, MOVED, BLESSED, MOVED, BLESSED]
    assert steps(machine) == [12.0, 12.0, 13.0, 13.0, 14.0]


def test_a_renamed_machine_folder_is_followed_by_what_the_baseline_says(scene: Scene) -> None:
    path = scene.path()
    scene.put(scene.baseline(12.0))
    move_to = "baselines/old-slug/mlp.json"
    (scene.root / move_to).parent.mkdir(parents=True)
    (scene.root / path).rename(scene.root / move_to)
    scene.commit()
    move(scene, move_to, path)
    by = {machine.slug: machine for machine in scene.history().machines}
    assert kinds(by["nvidia-h200"]) == [BLESSED, MOVED]
    assert kinds(by["old-slug"]) == [BLESSED, DELETED]


def test_one_machine_replaced_by_another_is_two_histories(scene: Scene) -> None:
    scene.bless(12.0)
    scene.git("rm", "--quiet", scene.path())
    scene.bless(12.1, on=L4)
    assert {machine.slug: kinds(machine) for machine in scene.history().machines} == {
        "nvidia-h200": [BLESSED, DELETED],
        "nvidia-l4": [BLESSED],
    }


def test_a_renamed_workload_is_another_one_and_the_deletion_is_named(scene: Scene) -> None:
    scene.bless(12.0, name="mlp_old")
    scene.bless(30.0, name="resnet18")
    scene.git("rm", "--quiet", scene.path(name="mlp_old"))
    sha = scene.bless(12.1)
    machine = scene.machine()
    assert steps(machine) == [12.1]
    assert machine.creation == Creation(commit=sha, deleted=("mlp_old",))
    assert kinds(scene.machine("mlp_old")) == [BLESSED, DELETED]
    assert scene.machine("mlp_old").creation is None


def test_of_two_projects_that_moved_at_once_each_keeps_its_own(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "mono", within="a", baselines="baselines")
    scene.bless(12.0)
    other = json.loads((scene.root / scene.path()).read_text())
    scene.write({f"../b/{scene.path()}": json.dumps(other)})
    scene.commit()
    scene.bless(13.0)
    (scene.top / "x").mkdir()
    scene.git("mv", "a", "x/a")
    scene.git("mv", "b", "x/b")
    scene.root = scene.top / "x" / "a"
    scene.bless(14.0)
    machine = scene.machine()
    assert steps(machine) == [12.0, 13.0, 14.0]
    assert machine.versions[2].moved_from == "a/baselines/nvidia-h200/mlp.json"
    scene.root = scene.top / "x" / "b"
    machine = scene.machine()
    assert [(version.kind, version.moved_from) for version in machine.versions] == [
        (BLESSED, None),
        (MOVED, "b/baselines/nvidia-h200/mlp.json"),
    ]


# Merges


def branch(scene: Scene, name: str, start: str = "HEAD") -> None:
    scene.git("checkout", "--quiet", "-b", name, start)


def test_a_blessing_on_a_merged_branch_is_its_own_commit(scene: Scene) -> None:
    scene.bless(12.0)
    branch(scene, "feature")
    blessed = scene.bless(11.0)
    scene.git("checkout", "--quiet", "main")
    scene.commit({"train.py": "pass\n"})
    scene.git("merge", "--quiet", "--no-ff", "--no-edit", "feature")
    machine = scene.machine()
    assert steps(machine) == [12.0, 11.0]
    assert (machine.versions[-1].commit, machine.versions[-1].merge) == (blessed, False)
    assert machine.dropped == ()


def two_sides(scene: Scene) -> tuple[str, str]:
    """Two branches that each blessed, `main` checked out; return the commits of main and of the feature."""
    scene.bless(12.0)
    branch(scene, "feature")
    feature = scene.bless(11.0, "on the feature")
    scene.git("checkout", "--quiet", "main")
    return scene.bless(13.0, "on main"), feature


def test_what_a_merge_dropped_is_named_and_not_in_the_line(scene: Scene) -> None:
    _, feature = two_sides(scene)
    scene.git("merge", "--quiet", "--no-edit", "--strategy=ours", "feature")
    machine = scene.machine()
    assert steps(machine) == [12.0, 13.0]
    assert machine.dropped == (feature,)


def test_of_a_merge_that_took_the_other_side_ours_is_dropped(scene: Scene) -> None:
    main, _ = two_sides(scene)
    scene.git("merge", "--quiet", "--no-edit", "--strategy-option=theirs", "feature")
    scene.git("checkout", "feature", "--", scene.path())
    scene.git("commit", "--quiet", "--amend", "--no-edit", "--allow-empty")
    machine = scene.machine()
    assert steps(machine) == [12.0, 11.0]
    assert machine.dropped == (main,)


def test_a_blessing_picked_onto_another_branch_is_not_dropped(scene: Scene) -> None:
    scene.bless(12.0)
    branch(scene, "feature")
    picked = scene.bless(11.0)
    scene.git("checkout", "--quiet", "main")
    scene.commit({"train.py": "pass\n"})
    scene.git("cherry-pick", picked)
    scene.git("merge", "--quiet", "--no-edit", "feature")
    machine = scene.machine()
    assert (steps(machine), machine.dropped) == ([12.0, 11.0], ())


def test_a_calibration_that_a_merge_dropped_is_no_dropped_blessing(scene: Scene) -> None:
    made = scene.baseline(12.0)
    scene.put(made)
    scene.commit()
    branch(scene, "feature")
    spread = Spread(run_sd=0.004, occasion_sd=0.003, runs=20, at=records.NOON)
    scene.put(made.model_copy(update={"calibration": {Metric.STEP_MS: spread}}))
    scene.commit()
    scene.git("checkout", "--quiet", "main")
    scene.bless(13.0)
    scene.git("merge", "--quiet", "--no-edit", "--strategy=ours", "feature")
    assert scene.machine().dropped == ()


def test_a_broken_merge_is_a_row_with_its_reason_and_both_sides_are_told(scene: Scene) -> None:
    two_sides(scene)
    with pytest.raises(Exception, match="returned non-zero exit status 1"):
        scene.git("merge", "--no-edit", "feature")
    assert "<<<<<<<" in (scene.root / scene.path()).read_text()
    broken = scene.commit()
    mended = scene.bless(12.5, "measured after the merge")
    machine = scene.machine()
    assert kinds(machine) == [BLESSED, BLESSED, BLESSED, UNREADABLE, BLESSED]
    assert {*steps(machine)[1:3]} == {11.0, 13.0}
    # Each is told against what its own branch had, not against the row above it.
    assert [version.before for version in machine.versions[1:3]] == [12.0, 12.0]
    row = machine.versions[3]
    assert (row.commit, row.merge) == (broken, True)
    assert row.fault.startswith("the file holds merge-conflict markers (line ")
    assert machine.versions[4].commit == mended
    assert machine.versions[4].change is not None


def test_a_blessing_beside_a_move_is_carried_to_the_new_folder_by_the_merge(scene: Scene) -> None:
    scene.bless(12.0)
    branch(scene, "feature")
    move(scene, "baselines", "perf")
    scene.git("checkout", "--quiet", "main")
    scene.bless(13.0, "in the old folder")
    scene.git("merge", "--quiet", "--no-edit", "feature")
    scene.baselines = "perf"
    machine = scene.machine()
    assert steps(machine) == [12.0, 12.0, 13.0]
    assert kinds(machine) == [BLESSED, MOVED, BLESSED]
    assert machine.versions[-1].merge
    assert machine.versions[-1].change == pytest.approx(1 / 12)


# Versions that cannot be read


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the baseline is broken: it is empty"),
        ('{"format": 0}', "the baseline has format 0"),
        ('{"format": 9}', "the baseline has format 9"),
        ("[]", "the baseline is broken: it is not a JSON object"),
        ("{}", "the file is no baseline of perfgate"),
        (
            "version https://git-lfs.github.com/spec/v1\noid sha256:ab\n",
            "the file is a Git LFS pointer, not the bas",
        ),
        ("[" * 100_000, "the baseline is broken: it is nested too deeply"),
        ("x" * (5 << 20), "it has 5,242,880 bytes"),
    ],
)
def test_a_version_that_is_no_baseline_is_a_row_with_its_reason(
    scene: Scene, text: str, says: str
) -> None:
    scene.bless(12.0)
    broken = scene.commit({scene.path(): text})
    scene.bless(13.0)
    machine = scene.machine()
    assert kinds(machine) == [BLESSED, UNREADABLE, BLESSED]
    assert (machine.versions[1].commit, machine.versions[1].fault[: len(says)]) == (broken, says)
    # The blessing after it is told against the last that could be read.
    assert machine.versions[2].change == pytest.approx(1 / 12)
    assert [point.joined for point in points(machine, Metric.STEP_MS)] == [False, False]


def test_an_edited_baseline_and_one_of_another_workload_are_rows(scene: Scene) -> None:
    scene.commit({scene.path(): baseline_text(scene.baseline(12.0)).replace("faster", "slower")})
    scene.commit({scene.path(): baseline_text(scene.baseline(12.0, name="other"))})
    assert faults(scene.machine()) == [
        "the baseline was changed after it was blessed",
        "the baseline in it is that of other",
    ]
    assert scene.machine().gpu == "nvidia-h200"


def test_a_link_is_a_row(scene: Scene) -> None:
    scene.bless(12.0)
    path = scene.root / scene.path()
    path.unlink()
    path.symlink_to("nowhere.json")
    scene.commit()
    assert faults(scene.machine()) == ["", "it is a link or a submodule, not a file"]


def test_a_baseline_taken_back_after_a_wreck_is_restored(scene: Scene) -> None:
    scene.bless(12.0)
    scene.commit({scene.path(): "{"})
    scene.git("revert", "--no-edit", "HEAD")
    assert kinds(scene.machine()) == [BLESSED, UNREADABLE, RESTORED]


def test_a_lost_object_is_a_row(scene: Scene) -> None:
    scene.bless(12.0)
    blob = scene.git("rev-parse", f"HEAD:{scene.path()}")
    scene.bless(13.0)
    (scene.top / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    machine = scene.machine()
    assert faults(machine) == ["it is not in this clone", ""]
    assert kinds(machine) == [UNREADABLE, BLESSED]


def test_a_corrupt_object_costs_only_what_it_held(scene: Scene) -> None:
    scene.bless(12.0)
    blob = scene.git("rev-parse", f"HEAD:{scene.path()}")
    scene.bless(13.0)
    file = scene.top / ".git" / "objects" / blob[:2] / blob[2:]
    file.chmod(0o644)
    file.write_bytes(b"no object")
    machine = scene.machine()
    assert kinds(machine) == [UNREADABLE, BLESSED]
    assert steps(machine) == [None, 13.0]


def test_a_date_beyond_the_calendar_is_a_row(scene: Scene) -> None:
    made = scene.baseline(12.0)
    at = datetime.fromisoformat("0001-01-01T00:00:00+14:00")
    scene.put(made.model_copy(update={"blessing": made.blessing.model_copy(update={"at": at})}))
    scene.commit()
    assert faults(scene.machine()) == [
        "it was blessed at 0001-01-01T00:00:00+14:00, which is no date"
    ]


# Where there is less


def test_a_shallow_clone_says_where_it_is_cut(scene: Scene, tmp_path: Path) -> None:
    scene.bless(12.0)
    scene.bless(13.0)
    scene.commit({"train.py": "pass\n"})
    scene.bless(14.0)
    scene.git("clone", "--quiet", "--depth=2", scene.top.as_uri(), str(tmp_path / "shallow"))
    history = scene.history(root=tmp_path / "shallow")
    assert history.shallow
    (machine,) = history.machines
    assert [(v.values[Metric.STEP_MS], v.at_cut) for v in machine.versions] == [
        (13.0, True),
        (14.0, False),
    ]
    with pytest.raises(BaselineMissing) as caught:
        scene.history("gone", root=tmp_path / "shallow")
    assert str(caught.value) == (
        "gone: this clone, which is shallow, has no baseline of it. There are or were baselines of: mlp.\n"
        "In GitHub Actions set fetch-depth: 0 of checkout; elsewhere fetch the whole history: git fetch --unshallow"
    )


def test_a_first_commit_is_no_cut(tmp_path: Path) -> None:
    scene = Scene.__new__(Scene)
    Repository.__init__(scene, tmp_path / "fresh")
    scene.baselines, scene.days = "baselines", 0
    scene.bless(12.0)
    scene.git("config", "log.showRoot", "false")
    (version,) = scene.machine().versions
    assert (version.kind, version.at_cut, version.commit) == (
        BLESSED,
        False,
        scene.git("rev-parse", "HEAD"),
    )


def outside(tmp_path: Path) -> tuple[Path, Mapping[str, str]]:
    """A project without a repository, with a baseline in it, and an environment for git."""
    root = tmp_path / "plain"
    path = root / "baselines" / "nvidia-h200" / "mlp.json"
    path.parent.mkdir(parents=True)
    path.write_text(baseline_text(records.baseline([{Metric.STEP_MS: 12.0}] * 5)))
    return root, {
        "PATH": os.environ["PATH"],
        "GIT_CEILING_DIRECTORIES": str(tmp_path.parent),
        "HOME": str(tmp_path),
    }


def test_without_a_repository_the_baseline_that_is_there_is_all(tmp_path: Path) -> None:
    root, env = outside(tmp_path)
    found = read_history(root, "baselines", "mlp", Metric.STEP_MS, env=env)
    (machine,) = found.history.machines
    assert [(v.kind, v.commit, v.path) for v in machine.versions] == [
        (BLESSED, None, "baselines/nvidia-h200/mlp.json")
    ]
    assert found.history.trouble == "it is not in a git repository"
    assert str(found.trouble) == (
        f"{root / 'baselines'}: it is not in a git repository. The history of a baseline is that of its file in git.\n"
        "Run perfgate in a checkout of the project."
    )
    with pytest.raises(RepositoryUnreadable, match="it is not in a git repository"):
        read_history(root, "baselines", "gone", Metric.STEP_MS, env=env)


def test_without_git_the_baseline_that_is_there_is_all(tmp_path: Path, scene: Scene) -> None:
    scene.bless(12.0)
    found = read_history(
        scene.root, "baselines", "mlp", Metric.STEP_MS, env={"PATH": str(tmp_path)}
    )
    assert found.history.trouble == "there is no git on the PATH"
    assert [v.commit for v in found.history.machines[0].versions] == [None]


def test_a_repository_that_breaks_off_leaves_what_is_there(scene: Scene) -> None:
    first = scene.bless(12.0)
    scene.bless(13.0)
    (scene.top / ".git" / "objects" / first[:2] / first[2:]).unlink()
    found = scene.found()
    assert found.trouble is not None
    assert found.history.trouble.startswith("git log failed: ")
    assert steps(found.history.machines[0]) == [13.0]


def never(scene: Scene, workload: str) -> str:
    with pytest.raises(BaselineMissing) as caught:
        scene.found(workload)
    return str(caught.value)


def test_a_workload_that_never_had_a_baseline_is_told_with_near_names(scene: Scene) -> None:
    assert never(scene, "mlp") == (
        "mlp: it never had a baseline here. Nor had any other workload.\n"
        'Make one: pytest --perfgate; perfgate bless --reason "..."'
    )
    scene.bless(12.0, name="transformer")
    scene.bless(12.0, name="mlp[4-64]")
    scene.git("rm", "--quiet", scene.path(name="transformer"))
    scene.commit()
    assert never(scene, "tranformer") == (
        "tranformer: it never had a baseline here. Perhaps you meant transformer.\n"
        "Look there: perfgate history transformer"
    )
    assert never(scene, "mlp[4]").endswith("Look there: perfgate history 'mlp[4-64]'")
    assert never(scene, "zzz") == (
        "zzz: it never had a baseline here. There are or were baselines of: mlp[4-64], transformer.\n"
        'Make one: pytest --perfgate; perfgate bless --reason "..."'
    )
    assert never(scene, "").startswith("'': it never had a baseline here.")


# Places and settings


@pytest.mark.parametrize("name", ["mlp[4-64]", "a/b", "*", "ünï", "x" * 300])
def test_any_workload_has_its_own_file(scene: Scene, name: str) -> None:
    scene.bless(12.0, name="mlp4")
    scene.bless(13.0, name=name)
    scene.bless(14.0, name=name)
    machine = scene.machine(name)
    assert steps(machine) == [13.0, 14.0]


@pytest.mark.parametrize("baselines", ["baselines", "perf/[odd]* folder", "../shared"])
def test_a_project_within_a_monorepo_is_found_wherever_its_baselines_lie(
    tmp_path: Path, baselines: str
) -> None:
    scene = Scene(tmp_path / "mono", within="services/train", baselines=baselines)
    scene.bless(12.0)
    scene.bless(13.0)
    scene.put(scene.baseline(14.0))
    machine = scene.machine()
    assert steps(machine) == [12.0, 13.0, 14.0]
    assert machine.file == f"{baselines}/nvidia-h200/mlp.json"
    assert machine.versions[0].path == os.path.normpath(
        f"services/train/{baselines}/nvidia-h200/mlp.json"
    )


def test_baselines_in_a_repository_of_their_own_have_its_history(tmp_path: Path) -> None:
    kept = Scene(tmp_path / "kept", baselines=".")
    kept.bless(12.0)
    kept.bless(13.0)
    project = Scene(tmp_path / "project")
    (project.root / "baselines").symlink_to(kept.top)
    assert steps(project.machine()) == [12.0, 13.0]


def test_a_folder_that_is_gone_still_has_its_history(scene: Scene) -> None:
    scene.bless(12.0)
    scene.git("rm", "-r", "--quiet", "baselines")
    scene.commit()
    shutil.rmtree(scene.root / "baselines", ignore_errors=True)
    assert kinds(scene.machine()) == [BLESSED, DELETED]


def test_the_users_settings_of_git_log_do_not_matter(scene: Scene) -> None:
    scene.bless(12.0)
    scene.bless(12.5, on=L4)
    told = [steps(machine) for machine in scene.history().machines]
    for key, value in {
        "log.follow": "true",
        "log.showRoot": "false",
        "log.showSignature": "true",
        "log.date": "relative",
        "log.diffMerges": "off",
        "color.ui": "always",
        "diff.renames": "copies",
        "core.quotePath": "true",
        "i18n.logOutputEncoding": "latin-1",
        "format.pretty": "fuller",
    }.items():
        scene.git("config", key, value)
    assert [steps(machine) for machine in scene.history().machines] == told == [[12.0], [12.5]]


def test_odd_authors_subjects_and_dates_are_told(scene: Scene) -> None:
    scene.put(scene.baseline(12.0))
    scene.git("add", "--all")
    tree = scene.git("write-tree").encode()
    head = scene.git("rev-parse", "HEAD").encode()
    raw = b"tree %s\nparent %s\nauthor \xff\x1b[2J <a@b> 1700000000 +9900\n" % (tree, head)
    raw += b"committer A <a@b> 1700000000 +0000\n\ncommit\n:100644 \xfe\n"
    (scene.top.parent / "raw").write_bytes(raw)
    sha = scene.git(
        "hash-object", "-t", "commit", "-w", "--literally", str(scene.top.parent / "raw")
    )
    scene.git("reset", "--quiet", "--hard", sha)
    (version,) = scene.machine().versions
    assert version.author == "\ufffd\x1b[2J <a@b>"
    assert version.subject == "commit :100644 \ufffd"
    assert (version.kind, version.at) == (BLESSED, None)


def test_a_history_survives_its_json(scene: Scene) -> None:
    scene.bless(12.0)
    scene.git("mv", "baselines", "blessed")
    scene.baselines = "blessed"
    scene.commit({scene.path(): "{"})
    scene.bless(13.0)
    history = scene.history()
    assert History.model_validate_json(history.model_dump_json()) == history


def test_a_series_starts_anew_where_things_cannot_be_compared(scene: Scene) -> None:
    scene.put(scene.baseline(12.0, on=records.machine(nsys="2023.4.4")))
    scene.commit()
    scene.bless(12.5)
    scene.put(scene.baseline(12.6, values={Metric.NCCL_MS: 1.0}))
    scene.commit()
    machine = scene.machine()
    assert [(p.value, p.joined, p.by) for p in points(machine, Metric.STEP_MS)] == [
        (12.0, False, "Ada <ada@example.org>"),
        (12.5, False, "Ada <ada@example.org>"),
        (12.6, True, "Ada <ada@example.org>"),
    ]
    assert [point.value for point in points(machine, Metric.NCCL_MS)] == [1.0]
    assert points(machine, Metric.NCCL_EXPOSED_MS) == ()


def test_versions_without_a_baseline_hold_none() -> None:
    bare = Version(kind=DELETED, commit=None, path="x")
    machine = MachineHistory(slug="x", gpu="x", file="x", versions=(bare,))
    assert points(machine, Metric.STEP_MS) == ()
