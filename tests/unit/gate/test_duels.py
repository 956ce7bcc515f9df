"""The two sides of a pair: who begins, what each is held to, and who is to blame; without nsys and git."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from support import records
from support.stand import CHANGED, CRASHED, SHA, Stand, measured

from perfgate.execute import running
from perfgate.execute.worktree import Worktree
from perfgate.gate.series import Series
from perfgate.model.baseline import code_digest
from perfgate.model.errors import (
    CodeUnproven,
    PerfgateError,
    RevisionMissing,
    StoreFailed,
    WorkloadFailed,
    WorktreeFailed,
)
from perfgate.model.metric import Metric
from perfgate.model.settings import Settings
from perfgate.model.workload_file import read_workload_file

# One after the other


def test_the_other_commit_comes_first_in_every_other_pair(stand: Stand) -> None:
    stand.runs = [measured(n) for n in range(1, 5)]
    duel = stand.alternate()
    pairs = [duel.pair(n, 2) for n in range(2)]
    values = [
        [run.measured()[Metric.STEP_MS] for run in (pair.reference, pair.candidate)]
        for pair in pairs
    ]
    assert values == [[1, 2], [4, 3]]
    assert stand.folders == [
        "checkout: reference-1",
        "project: run-1",
        "project: run-2",
        "checkout: reference-2",
    ]
    assert stand.lines == [
        "pair 1 of 2, 0123456789ab",
        "pair 1 of 2, candidate",
        "pair 2 of 2, candidate",
        "pair 2 of 2, 0123456789ab",
    ]


# In turns


def test_the_other_commit_begins_in_every_other_interleaved_pair(stand: Stand) -> None:
    stand.pairs = [(measured(1), measured(2)), (measured(3), measured(4))]
    duel = stand.interleaved()
    pairs = [duel.pair(n, 3) for n in range(2)]
    values = [
        [run.measured()[Metric.STEP_MS] for run in (pair.reference, pair.candidate)]
        for pair in pairs
    ]
    assert values == [[1, 2], [3, 4]]
    common = {"bout_steps": 10, "steps": 150, "core": 3}
    assert stand.asked == [{"begins": "reference", **common}, {"begins": "candidate", **common}]
    assert stand.folders == ["interleaved-reference-1 | run-1", "interleaved-reference-2 | run-2"]
    assert stand.lines == [
        "pair 1 of 3, interleaved, 0123456789ab",
        "pair 1 of 3, interleaved, candidate",
        "pair 2 of 3, interleaved, 0123456789ab",
        "pair 2 of 3, interleaved, candidate",
    ]
    assert (duel.revision, duel.commit) == ("HEAD~1", SHA)


def test_either_side_runs_alone_in_a_folder_of_its_own_before_interleaved_pairs(
    stand: Stand,
) -> None:
    stand.runs, stand.pairs = (
        [measured(1, cores=1.5), measured(2, cores=0.9)],
        [(measured(3), measured(4))],
    )
    duel = stand.interleaved()
    alone = duel.alone()
    assert alone.cores == (1.5, 0.9)
    assert [run.measured()[Metric.STEP_MS] for run in (alone.reference, alone.candidate)] == [1, 2]
    duel.pair(0, 3)
    assert stand.folders == [
        "checkout: reference-alone",
        "project: run-1",
        "interleaved-reference-1 | run-2",
    ]
    assert stand.lines[:2] == ["alone, 0123456789ab", "alone, candidate"]


def test_the_candidate_of_a_pair_is_a_run_of_its_series(stand: Stand) -> None:
    other = {**records.CODE, "model.py": "c" * 64}
    stand.runs = [measured()]
    stand.pairs = [
        (measured(code=other), measured(torch="2.7.0", withheld="HF_TOKEN")),
        (measured(code=other), measured(code=other)),
    ]
    stand.series.measure(0, 3)
    duel = stand.interleaved()
    first = duel.pair(0, 2)
    assert (first.candidate.complaints, stand.series.code) == ((), records.CODE)
    assert stand.series.machine.torch == "2.7.0"
    (remark,) = stand.series.annotated(records.verdict()).remarks
    assert remark.startswith(
        "Not passed to the workload, for their names or values look like secrets: HF_TOKEN. "
    )
    assert duel.pair(1, 2).candidate.complaints == (CHANGED,)
    assert stand.folders[-1] == "interleaved-reference-2 | run-3"


def test_a_gpu_that_was_busy_before_a_pair_makes_both_runs_invalid(stand: Stand) -> None:
    stand.busy = "GPU GPU-0 is busy: 40 % utilised before the run"
    stand.pairs = [(measured(), measured())]
    pair = stand.interleaved().pair(0, 1)
    assert (
        pair.reference.complaints
        == pair.candidate.complaints
        == (f"before it started, {stand.busy}",)
    )


def test_another_commit_that_does_not_run_is_told_alike_in_both_forms(stand: Stand) -> None:
    failed = WorkloadFailed(
        subject="mlp", fact="it raised KeyError: 'x'", next_step="See the log.\n  | last words"
    )
    stand.runs, stand.pairs = [failed], [running.ReferenceFailed(failed)]
    told = []
    for duel in (stand.alternate(), stand.interleaved()):
        with pytest.raises(WorktreeFailed) as caught:
            duel.pair(0, 1)
        assert caught.value.__cause__ is failed
        told.append(str(caught.value))
    assert (
        told
        == [
            "mlp at 0123456789ab: it does not run there: it raised KeyError: 'x'.\nSee the log.\n  | last words"
        ]
        * 2
    )
    # What the series measures then is no change of code.
    stand.runs = [measured()]
    assert stand.series.measure(0, 3).complaints == ()


def checkout(stand: Stand, **files: str) -> Worktree:
    """The other commit's checkout, with some files."""
    root = stand.folder / "checkout"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    origin = stand.folder / "project"
    return Worktree(top=root, root=root, commit=SHA, origin=origin, origin_top=origin)


