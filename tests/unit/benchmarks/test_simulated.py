"""The simulation behind the decision rule: what it draws, what its gates come to, and what they are
held to."""

from __future__ import annotations

import numpy as np
import pytest
from support.judging import blessed, measured
from support.judging import judged as verdict_of

from benchmarks.decision.goals import GOALS, MISSED, Cells, Estimate, Goal, missed
from benchmarks.decision.populations import MORE, POPULATIONS, Change, Values, World
from benchmarks.decision.simulate import (
    COPY,
    HALF,
    IDLE,
    KERNEL,
    MAX_RUNS,
    NEARLY_FIVE,
    OPEN,
    PASSED,
    REGRESSED,
    SLOWER_MACHINE,
    STORED,
    UNCHANGED,
    Cell,
    Earlier,
    Gate,
    How,
    Scenario,
    baseline_name,
    cell,
    scenarios,
    settle,
)
from perfgate.judge.looks import AB_PLAN, INTERLEAVED_PLAN, SCREEN_PLAN, STORED_PLAN, Plan
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome

BY_NAME = {population.name: population for population in (*POPULATIONS, *MORE)}
GATES = 300


def gates(population: str, change: Change = UNCHANGED, scenario: Scenario | None = None) -> Cell:
    how = scenario or Scenario()
    return cell(
        Scenario(gate=how.gate, change=change, blessed_runs=how.blessed_runs),
        BY_NAME[population],
        gates=GATES,
    )


def world(population: str, change: Change = UNCHANGED) -> World:
    return World(population=BY_NAME[population], gates=400, change=change)


def spread(values: Values, metric: Metric) -> float:
    """Of runs of one gate, as a share of a step."""
    return float(
        np.sqrt(np.var(values[metric], axis=-1, ddof=1).mean()) / np.mean(values[Metric.STEP_MS])
    )


# What is drawn


@pytest.mark.behaviour
@pytest.mark.parametrize(
    "population", ["0.5/0.5", "kernels vary", "launch-bound 3/1", "two modes, 10-60 %"]
)
def test_a_step_is_the_sum_of_its_parts(population: str) -> None:
    of = BY_NAME[population].profile
    runs = world(population, IDLE[0]).alone(10)
    rest = runs[Metric.STEP_MS] - runs[Metric.KERNEL_MS] - runs[Metric.GAP_MS] - runs[Metric.H2D_MS]
    assert rest == pytest.approx(of.step - of.kernel - of.idle - of.copy)


@pytest.mark.behaviour
@pytest.mark.parametrize(
    ("population", "sd"), [("0.5/0.5", 0.005), ("2/0.5", 0.02), ("launch-bound 3/1", 0.03)]
)
def test_runs_of_one_occasion_differ_as_their_population_says(population: str, sd: float) -> None:
    assert spread(world(population).blessed, Metric.STEP_MS) == pytest.approx(sd, rel=0.1)
    assert spread(world("noisier host").alone(10), Metric.STEP_MS) == pytest.approx(0.03, rel=0.1)


@pytest.mark.behaviour
def test_blocks_share_what_processes_do_not() -> None:
    noisy = world("5/1")
    for in_blocks, sd in ((False, 0.05 * 2**0.5), (True, 0.007 * 2**0.5)):
        there, here = (side[Metric.STEP_MS] for side in noisy.pairs(after=0, in_blocks=in_blocks))
        assert np.std((here - there) / 10, ddof=1) == pytest.approx(sd, rel=0.1)


@pytest.mark.behaviour
@pytest.mark.parametrize(
    ("change", "metric", "longer"),
    [
        (IDLE[1], Metric.GAP_MS, 0.3),
        (KERNEL[1], Metric.KERNEL_MS, 0.16),
        (COPY, Metric.H2D_MS, 0.2),
    ],
)
def test_a_loss_is_the_candidates_alone_and_one_of_the_step(
    change: Change, metric: Metric, longer: float
) -> None:
    before, after = (world("0.3/0.2", one) for one in (UNCHANGED, change))
    assert before.blessed[Metric.STEP_MS] == pytest.approx(after.blessed[Metric.STEP_MS])
    for of in (metric, Metric.STEP_MS):
        assert after.alone(5)[of] - before.alone(5)[of] == pytest.approx(longer)
        assert after.pairs(after=5, in_blocks=True)[0][of] == pytest.approx(
            before.pairs(after=5, in_blocks=True)[0][of]
        )


