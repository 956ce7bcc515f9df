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
from support.prepared import with_runs
from syrupy.assertion import SnapshotAssertion

from perfgate.bless.calibrate import (
    calibrate,
    refuse_changed,
    refuse_fresh,
    refuse_machine,
    refuse_parameters,
    spreads,
)
from perfgate.bless.holds import costs
from perfgate.bless.repeats import repeats, why_no_repeat
from perfgate.judge.compare import FLOOR_SD
from perfgate.model.baseline import Baseline, Commit, Result, Spread, code_digest, code_files
from perfgate.model.errors import CalibrationRefused
from perfgate.model.history import Calibration
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import Note, Severity, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.words import say

LATER = records.NOON + timedelta(days=30)
STEP = METRICS[Metric.STEP_MS].time or pytest.fail("step_ms is a clock")
Floats = NDArray[np.float64]


def floats(*groups: Sequence[float]) -> list[Floats]:
    return [np.asarray(group, dtype=np.float64) for group in groups]


# The statistics


def test_two_occasions_by_hand() -> None:
    """Means 2 and 5, grand mean 3.2: SSW = 2 + 2 of 3, SSB = 10.8 of 1, n0 = 2.4; the priors count
    as two degrees of freedom."""
    run_sd, occasion_sd = spreads(floats([1, 2, 3], [4, 6]), STEP)
    assert run_sd == pytest.approx(math.sqrt((2 * 0.005**2 + 4) / 5))
    between = (10.8 - 4 / 3) / 2.4
    assert occasion_sd == pytest.approx(math.sqrt((2 * 0.005**2 + between) / 3))


def test_the_looms_of_a_textbook() -> None:
    """Montgomery, Design and Analysis of Experiments: fabric from four looms, 1.90 within them and
    6.96 between."""
    looms = floats([98, 97, 99, 96], [91, 90, 93, 92], [96, 95, 97, 95], [95, 96, 99, 98])
    run_sd, occasion_sd = spreads(looms, STEP)
    assert run_sd**2 == pytest.approx(1.90 * 12 / 14, abs=0.005)
    assert occasion_sd**2 == pytest.approx(6.96 * 3 / 5, abs=0.005)


def test_occasions_closer_than_their_runs_have_no_variance_of_their_own() -> None:
    _, occasion_sd = spreads(floats([1, 9], [2, 8]), STEP)
    assert occasion_sd == pytest.approx(STEP.occasion_sd * math.sqrt(2 / 3))


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


@given(GROUPS, st.floats(-10, 10))
def test_a_shift_of_all_runs_is_no_variance(groups: list[list[float]], shift: float) -> None:
    one = spreads(floats(*groups), STEP)
    other = spreads([runs + shift for runs in floats(*groups)], STEP)
    assert other == pytest.approx(one, rel=1e-6, abs=1e-9)


@given(st.integers(2, 8), st.integers(2, 6))
def test_more_quiet_occasions_say_more_of_what_lies_between_them(occasions: int, runs: int) -> None:
    quiet = [[0.001 * n for n in range(runs)]] * (occasions + 1)
    _, few = spreads(floats(*quiet[:-1]), STEP)
    _, more = spreads(floats(*quiet), STEP)
    assert more < few < STEP.occasion_sd


@given(GROUPS)
def test_a_run_sd_lies_between_the_default_and_what_was_measured(groups: list[list[float]]) -> None:
    run_sd, _ = spreads(floats(*groups), STEP)
    squares = sum(float(np.sum(np.square(runs - runs.mean()))) for runs in floats(*groups))
    measured = math.sqrt(squares / max(sum(map(len, groups)) - len(groups), 1))
    assert min(measured, STEP.prior_sd) - 1e-9 <= run_sd <= max(measured, STEP.prior_sd) + 1e-9


def simulated(
    rng: np.random.Generator, sizes: Sequence[int], *, run_sd: float, occasion_sd: float
) -> list[Floats]:
    return [rng.normal(rng.normal(0, occasion_sd), run_sd, size) for size in sizes]


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
    return [len(one.runs) for one in repeats(baseline, results).occasions]


