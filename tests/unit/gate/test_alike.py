"""What forbids a comparison: other machines and parameters, other steps, lost processes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support import records
from support.cases import named
from support.prepared import (
    FULL,
    Made,
    Pairs,
    PreparedLab,
    busy,
    came,
    checked_by,
    copied,
    copying,
    expect,
    gated,
    noisy_baseline,
    noisy_runs,
    pairs,
    screen,
    slower,
    stepping,
    with_process,
    with_runs,
    with_steps,
)

from perfgate.execute.lab import Pair
from perfgate.gate.expect import Expectation
from perfgate.gate.underway import Underway
from perfgate.model.baseline import Baseline
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, note, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Form, Run
from perfgate.model.settings import Policy
from perfgate.model.verdict import Stage

ONCE = records.baseline()
UPDATED = records.machine(driver="570.86.10")
INCOMPARABLE, PASSED = Outcome.INCOMPARABLE, Outcome.PASSED


# Other machines and parameters


@pytest.mark.parametrize(
    "then",
    named(
        {
            "number": (records.machine("NVIDIA H200", "NVIDIA H200"),),
            "nsys": (records.machine(nsys="2023.4.4"),),
        }
    ),
)
def test_a_baseline_of_another_machine_is_shown_and_not_compared(then: Machine) -> None:
    checked = gated(records.runs(), None, records.baseline(on=then))
    assert came(checked) == (INCOMPARABLE, None, 5, 0)
    row = checked.verdict.of(Metric.STEP_MS)
    assert row is not None
    assert (row.outcome, row.baseline, row.now) == (None, 12.34, 12.34)


@pytest.mark.parametrize(
    ("expected", "outcome"),
    named(
        {
            "none": (expect(), Outcome.NO_BASELINE),
            "of another GPU": (expect(elsewhere=["NVIDIA H100"]), INCOMPARABLE),
            "of other parameters": (expect(ONCE, steps=50), INCOMPARABLE),
        }
    ),
)
def test_what_cannot_be_compared_is_measured_to_be_blessed(
    expected: Expectation, outcome: Outcome
) -> None:
    lab = PreparedLab(made=records.runs(12.1, 12.5, 12.3), by_form={}, machine=expected.machine)
    checked = checked_by(Underway(expected, lab, Policy()))
    assert came(checked) == (outcome, None, 5, 0)
    assert lab.asked == [5]
    row = checked.verdict.of(Metric.STEP_MS)
    assert row is not None
    assert (row.now, row.lowest, row.highest) == (12.3, 12.1, 12.5)


def test_a_metric_that_one_run_lacks_is_not_shown_as_a_median() -> None:
    made = [records.run(absent={Metric.H2D_MS: "no copies"}), records.run()]
    checked = gated(made, None, None, policy=Policy(new_runs=2))
    assert checked.verdict.of(Metric.H2D_MS) is None
    assert checked.verdict.of(Metric.STEP_MS) is not None


# Other steps


def of_kinds(**shares: float) -> Run:
    return with_process(records.run(), step_names=shares)


@pytest.mark.parametrize(
    ("then", "now", "outcome"),
    named(
        {
            "a few of another kind": ([("a", "b")], of_kinds(a=0.81, c=0.19), PASSED),
            "a fifth": ([("a", "b")], of_kinds(a=0.8, c=0.2), INCOMPARABLE),
            "digits": ([("step##",)], stepping(slower(0), "step#"), PASSED),
            "not known then": ([()], stepping(slower(0), "b"), PASSED),
            "not known now": ([("a",)], stepping(slower(0)), PASSED),
            "data": ([(x,) for x in "abcde"], stepping(slower(0), "f"), PASSED),
            "ids": ([("d", f"r {x}") for x in "abcde"], stepping(slower(0), "d", "r f"), PASSED),
        }
    ),
)
def test_steps_of_other_names(then: Sequence[tuple[str, ...]], now: Run, outcome: Outcome) -> None:
    checked = gated([now], None, with_steps(ONCE, *then))
    assert (checked.verdict.outcome, len(checked.runs)) == (outcome, 5)


def test_other_names_that_are_not_all_shown_say_so() -> None:
    checked = gated([stepping(slower(0), *"uvwxyz")], None, with_steps(ONCE, tuple("abcde")))
    differs = checked.verdict.why.fields["differs"]
    assert isinstance(differs, Note)
    assert differs.fields == {"before": (*"abcde",), "now": (*"uvwxy", "...")}


@pytest.mark.parametrize(
    ("then", "now", "outcome"),
    [
        ((30,), 30, PASSED),
        ((30,), 31, PASSED),
        ((30,), 32, INCOMPARABLE),
        ((30,), 60, INCOMPARABLE),
        ((None,), 60, PASSED),
        ((30,), None, PASSED),
        ((30, 31, 30), 60, PASSED),
    ],
)
def test_another_number_of_ranges_that_match(
    then: Sequence[int | None], now: int | None, outcome: Outcome
) -> None:
    """One more or less may be the end of the capture; a number that differs says nothing."""
    numbers = [*then, *[then[-1]] * 5]
    runs = tuple(
        run.model_copy(update={"step_ranges": number})
        for run, number in zip(ONCE.runs, numbers, strict=False)
    )
    baseline = records.in_one_occasion(ONCE, runs=runs)
    made = with_process(records.run(), step_ranges=now)
    assert gated([made], None, baseline).verdict.outcome is outcome


@pytest.mark.parametrize(
    ("blessed", "now", "outcome"),
    [
        ((46, 0), (0, 0), INCOMPARABLE),
        ((0, 2), (0, 0), INCOMPARABLE),
        ((46, 0), (None, 0), Outcome.NOT_MEASURED),
        ((0, 0), (0, 0), PASSED),
    ],
)
def test_steps_of_which_most_launch_nothing_any_more_are_no_comparison(
    blessed: tuple[float, float], now: tuple[float | None, float], outcome: Outcome
) -> None:
    names = (Metric.LAUNCHES, Metric.GRAPH_LAUNCHES)
    then = records.baseline([{**records.VALUES, **dict(zip(names, blessed, strict=True))}] * 5)
    held = {name: value for name, value in zip(names, now, strict=True) if value is not None}
    others = {metric: value for metric, value in records.VALUES.items() if metric not in names}
    process = records.process({**others, **held})
    assert gated([records.run(processes=[process])], None, then).verdict.outcome is outcome


@pytest.mark.parametrize("on", [None, UPDATED])
def test_a_rank_that_took_no_step_on_either_side_is_no_comparison(on: Machine | None) -> None:
    checked = gated(screen(0), pairs(0, 0), with_runs(FULL, processes=2), on=on)
    assert (checked.verdict.outcome, len(checked.runs)) == (INCOMPARABLE, 5)


def in_form(form: Form, graphs: float) -> Run:
    run = records.run({Metric.GRAPH_LAUNCHES: graphs})
    return run.model_copy(update={"form": form})


@pytest.mark.parametrize(
    ("blessed", "form", "graphs", "settles"),
    [
        (Form.EARLY, Form.EARLY, 1.0, True),
        (None, Form.ALONE, 1.0, True),
        (None, Form.EARLY, 1.0, False),
        (Form.EARLY, Form.LATE, 1.0, False),
    ],
)
def test_graphs_of_runs_that_waited_elsewhere_are_not_compared(
    blessed: Form | None, form: Form, graphs: float, *, settles: bool
) -> None:
    made = [in_form(form, graphs)]
    then = records.baseline([{**records.VALUES, Metric.GRAPH_LAUNCHES: 1.0}] * 5)
    stored = with_runs(then, form=blessed)
    alone = gated(made, None, stored).verdict
    assert alone.outcome is (PASSED if settles else INCOMPARABLE)
    paired = gated(made, Pairs(made, made), stored).verdict
    assert paired.stage is (Stage.SCREEN if settles else Stage.AB_RUN)


def test_a_run_that_fails_while_other_steps_are_measured_ends_that() -> None:
    made = [stepping(records.run(), "other #"), records.run(throttled=["thermal slowdown"])]
    assert came(gated(made, None, with_steps(ONCE, ("step #",))))[0] is Outcome.INVALID


# The other commit's runs

NOW = stepping(slower(-24), "half #", "turn #")
WITHOUT = records.run(absent={Metric.KERNEL_MS: "no kernel was recorded"})


TURNS = with_runs(FULL, step_names=("turn #",))


@pytest.mark.parametrize(
    ("there", "stage"),
    named(
        {
            "invalid": (
                slower(0).model_copy(
                    update={"notes": (quoted("steps were lost", Severity.INVALID),)}
                ),
                Stage.STORED,
            ),
            "other processes": (
                records.run(processes=[records.process(), records.process(pid=2)]),
                Stage.STORED,
            ),
            "other counts": (records.run({Metric.LAUNCHES: 58}), Stage.STORED),
            "a metric that is gated is lacking": (WITHOUT, Stage.STORED),
            "unfit: INVALID": (records.run(throttled=["heat"]), None),
        }
    ),
)
def test_a_run_of_the_other_commit_that_is_not_what_was_blessed(
    there: Run, stage: Stage | None
) -> None:
    sides = Pairs([there], [slower(2.5)])
    verdict = gated(screen(2.5), sides, with_runs(FULL, processes=1)).verdict
    assert verdict.stage is stage
    assert (verdict.outcome is Outcome.INVALID) is (stage is None)


@pytest.mark.parametrize(("slow", "stage"), [(1, Stage.AB_RUN), (2, Stage.STORED)])
def test_a_commit_whose_runs_do_first_time_work_is_not_the_other_side(
    slow: int, stage: Stage
) -> None:
    work = {"notes": (note("first-steps-slow", Severity.WARN, slow=3, last=5),)}
    there = [slower(0, n).model_copy(update=work if n < slow else {}) for n in range(8)]
    sides = Pairs(there, [slower(0, n + 2) for n in range(8)])
    assert gated(screen(2.5), sides).verdict.stage is stage


@pytest.mark.parametrize("references", [[WITHOUT, slower(0)], [slower(0), WITHOUT]])
def test_a_metric_that_some_runs_of_the_other_commit_lack_is_not_left_out(
    references: list[Made],
) -> None:
    checked = gated([], Pairs(references, [slower(0)]), None, against=True)
    assert checked.verdict.outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize(("there", "stage"), [(1025, "ab_run"), (980, "ab_run"), (1031, "stored")])
def test_a_varying_count_of_the_commit_may_differ_by_the_spread_of_the_blessed(
    there: int, stage: str
) -> None:
    made = copying(1011, 1012, 1013, 1000)
    checked = gated(made, Pairs(copying(there), copying(there)), copied())
    assert (checked.verdict.outcome, checked.verdict.stage) == (PASSED, stage)


@pytest.mark.parametrize(
    ("baseline", "runs", "references"),
    named(
        {
            "of an old baseline's commit": (FULL, 5, 2),
            "as they were blessed": (TURNS, 5, 0),
            "of a commit that was asked for": (None, 2, 2),
        }
    ),
)
def test_other_steps_than_the_other_commits_are_no_comparison(
    baseline: Baseline | None, runs: int, references: int
) -> None:
    other = Pairs([stepping(slower(0), "turn #")], [NOW])
    against = baseline is None
    checked = gated([NOW], other, baseline, on=None if against else UPDATED, against=against)
    assert came(checked) == (INCOMPARABLE, None, runs, references)


def test_a_candidate_that_launches_nothing_is_not_compared_with_another_commit() -> None:
    gone = Pairs([records.run()], [records.run({Metric.LAUNCHES: 0})])
    assert gated([], gone, None, against=True).verdict.outcome is INCOMPARABLE


# One core or several


@pytest.mark.parametrize(
    ("alone", "cores", "blocks", "stage"),
    named(
        {
            "two threads became one": ((0, 90), (1.9, 1.0), (90, 86), Stage.AB_RUN),
            "one core": ((-30, -30), (1.05, 1.0), (20, 20), Stage.BLOCKS),
            "one thread became two": ((0, -45), (1.0, 1.9), (0, 3), Stage.AB_RUN),
        }
    ),
)
def test_a_loop_that_needs_several_cores_is_not_judged_on_one(
    alone: tuple[float, float],
    cores: tuple[float, float],
    blocks: tuple[float, float],
    stage: Stage,
) -> None:
    there, here = (busy(slower(one), kept) for one, kept in zip(alone, cores, strict=True))
    pair = Pair(reference=there, candidate=here)
    sides = Pairs(noisy_runs(blocks[0]), noisy_runs(blocks[1], wobble=2), alone=pair)
    checked = gated(
        [slower(alone[1])], pairs(0, alone[1]), noisy_baseline(), blocks=sides, on=UPDATED
    )
    assert checked.verdict.stage is stage


@pytest.mark.parametrize(
    ("longest", "stage"), [(1.0, Stage.AB_RUN), (1.42, Stage.BLOCKS)], ids=["quiet", "noisy"]
)
def test_blocks_may_meet_the_noise_that_blessed_runs_have_met(longest: float, stage: Stage) -> None:
    noisy = [12.34 * (1 + n / 100) for n in (-4, 0, 4, -2)]
    blessed = records.baseline([{Metric.STEP_MS: ms} for ms in (*noisy, 12.34 * longest)])
    pair = Pair(reference=busy(slower(-3), 1.11), candidate=busy(slower(-3), 1.11))
    sides = Pairs(noisy_runs(38), noisy_runs(38, wobble=2), alone=pair)
    checked = gated([slower(-3)], pairs(0, 0), blessed, blocks=sides)
    assert checked.verdict.stage is stage
