"""Runs and pairs of one workload: who begins, what each is held to, who is to blame; without nsys
and git."""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support import records
from support.refused import refused

from perfgate.execute.ahead import RunFailed, Wanted
from perfgate.execute.folder import ImportLog
from perfgate.execute.fresh import FreshLab
from perfgate.execute.lab import Against, Invocation, blessed_at
from perfgate.execute.laboratory import Laboratory, OtherSide
from perfgate.execute.plan import steps_in_blocks, steps_of_a_block
from perfgate.execute.run import Measured
from perfgate.execute.worktree import Worktree
from perfgate.model.baseline import Baseline, Commit, code_digest
from perfgate.model.errors import (
    CaptureUnreadable,
    CodeUnproven,
    NsysCrashed,
    PerfgateError,
    RevisionMissing,
    StoreFailed,
    WorkloadFailed,
    WorkloadTimedOut,
    WorktreeFailed,
)
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.order import Ending, WorkerReport
from perfgate.model.sample import Form
from perfgate.model.settings import Settings
from perfgate.model.workload import Workload
from perfgate.plugin.progress import Progress
from perfgate.profilers.nsys.tool import NsysTool, NsysVersion

SHA = "0123456789abcdef0123456789abcdef01234567"
CRASHED = NsysCrashed("quoted", text="mlp: nsys failed")
OTHER = {**records.CODE, "model.py": "c" * 64}


def measured(
    step_ms: float = 12.34,
    *,
    code: Mapping[str, str] = records.CODE,
    loaded: tuple[str, ...] | None = None,
) -> Measured:
    worker_report = WorkerReport(
        ending=Ending.FINISHED, pid=1, torch="2.6.0", cuda="12.4", nvtx="0.2.11"
    )
    logs = () if loaded is None else (ImportLog(pid=1, files=loaded),)
    run = records.run({Metric.STEP_MS: step_ms})
    return Measured(run=run, worker_report=worker_report, code=code, import_logs=logs)


class Prepared(Laboratory):
    """A laboratory of prepared runs, which notes where each was to be made."""

    def __init__(self, folder: Path, baseline: Baseline | None = None) -> None:
        asked = Invocation(
            root=folder / "project",
            settings=Settings(),
            env={},
            worker_env={},
            against=Against(revision="HEAD~1", commit=SHA) if baseline is None else None,
        )
        self.out = io.StringIO()
        super().__init__(asked, Progress(self.out, live=False, width=200))
        self.folder = folder
        self.left: list[Measured | tuple[Measured, Measured] | BaseException] = []
        self.made: list[str] = []
        self.batches: list[list[str]] = []
        self.steps: list[int | None] = []
        self.forms: list[Form] = []
        self.tree: Worktree | None = None
        self.baseline = baseline

    def look(self) -> tuple[NsysTool, Machine]:
        return NsysTool(path=Path("nsys"), version=NsysVersion(2024, 2, 3), env={}), Machine()

    def other(self, against: Against) -> OtherSide:
        assert against.commit == SHA
        there = replace(self.context, root=self.folder / "checkout", tree=self.tree)
        return OtherSide(commit=against, context=there)

    def make(
        self, wanted: Sequence[Wanted], form: Form, then: Callable[[], None] = lambda: None
    ) -> Generator[Measured]:
        del then
        self.forms.append(form)
        self.steps.append(wanted[0].workload.steps)
        self.batches.append([one.folder.name for one in wanted])
        if wanted[-1].blocks is not None and wanted[0].blocks is None:
            for one in wanted:  # all are started together
                yield self._one(one)
            return
        if wanted[0].blocks is not None:
            there, here, *_ = wanted
            assert there.blocks is not None
            begins = "reference" if there.blocks.begins else "candidate"
            steps = here.workload.steps
            made = self._next(f"{there.folder.name} | {here.folder.name}: {begins} {steps}")
            assert isinstance(made, tuple)
            yield from made
            return
        for one in wanted:
            yield self._one(one)

    def _one(self, wanted: Wanted) -> Measured:
        alone = self._next(f"{wanted.context.root.name}: {wanted.folder.name}")
        assert isinstance(alone, Measured)
        return alone

    def _next(self, where: str) -> Measured | tuple[Measured, Measured]:
        self.made.append(where)
        made = self.left.pop(0)
        if isinstance(made, BaseException):
            raise made
        return made

    def of(self, workload: Workload | None = None) -> FreshLab:
        return FreshLab(self, workload or records.workload(), self.folder, baseline=self.baseline)


