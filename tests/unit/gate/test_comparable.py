"""What forbids a comparison, and how it is told."""

from __future__ import annotations

import pytest
from support import records
from support.prepared import BLESS, Candidate, expect, stepping, told, with_steps

from perfgate.gate import Policy, check
from perfgate.model.baseline import Baseline, BlessedRun
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run

# Other machines and parameters


@pytest.mark.parametrize(
    ("then", "fact"),
    [
        pytest.param(
            records.machine("NVIDIA H100"),
            "baseline is for NVIDIA H100, this machine is NVIDIA H200",
            id="model",
        ),
        pytest.param(
            records.machine("NVIDIA H200", "NVIDIA H200"),
            "baseline is for 2 x NVIDIA H200, this machine is NVIDIA H200",
            id="count",
        ),
        pytest.param(
            records.machine(nsys="2023.4.4"),
            "baseline was captured by nsys 2023.4.4, this is nsys 2024.2.3",
            id="nsys",
        ),
        pytest.param(
            records.machine("NVIDIA H100", nsys="2023.4.4"),
            "baseline is for NVIDIA H100, this machine is NVIDIA H200; "
            "baseline was captured by nsys 2023.4.4, this is nsys 2024.2.3",
            id="both",
        ),
        pytest.param(
            records.machine().model_copy(update={"nsys_options": ("--trace=cuda,nvtx,osrt",)}),
            "baseline was captured with --trace=cuda,nvtx,osrt, "
            "this run with --trace=cuda,nvtx --cuda-graph-trace=graph",
            id="options",
        ),
    ],
)
def test_a_baseline_of_another_machine_is_incomparable(then: Machine, fact: str) -> None:
    checked = check(expect(records.baseline(on=then)), Policy(), Candidate(*records.runs()))
    assert told(checked) == (
        Outcome.INCOMPARABLE,
        f"{fact}. Their times are not comparable.",
        f"Run as it was blessed, or bless anew: {BLESS}",
    )
    row = checked.verdict.of(Metric.STEP_MS)
    assert row is not None
    assert (row.outcome, row.baseline, row.now) == (None, 12.34, 12.34)
    assert (checked.verdict.runs, checked.verdict.baseline_runs) == (5, 5)


def test_without_a_gpu_a_baseline_of_another_cpu_is_incomparable() -> None:
    atom = Machine(cpu="Intel Atom C3558", cpu_count=4)
    epyc = Machine(cpu="AMD EPYC 9654", cpu_count=192)
    series = Candidate(*records.runs(), on=epyc)
    checked = check(expect(records.baseline(on=atom), on=epyc), Policy(), series)
    assert told(checked) == (
        Outcome.INCOMPARABLE,
        (
            "baseline is for Intel Atom C3558 (4 CPUs) without a GPU, this machine is AMD EPYC 9654 (192 CPUs). "
            "Their times are not comparable."
        ),
        f"Run as it was blessed, or bless anew: {BLESS}",
    )
    same = check(
        expect(records.baseline(on=atom), on=atom), Policy(), Candidate(*records.runs(), on=atom)
    )
    assert same.verdict.outcome is Outcome.PASSED


def test_a_baseline_in_a_folder_that_is_not_its_own_is_named_with_the_folder_it_belongs_in() -> (
    None
):
    expectation = expect(None, elsewhere=("NVIDIA H200",)).model_copy(
        update={"misplaced": ("baselines/NVIDIA-H200/mlp.json",)}
    )
    assert told(check(expectation, Policy(), Candidate(*records.runs()))) == (
        Outcome.INCOMPARABLE,
        (
            "its baseline for this machine is baselines/NVIDIA-H200/mlp.json, where none is looked for: the folder is "
            "to be named nvidia-h200."
        ),
        f"Rename the folder, or bless one anew: {BLESS}",
    )


def test_a_baseline_of_other_parameters_is_incomparable_and_says_which() -> None:
    checked = check(expect(records.baseline(), steps=50), Policy(), Candidate(*records.runs()))
    assert told(checked) == (
        Outcome.INCOMPARABLE,
        "the baseline is of other parameters: steps was 30 and is 50.",
        f"Restore them, or bless the workload as it is now: {BLESS}",
    )


# Other steps


@pytest.mark.parametrize(
    ("share", "outcome"), [(0.19, Outcome.PASSED), (0.2, Outcome.INCOMPARABLE)]
)
def test_a_few_steps_of_another_name_are_work_of_another_kind(
    share: float, outcome: Outcome
) -> None:
    run = records.run()
    names = {"decode #": 1 - share, "mixed #": share}
    run = run.model_copy(
        update={
            "processes": tuple(
                one.model_copy(update={"step_names": names}) for one in run.processes
            )
        }
    )
    baseline = with_steps(records.baseline(), ("decode #", "prefill #"))
    assert check(expect(baseline), Policy(), Candidate(run)).verdict.outcome is outcome


