"""Runs simulated gates through `perfgate.gate.check`, the one path of real gates, and their runs through the peers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from multiprocessing import Pool
from typing import Final

from pydantic import Field

from benchmarks.decision.peers import PEERS, Peer
from benchmarks.decision.populations import BASELINE_RUNS, POPULATIONS, RUNS_AN_OCCASION, SIMULATED, World, draw
from benchmarks.decision.replay import MACHINE, WORKLOAD, baseline_of, run_of
from perfgate.gate import Checked, Expectation, Pair, Policy, check
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.record import Record
from perfgate.model.sample import Run

PERFGATE: Final = "perfgate"
STORED_ONLY: Final = "perfgate, stored baseline only"
"""Where the baseline's commit cannot be run."""
AGAINST: Final = "perfgate, against a revision"
"""A duet alone, as `--perfgate-against` asks for, of code that has no baseline."""
RULES: Final = (PERFGATE, STORED_ONLY, AGAINST)
SLOWDOWNS: Final = (0.0, 0.01, 0.02, 0.03, 0.05)
PAIRS_ALONGSIDE: Final = 8
_CHUNK: Final = 50
_FEWEST_FOR_PEERS: Final = 3

CLOCKS: Final[Mapping[str, tuple[Metric, ...]]] = {
    "step_ms alone": (Metric.STEP_MS,),
    "all five clocks": SIMULATED,
}
"""What is gated: alpha is shared by as many clocks."""
SETTING_OF_PEERS: Final = "step_ms alone"


