"""Fresh runs of one workload on this machine, each on an idle GPU: of a candidate alone, and in
pairs with another commit."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from statistics import median

from perfgate.execute.ahead import RunFailed, Wanted, in_blocks
from perfgate.execute.lab import Against, Asked, Pair, blessed_at
from perfgate.execute.laboratory import Laboratory, OtherSide
from perfgate.execute.plan import (
    PlannedRun,
    Turn,
    first_of,
    how_to_run,
    steps_in_blocks,
    steps_of_a_block,
    turns_of,
)
from perfgate.execute.provenance import SHOWN, is_as_blessed, prove_apart
from perfgate.execute.run import TRIES, Measured
from perfgate.model.baseline import Baseline, BlessedRun, changed_code, code_digest
from perfgate.model.errors import (
    CodeUnproven,
    NotMeasured,
    NsysCrashed,
    PerfgateError,
    WorkloadFailed,
    WorktreeFailed,
)
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Note, Severity, note, noted
from perfgate.model.sample import Form, Run
from perfgate.model.settings import ABForm
from perfgate.model.workload import Workload
from perfgate.system.process import ignore

_Made = tuple[PlannedRun, Measured]


@dataclass
class _Started:
    """Runs of either side that are started together, or one that is made when it is asked for."""

    jobs: Sequence[PlannedRun]
    made: Generator[Measured]
    is_alone: bool
    """Whether nothing is alive next to it that it could do without."""


class FreshLab:
    """Makes the runs of one workload, each on an idle GPU; whoever judges reads what it returns."""

    def __init__(
        self, of: Laboratory, workload: Workload, folder: Path, *, baseline: Baseline | None
    ) -> None:
        self._of = of
        self._workload = workload
        self._folder = folder
        self._baseline = baseline
        blessed = () if baseline is None else baseline.values(Metric.STEP_MS)
        # What is known of the runs so far
        self.last: Measured | None = None
        """The candidate's last one."""
        self.environment: Mapping[str, str] | None = None
        """Variables that may change how fast the candidate is, of its first run with any."""
        self._step_ms = median(blessed) if blessed else None
        """What a step takes that is not in blocks: in the last such run, or the blessed ones."""
        self._steps = workload.steps
        """Steps of a run; None where its first run, of either side, is still to choose."""
        # Of a baseline that declared how many steps, nobody has chosen them.
        if self._steps is None and baseline and baseline.parameters.get("steps") == "auto":
            self._steps = next((run.steps for run in baseline.runs if run.steps), None)
        self._taken: Counter[Form | None] = Counter()
        """Pairs by their form; by None the candidate's runs, of pairs too."""
        self._named: Counter[str] = Counter()
        """Runs that were started, by what their folders are called."""
        # What is still to be made
        self._stages: tuple[Asked, ...] = ()
        """What was prepared, and is still to be asked for."""
        self._left: list[Turn] = []
        """What of it is still to be made, also of what was asked for last."""
        self._batch: _Started | None = None
        self._failed_together: PerfgateError | None = None
        """Why runs are not started together any more."""

    @property
    def machine(self) -> Machine:
        """The machine, with the versions that the worker really loaded."""
        machine = self._of.context.machine
        report = None if self.last is None else self.last.worker_report
        if report is None:
            return machine
        loaded = {"torch": report.torch, "cuda": report.cuda or machine.cuda, "nvtx": report.nvtx}
        return machine.model_copy(update=loaded)

    @property
    def forms(self) -> frozenset[Form]:
        """Blocks are for the loops of decorated workloads on one GPU."""
        asked = self._of.asked.settings.ab_run
        if self._of.asked.against is None and (self._baseline is None or asked is ABForm.OFF):
            return frozenset()
        may_block = self._workload.form == "function" and len(self._of.context.machine.gpus) <= 1
        if asked is ABForm.INTERLEAVE and may_block:
            return frozenset({Form.BLOCK})
        return frozenset(
            {Form.PAIR, Form.BLOCK} if asked is ABForm.AUTO and may_block else {Form.PAIR}
        )

    @property
    def commit(self) -> Against:
        """The other commit."""
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
        if self._stages == asked and self._left:
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
        if self._left and self._how()[0] is not Form.ALONE:
            self._batch = replace(self._start(), is_alone=False)
            self._of.end_standing = self.close

    def close(self) -> None:
        """End what was started and is not wanted any more."""
        self._end_batch()
        self._stages, self._left = (), []

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
                self._taken[form] += 1
                if (tree := self._other.context.tree) is not None:
                    logs = {"reference": there.import_logs, "candidate": here.import_logs}
                    prove_apart(self._workload, tree, **logs)
                yield Pair(reference=there.run, candidate=here.run)

    def _asked(self, form: Form | None, number: int) -> Generator[_Made]:
        """What was prepared, if it is that; whoever wants no more of it ends all of it.

        Each turn is made with as many ahead as there is room for. Where some fail that are alive at
        once, each is made again by itself; so is one in which nsys broke down.
        """
        if self._stages[:1] != ((form, number),):
            self._plan((form, number))
        plan, self._stages = self._left, self._stages[1:]
        wanted = number if form is None else 2 * number
        try:
            while wanted:
                if self._batch is None:
                    self._batch = self._start()
                elif self._of.end_standing == self.close:
                    self._of.end_standing = None  # it is asked for
                batch, read = self._batch, list[_Made]()
                try:
                    # Of a pair in blocks neither side counts without the other.
                    for job in self._left[0]:
                        with self._of.listener.run(self._title(job, len(batch.jobs))):
                            read.append((job, next(batch.made)))
                except RunFailed as failed:
                    self._try_again(batch, batch.jobs[failed.number], failed.error)
                    continue
                except PerfgateError as failed:
                    self._try_again(batch, job, failed)
                    continue
                del self._left[0]
                if job is batch.jobs[-1]:
                    self._end_batch()
                finished = [(job, self._finished(job, made)) for job, made in read]
                wanted -= len(finished)
                yield from finished
        finally:
            if self._left is plan and (wanted or not self._stages):
                self.close()

    def _plan(self, *asked: Asked) -> None:
        self.close()
        self._stages = asked
        for form, number in asked:
            self._left += turns_of(form, self._taken[form], number)

    # Runs of either side

    def _start(self) -> _Started:
        """Start as many of what is left as there is room for."""
        form, most = self._how()
        turns = first_of(self._left, most, with_blocks=self._step_ms is not None)
        if len(turns[0]) > 1 and form is Form.ALONE:
            form = Form.EARLY  # both sides of a pair are alive at once in any case
        if self._of.end_standing is not None:
            self._of.end_standing()  # its runs are to see nothing of these
            self._of.end_standing = None
        then = self._of.at_end if len(turns) == len(self._left) else ignore
        made = self._of.make(self._wanted(turns), form, then)
        return _Started([*chain(*turns)], made, is_alone=len(turns) == 1)

    def _end_batch(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.made.close()

    def _how(self) -> tuple[Form, int]:
        """The form of the next runs, and how many at once."""
        asked = self._workload.ahead or self._of.asked.settings.ahead
        if self._failed_together is not None:
            asked = 1
        known = [] if self._baseline is None else [*self._baseline.runs]
        if self.last is not None:
            known.append(BlessedRun.of(self.last.run))
        form, most = how_to_run(self._workload, self._of.context.machine, known, asked=asked)
        # The others take as many steps as the first one chooses.
        return form, most if self._steps is not None else 1

    def _wanted(self, turns: Sequence[Turn]) -> list[Wanted]:
        """What each of some runs is to do in one more try."""
        made: list[Wanted] = []
        for turn in turns:
            if len(turn) == 1:
                made.append(self._one(turn[0], self._steps))
                continue
            steps = self._steps_in_blocks
            made += in_blocks(
                [self._one(job, steps) for job in turn],
                candidate_begins=turn[0].candidate_begins,
                block_steps=steps_of_a_block(self._step_ms, steps),
                core=max(os.sched_getaffinity(0)),
            )
        return made

    def _one(self, job: PlannedRun, steps: int | None) -> Wanted:
        """One of them, in a folder of its own."""
        if not job.folder:
            self._named["run"] += 1
            job.folder = f"run-{self._named['run']}"
        self._named[job.folder] += 1  # also of one that was started before, and not wanted
        tries = self._named[job.folder]
        return Wanted(
            context=self._other.context if job.is_reference else self._of.context,
            workload=self._workload.model_copy(update={"steps": steps}),
            folder=self._folder / (job.folder if tries == 1 else f"{job.folder}-try-{tries}"),
            imports_torch=bool(self._baseline and self._baseline.machine.torch),
        )

    @cached_property
    def _steps_in_blocks(self) -> int:
        """Steps of a side of a pair in blocks: of all pairs as many as of the first."""
        return max(steps_in_blocks(self._step_ms), self._steps or 0)

    def _title(self, job: PlannedRun, together: int = 1) -> str:
        title = f"{job.title}, {self._other.shown}" if job.is_reference else job.title
        return title if together == 1 else f"{title} ({together} started together)"

    def _finished(self, job: PlannedRun, made: Measured) -> Measured:
        """A run of either side that was made, with its form; one of the other commit is held to
        what was blessed, one of the candidate to the code of the one before."""
        if job.is_reference:
            self._refuse_unblessed(made)
        run, before = made.run, self.last
        if run.form not in (Form.EARLY, Form.LATE):
            run = run.model_copy(update={"form": job.form})
        self._steps = self._steps or BlessedRun.of(run).steps
        if not job.is_reference and before is not None and made.code != before.code:
            paths = changed_code(before.code, made.code) + changed_code(made.code, before.code)
            first = tuple(dict.fromkeys(paths))[:SHOWN]
            changed = note("code-changed", Severity.INVALID, paths=first)
            run = run.model_copy(update={"notes": (*run.notes, changed)})
        made = replace(made, run=run)
        if not job.is_reference:
            if job.form is not Form.BLOCK:
                self._step_ms = run.value(Metric.STEP_MS) or self._step_ms
            if self.environment is None:
                self.environment = made.environment
            self._taken[None] += 1
            self.last = made
        self._of.listener.done(self._title(job), made.run)
        return made

    def _try_again(self, batch: _Started, job: PlannedRun, failed: PerfgateError) -> None:
        """Take in how one of a batch failed, which ends; what is left of it is made again.

        Raises:
            PerfgateError: it failed alone, and nsys is not to blame, or too often.
        """
        self._end_batch()
        if isinstance(failed, NsysCrashed) and self._named[job.folder] < TRIES:
            self._of.listener.crashed(failed)
        elif batch.is_alone:
            self._failed_together = None  # others alive next to it are not why it failed
            raise self._failed_alone(job, failed)
        if not batch.is_alone:
            self._failed_together = failed

    def _failed_alone(self, job: PlannedRun, failed: PerfgateError) -> PerfgateError:
        """What it means that a run came to nothing: in blocks its data may end before the turns do,
        and one of the other commit says nothing of the candidate."""
        name, alone = self._workload.id, self._steps or 0
        in_turns = job.form is Form.BLOCK and self._steps_in_blocks > alone
        if in_turns and isinstance(failed, WorkloadFailed):
            failed = WorkloadFailed(
                "failed-in-blocks",
                workload=name,
                failure=failed,
                turns=self._workload.warmup + self._steps_in_blocks,
                turns_alone=self._workload.warmup + alone,
            )
        if not job.is_reference or not isinstance(failed, NotMeasured):
            return failed
        shown = self._other.shown
        return WorktreeFailed("side-does-not-run", workload=name, commit=shown, failure=failed)

    # Whether the other side is what it is taken for

    @cached_property
    def _other(self) -> OtherSide:
        against = self._of.asked.against
        if against is None:
            assert self._baseline is not None  # without one there is no form
            against = blessed_at(self._baseline)
        return self._of.other(against)

    def _refuse_unblessed(self, made: Measured) -> None:
        """Hold a run of the other commit to the files that were blessed.

        Raises:
            CodeUnproven: they are others.
        """
        blessed = self._baseline if self._of.asked.against is None else None
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