def test_steps_of_a_baseline_of_which_each_digit_was_told_are_the_same() -> None:
    baseline = with_steps(records.baseline(), *[("step##", "## ms")] * 5)
    run = stepping(records.run(), "step#", "# ms")
    assert check(expect(baseline), Policy(), Candidate(run)).verdict.outcome is Outcome.PASSED


def test_names_that_some_blessed_runs_lack_are_names_all_the_same() -> None:
    baseline = with_steps(
        records.baseline(), ("batch", "eval"), ("batch",), ("batch", "save"), ("batch",)
    )
    run = stepping(records.run(), "batch", "half a batch")
    assert check(expect(baseline), Policy(), Candidate(run)).verdict.outcome is Outcome.INCOMPARABLE


def drawing(run: Run, *ranges: int | None) -> Run:
    """A run of as many processes, in which so many ranges match the pattern of the steps."""
    (one,) = run.processes
    return run.model_copy(
        update={
            "processes": tuple(one.model_copy(update={"step_ranges": number}) for number in ranges)
        }
    )


def with_drawn(*numbers: int | None) -> Baseline:
    """A baseline in whose runs so many ranges matched, one run after the other."""
    baseline = records.baseline()
    runs = zip(baseline.runs, [*numbers, *[numbers[-1]] * len(baseline.runs)], strict=False)
    made = tuple(run.model_copy(update={"step_ranges": drawn}) for run, drawn in runs)
    return baseline.model_copy(
        update={"occasions": (baseline.occasions[0].model_copy(update={"runs": made}),)}
    )


def test_a_script_that_draws_more_ranges_of_that_name_is_not_compared_by_the_first_of_them() -> (
    None
):
    checked = check(
        expect(with_drawn(30)), Policy(), Candidate(*(drawing(run, 60) for run in records.runs()))
    )
    outcome, reason, next_step = told(checked)
    assert outcome is Outcome.INCOMPARABLE
    assert reason == (
        "30 ranges match the pattern of the steps in the baseline, 60 here, and those that are used may be other work "
        "than they were. Their times are not comparable."
    )
    assert next_step.startswith("Correct the pattern of the steps (")
    # What a bless takes is measured all the same.
    assert checked.verdict.runs == len(records.baseline().runs)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        pytest.param((30,), 30, id="the same"),
        pytest.param((30,), 31, id="one more, cut or not by the end of the capture"),
        pytest.param((None,), 60, id="the baseline does not know"),
        pytest.param((30, None), 60, id="the baseline knows it of one run"),
        pytest.param((30,), None, id="the run does not know"),
        pytest.param((30, 31, 30), 60, id="the loop ends by time"),
    ],
)
def test_as_many_ranges_as_before_or_a_number_that_is_not_known_are_compared(
    then: tuple[int | None, ...], now: int | None
) -> None:
    runs = (drawing(run, now) for run in records.runs())
    assert (
        check(expect(with_drawn(*then)), Policy(), Candidate(*runs)).verdict.outcome
        is Outcome.PASSED
    )


@pytest.mark.parametrize("now", [28, 32])
def test_two_ranges_more_or_less_are_other_steps(now: int) -> None:
    runs = (drawing(run, now) for run in records.runs())
    assert (
        check(expect(with_drawn(30)), Policy(), Candidate(*runs)).verdict.outcome
        is Outcome.INCOMPARABLE
    )


def test_ranges_are_those_of_all_processes_where_each_tells() -> None:
    run = records.run()
    assert BlessedRun.of(drawing(run, 30, 20)).step_ranges == 50
    assert BlessedRun.of(drawing(run, 30, None)).step_ranges is None


@pytest.mark.parametrize(
    ("then", "now"),
    [
        pytest.param((("step #",),), ("step #",), id="the same"),
        pytest.param(((),), ("other #",), id="the baseline does not know"),
        pytest.param((("step #",),), (), id="the run does not know"),
        pytest.param(
            (*((f"step {letter}",) for letter in "abcde"),), ("step f",), id="names are data"
        ),
        pytest.param(
            (*(("decode", f"req {one}") for one in "abcde"),),
            ("decode", "req f"),
            id="some names are data",
        ),
    ],
)
def test_steps_that_are_not_known_to_be_others_are_compared(
    then: tuple[tuple[str, ...], ...], now: tuple[str, ...]
) -> None:
    baseline = with_steps(records.baseline(), *then)
    checked = check(expect(baseline), Policy(), Candidate(stepping(records.run(), *now)))
    assert checked.verdict.outcome is Outcome.PASSED
