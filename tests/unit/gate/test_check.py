"""The path of one workload: screen, pairs, blocks, further looks, or another commit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support import records
from support.cases import named
from support.prepared import (
    COPIED,
    FULL,
    SHA,
    Came,
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
    in_blocks,
    noisy_baseline,
    noisy_runs,
    pairs,
    screen,
    slower,
)

from perfgate.execute.lab import Asked, Pair
from perfgate.gate.check import check
from perfgate.gate.plan import opening, why_straight
from perfgate.gate.underway import Underway
from perfgate.model.baseline import Baseline
from perfgate.model.errors import (
    CodeUnproven,
    ConfigInvalid,
    NotMeasured,
    PerfgateError,
    RevisionMissing,
    WorkloadFailed,
    WorktreeFailed,
)
from perfgate.model.machine import Gpu, Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Severity, note, quoted
from perfgate.model.order import Needs
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Form, Run
from perfgate.model.settings import Policy
from perfgate.model.verdict import ABRun, Stage

PASSED, REGRESSED, OPEN = Outcome.PASSED, Outcome.REGRESSED, Outcome.INCONCLUSIVE
SCREEN, STORED, AB_RUN, BLOCKS = Stage.SCREEN, Stage.STORED, Stage.AB_RUN, Stage.BLOCKS
ONCE = records.baseline()
UPDATED = records.machine(driver="570.86.10")
JUMPY = [slower(n) for n in (0.0, 5.0, -4.0, 3.0, -5.0, 4.0, -3.0, 2.0, 1.0, -2.0, 5.0, -1.0)]


def broken(error: type[PerfgateError]) -> PerfgateError:
    return error("toml-unreadable", file="mlp", problem="it broke")


def more_syncs(number: int = 0, *, clock_mhz: float = 1980, percent: float = 0.0) -> Run:
    run = slower(percent, number, clock_mhz=clock_mhz)
    values = {**records.VALUES, Metric.SYNCS: 2.0}
    return run.model_copy(update={"processes": (records.process(values),)})


# Against stored runs


@pytest.mark.parametrize(
    ("made", "baseline", "policy", "expected"),
    named(
        {
            "unchanged": (records.runs(12.33, 12.35), ONCE, Policy(), (PASSED, 5)),
            "loss": ([slower(20)], ONCE, Policy(), (REGRESSED, 5)),
            "gain": ([slower(-20)], ONCE, Policy(), (Outcome.IMPROVED, 5)),
            "doubt": ([slower(4)], ONCE, Policy(), (OPEN, 10)),
            "few runs": ([slower(0.9)], ONCE, Policy(max_runs=6), (OPEN, 6)),
            "wide": ([slower(4)], ONCE, Policy(budgets={Metric.STEP_MS: 0.2}), (PASSED, 5)),
            "a count rose": ([more_syncs()], ONCE, Policy(), (REGRESSED, 2)),
            "of one run": ([more_syncs()], ONCE, Policy(runs=1), (REGRESSED, 2)),
            "once only": ([more_syncs(), slower(0)], ONCE, Policy(), (PASSED, 5)),
            "a varying count": (copying(1030, 1032, 1028), copied(), Policy(), (REGRESSED, 5)),
            "a metric is lacking": (
                [records.run(absent={Metric.KERNEL_MS: "none"})],
                ONCE,
                Policy(),
                (Outcome.NOT_MEASURED, 3),
            ),
        }
    ),
)
def test_against_stored_runs(
    made: Sequence[Made], baseline: Baseline, policy: Policy, expected: tuple[Outcome, int]
) -> None:
    checked = gated(made, None, baseline, policy=policy)
    assert (checked.verdict.outcome, checked.verdict.runs) == expected
    assert len(checked.runs) == checked.verdict.runs


def test_runs_grow_from_look_to_look() -> None:
    lab = PreparedLab(made=[slower(0.9)], by_form={}, machine=records.machine())
    check(Underway(expect(ONCE), lab, Policy()))
    assert lab.asked == [5, 3, 2]


def test_runs_that_were_started_ahead_end_where_a_count_rose() -> None:
    lab = PreparedLab(made=[more_syncs()], by_form={}, machine=records.machine())
    checked = checked_by(Underway(expect(ONCE), lab, Policy()))
    assert (checked.verdict.outcome, checked.verdict.runs) == (REGRESSED, 2)
    assert (lab.asked, lab.called_off) == ([5], [3])


def test_an_unreadable_baseline_is_incomparable_and_nothing_is_measured() -> None:
    lab = PreparedLab(made=[slower(0)], by_form={}, machine=records.machine())
    checked = checked_by(
        Underway(expect(trouble=note("quoted", text="it is broken")), lab, Policy())
    )
    assert (checked.verdict.outcome, checked.runs, lab.asked) == (Outcome.INCOMPARABLE, (), [])


# When pairs are made, and what comes of them


@pytest.mark.parametrize(
    ("made", "alternate", "baseline", "expected"),
    named(
        {
            "screen": (screen(0), pairs(0, 0), FULL, (PASSED, SCREEN, 5, 0)),
            "machine slower": (screen(8), pairs(8, 8), FULL, (PASSED, AB_RUN, 6, 3)),
            "loss": (screen(2.5), pairs(0, 2.5), FULL, (REGRESSED, AB_RUN, 6, 3)),
            "doubt": (screen(2.5), Pairs(JUMPY, JUMPY[::-1]), FULL, (OPEN, AB_RUN, 15, 12)),
            "no pairs": (screen(0.9), None, FULL, (OPEN, STORED, 10, 0)),
            "varying count in doubt": (
                copying(1011, 1012, 1013),
                Pairs(copying(*COPIED), copying(1008, 992, 1001)),
                copied(),
                (PASSED, AB_RUN, 6, 3),
            ),
            "varying count rose": (
                copying(1030, 1032, 1028),
                Pairs(copying(*COPIED), copying(1030, 1032, 1028, 1031, 1029)),
                copied(),
                (REGRESSED, AB_RUN, 8, 5),
            ),
            "other clock": (screen(0, clock_mhz=1755), pairs(0, 0), FULL, (PASSED, AB_RUN, 8, 3)),
            "a count at any clock": (
                [more_syncs(clock_mhz=1755)],
                pairs(0, 0),
                FULL,
                (REGRESSED, SCREEN, 2, 0),
            ),
            "a count that rises in pairs": (
                [slower(1.9)],
                Pairs([slower(0)], [more_syncs(n, percent=30) for n in range(2)]),
                FULL,
                (REGRESSED, AB_RUN, 5, 2),
            ),
        }
    ),
)
def test_with_pairs_at_hand(
    made: Sequence[Made], alternate: Pairs | None, baseline: Baseline, expected: Came
) -> None:
    checked = gated(made, alternate, baseline)
    assert came(checked) == expected
    if expected[1] is SCREEN and alternate is not None:
        assert alternate.asked == []


def test_an_ab_run_is_reported_by_its_commit_and_numbers() -> None:
    alternate = pairs(0.0, 2.5)
    verdict = gated(screen(2.5), alternate).verdict
    assert alternate.asked == [3]
    assert verdict.ab_run == ABRun(
        revision="the baseline's commit 0123456789ab", commit=SHA, pairs=3, screen_runs=3
    )
    row = verdict.of(Metric.STEP_MS)
    assert row is not None
    assert (row.baseline, row.now) == pytest.approx((12.34, 12.34 * 1.025), rel=2e-4)
    assert (verdict.runs, verdict.baseline_runs) == (6, 3)


def test_pairs_in_doubt_are_looked_at_after_3_5_8_and_12() -> None:
    alternate = Pairs(JUMPY, JUMPY[::-1])
    gated(screen(2.5), alternate)
    assert alternate.asked == [3, 2, 3, 4]


# Where stored times do not hold: counts, then pairs


@pytest.mark.behaviour
@pytest.mark.parametrize(
    ("made", "baseline", "on", "expected"),
    named(
        {
            "other driver": ([slower(0)], FULL, UPDATED, (PASSED, AB_RUN, 4, 3)),
            "a count rose": ([more_syncs()], FULL, UPDATED, (REGRESSED, Stage.COUNTS, 2, 0)),
            "rose once only": ([more_syncs(), slower(0)], FULL, UPDATED, (PASSED, AB_RUN, 5, 3)),
            "noisy loop": (
                [more_syncs()],
                noisy_baseline(),
                UPDATED,
                (REGRESSED, Stage.COUNTS, 2, 0),
            ),
            "a fall ends nothing": (
                [records.run({Metric.LAUNCHES: 20})],
                FULL,
                UPDATED,
                (PASSED, AB_RUN, 4, 3),
            ),
            "medians": (
                [slower(0)],
                FULL.model_copy(update={"step_value": "median"}),
                None,
                (PASSED, AB_RUN, 4, 3),
            ),
        }
    ),
)
def test_counts_come_first_where_stored_times_do_not_hold(
    made: Sequence[Made], baseline: Baseline, on: Machine | None, expected: Came
) -> None:
    assert came(gated(made, pairs(0, 0), baseline, on=on)) == expected


def test_without_an_ab_run_a_baseline_of_medians_is_not_comparable_but_measured_to_bless() -> None:
    medians = FULL.model_copy(update={"step_value": "median"})
    assert came(gated(screen(0), None, medians)) == (Outcome.INCOMPARABLE, None, 5, 0)
    loss = gated(screen(0), pairs(0, 5), medians)
    assert came(loss)[:2] == (REGRESSED, AB_RUN)


@pytest.mark.parametrize(("asked", "runs"), [(1, 4), (4, 4), (20, 13)])
def test_where_runs_were_asked_for_so_many_are_made_which_a_bless_takes(
    asked: int, runs: int
) -> None:
    policy = Policy(runs=asked, stops_early=False)
    checked = gated(screen(0), pairs(0, 0), on=UPDATED, policy=policy)
    assert (checked.verdict.outcome, checked.verdict.stage) == (PASSED, AB_RUN)
    assert len(checked.runs) == runs


def test_another_torch_is_judged_by_what_was_blessed() -> None:
    """Both sides of an A/B run would have the new one."""
    new = records.machine().model_copy(update={"torch": "2.99.0"})
    alternate = pairs(13.5, 13.5)
    assert came(gated(screen(13.5), alternate, on=new))[:2] == (REGRESSED, STORED)
    assert alternate.asked == []
    own = gated(screen(13.5), alternate, on=new, policy=Policy(ab_python="bin/python"))
    assert own.verdict.stage is AB_RUN


@pytest.mark.parametrize(
    ("machine", "policy", "said"),
    [
        ({"torch": "2.99.0"}, Policy(), [("torch", "2.6.0", "2.99.0")]),
        ({"torch": None}, Policy(), []),
        ({"torch": "2.99.0"}, Policy(ab_python="bin/python"), []),
    ],
)
def test_pairs_with_packages_that_are_newer_than_the_baseline_do_not_show_what_these_cost(
    machine: dict[str, str | None], policy: Policy, said: list[tuple[str, str, str]]
) -> None:
    on = UPDATED.model_copy(update=machine)
    checked = gated([slower(0)], pairs(0, 0), on=on, policy=policy)
    assert came(checked) == (PASSED, AB_RUN, 4, 3)
    unseen = [one for one in checked.verdict.notes if one.code == "cost-of-packages-unseen"]
    assert unseen == [
        note(
            "cost-of-packages-unseen",
            Severity.WARN,
            change=note("other-version", name=name, then=then, now=now),
        )
        for name, then, now in said
    ]


def test_a_patch_of_the_driver_is_screened_as_another_gpu_of_the_model_is() -> None:
    driver = records.machine().driver
    assert driver is not None
    patched = records.machine(driver=f"{driver.rpartition('.')[0]}.99")
    assert came(gated([slower(0)], pairs(0, 0), on=patched))[:2] == (PASSED, SCREEN)
    assert came(gated([slower(0)], pairs(0, 0), on=UPDATED))[:2] == (PASSED, AB_RUN)
    gpus = (Gpu(name="NVIDIA H200", uuid="GPU-9"),)
    elsewhere = gated([slower(0)], on=records.machine().model_copy(update={"gpus": gpus})).verdict
    assert "another-gpu-of-the-model" in [one.code for one in elsewhere.notes]


# Blocks, where runs differ too much


def test_occasions_of_other_workloads_say_whether_runs_are_screened() -> None:
    steps = [{Metric.STEP_MS: 12.34 * (1 + 0.011 * shape)} for shape in (0, 1, -1, 0.5, -0.5)]
    expected = expect(records.baseline(steps))
    forms = {Form.PAIR: pairs(0, 0), Form.BLOCK: pairs(0, 0)}
    lab = PreparedLab(made=screen(0), by_form=forms, machine=expected.machine)
    assert why_straight(Underway(expected, lab, Policy())) is not None
    steady = records.baseline(*([{}] * 2 for _ in range(9)))
    others = (steady.model_copy(update={"workload": "other"}),)
    known = expected.model_copy(update={"others": others})
    assert why_straight(Underway(known, lab, Policy())) is None


@pytest.mark.parametrize(
    ("made", "alternate", "blocks", "baseline", "expected"),
    named(
        {
            "loss": (
                noisy_runs(2.5),
                pairs(0, 0),
                Pairs(noisy_runs(0), noisy_runs(2.5, wobble=2)),
                noisy_baseline(),
                (REGRESSED, BLOCKS, 2, 3),
            ),
            "unchanged": (
                noisy_runs(2.5),
                pairs(0, 0),
                Pairs(noisy_runs(0), noisy_runs(0, wobble=2)),
                noisy_baseline(),
                (PASSED, BLOCKS, 2, 3),
            ),
            "blocks settle it of quiet runs too": (
                screen(2.5),
                pairs(0, 2.5),
                pairs(0, 2.5),
                FULL,
                (REGRESSED, BLOCKS, 4, 3),
            ),
            "and of those that keep one core busy": (
                [busy(run, 1.05) for run in screen(2.5)],
                pairs(0, 2.5),
                pairs(0, 2.5),
                FULL,
                (REGRESSED, BLOCKS, 4, 3),
            ),
            "runs that keep several cores busy are made in pairs": (
                [busy(run, 1.5) for run in screen(2.5)],
                pairs(0, 2.5),
                pairs(0, 2.5),
                FULL,
                (REGRESSED, AB_RUN, 6, 3),
            ),
            "blocks are all there is": (
                screen(2.5),
                None,
                pairs(0, 2.5),
                FULL,
                (REGRESSED, BLOCKS, 4, 3),
            ),
        }
    ),
)
def test_with_blocks_at_hand(
    made: Sequence[Made],
    alternate: Pairs | None,
    blocks: Pairs,
    baseline: Baseline,
    expected: Came,
) -> None:
    checked = gated(made, alternate, baseline, blocks=blocks)
    assert came(checked) == expected
    assert len(checked.interleaved_runs) == (3 if expected[1] is BLOCKS else 0)


def test_blocks_are_judged_from_block_to_block() -> None:
    """By their medians one side was far slower: it met the slow of its core's two speeds more."""
    speeds = [7.7, 7.7, 7.7, 5.1, 5.1]
    there = [in_blocks(run, speeds, begins=n % 2 == 0) for n, run in enumerate(noisy_runs(40))]
    here = [
        in_blocks(run, speeds, begins=n % 2 == 1) for n, run in enumerate(noisy_runs(0, wobble=2))
    ]
    checked = gated(noisy_runs(2.5), None, noisy_baseline(), blocks=Pairs(there, here))
    assert came(checked)[:2] == (PASSED, BLOCKS)
    row = checked.verdict.of(Metric.STEP_MS)
    assert row is not None
    assert row.change == pytest.approx(0.0)
    # What was measured is kept as it was.
    assert checked.interleaved_runs[0].value(Metric.STEP_MS) == here[0].value(Metric.STEP_MS)
    whole = Pairs(noisy_runs(40), noisy_runs(0, wobble=2))
    checked = gated(noisy_runs(2.5), None, noisy_baseline(), blocks=whole)
    assert came(checked)[:2] == (Outcome.IMPROVED, BLOCKS)