@pytest.mark.behaviour
def test_a_slower_machine_is_slower_for_both_sides_but_was_not_when_it_was_blessed() -> None:
    before, after = (world("0.3/0.2", one) for one in (UNCHANGED, SLOWER_MACHINE))
    assert before.blessed[Metric.STEP_MS] == pytest.approx(after.blessed[Metric.STEP_MS])
    for then, now in zip(
        before.pairs(after=0, in_blocks=False), after.pairs(after=0, in_blocks=False), strict=True
    ):
        assert now[Metric.KERNEL_MS] == pytest.approx(1.03 * then[Metric.KERNEL_MS])


# What gates come to: of 300, bounds that chance breaks in less than one of a thousand seeds


@pytest.mark.behaviour
def test_a_quiet_loop_passes_its_screen_and_what_got_slower_is_found() -> None:
    unchanged = gates("0.3/0.2")
    assert unchanged.regressed == 0
    assert unchanged.passed == GATES
    assert unchanged.processes[SCREEN_PLAN.most_runs] >= 0.85 * GATES
    assert gates("0.3/0.2", IDLE[1]).regressed >= 0.98 * GATES
    assert gates("0.3/0.2", KERNEL[1]).regressed >= 0.98 * GATES
    assert 0.9 * GATES <= gates("0.5/0.5", IDLE[0]).regressed < GATES


@pytest.mark.behaviour
def test_what_slows_both_sides_fails_nobody_and_takes_an_ab_run() -> None:
    slower = gates("0.3/0.2", SLOWER_MACHINE)
    assert slower.regressed <= 0.02 * GATES
    assert min(slower.processes) >= SCREEN_PLAN.looks[0] + 2 * AB_PLAN.looks[0]
    for much in (SLOWER_MACHINE, Change(machine=0.2)):
        passing = gates("0.5/0.5", much)
        assert passing.passed >= 0.97 * GATES
        assert passing.mean_processes <= 14


@pytest.mark.behaviour
def test_slow_processes_are_not_passed_over() -> None:
    assert gates("0.5/0.5", HALF).passed <= 0.1 * GATES


@pytest.mark.behaviour
def test_a_noisy_host_is_gated_in_blocks() -> None:
    assert gates("5/1").passed >= 0.9 * GATES
    assert gates("5/1", NEARLY_FIVE).passed == 0
    assert gates("5/1", IDLE[2]).regressed >= 0.9 * GATES
    in_blocks = gates("2/0.5", scenario=Scenario(gate=Gate.INTERLEAVED))
    assert in_blocks.passed >= 0.97 * GATES
    assert min(in_blocks.processes) == 8


@pytest.mark.behaviour
def test_stored_runs_of_one_occasion_pass_a_quiet_loop_and_fail_hardly_anything() -> None:
    assert gates("0.3/0.2", scenario=STORED[0]).passed >= 0.9 * GATES
    for population in ("0.5/0.5", "2/0.5", "two modes, 10-60 %"):
        assert gates(population, scenario=STORED[0]).regressed <= 0.02 * GATES
    assert gates("0.5/1", scenario=STORED[0]).processes.keys() <= set(STORED_PLAN.looks)
    assert gates("0.3/0.2", IDLE[1], STORED[0]).passed <= 0.05 * GATES


