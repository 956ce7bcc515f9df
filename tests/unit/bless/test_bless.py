"""Which kept results may become a baseline, and what that baseline holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest
from support import records
from support.cases import named
from support.prepared import PreparedLab, with_process
from support.refused import refused
from syrupy.assertion import SnapshotAssertion

from perfgate.bless import bless as blessing
from perfgate.bless import holds
from perfgate.bless.bless import Consent
from perfgate.bless.holds import why_no_ab_run
from perfgate.bless.repeats import repeats
from perfgate.explain.breakdown import breakdown_of, kept
from perfgate.gate.expect import Expectation
from perfgate.gate.plan import forecast
from perfgate.gate.underway import Underway
from perfgate.judge import hold
from perfgate.judge.looks import STORED_PLAN
from perfgate.model.baseline import (
    Anchor,
    Baseline,
    Blessing,
    Commit,
    Milestone,
    Result,
    Spread,
    code_digest,
)
from perfgate.model.errors import BlessRefused
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import RangeSample, Run
from perfgate.model.settings import Policy, Settings
from perfgate.model.verdict import Stage
from perfgate.words import say
from perfgate.words.say import next_step

LATER = records.NOON + timedelta(days=1)
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


def at_hours(*hours: float, runs: int = 3) -> list[Result]:
    """Build results of so many runs at these hours after noon, newest first."""
    moments = [records.NOON + timedelta(hours=hour) for hour in hours]
    results = [
        records.result(Outcome.NO_BASELINE, at=at, measured=records.runs(*[12.34] * runs, at=at))
        for at in moments
    ]
    return results[::-1]


def test_first_baseline_holds_what_was_measured_and_why(snapshot: SnapshotAssertion) -> None:
    result = records.result(Outcome.NO_BASELINE)
    new = bless(result, reason="first baseline")
    assert new.model_dump(mode="json") == snapshot
    assert new.digest == result.workload.digest()
    assert new.machine == result.machine


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome.INVALID, "bless-unsound"),
        (Outcome.NOT_MEASURED, "bless-unsound"),
        (Outcome.INCONCLUSIVE, "bless-inconclusive"),
    ],
)
def test_unsound_result_is_refused_even_if_a_loss_is_accepted(outcome: Outcome, code: str) -> None:
    refused = refusal(records.result(outcome), accept_regression=True)
    assert refused.code == code
    assert "workloads/mlp.py::mlp" in next_step(refused)


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


def test_what_is_worth_knowing_of_a_baseline_is_reported_with_it() -> None:
    made, result = records.baseline(), records.result()
    assert holds.worth_knowing(made, result) == ()
    slow = tuple(with_process(run, periods_ms=(300.0, *[10.0] * 17)) for run in result.runs)
    shown = holds.worth_knowing(
        records.in_one_occasion(made, commit=None), result.model_copy(update={"runs": slow})
    )
    assert [one.code for one in shown] == ["never-an-ab-run", "slow-start"]


@pytest.mark.parametrize(
    "runs",
    named(
        {
            "throttled": ([*records.runs(), records.run(throttled=["heat"])],),
            "a metric in some runs only": ([*records.runs(), LAME],),
            "no runs": ([],),
            "no values": ([records.run(processes=[records.process({})])] * 5,),
        }
    ),
)
def test_unsound_runs_are_refused_whatever_the_verdict_says(runs: Sequence[Run]) -> None:
    result = records.result(Outcome.NO_BASELINE, measured=runs)
    assert refusal(result).code == "bless-unsound"


def test_changed_code_is_refused_and_new_files_are_no_change() -> None:
    assert refusal(code_now={"workloads/mlp.py": "c" * 64}).code == "bless-stale"
    assert len(bless(code_now={**records.CODE, "new.py": "e" * 64}).runs) == 5


def test_four_runs_are_refused_and_five_are_not() -> None:
    assert refusal(*at_hours(0, runs=4)).code == "bless-too-few-runs"
    assert len(bless(*at_hours(0, runs=5)).runs) == 5


def test_results_within_15_minutes_are_one_occasion() -> None:
    assert [len(occasion.runs) for occasion in bless(*at_hours(0, 0.24)).occasions] == [6]
    assert [len(occasion.runs) for occasion in bless(*at_hours(0, 0.25)).occasions] == [3, 3]


def test_at_most_30_runs_are_joined_and_the_newest_come_first() -> None:
    new = bless(*at_hours(*range(12), runs=5))
    assert len(new.runs) == 30
    assert new.occasions[-1].measured_at == records.NOON + timedelta(hours=11)


@pytest.mark.parametrize(
    "other",
    named(
        {
            "no repeat": (records.result(code={"model.py": "f" * 64}),),
            "inconclusive": (records.result(Outcome.INCONCLUSIVE),),
            "regressed": (records.result(Outcome.REGRESSED),),
            "speed": (records.result(measured=records.runs(*[37.0] * 5)),),
        }
    ),
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


def test_regressed_results_are_joined_where_the_loss_is_accepted() -> None:
    results = [records.result(Outcome.REGRESSED, at=LATER), records.result(Outcome.REGRESSED)]
    assert len(bless(*results, accept_regression=True).runs) == 10


# Losses


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


def test_a_count_that_a_gate_passes_as_chance_is_no_loss() -> None:
    runs = [records.run({Metric.LAUNCHES: n}) for n in (46, 46, 53, 46, 46)]
    once = records.result(Outcome.IMPROVED, measured=runs)
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


def test_a_baseline_that_the_gate_could_not_read_is_held_against_what_is_blessed() -> None:
    result, old = records.result(Outcome.INCOMPARABLE), records.baseline(slower(6.0))

    def ended_by(why: Note) -> Result:
        return result.model_copy(update={"verdict": result.verdict.model_copy(update={"why": why})})

    assert refusal(ended_by(note("baseline-conflict")), old=old).code == "bless-loss"
    # What takes other steps has no loss to refuse.
    assert bless(ended_by(note("runs-differ")), old=old).anchor == OWN


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


# Anchor


OWN = Anchor(step_ms=12.34, at=LATER, commit=records.COMMIT, runs=5, occasions=1)


MILESTONE = Milestone(step_ms=12.34, at=LATER, commit=records.COMMIT, reason="why not")
BEST = Anchor(step_ms=11.9, at=records.NOON)


@pytest.mark.parametrize(
    ("old", "accepted", "anchor"),
    named(
        {
            "the first: the median step": (None, False, OWN),
            "a better one stays, and the way from it grows": (
                records.baseline(anchor=BEST),
                False,
                BEST.model_copy(update={"path": (MILESTONE,)}),
            ),
            "an accepted loss": (records.baseline(anchor=BEST), True, OWN),
            "a better step": (
                records.baseline(anchor=BEST.model_copy(update={"step_ms": 12.5})),
                False,
                OWN,
            ),
        }
    ),
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


def test_runs_that_lie_too_far_apart_for_stored_ones_to_show_anything_are_refused() -> None:
    rough = records.result(measured=records.runs(10.0, 10.3, 9.7, 10.15, 9.85))
    alone = rough.model_copy(update={"commit": None})
    assert refusal(alone).code == "bless-coarse"
    for result, budgets in ((rough, None), (alone, {Metric.STEP_MS: 0.9})):
        assert len(bless(result, budgets=budgets).runs) == 5


# Ranges, differences, costs


def test_the_breakdown_is_of_all_blessed_runs_and_cut_down() -> None:
    ranges = [RangeSample(name=f"r{n}", count=1, cpu_ms=n) for n in range(50)]
    made = [records.run(processes=[records.process(ranges=ranges)])] * 5
    whole = breakdown_of(made)
    assert bless(records.result(measured=made)).breakdown == kept(whole) != whole


def test_a_fuller_baseline_holds_less_and_says_so() -> None:
    few, full = (holds.costs(one, {}) for one in (bless(), bless(*at_hours(0, 1, 2, 3, 4, runs=2))))
    assert (few.code, few.fields["runs"], few.fields["wanted_runs"]) == ("costs-fewer", 5, 10)
    assert "step_ms to 9.6 %" in say.fact(few)
    assert "it would be step_ms to 4.6 %" in say.fact(few)
    assert (full.code, full.fields["runs"], full.fields["occasions"]) == ("costs", 10, 5)
    assert "step_ms to 4 % and kernel_ms to 1 %" in say.fact(full)


def test_what_a_gate_can_hold_it_holds_with_that_as_its_budget() -> None:
    # Blessed runs of a sleeping loop on two busy cores, ms: 79 % while three are outliers.
    steps = [
        4.45,
        5.08,
        6.51,
        5.68,
        4.33,
        4.29,
        4.35,
        4.42,
        4.19,
        4.27,
        4.32,
        4.13,
        4.1,
        4.13,
        4.28,
    ]
    made = bless(records.result(measured=records.runs(*steps)))
    plan = STORED_PLAN
    found = holds.wider_budgets(made, {}, plan)
    held = hold.holds(made, Metric.STEP_MS, found, plan)
    assert held is not None
    assert held <= found[Metric.STEP_MS] or found[Metric.STEP_MS] == 1.0


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


def with_code(*occasions: Sequence[Mapping[Metric, float]]) -> Baseline:
    """Build a baseline, its occasions an hour apart from noon on, that says which code it is of."""
    return records.baseline(*occasions).model_copy(update={"code": code_digest(records.CODE)})


ADDED = Blessing(
    by="Bob", at=LATER + timedelta(minutes=5), reason="another evening", commit=records.COMMIT
)


def extend(result: Result, old: Baseline | None = None) -> Baseline:
    return blessing.add_occasion(result, with_code() if old is None else old, ADDED)


def not_extended(result: Result, old: Baseline | None = None) -> str:
    with pytest.raises(BlessRefused) as caught:
        extend(result, old=old)
    return caught.value.code


def at_minutes(minutes: float, outcome: Outcome = Outcome.PASSED) -> Result:
    at = records.NOON + timedelta(minutes=minutes)
    return records.result(outcome, at=at, measured=records.runs(12.0, 12.1, 12.2, at=at))


def of_other_speed(times: float, stage: Stage) -> Result:
    """A result that PASSED, whose steps take so many times as long."""
    steps = (12.0 * times, 12.1 * times, 12.2 * times)
    made = records.result(Outcome.PASSED, at=LATER, measured=records.runs(*steps, at=LATER))
    verdict = made.verdict.model_copy(update={"stage": stage})
    return made.model_copy(update={"verdict": verdict})


@pytest.mark.parametrize(
    ("result", "old", "code"),
    [
        (at_minutes(99, Outcome.REGRESSED), None, "occasion-regressed"),
        (at_minutes(99, Outcome.NO_BASELINE), None, "occasion-not-judged"),
        (records.result(at=LATER, code={"model.py": "f" * 64}), None, "occasion-no-repeat"),
        (records.result(), None, "occasion-not-another"),
        (at_minutes(14), None, "occasion-not-another"),
        (at_minutes(-14), None, "occasion-not-another"),
        (at_minutes(99), with_code([{}] * 28), "occasion-no-room"),
        # It PASSED next to the blessed commit, which is as slow today.
        (of_other_speed(1.9, Stage.BLOCKS), None, "occasion-other-speed"),
        (of_other_speed(0.5, Stage.AB_RUN), None, "occasion-other-speed"),
        # An accepted loss has no part in how the machine is.
        (records.result(Outcome.REGRESSED), None, "occasion-not-another"),
    ],
)
def test_what_is_no_further_occasion_is_not_added(
    result: Result, old: Baseline | None, code: str
) -> None:
    assert not_extended(result, old=old) == code


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.IMPROVED, Outcome.INCONCLUSIVE])
def test_a_repeat_is_added_whatever_the_runs_could_show(outcome: Outcome) -> None:
    assert len(extend(at_minutes(15, outcome)).occasions) == 2


def test_what_stored_runs_have_let_pass_is_of_their_speed() -> None:
    assert len(extend(of_other_speed(1.9, Stage.STORED)).occasions) == 2


def test_without_a_baseline_there_is_nothing_to_add_to() -> None:
    with refused(BlessRefused, "occasion-of-no-baseline"):
        blessing.add_occasion(records.result(), None, ADDED)


def test_an_added_occasion_lets_the_oldest_go_that_do_not_find_room_in_30_runs() -> None:
    old = with_code([{}] * 9, [{}] * 10, [{}] * 8)
    new = extend(at_minutes(600), old=old)
    assert new.occasions[:-1] == old.occasions
    newer = extend(records.result(at=LATER), old=new)
    assert [len(occasion.runs) for occasion in newer.occasions] == [10, 8, 3, 5]
    assert newer.occasions[:-1] == new.occasions[1:]


def test_the_next_gate_counts_an_added_result_once() -> None:
    later = records.result(at=LATER)
    found = repeats(extend(later), [later, records.result()])
    assert [len(one.runs) for one in found.occasions] == [5, 5]