class Standing(Prepared):
    """Notes which runs are started, and which are ended."""

    def make(
        self, wanted: Sequence[Wanted], form: Form, then: Callable[[], None] = lambda: None
    ) -> Generator[Measured]:
        names = " ".join(f"{one.folder.parent.name}/{one.folder.name}" for one in wanted)

        def made() -> Generator[Measured]:
            try:
                yield measured()  # at once: all of them are started
                for number in range(len(wanted)):
                    if number + 1 == len(wanted):
                        then()
                    yield measured()
            finally:
                self.made.append(f"end {names}")

        self.made.append(f"start {names}")
        started = made()
        next(started)
        return started


def values(lab: FreshLab, form: Form, number: int) -> list[tuple[float, float]]:
    return [
        (pair.reference.measured()[Metric.STEP_MS], pair.candidate.measured()[Metric.STEP_MS])
        for pair in lab.pairs(form, number)
    ]


def test_runs_are_numbered_on_and_code_that_changes_between_them_is_noted(
    tmp_path: Path,
) -> None:
    of = Prepared(tmp_path)
    of.left = [measured(), CRASHED, CRASHED, measured(), measured(code=OTHER)]
    lab = of.of()
    assert [bool(run.invalid) for run in (*lab.runs(2), *lab.runs(1))] == [False, False, True]
    assert of.made == [
        "project: run-1",
        "project: run-2",
        "project: run-2-try-2",
        "project: run-2-try-3",
        "project: run-3",
    ]
    assert lab.last is not None
    assert lab.last.code == OTHER
    (changed,) = lab.last.run.invalid
    assert (changed.code, changed.fields["paths"]) == ("code-changed", ("model.py",))
    assert lab.machine.torch == "2.6.0"


def standing(folder: Path) -> tuple[Standing, FreshLab, FreshLab]:
    """The labs of a workload and of the next one, which is started when this one ends."""
    of = Standing(folder)
    settings = of.asked.settings.model_copy(update={"ahead": 2})
    of.asked = replace(of.asked, settings=settings)
    this, following = (
        FreshLab(of, records.workload(), folder / name, baseline=None) for name in "ab"
    )
    coming = [following]

    def at_end() -> None:
        for lab in coming[:1]:
            coming.clear()
            lab.start_first((None, 2))

    of.at_end = at_end
    return of, this, following


def test_the_next_workloads_runs_are_started_when_the_last_of_this_one_end(tmp_path: Path) -> None:
    of, this, following = standing(tmp_path)
    assert len(list(this.runs(3))) == 3
    assert of.made[:2] == ["start a/run-1 a/run-2", "end a/run-1 a/run-2"]
    assert of.made[2:] == ["start a/run-3", "start b/run-1 b/run-2", "end a/run-3"]
    this.close()
    assert len(list(following.runs(2))) == 2
    assert of.made[5:] == ["end b/run-1 b/run-2"]


@pytest.mark.parametrize("error", [WorkloadFailed, WorkloadTimedOut])
@pytest.mark.parametrize("form", [None, Form.BLOCK])
def test_one_that_fails_next_to_the_last_workloads_runs_is_made_again_alone(
    tmp_path: Path, form: Form | None, error: type[PerfgateError]
) -> None:
    of = Prepared(tmp_path)
    taken = error("quoted", text="the port is taken")
    pair = (measured(), measured())
    of.left = [taken, measured() if form is None else pair]
    lab = of.of()
    lab.start_first((form, 1))
    made = list(lab.runs(1) if form is None else lab.pairs(form, 1))
    assert len(made) == 1
    assert [one.code for one in lab.notes] == ["ahead-failed"]
    of.left = [taken, taken]
    lab = of.of()
    lab.start_first((form, 1))
    with pytest.raises(error if form is None else WorktreeFailed):
        list(lab.runs(1) if form is None else lab.pairs(form, 1))


