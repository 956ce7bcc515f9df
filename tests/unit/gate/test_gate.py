"""What becomes of expectations: every outcome with its whole reason and next step, how often is measured, and when the
gate opens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from pydantic import ValidationError
from support import records

from perfgate import gate
from perfgate.gate import NOT_MEASURED_BY, Checked, Closing, Expectation, Policy, check, close, stored
from perfgate.judge.judge import Judgement, judge
from perfgate.judge.rows import Terms
from perfgate.judge.stages import STORED_PLAN
from perfgate.model.baseline import Baseline
from perfgate.model.errors import ConfigInvalid, GpuTaken, NsysNotFound, PerfgateError, StepsNotFound, WorkloadFailed
from perfgate.model.machine import Gpu, Machine
from perfgate.model.metric import Metric
from perfgate.model.outcome import OnInconclusive, OnNew, Outcome
from perfgate.model.sample import Run
from perfgate.model.settings import Settings
from perfgate.model.verdict import MetricVerdict, Verdict
from perfgate.model.workload import CaptureMode, CaptureWindow

BLESS = 'perfgate bless mlp --reason "..."'


class Recorded:
    """A series of prepared runs, which remembers what was asked of it."""

    def __init__(self, *made: Run | BaseException, on: Machine | None = None) -> None:
        self._made = made
        self.machine = on or records.machine()
        self.asked: list[tuple[int, int]] = []
        """Index and planned number of each run asked for."""

    def measure(self, index: int, planned: int) -> Run:
        """Hand out the next of the prepared runs, or raise it."""
        self.asked.append((index, planned))
        made = self._made[min(index, len(self._made) - 1)]
        if isinstance(made, BaseException):
            raise made
        return made


def expect(
    baseline: Baseline | None,
    *,
    on: Machine | None = None,
    steps: int = 30,
    trouble: str | None = None,
    elsewhere: Sequence[str] = (),
) -> Expectation:
    return Expectation(
        workload=records.workload(steps=steps),
        machine=on or records.machine(),
        baseline=baseline,
        trouble=trouble,
        elsewhere=tuple(elsewhere),
    )


def slower(percent: float) -> Run:
    """A run whose step and whose kernels take so much longer than the baseline's."""
    factor = 1 + percent / 100
    return records.run({Metric.STEP_MS: 12.34 * factor})


def told(checked: Checked) -> tuple[Outcome, str, str]:
    return checked.verdict.outcome, checked.verdict.reason, checked.verdict.next_step


# Without a comparison


def test_without_a_baseline_five_runs_are_measured_and_shown() -> None:
    series = Recorded(*records.runs(12.1, 12.2, 12.3, 12.4, 12.5))
    checked = check(expect(None), Policy(), series)
    assert told(checked) == (
        Outcome.NO_BASELINE,
        "there is no baseline to compare with on this machine (NVIDIA H200).",
        f"If these numbers are right, make them the baseline: {BLESS}",
    )
    assert series.asked == [(0, 5), (1, 5), (2, 5), (3, 5), (4, 5)]
    assert (len(checked.runs), checked.verdict.runs, checked.verdict.baseline_runs) == (5, 5, 0)
    assert checked.verdict.of(Metric.STEP_MS) == MetricVerdict(metric=Metric.STEP_MS, outcome=None, now=12.3)
    assert [row.metric for row in checked.verdict.metrics] == list(records.VALUES)


@pytest.mark.parametrize("baseline", [None, records.baseline()])
def test_a_change_of_pace_is_told_of_a_first_measurement_and_beside_a_verdict(baseline: Baseline | None) -> None:
    process = records.process(records.VALUES).model_copy(update={"periods_ms": (11.0,) * 15 + (12.34,) * 30})
    checked = check(expect(baseline), Policy(), Recorded(records.run(processes=(process,))))
    assert checked.verdict.outcome is (Outcome.NO_BASELINE if baseline is None else Outcome.PASSED)
    (remark,) = checked.verdict.remarks
    assert remark.startswith("The pace changes within the measured steps, in ")
    assert "11 ms a step, and 12.34 ms from step 18 of " in remark


def test_a_metric_that_one_run_lacks_is_not_shown_as_a_median() -> None:
    series = Recorded(records.run(absent={Metric.H2D_MS: "no copies"}), records.run())
    checked = check(expect(None), Policy(new_runs=2), series)
    assert checked.verdict.of(Metric.H2D_MS) is None
    assert checked.verdict.of(Metric.STEP_MS) is not None