def test_a_baseline_alone_is_its_own_repeats() -> None:
    found = repeats(blessed((12.3, 12.4, 12.35), (12.3, 12.2)), ())
    assert [len(one.runs) for one in found.occasions] == [3, 2]
    assert (found.results, found.left_out) == (0, ())
    begun = [one.measured_at for one in found.occasions]
    assert begun == [records.NOON, records.NOON + timedelta(hours=1)]


def test_kept_results_are_occasions_of_their_own_unless_within_15_minutes() -> None:
    assert sizes(blessed(), later(30), later(30.2), later(54)) == [5, 6, 3]
    assert sizes(blessed(), later(54), later(30), later(30.25)) == [5, 3, 3, 3]


def test_a_result_soon_after_a_blessed_occasion_belongs_to_it() -> None:
    assert sizes(blessed(), later(0.1)) == [8]


def test_what_was_blessed_counts_once_even_if_it_is_kept_as_well() -> None:
    own = records.result(Outcome.NO_BASELINE)
    found = repeats(blessed(), [own, later(30)])
    assert [len(one.runs) for one in found.occasions] == [5, 3]
    assert found.results == 1


def test_a_result_whose_folder_was_copied_is_one_repeat() -> None:
    own, other = records.result(Outcome.NO_BASELINE), later(30)
    assert sizes(blessed(), own, other, own, other) == [5, 3]
    assert repeats(blessed(), [own, other, own, other]).results == 1


def test_results_joined_into_one_occasion_are_each_known_again() -> None:
    blessed_steps = (12.30, 12.32, 12.34, 12.31, 12.33, 12.35)
    results = [
        later(0, *blessed_steps[:3]),
        later(0.2, *blessed_steps[3:]),
        later(0.4, 12.36, 12.37),
    ]
    # The third, which was not blessed, lies within the occasion's chain.
    assert sizes(blessed(blessed_steps), *results) == [8]
    assert repeats(blessed(blessed_steps), results).results == 1


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


def code_of(found: Note | None) -> str | None:
    return found.code if found else None


def unlike(*measured: Run, **options: object) -> Result:
    made = later(30)
    return made.model_copy(update={**({"runs": measured} if measured else {}), **options})


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (records.result(of=records.workload(steps=31)), "repeat-other-parameters"),
        (records.result(of=records.workload("other")), "repeat-other-parameters"),
        (records.result(on=records.machine(driver="560.35.03")), "repeat-other-machine"),
        (
            records.result(on=records.machine(nsys="2025.3.1", driver="1")),
            "repeat-other-machine",
        ),
        (records.result(code={**records.CODE, "model.py": "c"}), "repeat-other-code"),
        (records.result(code={}), "repeat-other-code"),
        (records.result(Outcome.INVALID), "repeat-unsound"),
        (records.result(Outcome.NOT_MEASURED), "repeat-unsound"),
        (records.result(measured=()), "repeat-unsound"),
        (
            records.result(on=records.machine().model_copy(update={"torch": None}), measured=()),
            "repeat-unsound",
        ),
        (unlike(records.run(throttled=["heat"])), "repeat-unsound"),
        (
            unlike(
                records.run().model_copy(
                    update={"notes": (quoted("steps were lost", Severity.INVALID),)}
                )
            ),
            "repeat-unsound",
        ),
        (unlike(records.run(), records.run({Metric.SYNCS: 2})), "repeat-other-counts"),
        (unlike(records.run(absent={Metric.H2D_MS: "none"})), "repeat-lacks-metric"),
    ],
)
def test_results_of_something_else_are_no_repeats(result: Result, why: str) -> None:
    found = repeats(blessed(), [result])
    assert [one.code for one in found.left_out] == [why]
    assert (found.results, sizes(blessed(), result)) == (0, [5])


def test_without_a_digest_of_its_code_only_a_clean_commit_speaks_for_a_result() -> None:
    silent = blessed(code=None)
    assert why_no_repeat(silent, later(30)) is None
    for commit in (None, Commit(sha=records.COMMIT.sha, dirty=True), Commit(sha="f" * 40)):
        assert code_of(why_no_repeat(silent, unlike(commit=commit))) == "repeat-code-unknown"
    dirty = records.in_one_occasion(silent, commit=Commit(sha="f" * 40, dirty=True))
    assert why_no_repeat(dirty, unlike(commit=Commit(sha="f" * 40, dirty=True))) is not None


