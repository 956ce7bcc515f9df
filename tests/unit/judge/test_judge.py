"""From runs to a verdict: stages, looks, and the order of outcomes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.cases import named
from support.judging import MOMENT, Columns, blessed, judged, measured

from perfgate.judge.evidence import Evidence
from perfgate.judge.judge import judge
from perfgate.judge.looks import (
    AB_PLAN,
    COUNTS_PLAN,
    INTERLEAVED_PLAN,
    SCREEN_PLAN,
    STORED_PLAN,
    Plan,
)
from perfgate.model.baseline import BlessedRun, Occasion
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import NO_NCCL, ProcessSample, Run
from perfgate.model.settings import Policy, Settings
from perfgate.model.verdict import MetricVerdict, Stage, Verdict
from perfgate.render.verdict import interval_text

M = Metric
JITTER = [1.0, 1.002, 0.998, 1.001, 0.999] * 2
BASE: Columns = {
    M.STEP_MS: [10.0 * j for j in JITTER],
    M.STEP_MEAN_MS: [10.0 * j for j in JITTER],
    M.KERNEL_MS: [8.0 + 0.1 * (10 * j - 10) for j in JITTER],
    M.GAP_MS: list(JITTER),
    M.SYNCS: [1.0] * 10,
}
BASELINE = blessed(BASE, occasions=5)


def columns(
    runs: int = 3,
    *,
    step: float = 1.0,
    mean: float | None = None,
    kernel: float = 1.0,
    gap: float = 0.0,
    syncs: Sequence[float] | None = None,
) -> Columns:
    return {
        M.STEP_MS: [10.0 * step * j for j in JITTER[:runs]],
        M.STEP_MEAN_MS: [10.0 * (mean or step) * j for j in JITTER[:runs]],
        M.KERNEL_MS: [8.0 * kernel] * runs,
        M.GAP_MS: [1.0 + gap] * runs,
        M.SYNCS: syncs or [1.0] * runs,
    }


def of(now: Columns, plan: Plan = STORED_PLAN, *, max_runs: int = 29) -> Verdict:
    return judged(BASELINE, measured(now), plan, max_runs=max_runs)


def said(verdict: Verdict) -> tuple[Outcome, int]:
    """The outcome, and how many runs are wanted."""
    return verdict.outcome, verdict.runs + verdict.more


def code(row: MetricVerdict) -> str | None:
    return None if row.note is None else row.note.code


# -- Stages and looks


@pytest.mark.parametrize(
    ("plan", "runs", "wanted"),
    named(
        {
            "a screen that does not pass is over": (SCREEN_PLAN, 3, 3),
            "stored": (STORED_PLAN, 5, 8),
            "stored, at its end": (STORED_PLAN, 10, 10),
            "pairs": (AB_PLAN, 3, 5),
        }
    ),
)
def test_what_is_open_goes_on_to_the_next_look(plan: Plan, runs: int, wanted: int) -> None:
    noisy = {**columns(runs), M.STEP_MS: [10.0 * (1 + 20 * (j - 1)) * 1.02 for j in JITTER[:runs]]}
    assert said(of(noisy, plan=plan)) == (Outcome.INCONCLUSIVE, wanted)


@pytest.mark.parametrize(
    "plan", [SCREEN_PLAN, STORED_PLAN, AB_PLAN, INTERLEAVED_PLAN], ids=lambda plan: plan.stage
)
def test_too_few_runs_open_no_gate(plan: Plan) -> None:
    verdict = of(columns(1), max_runs=1, plan=plan)
    assert said(verdict) == (Outcome.INCONCLUSIVE, 1)
    assert not Settings().opens(verdict)


@pytest.mark.parametrize(
    ("pairs", "steps", "screened", "expected"),
    named(
        {
            "slow, before the last look": (5, 1.0, [10.0, 10.0, 30.0], (Outcome.INCONCLUSIVE, 8)),
            "a loss as in the screen": (3, 1.05, [10.5] * 3, (Outcome.REGRESSED, 3)),
            "extreme, before five pairs": (3, 1.05, [10.5, 10.5, 14.0], (Outcome.INCONCLUSIVE, 5)),
            "a screen without steps": (5, 1.0, [None], (Outcome.PASSED, 5)),
            "a step that took no time": (5, 1.0, [0.0], (Outcome.PASSED, 5)),
        }
    ),
)
def test_what_a_screen_showed_counts_in_an_ab_run(
    pairs: int, steps: float, screened: list[float | None], expected: tuple[Outcome, int]
) -> None:
    there = blessed({metric: values[:pairs] for metric, values in BASE.items()})
    alone = measured({**columns(len(screened)), M.STEP_MS: screened})
    now = measured(columns(pairs, step=steps))
    assert said(judged(there, now, AB_PLAN, stored=BASELINE, alone=alone)) == expected


def test_a_slow_process_of_the_screen_lets_an_ab_run_pass_at_its_last_look() -> None:
    alone = measured({**columns(3), M.STEP_MS: [10.0, 10.0, 30.0]})
    now = measured(columns(9))
    last = judged(BASELINE, now, AB_PLAN, max_runs=9, stored=BASELINE, alone=alone)
    assert said(last) == (Outcome.PASSED, 9)


@pytest.mark.behaviour
def test_the_upper_end_that_is_shown_is_the_one_that_decides() -> None:
    there = {metric: values[:5] for metric, values in BASE.items()}
    first, later = (
        judged(
            blessed({metric: values[:pairs] for metric, values in there.items()}),
            measured(columns(pairs, step=1.014)),
            INTERLEAVED_PLAN,
            stored=BASELINE,
        )
        for pairs in (3, 5)
    )
    assert (first.pass_confidence, later.pass_confidence) == (0.975, 0.995)
    row = later.of(M.STEP_MS)
    assert row is not None
    assert row.high == pytest.approx(0.0208, abs=2e-4)  # 0.0184 at 97.5 %: within 2 %
    assert later.outcome is not Outcome.PASSED
    assert "(99.5 %)" in interval_text(later)


@pytest.mark.behaviour
def test_a_step_twice_as_long_is_slower_however_much_its_runs_differ() -> None:
    """Seen on an H100: a loop that had lost its loader's workers."""
    there = blessed({M.STEP_MS: [12.295, 12.312, 12.332, 12.311, 12.297, 12.295]})
    found = judged(there, measured({M.STEP_MS: [28.273, 31.601, 30.835, 29.139, 24.667]}))
    row = found.of(M.STEP_MS)
    assert row is not None
    assert (row.outcome, found.dropped) == (Outcome.REGRESSED, ())


