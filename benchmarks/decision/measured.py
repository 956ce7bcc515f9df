"""Real gates of real loops, kept as a file of plain numbers, and what each rule said of them; knows no simulation.

`h200.json` (a `Recording`) holds, for each loop, the blessed runs and every gate: the slowdown that was planted, the
verdict as it was given on the machine, and the values of all runs behind it, in the order in which they were made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from pydantic import Field, model_validator

from perfgate.model.baseline import Baseline, Result
from perfgate.model.metric import GATED_CLOCKS, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.record import Record
from perfgate.model.sample import Run

if TYPE_CHECKING:
    from benchmarks.decision.peers import Peer  # needs the peers, which a machine that only records has not

PERFGATE: Final = "perfgate"
BY_KERNEL: Final = "perfgate, by kernel_ms"
BY_STEP: Final = "perfgate, by step_ms"
_FEWEST_RUNS: Final = 3
_DIGITS: Final = 6
Values = Mapping[Metric, float]


class Kind(StrEnum):
    """What a loop's step waits for."""

    GPU_BOUND = "gpu-bound"
    CPU_BOUND = "cpu-bound"


class RecordedBlessing(Record):
    """One blessed run."""

    occasion: int = Field(ge=0)
    values: Values


class RecordedGate(Record):
    """One gate: what was planted, what was said, and on what numbers."""

    slowdown: float = Field(ge=0)
    """Planted in the loop, as a fraction of its step; 0 is an unchanged loop."""
    outcome: Outcome
    regressed: tuple[Metric, ...] = ()
    """Metrics that were called slower, counts included."""
    reference: tuple[Values, ...] = ()
    """Of a duet: the runs of the baseline's commit."""
    candidate: tuple[Values, ...] = ()
    """All runs of the candidate that may be compared with stored ones: the screen's first, then the duet's."""
    interleaved: tuple[Values, ...] = ()
    """The candidate's runs in an interleaved duet."""
    runs: int = Field(ge=1)
    """Processes started."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        given = len(self.reference) + len(self.candidate) + len(self.interleaved)
        if not self.candidate and not self.interleaved:
            raise ValueError("a gate has runs of the candidate")
        if self.runs != given:
            raise ValueError(f"runs is {self.runs}, the values given are of {given} runs")
        return self


class RecordedLoop(Record):
    """One loop with its baseline and its gates."""

    name: str
    kind: Kind
    baseline: tuple[RecordedBlessing, ...] = Field(min_length=1)
    gates: tuple[RecordedGate, ...] = Field(min_length=1)


class Recording(Record):
    """The whole file."""

    format: Literal[1] = 1
    """History: 1, the first."""
    machine: Mapping[str, str]
    """Facts about where it was measured, by name: GPU, driver, CUDA, torch, nsys, perfgate's commit."""
    remarks: tuple[str, ...] = ()
    loops: tuple[RecordedLoop, ...] = Field(min_length=1)


class Found(Record):
    """What one rule said of all gates of one loop at one slowdown."""

    loop: str
    kind: Kind
    slowdown: float
    rule: str
    gates: int = Field(ge=1)
    regressed: int = Field(ge=0)
    inconclusive: int = Field(ge=0)
    runs: int = Field(ge=0)
    """In all gates together."""


def load(path: Path) -> Recording:
    """Read a recording; pydantic's ValidationError tells what is wrong with one."""
    return Recording.model_validate_json(path.read_text(encoding="utf-8"))


def save(recording: Recording, path: Path) -> None:
    """Write a recording compactly, a gate or a blessed run a line."""
    told = {"format": recording.format, **recording.model_dump(mode="json", exclude_defaults=True)}
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=False)
    for start in ('{"name"', '{"occasion"', '{"slowdown"'):
        text = text.replace(start, f"\n{start}")
    path.write_text(text + "\n", encoding="utf-8")


def blessings_of(baseline: Baseline) -> tuple[RecordedBlessing, ...]:
    """The blessed runs of a baseline's file."""
    return tuple(
        RecordedBlessing(occasion=number, values=_rounded(run.values))
        for number, occasion in enumerate(baseline.occasions)
        for run in occasion.runs
    )


def gate_of(result: Result, *, slowdown: float, interleaved: Sequence[Run] = ()) -> RecordedGate:
    """One gate, from its kept result.

    Raises pydantic's ValidationError where runs that the verdict rests on are not among those given.
    """
    verdict = result.verdict
    return RecordedGate(
        slowdown=slowdown,
        outcome=verdict.outcome,
        regressed=tuple(row.metric for row in verdict.metrics if row.outcome is Outcome.REGRESSED),
        reference=tuple(_rounded(run.measured()) for run in result.reference_runs),
        candidate=tuple(_rounded(run.measured()) for run in result.runs),
        interleaved=tuple(_rounded(run.measured()) for run in interleaved),
        runs=len(result.reference_runs) + verdict.runs,
    )


def judge_recording(recording: Recording, peers: Sequence[Peer]) -> list[Found]:
    """Count, by loop and slowdown, what perfgate said there and then, and what each peer says of the same step times.

    A loop that is there several times, each with its own baseline, is one loop here. A peer has the blessed runs and
    the candidate's runs that may be compared with them; what re-runs the baseline's commit has no place here, as most
    gates never did.
    """
    found: dict[tuple[str, float, str], Found] = {}
    for loop in recording.loops:
        for gate in loop.gates:
            for rule, (slower, runs) in _judge_gate(loop, gate, peers).items():
                key = (loop.name, gate.slowdown, rule)
                so_far = found.get(key)
                doubtful = rule == PERFGATE and gate.outcome is Outcome.INCONCLUSIVE
                found[key] = Found(
                    loop=loop.name,
                    kind=loop.kind,
                    slowdown=gate.slowdown,
                    rule=rule,
                    gates=1 + (so_far.gates if so_far else 0),
                    regressed=slower + (so_far.regressed if so_far else 0),
                    inconclusive=doubtful + (so_far.inconclusive if so_far else 0),
                    runs=runs + (so_far.runs if so_far else 0),
                )
    order = list(dict.fromkeys(loop.name for loop in recording.loops))
    return sorted(found.values(), key=lambda one: (order.index(one.loop), one.slowdown))


def _judge_gate(loop: RecordedLoop, gate: RecordedGate, peers: Sequence[Peer]) -> dict[str, tuple[bool, int]]:
    """Return by rule whether it called this gate slower, and on how many runs."""
    regressed = gate.outcome is Outcome.REGRESSED
    before = [run.values[Metric.STEP_MS] for run in loop.baseline]
    after = [run[Metric.STEP_MS] for run in gate.candidate if Metric.STEP_MS in run]
    enough = len(after) >= _FEWEST_RUNS
    return {
        PERFGATE: (regressed, gate.runs),
        BY_KERNEL: (regressed and Metric.KERNEL_MS in gate.regressed, gate.runs),
        BY_STEP: (regressed and Metric.STEP_MS in gate.regressed, gate.runs),
        **{peer.name: (enough and peer.slower(before, after), len(after)) for peer in peers if not peer.alongside},
    }


def _rounded(values: Values) -> dict[Metric, float]:
    """The gated clocks, which is what any rule here looks at; six digits are far below the noise."""
    return {metric: float(f"{values[metric]:.{_DIGITS}g}") for metric in GATED_CLOCKS if metric in values}
