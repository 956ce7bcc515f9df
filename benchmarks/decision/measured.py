"""Real gates of real loops, kept as a file of plain numbers, and what each rule said of them; knows
no simulation.

`h200.json` (a `Recording`) holds, for each loop, the blessed runs and every gate: the slowdown that
was planted, the verdict as it was given on the machine, and the values of all runs behind it, in
the order in which they were made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from benchmarks.decision.populations import Values as Times
from benchmarks.decision.simulate import (
    MAX_RUNS,
    OPEN,
    PASSED,
    REGRESSED,
    TIMES,
    How,
    all_pass,
    look,
    settle,
)
from perfgate.judge.looks import AB_PLAN, INTERLEAVED_PLAN, SCREEN_PLAN
from perfgate.metrics.intervals import counted
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.record import Record
from perfgate.model.verdict import Stage

if TYPE_CHECKING:
    from benchmarks.decision.peers import (
        Peer,
    )  # needs the peers, which a machine that only records has not

THEN: Final = "perfgate, as it was then"
AB_NOW: Final = "perfgate now, A/B run by all times"
"""Judged again from the recorded pairs, of which there are no more than were made then."""
SCREEN_NOW: Final = "perfgate now, screen by kernels, idle time and copies"
"""Judged again from the runs that were made alone; blessed runs hold no periods, so nothing of
their steps."""
OWN: Final = (THEN, AB_NOW, SCREEN_NOW)
_SCREENED: Final[tuple[Metric, ...]] = tuple(
    metric for metric in TIMES if metric is not Metric.STEP_MS
)
_FEWEST_RUNS: Final = 3
Values = Mapping[Metric, float]


class Kind(StrEnum):
    """What a loop's step waits for."""

    GPU_BOUND = "gpu-bound"
    CPU_BOUND = "cpu-bound"


class RecordedBlessing(Record):
    """One blessed run."""

    occasion: int = Field(ge=0)
    values: Values


class RecordedRun(Record):
    """One run of a gate."""

    values: Values
    periods_us: tuple[int, ...] = ()
    """Of its steps, in their order, where it had one process."""


