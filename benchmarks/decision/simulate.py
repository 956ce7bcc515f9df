"""Walks simulated gates through the stages by the very functions that judge real ones, many gates
at once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from multiprocessing import Pool
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.decision.populations import MORE, POPULATIONS, Change, Population, Values, World
from perfgate.judge.compare import Flags, Learnt, between_occasions
from perfgate.judge.look import Look, as_today, look_at
from perfgate.judge.looks import INTERLEAVED_PLAN, SCREEN_PLAN, STORED_PLAN, Plan
from perfgate.judge.outliers import Sides
from perfgate.judge.times import SPECS, TimeRule, as_x, least_loss
from perfgate.model.metric import Metric
from perfgate.model.record import Record
from perfgate.model.settings import Settings

TIMES: Final = (Metric.STEP_MS, Metric.KERNEL_MS, Metric.GAP_MS, Metric.H2D_MS)
"""What any loop on one GPU is gated by."""
MAX_RUNS: Final[int] = Settings.model_fields["max_runs"].default
FAMILY: Final = 7
"""Workloads that are gated together."""
OPEN, PASSED, REGRESSED = range(3)
Ints = NDArray[np.int64]
ONE_OCCASION: Final = (5,)
FIVE_OCCASIONS: Final = (2, 2, 2, 2, 2)
UNCHANGED_GATES: Final = 6000
CHANGED_GATES: Final = 2000


class Gate(StrEnum):
    """Which stages a gate has."""

    AB_RUN = "A/B run"
    """Behind a screen, in blocks."""
    INTERLEAVED = "always in blocks"
    """And without a screen."""
    STORED = "stored runs only"


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Gates of one kind that all meet the same change."""

    gate: Gate = Gate.AB_RUN
    change: Change = field(default_factory=Change)
    blessed_runs: tuple[int, ...] = ONE_OCCASION
    workloads: int = 1


STORED: Final = tuple(
    Scenario(gate=Gate.STORED, blessed_runs=runs) for runs in (ONE_OCCASION, FIVE_OCCASIONS)
)


class Cell(Record):
    """What came of the gates of one scenario and population."""

    gate: Gate
    baseline: str
    workloads: int
    change: str
    population: str
    gates: int
    passed: int
    regressed: int
    families: int
    """Of `workloads` gates each, with one REGRESSED."""
    processes: Mapping[int, int]
    """How many gates started so many, those of the baseline's commit included."""

    @property
    def inconclusive(self) -> int:
        """Gates that neither passed nor were called slower."""
        return self.gates - self.passed - self.regressed

    @property
    def mean_processes(self) -> float:
        """Of a gate."""
        return sum(number * gates for number, gates in self.processes.items()) / self.gates


class PeerCell(Record):
    """What a peer said of the step times of one population."""

    peer: str
    change: str
    population: str
    gates: int
    slower: int


def simulate(*, share: float = 1.0, processes: int = 2) -> list[Cell]:
    """Run all scenarios, with a `share` of the gates."""
    tasks = [(scenario, population, share) for scenario, population in scenarios()]
    with Pool(processes) as pool:
        return list(pool.imap(_cell, tasks))


def losses(part: Metric, *fractions: float) -> list[Change]:
    """One change for each loss."""
    return [Change(part=part, loss=loss) for loss in fractions]


UNCHANGED: Final = Change()
SLOWER_MACHINE: Final = Change(machine=0.03)
HALF: Final = Change(slow=0.5)
THIRD: Final = Change(slow=1 / 3)
IDLE: Final = losses(Metric.GAP_MS, 0.02, 0.03, 0.05)
KERNEL: Final = losses(Metric.KERNEL_MS, 0.01, 0.02)
COPY: Final = Change(part=Metric.H2D_MS, loss=0.02)
NEARLY_FIVE: Final = Change(part=Metric.GAP_MS, loss=0.049)
CURVE: Final = losses(Metric.GAP_MS, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05)
DRAWN: Final = ("0.3/0.2", "2/0.5", "launch-bound 3/1")


def scenarios() -> Iterable[tuple[Scenario, Population]]:
    """Each scenario with each of its populations, once."""
    everywhere = [UNCHANGED, *IDLE, HALF]
    found: dict[tuple[Scenario, str], Population] = {}

    def add(
        scenario: Scenario, populations: Sequence[Population], changes: Sequence[Change]
    ) -> None:
        for change in changes:
            for population in populations:
                found[replace(scenario, change=change), population.name] = population

    add(Scenario(), POPULATIONS, [*everywhere, *KERNEL, COPY, SLOWER_MACHINE, THIRD])
    add(Scenario(), MORE, [*everywhere, NEARLY_FIVE])
    add(Scenario(), [one for one in (*POPULATIONS, *MORE) if one.name in DRAWN], CURVE)
    add(Scenario(blessed_runs=FIVE_OCCASIONS), POPULATIONS, [UNCHANGED, *IDLE])
    add(Scenario(gate=Gate.INTERLEAVED), POPULATIONS, everywhere)
    for stored in STORED:
        add(stored, POPULATIONS, everywhere)
    for alone in (Scenario(), *STORED):
        add(replace(alone, workloads=FAMILY), POPULATIONS, [UNCHANGED])
    return ((scenario, population) for (scenario, _), population in found.items())


