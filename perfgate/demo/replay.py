"""Replays a gate on the recorded captures: the real reading, measuring, judging, blessing and
rendering."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from importlib.resources import as_file, files
from itertools import islice
from pathlib import Path

from perfgate.bless import bless as blessing
from perfgate.bless.holds import costs
from perfgate.execute.lab import Against, Asked, Pair
from perfgate.gate.check import check
from perfgate.gate.expect import Expectation
from perfgate.gate.underway import Underway
from perfgate.metrics.check import contradictions
from perfgate.metrics.measure import measure
from perfgate.model.baseline import Baseline, Blessing, Result
from perfgate.model.errors import EXIT_OPEN, EXIT_SHUT, CaptureUnreadable
from perfgate.model.machine import Conditions, Machine
from perfgate.model.outcome import Outcome
from perfgate.model.record import Record
from perfgate.model.reports import ReportName
from perfgate.model.sample import Form, Run
from perfgate.model.settings import Policy, Settings
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.reports import read_reports
from perfgate.profilers.seam import read
from perfgate.render.page import Page, Screen
from perfgate.render.records import bless_text
from perfgate.render.text import verdict_table
from perfgate.store import Store
from perfgate.system.files import kept_or_temporary

MANIFEST = "manifest.json"
EXPORT = "capture.sqlite"
CODE = {"workload": "recorded"}
"""The demo's workload cannot change: its code is what was recorded."""


class RecordedRun(Record):
    """One run: its captures in an archive, and what no capture says."""

    archive: str
    started_at: datetime
    wall_s: float
    conditions: Conditions


class Recording(Record):
    """The runs of one gate."""

    title: str
    runs: tuple[RecordedRun, ...]


class Manifest(Record):
    """All recordings of the demo."""

    workload: Workload
    machine: Machine
    baseline: Recording
    unchanged: Recording
    regressed: Recording


def play(say: Callable[[str], None], screen: Screen, *, keep: Path | None = None) -> int:
    """Play the demo, and return its exit status: 0 only if the unchanged gate passed and the
    planted regression was caught.

    Args:
        say: takes each piece of text.
        screen: what it is for.
        keep: a folder to make for baseline and captures, instead of a temporary one.

    Raises:
        StoreFailed: `keep` exists or cannot be made.
    """
    captures = files("perfgate.demo") / "captures"
    with as_file(captures) as there, kept_or_temporary("demo", keep) as folder:
        return play_recorded(there, folder, say, screen)


def play_recorded(captures: Path, folder: Path, say: Callable[[str], None], screen: Screen) -> int:
    """Play a folder of recorded captures in an own folder; see `play`."""
    manifest = Manifest.model_validate_json((captures / MANIFEST).read_text(encoding="utf-8"))
    store = Store(folder, "baselines")
    machine = manifest.machine
    say(f"Captures recorded on {machine.gpu_name}, driver {machine.driver}, nsys {machine.nsys}.\n")

    def shown(number: int, recording: Recording, result: Result) -> Result:
        say(_wrapped(f"{number}. {recording.title}", screen))
        say(verdict_table(Page(**screen), result.verdict))
        return result

    first = shown(1, manifest.baseline, _check(manifest, manifest.baseline, None, captures, folder))
    if first.verdict.outcome is not Outcome.NO_BASELINE:
        return EXIT_SHUT
    baseline = _bless(first, None, "what the demo compares with", accept=False)
    store.baselines.save(baseline, replacing=None)
    say(f'$ perfgate bless {manifest.workload.id} --reason "{baseline.blessing.reason}"\n')

    unchanged = shown(
        2,
        manifest.unchanged,
        _check(manifest, manifest.unchanged, baseline, captures, folder, runs=3),
    )
    regressed = shown(
        3, manifest.regressed, _check(manifest, manifest.regressed, baseline, captures, folder)
    )
    if regressed.verdict.outcome is Outcome.REGRESSED:
        meant = _bless(regressed, baseline, "a loss, meant", accept=True)
        store.baselines.save(meant, replacing=baseline)
        asked = f'perfgate bless {manifest.workload.id} --reason "{meant.blessing.reason}"'
        say(f"$ {asked} --accept-regression --hold auto")
        rows, notes = blessing.differences(baseline, meant), {"runs": [costs(meant, {})]}
        say(bless_text(Page(**screen), baseline, meant, rows, notes=notes))
    outcomes = (unchanged.verdict.outcome, regressed.verdict.outcome)
    as_meant = outcomes == (Outcome.PASSED, Outcome.REGRESSED)
    works = "works as it should" if as_meant else "does not work as it should"
    found = (
        f"The unchanged loop is {outcomes[0]}, the loop with the planted regression is "
        f"{outcomes[1]}: the gate {works}."
    )
    say(_wrapped(found, screen))
    return EXIT_OPEN if as_meant else EXIT_SHUT


