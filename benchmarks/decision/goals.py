"""The goals that the rule is held to, and what was found of each; knows how no gate is judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from operator import attrgetter
from typing import Final

from benchmarks.decision.populations import POPULATIONS, Change
from benchmarks.decision.simulate import (
    COPY,
    FAMILY,
    HALF,
    IDLE,
    KERNEL,
    NEARLY_FIVE,
    SLOWER_MACHINE,
    STORED,
    THIRD,
    UNCHANGED,
    Cell,
    Scenario,
    baseline_name,
)

SCENARIO: Final = Scenario()
"""An A/B run behind a screen, 5x1."""
ERRORS: Final = 2.0
"""Standard errors by which a goal may be missed by chance."""
MISSED: Final = "**missed**"
_EVERY: Final = 100
"""A goal of so many % is met by what is written so with one digit."""
_ALL: Final = tuple(population.name for population in POPULATIONS)
_TWO_MODES: Final = "two modes, 10-60 %"
_MILD: Final = tuple(name for name in _ALL if name not in (_TWO_MODES, "noisier host"))
Count = Callable[[Cell], int]
"""Which of its gates are counted."""


@dataclass(frozen=True)
class Estimate:
    """A share in %, or a number of processes, and its standard error."""

    value: float
    error: float


class Cells:
    """All cells, by what they are of."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._found = {
            (cell.gate, cell.baseline, cell.workloads, cell.change, cell.population): cell
            for cell in cells
        }

    def of(
        self,
        populations: Sequence[str],
        change: Change = UNCHANGED,
        scenario: Scenario = SCENARIO,
    ) -> list[Cell]:
        """The cells of these populations."""
        where = (
            scenario.gate,
            baseline_name(scenario.blessed_runs),
            scenario.workloads,
            str(change),
        )
        return [self._found[*where, population] for population in populations]


regressed: Final = attrgetter("regressed")
passed: Final = attrgetter("passed")
inconclusive: Final = attrgetter("inconclusive")


