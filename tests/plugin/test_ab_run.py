"""A gate at its door with another commit at hand: real checkouts, runs of our own making, and what
a user sees."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import records
from support.project import LOOP, Project, loops

from perfgate.execute.context import RunContext
from perfgate.execute.run import Measured
from perfgate.model.baseline import Commit, code_digest
from perfgate.model.metric import Metric
from perfgate.model.order import Ending, WorkerReport
from perfgate.model.sample import Run
from perfgate.model.workload import Workload

Ran = Callable[..., list[Path]]

WOBBLE = (0.0, 0.02, -0.02, 0.01, -0.01)


def slower(percent: float, number: int) -> Run:
    return records.run({Metric.STEP_MS: 12.34 * (1 + (percent + WOBBLE[number % 5]) / 100)})


@pytest.fixture
def repository(project: Project) -> Project:
    """A committed project on a machine with an H200."""
    project.gpus()
    project.workload(LOOP)
    project.write(".gitignore", ".perfgate/\n__pycache__/\n.out\n.err\n")
    project.commit()
    return project


@pytest.fixture
def ran(repository: Project) -> Ran:
    """Put runs in place of measured ones: of the candidate, and of the checkout; notes where each
    was to run."""

    def put(*, reference: float, candidate: float, interrupt_at: int | None = None) -> list[Path]:
        asked: list[Path] = []

        def make(context: RunContext, workload: Workload, folder: Path) -> Measured:
            del workload
            folder.mkdir(parents=True)
            assert (context.root / "workloads" / "loops.py").is_file()
            asked.append(context.root)
            if len(asked) == interrupt_at:
                raise KeyboardInterrupt
            made = slower(reference if context.tree is not None else candidate, len(asked))
            worker_report = WorkerReport(
                ending=Ending.FINISHED, pid=1, torch="2.6.0", cuda="12.4", nvtx="0.2.11"
            )
            return Measured(run=made, worker_report=worker_report, code=records.CODE)

        repository.makes(make)
        return asked

    return put


def test_a_first_gate_of_what_no_commit_holds_says_so_before_it_is_blessed(
    repository: Project, ran: Ran
) -> None:
    ran(reference=0, candidate=0)
    assert "measured-uncommitted" not in repository.gate().codes
    repository.write("page.html", "<!doctype html>")
    seen = repository.gate()
    assert "measured-uncommitted" in seen.codes
    assert "(page.html)" in seen.out


def blessed(project: Project, *, code: str | None = None, **commit: object) -> None:
    """Bless ten runs over two occasions at the commit that is there, or at another."""
    at = {"sha": project.git("rev-parse", "HEAD"), "dirty": False, **commit}
    made = project.baseline()
    occasion = made.occasions[0].model_copy(
        update={"commit": Commit.model_validate(at) if at["sha"] else None}
    )
    project.bless(made.model_copy(update={"occasions": (occasion, occasion), "code": code}))
    project.commit()


def left(project: Project) -> tuple[list[str], str]:
    """What is left of checkouts: below `.perfgate/worktrees`, and in git's own list next to the
    repository."""
    folder = project.root / ".perfgate" / "worktrees"
    listed = project.git("worktree", "list").splitlines()
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return names, "\n".join(listed[1:])


def test_a_loss_is_shown_by_an_ab_run_with_the_baselines_commit(
    repository: Project, ran: Ran
) -> None:
    blessed(repository, code=code_digest(records.CODE))
    asked = ran(reference=0.0, candidate=2.5)
    seen = repository.gate("--perfgate-json=verdicts.json")
    assert seen.status == 1
    sha = repository.git("rev-parse", "HEAD~1")
    others = [root != repository.root for root in asked]
    assert others == [*[False] * 3, True, False, *[True, False] * 3]
    assert left(repository) == ([], "")
    (workload,) = json.loads((repository.root / "verdicts.json").read_text())["workloads"]
    assert [run["form"] for run in workload["runs"]] == ["alone"] * 4
    assert [run["form"] for run in workload["interleaved_runs"]] == ["block"] * 3
    assert [run["form"] for run in workload["reference_runs"]] == ["block"] * 3
    assert workload["verdict"]["ab_run"] == {
        "revision": f"the baseline's commit {sha[:12]}",
        "commit": sha,
        "pairs": 3,
        "screen_runs": 4,
    }
    kept = repository.store.results.latest("loop")
    assert kept is not None
    made = kept.result
    assert [len(of) for of in (made.runs, made.reference_runs, made.interleaved_runs)] == [4, 3, 3]
    assert sorted(path.name for path in kept.folder.iterdir() if path.is_dir()) == [
        *[f"interleaved-reference-{n}" for n in (1, 2, 3)],
        "reference-alone",
        *[f"run-{n}" for n in range(1, 8)],
    ]


def test_a_gate_says_what_it_may_spend_and_what_it_does(repository: Project, ran: Ran) -> None:
    blessed(repository, code=code_digest(records.CODE))
    ran(reference=0.0, candidate=2.5)
    out = repository.gate(columns=100).out.splitlines()
    start = out.index("workloads/loops.py ")
    sha = repository.git("rev-parse", "HEAD~1")[:12]
    assert out[start + 1] == "  loop: 5 runs"
    assert " 12 A/B pairs in blocks " in out[start + 2]
    begin = next(n for n, line in enumerate(out) if line.startswith("  loop run 1 "))
    others = "kernel_ms 9.100, gap_ms 1.851"
    assert out[begin : begin + 8] == [
        "  loop run 1 of 5: step_ms 12.65, kernel_ms 9.100, gap_ms 1.851 (0.0 s)",
        "  loop run 2 of 5: step_ms 12.65, kernel_ms 9.100, gap_ms 1.851 (0.0 s)",
        "  loop run 3 of 5: step_ms 12.65, kernel_ms 9.100, gap_ms 1.851 (0.0 s)",
        f"  checking out {sha} next to the project",
        f"  loop alone, {sha}: step_ms 12.34, {others} (0.0 s)",
        f"  loop alone, candidate: step_ms 12.65, {others} (0.0 s)",
        f"  loop pair 1 of 3, in blocks, {sha}: step_ms 12.34, {others} (0.0 s)",
        f"  loop pair 1 of 3, in blocks, candidate: step_ms 12.65, {others} (0.0 s)",
    ]


def test_an_interrupt_leaves_no_checkout(repository: Project, ran: Ran) -> None:
    blessed(repository, code=code_digest(records.CODE))
    ran(reference=0.0, candidate=2.5, interrupt_at=5)
    with pytest.raises(KeyboardInterrupt):  # pytester hands it on
        repository.gate()
    assert left(repository) == ([], "")


def test_two_workloads_share_one_checkout(repository: Project, ran: Ran) -> None:
    repository.workload(loops("other"), file="other.py")
    repository.commit()
    asked = ran(reference=0.0, candidate=0.0)
    seen = repository.gate("--perfgate-against=HEAD")
    assert seen.status == 0, seen.out
    assert seen.out.count("checking out") == 1
    assert len(set(asked)) == 2


def test_a_commit_that_cannot_be_made_ready_is_tried_once_for_all_workloads(
    repository: Project, ran: Ran
) -> None:
    repository.workload(loops("other"), file="other.py")
    repository.write(
        "pyproject.toml", '[tool.perfgate]\nab_setup = ["sh", "-c", "echo no; exit 3"]\n'
    )
    repository.commit()
    asked = ran(reference=0.0, candidate=0.0)
    seen = repository.gate("--perfgate-against=HEAD")
    assert seen.out.count("checking out") == seen.out.count("ab_setup: no") == 1
    assert "setup-failed" in seen.codes
    assert (seen.status, asked, left(repository)) == (1, [], ([], ""))


def test_a_setup_that_hangs_takes_no_more_than_what_is_left_of_the_time_budget(
    repository: Project, ran: Ran
) -> None:
    repository.write("pyproject.toml", '[tool.perfgate]\nab_setup = ["sleep", "60"]\n')
    asked = ran(reference=0.0, candidate=0.0)
    began = time.monotonic()
    seen = repository.gate("--perfgate-against=HEAD", "--perfgate-time-budget=3")
    assert time.monotonic() - began < 30
    assert "setup-timed-out" in seen.codes
    assert (seen.status, asked, left(repository)) == (1, [], ([], ""))


def test_against_a_revision_no_baseline_is_needed(repository: Project, ran: Ran) -> None:
    ran(reference=0.0, candidate=0.0)
    seen = repository.gate("--perfgate-against=main~0")
    assert seen.status == 0
    assert seen.summary.splitlines()[0].startswith("PASSED  loop  step_ms ")
    assert seen.summary.splitlines()[0].endswith("  budget 2 %  3 pairs")
    assert seen.summary.endswith("GATE OPEN: 1 PASSED\n")


def test_against_what_is_checked_out_nothing_can_be_found_and_that_is_said(
    repository: Project, ran: Ran
) -> None:
    ran(reference=0.0, candidate=0.0)
    seen = repository.gate("--perfgate-against=HEAD")
    assert (seen.status, "both-sides-are-one-commit" in seen.codes) == (0, True)
    assert seen.summary.startswith("PASSED  loop  step_ms ")
    sha = repository.git("rev-parse", "HEAD")[:12]
    assert seen.out.count(f"commit {sha}: HEAD") == 1
    repository.write("model.py", "changed = True\n")
    assert f"commit {sha}: " not in repository.gate("--perfgate-against=HEAD").out
    repository.commit()
    assert f"commit {sha}: " not in repository.gate("--perfgate-against=HEAD~1").out


@pytest.mark.parametrize("revision", ["v9", "--all"])
def test_against_what_is_no_commit_nothing_is_measured(
    repository: Project, ran: Ran, revision: str
) -> None:
    asked = ran(reference=0.0, candidate=0.0)
    seen = repository.gate(f"--perfgate-against={revision}")
    assert (seen.status, seen.codes, asked) == (4, {"revision-not-in-clone"}, [])


@pytest.mark.parametrize(
    ("commit", "code"),
    [
        ({"dirty": True}, "baseline-of-uncommitted-changes"),
        ({"sha": ""}, "baseline-without-commit"),
        ({"sha": "0123456789abcdef0123456789abcdef01234567"}, "revision-not-in-clone"),
    ],
)
def test_a_baseline_whose_commit_cannot_be_run_has_no_other_side(
    repository: Project, ran: Ran, commit: dict[str, object], code: str
) -> None:
    # Whatever it loaded: data, and what lies next to the project, is no part of the digest.
    blessed(repository, code="0123456789abcdef", **commit)
    asked = ran(reference=0.0, candidate=2.5)
    seen = repository.gate()
    assert {"no-ab-run", code} <= seen.codes
    assert set(asked) == {repository.root}
    assert "checking out" not in seen.out


def test_what_was_measured_is_what_was_checked_out_when_the_gate_began(
    repository: Project, ran: Ran
) -> None:
    began = Commit(
        sha=repository.git("rev-parse", "HEAD"),
        dirty=False,
        branch=repository.git("branch", "--show-current"),
        tree=repository.git("rev-parse", "HEAD^{tree}"),
    )
    ran(reference=0.0, candidate=0.0)
    repository.gate()
    assert repository.kept().commit == began
    measured = repository.lab.making

    def committing(context: RunContext, workload: Workload, folder: Path) -> Measured:
        if not (repository.root / "config.json").exists():
            repository.write("config.json", "{}")
            repository.commit()
        return measured(context, workload, folder)

    repository.makes(committing)
    repository.gate()
    assert repository.kept().commit == began.model_copy(update={"dirty": True})


def test_a_commit_whose_code_is_not_what_was_blessed_is_no_other_side(
    repository: Project, ran: Ran
) -> None:
    blessed(repository, code="0123456789abcdef")
    ran(reference=0.0, candidate=2.5)
    assert "files-not-as-blessed" in repository.gate().codes


def test_ab_runs_can_be_switched_off(repository: Project, ran: Ran) -> None:
    blessed(repository)
    repository.write("pyproject.toml", '[tool.perfgate]\nab_run = "off"\n')
    asked = ran(reference=0.0, candidate=2.5)
    assert "pair" not in repository.gate().out
    assert set(asked) == {repository.root}


def test_a_budget_of_time_that_is_spent_leaves_workloads_unmeasured(
    repository: Project, ran: Ran
) -> None:
    asked = ran(reference=0.0, candidate=0.0)
    seen = repository.gate("--perfgate-time-budget=0.000001")
    assert (seen.status, asked) == (1, [])
    assert "too-late" in seen.codes
