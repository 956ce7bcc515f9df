"""Real gates of real loops, kept as a file of plain numbers, and what each rule said of them; knows no simulation.

`h200.json` (a `Recording`) holds, for each loop, the blessed runs and every gate: the slowdown that was planted, the
verdict as it was given on the machine, and the values of all runs behind it, in the order in which they were made.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from benchmarks.decision.peers import PEERS
from perfgate.model.baseline import Baseline, Result
from perfgate.model.metric import GATED_CLOCKS, Metric
from perfgate.model.outcome import Outcome
from perfgate.model.record import Record

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
    candidate: tuple[Values, ...] = Field(min_length=1)
    """All runs of the candidate: the screen's first, then the duet's."""
    runs: int = Field(ge=1)
    """Processes started."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.runs != len(self.reference) + len(self.candidate):
            raise ValueError(f"runs is {self.runs}, the runs given are {len(self.reference)} + {len(self.candidate)}")
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
    """Write a recording, compactly: a line for each loop would still be long."""
    path.write_text(recording.model_dump_json(exclude_defaults=True) + "\n", encoding="utf-8")


def blessings_of(baseline: Baseline) -> tuple[RecordedBlessing, ...]:
    """The blessed runs of a baseline's file."""
    return tuple(
        RecordedBlessing(occasion=number, values=_rounded(run.values))
        for number, occasion in enumerate(baseline.occasions)
        for run in occasion.runs
    )


def gate_of(result: Result, *, slowdown: float) -> RecordedGate:
    """One gate, from its kept result."""
    verdict = result.verdict
    return RecordedGate(
        slowdown=slowdown,
        outcome=verdict.outcome,
        regressed=tuple(row.metric for row in verdict.metrics if row.outcome is Outcome.REGRESSED),
        reference=tuple(_rounded(run.measured()) for run in result.reference_runs),
        candidate=tuple(_rounded(run.measured()) for run in result.runs),
        runs=len(result.reference_runs) + len(result.runs),
    )


def judge_recording(recording: Recording) -> list[Found]:
    """Count, by loop and slowdown, what perfgate said there and then, and what each peer says of the same step times.

    A peer has the blessed runs and all runs of the candidate; what re-runs the baseline's commit has no place here, as
    most gates never did.
    """
    found: list[Found] = []
    for loop in recording.loops:
        before = [run.values[Metric.STEP_MS] for run in loop.baseline]
        for slowdown in sorted({gate.slowdown for gate in loop.gates}):
            gates = [gate for gate in loop.gates if gate.slowdown == slowdown]
            regressed = [gate for gate in gates if gate.outcome is Outcome.REGRESSED]
            said = {
                PERFGATE: len(regressed),
                BY_KERNEL: sum(Metric.KERNEL_MS in gate.regressed for gate in regressed),
                BY_STEP: sum(Metric.STEP_MS in gate.regressed for gate in regressed),
            }
            steps = [[run[Metric.STEP_MS] for run in gate.candidate] for gate in gates]
            for peer in PEERS:
                if not peer.alongside:
                    said[peer.name] = sum(peer.slower(before, after) for after in steps if len(after) >= _FEWEST_RUNS)
            spent = sum(gate.runs for gate in gates)
            made = sum(len(gate.candidate) for gate in gates)
            found += [
                Found(
                    loop=loop.name,
                    kind=loop.kind,
                    slowdown=slowdown,
                    rule=rule,
                    gates=len(gates),
                    regressed=times,
                    inconclusive=sum(gate.outcome is Outcome.INCONCLUSIVE for gate in gates) if rule == PERFGATE else 0,
                    runs=spent if rule in (PERFGATE, BY_KERNEL, BY_STEP) else made,
                )
                for rule, times in said.items()
            ]
    return found


def _rounded(values: Values) -> dict[Metric, float]:
    """The gated clocks, which is what any rule here looks at; six digits are far below the noise."""
    return {metric: float(f"{values[metric]:.{_DIGITS}g}") for metric in GATED_CLOCKS if metric in values}
