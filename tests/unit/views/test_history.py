"""The baselines of a workload through the history of real repositories: what is followed, told and
left out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support import records
from support.repository import Repository

from perfgate.model.baseline import Anchor, Baseline, Blessing, Spread
from perfgate.model.errors import BaselineMissing, RepositoryUnreadable
from perfgate.model.history import History, MachineHistory, VersionKind, points
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.store import baseline_text, file_name
from perfgate.views.history import FoundHistory, read_history

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


BLESSED, RECREATED, RESTORED = VersionKind.BLESSED, VersionKind.RECREATED, VersionKind.RESTORED
REWRITTEN, DELETED = VersionKind.REWRITTEN, VersionKind.DELETED
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


# Machines


# Moves


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
    """Two branches that each blessed, `main` checked out; return the commits of main and of the
    feature."""
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
    assert caught.value.code == "history-shallow"


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
    with pytest.raises(RepositoryUnreadable, match="it is not in a git repository"):
        read_history(root, "baselines", "gone", Metric.STEP_MS, env=env)


def test_without_git_the_baseline_that_is_there_is_all(tmp_path: Path, scene: Scene) -> None:
    scene.bless(12.0)
    found = read_history(
        scene.root, "baselines", "mlp", Metric.STEP_MS, env={"PATH": str(tmp_path)}
    )
    assert found.history.trouble == "there is no git on the PATH"
    assert [v.commit for v in found.history.machines[0].versions] == [None]


def never(scene: Scene, workload: str) -> tuple[str, object]:
    with pytest.raises(BaselineMissing) as caught:
        scene.found(workload)
    return caught.value.code, caught.value.fields.get("near")


def test_a_workload_that_never_had_a_baseline_is_told_with_near_names(scene: Scene) -> None:
    assert never(scene, "mlp") == ("history-none", None)
    scene.bless(12.0, name="transformer")
    scene.bless(12.0, name="mlp[4-64]")
    scene.git("rm", "--quiet", scene.path(name="transformer"))
    scene.commit()
    assert never(scene, "tranformer") == ("history-near", ["transformer"])
    assert never(scene, "mlp[4]") == ("history-near", ["mlp[4-64]"])
    assert never(scene, "zzz") == ("history-unknown", None)
    assert never(scene, "") == ("history-unknown", None)


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