def _wrapped(text: str, screen: Screen) -> str:
    page = Page(**screen)
    page.prose(text, indent=0)
    return page.text.removesuffix("\n")


def _check(
    manifest: Manifest,
    recording: Recording,
    baseline: Baseline | None,
    captures: Path,
    folder: Path,
    *,
    runs: int | None = None,
) -> Result:
    """Judge a recording by its first `runs` runs, or all of them."""
    expected = Expectation(workload=manifest.workload, machine=manifest.machine, baseline=baseline)
    recorded = len(recording.runs)
    policy = Policy(runs=runs or recorded, new_runs=recorded, max_runs=recorded, stops_early=False)
    underway = Underway(expected, _Recorded(manifest, recording, captures, folder), policy)
    verdict = check(underway)
    return Result(
        workload=manifest.workload,
        machine=manifest.machine,
        commit=None,
        measured_at=recording.runs[0].started_at,
        code=CODE,
        runs=tuple(underway.runs),
        verdict=verdict,
    )


class _Recorded:
    """The recorded runs of one gate."""

    forms: frozenset[Form] = frozenset()
    commit = Against(revision="", commit="")

    def __init__(
        self, manifest: Manifest, recording: Recording, captures: Path, folder: Path
    ) -> None:
        self.machine = manifest.machine
        self._manifest = manifest
        self._left = iter(recording.runs)
        self._captures = captures
        self._folder = folder

    def prepare(self, *asked: Asked) -> None:
        """All is there."""

    def runs(self, number: int) -> Generator[Run]:
        """Measure recorded runs as a gate measures fresh ones."""
        for recorded in islice(self._left, number):
            work = self._folder / recorded.archive.partition(".")[0]
            unpack(self._captures / recorded.archive, work)
            yield _measured(self._manifest, recorded, work)

    def pairs(self, form: Form, number: int) -> Generator[Pair]:
        """No other commit was recorded."""
        raise NotImplementedError(f"{number} pairs ({form})")


def _measured(manifest: Manifest, recorded: RecordedRun, work: Path) -> Run:
    timeline = read(work / EXPORT)
    texts = {
        name: (work / f"{name}.csv").read_text(encoding="utf-8")
        for name in ReportName
        if (work / f"{name}.csv").exists()
    }
    reports = read_reports(texts, source=recorded.archive)
    processes = measure(timeline, step=manifest.workload.step, steps=manifest.workload.steps)
    return Run(
        started_at=recorded.started_at,
        wall_s=recorded.wall_s,
        processes=processes,
        conditions=recorded.conditions,
        notes=contradictions(timeline, reports),
    )


def _bless(result: Result, baseline: Baseline | None, reason: str, *, accept: bool) -> Baseline:
    return blessing.bless(
        [result],
        baseline,
        Blessing(by="perfgate demo", at=datetime.now(UTC), reason=reason),
        code_now=CODE,
        settings=Settings(),
        # Recorded at no commit, so stored runs are all there is.
        consent=blessing.Consent(accept_regression=accept, hold="auto"),
    )


def unpack(archive: Path, folder: Path) -> None:
    """Unpack one run into a fresh folder.

    Raises:
        CaptureUnreadable: the archive is damaged.
    """
    try:
        with tarfile.open(archive, "r:xz") as packed:
            packed.extractall(folder, filter="data")
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError) as damaged:
        raise CaptureUnreadable(
            "demo-run-damaged", archive=archive.name, why=str(damaged)
        ) from damaged
