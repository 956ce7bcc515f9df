"""What is kept on disk: baselines (files of record) and results (candidates for one)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from perfgate.model.machine import Machine
from perfgate.model.metric import COUNTS, Metric, Values, budget_of
from perfgate.model.order import Needs
from perfgate.model.record import Format2, ObjectName, Record
from perfgate.model.sample import Breakdown, Form, Run
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload

BASELINE_FORMAT: Final = 2
"""History: 1, the first; 2 adds the commit's tree, the files that its code is of, GPUs and
environment by occasion, the form and steps of each run, held budgets, and what `step_ms` is the
value of."""
RESULT_FORMAT: Final = 2
"""History: 1, the first; 2 adds the commit's tree, the form of each run and the environment."""

FEWEST_RUNS: Final = 5
"""Runs that make a baseline; 10 over 5 occasions are wanted."""
LONGEST_STEP_NAMES: Final = 2000
"""Characters of the names of a run's steps, in all: more of them are data, and are not kept."""


ALL_TRACKED: Final = "."
"""What stands in a run's code where a process that took steps did not say what it loaded (a program
that is not Python, `python -I`): a digest of all that git tracks, and none, an empty text, where
there is no git. Any change may matter."""
CODE_DIGITS: Final = 16
"""Hex digits of a file's SHA-256 that a baseline keeps."""


StepValue = Literal["median", "capped_mean"]
STEP_VALUE: Final[StepValue] = "capped_mean"
"""What `step_ms` is in runs that are made now: the mean of periods each capped at 1.2 medians."""


def _with_step_value(read: object) -> object:
    """In format 1 `step_ms` is the median period."""
    return (
        {"step_value": "median", **read}
        if isinstance(read, Mapping) and read.get("format") == 1
        else read
    )


class Commit(Record):
    """The state of the repository that was measured."""

    sha: ObjectName
    dirty: bool = False
    branch: str | None = None
    tree: ObjectName | None = None
    """The SHA of its files as a whole, without the baselines, which a squash keeps; None where it
    was not noted."""


class BlessedRun(Record):
    """One run of a baseline: its values and the clock it ran at."""

    values: Values
    sm_clock_mhz: float | None = None
    processes: PositiveInt | None = None
    """Processes that took steps; None where it was not noted."""
    counts: Mapping[Metric, tuple[float, ...]] = {}
    """Of several processes, each one's counts, the highest first; `values` has the highest alone.
    """
    step_names: tuple[str, ...] = ()
    """Names of the ranges that were its steps, numbers replaced, sorted; empty where they were not
    noted."""
    step_ranges: NonNegativeInt | None = None
    """Ranges of all its processes that are steps by their pattern, used or not; None where it was
    not noted."""
    form: Form | None = None
    """None where it was not noted."""
    needs: Needs | None = None
    wall_s: float | None = None
    """None where they were not noted, as before runs were started together."""
    steps: NonNegativeInt | None = None
    """Measured steps of its process, of several the fewest; None where it was not noted."""

    @classmethod
    def of(cls, run: Run) -> BlessedRun:
        """Take what a baseline keeps of a run."""
        values = run.measured()
        return cls(
            values=values,
            sm_clock_mhz=run.conditions.sm_clock_mhz,
            processes=len(run.processes) or None,
            counts={
                metric: tuple(sorted((of.values[metric] for of in run.processes), reverse=True))
                for metric in COUNTS
                if metric in values and len(run.processes) > 1
            },
            step_names=_step_names(run),
            step_ranges=_step_ranges(run),
            form=run.form,
            needs=run.needs,
            wall_s=round(run.wall_s, 2),
            steps=min((process.steps for process in run.processes), default=None),
        )


def _step_names(run: Run) -> tuple[str, ...]:
    """Those of all its processes; none where one of them does not tell."""
    given = [process.step_names for process in run.processes]
    names = sorted({name for of_process in given for name in of_process})
    return tuple(names) if all(given) and sum(map(len, names)) <= LONGEST_STEP_NAMES else ()


