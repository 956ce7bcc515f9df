"""`perfgate bless`: what was measured becomes the baseline, with a reason, or a sentence says why
not."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import timedelta

import pytest
from support import records
from support.project import LOOP, Project, loops
from syrupy.assertion import SnapshotAssertion

from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run

MORE_COPIES = records.run({Metric.H2D_COPIES: 3})


@pytest.fixture(autouse=True)
def ada(project: Project) -> None:
    """Whoever runs these tests, Ada blesses."""
    project.patch.setenv("GIT_AUTHOR_NAME", "Ada")
    project.patch.setenv("GIT_AUTHOR_EMAIL", "ada@example.org")


def measure(
    project: Project, *outcomes: Run, name: str = "loop", options: Sequence[str] = ()
) -> None:
    """Gate the one workload of a file; five runs where it has no baseline."""
    file = f"{name}s.py"
    project.measures(*(outcomes or records.runs()), code=[project.code(file)])
    project.gate(f"workloads/{file}", *options)


@pytest.fixture
def two(here: Project) -> None:
    """Two workloads that were measured."""
    here.workload(loops("other"), file="others.py")
    measure(here)
    measure(here, name="other")


def blessed(project: Project, name: str = "loop") -> Baseline | None:
    return project.store.baselines.load("nvidia-h200", name)


def test_a_first_baseline_is_shown_with_what_its_few_runs_cost(
    here: Project, snapshot: SnapshotAssertion
) -> None:
    measure(here)
    seen = here.perfgate("bless", "loop", "--reason", "first H200 baseline")
    assert seen.err == ""
    assert seen.out == snapshot
    assert seen.status == 0
    made = blessed(here)
    assert made is not None
    assert (made.blessing.by, made.blessing.reason) == (
        "Ada <ada@example.org>",
        "first H200 baseline",
    )
    assert here.gate().status == 0


def test_without_names_all_kept_results_are_blessed(here: Project, two: None) -> None:
    seen = here.perfgate("bless", "--reason", "both")
    assert seen.status == 0
    assert [line for line in seen.out.splitlines() if line.startswith("  file")] == [
        "  file        baselines/nvidia-h200/loop.json",
        "  file        baselines/nvidia-h200/other.json",
    ]
    assert blessed(here)
    assert blessed(here, "other")


def test_without_names_what_was_renamed_or_deleted_is_left_out(here: Project) -> None:
    for name in ("file", "function"):
        here.workload(loops(name), file=f"{name}s.py")
        measure(here, name=name)
    measure(here)
    (here.root / "workloads" / "files.py").unlink()
    here.workload(loops("renamed"), file="functions.py")
    seen = here.perfgate("bless", "--reason", "what is there")
    assert (seen.status, seen.err) == (0, "")
    assert (blessed(here, "file"), blessed(here, "function")) == (None, None)
    (here.root / "workloads" / "loops.py").unlink()
    found = here.perfgate("bless", "--reason", "x")
    assert ("results-none" in found.codes, found.status) == (True, 20)


def test_one_refusal_leaves_every_file_as_it_is(
    here: Project, two: None, snapshot: SnapshotAssertion
) -> None:
    here.workload(loops("other").replace("0.001", "0.002"), file="others.py")
    assert refused(here, "--reason", "both") == snapshot  # its code has changed since
    assert (blessed(here), blessed(here, "other")) == (None, None)


def dated(text: str) -> str:
    """A text whose moments are alike on every day."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "THEN", text)


def refused(project: Project, *arguments: str) -> tuple[str, int]:
    seen = project.perfgate("bless", *arguments)
    assert seen.out == ""
    return seen.err, seen.status


def test_an_unknown_workload_is_named_next_to_those_that_are_kept(
    here: Project, snapshot: SnapshotAssertion
) -> None:
    measure(here)
    assert refused(here, "loops", "--reason", "x") == snapshot
    assert refused(here, "other", "--reason", "x") == snapshot


def test_nothing_measured_is_nothing_to_bless(
    project: Project, snapshot: SnapshotAssertion
) -> None:
    assert refused(project, "--reason", "x") == snapshot


@pytest.mark.parametrize("reason", [["--reason", " \t"], []], ids=["blank", "none"])
def test_a_reason_is_required(
    here: Project, reason: list[str], snapshot: SnapshotAssertion
) -> None:
    measure(here)
    assert refused(here, "loop", *reason) == snapshot


@pytest.mark.parametrize("value", ["true", "1"])
def test_ci_does_not_bless_unless_it_is_asked_to(
    here: Project, value: str, snapshot: SnapshotAssertion
) -> None:
    measure(here)
    here.patch.setenv("CI", value)
    assert refused(here, "loop", "--reason", "x") == snapshot
    assert here.perfgate("bless", "loop", "--reason", "x", "--allow-ci").status == 0