@pytest.mark.behaviour
@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([10.9], (Outcome.PASSED, 3)),
        ([10.0], (Outcome.INCONCLUSIVE, 5)),
        ([8.0], (Outcome.INCONCLUSIVE, 5)),
        ([], (Outcome.INCONCLUSIVE, 5)),
    ],
)
def test_runs_alone_are_slow_next_to_what_the_other_commit_takes_today(
    there: list[float], expected: tuple[Outcome, int]
) -> None:
    pairs = blessed({metric: values[:3] for metric, values in BASE.items()})
    found = judged(
        pairs,
        measured(columns(3)),
        INTERLEAVED_PLAN,
        stored=BASELINE,
        alone=measured({**columns(2), M.STEP_MS: [10.9, 10.95]}),
        alone_there=measured({**columns(len(there)), M.STEP_MS: there}),
    )
    assert said(found) == expected


@pytest.mark.behaviour
@pytest.mark.parametrize(
    ("part", "longer", "expected"),
    [
        (M.H2D_MS, 0.3, (Outcome.PASSED, 3)),
        (M.H2D_MS, 0.5, (Outcome.INCONCLUSIVE, 5)),
        (M.KERNEL_MS, 0.3, (Outcome.INCONCLUSIVE, 5)),
    ],
)
def test_a_run_is_slow_by_its_copies_where_they_would_make_the_step_slow(
    part: Metric, longer: float, expected: tuple[Outcome, int]
) -> None:
    def runs(number: int) -> dict[Metric, Sequence[float | None]]:
        return {**columns(number), M.H2D_MS: [0.9] * number}

    slow = runs(2)
    slow[part] = [slow[part][0], (slow[part][1] or 0.0) + longer]  # of steps of 10 ms
    found = judged(
        blessed(runs(3)),
        measured(runs(3)),
        INTERLEAVED_PLAN,
        stored=blessed(runs(5), occasions=5),
        alone=measured(slow),
        alone_there=measured(runs(1)),
    )
    assert said(found) == expected