def _step_ranges(run: Run) -> int | None:
    """Those of all its processes; None where one of them does not tell."""
    given = [process.step_ranges for process in run.processes]
    known = [number for number in given if number is not None]
    return sum(known) if known and len(known) == len(given) else None


def common_step_names(runs: Iterable[BlessedRun]) -> tuple[str, ...]:
    """What were the steps in every one of some runs; empty where they differ in that, or where one
    does not tell.

    Names that differ from run to run are data, and say nothing of what is a step.
    """
    found = {run.step_names for run in runs}
    return found.pop() if len(found) == 1 else ()


def common_step_ranges(runs: Iterable[BlessedRun]) -> int | None:
    """How many ranges were steps by their pattern in every one of some runs; None where they differ
    in that.

    Runs that do not tell are left out. A loop that ends by time, or by its loss, draws another
    number in each.
    """
    found = {run.step_ranges for run in runs if run.step_ranges is not None}
    return found.pop() if len(found) == 1 else None


class Blessing(Record):
    """Who made this the baseline, or added to it, when and why."""

    by: str
    at: datetime
    reason: str = Field(min_length=1)
    commit: Commit | None = None
    run_url: str | None = None
    """The CI run that measured it; None where it was measured at a desk, as is the next."""
    runner: str | None = None
    """The machine that this ran on, by CI's name for it."""