STAGES = ((None, 1), (Form.ALONE, 1), (Form.BLOCK, 2))
TOGETHER = ["run-1", "reference-alone", "run-2"]
PAIRS = [["interleaved-reference-1", "run-3"], ["interleaved-reference-2", "run-4"]]


def roomy(folder: Path, *, ahead: int, baseline: Baseline | None = None) -> Prepared:
    of = Prepared(folder, baseline)
    settings = of.asked.settings.model_copy(update={"ahead": ahead})
    of.asked = replace(of.asked, settings=settings)
    return of


def known_step() -> Baseline:
    """A baseline that says how long a step takes."""
    return records.baseline([{Metric.STEP_MS: 12.34}])


def settled(lab: FreshLab) -> list[float]:
    """The candidate's step times of all stages."""
    alone = [run.value(Metric.STEP_MS) or 0.0 for run in lab.runs(1)]
    pairs = [pair for form, number in STAGES[1:] for pair in lab.pairs(form or Form.PAIR, number)]
    return [*alone, *(pair.candidate.value(Metric.STEP_MS) or 0.0 for pair in pairs)]


@pytest.mark.parametrize(
    ("ahead", "batches"),
    [
        (8, [[*TOGETHER, *PAIRS[0], *PAIRS[1]]]),
        (6, [[*TOGETHER, *PAIRS[0]], PAIRS[1]]),
        (1, [["run-1"], ["reference-alone"], ["run-2"], *PAIRS]),
    ],
)
def test_what_was_prepared_is_started_together_as_far_as_there_is_room(
    tmp_path: Path, ahead: int, batches: list[list[str]]
) -> None:
    of = roomy(tmp_path, ahead=ahead, baseline=known_step())
    sides = [measured(n) for n in range(1, 8)]
    for batch in batches:
        taken, sides = sides[: len(batch)], sides[len(batch) :]
        of.left += [(taken[0], taken[1])] if batch in PAIRS else taken
    lab = of.of()
    lab.prepare(*STAGES)
    assert settled(lab) == [1, 3, 5, 7]
    assert of.batches == batches


def test_blocks_are_not_started_before_it_is_known_how_long_a_step_takes(tmp_path: Path) -> None:
    of = roomy(tmp_path, ahead=8)
    of.left = [measured(500.0), measured(500.0), (measured(), measured())]
    lab = of.of()
    lab.prepare((Form.ALONE, 1), (Form.BLOCK, 1))
    assert [len(list(lab.pairs(form, 1))) for form in (Form.ALONE, Form.BLOCK)] == [1, 1]
    assert of.made[-1] == "interleaved-reference-1 | run-2: reference 30"


def test_all_pairs_in_blocks_take_equally_many_steps(tmp_path: Path) -> None:
    of = roomy(tmp_path, ahead=1, baseline=known_step())
    of.left = [(measured(), measured()), measured(25.0), (measured(), measured())]
    lab = of.of()
    lab.prepare((Form.BLOCK, 1), (None, 1))
    assert len([*lab.pairs(Form.BLOCK, 1), *lab.runs(1), *lab.pairs(Form.BLOCK, 1)]) == 3
    assert [made.rpartition(" ")[2] for made in of.made] == ["360", "run-2", "360"]


def test_later_runs_take_as_many_steps_as_the_first_chose(tmp_path: Path) -> None:
    of = Prepared(tmp_path)
    of.left = [measured(), measured(), (measured(), measured())]
    lab = of.of(records.workload().model_copy(update={"steps": None}))
    for _ in range(2):
        (_run,) = lab.runs(1)
    (_pair,) = lab.pairs(Form.BLOCK, 1)
    chosen = records.run().processes[0].steps
    assert of.steps == [None, chosen, 360]


@pytest.mark.parametrize(("declared", "taken"), [("auto", 60), ("60", None)])
def test_it_takes_as_many_steps_as_the_baselines_runs_chose(
    tmp_path: Path, declared: str, taken: int | None
) -> None:
    baseline = records.baseline([{Metric.STEP_MS: 12.34}])
    (occasion,) = baseline.occasions
    (run,) = occasion.runs
    occasion = occasion.model_copy(update={"runs": (run.model_copy(update={"steps": 60}),)})
    parameters = {**baseline.parameters, "steps": declared}
    update = {"occasions": (occasion,), "parameters": parameters}
    of = Prepared(tmp_path, baseline.model_copy(update=update))
    of.left = [measured()]
    (_,) = of.of(records.workload().model_copy(update={"steps": None})).runs(1)
    assert of.steps == [taken]


