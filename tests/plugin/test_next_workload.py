"""The next workload, whose first runs start while the last ones of this end: it has one folder of
results, however often they start."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import pytest
from support import records
from support.project import Prepared, Project, loops

from perfgate.execute.ahead import Wanted
from perfgate.execute.run import Measured
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Form

pytestmark = pytest.mark.behaviour

APART = (14.0, 10.0, 16.0, 10.0, 12.0)
"""Step times, ms, which settle nothing at any look."""


class Followed(Prepared):
    """A laboratory that says when the last of its runs end."""

    def make(
        self, wanted: Sequence[Wanted], form: Form, then: Callable[[], None] = lambda: None
    ) -> Generator[Measured]:
        for made in super().make(wanted, form):
            then()
            yield made


@pytest.mark.parametrize("options", [(), ("-x",)])
def test_a_workload_that_needs_more_runs_leaves_one_folder_of_the_next(
    project: Project, options: Sequence[str]
) -> None:
    project.workload(loops("loop", "other"))
    project.bless(project.baseline())
    steps = [{Metric.STEP_MS: APART[index % len(APART)]} for index in range(10)]
    project.lab = Followed
    asked = project.measures(*(records.run(values) for values in steps), records.run())
    document = project.document(*options)
    outcomes = [one.verdict.outcome for one in document.workloads]
    assert outcomes == [Outcome.INCONCLUSIVE, Outcome.NO_BASELINE][: 1 if options else 2]
    assert asked.count("loop") == 10
    results = project.root / ".perfgate" / "results"
    assert len(list(results.glob("*/loop/*"))) == 1
    assert len(list(results.glob("*/other/*"))) == (0 if options else 1)
    assert bool(list(results.glob("*/other"))) is not bool(options)