def families(cell: Cell) -> Estimate:
    """Of the workloads that are gated together, how often one at least is REGRESSED."""
    return _estimate(cell.families, cell.gates // cell.workloads)


def share(cell: Cell, count: Count) -> Estimate:
    """One cell's share."""
    return _estimate(count(cell), cell.gates)


def mean(cells: Sequence[Cell], count: Count) -> Estimate:
    """The mean share of cells, each of which weighs the same."""
    return _mean([share(cell, count) for cell in cells])


def worst(cells: Sequence[Cell], count: Count) -> Estimate:
    """The largest share."""
    return max((share(cell, count) for cell in cells), key=lambda found: found.value)


def processes(cells: Sequence[Cell]) -> Estimate:
    """Processes of a gate, in the mean of cells."""
    found = []
    for cell in cells:
        mean_of = cell.mean_processes
        square = (
            sum(of * (number - mean_of) ** 2 for number, of in cell.processes.items()) / cell.gates
        )
        found.append(Estimate(mean_of, math.sqrt(square / cell.gates)))
    return _mean(found)


def median_processes(cells: Sequence[Cell]) -> Estimate:
    """Processes that half of all gates need at most."""
    numbers = sorted({number for cell in cells for number in cell.processes})
    half = sum(cell.gates for cell in cells) / 2
    upto = (
        sum(of for cell in cells for made, of in cell.processes.items() if made <= number)
        for number in numbers
    )
    return Estimate(
        next(number for number, of in zip(numbers, upto, strict=True) if of >= half), 0.0
    )


def _estimate(times: int, of: int) -> Estimate:
    found = times / of
    return Estimate(100 * found, 100 * math.sqrt(found * (1 - found) / of))


def _mean(found: Sequence[Estimate]) -> Estimate:
    return Estimate(
        sum(one.value for one in found) / len(found),
        math.sqrt(sum(one.error**2 for one in found)) / len(found),
    )


@dataclass(frozen=True)
class Goal:
    """One row of the table."""

    what: str
    designed: float
    """What the rule came to where it was designed, by a simulation of its own."""
    goal: float
    found: Callable[[Cells], Estimate]
    _: KW_ONLY
    at_least: bool = False
    unit: str = " %"

    def word(self, estimate: Estimate) -> str:
        """Met, missed within the simulation's error, or missed."""
        beyond = self.goal - estimate.value if self.at_least else estimate.value - self.goal
        if round(beyond, 1 if self.goal == _EVERY else 2) <= 0:
            return "met"
        return "within error" if beyond <= ERRORS * estimate.error else MISSED


def _alarms(
    what: str,
    designed: float,
    goal: float,
    of: Callable[..., Estimate],
    *,
    change: Change = UNCHANGED,
    scenario: Scenario = SCENARIO,
) -> Goal:
    what = f"{what}, REGRESSED"
    return Goal(what, designed, goal, lambda cells: of(cells.of(_ALL, change, scenario), regressed))


def _power(
    what: str, designed: float, goal: float, change: Change, populations: Sequence[str] = _ALL
) -> Goal:
    what = f"{change} found, {what}"
    return Goal(
        what,
        designed,
        goal,
        lambda cells: mean(cells.of(populations, change), regressed),
        at_least=True,
    )


def _opened(
    what: str, designed: float, goal: float, change: Change, populations: Sequence[str] = _ALL
) -> Goal:
    what = f"{change}, PASSED, {what}"
    return Goal(what, designed, goal, lambda cells: mean(cells.of(populations, change), passed))


def _open(what: str, designed: float, goal: float, populations: Sequence[str]) -> Goal:
    what = f"unchanged, INCONCLUSIVE, {what}"
    return Goal(what, designed, goal, lambda cells: mean(cells.of(populations), inconclusive))


def _families(
    what: str,
    designed: float,
    goal: float,
    populations: Sequence[str],
    *,
    scenario: Scenario = SCENARIO,
) -> Goal:
    scenario = replace(scenario, workloads=FAMILY)

    def found(cells: Cells) -> Estimate:
        return max(
            map(families, cells.of(populations, UNCHANGED, scenario)), key=attrgetter("value")
        )

    return Goal(f"seven unchanged workloads, one REGRESSED, {what}", designed, goal, found)


_MEAN: Final = f"mean of {len(_ALL)}"
_QUIET: Final = ("0.3/0.2",)
GOALS: Final = (
    _alarms(f"unchanged, {_MEAN}", 0.13, 0.15, mean),
    _alarms("unchanged, worst", 0.80, 0.8, worst),
    _families("worst but for the next row", 0.7, 1, [name for name in _ALL if name != _TWO_MODES]),
    _families(_TWO_MODES, 5.5, 2, [_TWO_MODES]),
    _alarms(f"{SLOWER_MACHINE}, {_MEAN}", 0.2, 0.3, mean, change=SLOWER_MACHINE),
    _open(_MEAN, 4.7, 4, _ALL),
    _open(f"without noisier host and {_TWO_MODES}", 1.1, 1, _MILD),
    _opened(_MEAN, 3.7, 4, HALF),
    _opened(_MEAN, 17, 17, THIRD),
    *(_power(_MEAN, goal, goal, change) for change, goal in zip(KERNEL, (97, 100), strict=True)),
    *(
        _power("0.5/0.5", goal, goal, change, ["0.5/0.5"])
        for change, goal in zip(IDLE, (95, 100, 100), strict=True)
    ),
    *(_power(_MEAN, goal, goal, change) for change, goal in zip(IDLE, (89, 94, 97), strict=True)),
    _power(_MEAN, 98, 97, COPY),
    _opened("5/1", 0, 0, NEARLY_FIVE, ["5/1"]),
    Goal(
        f"processes, unchanged, {_MEAN}",
        11.1,
        11.1,
        lambda cells: processes(cells.of(_ALL)),
        unit="",
    ),
    Goal(
        f"processes, {IDLE[-1]}, {_MEAN}",
        11.7,
        11.7,
        lambda cells: processes(cells.of(_ALL, IDLE[-1])),
        unit="",
    ),
    Goal(
        "processes, unchanged, median",
        9,
        9,
        lambda cells: median_processes(cells.of(_ALL)),
        unit="",
    ),
    Goal(
        "processes, unchanged, median, 0.3/0.2",
        5,
        5,
        lambda cells: median_processes(cells.of(_QUIET)),
        unit="",
    ),
    _families("stored 10x5, worst", 0.7, 1, _ALL, scenario=STORED[1]),
    Goal(
        "stored 5x1, unchanged, PASSED, 0.3/0.2",
        96,
        95,
        lambda cells: mean(cells.of(_QUIET, UNCHANGED, STORED[0]), passed),
        at_least=True,
    ),
    _alarms(f"stored 5x1, unchanged, {_MEAN}", 0.01, 0.1, mean, scenario=STORED[0]),
    Goal(
        f"stored 5x1, {IDLE[1]}, PASSED, worst",
        2,
        2,
        lambda cells: worst(cells.of(_ALL, IDLE[1], STORED[0]), passed),
    ),
)
"""The table of what the rule is held to."""


def missed(cells: Cells) -> list[str]:
    """Say which goals are missed by more than the simulation's error."""
    return [goal.what for goal in GOALS if goal.word(goal.found(cells)) == MISSED]