def test_a_pair_in_blocks_of_which_one_side_cannot_be_read_is_made_again_as_a_whole(
    tmp_path: Path,
) -> None:
    of = roomy(tmp_path, ahead=8, baseline=known_step())
    of.left = [*map(measured, range(1, 5)), RunFailed(4, error(CaptureUnreadable))]
    of.left += [(measured(6), measured(7))]
    lab = of.of()
    lab.prepare(*STAGES[:2], (Form.BLOCK, 1))
    assert [run.value(Metric.STEP_MS) for run in lab.runs(1)] == [1]
    assert [values(lab, form, 1) for form in (Form.ALONE, Form.BLOCK)] == [[(2, 3)], [(6, 7)]]
    assert of.batches[1:] == [[f"{name}-try-2" for name in PAIRS[0]]]


def test_pairs_that_are_started_a_second_time_have_folders_of_their_own(tmp_path: Path) -> None:
    of = roomy(tmp_path, ahead=8, baseline=known_step())
    of.left = [measured(n) for n in range(1, 10)]
    lab = of.of()
    lab.prepare(*STAGES)
    list(lab.runs(1))
    list(lab.runs(1))  # whose count is to confirm that of the first
    lab.prepare(*STAGES[1:])
    list(lab.pairs(Form.ALONE, 1))
    made = [name for batch in of.batches for name in batch]
    assert len(set(made)) == len(made)


def test_who_fails_that_was_started_ahead_fails_in_its_own_stage(tmp_path: Path) -> None:
    of = roomy(tmp_path, ahead=8, baseline=known_step())
    of.left = [RunFailed(1, error(WorkloadFailed)), measured(1)]
    lab = of.of()
    lab.prepare(*STAGES)
    assert [run.value(Metric.STEP_MS) for run in lab.runs(1)] == [1]
    assert of.batches[1] == ["run-1-try-2"]
    of.left = [error(WorkloadFailed)]
    with pytest.raises(WorktreeFailed):
        list(lab.pairs(Form.ALONE, 1))
    assert lab.notes == ()


def test_a_run_that_nsys_breaks_down_in_three_times_is_not_made_again(tmp_path: Path) -> None:
    of = Prepared(tmp_path)
    of.left = [CRASHED] * 3
    with pytest.raises(NsysCrashed):
        next(of.of().runs(1))


def test_the_other_commit_begins_every_other_pair_of_each_form(tmp_path: Path) -> None:
    of = Prepared(tmp_path)
    of.left = [measured(n) for n in range(1, 5)]
    lab = of.of()
    assert values(lab, Form.PAIR, 1) + values(lab, Form.PAIR, 1) == [(1, 2), (4, 3)]
    assert of.made == [
        "checkout: reference-1",
        "project: run-1",
        "project: run-2",
        "checkout: reference-2",
    ]
    of.made.clear()
    of.left = [measured(5), measured(6)]
    (alone,) = lab.pairs(Form.ALONE, 1)
    assert alone.candidate.form is Form.ALONE
    of.left = [(measured(7), measured(8)), CRASHED, (measured(9), measured(10))]
    assert values(lab, Form.BLOCK, 2) == [(7, 8), (9, 10)]
    assert of.made == [
        "checkout: reference-alone",
        "project: run-3",
        "interleaved-reference-1 | run-4: reference 450",
        "interleaved-reference-2 | run-5: candidate 450",
        "interleaved-reference-2-try-2 | run-5-try-2: candidate 450",
    ]
    assert lab.commit == Against(revision="HEAD~1", commit=SHA)


@pytest.mark.parametrize(
    ("step_ms", "steps"),
    [(None, 450), (0.0, 450), (3.4, 450), (30.0, 150), (100.0, 40), (2000.0, 30)],
)
def test_a_side_takes_whole_blocks_for_about_five_seconds(
    step_ms: float | None, steps: int
) -> None:
    assert steps_in_blocks(step_ms) == steps


