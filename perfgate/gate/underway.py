"""The gate of one workload while it goes on: runs so far, what is known of them, what may still be
spent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

from perfgate.execute.lab import Lab, Pair
from perfgate.execute.pairing import in_noise_of
from perfgate.gate.alike import differs, first_time_work
from perfgate.gate.expect import Expectation, why_incomparable
from perfgate.judge.compare import Learnt
from perfgate.judge.evidence import Evidence
from perfgate.judge.hold import learn
from perfgate.judge.judge import judge
from perfgate.model.errors import NotMeasured, RevisionMissing, SideMissing
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, note, noted
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Form, Run
from perfgate.model.settings import Policy
from perfgate.model.verdict import Stage, Verdict

Affords = Callable[[int, float], bool]
"""Whether so many more runs, of so many seconds each, are within the gate's budget of time."""


class Ended(Exception):
    """The gate of this workload is over: a run came to nothing, or cannot be compared."""

    def __init__(self, outcome: Outcome, why: Note, *, shows: bool = False) -> None:
        self.outcome, self.why = outcome, why
        self.shows = shows
        """Whether it is measured all the same, since a bless of that helps."""


class SideUnavailable(Exception):
    """There is no other side to compare with."""

    def __init__(self, why: Note, *, in_no_form: bool = False) -> None:
        self.why = why
        self.in_no_form = in_no_form
        """Whether no other form of an A/B run can be had either."""


@dataclass
class Underway:
    """What is known of one workload by now, and what makes more of it known."""

    expected: Expectation
    lab: Lab
    policy: Policy
    against: bool = False
    """Whether another commit is asked for in place of the baseline's."""
    affords: Affords = lambda _runs, _seconds: True
    runs: list[Run] = field(default_factory=list)
    """The candidate's, but for those in blocks."""
    references: list[Run] = field(default_factory=list)
    """The other commit's."""
    blocks: list[Run] = field(default_factory=list)
    """The candidate's in blocks."""
    alone_there: list[Run] = field(default_factory=list)
    """The other commit's that were made alone before blocks."""
    straight: Note | None = None
    """Why a screen did not count, or was not made."""
    no_pairs: Note | None = None
    """Why there is no A/B run, or none in blocks, where one was tried."""
    spent: int = 0
    """Runs of both sides that were made before pairs."""
    ended_by_time: bool = False

    def __post_init__(self) -> None:
        self.incomparable = why_incomparable(self.expected)
        """Why the baseline is none for this workload on this machine."""
        self.blessed = None if self.incomparable else self.expected.baseline
        """The baseline, where it may be compared with."""
        self.stored = None if self.against else self.blessed
        """What each run is held against: the baseline, unless another commit is all there is."""

    @property
    def own(self) -> Sequence[Run]:
        """The candidate's runs that were judged last."""
        return self.blocks or self.runs

    # Runs

    def make(self, number: int) -> Iterator[Run]:
        """Make runs of the candidate, each counted in as it comes.

        Raises:
            Ended: one came to nothing, or does not count.
        """
        try:
            with closing(self.lab.runs(number)) as made:  # what is started ahead ends with it
                for run in made:
                    self._take(run, self.runs)
                    yield run
        except NotMeasured as failed:
            raise Ended(Outcome.NOT_MEASURED, noted(failed)) from failed

    def make_pairs(self, form: Form, number: int) -> Iterator[Pair]:
        """Make pairs, both runs of each counted in as it comes.

        Raises:
            Ended: the candidate's run came to nothing, or does not count.
            SideUnavailable: the other commit's did, or the candidate's in a way that it may not
            alone.
        """
        try:
            with closing(self.lab.pairs(form, number)) as made:
                for pair in made:
                    there = self.alone_there if form is Form.ALONE else self.references
                    there.append(pair.reference)
                    self._take(pair.candidate, self.blocks if form is Form.BLOCK else self.runs)
                    yield pair
        except SideMissing as missing:
            gone = isinstance(missing, RevisionMissing)
            raise SideUnavailable(noted(missing), in_no_form=gone) from missing
        except NotMeasured as failed:
            if form is Form.BLOCK:
                # Perhaps it does not stand more steps, or both at once: alone it will show.
                raise SideUnavailable(noted(failed, Severity.WARN)) from failed
            raise Ended(Outcome.NOT_MEASURED, noted(failed)) from failed

    def _take(self, run: Run, into: list[Run]) -> None:
        into.append(run)
        made, unfit = [*self.runs, *self.blocks], run.conditions.invalid
        why = [*unfit, *run.invalid]
        first, now = len(made[0].processes), len(run.processes)
        if first != now:  # a rank that took no step leaves no trace in the values of the others
            why.append(note("processes-lost", first=first, now=now))
        # Blocks change sides where a start would show.
        why += first_time_work([*self.alone_there, *self.runs])
        if why:
            code = "run-unfit" if unfit else "run-invalid"
            raise Ended(Outcome.INVALID, note(code, run=len(made), why=tuple(why)))
        if self.stored is not None and (other := differs(self.stored.runs, run)) is not None:
            raise self.not_comparable(other)

    def not_comparable(self, other: Note) -> Ended:
        """The end of a gate whose runs do something else than what they are held against."""
        workload = self.expected.workload
        code = "sides-differ" if self.stored is None else "runs-differ"
        why = note(code, workload=workload.id, file=workload.source, differs=other)
        return Ended(Outcome.INCOMPARABLE, why, shows=self.stored is not None)

    # What may be spent

    def may_spend(self, runs: int) -> bool:
        """Whether so many more runs are within the budget of time, going by those made so far."""
        may = self.affords(runs, self.run_s)
        self.ended_by_time = self.ended_by_time or not may
        return may

    @property
    def run_s(self) -> float:
        """What a run takes, s: in this gate, or when it was blessed; 0 where nobody knows."""
        made = [run.wall_s for run in (*self.runs, *self.blocks, *self.references)]
        if not made and self.expected.baseline is not None:
            made = [run.wall_s for run in self.expected.baseline.runs if run.wall_s is not None]
        return median(made) if made else 0.0

    # What the judge says

    def judged(self, stage: Stage) -> Verdict:
        """The word so far."""
        return judge(self.evidence(), self.policy, stage)

    def evidence(self) -> Evidence:
        """What the judge needs: all that was measured, and how it came about."""
        alone = len(self.runs) - (0 if self.blocks else len(self.references))
        pairs = zip(self.references, self.blocks or self.runs[alone:], strict=True)
        return Evidence(
            workload=self.expected.workload.id,
            blessed=self.stored,
            alone=tuple(self.runs[:alone]),
            alone_there=tuple(self.alone_there),
            pairs=tuple((there, in_noise_of(there, here)) for there, here in pairs),
            spread=self.spread,
            spent=self.spent,
        )

    @cached_property
    def spread(self) -> Mapping[Metric, Learnt]:
        """What other workloads say of how occasions on this machine differ."""
        return {} if self.stored is None else learn(self.expected.others, of=self.stored)

    # What came of it

    def unjudged(self, outcome: Outcome, why: Note) -> Verdict:
        """A verdict that rests on no judgement of the runs that were made."""
        baseline = self.expected.baseline
        return Verdict(
            workload=self.expected.workload.id,
            outcome=outcome,
            why=why,
            runs=len(self.runs) + len(self.blocks),
            baseline_runs=0 if baseline is None else len(baseline.runs),
        )


def step_times(runs: Sequence[Run]) -> tuple[float, ...]:
    """step_ms of those runs that measured it."""
    return tuple(value for run in runs if (value := run.value(Metric.STEP_MS)) is not None)
