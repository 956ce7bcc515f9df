"""What a page shows next to the gate's own document: from what is kept, and without what is not."""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from support import records

from perfgate.explain.breakdown import breakdown_of, kept
from perfgate.metrics.stepview import typical_step
from perfgate.model.baseline import Result
from perfgate.model.outcome import Outcome
from perfgate.model.pagedata import PageData, PageWorkload
from perfgate.model.sample import Run
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import Settings
from perfgate.model.verdict import ABRun
from perfgate.profilers.nsys.export.timeline import read_timeline
from perfgate.store import KeptResult, Store
from perfgate.views.captures import typical_capture
from perfgate.views.pages import document_of, page_of

CAPTURE = Path(__file__).parents[2] / "golden" / "data" / "mlp-h200-nsys2024.2.3.sqlite.xz"
PID = 548
"""Of the process in it."""
RANKS = CAPTURE.with_name("two-ranks-h200-nsys2025.3.sqlite.xz")
LATER = records.NOON + timedelta(hours=3)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, "baselines")


def placed(
    runs: Sequence[Run], folder: Path, *, prefix: str = "run", capture: Path = CAPTURE
) -> tuple[Run, ...]:
    """The runs with folders of their own, the first of which holds a recorded capture."""
    named = tuple(
        run.model_copy(
            update={
                "folder": f"{prefix}-{n}",
                "processes": tuple(
                    process.model_copy(update={"pid": PID}) for process in run.processes
                ),
            }
        )
        for n, run in enumerate(runs, start=1)
    )
    (folder / f"{prefix}-1").mkdir(parents=True)
    (folder / f"{prefix}-1" / "capture-0.sqlite").write_bytes(lzma.decompress(capture.read_bytes()))
    return named


def kept_result(store: Store, *, drawn: bool = True, **more: object) -> KeptResult:
    result = records.result(of=records.workload(steps=20)).model_copy(
        update={"measured_at": records.NOON, **more}
    )
    folder = store.results.new_folder(
        result.workload.id, result.machine.slug, at=result.measured_at
    )
    if drawn:
        update: dict[str, object] = {"runs": placed(result.runs, folder)}
        if result.reference_runs:
            update["reference_runs"] = placed(result.reference_runs, folder, prefix="reference")
        result = result.model_copy(update=update)
    store.results.save(result, folder)
    return KeptResult(folder=folder, result=result)


def test_of_a_loop_that_chose_its_number_of_steps_so_many_are_looked_at(store: Store) -> None:
    workload = records.workload().model_copy(update={"steps": None})
    kept = kept_result(store, workload=workload)
    capture = typical_capture(kept, kept.result.runs)
    assert capture is not None
    assert capture.rule["steps"] == kept.result.runs[0].processes[0].steps


def blessed(store: Store, result: Result) -> None:
    found = records.baseline(
        of=result.workload, on=result.machine.model_copy(update={"driver": "570.1"})
    )
    store.baselines.save(
        found.model_copy(update={"breakdown": kept(breakdown_of(result.runs))}), replacing=None
    )


def page(store: Store, *of: KeptResult) -> PageData:
    return page_of(document_of(of, Settings(), store), store, Cleaner())


def only(data: PageData) -> PageWorkload:
    (found,) = data.workloads
    return found


def test_a_result_is_shown_with_its_baseline_and_a_step_of_each(store: Store) -> None:
    then = kept_result(store)
    blessed(store, then.result)
    found = only(page(store, kept_result(store, measured_at=LATER)))
    assert found.baseline is not None
    assert found.candidate is not None
    assert found.candidate.breakdown.ranges
    assert found.candidate_step is not None
    label = found.candidate_step.label
    assert (label.code, label.fields["run"], label.fields["steps"]) == ("step-of-run", "run-1", 20)
    assert found.candidate_step.source.startswith(".perfgate/results/nvidia-h200/mlp/")
    # The baseline's own result is still kept: it was measured when the baseline's occasion was.
    assert found.baseline_step is not None
    assert found.baseline_step.source != found.candidate_step.source
    assert [(row.name, row.before, row.now) for row in found.environment or ()] == [
        ("driver", "570.1", records.machine().driver)
    ]
    assert found.commands[0] == f"pytest --perfgate {then.result.workload.nodeid}"
    assert found.commands[1:] == ("perfgate explain mlp", "perfgate history mlp")
    assert found.baseline_file == "baselines/nvidia-h200/mlp.json"


