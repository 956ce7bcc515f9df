"""Gathers what the HTML page of a gate shows from what was kept: runs, a step of each side,
history; judges nothing."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from perfgate import __version__
from perfgate.explain.breakdown import leading
from perfgate.explain.sides import side_of_result, side_of_runs
from perfgate.metrics.stepview import step_view, typical_step
from perfgate.model.baseline import Baseline
from perfgate.model.comparison import Side
from perfgate.model.document import DocumentRun, DocumentWorkload, GateDocument, declared_at
from perfgate.model.errors import PerfgateError
from perfgate.model.history import Point
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import note
from perfgate.model.pagedata import PageData, PageWorkload, SideDifference, StepView, page_data
from perfgate.model.sample import Run
from perfgate.model.secrets import Cleaner
from perfgate.model.settings import Settings
from perfgate.profilers.seam import read
from perfgate.render.records import machine_facts
from perfgate.store import KeptResult, Store
from perfgate.views.captures import Capture, baseline_results, blessed_since, typical_capture
from perfgate.views.history import points, read_history

LARGEST_DRAWN: Final = 400_000_000
"""Bytes of an export from which on no step of it is drawn: reading it takes seconds and a gigabyte.
"""


def page_of(document: GateDocument, store: Store, cleaner: Cleaner) -> PageData:
    """The page of a gate: the document, and whatever of it is kept and can be read.

    Baselines and git's history are older than what is known of secrets, so the whole is cleaned.
    """
    data = page_data(document)
    enriched = tuple(_enriched(shown, document, store) for shown in data.workloads)
    return cleaner.record(data.model_copy(update={"workloads": enriched}))


def document_of(kept: Sequence[KeptResult], settings: Settings, store: Store) -> GateDocument:
    """Kept results as the document of one gate, such as it would be if they had been measured
    together."""
    workloads = tuple(_document_workload(one, settings, store) for one in kept)
    began = min(one.result.measured_at for one in kept)
    runs = [
        run
        for r in (one.result for one in kept)
        for run in (*r.runs, *r.reference_runs, *r.interleaved_runs)
    ]
    ended = max((began, *(run.started_at + timedelta(seconds=run.wall_s) for run in runs)))
    opens = all(shown.opens_gate for shown in workloads)
    newest = max(kept, key=lambda one: one.result.measured_at)
    return GateDocument(
        perfgate=__version__,
        started_at=began,
        ended_at=ended,
        opens_gate=opens,
        exit_status=int(not opens),
        machine=newest.result.machine,
        commit=newest.result.commit if len({one.result.commit for one in kept}) == 1 else None,
        settings=settings,
        workloads=workloads,
    )


def _document_workload(kept: KeptResult, settings: Settings, store: Store) -> DocumentWorkload:
    result = kept.result
    baseline = store.baselines.path(result.machine.slug, result.workload.id)
    source, line = declared_at(result.workload)
    return DocumentWorkload(
        verdict=result.verdict,
        opens_gate=settings.opens(result.verdict),
        runs=tuple(map(DocumentRun.of, result.runs)),
        reference_runs=tuple(map(DocumentRun.of, result.reference_runs)),
        interleaved_runs=tuple(map(DocumentRun.of, result.interleaved_runs)),
        environment=result.environment,
        baseline=os.path.relpath(baseline, store.root) if baseline.exists() else None,
        files=os.path.relpath(kept.folder, store.root),
        source=source,
        line=line,
    )


def _enriched(shown: PageWorkload, document: GateDocument, store: Store) -> PageWorkload:
    name, machine = shown.verdict.workload, document.machine
    update: dict[str, object] = {"commands": _commands(name, None)}
    kept: KeptResult | None = None
    if shown.files is not None:
        with suppress(PerfgateError):
            folder = store.root / shown.files
            kept = KeptResult(folder=folder, result=store.results.load(folder))
            machine = kept.result.machine
    baseline: Baseline | None = None
    if machine is not None:
        with suppress(PerfgateError):
            baseline = store.baselines.load(machine.slug, name)
    if baseline is not None and machine is not None:
        update["history"] = _history(name, machine.slug, store)
    if (
        baseline is not None
        and kept is not None
        and blessed_since(baseline, kept.result) is not None
    ):
        baseline = None  # the verdict is of another
    if baseline is not None and machine is not None:
        update["baseline"] = Side.of_baseline("baseline", baseline)
        update["environment"] = _differences(baseline.machine, machine)
    if kept is not None:
        result = kept.result
        judged = result.interleaved_runs or result.runs
        own = [] if baseline is None else baseline_results(store, result, baseline)
        blessed = [(one, one.result.runs) for one in own]
        before = [(kept, result.reference_runs)] if result.reference_runs else blessed
        update |= {
            "candidate": side_of_result("candidate", result.model_copy(update={"runs": judged})),
            "other": side_of_runs("the other commit", result.reference_runs)
            if result.reference_runs
            else None,
            "candidate_step": _step([(kept, judged)], store),
            "baseline_step": _step(before, store),
            "commands": _commands(name, result.workload.nodeid),
        }
    return shown.model_copy(update=update)


def _step(candidates: Sequence[tuple[KeptResult, Sequence[Run]]], store: Store) -> StepView | None:
    """A typical step of the first whose capture is still kept and can be read."""
    for kept, runs in candidates:
        capture = typical_capture(kept.folder, kept.result.workload, runs)
        if capture is None or capture.step is None or capture.export.stat().st_size > LARGEST_DRAWN:
            continue
        with suppress(PerfgateError):
            return _drawn(capture, runs, store)
    return None


def _drawn(capture: Capture, runs: Sequence[Run], store: Store) -> StepView:
    assert capture.step is not None
    timeline = read(capture.export)
    shown = [
        one for run in runs if run.folder == capture.export.parent.name and (one := leading(run))
    ]
    place = typical_step(
        timeline,
        step=capture.step,
        is_pattern=capture.is_pattern,
        warmup=capture.warmup,
        steps=capture.steps,
        pid=shown[0].pid if shown else None,
    )
    return step_view(
        place,
        label=note(
            "step-of-run",
            run=capture.export.parent.name,
            step=place.index + 1,
            steps=len(place.process.steps),
        ),
        source=os.path.relpath(capture.export, store.root),
    )


def _differences(before: Machine, now: Machine) -> tuple[SideDifference, ...]:
    then, here = dict(machine_facts(before)), dict(machine_facts(now))
    return tuple(
        SideDifference(name=name, before=was, now=here.get(name))
        for name, was in then.items()
        if was != here.get(name)
    )


def _history(workload: str, slug: str, store: Store) -> tuple[Point, ...]:
    with suppress(PerfgateError):
        found = read_history(store, workload, Metric.STEP_MS)
        return next((points(one, Metric.STEP_MS) for one in found.machines if one.slug == slug), ())
    return ()


def _commands(workload: str, nodeid: str | None) -> tuple[str, ...]:
    quoted = shlex.quote(workload)
    chosen = f"-k {quoted}" if nodeid is None else shlex.quote(nodeid)
    return (
        f"pytest --perfgate {chosen}",
        f"perfgate explain {quoted}",
        f"perfgate history {quoted}",
    )
