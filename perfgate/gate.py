"""The hall: what is expected, how each expected thing is checked, and what the whole amounts to.

The one path that both doors walk. It runs what it is handed and asks the judge; it prints nothing and finds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Protocol

from pydantic import Field

from perfgate.explain.where import where
from perfgate.judge.judge import judge
from perfgate.judge.words import bless_command
from perfgate.model.baseline import FEWEST_RUNS, Baseline
from perfgate.model.errors import (
    EXIT_OPEN,
    EXIT_SHUT,
    CaptureFailed,
    CaptureUnreadable,
    GpuTaken,
    LayoutUnknown,
    MachineUnreadable,
    NsysNotFound,
    NsysUnsupported,
    PerfgateError,
    StepsNotFound,
    StoreFailed,
    WorkloadFailed,
    WorkloadTimedOut,
)
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.outcome import OnInconclusive, OnNew, Outcome, opens_gate
from perfgate.model.record import Record
from perfgate.model.sample import Run
from perfgate.model.settings import Settings
from perfgate.model.verdict import MetricVerdict, Verdict
from perfgate.model.workload import Workload

NOT_MEASURED_BY = (
    CaptureFailed,
    CaptureUnreadable,
    GpuTaken,
    LayoutUnknown,
    MachineUnreadable,
    NsysNotFound,
    NsysUnsupported,
    StepsNotFound,
    StoreFailed,
    WorkloadFailed,
    WorkloadTimedOut,
)
"""Errors that leave a workload without a measurement; any other error is a bug and stays one."""


class Expectation(Record):
    """One workload with what its baseline is on this machine."""

    workload: Workload
    machine: Machine
    baseline: Baseline | None = None
    trouble: str | None = None
    """Why a baseline that is there cannot be used, as a whole message."""
    elsewhere: tuple[str, ...] = ()
    """GPUs that have a baseline of this workload, where this machine's has none."""


class Policy(Record):
    """What the user decided about runs, budgets and doubtful outcomes."""

    runs: int = Field(default=3, ge=1)
    new_runs: int = Field(default=FEWEST_RUNS, ge=1)
    """Runs where there is no baseline to compare with."""
    max_runs: int = Field(default=10, ge=1)
    stops_early: bool = True
    """Whether a count that rose, and rose again, ends the gate before its first look; not where runs were asked for."""
    budgets: Mapping[Metric, float] = {}
    on_inconclusive: OnInconclusive = OnInconclusive.WARN
    on_new: OnNew = OnNew.FAIL

    @classmethod
    def from_settings(cls, settings: Settings, workload: Workload | None, *, runs_given: bool) -> Policy:
        """The policy for one workload; `runs_given` tells a user's own number of runs from the default."""
        return cls(
            runs=settings.runs,
            new_runs=settings.runs if runs_given else min(max(settings.runs, FEWEST_RUNS), settings.max_runs),
            max_runs=max(settings.max_runs, settings.runs),
            stops_early=not runs_given,
            budgets={**settings.budgets, **(workload.budgets if workload is not None else {})},
            on_inconclusive=settings.inconclusive,
            on_new=settings.new,
        )

    def opens(self, outcome: Outcome) -> bool:
        """Whether an outcome lets the build pass."""
        return opens_gate(outcome, on_inconclusive=self.on_inconclusive, on_new=self.on_new)


class Checked(Record):
    """One workload's verdict with the runs it rests on."""

    verdict: Verdict
    runs: tuple[Run, ...] = ()


class Closing(Record):
    """What a whole invocation amounts to."""

    opens: bool
    shut_by: tuple[str, ...] = ()
    """One sentence for each thing that keeps the gate shut."""

    @property
    def exit_status(self) -> int:
        """0 only where every expected workload was measured and opens the gate."""
        return EXIT_OPEN if self.opens else EXIT_SHUT


class Series(Protocol):
    """Makes the runs of one workload: fresh ones, or recorded ones."""

    @property
    def machine(self) -> Machine:
        """The machine, with the versions that the runs so far have really loaded."""

    def measure(self, index: int, planned: int) -> Run:
        """Make run `index` (from 0) of at present `planned` runs; may raise any of `NOT_MEASURED_BY`."""


