"""Which kept results may become a baseline, and what that baseline holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import records
from support.prepared import PreparedLab, with_process

from perfgate.bless import bless as blessing
from perfgate.bless import holds
from perfgate.bless.bless import Consent
from perfgate.bless.holds import why_no_ab_run
from perfgate.bless.refusals import refuse_unasked
from perfgate.bless.repeats import repeats
from perfgate.explain.breakdown import breakdown_of, kept
from perfgate.gate.expect import Expectation
from perfgate.gate.plan import forecast
from perfgate.gate.underway import Underway
from perfgate.model.baseline import (
    Anchor,
    Baseline,
    BlessedRun,
    Blessing,
    Commit,
    Milestone,
    Result,
    Spread,
    code_digest,
)
from perfgate.model.errors import BlessRefused
from perfgate.model.metric import Basis, Metric
from perfgate.model.note import Note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import RangeSample, Run
from perfgate.model.settings import ABForm, Policy, Settings
from perfgate.words import say
from perfgate.words.say import next_step

LATER = records.NOON + timedelta(days=1)
MEASURE = "pytest --perfgate workloads/mlp.py::mlp"
LAME = records.run(absent={Metric.KERNEL_MS: "the capture holds no kernels."})


def bless(
    *results: Result,
    old: Baseline | None = None,
    reason: str = "why not",
    code_now: Mapping[str, str] = records.CODE,
    accept_regression: bool = False,
    budgets: Mapping[Metric, float] | None = None,
) -> Baseline:
    return blessing.bless(
        results or (records.result(),),
        old,
        Blessing(by="Ada <ada@example.org>", at=LATER, reason=reason, commit=records.COMMIT),
        code_now=code_now,
        settings=Settings(budgets=budgets or {}),
        consent=Consent(accept_regression=accept_regression),
    )


def refusal(
    *results: Result,
    old: Baseline | None = None,
    code_now: Mapping[str, str] = records.CODE,
    accept_regression: bool = False,
) -> BlessRefused:
    with pytest.raises(BlessRefused) as caught:
        bless(*results, old=old, code_now=code_now, accept_regression=accept_regression)
    return caught.value


def at_hours(*hours: float, runs: int = 3, outcome: Outcome = Outcome.NO_BASELINE) -> list[Result]:
    """Build results of so many runs at these hours after noon, newest first."""
    moments = [records.NOON + timedelta(hours=hour) for hour in hours]
    results = [
        records.result(outcome, at=at, measured=records.runs(*[12.34] * runs, at=at))
        for at in moments
    ]
    return results[::-1]


def test_first_baseline_holds_what_was_measured_and_why() -> None:
    result = records.result(Outcome.NO_BASELINE)
    new = bless(result, reason="first baseline")
    assert new.workload == "mlp"
    assert new.digest == result.workload.digest()
    assert new.parameters == {
        "capture": "cudaProfilerApi",
        "step": "step",
        "steps": "30",
        "warmup": "10",
    }
    assert new.machine == result.machine
    assert new.values(Metric.STEP_MS) == (12.34, 12.31, 12.36, 12.33, 12.35)
    assert [run.sm_clock_mhz for run in new.runs] == [1980] * 5
    assert [run.processes for run in new.runs] == [1] * 5
    assert new.blessing.reason == "first baseline"
    assert (new.blessing.by, new.blessing.at, new.blessing.commit) == (
        "Ada <ada@example.org>",
        LATER,
        records.COMMIT,
    )
    assert [occasion.measured_at for occasion in new.occasions] == [records.NOON]
    assert new.calibration == {}


@pytest.mark.parametrize(
    "outcome", [Outcome.PASSED, Outcome.IMPROVED, Outcome.NO_BASELINE, Outcome.INCOMPARABLE]
)
def test_sound_result_is_blessed(outcome: Outcome) -> None:
    assert len(bless(records.result(outcome)).runs) == 5


@pytest.mark.parametrize(
    ("reason", "allow_ci", "code"),
    [
        ("", True, "bless-without-reason"),
        (" \n\t", True, "bless-without-reason"),
        ("why", False, "bless-in-ci"),
    ],
)
def test_without_a_reason_or_in_ci_nothing_is_blessed(
    reason: str, allow_ci: bool, code: str
) -> None:
    with pytest.raises(BlessRefused) as caught:
        refuse_unasked(reason, in_ci=True, allow_ci=allow_ci)
    assert caught.value.code == code


def test_ci_may_bless_where_somebody_says_so() -> None:
    refuse_unasked("why", in_ci=True, allow_ci=True)
    refuse_unasked("why", in_ci=False, allow_ci=False)


@pytest.mark.parametrize(
    ("outcome", "measure"),
    [
        (Outcome.INVALID, MEASURE),
        (Outcome.NOT_MEASURED, MEASURE),
        (Outcome.INCONCLUSIVE, "pytest --perfgate --perfgate-runs=10 workloads/mlp.py::mlp"),
    ],
)
def test_unsound_result_is_refused_even_if_a_loss_is_accepted(
    outcome: Outcome, measure: str
) -> None:
    judged = records.verdict(outcome, reason="GPU-0 was throttled (thermal slowdown).")
    refused = refusal(records.result(judged=judged), accept_regression=True)
    assert refused.code in ("bless-unsound", "bless-inconclusive")
    assert next_step(refused) == f"Measure again: {measure}"


@pytest.mark.parametrize(
    ("commits", "code"),
    [
        ([None, None], "no-ab-run-no-commit"),
        ([Commit(sha="a" * 40, dirty=True), None], "no-ab-run-uncommitted"),
        ([Commit(sha="a" * 40, dirty=True), Commit(sha="b" * 40)], None),
    ],
)
def test_a_baseline_that_no_gate_can_run_again_says_so(
    commits: Sequence[Commit | None], code: str | None
) -> None:
    made = records.baseline()
    occasions = tuple(made.occasions[0].model_copy(update={"commit": commit}) for commit in commits)
    why = why_no_ab_run(made.model_copy(update={"occasions": occasions}))
    assert (why.code if why else None) == code


def test_settings_may_leave_no_ab_run() -> None:
    made = records.baseline()
    assert why_no_ab_run(made, Settings()) is None
    for settings in (Settings(ab_run=ABForm.OFF), Settings(max_runs=8)):
        why = why_no_ab_run(made, settings)
        assert (why.code if why else None) == "no-ab-run-by-settings"


def test_what_is_worth_knowing_of_a_baseline_is_reported_with_it() -> None:
    made, result = records.baseline(), records.result()
    assert blessing.worth_knowing(made, result) == ()
    slow = tuple(with_process(run, periods_ms=(300.0, *[10.0] * 17)) for run in result.runs)
    shown = blessing.worth_knowing(
        records.in_one_occasion(made, commit=None), result.model_copy(update={"runs": slow})
    )
    assert [one.code for one in shown] == ["never-an-ab-run", "slow-start"]


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param([*records.runs(), records.run(throttled=["heat"])], id="throttled"),
        pytest.param([*records.runs(), LAME], id="a metric in some runs only"),
        pytest.param([], id="no runs"),
        pytest.param([records.run(processes=[records.process({})])] * 5, id="no values"),
    ],
)
def test_unsound_runs_are_refused_whatever_the_verdict_says(runs: Sequence[Run]) -> None:
    result = records.result(Outcome.NO_BASELINE, measured=runs)
    assert refusal(result).code == "bless-unsound"


def test_changed_code_is_refused_by_name() -> None:
    now = {"workloads/mlp.py": "c" * 64, "unrelated.py": "d" * 64}
    assert refusal(code_now=now).code == "bless-stale"


def test_new_files_that_the_result_did_not_load_are_no_change() -> None:
    assert len(bless(code_now={**records.CODE, "new.py": "e" * 64}).runs) == 5


def test_four_runs_are_refused_and_five_are_not() -> None:
    assert refusal(*at_hours(0, runs=4)).code == "bless-too-few-runs"
    assert len(bless(*at_hours(0, runs=5)).runs) == 5


def test_results_of_several_occasions_are_joined_oldest_first() -> None:
    new = bless(*at_hours(0, 2, 4))
    assert [len(occasion.runs) for occasion in new.occasions] == [3, 3, 3]
    assert [occasion.measured_at for occasion in new.occasions] == [
        records.NOON + timedelta(hours=hour) for hour in (0, 2, 4)
    ]


def test_results_within_15_minutes_are_one_occasion() -> None:
    assert [len(occasion.runs) for occasion in bless(*at_hours(0, 0.24)).occasions] == [6]
    assert [len(occasion.runs) for occasion in bless(*at_hours(0, 0.25)).occasions] == [3, 3]


def test_a_measurement_whose_folder_was_copied_is_taken_once() -> None:
    newer, older = at_hours(0, 2)
    judged_anew = older.model_copy(update={"verdict": records.verdict(Outcome.PASSED, measured=3)})
    new = bless(newer, newer, older, judged_anew, older)
    assert [len(occasion.runs) for occasion in new.occasions] == [3, 3]


def test_copies_do_not_make_up_for_runs_that_are_wanting() -> None:
    (one,) = at_hours(0)
    assert refusal(one, one, one).code == "bless-too-few-runs"


def test_at_most_30_runs_are_joined_and_the_newest_come_first() -> None:
    new = bless(*at_hours(*range(12), runs=5))
    assert len(new.runs) == 30
    assert new.occasions[-1].measured_at == records.NOON + timedelta(hours=11)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(records.result(code={"model.py": "f" * 64}), id="no repeat"),
        pytest.param(records.result(Outcome.INCONCLUSIVE), id="inconclusive"),
        pytest.param(records.result(Outcome.REGRESSED), id="regressed"),
        pytest.param(records.result(measured=records.runs(*[37.0] * 5)), id="speed"),
        pytest.param(records.result(measured=records.runs(37.0)), id="speed of one run"),
    ],
)
def test_unlike_or_unsound_results_are_not_joined(other: Result) -> None:
    newest = records.result(at=LATER)
    assert len(bless(newest, other).occasions) == 1
    assert len(bless(newest, records.result()).occasions) == 2


@pytest.mark.parametrize("outcome", [Outcome.IMPROVED, Outcome.REGRESSED])
def test_what_is_blessed_already_is_not_joined_to_what_takes_its_place(outcome: Outcome) -> None:
    """The files are the same, and the speed nearly so: what was changed lies in data, or in a
    package."""
    old = records.result(Outcome.NO_BASELINE)
    new = records.result(
        outcome, at=LATER, measured=[records.run({Metric.STEP_MS: 12.2}) for _ in range(5)]
    )
    blessed = bless(new, old, records.result(), accept_regression=outcome is Outcome.REGRESSED)
    assert [run.values[Metric.STEP_MS] for run in blessed.runs] == [12.2] * 5


def test_runs_that_differ_as_chance_has_it_are_joined() -> None:
    near = records.result(
        measured=[records.run({Metric.STEP_MS: 12.34 * (1 + n / 200)}) for n in range(5)]
    )
    assert len(bless(records.result(at=LATER), near).occasions) == 2


def test_an_occasion_is_of_the_commit_that_was_measured_last() -> None:
    first, last = (records.COMMIT.model_copy(update={"sha": digit * 40}) for digit in "12")
    results = [
        records.result(at=LATER).model_copy(update={"commit": last}),
        records.result(at=LATER - timedelta(minutes=1)).model_copy(update={"commit": first}),
    ]
    (occasion,) = bless(*results).occasions
    assert (occasion.commit, len(occasion.runs)) == (last, 10)


def test_regressed_results_are_joined_where_the_loss_is_accepted() -> None:
    results = [records.result(Outcome.REGRESSED, at=LATER), records.result(Outcome.REGRESSED)]
    assert len(bless(*results, accept_regression=True).runs) == 10


# Losses


def test_regression_is_refused_unless_accepted() -> None:
    judged = records.verdict(Outcome.REGRESSED, reason="step_ms rose 3.1 %, its budget is 2 %.")
    result = records.result(judged=judged)
    assert refusal(result).code == "bless-loss"
    assert len(bless(result, accept_regression=True).runs) == 5


def test_regressed_metric_is_refused_under_any_outcome() -> None:
    rows = [records.count(Metric.SYNCS, Outcome.REGRESSED, was=1, now=2)]
    judged = records.verdict(Outcome.PASSED, reason="", metrics=rows)
    assert refusal(records.result(judged=judged)).code == "bless-loss"


def slower(step_ms: float, metric: Metric = Metric.STEP_MS) -> list[Mapping[Metric, float]]:
    return [{metric: step_ms}] * 5


@pytest.mark.parametrize(
    ("metric", "before"),
    [(Metric.LAUNCHES, 45), (Metric.STEP_MS, 12.0), (Metric.GAP_MS, 1.5)],
)
def test_a_loss_over_what_is_blessed_now_is_refused_though_the_result_passed(
    metric: Metric, before: float
) -> None:
    old = records.baseline(slower(before, metric))
    assert refusal(old=old).code == "bless-loss"
    assert len(bless(old=old, accept_regression=True).runs) == 5


def test_count_within_a_varying_baseline_is_no_loss() -> None:
    old = records.baseline([{Metric.LAUNCHES: n} for n in (40, 41, 46, 42, 43)])
    assert len(bless(old=old).runs) == 5


def test_a_count_that_a_gate_passes_as_chance_is_no_loss() -> None:
    runs = [records.run({Metric.LAUNCHES: n}) for n in (46, 46, 53, 46, 46)]
    once = records.result(Outcome.IMPROVED, measured=runs)
    assert len(bless(once, old=records.baseline([{}] * 5)).runs) == 5
    varied = records.baseline([{Metric.LAUNCHES: n} for n in (40, 41, 46, 42, 43)])
    assert len(bless(once, old=varied).runs) == 5
    all_risen = records.result(
        measured=[records.run({Metric.LAUNCHES: n}) for n in (47, 48, 49, 47, 48)]
    )
    assert refusal(all_risen, old=varied).code == "bless-loss"


def test_budgets_of_the_workload_and_those_that_are_held_come_before_the_default() -> None:
    old = records.baseline(slower(12.0))
    generous = records.workload(budgets={Metric.STEP_MS: 0.05})
    assert len(bless(records.result(of=generous), old=old).runs) == 5
    held = old.model_copy(update={"held": {Metric.STEP_MS: 0.05}})
    assert len(bless(old=held).runs) == 5


def test_what_no_gate_has_judged_is_held_to_the_budgets_of_the_project() -> None:
    old, lost = (
        bless(records.result(measured=records.runs(*[12.16] * 5))),
        records.result(Outcome.NO_BASELINE),
    )
    assert bless(lost, old=old).anchor is not None
    with pytest.raises(
        BlessRefused,
        match=r"step_ms rises by 1\.5 % over what is blessed now, its budget is 1\.0 %",
    ):
        bless(lost, old=old, budgets={Metric.STEP_MS: 0.01})
    more = records.result(Outcome.NO_BASELINE, measured=records.runs(*[12.64] * 5))
    assert bless(more, old=old, budgets={Metric.STEP_MS: 0.05}).anchor is not None
    apart = records.result(
        Outcome.NO_BASELINE,
        at=records.NOON - timedelta(hours=1),
        measured=records.runs(*[13.5] * 5),
    )
    assert [
        len(bless(lost, apart, budgets={Metric.STEP_MS: wide}).runs) for wide in (0.02, 0.2)
    ] == [5, 10]


def test_nccl_time_has_no_budget_to_lose() -> None:
    old = records.baseline(slower(0.1, Metric.NCCL_MS))
    runs = [records.run({Metric.NCCL_MS: 5.0})] * 5
    assert len(bless(records.result(measured=runs), old=old).runs) == 5


@pytest.mark.parametrize(
    "old",
    [
        records.baseline(slower(6.0), of=records.workload(steps=10)),
        records.baseline(slower(6.0), on=records.machine(nsys="2023.4.4")),
    ],
    ids=["parameters", "nsys"],
)
def test_unlike_baseline_is_replaced_without_a_loss_and_lends_nothing(old: Baseline) -> None:
    spread = Spread(run_sd=0.001, occasion_sd=0.002, runs=10, at=records.NOON)
    old = old.model_copy(update={"calibration": {Metric.STEP_MS: spread}})
    new = bless(records.result(Outcome.INCOMPARABLE), old=old)
    assert new.anchor == Anchor(step_ms=12.34, at=LATER, commit=records.COMMIT)
    assert new.calibration == {}


def stepping(name: str, *values: object) -> Result:
    """Build a result whose runs hold these of their steps, the last of them from there on."""
    runs = zip(records.runs(), [*values, *[values[-1]] * 5], strict=False)
    return records.result(measured=[with_process(run, **{name: value}) for run, value in runs])


def test_another_number_of_ranges_as_steps_makes_a_baseline_unlike() -> None:
    old = bless(stepping("step_ranges", 30))
    assert {run.step_ranges for run in old.runs} == {30}
    assert not blessing.is_alike(old, stepping("step_ranges", 60))
    for numbers in ((30,), (31,), (60, 61), (None,)):
        assert blessing.is_alike(old, stepping("step_ranges", *numbers))


def test_other_ranges_as_steps_make_a_baseline_unlike() -> None:
    old = bless(stepping("step_names", {"turn #": 1.0}))
    assert {run.step_names for run in old.runs} == {("turn #",)}
    assert not blessing.is_alike(old, stepping("step_names", {"half #": 0.5, "turn #": 0.5}))
    for names in ({"turn #": 1.0}, {}):
        assert blessing.is_alike(old, stepping("step_names", names))


@pytest.mark.parametrize(
    ("source", "kept"), [("workloads/mlp.py", "workloads/mlp.py"), ("/home/ada/mlp.py", None)]
)
def test_a_baseline_knows_the_file_of_its_workload_within_the_project(
    source: str, kept: str | None
) -> None:
    assert (
        bless(records.result(of=records.workload().model_copy(update={"source": source}))).source
        == kept
    )


def test_calibration_is_carried_over() -> None:
    spread = Spread(run_sd=0.001, occasion_sd=0.002, runs=10, at=records.NOON)
    old = records.baseline().model_copy(update={"calibration": {Metric.STEP_MS: spread}})
    assert bless(old=old).calibration == {Metric.STEP_MS: spread}


# Anchor


OWN = Anchor(step_ms=12.34, at=LATER, commit=records.COMMIT, runs=5, occasions=1)


MILESTONE = Milestone(step_ms=12.34, at=LATER, commit=records.COMMIT, reason="why not")
BEST = Anchor(step_ms=11.9, at=records.NOON)
ITSELF = Anchor(step_ms=12.2, at=records.NOON + timedelta(minutes=5), commit=records.COMMIT)


@pytest.mark.parametrize(
    ("old", "accepted", "anchor"),
    [
        pytest.param(None, False, OWN, id="the first: the median step"),
        pytest.param(
            records.baseline(anchor=BEST),
            False,
            BEST.model_copy(update={"path": (MILESTONE,)}),
            id="a better one stays, and the way from it grows",
        ),
        pytest.param(records.baseline(anchor=BEST), True, OWN, id="an accepted loss"),
        pytest.param(
            records.baseline(anchor=BEST.model_copy(update={"step_ms": 12.5})),
            False,
            OWN,
            id="a better step",
        ),
        pytest.param(
            records.baseline(slower(12.2)),
            False,
            ITSELF.model_copy(update={"path": (MILESTONE,)}),
            id="a baseline without one anchors itself",
        ),
    ],
)
def test_the_anchor_is_the_best_step_with_the_way_from_there(
    old: Baseline | None, accepted: bool, anchor: Anchor
) -> None:
    assert bless(old=old, accept_regression=accepted).anchor == anchor


def test_a_long_way_keeps_its_latest_steps() -> None:
    path = tuple(Milestone(step_ms=12 + n / 100, at=records.NOON) for n in range(25))
    anchor = bless(
        old=records.baseline(anchor=Anchor(step_ms=11.9, at=records.NOON, path=path))
    ).anchor
    assert anchor is not None
    assert len(anchor.path) == blessing.MOST_MILESTONES
    assert anchor.path[0] == path[6]
    assert anchor.path[-1].step_ms == 12.34


def test_without_step_times_there_is_no_anchor() -> None:
    runs = [records.run(absent={Metric.STEP_MS: "no GPU operations"})] * 5
    new = bless(records.result(measured=runs))
    assert new.anchor is None
    assert new.breakdown.ranges != ()


# Ranges, differences, costs


def test_the_breakdown_is_of_all_blessed_runs_and_cut_down() -> None:
    ranges = [RangeSample(name=f"r{n}", count=1, cpu_ms=n) for n in range(50)]
    made = [records.run(processes=[records.process(ranges=ranges)])] * 5
    whole = breakdown_of(made)
    assert bless(records.result(measured=made)).breakdown == kept(whole) != whole


def test_differences_are_reported_in_each_metrics_own_basis() -> None:
    old = records.baseline(
        [{Metric.STEP_MS: 12.0, Metric.GAP_MS: 1.2, Metric.SYNCS: 2, Metric.NCCL_MS: 1.0}] * 5
    )
    rows = {row.metric: row for row in blessing.differences(old, bless())}
    assert rows[Metric.STEP_MS].change == pytest.approx(0.34 / 12)
    assert rows[Metric.STEP_MS].basis is Basis.LOG
    assert rows[Metric.GAP_MS].change == pytest.approx(0.651 / 12)
    assert rows[Metric.GAP_MS].basis is Basis.STEP
    assert (rows[Metric.SYNCS].baseline, rows[Metric.SYNCS].now, rows[Metric.SYNCS].change) == (
        2,
        1,
        -0.5,
    )
    assert rows[Metric.LAUNCHES].change == 0
    assert (
        rows[Metric.NCCL_MS].baseline,
        rows[Metric.NCCL_MS].now,
        rows[Metric.NCCL_MS].change,
    ) == (1, None, None)
    assert all(row.outcome is None for row in rows.values())


def test_a_fuller_baseline_holds_less_and_says_so() -> None:
    few, full = (holds.costs(one, {}) for one in (bless(), bless(*at_hours(0, 1, 2, 3, 4, runs=2))))
    assert (few.code, few.fields["runs"], few.fields["wanted_runs"]) == ("costs-fewer", 5, 10)
    assert "step_ms to 9.6 %" in say.fact(few)
    assert "it would be step_ms to 4.6 %" in say.fact(few)
    assert (full.code, full.fields["runs"], full.fields["occasions"]) == ("costs", 10, 5)
    assert "step_ms to 4 % and kernel_ms to 1 %" in say.fact(full)


def test_what_can_hold_nothing_says_so() -> None:
    noisy = bless(records.result(measured=records.runs(10.0, 14.0, 7.0, 12.0, 9.0)))
    assert "step_ms to more than 1000 % and" in say.fact(holds.costs(noisy, {}))


def test_costs_use_the_calibrated_spread_and_the_budgets() -> None:
    spread = Spread(run_sd=0.001, occasion_sd=0.0005, runs=20, occasions=10, at=records.NOON)
    calibrated = bless().model_copy(update={"calibration": {Metric.STEP_MS: spread}})
    assert "holds step_ms to 5.6 %" in say.fact(holds.costs(calibrated, {}))
    assert "holds step_ms to 20 %" in say.fact(holds.costs(calibrated, {Metric.STEP_MS: 0.2}))


@pytest.mark.parametrize(
    "steps",
    [(12.34,) * 5, (10.0, 11.0, 12.0, 13.0, 12.0), (10.0, 10.01, 9.99, 10.0, 14.0)],
    ids=["steady", "moods", "outlier"],
)
@pytest.mark.parametrize("lacking", [(), (Metric.KERNEL_MS, Metric.GAP_MS, Metric.H2D_MS)])
def test_blessing_says_what_the_next_gate_will_say(
    steps: Sequence[float], lacking: Sequence[Metric]
) -> None:
    runs = [
        records.run({Metric.STEP_MS: step}, absent=dict.fromkeys(lacking, "no GPU"))
        for step in steps
    ]
    new = bless(records.result(measured=runs))
    expectation = Expectation(workload=records.workload(), machine=records.machine(), baseline=new)
    lab = PreparedLab(made=[], by_form={}, machine=records.machine())
    (*_, more) = forecast(Underway(expectation, lab, Policy()))
    assert f" a gate {say.fact(more)};" in say.fact(holds.costs(new, {}))


# Occasions


def with_code(
    *occasions: Sequence[Mapping[Metric, float]], code: Mapping[str, str] = records.CODE
) -> Baseline:
    """Build a baseline, its occasions an hour apart from noon on, that says which code it is of."""
    return records.baseline(*occasions).model_copy(update={"code": code_digest(code)})


ADDED = Blessing(
    by="Bob", at=LATER + timedelta(minutes=5), reason="another evening", commit=records.COMMIT
)


def extend(
    *results: Result,
    old: Baseline | None = None,
) -> Baseline:
    old = with_code() if old is None else old
    return blessing.add_occasion(results or (records.result(at=LATER),), old, ADDED)


def not_extended(*results: Result, old: Baseline | None = None) -> BlessRefused:
    with pytest.raises(BlessRefused) as caught:
        extend(*results, old=old)
    return caught.value


def test_an_occasion_is_added_with_who_and_why_and_all_else_stays() -> None:
    spread = Spread(run_sd=0.004, occasion_sd=0.003, runs=20, at=records.NOON)
    anchor = Anchor(step_ms=11.0, at=records.NOON)
    old = with_code().model_copy(update={"calibration": {Metric.STEP_MS: spread}, "anchor": anchor})
    result = records.result(at=LATER, measured=records.runs(12.0, 12.1, 12.2, at=LATER))
    new = extend(result, old=old)
    assert new.occasions[:-1] == old.occasions
    last = new.occasions[-1]
    assert (last.measured_at, last.commit) == (LATER, result.commit)
    assert last.runs == tuple(map(BlessedRun.of, result.runs))
    assert last.added == ADDED
    assert new.model_copy(update={"occasions": old.occasions}) == old


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=12),
    added=st.integers(1, 29),
    hours=st.floats(-1000, 1000, allow_nan=False),
)
def test_an_added_occasion_loses_nothing_but_the_oldest_over_30_runs(
    sizes: list[int], added: int, hours: float
) -> None:
    old = with_code(*([{}] * size for size in sizes))
    at = records.NOON + timedelta(hours=hours)
    result = records.result(
        at=at, measured=records.runs(*(12 + n / 100 for n in range(added)), at=at)
    )
    near = any(abs(at - occasion.measured_at) < timedelta(minutes=15) for occasion in old.occasions)
    left = [sum(sizes[first:]) for first in range(len(sizes)) if sum(sizes[first:]) + added <= 30]
    if near or not left or left[0] + added < min(10, sum(sizes)):
        assert not_extended(result, old=old).code.startswith("occasion-no")
        return
    new = extend(result, old=old)
    assert new.model_copy(update={"occasions": old.occasions}) == old
    (own,) = (occasion for occasion in new.occasions if occasion not in old.occasions)
    assert own.runs == tuple(map(BlessedRun.of, result.runs))
    stayed = tuple(occasion for occasion in new.occasions if occasion is not own)
    assert stayed == old.occasions[len(old.occasions) - len(stayed) :]
    assert list(new.occasions) == sorted(new.occasions, key=lambda occasion: occasion.measured_at)
    gone = old.occasions[: len(old.occasions) - len(stayed)]
    assert len(new.runs) >= min(10, len(old.runs))
    assert len(new.runs) <= 30
    # No occasion goes that could have stayed.
    assert not gone or len(new.runs) + len(gone[-1].runs) > 30


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.IMPROVED, Outcome.INCONCLUSIVE])
def test_a_repeat_is_added_whatever_the_runs_could_show(outcome: Outcome) -> None:
    assert len(extend(records.result(outcome, at=LATER)).occasions) == 2


def test_a_regressed_repeat_wants_eyes_first() -> None:
    judged = records.verdict(Outcome.REGRESSED, reason="step_ms rose 3.1 %, its budget is 2 %.")
    assert not_extended(records.result(at=LATER, judged=judged)).code == "occasion-regressed"


@pytest.mark.parametrize("outcome", [Outcome.NO_BASELINE, Outcome.INCOMPARABLE])
def test_a_repeat_that_no_gate_held_against_the_baseline_is_not_added(outcome: Outcome) -> None:
    judged = records.verdict(outcome, reason="there was none.")
    assert not_extended(records.result(at=LATER, judged=judged)).code == "occasion-not-judged"


def test_what_is_no_unchanged_repeat_is_refused() -> None:
    refused = not_extended(records.result(at=LATER, code={"model.py": "f" * 64}))
    assert isinstance(found := refused.fields["why"], Note)
    assert (refused.code, found.code) == ("occasion-no-repeat", "repeat-other-code")


def test_without_a_baseline_there_is_nothing_to_add_to() -> None:
    with pytest.raises(BlessRefused) as caught:
        blessing.add_occasion([records.result()], None, ADDED)
    assert caught.value.code == "occasion-of-no-baseline"


def test_what_was_blessed_or_added_is_no_other_occasion() -> None:
    blessed = records.result()
    assert not_extended(blessed).code == "occasion-not-another"
    later = records.result(at=LATER)
    assert not_extended(later, old=extend(later)).code == "occasion-not-another"


@pytest.mark.parametrize("minutes", [-14, 14])
def test_other_runs_within_15_minutes_are_no_other_occasion(minutes: int) -> None:
    at = records.NOON + timedelta(minutes=minutes)
    result = records.result(at=at, measured=records.runs(12.0, 12.1, 12.2, at=at))
    assert not_extended(result).code == "occasion-not-another"


def test_a_quarter_of_an_hour_makes_another_occasion() -> None:
    at = records.NOON + timedelta(minutes=15)
    assert len(extend(records.result(at=at, measured=records.runs(12.0, at=at))).occasions) == 2


def test_kept_results_in_the_baseline_say_how_long_an_occasion_lasted() -> None:
    later, *joined = at_hours(0, 0.2, runs=5)
    old = bless(later, *joined)
    assert len(old.occasions) == 1
    at = records.NOON + timedelta(minutes=25)
    fresh = records.result(at=at, measured=records.runs(12.0, at=at))
    assert len(extend(fresh, old=old).occasions) == 2
    assert not_extended(fresh, later, *joined, old=old).code == "occasion-not-another"


def test_a_large_occasion_does_not_make_way_for_a_small_one() -> None:
    old = with_code([{}] * 28)
    result = records.result(at=LATER, measured=records.runs(12.0, 12.1, 12.2, at=LATER))
    assert not_extended(result, old=old).code == "occasion-no-room"


def test_the_next_gate_counts_an_added_result_once() -> None:
    later = records.result(at=LATER)
    found = repeats(extend(later), [later, records.result()])
    assert ([len(one.runs) for one in found.occasions], found.results) == ([5, 5], 0)
