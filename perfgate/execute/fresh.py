"""Fresh runs of one workload on this machine, each on an idle GPU: of a candidate alone, and in
pairs with another commit."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from perfgate.execute.ahead import Batch, RunFailed, Wanted, in_blocks
from perfgate.execute.context import RunContext
from perfgate.execute.lab import SHOWN_SHA, Asked, Pair, blessed_at
from perfgate.execute.laboratory import Laboratory
from perfgate.execute.plan import (
    PlannedRun,
    Taken,
    Unit,
    first_of,
    how_to_run,
    pair_of,
    steps_of_a_block,
)
from perfgate.execute.provenance import is_as_blessed, prove_apart
from perfgate.execute.run import TRIES, Measured
from perfgate.model.baseline import Baseline, BlessedRun, code_digest
from perfgate.model.errors import (
    CodeUnproven,
    NotMeasured,
    NsysCrashed,
    PerfgateError,
    WorkloadFailed,
    WorktreeFailed,
)
from perfgate.model.machine import Machine
from perfgate.model.note import Note, Severity, note, noted
from perfgate.model.sample import Form, Run
from perfgate.model.settings import ABForm
from perfgate.model.workload import Workload

_Made = tuple[PlannedRun, Measured]


@dataclass(frozen=True, kw_only=True)
class _Other:
    """The other commit, ready to run."""

    revision: str
    commit: str
    context: RunContext

    @property
    def shown(self) -> str:
        return self.commit[:SHOWN_SHA]


@dataclass(frozen=True)
class _Started:
    """Runs of either side that are started together, or one that is made when it is asked for."""

    jobs: Sequence[PlannedRun]
    made: Generator[Measured] | Batch
    joins_others: bool = False
    """Whether it was started while the last runs of another workload were alive."""

    @property
    def is_alone(self) -> bool:
        """Whether nothing is alive next to it that it could do without."""
        fewest = 2 if self.jobs[0].form is Form.BLOCK else 1
        return len(self.jobs) == fewest and not self.joins_others


class FreshLab:
    """Makes the runs of one workload, each on an idle GPU; whoever judges reads what it returns."""

    def __init__(
        self, of: Laboratory, workload: Workload, folder: Path, *, baseline: Baseline | None
    ) -> None:
        self._of = of
        self._workload = workload
        self._folder = folder
        self._baseline = baseline
        self._against = of.asked.against
        self.taken = Taken(workload, baseline)
        self._named: Counter[str] = Counter()
        """Runs that were started, by what their folders are called."""
        self._pairs: Counter[Form] = Counter()
        self._stages: tuple[Asked, ...] = ()
        """What was prepared, and is still to be asked for."""
        self._left: list[Unit] = []
        """What of it is still to be made, also of what was asked for last."""
        self._making: Generator[_Made] | None = None
        self._batch: _Started | None = None
        """What is started, and was not asked for yet."""
        self.started = 0
        self._failed_together: PerfgateError | None = None
        """Why runs are not started together any more."""

    @property
    def machine(self) -> Machine:
        """The machine, with the versions that the worker really loaded."""
        machine = self._of.context.machine
        report = None if self.taken.last is None else self.taken.last.worker_report
        if report is None:
            return machine
        loaded = {"torch": report.torch, "cuda": report.cuda or machine.cuda, "nvtx": report.nvtx}
        return machine.model_copy(update=loaded)

    @property
    def forms(self) -> frozenset[Form]:
        """Blocks are for the loops of decorated workloads on one GPU."""
        asked = self._of.asked.settings.ab_run
        if self._against is None and (self._baseline is None or asked is ABForm.OFF):
            return frozenset()
        in_blocks = self._workload.form == "function" and len(self._of.context.machine.gpus) <= 1
        match asked:
            case ABForm.INTERLEAVE if in_blocks:
                return frozenset({Form.BLOCK})
            case ABForm.AUTO if in_blocks:
                return frozenset({Form.PAIR, Form.BLOCK})
            case _:
                return frozenset({Form.PAIR})

    @property
    def revision(self) -> str:
        """The other commit as it was asked for."""
        return self._other.revision if self._against is None else self._against.revision

    @property
    def commit(self) -> str:
        """Its SHA."""
        return self._other.commit

    @property
    def notes(self) -> tuple[Note, ...]:
        """What is to be known of how its runs were made."""
        failed = self._failed_together
        if failed is None or isinstance(failed, NsysCrashed):
            return ()
        return (note("ahead-failed", Severity.WARN, failure=noted(failed)),)

    # What is asked for

    def prepare(self, *asked: Asked) -> None:
        """Know what will be asked for next, to start runs of several stages together."""
        if self._stages == asked and self._making is not None:
            return
        try:
            _ = any(form is not None for form, _ in asked) and self._other
        except PerfgateError:
            self.close()  # whoever asks for it hears why
        else:
            self._plan(*asked)

    def start_first(self, *asked: Asked) -> None:
        """Prepare what will be asked for, and start the first of it where that can wait."""
        self.prepare(*asked)
        form, _ = self._how()
        if self._left and form is not Form.ALONE:
            self._batch = replace(self._start(), joins_others=True)
            self._of.end_standing = self.close

    def close(self) -> None:
        """End what was started and is not wanted any more."""
        if self._making is not None:
            self._making.close()
        if self._batch is not None:
            self._batch.made.close()
        self._making = self._batch = None
        self._stages, self._left, self.started = (), [], 0

    def runs(self, number: int) -> Generator[Run]:
        """Make runs of the candidate, as many of them started together as there is room for."""
        for _, made in self._asked(None, number):
            yield made.run

    def pairs(self, form: Form, number: int) -> Generator[Pair]:
        """Make pairs in one form; every other one begins with the other side (ABBA)."""
        made = self._asked(form, number)
        with closing(made):
            for (job, one), (_, other) in zip(made, made, strict=True):
                there, here = (one, other) if job.is_reference else (other, one)
                self._pairs[form] += 1
                yield self._held_apart(there, here)

    def _asked(self, form: Form | None, number: int) -> Generator[_Made]:
        """What was prepared, if it is that; whoever wants no more of it ends all of it."""
        if self._stages[:1] != ((form, number),):
            self._plan((form, number))
        making, self._stages = self._making, self._stages[1:]
        assert making is not None
        left = number if form is None else 2 * number
        try:
            for made in islice(making, left):
                left -= 1
                yield made
        finally:
            if self._making is making and (left or not self._stages):
                self.close()

    def _plan(self, *asked: Asked) -> None:
        self.close()
        self._stages = asked
        self._left = [unit for form, number in asked for unit in self._units(form, number)]
        self._making = self._made()

    def _units(self, form: Form | None, number: int) -> list[Unit]:
        """What is made together if there is room: each run of the candidate, or both of a pair."""
        after = self.taken.own if form is None else self._pairs[form]
        planned = after + number
        if form is None:
            return [
                (PlannedRun(title=f"run {index + 1} of {planned}", form=Form.ALONE),)
                for index in range(after, planned)
            ]
        return [pair_of(form, index, planned) for index in range(after, planned)]

    # Runs of either side

    def _made(self) -> Generator[_Made]:
        """Make what is left of runs of either side, as many ahead as there is room for.

        Where some fail that are alive at once, each unit is made again by itself; so is one in
        which nsys broke down.
        """
        while self._left:
            batch, self._batch = self._batch or self._start(), None
            self._of.end_standing = None
            try:
                yield from self._of_batch(batch)
            except RunFailed as failed:
                self.started = 0
                self._try_again(batch.jobs[failed.number], failed.error, is_alone=batch.is_alone)

    def _start(self) -> _Started:
        """Start as many of what is left as there is room for."""
        form, most = self._how()
        jobs = first_of(self._left, most, with_blocks=self.taken.step_ms is not None)
        if jobs[0].form is Form.BLOCK and form is Form.ALONE:
            form = Form.EARLY  # both sides of a pair are alive at once in any case
        standing = self._of.end_standing
        if standing is not None and standing != self.close:
            standing()  # its runs are to see nothing of these
        is_last = len(jobs) == sum(map(len, self._left))
        made = self._of.make(self._wanted(jobs), form, self._of.at_end if is_last else lambda: None)
        self.started = len(jobs)
        return _Started(jobs, made)

    def _of_batch(self, batch: _Started) -> Iterator[_Made]:
        """Take the runs of a batch, and each that is there off what is left."""
        read: list[_Made] = []
        with closing(batch.made):
            for number, job in enumerate(batch.jobs):
                with self._of.listener.run(self._title(job, len(batch.jobs))):
                    try:
                        read.append((job, next(batch.made)))
                    except PerfgateError as failed:
                        raise RunFailed(number, failed) from failed
                if job.form is Form.BLOCK and job.is_reference:
                    continue  # neither side of these counts without the other
                for each, made in read:
                    self._left[:1] = [self._left[0][1:]] if len(self._left[0]) > 1 else []
                    self.started -= 1
                    yield each, self._finished(each, made)
                read.clear()

    def _how(self) -> tuple[Form, int]:
        """The form of the next runs, and how many at once."""
        asked = self._workload.ahead or self._of.asked.settings.ahead
        if self._failed_together is not None:
            asked = 1
        last, blessed = self.taken.last, () if self._baseline is None else self._baseline.runs
        own = () if last is None else (BlessedRun.of(last.run),)
        form, most = how_to_run(
            self._workload, self._of.context.machine, (*blessed, *own), asked=asked
        )
        # The others take as many steps as the first one chooses.
        return form, most if self.taken.steps is not None else 1

    def _wanted(self, batch: Sequence[PlannedRun]) -> list[Wanted]:
        """Folders for one more try of some runs, and what each is to do."""
        made: list[Wanted] = []
        for job in batch:
            if not job.folder:
                self._named["run"] += 1
                job.folder = f"run-{self._named['run']}"
            job.tries += 1
            self._named[job.folder] += 1  # also of one that was started before, and not wanted
            named = self._named[job.folder]
            folder = job.folder if named == 1 else f"{job.folder}-try-{named}"
            in_turns = job.form is Form.BLOCK
            steps = self.taken.steps_in_blocks() if in_turns else self.taken.steps
            made.append(
                Wanted(
                    context=self._other.context if job.is_reference else self._of.context,
                    workload=self._workload.model_copy(update={"steps": steps}),
                    folder=self._folder / folder,
                )
            )
            if in_turns and not job.is_reference:
                reference = batch[len(made) - 2]
                made[-2:] = in_blocks(
                    (made[-2], made[-1]),
                    candidate_begins=reference.candidate_begins,
                    block_steps=steps_of_a_block(self.taken.step_ms, steps or 0),
                    core=max(os.sched_getaffinity(0)),
                )
        return made

    def _title(self, job: PlannedRun, together: int = 1) -> str:
        title = f"{job.title}, {self._other.shown}" if job.is_reference else job.title
        return title if together == 1 else f"{title} ({together} started together)"

    def _finished(self, job: PlannedRun, made: Measured) -> Measured:
        """A run of either side that was made, held to what it is to be."""
        if job.is_reference:
            self._refuse_unblessed(made)
        made = self.taken.take(job, made)
        self._of.listener.done(self._title(job), made.run)
        return made

    def _try_again(self, job: PlannedRun, failed: PerfgateError, *, is_alone: bool) -> None:
        """Take in how one of a batch failed, what is left of which is made again.

        Raises:
            PerfgateError: it failed alone, and nsys is not to blame, or too often.
        """
        if isinstance(failed, NsysCrashed) and job.tries < TRIES:
            self._of.listener.crashed(failed)
        elif is_alone:
            self._failed_together = None  # others alive next to it are not why it failed
            raise self._failed_alone(job, failed)
        if not is_alone:
            self._failed_together = failed

    def _failed_alone(self, job: PlannedRun, failed: PerfgateError) -> PerfgateError:
        """What it means that a run came to nothing: in blocks its data may end before the turns do,
        and one of the other commit says nothing of the candidate."""
        in_turns = job.form is Form.BLOCK and isinstance(failed, WorkloadFailed)
        alone = self.taken.steps or 0
        if in_turns and (steps := self.taken.steps_in_blocks()) > alone:
            failed = WorkloadFailed(
                "failed-in-blocks",
                workload=self._workload.id,
                failure=failed,
                turns=self._workload.warmup + steps,
                turns_alone=self._workload.warmup + alone,
            )
        if not job.is_reference or not isinstance(failed, NotMeasured):
            return failed
        return WorktreeFailed(
            "side-does-not-run",
            workload=self._workload.id,
            commit=self._other.shown,
            failure=failed,
        )

    # Whether the other side is what it is taken for

    @cached_property
    def _other(self) -> _Other:
        against = self._against
        if against is None:
            assert self._baseline is not None  # without one there is no form
            against = blessed_at(self._baseline)
        commit = self._of.found(against)
        same = "" if commit == against.commit else f"{commit[:SHOWN_SHA]}, which has the files of "
        return _Other(
            revision=f"{same}{against.revision}", commit=commit, context=self._of.checkout(commit)
        )

    def _refuse_unblessed(self, made: Measured) -> None:
        """Hold a run of the other commit to the files that were blessed.

        Raises:
            CodeUnproven: they are others.
        """
        blessed = self._baseline if self._against is None else None
        if blessed is None or blessed.code in (None, code_digest(made.code)):
            return
        # Older baselines of a command noted another set of files; that its commit was clean is
        # known.
        is_same = self._workload.form == "command"
        if blessed.code_files:
            is_same = is_as_blessed(self._other.context, made.code, blessed.code_files)
        if not is_same:
            raise CodeUnproven(
                "files-not-as-blessed", workload=self._workload.id, commit=self._other.shown
            )

    def _held_apart(self, there: Measured, here: Measured) -> Pair:
        """Hold what the other commit's run loaded to what the candidate's did."""
        tree = self._other.context.tree
        if tree is not None:
            prove_apart(
                self._workload,
                tree,
                reference=there.import_logs,
                candidate=here.import_logs,
            )
        return Pair(reference=there.run, candidate=here.run)
