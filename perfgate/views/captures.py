"""Which captures there are of what was measured, and which one stands for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median

from perfgate.model.baseline import Baseline, BlessedRun, Result
from perfgate.model.metric import Metric
from perfgate.model.sample import Run
from perfgate.model.timeline import Timeline
from perfgate.model.workload import StepRule
from perfgate.profilers.nsys.answers import export
from perfgate.profilers.nsys.export.file import REPORTS, check_capture
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import read
from perfgate.store import KeptResult, Store
from perfgate.system.files import temporary_folder

FindTool = Callable[[], NsysTool]
"""Finds nsys when it is needed.

Raises:
    PerfgateError: there is none.
"""


@dataclass(frozen=True, kw_only=True)
class Capture:
    """An export, and which of its ranges are the steps."""

    export: Path
    rule: StepRule


def opened(path: Path, find_tool: FindTool, held: ExitStack) -> tuple[Path, Timeline]:
    """A capture's export, made for as long as `held` is if it is nsys's own file, and its timeline.

    Raises:
        CaptureUnreadable: it is no capture.
        PerfgateError: no nsys is there to export it.
    """
    if path.suffix not in REPORTS:
        return path, read(path)
    # Before nsys is looked for: a pointer to a capture is none, with nsys or without.
    check_capture(path)
    exported = export(find_tool(), path, held.enter_context(temporary_folder("export")))
    return exported, replace(read(exported), source=path.name)


def blessed_since(baseline: Baseline, result: Result) -> datetime | None:
    """When a baseline was blessed, or got an occasion, after a result was measured, which it was
    not compared with."""
    added = [occasion.added.at for occasion in baseline.occasions if occasion.added is not None]
    latest = max([baseline.blessing.at, *added])
    return latest if latest > result.measured_at else None


def baseline_results(store: Store, result: Result, baseline: Baseline) -> list[KeptResult]:
    """The kept results on the same machine that the workload's baseline was blessed from, newest
    first."""
    occasions = {occasion.measured_at for occasion in baseline.occasions}
    found, _ = store.results.kept(result.workload.id, result.machine.slug)
    return [one for one in found if one.result.measured_at in occasions]


def typical_capture(kept: KeptResult, runs: Sequence[Run]) -> Capture | None:
    """The export of that of a kept result's `runs` whose step time is nearest the median of all;
    None where none is kept."""
    workload = kept.result.workload
    exports = [kept.folder / (run.folder or "") / "capture-0.sqlite" for run in runs]
    at_hand = [(run, path) for run, path in zip(runs, exports, strict=True) if path.is_file()]
    if not at_hand:
        return None
    steps_ms = [run.value(Metric.STEP_MS) or 0.0 for run, _ in at_hand]
    distances = [abs(step_ms - median(steps_ms)) for step_ms in steps_ms]
    run, export = at_hand[distances.index(min(distances))]
    rule = workload.step_rule
    # As many as it chose where none are declared.
    rule["steps"] = workload.steps or BlessedRun.of(run).steps
    return Capture(export=export, rule=rule)