def baseline_name(blessed_runs: Sequence[int]) -> str:
    """5x1: five runs over one occasion."""
    return f"{sum(blessed_runs)}x{len(blessed_runs)}"


def _cell(task: tuple[Scenario, Population, float]) -> Cell:
    scenario, population, share = task
    gates = UNCHANGED_GATES if scenario.change in (UNCHANGED, SLOWER_MACHINE) else CHANGED_GATES
    gates = math.ceil(gates * share) * (2 if scenario.workloads > 1 else 1)
    return cell(scenario, population, gates=gates - gates % scenario.workloads)


def cell(scenario: Scenario, population: Population, *, gates: int) -> Cell:
    """Run so many gates, a multiple of the workloads that are gated together."""
    world = World(
        population=population,
        gates=gates,
        blessed_runs=scenario.blessed_runs,
        change=scenario.change,
    )
    walked = Walk(world, scenario)
    walked.walk(scenario.gate)
    regressed = walked.outcome == REGRESSED
    return Cell(
        gate=scenario.gate,
        baseline=baseline_name(scenario.blessed_runs),
        workloads=scenario.workloads,
        change=str(scenario.change),
        population=population.name,
        gates=gates,
        passed=int(np.sum(walked.outcome == PASSED)),
        regressed=int(np.sum(regressed)),
        families=int(np.sum(regressed.reshape(-1, scenario.workloads).any(axis=-1))),
        processes=dict(sorted(Counter(walked.processes.tolist()).items())),
    )


@dataclass(frozen=True, kw_only=True)
class How:
    """What gates are judged by besides their runs."""

    occasion_runs: tuple[int, ...]
    shares: int
    """Among how many alpha is shared."""
    metrics: Sequence[Metric] = TIMES
    budgets: Mapping[Metric, float] = field(default_factory=dict)
    """Over the defaults."""
    learnt: Mapping[Metric, Learnt] = field(default_factory=dict)
    """What the other workloads gated together say of the machine's occasions, of every gate."""

    def of(self, gates: Ints | None) -> How:
        """How these gates are judged; None where no stored runs are compared with."""
        learnt = {
            metric: replace(found, squares=np.asarray(found.squares)[gates])
            for metric, found in self.learnt.items()
            if gates is not None and found.df > 0
        }
        return replace(self, learnt=learnt)


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """What was measured of each gate before its pairs."""

    alone: Values
    """The candidate's runs."""
    there: Values
    """The one that the baseline's commit makes alone before blocks."""
    stored: Values
    """The blessed ones."""

    def of(self, gates: Ints) -> Earlier:
        """Those of some gates."""
        alone, there, stored = (_of(gates, of) for of in (self.alone, self.there, self.stored))
        return Earlier(alone=alone, there=there, stored=stored)


def learnt_of(blessed: Values, scenario: Scenario) -> dict[Metric, Learnt]:
    """Pool what a family's other workloads say, as `perfgate.judge.hold` does for one gate."""
    runs, workloads = scenario.blessed_runs, scenario.workloads
    if workloads == 1 or len(runs) == 1:
        return {}
    found: dict[Metric, Learnt] = {}
    for metric in TIMES:
        x = as_x(metric, blessed[metric], blessed)
        kept = TimeRule(metric=metric, budget=SPECS[metric].budget).keep(x).flags[0]
        shown = between_occasions(x, kept, runs)[0].reshape(-1, workloads)
        others = shown.sum(axis=-1, keepdims=True) - shown
        free = len(runs) - 1
        found[metric] = Learnt(squares=free * others.reshape(-1), df=free * (workloads - 1.0))
    return found