@pytest.mark.behaviour
@pytest.mark.parametrize("longer", [0.3, 0.6])
def test_copies_that_are_longer_in_some_runs_do_not_pass_behind_a_wide_budget_of_the_step(
    longer: float,
) -> None:
    now: Columns = {**columns(5), M.H2D_MS: [0.9, 0.9, 0.9 + longer, 0.9, 0.9 + longer]}
    there = blessed({**BASE, M.H2D_MS: [0.9] * 10}, occasions=5)
    found = judged(there, measured(now), SCREEN_PLAN, budgets={M.STEP_MS: 0.2})
    assert found.outcome is Outcome.INCONCLUSIVE


# -- Outcomes


def test_a_loss_comes_before_what_is_missing_and_that_before_what_is_open() -> None:
    missing: Columns = {M.GAP_MS: [None] * 5}
    assert of({**columns(5, syncs=[2.0] * 5), **missing}).outcome is Outcome.REGRESSED
    assert of({**columns(5, step=1.015), **missing}).outcome is Outcome.NOT_MEASURED
    assert of(columns(5, step=1.015, syncs=[0.0] * 5)).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    named(
        {
            "nothing that is gated": (
                {M.NCCL_MS: [1.0]},
                {M.NCCL_MS: [1.0] * 5},
                Outcome.NOT_MEASURED,
            ),
            "counts alone": ({M.SYNCS: [1.0]}, {M.SYNCS: [1.0] * 5}, Outcome.PASSED),
            "all that is gated is missing": (BASE, {M.NCCL_MS: [1.0] * 5}, Outcome.NOT_MEASURED),
        }
    ),
)
def test_nothing_known_is_not_a_pass(before: Columns, now: Columns, expected: Outcome) -> None:
    assert judged(blessed(before), measured(now)).outcome is expected


@pytest.mark.parametrize(
    ("step", "gap", "expected", "why"),
    named(
        {
            "kernels got faster": (1.0, 0.5, Outcome.PASSED, "idle-costs-nothing"),
            "no more idle time": (1.0, 0.0, Outcome.PASSED, "share-changed"),
            "the step is longer": (1.05, 0.5, Outcome.REGRESSED, "share-changed"),
        }
    ),
)
@pytest.mark.parametrize("plan", [AB_PLAN, INTERLEAVED_PLAN])
def test_idle_time_that_does_not_make_the_step_longer_is_no_loss(
    plan: Plan, step: float, gap: float, expected: Outcome, why: str
) -> None:
    now = columns(8, step=step, kernel=0.94 if step == 1.0 and gap else 1.0, gap=gap)
    verdict = of(now, plan)
    rows = {row.metric: row for row in verdict.metrics}
    assert (rows[M.GAP_MS].outcome, code(rows[M.GAP_MS])) == (expected, why)