def test_a_command_that_was_blessed_with_other_words_than_its_commit_has_is_no_other_side(
    stand: Stand,
) -> None:
    declared = "command: [python, s.py, '{}']\nstep: step\nsteps: 12\n"
    (stand.folder / "project").mkdir()
    (stand.folder / "project" / "mlp.yaml").write_text(declared.format(2))
    stand.workload = read_workload_file(
        stand.folder / "project" / "mlp.yaml", root=stand.folder / "project", settings=Settings()
    )
    stand.there = replace(stand.there, tree=checkout(stand, **{"mlp.yaml": declared.format(1)}))
    with pytest.raises(CodeUnproven) as caught:
        stand.alternate(blessed_code="0123456789abcdef").pair(0, 1)
    assert str(caught.value) == (
        "mlp at 0123456789ab: its command or variables there (mlp.yaml) are not those that were blessed. They were "
        "measured with uncommitted changes.\nBless from a commit without changes, so that it can be run again."
    )
    checkout(stand, **{"mlp.yaml": declared.format(2)})
    stand.series = Series(
        bench=stand.here, workload=stand.workload, folder=stand.folder, listener=stand.progress
    )
    stand.runs = [measured(), measured()]
    stand.alternate(blessed_code=code_digest(records.CODE)).pair(1, 2)


@pytest.mark.parametrize("kind", [CodeUnproven, RevisionMissing])
def test_a_commit_without_the_workload_or_its_proof_stays_what_it_is(
    stand: Stand, kind: type[PerfgateError]
) -> None:
    error = kind(subject="mlp", fact="there is no workloads/mlp.py", next_step="Bless another.")
    stand.runs, stand.pairs = [error], [running.ReferenceFailed(error)]
    for duel in (stand.alternate(), stand.interleaved()):
        with pytest.raises(kind) as caught:
            duel.pair(0, 1)
        assert caught.value is error