class RecordedGate(Record):
    """One gate: what was planted, what was said, and on what numbers."""

    slowdown: float = Field(ge=0)
    """Planted in the loop, as a fraction of its step; 0 is an unchanged loop."""
    planted_ms: float = Field(default=0.0, ge=0)
    """The same in ms, as it was meant to come out."""
    planted_step: float | None = None
    """What it came to by the loop's own range around it: candidate less reference, as a fraction of
    its step; None where the work has no such range."""
    at: datetime | None = None
    """When it began."""
    took_s: float = Field(default=0.0, ge=0)
    outcome: Outcome
    stage: Stage | None = None
    against: bool = False
    """Whether it was asked for as an A/B run alone (`--perfgate-against`)."""
    budgets: Mapping[Metric, float] = {}
    """Other than the default ones, as it was asked for (`--perfgate-budget`)."""
    regressed: tuple[Metric, ...] = ()
    """Metrics that were called slower, counts included."""
    step_change: float | None = None
    """Of step_ms, as perfgate estimated it for this verdict."""
    reference: tuple[RecordedRun, ...] = ()
    """Of an A/B run: the runs of the baseline's commit."""
    candidate: tuple[RecordedRun, ...] = ()
    """All runs of the candidate that may be compared with stored ones: the screen's first, then the
    A/B run's."""
    interleaved: tuple[RecordedRun, ...] = ()
    """The candidate's runs in an A/B run of blocks, as many as there are of the reference."""
    runs: int = Field(ge=1)
    """Processes started, but for the one of the other side that an A/B run of blocks with a commit
    runs alone."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        given = len(self.reference) + len(self.candidate) + len(self.interleaved)
        if not self.candidate and not self.interleaved:
            raise ValueError("a gate has runs of the candidate")
        if self.runs != given:
            raise ValueError(f"runs is {self.runs}, the values given are of {given} runs")
        if self.interleaved and len(self.interleaved) != len(self.reference):
            raise ValueError(
                f"{len(self.interleaved)} interleaved runs have {len(self.reference)} other sides"
            )
        return self


class Spoilt(Record):
    """A gate that was begun and gave no verdict on speed: it is counted, and judged by nobody."""

    slowdown: float = Field(ge=0)
    budgets: Mapping[Metric, float] = {}
    why: str


class RecordedLoop(Record):
    """One loop with its baseline and its gates, on one GPU."""

    name: str
    kind: Kind
    machine: Mapping[str, str] = {}
    """Facts about where this part was measured; what all parts share is also said of the whole
    file."""
    baseline: tuple[RecordedBlessing, ...] = Field(min_length=1)
    gates: tuple[RecordedGate, ...] = ()
    spoilt: tuple[Spoilt, ...] = ()


class Recording(Record):
    """The whole file."""

    format: Literal[1] = 1
    """History: 1, the first."""
    machine: Mapping[str, str]
    """Facts about where it was measured, by name: GPU, driver, CUDA, torch, nsys, perfgate's
    commit."""
    notes: tuple[str, ...] = ()
    loops: tuple[RecordedLoop, ...] = Field(min_length=1)


class Summary(Record):
    """What all gates of one loop at one slowdown were like, whatever was said of them."""

    loop: str
    kind: Kind
    slowdown: float
    gates: int = Field(ge=0)
    spoilt: int = Field(ge=0)
    """Gates besides, that were begun and gave no verdict."""
    stages: Mapping[str, int] = {}
    """How many gates ended at which stage."""
    runs: float = 0.0
    took_s: float = 0.0
    """Mean of a gate."""
    step_change: float | None = None
    kernel_change: float | None = None
    """Median over the gates of what its two sides differ by: as perfgate estimated it where that
    was recorded, else the pairs of an A/B run of blocks, the medians of an alternate one's sides,
    or those of the blessed runs and the candidate's.
    """
    planted_step: float | None = None
    """Median over the gates of what the planted work came to, where that was recorded."""


class Found(Record):
    """What one rule said of all gates of one loop at one slowdown; of a screen, what is open leads
    to an A/B run."""

    loop: str
    kind: Kind
    slowdown: float
    rule: str
    gates: int = Field(ge=1)
    passed: int = Field(ge=0)
    regressed: int = Field(ge=0)
    runs: int = Field(ge=0)
    """In all gates together."""

    @property
    def inconclusive(self) -> int:
        """Gates that neither passed nor were called slower."""
        return self.gates - self.passed - self.regressed


def load(path: Path) -> Recording:
    """Read a recording; pydantic's ValidationError says what is wrong with one."""
    return Recording.model_validate_json(path.read_text(encoding="utf-8"))


def by_budgets(recording: Recording) -> Recording:
    """The same gates, those with budgets of their own as those of a loop that is called by them."""
    found: list[RecordedLoop] = []
    for loop in recording.loops:
        made: list[RecordedGate | Spoilt] = [*loop.gates, *loop.spoilt]
        for budgets in ({}, *(one.budgets for one in made if one.budgets)):
            name = ", ".join(
                (
                    loop.name,
                    *(f"{metric} held to {budget:.3g}" for metric, budget in budgets.items()),
                )
            )
            own = {
                "name": name,
                "gates": tuple(gate for gate in loop.gates if gate.budgets == budgets),
                "spoilt": tuple(spoilt for spoilt in loop.spoilt if spoilt.budgets == budgets),
            }
            part = loop.model_copy(update=own)
            if part not in found:
                found.append(part)
    found.sort(
        key=lambda part: [loop.name for loop in recording.loops].index(part.name.partition(",")[0])
    )
    return recording.model_copy(update={"loops": tuple(found)})