def check(expectation: Expectation, policy: Policy, series: Series) -> Checked:
    """Measure one workload as often as its judgement needs, and say what came of it.

    Errors of `NOT_MEASURED_BY` become the outcome NOT_MEASURED, with their whole message.
    """
    if expectation.trouble is not None:
        return Checked(verdict=_verdict(expectation, Outcome.INCOMPARABLE, *_split(expectation.trouble)))
    verdict = _without_comparison(expectation)
    baseline = expectation.baseline if verdict is None else None
    wanted = policy.runs if verdict is None else policy.new_runs
    runs: list[Run] = []
    cut_short = False
    while verdict is None or len(runs) < wanted:
        try:
            run = series.measure(len(runs), wanted)
        except NOT_MEASURED_BY as failed:
            told = _split(str(failed), subject=f"{expectation.workload.id}: ")
            return Checked(verdict=_verdict(expectation, Outcome.NOT_MEASURED, *told, runs=runs), runs=tuple(runs))
        runs.append(run)
        complaints = (*run.conditions.complaints, *run.complaints, *_processes_lost(runs))
        if complaints:
            reason = f"run {len(runs)} does not count: {'; '.join(complaints)}."
            advice = "Free the GPU or let it cool" if run.conditions.complaints else "Remove the cause"
            return Checked(
                verdict=_verdict(expectation, Outcome.INVALID, reason, f"{advice}, and run again.", runs=runs),
                runs=tuple(runs),
            )
        if baseline is not None and (differs := _other_processes(baseline, run)) is not None:
            bless = bless_command(expectation.workload.id)
            advice = f"Look for a process that ended early or took no step. If it is meant, bless it: {bless}"
            verdict, baseline = _verdict(expectation, Outcome.INCOMPARABLE, differs, advice), None
            wanted = max(policy.new_runs, len(runs))
        if baseline is not None:
            judgement = judge(baseline, runs, budgets=policy.budgets, max_runs=policy.max_runs)
            verdict = judgement.verdict
            if len(runs) >= wanted:
                wanted = max(judgement.wanted_runs, len(runs))
            elif policy.stops_early and judgement.settled and _count_rose(verdict):
                cut_short = True
                break
    if baseline is None:
        few = f"A baseline needs {FEWEST_RUNS} runs; gates of the same code are joined. "
        measured = {
            "runs": len(runs),
            "metrics": _shown(expectation.baseline, runs),
            "next_step": verdict.next_step if len(runs) >= FEWEST_RUNS else f"{few}{verdict.next_step}",
        }
        return Checked(verdict=verdict.model_copy(update=measured), runs=tuple(runs))
    verdict = _told(verdict, baseline, series.machine, runs)
    return Checked(verdict=_without_doubtful_clocks(verdict) if cut_short else verdict, runs=tuple(runs))


def close(
    expected: Sequence[str],
    verdicts: Mapping[str, Verdict],
    policy: Policy,
    *,
    orphans: Sequence[str] = (),
) -> Closing:
    """Say whether the gate opens: every expected workload has a verdict that opens it, and there was at least one.

    `orphans` are baselines of this machine whose workload is gone: renamed or deleted, and so not measured.
    """
    shut: list[str] = []
    if not expected:
        shut.append("no workload was collected, so nothing was measured")
    for workload in expected:
        verdict = verdicts.get(workload)
        if verdict is None:
            shut.append(f"{workload}: it was expected, and not measured")
        elif not policy.opens(verdict.outcome):
            shut.append(f"{workload}: {verdict.outcome}")
    shut += [
        f"{orphan}: it has a baseline for this machine, and no such workload exists any more; "
        "if it was renamed or deleted on purpose, delete its baseline"
        for orphan in orphans
    ]
    return Closing(opens=not shut, shut_by=tuple(shut))


def _without_comparison(expectation: Expectation) -> Verdict | None:
    """The verdict where measuring cannot end in a comparison; None where it can."""
    workload, baseline, machine = expectation.workload, expectation.baseline, expectation.machine
    bless = bless_command(workload.id)
    if baseline is None and expectation.elsewhere:
        others = " and ".join(expectation.elsewhere)
        return _verdict(
            expectation,
            Outcome.INCOMPARABLE,
            f"its baseline is for {others}, this machine is {machine.gpu_name}. Their times are not comparable.",
            f"Run where it was blessed, or bless one for this machine: {bless}",
        )
    if baseline is None:
        return _verdict(
            expectation,
            Outcome.NO_BASELINE,
            f"there is no baseline to compare with on this machine ({machine.gpu_name}).",
            f"If these numbers are right, make them the baseline: {bless}",
        )
    differences = baseline.machine.differences_that_forbid_comparison(machine)
    if differences:
        return _verdict(
            expectation,
            Outcome.INCOMPARABLE,
            f"{'; '.join(differences)}. Their times are not comparable.",
            f"Run as it was blessed, or bless anew: {bless}",
        )
    if baseline.digest != workload.digest():
        return _verdict(
            expectation,
            Outcome.INCOMPARABLE,
            f"the baseline is of other parameters: {_parameter_changes(baseline, workload)}.",
            f"Restore them, or bless the workload as it is now: {bless}",
        )
    return None


def _processes_lost(runs: Sequence[Run]) -> tuple[str, ...]:
    """A rank that took no step leaves no trace in the values, which are those of the worst of the others."""
    first, now = len(runs[0].processes), len(runs[-1].processes)
    return () if first == now else (f"steps of {_processes(now)} were found, of {_processes(first)} in run 1",)


