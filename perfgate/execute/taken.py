"""What one gate has made of one workload so far, and what follows from it for further runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from perfgate.execute.planned import PlannedRun, steps_in_blocks
from perfgate.execute.provenance import SHOWN
from perfgate.execute.run import Measured
from perfgate.model.baseline import Baseline, BlessedRun, changed_code
from perfgate.model.metric import Metric
from perfgate.model.note import Severity, note
from perfgate.model.sample import Form
from perfgate.model.workload import Workload


@dataclass(kw_only=True)
class Taken:
    """Runs of either side, in the order in which they were made."""

    workload: Workload
    baseline: Baseline | None
    runs: list[tuple[PlannedRun, Measured]] = field(default_factory=list)

    def take(self, job: PlannedRun, made: Measured) -> Measured:
        """Take in a run; one of the candidate that is of other code than the one before is noted
        so."""
        before = self.last
        if not job.is_reference and before is not None and made.code != before.code:
            either_way = changed_code(before.code, made.code) + changed_code(made.code, before.code)
            paths = tuple(dict.fromkeys(either_way))[:SHOWN]
            changed = note("code-changed", Severity.INVALID, paths=paths)
            run = made.run.model_copy(update={"notes": (*made.run.notes, changed)})
            made = replace(made, run=run)
        self.runs.append((job, made))
        return made

    @property
    def own(self) -> list[tuple[PlannedRun, Measured]]:
        """The candidate's."""
        return [one for one in self.runs if not one[0].is_reference]

    @property
    def last(self) -> Measured | None:
        """The candidate's last one."""
        return next((made for _, made in reversed(self.own)), None)

    @property
    def environment(self) -> Mapping[str, str] | None:
        """Variables that may change how fast the candidate is, of the first run with any."""
        shown = (made.environment for _, made in self.own)
        return next((one for one in shown if one is not None), None)

    @property
    def step_ms(self) -> float | None:
        """What a step takes that is not in blocks: in the last such run, or the blessed ones."""
        alone = (made.run for job, made in reversed(self.own) if job.form is not Form.BLOCK)
        own = next((run.value(Metric.STEP_MS) for run in alone), None)
        blessed = () if self.baseline is None else self.baseline.values(Metric.STEP_MS)
        return own or (median(blessed) if blessed else None)

    @property
    def steps(self) -> int | None:
        """Steps of a run; None where its first run, of either side, is still to choose."""
        if self.workload.steps is not None:
            return self.workload.steps
        # Of one that declared how many, nobody has chosen them.
        chose = self.baseline is not None and self.baseline.parameters.get("steps") == "auto"
        blessed = self.baseline.runs if self.baseline is not None and chose else ()
        own = (BlessedRun.of(made.run) for _, made in self.runs)
        return next((run.steps for run in (*blessed, *own) if run.steps), None)

    @property
    def steps_in_blocks(self) -> int:
        """Steps of a side of a pair in blocks: of all pairs as many as of the first."""
        taken = (job.steps for job, _ in self.runs if job.form is Form.BLOCK)
        return next(taken, None) or max(steps_in_blocks(self.step_ms), self.steps or 0)