def judge_recording(recording: Recording, peers: Sequence[Peer]) -> list[Found]:
    """Count, by loop and slowdown, what perfgate said there and then, what it says now, and what
    each peer says.

    A loop that is there several times, each with its own baseline, is one loop here; gates with
    other budgets than the default ones are of a loop of their own (`by_budgets`). A peer has the
    blessed runs and the candidate's that may be compared with them. Where there were interleaved
    pairs it has both sides of these, the same runs that perfgate had, as two groups that know
    nothing of pairs.
    """
    recording = by_budgets(recording)
    order = list(dict.fromkeys(loop.name for loop in recording.loops))
    said: dict[tuple[str, float, str], list[tuple[int, int]]] = {}
    for loop in recording.loops:
        for gate in loop.gates:
            for rule, one in _judge_gate(loop, gate, peers).items():
                said.setdefault((loop.name, gate.slowdown, rule), []).append(one)
    kinds = {loop.name: loop.kind for loop in recording.loops}
    found = [
        Found(
            loop=loop,
            kind=kinds[loop],
            slowdown=slowdown,
            rule=rule,
            gates=len(of_rule),
            passed=sum(outcome == PASSED for outcome, _ in of_rule),
            regressed=sum(outcome == REGRESSED for outcome, _ in of_rule),
            runs=sum(runs for _, runs in of_rule),
        )
        for (loop, slowdown, rule), of_rule in said.items()
    ]
    return sorted(found, key=lambda one: (order.index(one.loop), one.slowdown))


def summarise(recording: Recording) -> list[Summary]:
    """What the gates were like, by loop and slowdown."""
    recording = by_budgets(recording)
    shown: list[Summary] = []
    for name in dict.fromkeys(loop.name for loop in recording.loops):
        parts = [loop for loop in recording.loops if loop.name == name]
        slowdowns = {gate.slowdown for part in parts for gate in part.gates}
        slowdowns |= {spoilt.slowdown for part in parts for spoilt in part.spoilt}
        shown += [_summary_of(parts, slowdown) for slowdown in sorted(slowdowns)]
    return shown


def _summary_of(parts: Sequence[RecordedLoop], slowdown: float) -> Summary:
    gates = [(part, gate) for part in parts for gate in part.gates if gate.slowdown == slowdown]
    stages = [str(gate.stage) for _, gate in gates if gate.stage is not None]
    known = [gate.planted_step for _, gate in gates if gate.planted_step is not None]
    return Summary(
        loop=parts[0].name,
        kind=parts[0].kind,
        slowdown=slowdown,
        gates=len(gates),
        spoilt=sum(spoilt.slowdown == slowdown for part in parts for spoilt in part.spoilt),
        stages={stage: stages.count(stage) for stage in sorted(set(stages))},
        runs=sum(gate.runs for _, gate in gates) / max(len(gates), 1),
        took_s=sum(gate.took_s for _, gate in gates) / max(len(gates), 1),
        step_change=_change(gates, Metric.STEP_MS),
        kernel_change=_change(gates, Metric.KERNEL_MS),
        planted_step=median(known) if known else None,
    )


def _change(gates: Sequence[tuple[RecordedLoop, RecordedGate]], metric: Metric) -> float | None:
    changes = [_change_of(part, gate, metric) for part, gate in gates]
    known = [change for change in changes if change is not None]
    return median(known) if known else None


def _change_of(part: RecordedLoop, gate: RecordedGate, metric: Metric) -> float | None:
    if metric is Metric.STEP_MS and gate.step_change is not None:
        return gate.step_change
    if gate.interleaved:
        pairs = zip(gate.reference, gate.interleaved, strict=True)
        sides = [(one.values.get(metric), other.values.get(metric)) for one, other in pairs]
        ratios = [after / before for before, after in sides if before and after]
        return median(ratios) - 1 if ratios else None
    then = [run.values for run in gate.reference or part.baseline]
    now = [run.values for run in gate.candidate[-len(gate.reference) :]]
    before, after = (
        [value for values in side if (value := values.get(metric))] for side in (then, now)
    )
    return median(after) / median(before) - 1 if before and after else None


