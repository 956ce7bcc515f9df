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
from support.refused import refused
from syrupy.assertion import SnapshotAssertion

from perfgate.bless.calibrate import (
    calibrate,
    refuse_changed,
    spreads,
)
from perfgate.bless.repeats import repeats, why_no_repeat
from perfgate.judge.compare import FLOOR_SD
from perfgate.model.baseline import Baseline, Result, Spread, code_digest
from perfgate.model.errors import CalibrationRefused
from perfgate.model.history import Calibration
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import Severity, quoted
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


def test_kept_results_are_occasions_of_their_own_unless_within_15_minutes() -> None:
    assert sizes(blessed(), later(30), later(30.2), later(54)) == [5, 6, 3]
    assert sizes(blessed(), later(54), later(30), later(30.25)) == [5, 3, 3, 3]
    assert sizes(blessed(), later(0.1)) == [8]


def test_what_was_blessed_counts_once_even_if_it_is_kept_as_well() -> None:
    own = records.result(measured=records.runs(12.34000001, 12.31, 12.36, 12.33, 12.35))
    found = repeats(blessed(), [own, later(30)])
    assert [len(one.runs) for one in found.occasions] == [5, 3]


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
    assert sizes(blessed(), result) == [5]


# Calibration


def calibrated(baseline: Baseline, *results: Result) -> Calibration:
    return calibrate(baseline, results, budgets={}, at=LATER)


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
    with refused(CalibrationRefused, "calibrate-nothing-gated"):
        calibrated(made)


def test_what_holds_no_time_is_refused_before_it_is_measured() -> None:
    made = with_runs(records.baseline([{}] * 5), values={Metric.LAUNCHES: 3})
    with refused(CalibrationRefused, "calibrate-nothing-gated"):
        refuse_changed(made, code_now={})
