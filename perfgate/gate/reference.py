"""The other commit's runs in a duet: held against what is known of it, and as what the judge compares with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

from perfgate.explain.breakdown import breakdown_of
from perfgate.gate.caveats import caveats
from perfgate.gate.comparable import (
    RECORDS_LOST,
    launches_gone,
    other_processes,
    other_steps,
    told_processes,
    verdict_of,
)
from perfgate.gate.endings import Ended, NoDuet, OtherSteps
from perfgate.gate.terms import Expectation
from perfgate.model.baseline import STEP_VALUE, Baseline, BlessedRun, Blessing, Occasion
from perfgate.model.metric import METRICS
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.words import listed
from perfgate.words.numbers import milliseconds

BUSY_CORES = 1.1
"""Steps that keep more CPU cores than this busy do several things at once."""
SLOWER_ON_ONE_CORE = 1.1
"""And lose by it, where one takes so many times as long on the one core of an interleaved duet as alone.

Launch-bound loops are faster there (`benchmarks/moods`: 17 %), since their threads take turns anyway.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepsAlone:
    """What a step of the other side and of the candidate takes alone, ms, by runs, and how many cores it keeps busy."""

    then: tuple[float, ...]
    now: tuple[float, ...]
    cores: tuple[float | None, float | None]

    def check(self, reference: Sequence[float], candidate: Sequence[float]) -> None:
        """Hold the steps of an interleaved duet, on one core, against these.

        What several cores do at once is lost there on both sides, and a change that loses it would not show.

        Raises:
            NoDuet: a side that keeps several busy is slower there than in any of its runs alone.
        """
        sides = (("the other commit", self.then, reference), ("the candidate", self.now, candidate))
        for (whose, alone, there), cores in zip(sides, self.cores, strict=True):
            if cores is None or cores <= BUSY_CORES or not alone or not there:
                continue
            if median(there) > SLOWER_ON_ONE_CORE * max(alone):
                raise NoDuet(
                    f"a step of {whose} takes {milliseconds(median(there))} ms on one CPU core and at most "
                    f"{milliseconds(max(alone))} ms alone, where it keeps {cores:.2g} busy: it does several things at "
                    "once, and losing that would not show"
                )


def check_reference(
    reference: Run, expectation: Expectation, stored: Baseline | None, candidate: Run
) -> None:
    """Hold a run of the other commit against what is known of it.

    Raises:
        Ended: the machine was not fit for it, or the candidate launches nothing that could be compared with it.
        NoDuet: it is no measurement, or not of what was blessed.
    """
    if reference.conditions.complaints:
        reason = f"a run of the other commit does not count: {'; '.join(reference.conditions.complaints)}."
        advice = "Free the GPU or let it cool, and run again."
        raise Ended(verdict_of(expectation, Outcome.INVALID, reason, advice))
    if reference.complaints:
        told = (*reference.complaints, *caveats(reference.remarks))
        raise NoDuet(f"a run of the other commit does not count: {'; '.join(told)}")
    if (
        stored is not None
        and (differs := other_steps(stored.runs, reference, whose="the baseline")) is not None
    ):
        raise NoDuet(f"in the baseline's commit, {differs}")
    if len(reference.processes) != len(candidate.processes):
        there, here = (
            told_processes(len(reference.processes)),
            told_processes(len(candidate.processes)),
        )
        raise NoDuet(f"steps of {there} were found in the other commit, of {here} in the candidate")
    if stored is not None:
        _check_blessed(reference, stored)
    if (differs := launches_gone([BlessedRun.of(reference)], candidate)) is not None:
        raise Ended(verdict_of(expectation, Outcome.INCOMPARABLE, differs, f"{RECORDS_LOST}."))


def _check_blessed(reference: Run, stored: Baseline) -> None:
    """Hold a run of the baseline's commit against what was blessed of it.

    Raises:
        NoDuet: it does something else now.
    """
    if (differs := other_processes(stored, reference)) is not None:
        raise NoDuet(f"in the baseline's commit, {differs}")
    measured = reference.measured()
    lacking = [
        metric
        for metric, spec in METRICS.items()
        if spec.gated and stored.values(metric) and metric not in measured
    ]
    if lacking:
        # Were the candidate's runs to lack it as well, nobody would miss it.
        raise NoDuet(
            f"the baseline gates {listed(lacking)}, which a run of its commit did not measure here"
        )
    for metric, value in reference.counts().items():
        blessed = stored.values(metric)
        spread = max(blessed) - min(blessed) if blessed else 0.0
        if blessed and not min(blessed) - spread <= value <= max(blessed) + spread:
            raise NoDuet(
                f"the baseline's commit does not do what it did when it was blessed: {metric} was "
                f"{median(blessed):g} and is {value:g}. Something beside the code has changed"
            )


def check_steps(
    references: Sequence[Run], candidates: Sequence[Run], stored: Baseline | None
) -> None:
    """Hold the names of the candidate's steps against those of all runs of the other commit, and of what is blessed.

    Raises:
        OtherSteps: they are other steps.
    """
    then = [BlessedRun.of(run) for run in references]
    if stored is not None and all(run.step_names for run in stored.runs):
        then += stored.runs
    for run in candidates:
        if (differs := other_steps(then, run, whose="the other commit")) is not None:
            raise OtherSteps(differs, stored=stored is not None)


def check_alike(references: Sequence[Run]) -> None:
    """Refuse runs of the other commit that did not all measure what is gated: what some lack would be gated by none.

    Raises:
        NoDuet: a metric is in some of them only.
    """
    gated = [metric for metric, spec in METRICS.items() if spec.gated]
    some = [one for one in gated if len({one in run.measured() for run in references}) > 1]
    if some:
        raise NoDuet(
            f"of the other commit's runs, some measured {listed(some)} and some did not.\n"
            "Run it again. Why a run lacks one, its capture says: perfgate inspect CAPTURE"
        )


def as_baseline(expectation: Expectation, runs: Sequence[Run], stored: Baseline | None) -> Baseline:
    """The runs of the other commit as what the judge compares with: one occasion, the candidate's own."""
    occasion = Occasion(measured_at=runs[0].started_at, runs=tuple(map(BlessedRun.of, runs)))
    if stored is not None:
        return stored.model_copy(
            update={
                "occasions": (occasion,),
                "breakdown": breakdown_of(runs),
                "step_value": STEP_VALUE,
            }
        )
    workload = expectation.workload
    return Baseline(
        workload=workload.id,
        digest=workload.digest(),
        parameters=workload.comparable_parameters(),
        has_options=workload.options is not None,
        machine=expectation.machine,
        occasions=(occasion,),
        blessing=Blessing(by="nobody", at=datetime.now(UTC), reason="the other side of a duet"),
        breakdown=breakdown_of(runs),
        step_value=STEP_VALUE,
    )
