"""A gate at its door with another commit at hand: real checkouts, runs of our own making, and what
a user sees."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import records
from support.project import LOOP, Project

from perfgate.execute.context import RunContext
from perfgate.execute.run import Measured
from perfgate.model.baseline import Baseline, Commit, code_digest
from perfgate.model.metric import Metric
from perfgate.model.order import Ending, WorkerReport
from perfgate.model.sample import Run
from perfgate.model.workload import Workload

WOBBLE = (0.0, 0.02, -0.02, 0.01, -0.01)
Sides = dict[bool, list[str]]


def slower(percent: float, number: int) -> Run:
    return records.run({Metric.STEP_MS: 12.34 * (1 + (percent + WOBBLE[number % 5]) / 100)})


def git(root: Path, *words: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return subprocess.run(
        ["git", *identity, *words], cwd=root, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(project: Project) -> Project:
    """A committed project on a machine with an H200."""
    project.gpus()
    project.workload(LOOP)
    project.write(".gitignore", ".perfgate/\n__pycache__/\n.out\n.err\n")
    git(project.root, "init", "-q")
    git(project.root, "add", "-A")
    git(project.root, "commit", "-q", "-m", "one")
    return project


@pytest.fixture
def ran(repository: Project) -> Callable[..., list[Path]]:
    """Put runs in place of measured ones: of the candidate, and of the checkout; tells where each
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
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    ran(reference=0, candidate=0)
    told = "Measured with uncommitted changes"
    assert told not in repository.gate(columns=200).out
    repository.write("page.html", "<!doctype html>")
    assert (
        f"{told} (page.html): a baseline of these runs would have no A/B run. Commit or ignore them, and gate again, "
        "before it is blessed"
    ) in " ".join(repository.gate(columns=200).out.split())


def blessed(
    project: Project, *, code: str | None = None, dirty: bool = False, sha: str = ""
) -> Baseline:
    """Bless ten runs over two occasions at the commit that is there."""
    commit = Commit(sha=sha or git(project.root, "rev-parse", "HEAD"), dirty=dirty)
    made = project.baseline()
    occasion = made.occasions[0].model_copy(update={"commit": commit})
    made = made.model_copy(update={"occasions": (occasion, occasion), "code": code})
    project.bless(made)
    git(project.root, "add", "-A")
    git(project.root, "commit", "-q", "-m", "bless")
    return made


def left(project: Project) -> tuple[list[str], str]:
    """What is left of checkouts: below `.perfgate/worktrees`, and in git's own list beside the
    repository."""
    folder = project.root / ".perfgate" / "worktrees"
    listed = git(project.root, "worktree", "list").splitlines()
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return names, "\n".join(listed[1:])