# Where the other commit cannot be run


@pytest.mark.parametrize("error", [RevisionMissing, WorktreeFailed, CodeUnproven])
def test_without_the_other_commit_stored_looks_go_on(error: type[PerfgateError]) -> None:
    checked = gated(screen(1.5), Pairs([broken(error)], [slower(0)]))
    assert came(checked) == (OPEN, STORED, 10, 0)
    assert checked.verdict.next_step == "Correct the file."


def test_a_candidate_that_fails_in_a_pair_is_not_measured() -> None:
    failing: list[Made] = [slower(2.5), broken(WorkloadFailed)]
    assert gated(screen(2.5), Pairs([slower(0)], failing)).verdict.outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize(
    ("there", "here"),
    named(
        {
            "the other side": ([broken(WorktreeFailed)], [slower(0)]),
            "the candidate": ([slower(0)], [broken(WorkloadFailed)]),
            "later": ([slower(0)] * 2 + [broken(WorktreeFailed)], [slower(50)]),
        }
    ),
)
def test_what_does_not_stand_blocks_is_run_in_pairs_and_leaves_them_nothing(
    there: list[Made], here: list[Made]
) -> None:
    blocks, baseline = Pairs(there, here), noisy_baseline()
    checked = gated(noisy_runs(2.5), pairs(0, 0), baseline, blocks=blocks)
    assert came(checked) == (PASSED, AB_RUN, 5, 3)
    # What the candidate does there and not alone may be the change.
    fails = any(isinstance(run, WorkloadFailed) for run in here)
    (said,) = (one for one in checked.verdict.notes if one.code == "no-blocks")
    assert (said.severity is Severity.WARN) == fails
    assert checked.interleaved_runs == ()
    alone = gated(noisy_runs(0), None, baseline, blocks=Pairs(there, here))
    assert came(alone) == (OPEN, STORED, 10, 0)
    assert alone.interleaved_runs == ()