class Walk:
    """The way of many gates of one world at once."""

    def __init__(self, world: World, scenario: Scenario) -> None:
        self._world = world
        self._how = How(
            occasion_runs=scenario.blessed_runs,
            shares=len(TIMES) * scenario.workloads,
            learnt=learnt_of(world.blessed, scenario),
        )
        self.outcome = np.full(world.gates, OPEN)
        self.processes = np.zeros(world.gates, dtype=np.int64)

    def walk(self, gate: Gate) -> None:
        """Judge every gate, stage by stage, as `perfgate.gate` does."""
        world, everyone = self._world, np.arange(self._world.gates)
        match gate:
            case Gate.STORED:
                alone = world.alone(STORED_PLAN.most_runs)
                self.outcome, self.processes = settle(
                    STORED_PLAN, world.blessed, alone, self._how, most=MAX_RUNS
                )
            case Gate.INTERLEAVED:
                self._pair(INTERLEAVED_PLAN, everyone, screened=0)
            case Gate.AB_RUN:
                self._screen(everyone)

    def _screen(self, gates: Ints) -> None:
        """Screen; where the blessed runs themselves could pass none, blocks follow one run."""
        blessed, how = self._world.blessed, self._how.of(gates)
        hopeless = ~all_pass(look(SCREEN_PLAN, blessed, blessed, how, is_last=True))
        self._pair(INTERLEAVED_PLAN, gates[hopeless], screened=1)
        gates = gates[~hopeless]
        for runs in SCREEN_PLAN.looks:
            looks = self._screened(gates, runs)
            passes = all_pass(looks)
            self.processes[gates] = runs
            self._pair(INTERLEAVED_PLAN, gates[~passes], screened=runs)
            gates = gates[passes]
        self.outcome[gates] = PASSED

    def _screened(self, gates: Ints, runs: int) -> dict[Metric, Look]:
        stored, alone = (
            _of(gates, side) for side in (self._world.blessed, self._world.alone(runs))
        )
        return look(SCREEN_PLAN, stored, alone, self._how.of(gates), is_last=True)

    def _pair(self, plan: Plan, gates: Ints, *, screened: int) -> None:
        """Make an A/B run; one in blocks begins with a run of either side alone."""
        before = screened + plan.alone_runs
        there, here = self._world.pairs(after=before, in_blocks=plan.in_pairs)
        own = screened + plan.alone_runs // 2
        alone, alone_there = self._world.alone(own), self._world.alone_there(after=own)
        earlier = Earlier(alone=alone, there=alone_there, stored=self._world.blessed).of(gates)
        self.outcome[gates], pairs = settle(
            plan,
            _of(gates, there),
            _of(gates, here),
            self._how,
            most=(MAX_RUNS - before) // 2,
            earlier=earlier if screened else None,
        )
        self.processes[gates] = before + 2 * pairs


def settle(
    plan: Plan,
    before: Values,
    after: Values,
    how: How,
    *,
    most: int,
    earlier: Earlier | None = None,
) -> tuple[Ints, Ints]:
    """Look at ever more runs, or pairs, until each gate is settled or has no more; return outcomes
    and runs.
    """
    gates, made = next(iter(after.values())).shape
    outcome, spent, live = np.full(gates, OPEN), np.zeros(gates, dtype=np.int64), np.arange(gates)
    runs, most = 0, min(most, plan.most_runs)
    while len(live) and runs < (wanted := plan.next_look(runs, max_runs=most)) <= made:
        spent[live] = runs = wanted
        there = _of(live, before, runs if plan.is_ab_run else None)
        looks = look(
            plan,
            there,
            _of(live, after, runs),
            how.of(None if plan.is_ab_run else live),
            is_last=runs == most and runs > plan.looks[-2],
            earlier=None if earlier is None else earlier.of(live),
        )
        loses = np.any([one.loses for one in looks.values()], axis=0)
        outcome[live] = np.where(all_pass(looks), PASSED, np.where(loses, REGRESSED, OPEN))
        live = live[outcome[live] == OPEN]
    return outcome, spent


def look(
    plan: Plan,
    before: Values,
    after: Values,
    how: How,
    *,
    is_last: bool,
    earlier: Earlier | None = None,
) -> dict[Metric, Look]:
    """Judge each time metric once, as `perfgate.judge.rows` does for one gate.

    Slow runs of `earlier` ones count with the other side's, in blocks with the stored ones.
    """
    found: dict[Metric, Look] = {}
    for metric in how.metrics:
        rule = TimeRule(
            metric=metric,
            budget=how.budgets.get(metric, SPECS[metric].budget),
            least_loss=least_loss(before, how.budgets) if metric is Metric.KERNEL_MS else 0.0,
            plan=plan,
            occasion_runs=how.occasion_runs,
            learnt=how.learnt.get(metric, Learnt()),
            shares=how.shares,
        )
        alone = screened = None
        if earlier is not None:
            screened = _as_x(metric, earlier.stored, earlier.alone)
            alone = _as_x(metric, before, earlier.alone)
            if plan.in_pairs:
                alone = as_today(*_as_x(metric, earlier.stored, earlier.there)), screened[1]
        sides, step = _as_x(metric, before, after), found.get(Metric.STEP_MS)
        found[metric] = look_at(
            rule,
            sides,
            is_last=is_last,
            alone=alone,
            screened=screened,
            periods=[step] if metric is Metric.GAP_MS and step is not None else (),
        )
    return found


def _as_x(metric: Metric, before: Values, after: Values) -> Sides:
    return as_x(metric, before[metric], before), as_x(metric, after[metric], before)


def all_pass(looks: Mapping[Metric, Look]) -> Flags:
    """Whether every time metric passes."""
    return np.asarray(np.all([one.passes for one in looks.values()], axis=0))


def _of(gates: Ints, values: Values, runs: int | None = None) -> Values:
    return {metric: of_metric[gates, :runs] for metric, of_metric in values.items()}
