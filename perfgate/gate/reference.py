"""The other commit's runs: held against what is known of it, and as what is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Final

from perfgate.execute.lab import Pair
from perfgate.explain.breakdown import breakdown_of
from perfgate.gate.alike import first_time_work, launches_gone, other_processes, other_steps
from perfgate.gate.expect import BUSY_CORES, Expectation, cores_of
from perfgate.gate.underway import Differs, Ended, SideUnavailable
from perfgate.model.baseline import STEP_VALUE, Baseline, BlessedRun, Blessing, Occasion
from perfgate.model.metric import METRICS
from perfgate.model.note import Severity, note
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run

SLOWER_ON_ONE_CORE: Final = 1.1
"""And lose by it, where one takes so many times as long on the one core of blocks as alone.

Launch-bound loops are faster there (`benchmarks/host-noise`: 17 %), since their threads take turns.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepsAlone:
    """What a step takes alone on either side, ms, by runs, and a run of each."""

    then: tuple[float, ...]
    now: tuple[float, ...]
    pair: Pair
    blessed: tuple[float, ...] = ()
    """What it took in blessed runs, where they are of this machine: by how much the slowest of them
    took longer, a run of today may."""

    def check(self, reference: Sequence[float], candidate: Sequence[float]) -> None:
        """Hold the steps of blocks, on one core, against these.

        What several cores do at once is lost there on both sides, and a change that loses it would
        not show.

        Raises:
            SideUnavailable: a side that keeps several busy is slower there than a run alone may be.
        """
        sides = (
            ("other commit", self.then, reference, cores_of([self.pair.reference])),
            ("candidate", self.now, candidate, cores_of([self.pair.candidate])),
        )
        middle = median(self.blessed) if self.blessed else 0.0
        slowest = max(self.blessed) / middle if middle else 1.0
        for side, alone, there, cores in sides:
            if cores <= BUSY_CORES or not alone or not there:
                continue
            if median(there) > SLOWER_ON_ONE_CORE * slowest * max(alone):
                raise SideUnavailable(
                    note(
                        "needs-several-cores",
                        side=side,
                        step_ms=median(there),
                        alone_ms=max(alone),
                        cores=cores,
                    )
                )


def check_reference(reference: Run, stored: Baseline | None, candidate: Run) -> None:
    """Hold a run of the other commit against what is known of it.

    Raises:
        Ended: the machine was not fit for it, or the candidate launches nothing to compare.
        SideUnavailable: it is no measurement, or not of what was blessed.
    """
    if unfit := reference.conditions.invalid:
        raise Ended(Outcome.INVALID, note("reference-unfit", why=unfit))
    if reference.invalid:
        loud = (one for one in reference.notes if one.severity is Severity.WARN)
        why = (*reference.invalid, *loud)
        raise SideUnavailable(note("reference-invalid", why=why))
    there, here = len(reference.processes), len(candidate.processes)
    if stored is not None:
        _check_blessed(reference, stored)
    if there != here:
        raise SideUnavailable(note("sides-of-other-processes", there=there, here=here))
    if (gone := launches_gone([BlessedRun.of(reference)], candidate)) is not None:
        raise Ended(Outcome.INCOMPARABLE, note("candidate-launches-nothing", differs=gone))


def _check_blessed(reference: Run, stored: Baseline) -> None:
    """Hold a run of the baseline's commit against what was blessed of it.

    Raises:
        SideUnavailable: it does something else now.
    """
    differs = other_steps(stored.runs, reference) or other_processes(stored, reference)
    if differs is not None:
        raise SideUnavailable(note("side-differs-from-blessed", differs=differs))
    measured = reference.measured()
    lacking = tuple(
        metric
        for metric, spec in METRICS.items()
        if spec.gated and stored.values(metric) and metric not in measured
    )
    if lacking:
        # Were the candidate's runs to lack it as well, nobody would miss it.
        raise SideUnavailable(note("side-lacks-metrics", metrics=lacking))
    for metric, value in reference.counts().items():
        blessed = stored.values(metric)
        spread = max(blessed) - min(blessed) if blessed else 0.0
        if blessed and not min(blessed) - spread <= value <= max(blessed) + spread:
            raise SideUnavailable(
                note("side-count-changed", metric=metric, then=median(blessed), now=value)
            )


def check_steps(
    references: Sequence[Run],
    candidates: Sequence[Run],
    expected: Expectation,
    stored: Baseline | None,
) -> None:
    """Hold the candidate's steps against those of all runs of the other commit, and the blessed.

    Raises:
        Differs: they are other steps.
    """
    workload = expected.workload
    then = [BlessedRun.of(run) for run in references]
    if stored is not None and all(run.step_names for run in stored.runs):
        then += stored.runs
    for run in candidates:
        if (differs := other_steps(then, run)) is None:
            continue
        code = "sides-of-other-steps" if stored is None else "steps-differ"
        why = note(code, workload=workload.id, file=workload.source, differs=differs)
        raise Differs(why, stored=stored is not None)


def check_alike(references: Sequence[Run]) -> None:
    """Refuse runs of the other commit that did not all measure what is gated, which none would
    miss, or that measured first-time work.

    Raises:
        SideUnavailable: a metric is in some of them only, or most hold what belongs in the warm-up.
    """
    if (work := first_time_work(references)) is not None:
        raise SideUnavailable(note("reference-invalid", why=(work,)))
    gated = [metric for metric, spec in METRICS.items() if spec.gated]
    some = [one for one in gated if len({one in run.measured() for run in references}) > 1]
    if some:
        raise SideUnavailable(note("side-measured-unevenly", metrics=tuple(some)))


def as_baseline(expected: Expectation, runs: Sequence[Run], stored: Baseline | None) -> Baseline:
    """The runs as what the judge compares with: one occasion, the candidate's own."""
    occasion = Occasion(measured_at=runs[0].started_at, runs=tuple(map(BlessedRun.of, runs)))
    if stored is not None:
        return stored.model_copy(
            update={
                "occasions": (occasion,),
                "breakdown": breakdown_of(runs),
                "step_value": STEP_VALUE,
            }
        )
    workload = expected.workload
    return Baseline(
        workload=workload.id,
        digest=workload.digest(),
        parameters=workload.comparable_parameters(),
        has_options=workload.options is not None,
        machine=expected.machine,
        occasions=(occasion,),
        blessing=Blessing(by="nobody", at=datetime.now(UTC), reason="the other side"),
        breakdown=breakdown_of(runs),
        step_value=STEP_VALUE,
    )
