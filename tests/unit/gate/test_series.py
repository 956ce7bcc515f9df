"""The candidate's runs in one gate, where neither nsys nor git takes part."""

from __future__ import annotations

import pytest
from support import records
from support.stand import CHANGED, CRASHED, Stand, measured

from perfgate.model.errors import NsysCrashed, WorkloadFailed
from perfgate.model.metric import Metric


def test_runs_of_a_series_are_counted_and_told(stand: Stand) -> None:
    stand.runs = [measured(1), measured(2)]
    assert [stand.series.measure(n, 3).measured()[Metric.STEP_MS] for n in range(2)] == [1, 2]
    assert stand.folders == ["project: run-1", "project: run-2"]
    assert stand.lines == ["run 1 of 3", "run 2 of 3"]


def test_code_that_changes_between_runs_makes_them_invalid(stand: Stand) -> None:
    other = {**records.CODE, "model.py": "c" * 64}
    stand.runs = [measured(), measured(), measured(code=other)]
    assert [stand.series.measure(n, 3).complaints for n in range(3)] == [(), (), (CHANGED,)]
    assert stand.series.code == other


def test_a_run_after_one_that_failed_has_changed_nothing(stand: Stand) -> None:
    failed = WorkloadFailed(subject="mlp", fact="it raised KeyError", next_step="See the log.")
    stand.runs = [failed, measured()]
    with pytest.raises(WorkloadFailed):
        stand.series.measure(0, 3)
    assert stand.series.measure(1, 3).complaints == ()


def test_a_run_that_nsys_itself_broke_down_in_is_made_once_more(stand: Stand) -> None:
    stand.runs = [CRASHED, CRASHED, measured(12.5)]
    assert stand.series.measure(0, 3).value(Metric.STEP_MS) == 12.5
    assert stand.folders == ["project: run-1", "project: run-1-try-2", "project: run-1-try-3"]
    assert (
        stand.out.getvalue().count(
            "nsys 2024.2.3 itself failed: Connection to Agent lost; once more"
        )
        == 2
    )


def test_a_run_that_nsys_breaks_down_in_three_times_is_not_made_again(stand: Stand) -> None:
    stand.runs = [CRASHED, CRASHED, CRASHED, measured()]
    with pytest.raises(NsysCrashed):
        stand.series.measure(0, 3)
    assert len(stand.folders) == 3