@pytest.mark.parametrize("plan", [AB_PLAN, INTERLEAVED_PLAN])
def test_a_stall_in_few_steps_is_a_loss_though_the_step_is_counted_to_its_cap(plan: Plan) -> None:
    # One step in 13 takes twice as long: as 1.2 of its time in step_ms, as all of it in the mean.
    now = columns(8, step=1 + 0.2 / 13, mean=1 + 1 / 13, gap=0.75)
    assert {row.metric: row.outcome for row in of(now, plan).metrics}[M.GAP_MS] is Outcome.REGRESSED
    unknown: Columns = {one: values for one, values in now.items() if one is not M.STEP_MEAN_MS}
    assert of(unknown, plan).outcome is Outcome.REGRESSED
    # Nor does a mean that nothing can be compared with say that it costs nothing.
    assert of({**now, M.STEP_MEAN_MS: [0.0] * 8}, plan).outcome is Outcome.REGRESSED


def test_idle_time_is_no_loss_at_a_look_where_the_step_is_within_its_budget() -> None:
    steps = [10.08, 9.92, 10.0]  # shown to be less than 2 % longer at 97.5 %, not at 99.75 %
    now = {**columns(3, kernel=0.92, gap=0.6), M.STEP_MS: steps, M.STEP_MEAN_MS: steps}
    there = blessed({metric: values[:3] for metric, values in BASE.items()})
    found = judged(there, measured(now), INTERLEAVED_PLAN)
    assert said(found) == (Outcome.INCONCLUSIVE, 5)


def test_idle_time_of_some_runs_that_costs_nothing_is_not_laid_to_chance() -> None:
    now: Columns = {**columns(8, kernel=0.94), M.GAP_MS: [1.0, 1.0, 1.0, 1.6, 1.0, 1.6, 1.0, 1.0]}
    verdict = of(now, AB_PLAN)
    rows = {row.metric: row for row in verdict.metrics}
    assert (rows[M.GAP_MS].outcome, code(rows[M.GAP_MS])) == (Outcome.PASSED, "idle-costs-nothing")
    assert not verdict.notes


@pytest.mark.parametrize("plan", [AB_PLAN, INTERLEAVED_PLAN])
def test_stalls_in_a_run_made_alone_cost_something_though_no_pair_has_them(plan: Plan) -> None:
    alone = columns(2, step=1 + 0.2 / 13, mean=1 + 1 / 13, gap=0.75)
    found = judged(BASELINE, measured(columns(5)), plan, stored=BASELINE, alone=measured(alone))
    assert said(found) == (Outcome.INCONCLUSIVE, 8)


def test_alpha_is_shared_by_the_time_metrics_and_the_workloads() -> None:
    lost = columns(5, step=1.3)
    alone = of(lost)
    among_seven = judged(BASELINE, measured(lost), workloads=7)
    assert alone.loss_alpha == pytest.approx(0.01 / 3 / 3)
    assert among_seven.loss_alpha == pytest.approx(0.01 / 3 / 3 / 7)
    assert alone.loss_level == pytest.approx(among_seven.loss_level)
    assert alone.loss_by is M.STEP_MS


SLOW = [10.0, 10.0, 30.0, 30.0, 30.0, 10.0, 10.0, 10.0]
NOISY = [8.0 * (1 + 10 * (j - 1)) for j in JITTER[:5]]


@pytest.mark.parametrize(
    ("now", "plan", "most", "why", "then"),
    named(
        {
            "slow": ({**columns(8), M.STEP_MS: SLOW}, AB_PLAN, 8, "open-slow-runs", "allow"),
            "open": (columns(5, step=1.015), STORED_PLAN, 5, "open-at-budget", "allow"),
            "at its end": (columns(10, step=1.015), STORED_PLAN, 10, "open-at-budget", None),
            "too few": (columns(2), STORED_PLAN, 2, "too-few", "allow"),
            "pairs": ({**columns(5), M.KERNEL_MS: NOISY}, AB_PLAN, 5, "open-at-budget", "allow"),
            "zeros": ({**columns(5), M.STEP_MS: [0.0] * 4 + [1.0]}, AB_PLAN, 5, "open", None),
            "between looks": (columns(2, step=1.015), STORED_PLAN, 10, "unsettled", None),
        }
    ),
)
def test_what_stays_open_says_why_and_what_to_do(
    now: Columns, plan: Plan, most: int, why: str, then: str | None
) -> None:
    verdict = of(now, plan, max_runs=most)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.why.code == why
    assert (None if verdict.next is None else verdict.next.code) == then


