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
    results = sorted((one.result for one in kept), key=lambda one: one.measured_at)
    runs = [
        run for one in results for run in (*one.runs, *one.reference_runs, *one.interleaved_runs)
    ]
    oldest, newest = results[0], results[-1]
    ends = [run.started_at + timedelta(seconds=run.wall_s) for run in runs]
    opens = all(shown.opens_gate for shown in workloads)
    return GateDocument(
        perfgate=__version__,
        started_at=oldest.measured_at,
        ended_at=max([oldest.measured_at, *ends]),
        opens_gate=opens,
        exit_status=int(not opens),
        machine=newest.machine,
        commit=newest.commit if len({one.commit for one in results}) == 1 else None,
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
    kept: KeptResult | None = None
    baseline: Baseline | None = None
    if shown.files is not None:
        with suppress(PerfgateError):
            folder = store.root / shown.files
            kept = KeptResult(folder=folder, result=store.results.load(folder))
            machine = kept.result.machine
    update: dict[str, object] = {"commands": _commands(name, kept)}
    if machine is not None:
        with suppress(PerfgateError):
            baseline = store.baselines.load(machine.slug, name)
    if machine is not None and baseline is not None:
        update["history"] = _history(name, machine.slug, store)
        if kept is not None and blessed_since(baseline, kept.result) is not None:
            baseline = None  # the verdict is of another
        else:
            update["baseline"] = Side.of_baseline("baseline", baseline)
            update["environment"] = _differences(baseline.machine, machine)
    if kept is None:
        return shown.model_copy(update=update)
    result = kept.result
    judged, others = result.interleaved_runs or result.runs, result.reference_runs
    blessed = [] if baseline is None else baseline_results(store, result, baseline)
    before = [(kept, others)] if others else [(one, one.result.runs) for one in blessed]
    update |= {
        "candidate": side_of_result("candidate", result.model_copy(update={"runs": judged})),
        "other": side_of_runs("the other commit", others) if others else None,
        "candidate_step": _step([(kept, judged)], store),
        "baseline_step": _step(before, store),
    }
    return shown.model_copy(update=update)


def _step(candidates: Sequence[tuple[KeptResult, Sequence[Run]]], store: Store) -> StepView | None:
    """A typical step of the first whose capture is still kept and can be read."""
    for kept, runs in candidates:
        capture = typical_capture(kept, runs)
        if capture is not None and capture.export.stat().st_size <= LARGEST_DRAWN:
            with suppress(PerfgateError):
                return _drawn(capture, runs, store)
    return None


def _drawn(capture: Capture, runs: Sequence[Run], store: Store) -> StepView:
    folder = capture.export.parent.name
    shown = [one for run in runs if run.folder == folder and (one := leading(run))]
    pid = shown[0].pid if shown else None
    place = typical_step(read(capture.export), pid=pid, **capture.rule)
    return step_view(
        place,
        label=note(
            "step-of-run",
            run=folder,
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
        return next((points(one) for one in found.machines if one.slug == slug), ())
    return ()


def _commands(workload: str, kept: KeptResult | None) -> tuple[str, ...]:
    quoted = shlex.quote(workload)
    nodeid = None if kept is None else kept.result.workload.nodeid
    chosen = f"-k {quoted}" if nodeid is None else shlex.quote(nodeid)
    return (
        f"pytest --perfgate {chosen}",
        f"perfgate explain {quoted}",
        f"perfgate history {quoted}",
    )