# Against another commit


@pytest.mark.parametrize(
    ("alternate", "expected"),
    named(
        {
            "unchanged": (pairs(0, 0), (PASSED, AB_RUN, 3, 3)),
            "it lacks the workload": (
                Pairs([broken(RevisionMissing)], [slower(0)]),
                (Outcome.NO_BASELINE, None, 5, 0),
            ),
            "it cannot be checked out": (
                Pairs([broken(WorktreeFailed)], [slower(0)]),
                (Outcome.NOT_MEASURED, None, 0, 0),
            ),
            "a count rose": (
                Pairs([slower(0)], [records.run({Metric.SYNCS: 2})]),
                (REGRESSED, AB_RUN, 3, 3),
            ),
        }
    ),
)
def test_against_a_commit_no_baseline_is_needed(alternate: Pairs, expected: Came) -> None:
    assert came(gated(screen(0), alternate, None, against=True)) == expected


def of_several_cores() -> Baseline:
    """A baseline whose runs kept several cores busy."""
    kept = FULL.occasions[-1]
    needs = Needs(host_bytes=1 << 30, gpu_bytes=0, cores=1.5)
    runs = tuple(run.model_copy(update={"needs": needs}) for run in kept.runs)
    return FULL.model_copy(update={"occasions": (kept.model_copy(update={"runs": runs}),)})