def _other_processes(baseline: Baseline, run: Run) -> str | None:
    """Say that other processes took the steps than when it was blessed, as a sentence; None where that is not known."""
    blessed = sorted({known for known in (run.processes for run in baseline.runs) if known is not None})
    now = len(run.processes)
    if not blessed or now in blessed:
        return None
    then = " or ".join(str(number) for number in blessed)
    return f"steps of {_processes(now)} were found, of {then} in the baseline. Their values are not comparable."


def _processes(number: int) -> str:
    return f"{number} process" if number == 1 else f"{number} processes"


def _count_rose(verdict: Verdict) -> bool:
    """Whether a count shuts the gate: the one thing that ends a gate between its looks.

    A clock's word between looks is not taken, neither for nor against: each further look costs error (DECISION).
    """
    return any(row.outcome is Outcome.REGRESSED and METRICS[row.metric].kind is Kind.COUNT for row in verdict.metrics)


def _without_doubtful_clocks(verdict: Verdict) -> Verdict:
    """Show, and not judge, the clocks that the count which ended the gate left no runs for."""
    reason = f"not judged: a count settled the gate after {verdict.runs} runs"
    rows = tuple(
        row.model_copy(update={"outcome": None, "reason": reason}) if row.outcome is Outcome.INCONCLUSIVE else row
        for row in verdict.metrics
    )
    return verdict.model_copy(update={"metrics": rows})


def _shown(baseline: Baseline | None, runs: Sequence[Run]) -> tuple[MetricVerdict, ...]:
    """What was measured, as medians beside the baseline's, where nothing can be judged."""
    measured = [run.measured() for run in runs]
    return tuple(
        MetricVerdict(
            metric=metric,
            outcome=None,
            baseline=median(baseline.values(metric)) if baseline is not None and baseline.values(metric) else None,
            now=median(values[metric] for values in measured),
        )
        for metric in METRICS
        if measured and all(metric in values for values in measured)
    )


def _parameter_changes(baseline: Baseline, workload: Workload) -> str:
    then, now = dict(baseline.parameters), workload.comparable_parameters()
    changed = [
        f"{name} was {then.get(name, 'not there')} and is {now.get(name, 'gone')}"
        for name in sorted({*then, *now})
        if then.get(name) != now.get(name)
    ]
    return ", ".join(changed) or "its digest differs"


def _told(verdict: Verdict, baseline: Baseline, machine: Machine, runs: Sequence[Run]) -> Verdict:
    """The judge's verdict with where it happened, and what else differs."""
    return verdict.model_copy(
        update={
            "where": where(baseline.ranges, typical(runs), verdict),
            "remarks": (*verdict.remarks, *_circumstances(baseline, machine)),
        }
    )


def typical(runs: Sequence[Run]) -> Run:
    """The run whose step time is nearest the median of all."""
    times = [run.value(Metric.STEP_MS) or 0.0 for run in runs]
    middle = median(times)
    return min(runs, key=lambda run: abs((run.value(Metric.STEP_MS) or 0.0) - middle))


def _circumstances(baseline: Baseline, machine: Machine) -> tuple[str, ...]:
    """What differs from the baseline's circumstances without forbidding the comparison, as sentences."""
    told: list[str] = []
    then = {gpu.uuid for gpu in baseline.machine.gpus}
    if then != {gpu.uuid for gpu in machine.gpus}:
        told.append("Another GPU of the same model than the baseline's: its clocks and memory may differ a little.")
    for name, before, now in (
        ("driver", baseline.machine.driver, machine.driver),
        ("torch", baseline.machine.torch, machine.torch),
        ("CUDA", baseline.machine.cuda, machine.cuda),
    ):
        if before != now:
            told.append(
                f"The baseline was measured with {name} {before or 'unknown'}, this with {name} {now or 'unknown'}."
            )
    return tuple(told)


def _verdict(
    expectation: Expectation, outcome: Outcome, reason: str, next_step: str, *, runs: Sequence[Run] = ()
) -> Verdict:
    baseline = expectation.baseline
    return Verdict(
        workload=expectation.workload.id,
        outcome=outcome,
        reason=reason,
        next_step=next_step,
        runs=len(runs),
        baseline_runs=len(baseline.runs) if baseline is not None else 0,
    )


def _split(message: str, *, subject: str = "") -> tuple[str, str]:
    """A four-part message as reason and next step."""
    reason, _, next_step = message.removeprefix(subject).partition("\n")
    return reason, next_step


def as_not_measured(workload: str, error: PerfgateError) -> Verdict:
    """The verdict of a workload that never came to its first run."""
    reason, next_step = _split(str(error), subject=f"{workload}: ")
    return Verdict(workload=workload, outcome=Outcome.NOT_MEASURED, reason=reason, next_step=next_step)