class Occasion(Record):
    """Runs measured together: within minutes of one another, in one thermal state."""

    measured_at: datetime
    commit: Commit | None = None
    runs: tuple[BlessedRun, ...] = Field(min_length=1)
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that it was measured on; none where they were not noted."""
    environment: Mapping[str, str] | None = None
    """Environment variables of its processes that may change how fast they are; None where they
    were not noted."""
    added: Blessing | None = None
    """Who added it to the baseline that was there, when and why; None of what was blessed as a
    whole."""


class Milestone(Record):
    """One blessing on the way from the anchor to now."""

    step_ms: PositiveFloat
    at: datetime
    commit: Commit | None = None
    reason: str = ""


class Anchor(Record):
    """The best step time ever blessed here: many small losses show as one large one against it."""

    step_ms: PositiveFloat
    at: datetime
    commit: Commit | None = None
    runs: PositiveInt = FEWEST_RUNS
    occasions: PositiveInt = 1
    """Runs and occasions that it is the median of."""
    path: tuple[Milestone, ...] = ()
    """What was blessed since, oldest first, the present baseline last; none where that is the
    anchor itself."""


class Spread(Record):
    """Run-to-run SD and occasion SD of one time metric, in its basis, as `perfgate calibrate`
    measured them.
    """

    run_sd: NonNegativeFloat
    occasion_sd: NonNegativeFloat
    runs: int = Field(ge=2)
    occasions: PositiveInt = 1
    """Over how many occasions the runs were spread; with one, `occasion_sd` is the default that
    nobody measured."""
    at: datetime


class Baseline(Record):
    """The blessed measurement of one workload on one machine: a file of record."""

    format: Format2 = BASELINE_FORMAT
    workload: str = Field(min_length=1)
    digest: str
    parameters: Mapping[str, str]
    has_options: bool = False
    """Whether `parameters` has the options of a conftest that were given; else nobody noted them.
    """
    machine: Machine
    occasions: tuple[Occasion, ...] = Field(min_length=1)
    blessing: Blessing
    code: str | None = None
    """`code_digest` of what the blessed runs loaded; None where it was not noted."""
    code_files: Mapping[str, str] = {}
    """The first digits of the SHA-256 of each of these files, by path; empty where they were not
    noted."""
    source: str | None = None
    """The file that declared the workload, POSIX, relative to the project's root; None where that
    was not noted."""
    anchor: Anchor | None = None
    breakdown: Breakdown = Breakdown()
    """What the blessed runs were made of, the smaller rows as one, so that a verdict can say where.
    """
    calibration: Mapping[Metric, Spread] = {}
    held: Values = {}
    """Budgets, as fractions, that a person let `perfgate bless` write because this machine holds no
    smaller ones."""
    step_value: StepValue = STEP_VALUE
    """What `step_ms` of its runs is: in files of format 1 the median period."""

    _of_format_1 = model_validator(mode="before")(_with_step_value)

    @property
    def runs(self) -> tuple[BlessedRun, ...]:
        """All blessed runs, occasion after occasion."""
        return tuple(run for occasion in self.occasions for run in occasion.runs)

    @property
    def commits(self) -> tuple[Commit, ...]:
        """The commits that its occasions were measured at, in their order; those that hold all that
        was measured, if there are any."""
        known = tuple(one.commit for one in self.occasions if one.commit is not None)
        return tuple(commit for commit in known if not commit.dirty) or known

    def as_noted(self, workload: Workload) -> Workload:
        """A workload with what this baseline can be held against: without options where it has none
        noted."""
        return workload if self.has_options else workload.model_copy(update={"options": None})

    def values(self, metric: Metric) -> tuple[float, ...]:
        """One metric over all runs; empty unless every run has it."""
        if not all(metric in run.values for run in self.runs):
            return ()
        return tuple(run.values[metric] for run in self.runs)


class Result(Record):
    """What one gate measured of one workload, kept under `.perfgate/` until it is blessed or
    forgotten."""

    format: Format2 = RESULT_FORMAT
    workload: Workload
    machine: Machine
    commit: Commit | None
    uncommitted: tuple[str, ...] = ()
    """The first paths, from the repository's top, that made the commit dirty."""
    measured_at: datetime
    step_value: StepValue = STEP_VALUE
    """What `step_ms` of its runs is: in files of format 1 the median period."""
    code: Mapping[str, str]
    """SHA-256 by path (POSIX, relative to the root) of the project's files that the workload
    loaded.

    `ALL_TRACKED` may be among them.
    """
    runs: tuple[Run, ...]
    reference_runs: tuple[Run, ...] = ()
    """Of an A/B run: the runs of the commit that the candidate was compared with."""
    environment: Mapping[str, str] | None = None
    """Environment variables of the workload's processes that may change how fast they are; None if
    not noted."""
    interleaved_runs: tuple[Run, ...] = ()
    """The candidate's of an A/B run of blocks, which are no repeats of `runs`: of more steps, on
    one CPU core.
    """
    verdict: Verdict

    _of_format_1 = model_validator(mode="before")(_with_step_value)


def with_held(budgets: Values, baseline: Baseline | None) -> dict[Metric, float]:
    """Return budgets with those that a baseline holds, where these are wider."""
    held = {} if baseline is None else baseline.held
    return {
        **budgets,
        **{metric: max(wider, budget_of(metric, budgets) or 0.0) for metric, wider in held.items()},
    }


def code_digest(code: Mapping[str, str]) -> str | None:
    """Return the SHA-256, 16 hex digits, of which files a run loaded and what was in them; None
    where nobody knows."""
    if not code or not all(code.values()):
        return None
    return hashlib.sha256(json.dumps(dict(sorted(code.items()))).encode()).hexdigest()[:16]


def code_files(code: Mapping[str, str]) -> dict[str, str]:
    """Return what a baseline keeps of the files that a run loaded."""
    return {path: digest[:CODE_DIGITS] for path, digest in sorted(code.items())}


def changed_code(then: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths, as messages name them, of what is not as it was then; `then` may hold first
    digits only."""
    changed = (path for path, digest in then.items() if now.get(path, "-")[: len(digest)] != digest)
    return tuple(
        "a file that git tracks" if path == ALL_TRACKED else path for path in sorted(changed)
    )