def test_an_ab_run_is_shown_with_a_step_of_the_other_commit(store: Store) -> None:
    ab_run = ABRun(revision="v1", commit="0123456789abcdef" * 2, pairs=3, screen_runs=0)
    verdict = records.verdict(Outcome.PASSED).model_copy(update={"ab_run": ab_run})
    found = only(
        page(store, kept_result(store, reference_runs=records.runs(12.3, 12.4), verdict=verdict))
    )
    assert found.other is not None
    assert found.baseline_step is not None
    assert "reference-1" in found.baseline_step.source


@pytest.mark.parametrize("pids", [(973, 974), (974, 973)])
def test_of_ranks_that_take_as_long_both_sides_of_an_ab_run_show_the_first(
    store: Store, pids: tuple[int, int]
) -> None:
    loop = records.workload(nodeid=None, steps=20).model_copy(
        update={"warmup": 0, "step": r"step \d+"}
    )
    made = records.result(of=loop)
    folder = store.results.new_folder("mlp", made.machine.slug, at=made.measured_at)
    update = {}
    for name in ("reference_runs", "interleaved_runs"):
        (run, *_) = placed(records.runs(12.3), folder, prefix=name, capture=RANKS)
        each = tuple(run.processes[0].model_copy(update={"pid": pid}) for pid in pids)
        update[name] = (run.model_copy(update={"processes": each}),)
    result = made.model_copy(update=update)
    store.results.save(result, folder)
    found = only(page(store, KeptResult(folder=folder, result=result)))
    timeline = read_timeline(folder / "reference_runs-1" / "capture-0.sqlite")
    first, other = (
        typical_step(timeline, step=loop.step, is_pattern=True, steps=20, pid=pid) for pid in pids
    )
    assert first.end - first.start != other.end - other.start
    for step in (found.baseline_step, found.candidate_step):
        assert step is not None
        assert step.length_us == (first.end - first.start) / 1e3


def test_without_captures_or_a_baseline_the_page_is_without_them(store: Store) -> None:
    found = only(page(store, kept_result(store, drawn=False)))
    assert (found.candidate_step, found.baseline_step, found.baseline, found.environment) == (
        None,
        None,
        None,
        None,
    )
    assert found.candidate is not None
    assert found.history == ()


def test_a_baseline_that_was_blessed_since_is_not_what_it_was_compared_with(store: Store) -> None:
    one = kept_result(store)
    assert (one.result.measured_at, LATER) == (records.NOON, records.NOON + timedelta(hours=3))
    made = records.baseline(of=one.result.workload, on=one.result.machine)
    blessing = made.blessing.model_copy(update={"at": LATER})
    store.baselines.save(made.model_copy(update={"blessing": blessing}), replacing=None)
    (found,) = page(store, one).workloads
    assert (found.baseline, found.baseline_step, found.environment) == (None, None, None)
    assert found.candidate is not None


def test_a_baseline_that_cannot_be_read_leaves_the_page_without_it(store: Store) -> None:
    one = kept_result(store)
    blessed(store, one.result)
    file = store.baselines.path(one.result.machine.slug, one.result.workload.id)
    file.write_text(f"<<<<<<< HEAD\n{file.read_text()}")
    found = only(page(store, one))
    assert (found.baseline, found.baseline_step, found.history) == (None, None, ())
    assert found.candidate is not None
    assert found.candidate_step is not None


def test_a_capture_that_is_none_is_not_drawn(store: Store) -> None:
    one = kept_result(store)
    (one.folder / "run-1" / "capture-0.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 100)
    assert only(page(store, one)).candidate_step is None