# Calibration


def calibrated(
    baseline: Baseline,
    *results: Result,
    budgets: Mapping[Metric, float] | None = None,
) -> Calibration:
    return calibrate(baseline, results, budgets=budgets or {}, at=LATER)


def spread(baseline: Baseline, *results: Result, metric: Metric = Metric.STEP_MS) -> Spread:
    return calibrated(baseline, *results).baseline.calibration[metric]


def log_groups(*groups: Sequence[float]) -> list[Floats]:
    return [np.log(np.asarray(group)) for group in groups]


def test_a_baseline_is_given_the_sds_of_all_its_repeats_and_where_they_come_from() -> None:
    groups = ((12.34, 12.31, 12.36, 12.33, 12.35), (12.50, 12.52, 12.54), (12.20, 12.25, 12.23))
    found = spread(blessed(groups[0]), later(30, *groups[1]), later(60, *groups[2]))
    run_sd, occasion_sd = spreads(log_groups(*groups), STEP)
    assert found.run_sd == pytest.approx(run_sd)
    assert found.occasion_sd == pytest.approx(occasion_sd)
    assert (found.runs, found.occasions, found.at) == (11, 3, LATER)


def test_shares_of_a_step_are_reported_of_the_baselines_median_step() -> None:
    gaps = (1.80, 1.90, 1.85, 1.87, 1.83)
    made = records.baseline([{Metric.STEP_MS: 10.0, Metric.GAP_MS: gap} for gap in gaps])
    clock = METRICS[Metric.GAP_MS].time
    assert clock is not None
    expected, _ = spreads(floats([gap / 10 for gap in gaps]), clock)
    assert spread(made, metric=Metric.GAP_MS).run_sd == pytest.approx(expected)


def test_nothing_but_the_calibration_changes() -> None:
    before = blessed()
    found = calibrated(before, later(30))
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


def test_a_machine_that_is_known_to_be_another_is_refused_before_it_is_measured_on() -> None:
    baseline = blessed()
    refuse_machine(baseline, baseline.machine)
    refuse_machine(baseline, baseline.machine.model_copy(update={"torch": None}))
    with pytest.raises(CalibrationRefused) as caught:
        refuse_machine(baseline, baseline.machine.model_copy(update={"driver": "1.2.3"}))
    assert caught.value.code == "calibrate-no-repeat"


def test_an_outlier_is_set_aside_and_reported() -> None:
    found = calibrated(blessed(), later(30, 12.33, 14.0, 12.35, 12.34))
    assert found.times[0].spread.runs == 8
    (dropped,) = [one for one in found.notes if one.code == "repeats-dropped"]
    assert {name: dropped.fields[name] for name in ("metric", "n", "runs", "of")} == {
        "metric": "step_ms",
        "n": 1,
        "runs": 8,
        "of": 9,
    }
    assert "+13.4 %" in say.fact(dropped)


def leads(baseline: Baseline, budgets: Mapping[Metric, float]) -> object:
    """What blessing says that stored runs hold of the step."""
    held = costs(baseline, budgets).fields["held"]
    assert isinstance(held, tuple)
    assert isinstance(held[0], Note)
    return held[0].fields["loss"]


def test_a_budget_is_held_against_what_runs_can_show() -> None:
    budgets = {Metric.STEP_MS: 0.03}
    found = calibrated(blessed(), later(30), budgets=budgets)
    stored = found.times[0]
    assert stored.budget == 0.03
    assert leads(found.baseline, budgets) == stored.smallest


def test_of_one_occasion_in_host_noise_it_sees_as_little_as_the_gate() -> None:
    """Where runs differ by more than the budget, occasions differ rather more, and nobody has
    measured by how much."""
    baseline = blessed([12.34 * (1 + wobble) for wobble in (-0.06, -0.03, 0.0, 0.03, 0.06)])
    (clock, *_) = calibrated(baseline).times
    assert clock.spread.run_sd == pytest.approx(0.039, abs=0.001)
    assert clock.smallest > 0.25
    assert leads(baseline, {}) == clock.smallest, "calibrating one occasion makes nothing of it"


