"""A pytest plugin that puts the demo's recorded captures in place of measured ones: `-p
support.replayed`.

The machine, nsys and the runs are those of an NVIDIA H200; reading, measuring, judging and keeping
are the gate's own. `PERFGATE_REPLAY` says what is replayed: the name of a recording, or `hang` for
a run that does not end by itself.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Generator, Sequence
from itertools import count
from pathlib import Path

import pytest

import perfgate
from perfgate.demo.replay import EXPORT, MANIFEST, Manifest, Recording, _measured, unpack
from perfgate.execute.ahead import Wanted
from perfgate.execute.context import RunContext
from perfgate.execute.laboratory import Laboratory
from perfgate.execute.provenance import code_now
from perfgate.execute.run import Measured
from perfgate.execute.torch_first import FirstImport
from perfgate.gate import gate
from perfgate.model.machine import Machine
from perfgate.model.reports import ReportName
from perfgate.model.sample import Form
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.tool import NsysTool, NsysVersion
from perfgate.system.process import run_process

WHAT = "PERFGATE_REPLAY"
CAPTURES = Path(perfgate.__file__).parent / "demo" / "captures"
HANGING = "hanging"
"""File in the project that says that the run that does not end has begun."""
SECRET = "SECRET_OF_THE_JOB"
"""Stands for what no published file may hold."""

STUBBORN = f"""\
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
open({HANGING!r}, "w").close()
time.sleep(300)
"""
"""A workload that does not hear Ctrl-C, and has started a process in a session of its own, as nsys
does."""

MANIFEST_READ = Manifest.model_validate_json((CAPTURES / MANIFEST).read_text(encoding="utf-8"))


class Replayed(Laboratory):
    """The recorded machine, nsys and runs in place of real ones."""

    _recorded = count()

    def look(self) -> tuple[NsysTool, Machine]:
        version = NsysVersion.parse(f"version {MANIFEST_READ.machine.nsys}")
        assert version is not None
        return NsysTool(path=Path("nsys"), version=version), MANIFEST_READ.machine

    def busy(self, run_id: str = "") -> None:
        """No other process is on the GPU."""

    def start_standby(self, folder: Path, workers: int, torch: FirstImport) -> None:
        """Recorded runs need no worker."""

    def make(
        self, wanted: Sequence[Wanted], form: Form, then: Callable[[], None] = lambda: None
    ) -> Generator[Measured]:
        for one in wanted:
            yield _replayed(one.context, one.workload, one.folder, next(self._recorded))


def pytest_configure() -> None:
    """Put them in."""
    pytest.MonkeyPatch().setattr(gate, "Laboratory", Replayed)


def _replayed(of: RunContext, workload: Workload, folder: Path, number: int) -> Measured:
    what = os.environ[WHAT]
    folder.mkdir(parents=True)
    if what == "hang":
        argv = [sys.executable, "-c", STUBBORN]
        run_process(argv, cwd=of.root, env=of.env, log=folder / "workload.log", timeout_s=300)
    recording: Recording = getattr(MANIFEST_READ, what)
    one = recording.runs[number % len(recording.runs)]
    work = folder / "nsys"
    unpack(CAPTURES / one.archive, work)
    run = _measured(MANIFEST_READ, one, work)
    # As the runner leaves a run behind, with the files that hold the job's environment.
    reports = folder / "capture-0-reports"
    reports.mkdir()
    for report in ReportName:
        shutil.copy(work / f"{report}.csv", reports)
    shutil.copy(work / EXPORT, folder / "capture-0.sqlite")
    for name in ("nsys/capture-0.nsys-rep", "nsys/capture-0.sqlite", "workload.log", "order.json"):
        (folder / name).write_text(SECRET, encoding="utf-8")
    code = code_now({workload.source: ""}, of.root, baselines="baselines")
    return Measured(run=run, worker_report=None, code=code)