def samples_of(loop: RecordedLoop, gate: RecordedGate) -> tuple[list[float], list[float], int]:
    """The step times in ms that a peer has of a gate, before and after, and how many runs the gate
    made for them."""
    then = [run.values for run in (gate.reference if gate.interleaved else loop.baseline)]
    now = [run.values for run in gate.interleaved or gate.candidate]
    before, after = (
        [values[Metric.STEP_MS] for values in side if Metric.STEP_MS in values]
        for side in (then, now)
    )
    return before, after, len(after) + (len(before) if gate.interleaved else 0)


def _judge_gate(
    loop: RecordedLoop, gate: RecordedGate, peers: Sequence[Peer]
) -> dict[str, tuple[int, int]]:
    """Return by rule what it said of this gate, and on how many runs."""
    before, after, made = samples_of(loop, gate)
    enough = min(len(before), len(after)) >= _FEWEST_RUNS
    then = {Outcome.REGRESSED: REGRESSED, Outcome.INCONCLUSIVE: OPEN}.get(gate.outcome, PASSED)
    said = {THEN: (then, gate.runs)}
    if len(gate.reference) >= AB_PLAN.fewest_to_fail:
        said[AB_NOW] = _ab_now(gate)
    if len(_alone(gate)) >= SCREEN_PLAN.looks[0]:
        said[SCREEN_NOW] = _screen_now(loop, gate)
    for peer in peers:
        if not peer.alongside:
            said[peer.name] = (REGRESSED if enough and peer.slower(before, after) else PASSED), made
    return said


def _ab_now(gate: RecordedGate) -> tuple[int, int]:
    plan = INTERLEAVED_PLAN if gate.interleaved else AB_PLAN
    sides = (gate.reference, gate.interleaved or gate.candidate[-len(gate.reference) :])
    before, after = ({metric: _values(side, metric) for metric in TIMES} for side in sides)
    how = How(occasion_runs=(1,), shares=len(TIMES), budgets=gate.budgets)
    outcome, pairs = settle(plan, before, after, how, most=MAX_RUNS)
    return int(outcome[0]), 2 * int(pairs[0])


def _screen_now(loop: RecordedLoop, gate: RecordedGate) -> tuple[int, int]:
    stored = {metric: np.array([[run.values[metric] for run in loop.baseline]]) for metric in TIMES}
    occasion_runs = tuple(Counter(run.occasion for run in loop.baseline).values())
    how = How(
        occasion_runs=occasion_runs, shares=len(_SCREENED), metrics=_SCREENED, budgets=gate.budgets
    )
    alone, runs = _alone(gate), 0
    for runs in (number for number in SCREEN_PLAN.looks if number <= len(alone)):
        now: Times = {metric: _values(alone[:runs], metric) for metric in _SCREENED}
        if not all_pass(look(SCREEN_PLAN, stored, now, how, is_last=True))[0]:
            return OPEN, runs
    return PASSED, runs


def _alone(gate: RecordedGate) -> Sequence[RecordedRun]:
    """The candidate's runs before any pair."""
    return gate.candidate[: len(gate.candidate) - (0 if gate.interleaved else len(gate.reference))]


def _values(runs: Sequence[RecordedRun], metric: Metric) -> NDArray[np.float64]:
    """Of one gate, as an array of many; the value of a step is made of its periods where they are
    there."""
    return np.array(
        [[_step_ms(run) if metric is Metric.STEP_MS else run.values[metric] for run in runs]]
    )


def _step_ms(run: RecordedRun) -> float:
    if not run.periods_us:
        return run.values[Metric.STEP_MS]
    periods = np.array(run.periods_us)
    return float(counted(periods, np.ones(len(periods), np.bool_)).mean()) / 1000
