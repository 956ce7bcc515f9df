"""SDs from unchanged repeats: the statistics by hand-computed examples, which runs count, and what
is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support import records

from perfgate.bless import bless as blessing
from perfgate.bless.calibrate import (
    calibrate,
    components,
    moderated,
    refuse_changed,
    refuse_fresh,
    spreads,
)
from perfgate.bless.repeats import repeats, why_no_repeat
from perfgate.judge.compare import FLOOR_SD
from perfgate.model.baseline import Baseline, Commit, Result, Spread, code_digest
from perfgate.model.errors import CalibrationRefused
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import Severity, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.words.numbers import short_percent

LATER = records.NOON + timedelta(days=30)
STEP = METRICS[Metric.STEP_MS].time or pytest.fail("step_ms is a clock")
Floats = NDArray[np.float64]


def floats(*groups: Sequence[float]) -> list[Floats]:
    return [np.asarray(group, dtype=np.float64) for group in groups]


# The statistics


def test_unequal_groups_by_hand() -> None:
    # Means 2 and 5, grand mean 3.2: SSW = 2 + 2, SSB = 3 * 1.2^2 + 2 * 1.8^2, n0 = 5 - (9 + 4) / 5.
    found = components(floats([1, 2, 3], [4, 6]))
    assert found.within == pytest.approx(4 / 3)
    assert found.between == pytest.approx(10.8)
    assert (found.within_df, found.between_df) == (3, 1)
    assert found.runs_per_occasion == pytest.approx(2.4)
    assert found.occasion_variance(run_variance=found.within) == pytest.approx((10.8 - 4 / 3) / 2.4)


def test_the_looms_of_a_textbook() -> None:
    """Montgomery, Design and Analysis of Experiments: fabric from four looms, 1.90 within them and
    6.96 between."""
    found = components(
        floats([98, 97, 99, 96], [91, 90, 93, 92], [96, 95, 97, 95], [95, 96, 99, 98])
    )
    assert found.within == pytest.approx(1.90, abs=0.005)
    assert found.between == pytest.approx(29.73, abs=0.005)
    assert found.runs_per_occasion == 4
    assert found.occasion_variance(run_variance=found.within) == pytest.approx(6.96, abs=0.005)


def test_one_occasion_says_nothing_of_what_lies_between() -> None:
    found = components(floats([1, 2, 3]))
    assert (found.within, found.within_df) == (1, 2)
    assert (found.between, found.between_df) == (0, 0)
    assert found.occasion_variance(run_variance=0) == 0


def test_single_runs_say_nothing_of_what_lies_within() -> None:
    found = components(floats([1], [2], [3]))
    assert (found.within, found.within_df) == (0, 0)
    assert (found.between, found.between_df, found.runs_per_occasion) == (1, 2, 1)


def test_occasions_closer_than_their_runs_have_no_variance_of_their_own() -> None:
    found = components(floats([1, 9], [2, 8]))
    assert found.between == 0
    assert found.occasion_variance(run_variance=found.within) == 0


def test_an_sd_is_drawn_towards_the_prior_by_its_two_degrees_of_freedom() -> None:
    assert moderated(0.0004, 6, prior_sd=0.01) == pytest.approx(
        math.sqrt((2 * 0.0001 + 6 * 0.0004) / 8)
    )
    assert moderated(123.0, 0, prior_sd=0.01) == pytest.approx(0.01)


def test_of_one_occasion_the_sd_between_them_is_the_default() -> None:
    run_sd, occasion_sd = spreads(floats([0.0, 0.002, 0.004]), STEP)
    assert run_sd == pytest.approx(math.sqrt((2 * 0.005**2 + 2 * 0.002**2) / 4))
    assert occasion_sd == pytest.approx(STEP.occasion_sd)


def test_of_single_runs_the_default_stands_for_what_lies_within() -> None:
    run_sd, occasion_sd = spreads(floats([0.0], [0.02], [0.04]), STEP)
    assert run_sd == pytest.approx(STEP.prior_sd)
    assert occasion_sd == pytest.approx(math.sqrt((2 * 0.005**2 + 2 * (0.02**2 - 0.005**2)) / 4))


def test_equal_runs_are_not_believed_to_be_without_any_spread() -> None:
    run_sd, _ = spreads(floats(*[[1.0] * 100] * 10), STEP)
    assert run_sd == FLOOR_SD


GROUPS = st.lists(
    st.lists(
        st.floats(-1, 1, allow_subnormal=False).map(lambda x: round(x, 6)), min_size=1, max_size=6
    ),
    min_size=1,
    max_size=6,
)


@given(GROUPS, st.randoms(use_true_random=False))
def test_the_order_of_runs_and_occasions_changes_no_bit(
    groups: list[list[float]], random: st.DataObject
) -> None:
    shuffled = [list(group) for group in groups]
    for group in shuffled:
        random.shuffle(group)  # type: ignore[attr-defined]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert components(floats(*groups)) == components(floats(*shuffled))


@given(GROUPS, st.integers(-6, 6))
def test_twice_the_distances_are_four_times_the_variance(
    groups: list[list[float]], power: int
) -> None:
    factor = 2.0**power
    one, other = (
        components(floats(*groups)),
        components([factor * runs for runs in floats(*groups)]),
    )
    assert other.within == pytest.approx(factor**2 * one.within, rel=1e-9, abs=1e-12)
    assert other.between == pytest.approx(factor**2 * one.between, rel=1e-9, abs=1e-12)


@given(GROUPS, st.floats(-10, 10))
def test_a_shift_of_all_runs_is_no_variance(groups: list[list[float]], shift: float) -> None:
    one, other = components(floats(*groups)), components([runs + shift for runs in floats(*groups)])
    assert other.within == pytest.approx(one.within, rel=1e-6, abs=1e-9)
    assert other.between == pytest.approx(one.between, rel=1e-6, abs=1e-9)


@given(GROUPS)
def test_degrees_of_freedom_and_squares_add_up_to_those_of_all_runs(
    groups: list[list[float]],
) -> None:
    found = components(floats(*groups))
    runs = np.concatenate(floats(*groups))
    assert found.within_df + found.between_df == len(runs) - 1
    whole = found.within * found.within_df + found.between * found.between_df
    assert whole == pytest.approx(float(np.sum(np.square(runs - runs.mean()))), rel=1e-9, abs=1e-9)


@given(st.integers(2, 8), st.integers(2, 6))
def test_more_quiet_occasions_say_more_of_what_lies_between_them(occasions: int, runs: int) -> None:
    quiet = [[0.001 * n for n in range(runs)]] * (occasions + 1)
    _, few = spreads(floats(*quiet[:-1]), STEP)
    _, more = spreads(floats(*quiet), STEP)
    assert more < few < STEP.occasion_sd


@given(GROUPS)
def test_a_run_sd_lies_between_the_default_and_what_was_measured(groups: list[list[float]]) -> None:
    run_sd, _ = spreads(floats(*groups), STEP)
    measured = math.sqrt(components(floats(*groups)).within)
    assert min(measured, STEP.prior_sd) - 1e-12 <= run_sd <= max(measured, STEP.prior_sd) + 1e-12


def simulated(
    rng: np.random.Generator, sizes: Sequence[int], *, run_sd: float, occasion_sd: float
) -> list[Floats]:
    return [rng.normal(rng.normal(0, occasion_sd), run_sd, size) for size in sizes]


def test_known_variances_are_met_on_average_whatever_the_sizes() -> None:
    rng = np.random.default_rng(7)
    found = [
        components(simulated(rng, (2, 3, 5, 8, 10), run_sd=0.003, occasion_sd=0.006))
        for _ in range(4000)
    ]
    within = np.mean([one.within for one in found])
    between = np.mean([(one.between - one.within) / one.runs_per_occasion for one in found])
    assert math.sqrt(within) == pytest.approx(0.003, rel=0.02)
    assert math.sqrt(between) == pytest.approx(0.006, rel=0.03)


@pytest.mark.parametrize(("run_sd", "occasion_sd"), [(0.001, 0.004), (0.02, 0.001), (0.005, 0.0)])
def test_known_sds_are_recovered_from_many_occasions(run_sd: float, occasion_sd: float) -> None:
    rng = np.random.default_rng(11)
    found = spreads(simulated(rng, [10] * 200, run_sd=run_sd, occasion_sd=occasion_sd), STEP)
    assert found[0] == pytest.approx(run_sd, rel=0.1)
    assert found[1] == pytest.approx(occasion_sd, rel=0.2, abs=0.0015)


# Which runs are repeats


def blessed(*occasions: Sequence[float], code: Mapping[str, str] | None = records.CODE) -> Baseline:
    """Build a baseline of these steps, an hour between occasions, that noted its code."""
    times = occasions or ((12.34, 12.31, 12.36, 12.33, 12.35),)
    made = records.baseline(*[[{Metric.STEP_MS: ms} for ms in steps] for steps in times])
    return made.model_copy(
        update={
            "code": code_digest(code or {}),
            "blessing": made.blessing.model_copy(
                update={"at": records.NOON + timedelta(hours=len(times))}
            ),
        }
    )


def later(hours: float, *step_ms: float, outcome: Outcome = Outcome.PASSED) -> Result:
    at = records.NOON + timedelta(hours=hours)
    return records.result(
        outcome, at=at, measured=records.runs(*(step_ms or (12.30, 12.32, 12.34)), at=at)
    )


def sizes(baseline: Baseline, *results: Result) -> list[int]:
    return [len(runs) for runs in repeats(baseline, results).occasions]


def test_a_baseline_alone_is_its_own_repeats() -> None:
    found = repeats(blessed((12.3, 12.4, 12.35), (12.3, 12.2)), ())
    assert [len(runs) for runs in found.occasions] == [3, 2]
    assert (found.runs, found.results, found.left_out) == (5, 0, {})
    assert (found.first, found.last) == (records.NOON, records.NOON + timedelta(hours=1))


def test_kept_results_are_occasions_of_their_own_unless_within_15_minutes() -> None:
    assert sizes(blessed(), later(30), later(30.2), later(54)) == [5, 6, 3]
    assert sizes(blessed(), later(54), later(30), later(30.25)) == [5, 3, 3, 3]


def test_a_result_soon_after_a_blessed_occasion_belongs_to_it() -> None:
    assert sizes(blessed(), later(0.1)) == [8]


def test_what_was_blessed_counts_once_even_if_it_is_kept_as_well() -> None:
    own = records.result(Outcome.NO_BASELINE)
    found = repeats(blessed(), [own, later(30)])
    assert [len(runs) for runs in found.occasions] == [5, 3]
    assert found.results == 1


def test_a_result_whose_folder_was_copied_is_one_repeat() -> None:
    own, other = records.result(Outcome.NO_BASELINE), later(30)
    assert sizes(blessed(), own, other, own, other) == [5, 3]
    assert repeats(blessed(), [own, other, own, other]).results == 1


def test_results_joined_into_one_occasion_are_each_known_again() -> None:
    steps = (12.30, 12.32, 12.34)
    results = [later(0, *steps), later(0.2, *steps), later(0.4, *steps), later(0.6, *steps)]
    # Blessed were the first two; the third and fourth, of the same values, are new, and within the
    # occasion's chain.
    assert sizes(blessed((*steps, *steps)), *results) == [12]
    assert repeats(blessed((*steps, *steps)), results).results == 2


def test_a_blessed_result_is_known_by_what_a_file_keeps_of_its_values() -> None:
    own = records.result(measured=records.runs(12.34000001, 12.31, 12.36, 12.33, 12.35))
    assert sizes(blessed(), own) == [5]


def test_the_same_values_after_the_blessing_are_other_runs() -> None:
    again = later(48, 12.34, 12.31, 12.36, 12.33, 12.35)
    assert sizes(blessed(), again) == [5, 5]


@pytest.mark.parametrize(
    "outcome", [Outcome.PASSED, Outcome.IMPROVED, Outcome.REGRESSED, Outcome.INCONCLUSIVE]
)
def test_what_the_judge_made_of_them_changes_nothing_about_repeats(outcome: Outcome) -> None:
    assert why_no_repeat(blessed(), later(30, outcome=outcome)) is None


def unlike(*measured: Run, **options: object) -> Result:
    made = later(30)
    return made.model_copy(update={**({"runs": measured} if measured else {}), **options})


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (records.result(of=records.workload(steps=31)), "of other parameters"),
        (records.result(of=records.workload("other")), "of other parameters"),
        (records.result(on=records.machine(driver="560.35.03")), "of another machine (driver)"),
        (
            records.result(on=records.machine(nsys="2025.3.1", driver="1")),
            "of another machine (driver, nsys)",
        ),
        (records.result(code={**records.CODE, "model.py": "c"}), "of other code"),
        (records.result(code={}), "of other code"),
        (records.result(Outcome.INVALID), "that is INVALID"),
        (records.result(Outcome.NOT_MEASURED), "that is NOT_MEASURED"),
        (records.result(measured=()), "that is NOT_MEASURED"),
        (
            records.result(on=records.machine().model_copy(update={"torch": None}), measured=()),
            "that is NOT_MEASURED",
        ),
        (unlike(records.run(throttled=["heat"])), "that is INVALID"),
        (
            unlike(
                records.run().model_copy(
                    update={"notes": (quoted("steps were lost", Severity.INVALID),)}
                )
            ),
            "that is INVALID",
        ),
        (unlike(records.run(), records.run({Metric.SYNCS: 2})), "with other counts"),
        (unlike(records.run(absent={Metric.H2D_MS: "none"})), "without h2d_ms"),
    ],
)
def test_results_of_something_else_are_no_repeats(result: Result, why: str) -> None:
    assert why_no_repeat(blessed(), result) == why
    found = repeats(blessed(), [result])
    assert (found.left_out, found.results, found.runs) == ({why: 1}, 0, 5)


def test_without_a_digest_of_its_code_only_a_clean_commit_speaks_for_a_result() -> None:
    silent = blessed(code=None)
    assert why_no_repeat(silent, later(30)) is None
    for commit in (None, Commit(sha=records.COMMIT.sha, dirty=True), Commit(sha="f" * 40)):
        assert why_no_repeat(silent, unlike(commit=commit)) == "not shown to be of the blessed code"
    dirty = silent.model_copy(
        update={
            "occasions": (
                silent.occasions[0].model_copy(update={"commit": Commit(sha="f" * 40, dirty=True)}),
            )
        }
    )
    assert why_no_repeat(dirty, unlike(commit=Commit(sha="f" * 40, dirty=True))) is not None


# Calibration


def spread(baseline: Baseline, *results: Result, metric: Metric = Metric.STEP_MS) -> Spread:
    return calibrate(baseline, results, at=LATER).baseline.calibration[metric]


def log_groups(*groups: Sequence[float]) -> list[Floats]:
    return [np.log(np.asarray(group)) for group in groups]


def test_a_baseline_is_given_the_sds_of_all_its_repeats_and_where_they_come_from() -> None:
    groups = ((12.34, 12.31, 12.36, 12.33, 12.35), (12.50, 12.52, 12.54), (12.20, 12.25, 12.23))
    found = spread(blessed(groups[0]), later(30, *groups[1]), later(60, *groups[2]))
    run_sd, occasion_sd = spreads(log_groups(*groups), STEP)
    assert found.run_sd == pytest.approx(run_sd)
    assert found.occasion_sd == pytest.approx(occasion_sd)
    assert (found.runs, found.occasions, found.at) == (11, 3, LATER)


def test_shares_of_a_step_are_told_of_the_baselines_median_step() -> None:
    gaps = (1.80, 1.90, 1.85, 1.87, 1.83)
    made = records.baseline([{Metric.STEP_MS: 10.0, Metric.GAP_MS: gap} for gap in gaps])
    clock = METRICS[Metric.GAP_MS].time
    assert clock is not None
    expected, _ = spreads(floats([gap / 10 for gap in gaps]), clock)
    assert spread(made, metric=Metric.GAP_MS).run_sd == pytest.approx(expected)


def test_nothing_but_the_calibration_changes() -> None:
    before = blessed()
    found = calibrate(before, [later(30)], at=LATER)
    assert set(found.baseline.calibration) == {
        Metric.STEP_MS,
        Metric.KERNEL_MS,
        Metric.GAP_MS,
        Metric.H2D_MS,
    }
    assert found.baseline.model_copy(update={"calibration": {}}) == before


def test_repeats_moved_by_the_machine_widen_the_sd_between_occasions_only() -> None:
    still = spread(blessed(), later(30, 12.33, 12.34, 12.35))
    moved = spread(blessed(), later(30, 12.83, 12.84, 12.85, outcome=Outcome.REGRESSED))
    assert moved.occasion_sd > 3 * still.occasion_sd
    assert moved.run_sd == pytest.approx(still.run_sd, rel=0.02)


def test_an_outlier_is_set_aside_and_told() -> None:
    found = calibrate(blessed(), [later(30, 12.33, 14.0, 12.35, 12.34)], at=LATER)
    step = found.times[0]
    assert step.spread.runs == 8
    (distance,) = step.set_aside
    assert distance == pytest.approx(14.0 / 12.345 - 1, abs=1e-4)
    assert (
        "1 run set aside as an outlier of step_ms: +13.4 %. Its SDs are of 8 of the 9 runs."
        in found.information
    )


def test_a_budget_is_held_against_what_runs_and_an_ab_run_can_show() -> None:
    budgets = {Metric.STEP_MS: 0.03}
    found = calibrate(blessed(), [later(30)], at=LATER, budgets=budgets)
    stored = found.times[0]
    assert stored.budget == 0.03
    assert f" a gate holds step_ms to {short_percent(stored.smallest)} " in blessing.costs(
        found.baseline, budgets
    )
    ab_run = calibrate(blessed(), [later(30)], at=LATER, budgets=budgets, ab_run=True).times[0]
    assert ab_run.smallest == stored.smallest == stored.in_the_end
    assert ab_run.in_the_end == 0.03


def test_of_one_occasion_in_moods_it_sees_as_little_as_the_gate() -> None:
    """Where runs differ by more than the budget, occasions differ rather more, and nobody has
    measured by how much."""
    baseline = blessed([12.34 * (1 + wobble) for wobble in (-0.06, -0.03, 0.0, 0.03, 0.06)])
    (clock, *_) = calibrate(baseline, [], at=LATER).times
    assert clock.spread.run_sd == pytest.approx(0.039, abs=0.001)
    assert clock.smallest > 0.25
    told = f" a gate holds step_ms to {short_percent(clock.smallest)} "
    assert told in blessing.costs(baseline), "calibrating one occasion makes nothing of it"


def information(baseline: Baseline, *results: Result) -> tuple[str, ...]:
    return calibrate(baseline, results, at=LATER).information


def test_what_regressed_is_told_and_counts() -> None:
    five = [later(24 * n) for n in range(1, 5)]
    (told,) = information(blessed(), *five, later(120, outcome=Outcome.REGRESSED))
    assert told == (
        "1 kept result was REGRESSED. The code is the blessed one, so it counts: what moved was the machine, and is "
        "in the SD between occasions."
    )
    two = [later(hours, outcome=Outcome.REGRESSED) for hours in (120, 144)]
    assert "2 kept results were REGRESSED." in information(blessed(), *five, *two)[0]


def test_a_clock_that_is_zero_is_not_calibrated_and_said_to_be_so() -> None:
    idle = records.baseline([{Metric.KERNEL_MS: 0.0}] * 5)
    found = calibrate(idle, (), at=LATER)
    assert Metric.KERNEL_MS not in found.baseline.calibration
    assert (
        "kernel_ms is not calibrated: it is 0 in some run, or out of all bounds."
        in found.information
    )


@pytest.mark.parametrize("values", [{Metric.STEP_MS: 0.0, Metric.KERNEL_MS: 0.0}, None])
def test_a_baseline_without_a_usable_clock_is_refused(
    values: Mapping[Metric, float] | None,
) -> None:
    made = records.baseline([values or {}] * 5)
    if values is None:
        runs = tuple(run.model_copy(update={"values": {Metric.LAUNCHES: 3}}) for run in made.runs)
        made = made.model_copy(
            update={"occasions": (made.occasions[0].model_copy(update={"runs": runs}),)}
        )
    with pytest.raises(CalibrationRefused) as refused:
        calibrate(made, (), at=LATER)
    assert refused.value.code == "calibrate-nothing-gated"


# Refusals

UNCHANGED = "Unchanged repeats are of the blessed code, parameters, machine and counts; the baseline is as it was."
GO_BACK = (
    "Go back to what is blessed, or calibrate by what is kept of it: perfgate calibrate --kept mlp"
)
ANEW = 'Bless what is here: perfgate bless mlp --reason "..."'


def refusal(
    baseline: Baseline,
    *results: Result,
    steps: int = 30,
    now: Mapping[str, str] = records.CODE,
    commit: Commit | None = records.COMMIT,
    machine: Machine | None = None,
) -> str | None:
    try:
        refuse_changed(
            baseline,
            records.workload(steps=steps),
            results,
            code_now=lambda paths: {path: now[path] for path in paths if path in now},
            commit=commit,
            machine=machine or baseline.machine,
        )
    except CalibrationRefused as refused:
        return str(refused)
    return None


def test_unchanged_code_and_parameters_may_be_measured() -> None:
    assert refusal(blessed()) is None
    assert refusal(blessed(), later(30)) is None
    assert refusal(blessed(), unlike(code={"gone.py": "0"})) is None
    assert refusal(blessed(code=None)) is None


def test_what_cannot_be_a_repeat_is_refused_before_it_is_measured() -> None:
    here = blessed().machine
    for known in ({"nsys": None}, {"torch": None}, {"torch": f"{here.torch}+cu124", "cuda": "99"}):
        assert refusal(blessed(), machine=here.model_copy(update=known)) is None
    for other in ({"driver": "1"}, {"nsys": "1"}, {"torch": "1.0"}, {"gpus": ()}):
        assert refusal(blessed(), machine=here.model_copy(update=other)) is not None
    counted = blessed().model_copy(update={"code_files": {"train.py": "a" * 16}})
    assert refusal(counted, now={"train.py": "a" * 64}) is None
    assert refusal(counted, now={"train.py": "b" * 64}) is not None
    assert refusal(counted, now={}) is not None


def test_other_parameters_are_refused_by_name() -> None:
    assert refusal(blessed(), steps=31) == (
        f"mlp: its parameters have changed since it was blessed (steps was 30, is 31). {UNCHANGED}\n{ANEW}"
    )


def test_changed_files_are_refused_by_name_where_a_kept_result_names_them() -> None:
    assert refusal(blessed(), later(30), now={**records.CODE, "model.py": "c"}) == (
        f"mlp: model.py changed since it was blessed. {UNCHANGED}\n{GO_BACK}"
    )
    many = {f"{letter}.py": "0" for letter in "abcde"}
    assert "mlp: a.py, b.py, c.py and 2 more changed since" in str(
        refusal(blessed(code=many), unlike(code=many), now={})
    )


@pytest.mark.parametrize(
    "commit", [None, Commit(sha=records.COMMIT.sha, dirty=True), Commit(sha="f" * 40)]
)
def test_without_a_digest_another_commit_is_refused(commit: Commit | None) -> None:
    assert refusal(blessed(code=None), commit=commit) == (
        f"mlp: the baseline does not say which files it ran, and this is not its commit, unchanged. {UNCHANGED}\n{ANEW}"
    )


def fresh(result: Result | None) -> str | None:
    try:
        refuse_fresh(blessed(), result)
    except CalibrationRefused as refused:
        return str(refused)
    return None


def test_a_fresh_result_must_be_there_and_be_a_repeat() -> None:
    assert fresh(later(30)) is None
    assert fresh(None) == (
        "mlp: the gate left no result of it. Its runs were to be the repeats.\nSee what pytest says above."
    )
    assert fresh(unlike(code={"a.py": "0"})) == (
        "mlp: what was measured just now is a result of other code, and no repeat of what is blessed. "
        f"{UNCHANGED}\n{GO_BACK}"
    )
    assert fresh(later(30, outcome=Outcome.INVALID)) == (
        "mlp: what was measured just now is a result that is INVALID, and no repeat of what is blessed. "
        f"{UNCHANGED}\nSee its verdict above for the cause, then run again."
    )
