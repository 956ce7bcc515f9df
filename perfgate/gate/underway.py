"""The gate of one workload while it goes on: the runs so far, which of them count, and what may still be spent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from perfgate.explain.ranks import told_ranks
from perfgate.gate.caveats import asides, caveats, shared, unblessed, unjudged
from perfgate.gate.comparable import parts_of, processes_lost, verdict_of
from perfgate.gate.endings import Ended, NoDuet
from perfgate.gate.terms import NOT_MEASURED_BY, Affords, Checked, Expectation, Pair, Policy, Series
from perfgate.judge.evidence import Evidence
from perfgate.judge.looks import Plan
from perfgate.model.baseline import Baseline
from perfgate.model.errors import PerfgateError
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import Verdict
from perfgate.model.words import listed, plural


class Underway:
    """What is known of one workload by now, and what makes more of it known; whoever judges reads its runs."""

    def __init__(
        self,
        expectation: Expectation,
        policy: Policy,
        series: Series,
        affords: Affords,
        *,
        own_environment: bool,
    ) -> None:
        self.expectation = expectation
        self.policy = policy
        self.own_environment = own_environment
        """Whether the other commit brings its own packages."""
        self._series = series
        self._affords = affords
        self.runs: list[Run] = []
        """The candidate's, but for those of an interleaved duet."""
        self.reference_runs: list[Run] = []
        """The other commit's in a duet."""
        self.interleaved_runs: list[Run] = []
        """The candidate's in an interleaved duet."""
        self.notes: list[Note] = []
        self.no_pairs: Note | None = None
        """Why there is no A/B run, where one was tried."""
        self.ended_by_time = False

    @property
    def machine(self) -> Machine:
        """The machine, with the versions that the runs so far have really loaded."""
        return self._series.machine

    # Runs

    def make_run(self, planned: int) -> None:
        """Make the next of at present `planned` runs.

        Raises:
            Ended: it came to nothing, or does not count.
        """
        try:
            run = self._series.measure(len(self.runs), planned)
        except NOT_MEASURED_BY as failed:
            raise Ended(self._not_measured(failed)) from failed
        self.take(run)

    def make_pair(self, plan: Plan, make: Callable[[], Pair]) -> Pair:
        """Make a pair, of which neither run is counted in yet.

        Raises:
            Ended: the candidate's run came to nothing.
            NoDuet: it did so in a way that it may not on its own.
        """
        try:
            return make()
        except NOT_MEASURED_BY as failed:
            if plan.in_pairs:
                # Perhaps more steps, or both at once, are what it does not stand: alone it will show.
                raise NoDuet(str(failed)) from failed
            raise Ended(self._not_measured(failed)) from failed

    def _not_measured(self, failed: PerfgateError) -> Verdict:
        told = parts_of(str(failed), subject=f"{self.expectation.workload.id}: ")
        return verdict_of(self.expectation, Outcome.NOT_MEASURED, *told, runs=self.runs)

    def take(self, run: Run, own: list[Run] | None = None) -> None:
        """Count a run in; `own` are the runs that it belongs with, where these are not those made alone.

        Raises:
            Ended: it does not count.
        """
        (self.runs if own is None else own).append(run)
        made = [*self.runs, *self.interleaved_runs]
        complaints = (*run.conditions.complaints, *run.complaints, *processes_lost(made))
        if complaints:
            reason = f"run {len(made)} does not count: {'; '.join(complaints)}."
            advice = (
                "Free the GPU or let it cool" if run.conditions.complaints else "Remove the cause"
            )
            raise Ended(
                verdict_of(
                    self.expectation,
                    Outcome.INVALID,
                    reason,
                    f"{advice}, and run again.",
                    runs=made,
                )
            )

    def without_duet(self) -> None:
        """Leave out what a duet has made that came to nothing: nothing that is judged by other means is of these."""
        self.reference_runs.clear()
        self.interleaved_runs.clear()

    # What may be spent

    def may_spend(self, runs: int) -> bool:
        """Whether so many more runs are within the budget of time, going by those made so far."""
        made = [run.wall_s for run in (*self.runs, *self.interleaved_runs, *self.reference_runs)]
        if self._affords(runs, median(made) if made else 0.0):
            return True
        if not self.ended_by_time:
            self.ended_by_time = True
            self.notes.append(
                quoted(f"The time budget ended this after {plural(len(made), 'run')}")
            )
        return False

    def evidence(self, baseline: Baseline | None) -> Evidence:
        """What the judge is given of the candidate's runs alone."""
        return Evidence(
            workload=self.expectation.workload.id,
            blessed=baseline,
            alone=tuple(self.runs),
            no_pairs=self.no_pairs,
        )

    # What came of it

    def _unread(self, verdict: Verdict) -> tuple[str, ...]:
        """The parameters that may hold something else than in the baseline, unseen."""
        untold = self.expectation.workload.untold
        if not untold or verdict.stage is None:
            return ()
        of = (
            f"parameter {untold[0]} holds"
            if len(untold) == 1
            else f"parameters {listed(untold)} hold"
        )
        return (
            f"not compared with the baseline is what {of}, but for type and id (plain values and dataclasses are)",
        )

    def checked(self, verdict: Verdict) -> Checked:
        """A verdict with all runs that were made for it, and what is to be known of them."""
        made = self.interleaved_runs or self.runs
        # Of INVALID ones the last is the one that does not count, and its remarks say why.
        remarks = shared(made[-1:] if verdict.outcome is Outcome.INVALID else made)
        # Of a machine without a GPU nobody expects them.
        lacking = unjudged(verdict, made) if self.machine.gpus else ()
        warnings = (
            *lacking,
            *unblessed(verdict),
            *self._unread(verdict),
            *caveats(remarks),
        )
        told = {
            "ranks": told_ranks(made),
            "notes": (
                *verdict.notes,
                *(quoted(one, Severity.WARN) for one in warnings),
                *map(quoted, asides(remarks)),
            ),
        }
        return Checked(
            verdict=verdict.model_copy(update=told),
            runs=tuple(self.runs),
            reference_runs=tuple(self.reference_runs),
            interleaved_runs=tuple(self.interleaved_runs),
        )


def step_times(runs: Sequence[Run]) -> tuple[float, ...]:
    """step_ms of those runs that measured it."""
    return tuple(value for run in runs if (value := run.value(Metric.STEP_MS)) is not None)