def twelve(columns: Columns) -> Columns:
    return {metric: [*values, *values[:2]] for metric, values in columns.items()}


def test_a_varying_count_that_rose_in_every_run_is_open_until_chance_is_out_of_the_question() -> (
    None
):
    few = blessed(
        {**{metric: values[:5] for metric, values in BASE.items()}, M.SYNCS: [4, 5] * 2 + [4]}
    )
    assert said(judged(few, measured(columns(5, syncs=[6.0] * 5)))) == (Outcome.REGRESSED, 5)
    verdict = judged(few, measured(columns(4, syncs=[6.0] * 4)), AB_PLAN, max_runs=4)
    assert verdict.next is not None
    assert (verdict.why.code, verdict.next.code) == ("open", "allow")


# -- Processes


def of_ranks(*syncs: float) -> Run:
    ranks = tuple(
        ProcessSample(
            pid=rank, rank=rank, steps=30, values={M.STEP_MS: 10.0, M.SYNCS: made}, window_ms=300.0
        )
        for rank, made in enumerate(syncs)
    )
    return Run(started_at=MOMENT, wall_s=1.0, processes=ranks)


def test_a_metric_that_runs_lack_is_not_measured_with_the_runs_own_reason() -> None:
    now = {**columns(), M.GAP_MS: [1.0, None, 1.0]}
    verdict = judged(BASELINE, measured(now, absent={M.GAP_MS: "no GPU operation"}))
    assert said(verdict) == (Outcome.NOT_MEASURED, 3)
    row = verdict.of(M.GAP_MS)
    assert row is not None
    assert (row.outcome, row.baseline, row.now) == (Outcome.NOT_MEASURED, 1.0, None)


def test_a_run_without_processes_measures_nothing() -> None:
    empty = Run(started_at=MOMENT, wall_s=1.0, processes=())
    assert judged(BASELINE, [empty]).outcome is Outcome.NOT_MEASURED


@pytest.mark.parametrize(
    ("now", "outcome", "reason"),
    [
        ((1.0, 0.0, 0.0), Outcome.PASSED, "count-same"),
        ((2.0, 0.0, 0.0), Outcome.REGRESSED, "count-rose"),
        ((1.0, 1.0, 1.0), Outcome.REGRESSED, "count-of-process"),
        ((0.0, 0.0, 0.0), Outcome.IMPROVED, "count-fell"),
    ],
)
def test_a_regression_that_one_rank_always_made_is_a_rise_where_others_make_it_too(
    now: tuple[float, ...], outcome: Outcome, reason: str
) -> None:
    occasion = Occasion(
        measured_at=MOMENT, runs=tuple(BlessedRun.of(of_ranks(1.0, 0.0, 0.0)) for _ in range(5))
    )
    baseline = BASELINE.model_copy(update={"occasions": (occasion,)})
    row = judged(baseline, [of_ranks(*now)] * 3).of(M.SYNCS)
    assert row is not None
    assert (row.outcome, code(row)) == (outcome, reason)
    # A second run must confirm a rise.
    assert (judged(baseline, [of_ranks(*now)]).more == 1) == (outcome is Outcome.REGRESSED)


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    named(
        {
            "a baseline without each rank's is judged by the most": (
                [BlessedRun(values={M.STEP_MS: 10.0, M.SYNCS: 1.0})] * 5,
                (1.0, 1.0, 1.0),
                (Outcome.PASSED, "count-same"),
            ),
            "one that varies does not hide an exact one of another rank": (
                [BlessedRun.of(of_ranks(4.0 + n % 2, 0.0)) for n in range(5)],
                (6.0, 1.0),
                (Outcome.REGRESSED, "count-of-process"),
            ),
        }
    ),
)
def test_counts_of_ranks_that_are_not_all_known_or_exact(
    then: Sequence[BlessedRun], now: tuple[float, ...], expected: tuple[Outcome, str]
) -> None:
    occasion = Occasion(measured_at=MOMENT, runs=tuple(then))
    baseline = BASELINE.model_copy(update={"occasions": (occasion,)})
    row = judged(baseline, [of_ranks(*now)] * 3).of(M.SYNCS)
    assert row is not None
    assert (row.outcome, code(row)) == expected