def test_a_loss_is_shown_by_an_ab_run_with_the_baselines_commit(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    blessed(repository, code=code_digest(records.CODE))
    asked = ran(reference=0.0, candidate=2.5)
    seen = repository.gate("--perfgate-json=verdicts.json", columns=100)
    assert seen.status == 1
    sha = git(repository.root, "rev-parse", "HEAD~1")
    assert (
        f"loop: REGRESSED (3 pairs with the baseline's commit {sha[:12]}, after 3 runs)"
        in seen.failures
    )
    beside = [root != repository.root for root in asked]
    assert beside == [False, False, False, True, False, False, True, True, False]
    assert left(repository) == ([], "")
    (workload,) = json.loads((repository.root / "verdicts.json").read_text())["workloads"]
    assert (len(workload["runs"]), len(workload["reference_runs"])) == (6, 3)
    assert [run["form"] for run in workload["runs"]] == ["alone"] * 3 + ["pair"] * 3
    assert [run["form"] for run in workload["reference_runs"]] == ["pair"] * 3
    assert workload["verdict"]["ab_run"] == {
        "revision": f"the baseline's commit {sha[:12]}",
        "commit": sha,
        "pairs": 3,
        "screen_runs": 3,
    }
    kept = repository.store.results.latest("loop")
    assert kept is not None
    assert (len(kept.result.runs), len(kept.result.reference_runs)) == (6, 3)
    assert sorted(path.name for path in kept.folder.iterdir() if path.is_dir()) == [
        *[f"reference-{n}" for n in (1, 2, 3)],
        *[f"run-{n}" for n in range(1, 7)],
    ]


def test_a_gate_says_what_it_may_spend_and_what_it_does(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    blessed(repository, code=code_digest(records.CODE))
    ran(reference=0.0, candidate=2.5)
    out = repository.gate(columns=100).out.splitlines()
    start = out.index("workloads/loops.py ")
    sha = git(repository.root, "rev-parse", "HEAD~1")[:12]
    assert out[start + 1] == "  loop: 5 runs"
    assert " 12 A/B pairs " in out[start + 2]
    begin = next(n for n, line in enumerate(out) if line.startswith("  loop run 1 "))
    assert out[begin : begin + 8] == [
        "  loop run 1 of 5: step_ms 12.65, kernel_ms 9.100, gap_ms 1.851 (0.0 s)",
        "  loop run 2 of 5: step_ms 12.65, kernel_ms 9.100, gap_ms 1.851 (0.0 s)",
        "  loop run 3 of 5: step_ms 12.65, kernel_ms 9.100, gap_ms 1.851 (0.0 s)",
        f"  checking out {sha} next to the project",
        f"  loop pair 1 of 3, {sha}: step_ms 12.34, kernel_ms 9.100, gap_ms 1.851 (0.0 s)",
        "  loop pair 1 of 3, candidate: step_ms 12.65, kernel_ms 9.100, gap_ms 1.851 (0.0 s)",
        "  loop pair 2 of 3, candidate: step_ms 12.65, kernel_ms 9.100, gap_ms 1.851 (0.0 s)",
        f"  loop pair 2 of 3, {sha}: step_ms 12.34, kernel_ms 9.100, gap_ms 1.851 (0.0 s)",
    ]


def test_an_interrupt_leaves_no_checkout(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    blessed(repository, code=code_digest(records.CODE))
    ran(reference=0.0, candidate=2.5, interrupt_at=5)
    with pytest.raises(KeyboardInterrupt):  # pytester hands it on
        repository.gate()
    assert left(repository) == ([], "")


def test_two_workloads_share_one_checkout(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    repository.workload(LOOP.replace("def loop", "def other"), file="other.py")
    git(repository.root, "add", "-A")
    git(repository.root, "commit", "-q", "-m", "two")
    asked = ran(reference=0.0, candidate=0.0)
    seen = repository.gate("--perfgate-against=HEAD")
    assert seen.status == 0, seen.out
    assert seen.out.count("checking out") == 1
    assert len(set(asked)) == 2


def test_a_commit_that_cannot_be_made_ready_is_tried_once_for_all_workloads(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    repository.workload(LOOP.replace("def loop", "def other"), file="other.py")
    repository.write(
        "pyproject.toml", '[tool.perfgate]\nab_setup = ["sh", "-c", "echo no; exit 3"]\n'
    )
    git(repository.root, "add", "-A")
    git(repository.root, "commit", "-q", "-m", "two")
    asked = ran(reference=0.0, candidate=0.0)
    seen = repository.gate("--perfgate-against=HEAD")
    assert seen.out.count("checking out") == seen.out.count("ab_setup: no") == 1
    assert seen.failures.count("ab_setup ended with exit status 3") == 2
    assert (seen.status, asked, left(repository)) == (1, [], ([], ""))


def test_a_setup_that_hangs_takes_no_more_than_what_is_left_of_the_time_budget(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    repository.write("pyproject.toml", '[tool.perfgate]\nab_setup = ["sleep", "60"]\n')
    asked = ran(reference=0.0, candidate=0.0)
    began = time.monotonic()
    seen = repository.gate("--perfgate-against=HEAD", "--perfgate-time-budget=3")
    assert time.monotonic() - began < 30
    assert re.search(r"ab_setup did not end within [0-3](\.\d)? s", seen.failures)
    assert (seen.status, asked, left(repository)) == (1, [], ([], ""))


def test_against_a_revision_no_baseline_is_needed(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    ran(reference=0.0, candidate=0.0)
    seen = repository.gate(
        "--perfgate-against=main~0"
        if "main" in git(repository.root, "branch")
        else "--perfgate-against=HEAD"
    )
    assert seen.status == 0
    assert seen.summary.splitlines()[0].startswith("PASSED  loop  step_ms ")
    assert seen.summary.splitlines()[0].endswith("  budget 2 %  3 pairs")
    assert seen.summary.endswith("GATE OPEN: 1 PASSED\n")


def test_against_what_is_checked_out_nothing_can_be_found_and_that_is_said(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    ran(reference=0.0, candidate=0.0)
    same = (
        f"both sides are commit {git(repository.root, 'rev-parse', 'HEAD')[:12]}: HEAD is what is checked out, without "
        "changes, so no change of the code can be found"
    )
    seen = repository.gate("--perfgate-against=HEAD")
    assert seen.status == 0
    assert f"\n  loop: {same}\n" in seen.out
    assert seen.summary.startswith("PASSED  loop  step_ms ")
    assert seen.summary.endswith(f"  3 pairs\n    note: {same}\nGATE OPEN: 1 PASSED\n")
    repository.write("model.py", "changed = True\n")
    assert "both sides are commit" not in repository.gate("--perfgate-against=HEAD").out
    git(repository.root, "add", "-A")
    git(repository.root, "commit", "-q", "-m", "changed")
    assert "both sides are commit" not in repository.gate("--perfgate-against=HEAD~1").out


@pytest.mark.parametrize(
    ("revision", "says"),
    [
        ("v9", "commit v9: it is not in this clone. "),
        ("--all", "commit --all: it is not in this clone. "),
    ],
)
def test_against_what_is_no_commit_nothing_is_measured(
    repository: Project, ran: Callable[..., list[Path]], revision: str, says: str
) -> None:
    asked = ran(reference=0.0, candidate=0.0)
    seen = repository.gate(f"--perfgate-against={revision}")
    assert seen.status == 4
    assert says in seen.complaint
    assert asked == []


def test_a_baseline_measured_with_uncommitted_changes_has_no_commit_to_run(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    # Whatever it loaded: data, and what lies beside the project, is no part of the digest.
    blessed(repository, dirty=True, code="0123456789abcdef")
    ran(reference=0.0, candidate=2.5)
    seen = repository.gate()
    assert "runs against 10 blessed)" in seen.failures
    assert "with uncommitted changes, which no commit holds" in seen.failures
    assert "Bless from a commit without changes, so that it can be run again." in seen.failures


def test_what_was_measured_is_what_was_checked_out_when_the_gate_began(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    began = Commit(
        sha=git(repository.root, "rev-parse", "HEAD"),
        dirty=False,
        branch=git(repository.root, "branch", "--show-current"),
        tree=git(repository.root, "rev-parse", "HEAD^{tree}"),
    )
    ran(reference=0.0, candidate=0.0)
    repository.gate()
    kept = repository.store.results.latest("loop")
    assert kept is not None
    assert kept.result.commit == began
    measured = repository.lab.making
    assert measured is not None

    def committing(context: RunContext, workload: Workload, folder: Path) -> Measured:
        if not (repository.root / "config.json").exists():
            repository.write("config.json", "{}")
            git(repository.root, "add", "-A")
            git(repository.root, "commit", "-q", "-m", "meanwhile")
        return measured(context, workload, folder)

    repository.makes(committing)
    repository.gate()
    kept = repository.store.results.latest("loop")
    assert kept is not None
    assert kept.result.commit == began.model_copy(update={"dirty": True})


def test_what_python_leaves_while_it_collects_is_no_change(
    repository: Project, ran: Callable[..., list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository.root / ".gitignore").unlink()
    git(repository.root, "add", "-A")
    git(repository.root, "commit", "-q", "-m", "as it is without a .gitignore")
    ran(reference=0.0, candidate=0.0)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    repository.gate()
    assert list(repository.root.rglob("__pycache__/*.pyc"))
    kept = repository.store.results.latest("loop")
    assert kept is not None
    assert kept.result.commit is not None
    assert not kept.result.commit.dirty


def test_a_result_names_the_first_changes_that_no_commit_holds(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    ran(reference=0.0, candidate=0.0)
    for name in ("a", "b", "c", "d"):
        repository.write(f"{name}.json", "{}")
    repository.gate()
    kept = repository.store.results.latest("loop")
    assert kept is not None
    assert kept.result.uncommitted == ("a.json", "b.json", "c.json")


def test_a_commit_whose_code_is_not_what_was_blessed_is_no_other_side(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    blessed(repository, code="0123456789abcdef")
    ran(reference=0.0, candidate=2.5)
    seen = repository.gate()
    assert (
        "it loads other code there than what was blessed" in seen.failures
        or "not those that were blessed" in seen.failures
    )


def test_a_baseline_without_a_commit_has_no_other_side(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    made = repository.baseline()
    repository.bless(
        made.model_copy(
            update={"occasions": (made.occasions[0].model_copy(update={"commit": None}),)}
        )
    )
    ran(reference=0.0, candidate=2.5)
    seen = repository.gate()
    assert "the baseline does not say at which commit it was measured" in seen.failures
    # Nothing is announced that cannot be.
    assert "pair" not in seen.out.partition("loop run 1")[0]
    told = " ".join(seen.out.split())
    assert (
        "loop: No A/B run: the baseline does not say at which commit it was measured. Measure in a git repository"
        in told
    )


def test_a_commit_that_is_not_in_the_clone_is_told_with_the_way_to_get_it(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    blessed(repository, sha="0123456789abcdef0123456789abcdef01234567")
    ran(reference=0.0, candidate=2.5)
    seen = repository.gate()
    assert (
        "commit 0123456789abcdef0123456789abcdef01234567: it is not in this clone" in seen.failures
    )
    # Nothing is announced that cannot be.
    assert "pair" not in seen.out.partition("loop run 1")[0]
    assert "checking out" not in seen.out


def test_ab_runs_can_be_switched_off(repository: Project, ran: Callable[..., list[Path]]) -> None:
    blessed(repository)
    repository.write("pyproject.toml", '[tool.perfgate]\nab_run = "off"\n')
    asked = ran(reference=0.0, candidate=2.5)
    assert "runs against 10 blessed)" in repository.gate().failures
    assert set(asked) == {repository.root}


def test_a_budget_of_time_that_is_spent_leaves_workloads_unmeasured(
    repository: Project, ran: Callable[..., list[Path]]
) -> None:
    asked = ran(reference=0.0, candidate=0.0)
    seen = repository.gate("--perfgate-time-budget=0.000001")
    assert seen.status == 1
    assert (
        "loop: NOT_MEASURED\n  the time budget of 1e-06 s was spent before it came to it.\n"
        in seen.failures
    )
    assert asked == []