def judged(
    plan: Plan, before: Values, after: Values, stored: Values, earlier: Earlier | None
) -> tuple[int, int]:
    """What a real gate makes of one simulated one, look by look, and on how many runs or pairs."""
    baseline = blessed({metric: list(values[0]) for metric, values in stored.items()})
    alone, alone_there = (
        ()
        if earlier is None
        else measured({metric: list(values[0]) for metric, values in of.items()})
        for of in ((earlier.alone, earlier.there) if earlier else ({}, {}))
    )
    most, runs = (
        min(plan.most_runs, (MAX_RUNS - 5 - plan.alone_runs) // (2 if plan.is_ab_run else 1)),
        0,
    )
    while True:
        runs = plan.next_look(runs, max_runs=most)
        there = {metric: list(values[0, :runs]) for metric, values in before.items()}
        here = measured({metric: list(values[0, :runs]) for metric, values in after.items()})
        other = blessed(there) if plan.is_ab_run else baseline
        found = verdict_of(
            other,
            here,
            plan,
            max_runs=most,
            stored=baseline,
            alone=alone,
            alone_there=alone_there,
        )
        if not found.more:
            outcomes = {Outcome.REGRESSED: REGRESSED, Outcome.INCONCLUSIVE: OPEN}
            return outcomes.get(found.outcome, PASSED), runs


@pytest.mark.behaviour
@pytest.mark.parametrize(
    ("plan", "population", "change"),
    [
        (AB_PLAN, "20 % outliers", HALF),
        (AB_PLAN, "two modes, 10-60 %", IDLE[0]),
        (INTERLEAVED_PLAN, "two modes, 1-3 %", IDLE[0]),
        (INTERLEAVED_PLAN, "2/0.5", HALF),
        (STORED_PLAN, "5 % outliers", UNCHANGED),
        (STORED_PLAN, "0.5/1", HALF),
    ],
    ids=str,
)
def test_many_gates_at_once_are_judged_as_one_real_gate_is(
    plan: Plan, population: str, change: Change
) -> None:
    many = 40
    drawn = World(population=BY_NAME[population], gates=many, change=change)
    before, after, earlier = drawn.blessed, drawn.alone(10), None
    if plan.is_ab_run:
        before, after = drawn.pairs(after=5, in_blocks=plan.in_pairs)
        alone, there = drawn.alone(5), drawn.alone_there(after=5)
        earlier = Earlier(alone=alone, there=there, stored=drawn.blessed)
    most = (MAX_RUNS - 5 - plan.alone_runs) // (2 if plan.is_ab_run else 1)
    how = How(occasion_runs=(5,), shares=4)
    outcomes, runs = settle(plan, before, after, how, most=most, earlier=earlier)

    def of(gate: int, values: Values) -> Values:
        return {metric: of_metric[[gate]] for metric, of_metric in values.items()}

    one_by_one = [
        judged(
            plan,
            of(gate, before),
            of(gate, after),
            of(gate, drawn.blessed),
            earlier and earlier.of(np.array([gate])),
        )
        for gate in range(many)
    ]
    assert list(zip(outcomes.tolist(), runs.tolist(), strict=True)) == one_by_one
    assert len(set(one_by_one)) > 1


# What they are held to


def every_cell(*, passed: int = 0, regressed: int = 0) -> list[Cell]:
    """A cell for each that is simulated, all of the same outcome."""
    return [
        Cell(
            gate=scenario.gate,
            baseline=baseline_name(scenario.blessed_runs),
            workloads=scenario.workloads,
            change=str(scenario.change),
            population=population.name,
            gates=700,
            passed=passed,
            regressed=regressed,
            families=regressed // scenario.workloads,
            processes={5: 700},
        )
        for scenario, population in scenarios()
    ]


@pytest.mark.behaviour
def test_every_goal_is_simulated_and_can_be_missed() -> None:
    outcomes: tuple[dict[str, int], ...] = ({"passed": 700}, {"regressed": 700}, {})
    missed_by = [set(missed(Cells(every_cell(**outcome)))) for outcome in outcomes]
    assert set.union(*missed_by) == {goal.what for goal in GOALS if goal.unit}
    assert not set.intersection(*missed_by)


@pytest.mark.behaviour
@pytest.mark.parametrize(
    ("value", "error", "at_least", "goal", "word"),
    [
        (0.9, 0.2, False, 1.0, "met"),
        (1.1, 0.2, False, 1.0, "within error"),
        (1.5, 0.2, False, 1.0, MISSED),
        (96.0, 0.6, True, 97.0, "within error"),
        (95.0, 0.6, True, 97.0, MISSED),
        (99.96, 0.01, True, 100.0, "met"),
        (99.9, 0.01, True, 100.0, MISSED),
    ],
)
def test_a_goal_is_missed_beyond_two_standard_errors(
    value: float, error: float, at_least: bool, goal: float, word: str
) -> None:
    estimate = Estimate(value, error)
    assert Goal("a goal", goal, goal, lambda _: estimate, at_least=at_least).word(estimate) == word