@pytest.mark.parametrize(
    ("there", "here", "stored", "exact"),
    [
        ([1.0, 1.0], [3.0, 3.0], None, False),
        ([1.0, 1.0, 1.0], [3.0, 3.0, 3.0], None, True),
        ([1.0, 1.0, 1.0], [3.0, 3.0, 4.0], None, False),
        ([1.0, 1.0, 1.0], [3.0, 3.0, 3.0], [1.0, 1.0, 2.0, 1.0, 1.0], False),
        ([1.0, 1.0, 1.0], [3.0, 3.0, 3.0], [None] * 5, True),
    ],
)
def test_in_an_ab_run_a_count_is_exact_by_what_is_blessed_or_by_three_runs(
    there: list[float], here: list[float], stored: list[float | None] | None, exact: bool
) -> None:
    def sides(syncs: Sequence[float | None]) -> Columns:
        return {M.STEP_MS: [10.0] * len(syncs), M.SYNCS: syncs}

    known = None if stored is None else blessed(sides(stored))
    found = judged(blessed(sides(there)), measured(sides(here)), AB_PLAN, stored=known)
    row = found.of(M.SYNCS)
    assert row is not None
    assert row.exact is exact
    assert row.outcome is (Outcome.REGRESSED if exact else Outcome.INCONCLUSIVE)


def test_without_a_baseline_nothing_is_held_against_stored_runs() -> None:
    held = Policy(runs=5)
    with pytest.raises(ValueError, match="baseline"):
        judge(Evidence(workload="w", alone=measured(columns(5))), held, Stage.STORED)


# -- Counts first


def test_counts_alone_end_a_gate_by_a_rise_that_a_second_run_confirms_and_nothing_else() -> None:
    assert said(of(columns(1), COUNTS_PLAN)) == (Outcome.INCONCLUSIVE, 1)
    assert said(of(columns(1, syncs=[2.0]), COUNTS_PLAN)) == (Outcome.INCONCLUSIVE, 2)
    assert said(of(columns(2, syncs=[2.0, 2.0]), COUNTS_PLAN)) == (Outcome.REGRESSED, 2)
    assert said(of(columns(2, syncs=[2.0, 1.0]), COUNTS_PLAN)) == (Outcome.INCONCLUSIVE, 2)
    rows = of(columns(2, step=1.5, syncs=[2.0, 2.0]), COUNTS_PLAN).metrics
    assert {row.outcome for row in rows if row.metric is not M.SYNCS} == {None}


@pytest.mark.parametrize(
    ("launches", "graphs", "step", "outcome", "judged_graphs"),
    named(
        {
            "all of it in one graph": (0.0, 1.0, 0.5, Outcome.IMPROVED, False),
            "some of it, at an equal step": (40.0, 3.0, 1.0, Outcome.IMPROVED, False),
            "in a slower graph": (0.0, 1.0, 1.1, Outcome.REGRESSED, False),
            "and what was launched as well": (100.0, 1.0, 1.0, Outcome.REGRESSED, True),
            "a few of them": (90.0, 1.0, 1.0, Outcome.REGRESSED, True),
            "nothing in graphs": (99.0, 0.0, 1.0, Outcome.REGRESSED, True),
        }
    ),
)
def test_graphs_in_place_of_launches_are_judged_by_the_step(
    launches: float, graphs: float, step: float, outcome: Outcome, *, judged_graphs: bool
) -> None:
    before = {**BASE, M.LAUNCHES: [100.0] * 10, M.GRAPH_LAUNCHES: [0.0] * 10}
    now = {
        **columns(5, step=step, kernel=1.06),
        M.LAUNCHES: [launches] * 5,
        M.GRAPH_LAUNCHES: [graphs] * 5,
    }
    verdict = judged(blessed(before, occasions=5), measured(now), STORED_PLAN)
    rows = {row.metric: row for row in verdict.metrics}
    assert verdict.outcome is outcome
    for metric in (M.GRAPH_LAUNCHES, M.KERNEL_MS):
        assert (rows[metric].outcome is not None) == judged_graphs
        assert (code(rows[metric]) == "graphs-for-launches") == (not judged_graphs)
    assert (rows[M.STEP_MS].outcome is Outcome.REGRESSED) == (step > 1)