ALONE = Pair(reference=busy(slower(0), 2.0), candidate=busy(slower(1), 2.0))


@pytest.mark.parametrize(
    ("there", "here", "baseline", "alternate", "expected"),
    named(
        {
            "noisy": (-15, -12, noisy_baseline(), pairs(0, 0), (REGRESSED, BLOCKS, 1, 3)),
            "several known": (0, 0, of_several_cores(), pairs(0, 0), (PASSED, AB_RUN, 3, 3)),
            "several cores": (90, 90, noisy_baseline(), pairs(0, 90), (REGRESSED, AB_RUN, 4, 3)),
            "several cores, blocks alone": (20, 20, None, None, (Outcome.NOT_MEASURED, None, 1, 0)),
        }
    ),
)
def test_against_a_commit_in_blocks(
    there: float, here: float, baseline: Baseline, alternate: Pairs | None, expected: Came
) -> None:
    blocks = Pairs(noisy_runs(there), noisy_runs(here, wobble=2), alone=ALONE)
    checked = gated(screen(0), alternate, baseline, blocks=blocks, against=True)
    assert came(checked) == expected


@pytest.mark.parametrize(
    ("baseline", "against", "begins"),
    named(
        {
            "a screen": (FULL, False, ((None, 5),)),
            "no baseline": (None, False, ((None, 5),)),
            "counts": (noisy_baseline(), False, ((None, 1), (Form.ALONE, 1), (Form.BLOCK, 3))),
            "another commit": (FULL, True, ((Form.ALONE, 1), (Form.BLOCK, 3))),
        }
    ),
)
def test_what_may_be_started_early_is_what_is_asked_for_first(
    baseline: Baseline | None, against: bool, begins: tuple[Asked, ...]
) -> None:
    expected = expect(baseline)
    lab = PreparedLab(
        made=screen(0),
        by_form={Form.PAIR: pairs(0, 0), Form.BLOCK: pairs(0, 0)},
        machine=expected.machine,
    )
    underway = Underway(expected, lab, Policy(), against=against)
    assert opening(underway) == begins
    assert not lab.asked
    check(underway)
    assert lab.prepared[0] == begins
    runs = [number for form, number in begins if form is None]
    assert lab.asked[: len(runs)] == runs