def test_a_baseline_of_another_gpu_model_only_is_no_comparison_and_is_measured_for_a_bless() -> None:
    series = Recorded(*records.runs())
    checked = check(expect(None, elsewhere=("NVIDIA H100 80GB HBM3", "2 x NVIDIA H200")), Policy(), series)
    assert told(checked) == (
        Outcome.INCOMPARABLE,
        (
            "its baseline is for NVIDIA H100 80GB HBM3 and 2 x NVIDIA H200, this machine is NVIDIA H200. "
            "Their times are not comparable."
        ),
        f"Run where it was blessed, or bless one for this machine: {BLESS}",
    )
    assert len(checked.runs) == 5


@pytest.mark.parametrize(
    ("then", "fact"),
    [
        pytest.param(
            records.machine("NVIDIA H100"), "baseline is for NVIDIA H100, this machine is NVIDIA H200", id="model"
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
    checked = check(expect(records.baseline(on=then)), Policy(), Recorded(*records.runs()))
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
    series = Recorded(*records.runs(), on=epyc)
    checked = check(expect(records.baseline(on=atom), on=epyc), Policy(), series)
    assert told(checked) == (
        Outcome.INCOMPARABLE,
        (
            "baseline is for Intel Atom C3558 (4 CPUs) without a GPU, this machine is AMD EPYC 9654 (192 CPUs). "
            "Their times are not comparable."
        ),
        f"Run as it was blessed, or bless anew: {BLESS}",
    )
    same = check(expect(records.baseline(on=atom), on=atom), Policy(), Recorded(*records.runs(), on=atom))
    assert same.verdict.outcome is Outcome.PASSED


def test_a_baseline_in_a_folder_that_is_not_its_own_is_named_with_the_folder_it_belongs_in() -> None:
    expectation = expect(None, elsewhere=("NVIDIA H200",)).model_copy(
        update={"misplaced": ("baselines/NVIDIA-H200/mlp.json",)}
    )
    assert told(check(expectation, Policy(), Recorded(*records.runs()))) == (
        Outcome.INCOMPARABLE,
        (
            "its baseline for this machine is baselines/NVIDIA-H200/mlp.json, where none is looked for: the folder is "
            "to be named nvidia-h200."
        ),
        f"Rename the folder, or bless one anew: {BLESS}",
    )


def test_a_baseline_of_other_parameters_is_incomparable_and_says_which() -> None:
    checked = check(expect(records.baseline(), steps=50), Policy(), Recorded(*records.runs()))
    assert told(checked) == (
        Outcome.INCOMPARABLE,
        "the baseline is of other parameters: steps was 30 and is 50.",
        f"Restore them, or bless the workload as it is now: {BLESS}",
    )


def test_added_and_removed_parameters_are_told_apart() -> None:
    before = records.workload().model_copy(update={"parameters": {"pinned": "True", "batch": "64"}})
    now = records.workload().model_copy(
        update={"parameters": {"pinned": "False", "size": "9"}, "capture": CaptureWindow(delay=1, duration=2.5)}
    )
    expectation = Expectation(workload=now, machine=records.machine(), baseline=records.baseline(of=before))
    assert check(expectation, Policy(), Recorded(*records.runs())).verdict.reason == (
        "the baseline is of other parameters: capture was cudaProfilerApi and is delay 1 s, duration 2.5 s, "
        "parameter batch was 64 and is gone, parameter pinned was True and is False, "
        "parameter size was not there and is 9."
    )
    assert before.capture is CaptureMode.CUDA_PROFILER_API


def test_a_digest_that_no_parameter_explains_is_still_a_difference() -> None:
    edited = records.baseline().model_copy(update={"digest": "0" * 16})
    assert check(expect(edited), Policy(), Recorded(*records.runs())).verdict.reason == (
        "the baseline is of other parameters: its digest differs."
    )


def test_an_unreadable_baseline_is_incomparable_and_nothing_is_measured() -> None:
    trouble = "baselines/nvidia-h200/mlp.json: it is of format 2. This perfgate reads format 1.\nUpdate perfgate."
    series = Recorded(records.run())
    checked = check(expect(None, trouble=trouble), Policy(), series)
    assert told(checked) == (
        Outcome.INCOMPARABLE,
        "baselines/nvidia-h200/mlp.json: it is of format 2. This perfgate reads format 1.",
        "Update perfgate.",
    )
    assert series.asked == []
    assert (checked.runs, checked.verdict.runs) == ((), 0)


# With a comparison


def test_unchanged_runs_pass_after_the_first_look() -> None:
    baseline = records.baseline()
    series = Recorded(*records.runs(12.33, 12.35, 12.34))
    checked = check(expect(baseline), Policy(), series)
    judged = checked.verdict.model_copy(update={"classified": None})  # which is explained, not judged
    assert judged == judge(baseline, checked.runs, Terms()).verdict
    assert checked.verdict.outcome is Outcome.PASSED
    assert series.asked == [(0, 3), (1, 3), (2, 3)]


def test_a_clear_loss_is_regressed() -> None:
    checked = check(expect(records.baseline()), Policy(), Recorded(*map(slower, (20.0, 20.1, 19.9))))
    assert (checked.verdict.outcome, checked.verdict.runs) == (Outcome.REGRESSED, 3)


def test_a_gain_is_improved() -> None:
    checked = check(expect(records.baseline()), Policy(), Recorded(*map(slower, (-20.0, -20.1, -19.9))))
    assert (checked.verdict.outcome, checked.verdict.runs) == (Outcome.IMPROVED, 3)


def test_a_risen_count_is_regressed_after_two_runs_and_told_where() -> None:
    baseline = records.baseline(
        ranges=[range_.model_copy(update={"values": {**range_.values}}) for range_ in records.RANGES]
    )
    more = [
        records.RANGES[0],
        records.RANGES[1].model_copy(update={"values": {**records.RANGES[1].values, Metric.LAUNCHES: 32}}),
        records.RANGES[2],
    ]
    values = {**records.VALUES, Metric.LAUNCHES: 47}
    run = records.run(processes=[records.process(values, ranges=more)])
    series = Recorded(run)
    checked = check(expect(baseline), Policy(), series)
    assert checked.verdict.outcome is Outcome.REGRESSED
    assert series.asked == [(0, 3), (1, 3)]
    assert checked.verdict.runs == 2
    assert checked.verdict.where == {Metric.LAUNCHES: "+1: +1 under backward"}


def test_a_count_that_rose_in_one_run_only_does_not_stop_the_gate() -> None:
    series = Recorded(records.run({Metric.LAUNCHES: 47}), records.run(), records.run())
    checked = check(expect(records.baseline()), Policy(), series)
    assert (checked.verdict.outcome, len(series.asked)) == (Outcome.PASSED, 3)


def test_a_first_look_of_one_run_grows_to_confirm_a_risen_count() -> None:
    series = Recorded(records.run({Metric.SYNCS: 2}))
    checked = check(expect(records.baseline()), Policy(runs=1), series)
    assert (checked.verdict.outcome, series.asked) == (Outcome.REGRESSED, [(0, 1), (1, 2)])


def test_doubtful_runs_grow_to_5_8_and_10_and_end_inconclusive() -> None:
    series = Recorded(*(slower(percent) for percent in (0.85, 0.95, 0.9)), slower(0.9))
    checked = check(expect(records.baseline()), Policy(), series)
    assert checked.verdict.outcome is Outcome.INCONCLUSIVE
    assert [planned for _, planned in series.asked] == [3, 3, 3, 5, 5, 8, 8, 8, 10, 10]
    assert checked.verdict.runs == len(checked.runs) == 10


def test_doubtful_runs_stop_at_the_most_runs_allowed() -> None:
    series = Recorded(slower(0.9))
    checked = check(expect(records.baseline()), Policy(max_runs=6), series)
    assert (checked.verdict.outcome, len(series.asked)) == (Outcome.INCONCLUSIVE, 6)


def test_a_wider_budget_of_the_policy_reaches_the_judge() -> None:
    series = Recorded(*map(slower, (4.0, 4.1, 3.9)))
    assert check(expect(records.baseline()), Policy(), series).verdict.outcome is Outcome.REGRESSED
    assert (
        check(expect(records.baseline()), Policy(budgets={Metric.STEP_MS: 0.2}), series).verdict.outcome
        is Outcome.PASSED
    )


def scripted(*words: tuple[Outcome, int]) -> Callable[..., Judgement]:
    """A judge whose nth word is the nth pair of outcome and wanted runs; a clock speaks."""

    def speak(baseline: Baseline, runs: Sequence[Run], terms: Terms) -> Judgement:
        assert terms.plan is STORED_PLAN
        outcome, wanted = words[len(runs) - 1]
        row = MetricVerdict(metric=Metric.STEP_MS, outcome=outcome)
        verdict = Verdict(workload="mlp", outcome=outcome, reason="so", metrics=(row,), runs=len(runs))
        return Judgement(verdict=verdict, wanted_runs=wanted)

    return speak


@pytest.mark.parametrize("between", [Outcome.REGRESSED, Outcome.PASSED, Outcome.IMPROVED])
@pytest.mark.parametrize("at_last", [Outcome.REGRESSED, Outcome.PASSED])
def test_a_clock_is_believed_at_planned_looks_only(
    monkeypatch: pytest.MonkeyPatch, between: Outcome, at_last: Outcome
) -> None:
    doubt = Outcome.INCONCLUSIVE
    words = ((doubt, 3), (between, 2), (doubt, 5), (between, 4), (at_last, 5))
    monkeypatch.setattr(stored, "judge", scripted(*words))
    checked = check(expect(records.baseline()), Policy(), Recorded(records.run()))
    assert (checked.verdict.outcome, checked.verdict.runs) == (at_last, 5)


def test_a_users_own_number_of_runs_is_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "judge", scripted(*((Outcome.REGRESSED, n) for n in range(1, 6)), (Outcome.PASSED, 6)))
    checked = check(expect(records.baseline()), Policy(runs=6), Recorded(records.run()))
    assert (checked.verdict.outcome, checked.verdict.runs) == (Outcome.PASSED, 6)


def test_a_metric_that_the_runs_lack_is_not_measured() -> None:
    absent = {Metric.KERNEL_MS: "no kernel was recorded"}
    checked = check(expect(records.baseline()), Policy(), Recorded(records.run(absent=absent)))
    assert (checked.verdict.outcome, checked.verdict.runs) == (Outcome.NOT_MEASURED, 3)


# Runs that fail or do not count


@pytest.mark.parametrize("error", NOT_MEASURED_BY)
@pytest.mark.parametrize("baseline", [None, records.baseline()])
def test_what_fails_a_run_is_not_measured_with_its_whole_message(
    error: type[PerfgateError], baseline: Baseline | None
) -> None:
    broken = error(subject="mlp", fact="it broke", expectation="It should not", next_step="Mend it.\n  | last line")
    series = Recorded(records.run(), broken)
    checked = check(expect(baseline), Policy(), series)
    assert told(checked) == (Outcome.NOT_MEASURED, "it broke. It should not.", "Mend it.\n  | last line")
    assert (len(checked.runs), checked.verdict.runs, len(series.asked)) == (1, 1, 2)


def test_a_failure_that_is_of_something_else_than_the_workload_keeps_its_subject() -> None:
    broken = GpuTaken(subject="GPU-0", fact="another gate holds it", next_step="Wait.")
    assert told(check(expect(None), Policy(), Recorded(broken))) == (
        Outcome.NOT_MEASURED,
        "GPU-0: another gate holds it.",
        "Wait.",
    )


@pytest.mark.parametrize("bug", [KeyError("step"), ConfigInvalid(subject="a", fact="b", next_step="c"), OSError(28)])
def test_any_other_error_is_a_bug_and_stays_one(bug: Exception) -> None:
    with pytest.raises(type(bug)):
        check(expect(None), Policy(), Recorded(bug))


def test_the_users_interrupt_passes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        check(expect(None), Policy(), Recorded(KeyboardInterrupt()))


@pytest.mark.parametrize("baseline", [None, records.baseline()])
def test_a_throttled_run_is_invalid_and_ends_the_gate(baseline: Baseline | None) -> None:
    series = Recorded(records.run(), records.run(throttled=["thermal slowdown"], neighbours=["python (77)"]))
    checked = check(expect(baseline), Policy(), series)
    assert told(checked) == (
        Outcome.INVALID,
        "run 2 does not count: GPU GPU-0 was throttled (thermal slowdown); GPU GPU-0 was shared with python (77).",
        "Free the GPU or let it cool, and run again.",
    )
    assert (len(series.asked), len(checked.runs), checked.verdict.runs) == (2, 2, 2)


def test_a_run_that_lost_steps_is_invalid_and_is_not_blamed_on_the_gpu() -> None:
    lost = records.run().model_copy(
        update={"complaints": ("steps were lost: process 7 shows 28 of 30 measured steps",)}
    )
    assert told(check(expect(records.baseline()), Policy(), Recorded(lost))) == (
        Outcome.INVALID,
        "run 1 does not count: steps were lost: process 7 shows 28 of 30 measured steps.",
        "Remove the cause, and run again.",
    )


def stepping(run: Run, *names: str) -> Run:
    """A run whose steps are ranges of these names."""
    processes = tuple(
        process.model_copy(update={"step_names": dict.fromkeys(names, 1 / max(len(names), 1))})
        for process in run.processes
    )
    return run.model_copy(update={"processes": processes})


def with_steps(baseline: Baseline, *names: tuple[str, ...]) -> Baseline:
    """A baseline whose runs had steps of these names, one run after the other."""
    runs = zip(baseline.runs, [*names, *[names[-1]] * len(baseline.runs)], strict=False)
    made = tuple(run.model_copy(update={"step_names": of_run}) for run, of_run in runs)
    return baseline.model_copy(update={"occasions": (baseline.occasions[0].model_copy(update={"runs": made}),)})


def test_other_ranges_than_the_blessed_steps_are_no_comparison_and_are_measured_for_a_bless() -> None:
    faster = stepping(slower(-24), "optimizer_step #", "training_step #")
    checked = check(expect(with_steps(records.baseline(), ("training_step #",))), Policy(), Recorded(faster))
    assert told(checked) == (
        Outcome.INCOMPARABLE,
        (
            "the steps of the baseline are ranges named 'training_step #', these are 'optimizer_step #' and "
            "'training_step #'. Their times are not comparable."
        ),
        f"Correct the pattern of the steps (workloads/mlp.py), or bless what they are now: {BLESS}",
    )
    assert len(checked.runs) == 5


@pytest.mark.parametrize(("share", "outcome"), [(0.19, Outcome.PASSED), (0.2, Outcome.INCOMPARABLE)])
def test_a_few_steps_of_another_name_are_work_of_another_kind(share: float, outcome: Outcome) -> None:
    run = records.run()
    names = {"decode #": 1 - share, "mixed #": share}
    run = run.model_copy(
        update={"processes": tuple(one.model_copy(update={"step_names": names}) for one in run.processes)}
    )
    baseline = with_steps(records.baseline(), ("decode #", "prefill #"))
    assert check(expect(baseline), Policy(), Recorded(run)).verdict.outcome is outcome


def test_names_that_some_blessed_runs_lack_are_names_all_the_same() -> None:
    baseline = with_steps(records.baseline(), ("batch", "eval"), ("batch",), ("batch", "save"), ("batch",))
    run = stepping(records.run(), "batch", "half a batch")
    assert check(expect(baseline), Policy(), Recorded(run)).verdict.outcome is Outcome.INCOMPARABLE


def test_steps_of_many_and_long_names_are_told_shortly() -> None:
    many = stepping(records.run(), *sorted(f"{letter * 200} #" for letter in "abcdefg"))
    reason = check(expect(with_steps(records.baseline(), ("step",))), Policy(), Recorded(many)).verdict.reason
    assert f"these are '{'a' * 77}...', '{'b' * 77}...', " in reason
    assert reason.endswith(f"'{'e' * 77}...' and 2 more. Their times are not comparable.")


@pytest.mark.parametrize(
    ("then", "now"),
    [
        pytest.param((("step #",),), ("step #",), id="the same"),
        pytest.param(((),), ("other #",), id="the baseline does not know"),
        pytest.param((("step #",),), (), id="the run does not know"),
        pytest.param((*((f"step {letter}",) for letter in "abcde"),), ("step f",), id="names are data"),
        pytest.param((*(("decode", f"req {one}") for one in "abcde"),), ("decode", "req f"), id="some names are data"),
    ],
)
def test_steps_that_are_not_known_to_be_others_are_compared(
    then: tuple[tuple[str, ...], ...], now: tuple[str, ...]
) -> None:
    baseline = with_steps(records.baseline(), *then)
    checked = check(expect(baseline), Policy(), Recorded(stepping(records.run(), *now)))
    assert checked.verdict.outcome is Outcome.PASSED


def test_a_run_that_fails_while_other_steps_are_measured_for_a_bless_ends_that() -> None:
    series = Recorded(stepping(records.run(), "other #"), records.run(throttled=["thermal slowdown"]))
    checked = check(expect(with_steps(records.baseline(), ("step #",))), Policy(), series)
    assert (checked.verdict.outcome, len(checked.runs)) == (Outcome.INVALID, 2)


def of_processes(run: Run, number: int) -> Run:
    return run.model_copy(update={"processes": run.processes * number})


def test_a_rank_that_took_no_step_in_one_run_is_invalid() -> None:
    sound = records.run()
    checked = check(expect(records.baseline()), Policy(), Recorded(of_processes(sound, 2), sound))
    assert (checked.verdict.outcome, checked.verdict.reason, checked.verdict.next_step) == (
        Outcome.INVALID,
        "run 2 does not count: steps of 1 process were found, of 2 processes in run 1.",
        "Remove the cause, and run again.",
    )


def test_a_rank_that_took_no_step_in_any_run_is_no_comparison_and_is_measured_for_a_bless() -> None:
    made = records.baseline()
    two = tuple(run.model_copy(update={"processes": 2}) for run in made.runs)
    of_two = made.model_copy(update={"occasions": (made.occasions[0].model_copy(update={"runs": two}),)})
    checked = check(expect(of_two), Policy(), Recorded(records.run()))
    assert (checked.verdict.outcome, checked.verdict.reason, checked.verdict.next_step) == (
        Outcome.INCOMPARABLE,
        "steps of 1 process were found, of 2 in the baseline. Their values are not comparable.",
        f"Look for a process that ended early or took no step. If it is meant, bless it: {BLESS}",
    )
    assert len(checked.runs) == 5


def test_a_worker_that_never_came_to_a_run_is_not_measured() -> None:
    missing = NsysNotFound(subject="nsys", fact="not found in PATH", next_step="Install it.")
    verdict = gate.as_not_measured("mlp", missing)
    assert (verdict.workload, verdict.outcome, verdict.reason, verdict.next_step, verdict.runs) == (
        "mlp",
        Outcome.NOT_MEASURED,
        "nsys: not found in PATH.",
        "Install it.",
        0,
    )
    own = WorkloadFailed(subject="mlp", fact="it raised", next_step="See.")
    assert gate.as_not_measured("mlp", own).reason == "it raised."


# Circumstances


def remarks_of(then: Machine, now: Machine) -> tuple[str, ...]:
    series = Recorded(*records.runs(12.33, 12.35, 12.34), on=now)
    return check(expect(records.baseline(on=then), on=now), Policy(), series).verdict.remarks


def test_the_same_machine_is_not_remarked_upon() -> None:
    assert remarks_of(records.machine(), records.machine()) == ()


def test_another_gpu_of_the_same_model_is_remarked_upon() -> None:
    other = records.machine().model_copy(update={"gpus": (Gpu(name="NVIDIA H200", uuid="GPU-9"),)})
    assert remarks_of(records.machine(), other) == (
        "Another GPU of the same model than the baseline's: its clocks and memory may differ a little.",
    )


def test_other_versions_are_remarked_upon_as_the_worker_loaded_them() -> None:
    now = records.machine(driver="570.86.10").model_copy(update={"torch": None, "cuda": "12.8"})
    assert remarks_of(records.machine(), now) == (
        "The baseline was measured with driver 550.54.15, this with driver 570.86.10.",
        "The baseline was measured with torch 2.6.0, this with torch unknown.",
        "The baseline was measured with CUDA 12.4, this with CUDA 12.8.",
    )


def clocked(run: Run, sm_clock_mhz: float) -> Run:
    """A run at another SM clock."""
    gpu = run.conditions.gpus[0].model_copy(update={"sm_clock_mhz": sm_clock_mhz})
    return run.model_copy(update={"conditions": run.conditions.model_copy(update={"gpus": (gpu,)})})


@pytest.mark.parametrize("run", [records.run(), slower(-10)])
def test_a_higher_clock_hides_a_loss_so_stored_times_alone_do_not_open_the_gate(run: Run) -> None:
    assert told(check(expect(records.baseline()), Policy(), Recorded(clocked(run, 2079)))) == (
        Outcome.INCONCLUSIVE,
        (
            "nothing is slower than when it was blessed, but the SM clock was 1980 MHz in the baseline and 2079 MHz "
            "now: a loss of up to 5 % would not show."
        ),
        (
            "Let the baseline's commit be run again beside it (a clone with its history, duet not off), or bless at "
            f"this clock: {BLESS}"
        ),
    )


def test_a_wide_budget_of_kernel_time_does_not_let_the_clock_hide_a_loss_of_the_step() -> None:
    policy = Policy(budgets={Metric.KERNEL_MS: 0.5})
    checked = check(expect(records.baseline()), policy, Recorded(clocked(records.run(), 2079)))
    assert checked.verdict.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("sm_clock_mhz", [1755, 1980, 1995])
def test_a_lower_clock_or_one_within_the_budget_of_kernel_time_hides_none(sm_clock_mhz: float) -> None:
    run = clocked(records.run(), sm_clock_mhz)
    assert check(expect(records.baseline()), Policy(), Recorded(run)).verdict.outcome is Outcome.PASSED


def at_a_lower_clock(percent: float) -> Verdict:
    """The verdict on kernels and steps that take so much longer at an SM clock of 1900 instead of 1980 MHz."""
    runs = [clocked(longer(percent + wobble), 1900) for wobble in (0.0, 0.05, -0.05)]
    return check(expect(records.baseline()), Policy(), Recorded(*runs)).verdict


def longer(percent: float) -> Run:
    """A run whose steps and kernels take so much longer than blessed."""
    return records.run(
        {metric: records.VALUES[metric] * (1 + percent / 100) for metric in (Metric.STEP_MS, Metric.KERNEL_MS)}
    )


def test_what_a_lower_clock_alone_makes_of_the_blessed_code_is_no_loss() -> None:
    verdict = at_a_lower_clock(4.2)
    assert (verdict.outcome, verdict.reason, verdict.next_step) == (
        Outcome.INCONCLUSIVE,
        (
            "the SM clock was 1980 MHz in the baseline and 1900 MHz now, which alone can make a step 4.2 % longer: "
            "step_ms and kernel_ms are not shown to have lost more than that."
        ),
        (
            "Let the baseline's commit be run again beside it (a clone with its history, duet not off), or bless at "
            f"this clock: {BLESS}"
        ),
    )
    assert {row.outcome for row in verdict.metrics if row.metric in (Metric.STEP_MS, Metric.KERNEL_MS)} == {
        Outcome.INCONCLUSIVE
    }
    assert verdict.loss_level is None


def test_what_a_lower_clock_does_not_account_for_is_a_loss() -> None:
    assert at_a_lower_clock(9.0).outcome is Outcome.REGRESSED


def test_a_lower_clock_accounts_for_no_count() -> None:
    run = clocked(records.run({Metric.SYNCS: 9, Metric.STEP_MS: 12.34 * 1.042}), 1900)
    assert check(expect(records.baseline()), Policy(), Recorded(run)).verdict.outcome is Outcome.REGRESSED


def test_another_clock_of_the_gpu_is_told_once() -> None:
    """The judge's remark, not one more of the gate's."""
    run = clocked(records.run(), 1755)
    remarks = check(expect(records.baseline()), Policy(), Recorded(run)).verdict.remarks
    assert [remark for remark in remarks if "SM clock" in remark] == [
        "the SM clock was 1980 MHz in the baseline and 1755 MHz now: kernel time follows it"
    ]


# Policy


def test_the_policy_is_the_settings_with_the_workloads_budgets_before_the_projects() -> None:
    settings = Settings(
        runs=4,
        max_runs=8,
        budgets={Metric.STEP_MS: 0.03, Metric.GAP_MS: 0.02},
        inconclusive=OnInconclusive.FAIL,
        new=OnNew.ALLOW,
    )
    workload = records.workload(budgets={Metric.STEP_MS: 0.1})
    assert Policy.from_settings(settings, workload, runs_given=False) == Policy(
        runs=4,
        new_runs=5,
        max_runs=8,
        budgets={Metric.STEP_MS: 0.1, Metric.GAP_MS: 0.02},
        on_inconclusive=OnInconclusive.FAIL,
        on_new=OnNew.ALLOW,
    )
    by_hand = Policy.from_settings(settings, workload, runs_given=False, budgets_given=[Metric.STEP_MS])
    assert by_hand.budgets == settings.budgets
    assert Policy.from_settings(settings, None, runs_given=True).new_runs == 4
    assert Policy.from_settings(settings, None, runs_given=True).budgets == settings.budgets


def test_a_policy_without_runs_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        Policy(new_runs=0)


# Closing


def verdicts(**outcomes: Outcome) -> dict[str, Verdict]:
    return {name: records.verdict(outcome, name=name) for name, outcome in outcomes.items()}


def test_passed_and_improved_open_the_gate() -> None:
    closing = close(["a", "b"], verdicts(a=Outcome.PASSED, b=Outcome.IMPROVED), Policy())
    assert closing == Closing(opens=True)
    assert closing.exit_status == 0


def test_nothing_expected_keeps_the_gate_shut() -> None:
    closing = close([], {}, Policy())
    assert closing == Closing(opens=False, shut_by=("no workload was collected, so nothing was measured",))
    assert closing.exit_status == 1


def test_nothing_expected_keeps_the_gate_shut_even_with_verdicts() -> None:
    assert not close([], verdicts(a=Outcome.PASSED), Policy()).opens


def test_an_expected_workload_without_a_verdict_keeps_the_gate_shut() -> None:
    assert close(["a", "b"], verdicts(a=Outcome.PASSED), Policy()).shut_by == ("b: it was expected, and not measured",)


def test_an_orphaned_baseline_keeps_the_gate_shut() -> None:
    assert close(["a"], verdicts(a=Outcome.PASSED), Policy(), orphans=["old"]).shut_by == (
        (
            "old: it has a baseline for this machine, and no such workload exists any more; "
            "if it was renamed or deleted on purpose, delete its baseline"
        ),
    )


def test_a_baseline_whose_workload_may_be_in_a_skipped_file_keeps_the_gate_shut() -> None:
    passed, skipped = verdicts(a=Outcome.PASSED), {"workloads/b.py": "could not import 'flash_attn'"}
    assert close(["a"], passed, Policy(), skipped_files=skipped) == close(["a"], passed, Policy())
    shut = close(["a"], passed, Policy(), orphans=["b"], skipped_files=skipped)
    assert not shut.opens
    assert [line.partition("; ") for line in shut.shut_by] == [
        (
            "b: it has a baseline for this machine, and was not collected",
            "; ",
            "it may be in what was skipped: workloads/b.py (could not import 'flash_attn')",
        )
    ]


def test_a_workload_that_its_named_file_no_longer_declares_keeps_the_gate_shut() -> None:
    passed, gone = verdicts(a=Outcome.PASSED), {"b": "workloads/w.py"}
    assert close(["a"], passed, Policy(), gone=gone).shut_by == (
        (
            "b: it has a baseline for this machine, measured from workloads/w.py, which does not declare it any more; "
            "if it was renamed or deleted on purpose, delete its baseline; if it was moved, bless it where it is"
        ),
    )
    skipped = {"workloads/w.py": "could not import 'flash_attn'"}
    (line,) = close(["a"], passed, Policy(), gone=gone, skipped_files=skipped).shut_by
    assert line == (
        "b: it has a baseline for this machine, and was not collected; it may be in what was skipped: "
        "workloads/w.py (could not import 'flash_attn')"
    )


def test_every_reason_is_told_in_order() -> None:
    closing = close(["a", "b", "c"], verdicts(a=Outcome.REGRESSED, c=Outcome.INVALID), Policy(), orphans=["d"])
    assert [line.split(":")[0] for line in closing.shut_by] == ["a", "b", "c", "d"]
    assert closing.shut_by[0] == "a: REGRESSED"


OPENING = {Outcome.PASSED, Outcome.IMPROVED}


@pytest.mark.parametrize("on_new", OnNew)
@pytest.mark.parametrize("on_inconclusive", OnInconclusive)
@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_opens_the_gate_only_as_the_policy_says(
    outcome: Outcome, on_inconclusive: OnInconclusive, on_new: OnNew
) -> None:
    policy = Policy(on_inconclusive=on_inconclusive, on_new=on_new)
    allowed = OPENING | ({Outcome.INCONCLUSIVE} if on_inconclusive is OnInconclusive.WARN else set())
    allowed |= {Outcome.NO_BASELINE} if on_new is OnNew.ALLOW else set()
    closing = close(["a"], verdicts(a=outcome), policy)
    assert closing.opens is (outcome in allowed)
    assert closing.shut_by == (() if outcome in allowed else (f"a: {outcome}",))


def test_steps_not_found_is_among_what_leaves_a_workload_unmeasured() -> None:
    assert StepsNotFound in NOT_MEASURED_BY
