"""Lets `perfgate.gate.check`, the one path of real gates, judge recorded runs again; measures nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from perfgate.gate import Checked, Expectation, Policy, check
from perfgate.judge.judge import Judgement, judge
from perfgate.judge.looks import DUET_PLAN
from perfgate.judge.rows import Terms
from perfgate.model.baseline import Baseline, BlessedRun, Blessing, Occasion
from perfgate.model.machine import Conditions, Machine
from perfgate.model.metric import Metric
from perfgate.model.sample import ProcessSample, Run
from perfgate.model.workload import Workload

Values = Mapping[Metric, float]
MOMENT: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
WORKLOAD: Final = Workload(id="replayed", source="replayed.py", steps=30, warmup=10)
MACHINE: Final = Machine()
_DIGEST: Final = WORKLOAD.digest()


def run_of(values: Values) -> Run:
    """A run of these clocks, in ms per step."""
    # model_construct: validation of what is right by construction would take most of the time.
    process = ProcessSample.model_construct(pid=1, steps=30, values=values, window_ms=300.0)
    return Run.model_construct(started_at=MOMENT, wall_s=1.0, processes=(process,), conditions=Conditions())


def baseline_of(blessed: Sequence[tuple[int, Values]]) -> Baseline:
    """A baseline of blessed runs, each with the number of its occasion, in order."""
    return Baseline.model_construct(
        workload=WORKLOAD.id,
        digest=_DIGEST,
        parameters={},
        machine=MACHINE,
        occasions=tuple(
            Occasion.model_construct(
                measured_at=MOMENT, runs=tuple(BlessedRun.model_construct(values=values) for _, values in runs)
            )
            for _, runs in groupby(blessed, key=lambda run: run[0])
        ),
        blessing=Blessing(by="replay", at=MOMENT, reason="replayed"),
    )


class Replayed:
    """A series that makes the same runs once more."""

    machine = MACHINE

    def __init__(self, runs: Sequence[Values]) -> None:
        self._runs: Iterator[Values] = iter(runs)

    def measure(self, index: int, planned: int) -> Run:  # noqa: ARG002  # the protocol's
        """Return the next run."""
        return run_of(next(self._runs))


def against_stored(blessed: Sequence[tuple[int, Values]], runs: Sequence[Values], *, most: int) -> Checked:
    """What a gate says that can have no duet, of the first `most` of these runs."""
    expectation = Expectation(workload=WORKLOAD, machine=MACHINE, baseline=baseline_of(blessed))
    there = min(most, len(runs))
    return check(expectation, Policy(runs=min(Policy().runs, there), max_runs=there), Replayed(runs))


def in_duet(reference: Sequence[Values], runs: Sequence[Values]) -> Judgement:
    """What the looks of an alternate duet say of these pairs, one look after another until they are settled.

    Raises ValueError for fewer pairs than the first look takes.
    """
    judged: Judgement | None = None
    for look in DUET_PLAN.looks:
        if look <= min(len(reference), len(runs)) and (judged is None or not judged.settled):
            there = baseline_of([(0, values) for values in reference[: look]])
            terms = Terms(plan=DUET_PLAN, max_runs=DUET_PLAN.most_runs)
            judged = judge(there, [run_of(values) for values in runs[: look]], terms)
    if judged is None:
        raise ValueError(f"a duet looks first after {DUET_PLAN.looks[0]} pairs")
    return judged