def test_as_many_pairs_as_a_user_asked_for_are_made_of_another_commit_too() -> None:
    alternate, blocks = pairs(0, 0), pairs(0, 0)
    policy = Policy(runs=5, stops_early=False)
    checked = gated(screen(0), alternate, FULL, blocks=blocks, against=True, policy=policy)
    assert came(checked) == (PASSED, AB_RUN, 5, 5)
    assert not blocks.asked


# What may be spent


@pytest.mark.parametrize(
    ("most", "alternate", "expected"),
    named(
        {
            "no room for three pairs": (8, pairs(0, 2.5), STORED),
            "room for four": (12, Pairs(JUMPY, JUMPY[::-1]), AB_RUN),
        }
    ),
)
def test_pairs_end_where_runs_are_spent(most: int, alternate: Pairs, expected: Stage) -> None:
    checked = gated(screen(2.5), alternate, policy=Policy(max_runs=most))
    assert checked.verdict.stage is expected
    assert sum(alternate.asked) == (4 if expected is AB_RUN else 0)


@pytest.mark.parametrize(
    ("affordable", "expected", "asked"),
    named(
        {
            "no pairs": ([], (OPEN, STORED, 3, 0), [6, 2]),
            "three pairs": ([6], (OPEN, AB_RUN, 6, 3), [6, 4]),
        }
    ),
)
def test_a_budget_of_time_ends_it_between_looks(
    affordable: list[int], expected: Came, asked: list[int]
) -> None:
    seen: list[int] = []

    def affords(runs: int, _seconds: float) -> bool:
        seen.append(runs)
        return runs in affordable

    checked = gated(screen(2.5), Pairs(JUMPY, JUMPY[::-1]), affords=affords)
    assert (came(checked), seen) == (expected, asked)


