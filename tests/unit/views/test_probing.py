"""What a run under ncu is made of, and which commit stands for before; the runs themselves are for
tests/cli."""

from __future__ import annotations

import pytest
from support import records

from perfgate.model.baseline import Baseline, Commit
from perfgate.model.comparison import Side
from perfgate.model.note import note
from perfgate.model.verdict import ABRun
from perfgate.views.explain import Subject
from perfgate.views.ncu.launch import of_few_steps
from perfgate.views.probing import Candidates, commit_before


@pytest.mark.parametrize(("per_step", "steps"), [(46, 2), (1, 2), (0.5, 3), (0.1, 11), (0.001, 30)])
def test_a_run_takes_as_few_steps_as_surely_launch_the_kernel(per_step: float, steps: int) -> None:
    workload = records.workload(steps=30)
    few = of_few_steps(workload, per_step)
    assert (few.steps, few.warmup) == (steps, workload.warmup)


def test_a_workload_of_one_step_keeps_that_one() -> None:
    assert of_few_steps(records.workload(steps=1), 3).steps == 1


def test_a_command_takes_the_steps_that_it_takes() -> None:
    command = records.workload(steps=30, nodeid=None)
    assert of_few_steps(command, 3) == command


SIDE = Subject(side=Side(label="it", values={}))


def baseline(*commits: Commit | None) -> Baseline:
    made = records.baseline(*([{}] for _ in commits))
    occasions = zip(made.occasions, commits, strict=True)
    return made.model_copy(
        update={
            "occasions": tuple(
                one.model_copy(update={"commit": commit}) for one, commit in occasions
            )
        }
    )


def candidates(blessed: Baseline | None) -> Candidates:
    return Candidates(a=SIDE, b=SIDE, result=records.result(), baseline=blessed)


def test_before_is_the_newest_commit_that_was_measured_unchanged() -> None:
    blessed = baseline(
        Commit(sha="a" * 40), Commit(sha="b" * 40), Commit(sha="c" * 40, dirty=True), None
    )
    assert commit_before(candidates(blessed)) == "b" * 40


def test_of_an_ab_run_before_is_the_commit_that_ran_next_to_it() -> None:
    result = records.result()
    ab_run = ABRun(revision="v1", commit="d" * 40, pairs=3, screen_runs=0)
    compared = result.model_copy(
        update={
            "reference_runs": result.runs,
            "verdict": result.verdict.model_copy(update={"ab_run": ab_run}),
        }
    )
    found = Candidates(a=SIDE, b=SIDE, result=compared, baseline=baseline(Commit(sha="a" * 40)))
    assert commit_before(found) == "d" * 40


@pytest.mark.parametrize(
    ("blessed", "code"),
    [
        (None, "commit-no-baseline"),
        (baseline(Commit(sha="a" * 40, dirty=True)), "commit-dirty"),
        (baseline(None), "commit-unknown"),
    ],
)
def test_without_such_a_commit_it_says_why(blessed: Baseline | None, code: str) -> None:
    assert commit_before(candidates(blessed)) == note(code)