def test_without_a_step_graphs_in_place_of_launches_excuse_no_kernel_time() -> None:
    kernels = BASE[M.KERNEL_MS]
    before = {M.KERNEL_MS: kernels, M.LAUNCHES: [100.0] * 10, M.GRAPH_LAUNCHES: [0.0] * 10}
    now = {
        M.KERNEL_MS: columns(5, kernel=2.0)[M.KERNEL_MS],
        M.LAUNCHES: [0.0] * 5,
        M.GRAPH_LAUNCHES: [1.0] * 5,
    }
    verdict = judged(blessed(before, occasions=5), measured(now), STORED_PLAN)
    assert verdict.outcome is Outcome.REGRESSED


def test_what_graphs_leave_unjudged_is_not_said_to_be_within_budget() -> None:
    before = {name: values[:3] for name, values in BASE.items()}
    before |= {M.LAUNCHES: [100.0, 101.0, 102.0], M.GRAPH_LAUNCHES: [0.0] * 3}
    now = {**columns(5), M.LAUNCHES: [40.0] * 5, M.GRAPH_LAUNCHES: [1.0] * 5}
    verdict = judged(blessed(before), measured(now), STORED_PLAN)
    rows = [row for row in verdict.metrics if row.outcome is not None]
    assert (verdict.outcome, len(rows)) == (Outcome.PASSED, len(verdict.metrics) - 2)
    counts = sum(row.is_count for row in rows)
    held = {"counts": counts, "times": len(rows) - counts}
    assert verdict.why.fields.items() >= held.items()


def test_between_looks_a_confirmed_rise_of_an_exact_count_ends_a_gate_and_leaves_estimates() -> (
    None
):
    held = Policy(runs=3)
    evidence = Evidence(
        workload="w", blessed=BASELINE, alone=measured(columns(2, step=1.5, syncs=[2.0, 2.0]))
    )
    verdict = judge(evidence, held, Stage.SCREEN)
    assert said(verdict) == (Outcome.REGRESSED, 2)
    assert {row.outcome for row in verdict.metrics if row.metric is not M.SYNCS} == {None}
    waiting = judge(evidence, held.model_copy(update={"stops_early": False}), Stage.SCREEN)
    assert said(waiting) == (Outcome.INCONCLUSIVE, 3)


def test_nccls_clocks_are_zero_where_none_of_its_kernels_ran() -> None:
    before = blessed({M.STEP_MS: [10.0] * 5, M.NCCL_EXPOSED_MS: [1.0] * 5})

    def outcome(why: Note) -> Outcome | None:
        runs = measured({M.STEP_MS: [9.0] * 5})
        absent = {M.NCCL_EXPOSED_MS: why}
        shown = [
            run.model_copy(
                update={
                    "processes": tuple(
                        p.model_copy(update={"absent": absent}) for p in run.processes
                    )
                }
            )
            for run in runs
        ]
        row = judged(before, shown).of(M.NCCL_EXPOSED_MS)
        assert row is not None
        return row.outcome

    assert outcome(NO_NCCL) is Outcome.IMPROVED
    assert outcome(note("no-nccl-outside-graphs")) is Outcome.NOT_MEASURED