@pytest.mark.parametrize("kind", [WorkloadFailed, StoreFailed])
def test_a_candidate_that_fails_in_a_pair_is_told_as_if_alone(
    stand: Stand, kind: type[PerfgateError]
) -> None:
    error = kind(subject="mlp", fact="it is broken", next_step="Mend it.")
    stand.pairs = [error]
    with pytest.raises(kind) as caught:
        stand.interleaved().pair(0, 1)
    assert caught.value is error
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("declared", [30, 500])
def test_a_candidate_whose_loop_fails_in_a_pair_is_told_that_it_takes_more_turns(
    stand: Stand, declared: int
) -> None:
    error = WorkloadFailed(subject="mlp", fact="it raised StopIteration", next_step="See the log.")
    stand.pairs = [error]
    stand.workload = stand.workload.model_copy(update={"steps": declared})
    duel = stand.interleaved()
    with pytest.raises(WorkloadFailed) as caught:
        duel.pair(0, 1)
    longer = (
        " In an interleaved duet it takes 160 turns, not 40.\n"
        'Let data that end before that begin again, or set duet = "alternate" in [tool.perfgate].'
    )
    assert (
        str(caught.value)
        == f"mlp: it raised StopIteration.{longer if declared == 30 else ''}\nSee the log."
    )
    if declared == 30:
        stand.pairs = [running.ReferenceFailed(error)]
        with pytest.raises(WorktreeFailed) as there:
            duel.pair(0, 1)
        assert (
            str(there.value)
            == f"mlp at 0123456789ab: it does not run there: it raised StopIteration.{longer}\nSee the log."
        )


def test_in_both_forms_the_other_commit_must_be_what_was_blessed(stand: Stand) -> None:
    blessed, other = code_digest(records.CODE), {**records.CODE, "model.py": "c" * 64}
    stand.runs = [measured(), measured(), measured(code=other)]
    stand.pairs = [(measured(), measured()), (measured(code=other), measured())]
    duels = (stand.alternate(blessed_code=blessed), stand.interleaved(blessed_code=blessed))
    for duel in duels:
        duel.pair(0, 2)
    for duel in duels:
        with pytest.raises(CodeUnproven) as caught:
            duel.pair(2, 4)
        assert str(caught.value) == (
            "mlp at 0123456789ab: the commit's files are not those that were blessed. They load others now, or git "
            "writes them here with other bytes (line ends, filters).\n"
            "Bless from a fresh checkout, so that the commit can be run again."
        )


def test_in_both_forms_the_sides_must_have_been_apart(stand: Stand) -> None:
    stand.there = replace(stand.there, tree=checkout(stand))
    own, shared = {"ext": "/cache/here/ext.so"}, {"ext": "/cache/ext.so"}
    stand.runs = [measured(loaded=one) for one in (own, shared, shared, shared, shared, shared)]
    stand.pairs = [
        (measured(loaded=own), measured(loaded=shared)),
        (measured(loaded=shared), measured(loaded=shared)),
    ]
    alternate, interleaved = stand.alternate(), stand.interleaved()
    alternate.pair(0, 3)
    interleaved.pair(0, 3)
    for pair in (partial(alternate.pair, 1, 3), interleaved.alone, partial(interleaved.pair, 1, 3)):
        with pytest.raises(CodeUnproven) as caught:
            pair()
        assert str(caught.value).startswith(
            "mlp at commit 0123456789ab: both sides loaded the same compiled code (ext from /cache/ext.so). "
        )


# nsys itself breaks down


def test_a_pair_that_nsys_broke_down_in_is_made_once_more(stand: Stand) -> None:
    stand.pairs = [CRASHED, (measured(), measured(12.5))]
    pair = stand.interleaved().pair(0, 3)
    assert pair.candidate.value(Metric.STEP_MS) == 12.5
    assert stand.folders == [
        "interleaved-reference-1 | run-1",
        "interleaved-reference-1-try-2 | run-1-try-2",
    ]