def codes(baseline: Baseline, *results: Result) -> list[str]:
    return [one.code for one in calibrated(baseline, *results).notes]


def test_what_regressed_is_reported_and_counts() -> None:
    five = [later(24 * n) for n in range(1, 5)]
    two = [later(hours, outcome=Outcome.REGRESSED) for hours in (120, 144)]
    found = calibrated(blessed(), *five, *two)
    assert [(one.code, one.fields) for one in found.notes] == [("repeats-regressed", {"n": 2})]
    assert found.occasions == 7


def test_notes_say_how_many_occasions_are_wanted_and_what_was_left_out(
    snapshot: SnapshotAssertion,
) -> None:
    assert codes(blessed()) == ["one-occasion"]
    assert codes(blessed(), later(30)) == ["few-occasions"]
    other = [
        unlike(code={"a.py": "0"}),
        unlike(code={"b.py": "0"}),
        later(60, outcome=Outcome.INVALID),
    ]
    found = calibrated(blessed(), later(30), *other)
    assert [say.message(one) for one in found.notes] == snapshot


def test_a_clock_that_is_zero_is_not_calibrated_and_said_to_be_so() -> None:
    idle = records.baseline([{Metric.KERNEL_MS: 0.0}] * 5)
    found = calibrated(idle)
    assert Metric.KERNEL_MS not in found.baseline.calibration
    assert {one.code: one.fields for one in found.notes}["not-calibrated"] == {
        "metric": "kernel_ms"
    }


@pytest.mark.parametrize("values", [{Metric.STEP_MS: 0.0, Metric.KERNEL_MS: 0.0}, None])
def test_a_baseline_without_a_usable_clock_is_refused(
    values: Mapping[Metric, float] | None,
) -> None:
    made = records.baseline([values or {}] * 5)
    if values is None:
        made = with_runs(made, values={Metric.LAUNCHES: 3})
    with pytest.raises(CalibrationRefused) as refused:
        calibrated(made)
    assert refused.value.code == "calibrate-nothing-gated"


# Refusals


def refusal(
    baseline: Baseline,
    *,
    steps: int = 30,
    now: Mapping[str, str] = records.CODE,
    commit: Commit | None = records.COMMIT,
) -> str | None:
    try:
        refuse_parameters(baseline, records.workload(steps=steps))
        refuse_changed(baseline, code_now=now, commit=commit)
    except CalibrationRefused as refused:
        return refused.code
    return None


def of_files(code: Mapping[str, str]) -> Baseline:
    return blessed(code=code).model_copy(update={"code_files": code_files(code)})


def test_unchanged_code_and_parameters_may_be_measured() -> None:
    assert refusal(of_files(records.CODE)) is None
    assert refusal(blessed(code=None)) is None


def test_what_cannot_be_a_repeat_is_refused_before_it_is_measured() -> None:
    counted = of_files({"train.py": "a" * 64})
    assert refusal(counted, now={"train.py": "a" * 64}) is None
    assert refusal(counted, now={"train.py": "b" * 64}) == "calibrate-code-changed"
    assert refusal(counted, now={}) == "calibrate-code-changed"
    assert refusal(counted, steps=31) == "calibrate-other-parameters"


@pytest.mark.parametrize(
    "commit", [None, Commit(sha=records.COMMIT.sha, dirty=True), Commit(sha="f" * 40)]
)
def test_without_a_digest_another_commit_is_refused(commit: Commit | None) -> None:
    assert refusal(blessed(code=None), commit=commit) == "calibrate-code-unknown"


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (None, "calibrate-no-result"),
        (unlike(code={"a.py": "0"}), "calibrate-no-repeat"),
        (later(30, outcome=Outcome.INVALID), "calibrate-unsound"),
    ],
)
def test_a_fresh_result_must_be_there_and_be_a_repeat(result: Result | None, code: str) -> None:
    refuse_fresh(blessed(), later(30))
    with pytest.raises(CalibrationRefused) as refused:
        refuse_fresh(blessed(), result)
    assert refused.value.code == code