def test_a_regression_is_blessed_only_when_it_is_called_one(
    here: Project, snapshot: SnapshotAssertion
) -> None:
    measure(here)
    here.perfgate("bless", "loop", "--reason", "first")
    here.workload(LOOP + "# one copy more a step\n")
    measure(here, MORE_COPIES, options=["--perfgate-runs=5"])
    found, status = refused(here, "loop", "--reason", "slower")
    assert found == snapshot
    assert status == 22
    seen = here.perfgate(
        "bless", "loop", "--accept-regression", "--reason", "a copy for the new loss"
    )
    assert "  h2d_copies              2         3  +1 (+50.0 %)" in seen.out.splitlines()
    assert here.gate().status == 0


def test_a_baseline_edited_by_hand_is_not_overwritten_by_the_way(here: Project) -> None:
    measure(here)
    here.perfgate("bless", "loop", "--reason", "first")
    file = here.root / "baselines" / "nvidia-h200" / "loop.json"
    file.write_text(file.read_text("utf-8").replace("12.34", "99.99"), encoding="utf-8")
    spoilt = file.read_bytes()
    assert refused(here, "loop", "--reason", "second")[1] == 19
    assert file.read_bytes() == spoilt


def test_a_full_disk_loses_no_baseline(here: Project, snapshot: SnapshotAssertion) -> None:
    measure(here)
    here.perfgate("bless", "loop", "--reason", "first")
    before = blessed(here)

    def fsync(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    here.patch.setattr("os.fsync", fsync)
    assert refused(here, "loop", "--reason", "second") == snapshot
    assert blessed(here) == before


def repeated(
    project: Project, *step_ms: float, name: str = "loop", outcome: Outcome = Outcome.PASSED
) -> None:
    """Keep the newest result once more, as measured an hour later, with these step times."""
    kept = project.kept(name)
    at = kept.measured_at + timedelta(hours=1)
    judged = records.verdict(outcome, name=name, reason="step_ms rose 3.1 %, its budget is 2 %")
    project.keep(
        kept.model_copy(
            update={"measured_at": at, "runs": records.runs(*step_ms, at=at), "verdict": judged}
        )
    )


def test_an_occasion_is_added_to_the_baseline_that_is_there(
    here: Project, snapshot: SnapshotAssertion
) -> None:
    measure(here)
    here.perfgate("bless", "loop", "--reason", "first")
    first = blessed(here)
    assert first is not None
    repeated(here, 12.4, 12.41, 12.42)
    seen = here.perfgate("bless", "loop", "--occasion", "--reason", "an hour later")
    assert (seen.err, seen.status) == ("", 0)
    assert dated(seen.out) == snapshot
    extended = blessed(here)
    assert extended is not None
    assert extended.model_copy(update={"occasions": first.occasions}) == first
    assert [len(occasion.runs) for occasion in extended.occasions] == [5, 3]
    added = extended.occasions[-1].added
    assert added is not None
    assert (added.by, added.reason) == ("Ada <ada@example.org>", "an hour later")
    found, status = refused(here, "loop", "--occasion", "--reason", "again")
    assert dated(found) == snapshot
    assert status == 22


def test_of_several_none_is_written_where_one_cannot_be(
    here: Project, two: None, snapshot: SnapshotAssertion
) -> None:
    assert here.perfgate("bless", "--reason", "both").status == 0
    loop, other = (
        here.root / "baselines" / "nvidia-h200" / name for name in ("loop.json", "other.json")
    )
    other.rename(here.root / "elsewhere.json")
    other.symlink_to(here.root / "elsewhere.json")
    before = loop.read_bytes()
    seen = here.perfgate("bless", "--reason", "again")
    assert seen.err == snapshot
    assert (seen.out, seen.status, loop.read_bytes()) == ("", 23, before)
    other.unlink()
    here.patch.setattr(os, "access", lambda *_: False)
    assert here.perfgate("bless", "--reason", "again").err == snapshot
    assert loop.read_bytes() == before


def test_a_regressed_repeat_is_no_occasion_and_leaves_every_file(
    here: Project, two: None, snapshot: SnapshotAssertion
) -> None:
    here.perfgate("bless", "--reason", "both")
    repeated(here, 12.4)
    repeated(here, 12.9, name="other", outcome=Outcome.REGRESSED)
    before = blessed(here), blessed(here, "other")
    assert refused(here, "--occasion", "--reason", "later") == snapshot
    assert (blessed(here), blessed(here, "other")) == before


def test_an_occasion_of_a_loss_is_a_contradiction(
    here: Project, snapshot: SnapshotAssertion
) -> None:
    measure(here)
    found, status = refused(here, "loop", "--occasion", "--accept-regression", "--reason", "x")
    assert found == snapshot
    assert status == 2