class Cell(Record):
    """What one rule said of all gates of one population at one slowdown."""

    clocks: str
    population: str
    slowdown: float
    rule: str
    gates: int = Field(ge=1)
    regressed: int = Field(ge=0)
    by_step: int = Field(ge=0)
    """Gates whose step_ms itself was called slower: where nothing got slower, the others are other clocks' noise."""
    inconclusive: int = Field(ge=0)
    screened: int = Field(ge=0)
    """Gates that ended at their first look."""
    runs: int = Field(ge=0)
    """Processes started in all gates together, those of the baseline's commit included."""
    most_runs: int = Field(ge=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Task:
    clocks: str
    population: int
    slowdown: float
    first: int
    gates: int
    with_peers: bool


class SimulatedGate:
    """The two things that a gate measures by: a series of the candidate, and a duet with the baseline's commit."""

    machine = MACHINE
    revision = "HEAD~1"
    commit = "0" * 40

    def __init__(self, world: World, slowdown: float, clocks: Sequence[Metric]) -> None:
        self._world = world
        self._slowdown = slowdown
        self._clocks = clocks
        self._started = count()
        self._candidates = count()

    def measure(self, index: int, planned: int) -> Run:  # noqa: ARG002  # the protocol's
        """Make the next run of the candidate."""
        return self._candidate()

    @contextmanager
    def duet(self) -> Iterator[SimulatedGate]:
        """Make the other commit ready: nothing to do here."""
        yield self

    def pair(self, index: int, planned: int) -> Pair:  # noqa: ARG002  # the protocol's
        """Make one run of each side: reference first in even pairs, candidate first in odd ones (ABBA)."""
        if index % 2:
            candidate = self._candidate()
            return Pair(reference=self._reference(index), candidate=candidate)
        reference = self._reference(index)
        return Pair(reference=reference, candidate=self._candidate())

    def alone(self) -> Pair:
        """Make one run of either side alone, as all are here."""
        return self.pair(0, 1)

    def _candidate(self) -> Run:
        values = self._world.candidate_ms(next(self._candidates), started=next(self._started), slowdown=self._slowdown)
        return self._run(values)

    def _reference(self, index: int) -> Run:
        return self._run(self._world.reference_ms(index, started=next(self._started)))

    def _run(self, values: Mapping[Metric, float]) -> Run:
        return run_of({metric: values[metric] for metric in self._clocks})


def simulate(gates: int, *, processes: int) -> list[Cell]:
    """Run `gates` gates a cell, and twice as many where nothing got slower: false alarms are rare.

    Peers are judged where perfgate gates step_ms alone, which is all they see.
    """
    tasks = [
        _Task(
            clocks=clocks,
            population=population,
            slowdown=slowdown,
            first=first,
            gates=min(_CHUNK, (1 if slowdown else 2) * gates - first),
            with_peers=clocks == SETTING_OF_PEERS,
        )
        for clocks in CLOCKS
        for population in range(len(POPULATIONS))
        for slowdown in SLOWDOWNS
        for first in range(0, (1 if slowdown else 2) * gates, _CHUNK)
    ]
    cells: dict[tuple[object, ...], Cell] = {}
    with Pool(processes) as pool:
        for found in pool.imap(_judge_chunk, tasks):
            for cell in found:
                key = (cell.clocks, cell.population, cell.slowdown, cell.rule)
                cells[key] = _added(cells[key], cell) if key in cells else cell
    return list(cells.values())


def _judge_chunk(task: _Task) -> list[Cell]:
    """Run the gates of one task."""
    population = POPULATIONS[task.population]
    found: dict[str, Cell] = {}
    for gate in range(task.first, task.first + task.gates):
        world = draw(population, gate)
        said = {}
        for rule in RULES:
            said[rule] = _perfgate(world, task.slowdown, CLOCKS[task.clocks], rule=rule)
        runs = said[PERFGATE]["runs"]
        for peer in PEERS if task.with_peers else ():
            said[peer.name] = _peer(peer, world, task.slowdown, runs=max(runs, _FEWEST_FOR_PEERS))
        for rule, facts in said.items():
            cell = Cell(
                clocks=task.clocks,
                population=population.name,
                slowdown=task.slowdown,
                rule=rule,
                gates=1,
                most_runs=facts["runs"],
                **facts,
            )
            found[rule] = _added(found[rule], cell) if rule in found else cell
    return list(found.values())


def _added(one: Cell, other: Cell) -> Cell:
    summed = ("gates", "regressed", "by_step", "inconclusive", "screened", "runs")
    total = {name: getattr(one, name) + getattr(other, name) for name in summed}
    return one.model_copy(update={**total, "most_runs": max(one.most_runs, other.most_runs)})


def _perfgate(world: World, slowdown: float, clocks: Sequence[Metric], *, rule: str) -> dict[str, int]:
    checked = gate(world, slowdown, clocks, rule=rule)
    verdict = checked.verdict
    step = verdict.of(Metric.STEP_MS)
    return {
        "regressed": int(verdict.outcome is Outcome.REGRESSED),
        "by_step": int(step is not None and step.outcome is Outcome.REGRESSED),
        "inconclusive": int(verdict.outcome is Outcome.INCONCLUSIVE),
        "screened": int(not checked.reference_runs and len(checked.runs) <= _FEWEST_FOR_PEERS),
        "runs": len(checked.runs) + len(checked.interleaved_runs) + len(checked.reference_runs),
    }


def gate(world: World, slowdown: float, clocks: Sequence[Metric], *, rule: str = PERFGATE) -> Checked:
    """Gate one simulated workload as a door would, with the default policy."""
    made = SimulatedGate(world, slowdown, clocks)
    against = rule == AGAINST
    baseline = None if against else _baseline(world, clocks)
    expectation = Expectation(workload=WORKLOAD, machine=MACHINE, baseline=baseline)
    checked = check(expectation, Policy(), made, None if rule == STORED_ONLY else made.duet, against=against)
    if checked.verdict.outcome not in (Outcome.PASSED, Outcome.IMPROVED, Outcome.REGRESSED, Outcome.INCONCLUSIVE):
        raise ValueError(f"a simulated gate ended as {checked.verdict.outcome}: {checked.verdict.reason}")
    return checked


def _baseline(world: World, clocks: Sequence[Metric]) -> Baseline:
    runs = enumerate(world.baseline_ms(run) for run in range(BASELINE_RUNS))
    return baseline_of(
        [(run // RUNS_AN_OCCASION, {metric: values[metric] for metric in clocks}) for run, values in runs]
    )


def _peer(peer: Peer, world: World, slowdown: float, *, runs: int) -> dict[str, int]:
    """Judge by a peer: the stored runs and as many of the candidate's as perfgate spent, or fresh runs of both."""
    if peer.alongside:
        made = SimulatedGate(world, slowdown, (Metric.STEP_MS,))
        pairs = [made.pair(index, PAIRS_ALONGSIDE) for index in range(PAIRS_ALONGSIDE)]
        before = [_step_ms(pair.reference) for pair in pairs]
        after = [_step_ms(pair.candidate) for pair in pairs]
        runs = 2 * PAIRS_ALONGSIDE
    else:
        before = [world.baseline_ms(run)[Metric.STEP_MS] for run in range(BASELINE_RUNS)]
        after = [world.candidate_ms(run, started=run, slowdown=slowdown)[Metric.STEP_MS] for run in range(runs)]
    slower = int(peer.slower(before, after))
    return {"regressed": slower, "by_step": slower, "inconclusive": 0, "screened": 0, "runs": runs}


def _step_ms(run: Run) -> float:
    value = run.value(Metric.STEP_MS)
    if value is None or not math.isfinite(value):
        raise ValueError("a simulated run has no step time")
    return value