@pytest.mark.parametrize(
    ("step_ms", "steps", "of_a_block"),
    [(0.5, 450, 10), (0.5, 2100, 47), (3.0, 2100, 17), (20.0, 2100, 10), (None, 2100, 10)],
)
def test_blocks_of_many_steps_are_short(step_ms: float | None, steps: int, of_a_block: int) -> None:
    assert steps_of_a_block(step_ms, steps) == of_a_block


def error(kind: type[PerfgateError]) -> PerfgateError:
    return kind("quoted", text="mlp: it broke")


@pytest.mark.parametrize("form", [Form.PAIR, Form.BLOCK])
@pytest.mark.parametrize(
    ("kind", "raised"), [(WorkloadFailed, WorktreeFailed), (CodeUnproven, CodeUnproven)]
)
def test_another_commit_that_does_not_run(
    tmp_path: Path, form: Form, kind: type[PerfgateError], raised: type[PerfgateError]
) -> None:
    of, failed = Prepared(tmp_path), error(kind)
    of.left = [failed if form is Form.PAIR else RunFailed(0, failed), measured()]
    lab = of.of()
    with refused(raised, "side-does-not-run" if kind is WorkloadFailed else "quoted"):
        list(lab.pairs(form, 1))
    # What is measured then is no change of code.
    assert [run.invalid for run in lab.runs(1)] == [()]


@pytest.mark.parametrize(
    ("kind", "steps", "code"),
    [
        (StoreFailed, 30, "quoted"),
        (WorkloadFailed, 500, "quoted"),
        (WorkloadFailed, 30, "failed-in-blocks"),
    ],
)
def test_a_candidate_that_fails_in_blocks(
    tmp_path: Path, kind: type[PerfgateError], steps: int, code: str
) -> None:
    of = Prepared(tmp_path)
    of.left = [RunFailed(1, error(kind))]
    workload = records.workload().model_copy(update={"steps": steps})
    with refused(kind, code):
        list(of.of(workload).pairs(Form.BLOCK, 1))


def at(*commits: Commit | None, code: str | None = None) -> Baseline:
    """A baseline with an occasion at each of these commits."""
    made = records.baseline(*([{}] for _ in commits)).model_copy(update={"code": code})
    occasions = zip(made.occasions, commits, strict=True)
    of_commits = tuple(one.model_copy(update={"commit": commit}) for one, commit in occasions)
    return made.model_copy(update={"occasions": of_commits})


@pytest.mark.parametrize("form", [Form.PAIR, Form.BLOCK])
def test_the_other_commit_must_be_what_was_blessed(tmp_path: Path, form: Form) -> None:
    of = Prepared(tmp_path, at(Commit(sha=SHA), code=code_digest(records.CODE)))
    for code in (records.CODE, OTHER):
        there = measured(code=code)
        of.left = [(there, measured())] if form is Form.BLOCK else [there, measured()]
        lab = of.of()
        if code is OTHER:
            with refused(CodeUnproven, "files-not-as-blessed"):
                list(lab.pairs(form, 1))
        else:
            assert len(list(lab.pairs(form, 1))) == 1


def checkout(folder: Path) -> Worktree:
    root = folder / "checkout"
    root.mkdir(exist_ok=True)
    origin = folder / "project"
    return Worktree(top=root, root=root, commit=SHA, origin=origin, origin_top=origin)


@pytest.mark.parametrize("form", [Form.PAIR, Form.BLOCK])
def test_the_sides_must_have_been_apart(tmp_path: Path, form: Form) -> None:
    of = Prepared(tmp_path)
    of.tree = checkout(tmp_path)
    there, here = measured(loaded=("/cache/ext.so",)), measured(loaded=("/cache/ext.so",))
    of.left = [(there, here)] if form is Form.BLOCK else [there, here]
    with pytest.raises(CodeUnproven):
        list(of.of().pairs(form, 1))


def test_the_last_commit_without_changes_is_the_baselines() -> None:
    dirty = Commit(sha="3" * 40, dirty=True)
    commits = (Commit(sha="1" * 40), Commit(sha="2" * 40), dirty, None)
    assert blessed_at(at(*commits)).commit == "2" * 40
    for commit, code in (
        (dirty, "baseline-of-uncommitted-changes"),
        (None, "baseline-without-commit"),
    ):
        with refused(RevisionMissing, code):
            blessed_at(at(commit))