def test_runs_alone_are_within_the_budget_of_time_as_well() -> None:
    asked: list[int] = []

    def affords(runs: int, _seconds: float) -> bool:
        asked.append(runs)
        return False

    blocks = Pairs(noisy_runs(0), noisy_runs(0))
    gated(
        noisy_runs(0),
        None,
        noisy_baseline(),
        blocks=blocks,
        affords=affords,
    )
    assert asked[:2] == [1 + 2 + 2 * 3, 2 + 2 * 3]
    assert blocks.asked == []


@pytest.mark.behaviour
@pytest.mark.parametrize(("number", "outcome"), [(3, OPEN), (12, PASSED)])
def test_one_slow_run_is_excused_by_chance_only_where_more_pairs_were_made(
    number: int, outcome: Outcome
) -> None:
    there, here = ([slower(0, n + shift) for n in range(number)] for shift in (0, 2))
    slow = Pairs(there, [*here[:1], slower(40), *here[2:]])
    checked = gated(screen(2.5), slow, policy=Policy(max_runs=2 * number + 3))
    assert came(checked) == (outcome, AB_RUN, number + 3, number)


@pytest.mark.behaviour
@pytest.mark.parametrize("mhz", [1980, 1755])
def test_a_slow_run_of_the_screen_keeps_few_pairs_from_passing_at_any_clock(mhz: float) -> None:
    made = [slower(40 if n == 1 else 0, n, clock_mhz=mhz) for n in range(5)]
    there, here = ([slower(0, n + shift) for n in range(12)] for shift in (0, 2))
    assert came(gated(made, Pairs(there, here)))[1:] == (AB_RUN, 15, 12)


# Runs that fail or do not count


@pytest.mark.parametrize("error", NotMeasured.__subclasses__())
@pytest.mark.parametrize("baseline", [None, ONCE])
def test_what_fails_a_run_is_not_measured(
    error: type[PerfgateError], baseline: Baseline | None
) -> None:
    checked = gated([slower(0), broken(error)], None, baseline)
    assert came(checked) == (Outcome.NOT_MEASURED, None, 1, 0)
    assert checked.verdict.next_step == "Correct the file."


@pytest.mark.parametrize(
    "bug", [KeyError("step"), broken(ConfigInvalid), OSError(28), KeyboardInterrupt()]
)
def test_any_other_error_is_a_bug_or_the_users_and_passes_through(bug: BaseException) -> None:
    with pytest.raises(type(bug)):
        gated([bug], None, None)


HOT = records.run(throttled=["thermal slowdown"])
LOST = slower(0).model_copy(update={"notes": (quoted("steps were lost", Severity.INVALID),)})
TWO = records.run(processes=[records.process(), records.process(pid=2)])


def starting(number: int = 0, *, times: int = 1) -> Run:
    """A run whose first steps are slow, as so many of its processes show."""
    found = note("first-steps-slow", Severity.WARN, slow=3, last=5)
    return slower(0, number).model_copy(update={"notes": (found,) * times})


@pytest.mark.parametrize(
    ("made", "baseline", "number"),
    named(
        {
            "throttled": ([slower(0), HOT], None, 2),
            "throttled, with a baseline": ([slower(0), HOT], ONCE, 2),
            "steps lost": ([LOST], ONCE, 1),
            "a rank took no step": ([TWO, slower(0)], ONCE, 2),
            "all do first-time work": ([starting(), starting()], ONCE, 2),
            "most do first-time work": ([slower(0), starting(), starting()], ONCE, 3),
        }
    ),
)
def test_a_run_that_does_not_count_ends_the_gate(
    made: Sequence[Made], baseline: Baseline | None, number: int
) -> None:
    assert came(gated(made, None, baseline)) == (Outcome.INVALID, None, number, 0)


@pytest.mark.parametrize("both", [True, False])
def test_of_blocks_both_sides_runs_alone_show_first_time_work(both: bool) -> None:
    pair = Pair(reference=starting() if both else slower(0), candidate=starting(1))
    sides = Pairs(noisy_runs(0), noisy_runs(0, wobble=2), alone=pair)
    checked = gated([], None, None, blocks=sides, against=True)
    assert checked.verdict.outcome is (Outcome.INVALID if both else PASSED)


@pytest.mark.parametrize("number", range(5))
def test_one_run_that_starts_slowly_may_have_met_a_change_of_pace(number: int) -> None:
    made = [starting(n, times=2) if n == number else slower(0, n) for n in range(5)]
    checked = gated(made, None, ONCE)
    assert checked.verdict.outcome is PASSED
    assert "first-steps-slow" in [one.code for one in checked.runs[number].notes]
