"""Scratch projects with workloads, gates run in them, and what a user sees of those, with times and
folders made alike.

`project` is the fixture. A gate runs in this process, so that a machine or runs can be put in its
place at the border; the workloads' own processes are real ones.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import pynvml
import pytest
from support import records
from support.fake_nvml import FakeGpu, FakeNvml
from support.repository import run_git

from perfgate import cli
from perfgate.execute.ahead import Wanted
from perfgate.execute.context import RunContext
from perfgate.execute.laboratory import Laboratory
from perfgate.execute.run import Measured
from perfgate.execute.torch_first import FirstImport
from perfgate.gate import gate
from perfgate.machine import read_machine
from perfgate.model.baseline import Baseline, Result
from perfgate.model.document import GateDocument
from perfgate.model.document_text import read_document
from perfgate.model.errors import NsysNotFound
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.order import Ending, WorkerReport
from perfgate.model.sample import Form, Run
from perfgate.model.settings import GraphTrace
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.command import trace_options, withhold_secrets
from perfgate.profilers.nsys.tool import VARIABLE, NsysTool, find_nsys
from perfgate.store import Store
from perfgate.words import say

LOOP = """\
import time
from perfgate import workload

@workload(steps=4, warmup=1)
def loop(steps):
    for _ in steps:
        time.sleep(0.001)
"""
"""The smallest workload that nsys can see: its steps' NVTX ranges, and no GPU."""


def loops(*names: str) -> str:
    """A file of workloads like `LOOP`, of these names."""
    head, _, body = LOOP.partition("@workload")
    return head + "\n".join(f"@workload{body}".replace("def loop", f"def {name}") for name in names)


WIDE = 900
"""Columns at which perfgate wraps nothing, so that the length of a temporary folder's name does not
show."""
PAGE = 110
"""Columns at which what a user sees is wrapped here, once folders are made alike."""

FAKE_NSYS = """\
#!{python} -B
import json, os, subprocess, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("NVIDIA Nsight Systems version {version}")
    sys.exit(0)
{body}
"""
"""An nsys of our own: answers with a version, then does as a test needs."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the user of a command sees."""

    status: int
    out: str
    err: str
    codes: AbstractSet[str] = frozenset()
    """Of the notes and errors that were worded meanwhile in this process."""

    @property
    def failures(self) -> str:
        """The blocks of failing items."""
        found = re.search(
            r"^=+ (?:FAILURES|ERRORS) =+\n(.*?)(?=^=+ )", self.out, re.MULTILINE | re.DOTALL
        )
        return (
            ""
            if found is None
            else re.sub(r"^_{5,} (.*?) _{5,}$", r"__ \1 __", found[1], flags=re.MULTILINE)
        )

    @property
    def summary(self) -> str:
        """perfgate's own section at the end."""
        found = re.search(r"^=+ perfgate =+\n(.*?)(?=^=+ |\Z)", self.out, re.MULTILINE | re.DOTALL)
        return "" if found is None else found[1]

    @property
    def message(self) -> str:
        """All of these, and what pytest refused to start for, wrapped."""
        text = f"{self.failures}\n{self.summary}\n{self.err}"
        return "\n".join(_wrapped(line) for line in text.splitlines() if line.strip())


Make = Callable[[RunContext, Workload, Path], Measured]


class Prepared(Laboratory):
    """A laboratory with runs of our own: the one place where they are put in."""

    making: Make
    standby: ClassVar[list[int]] = []
    """How many workers were asked for while pytest collected, by gates of this laboratory."""

    def start_standby(self, folder: Path, workers: int, torch: FirstImport) -> None:
        self.standby.append(workers)

    def make(
        self, wanted: Sequence[Wanted], form: Form, then: Callable[[], None] = lambda: None
    ) -> Generator[Measured]:
        for one in wanted:
            yield self.making(one.context, one.workload, one.folder)


class Project:
    """A project in a folder of its own."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = pytester.path
        self._pytester = pytester
        self.patch = monkeypatch
        self.held: object = None
        """What must stay alive while the project does."""
        self._nvml: FakeNvml | None = None
        self.lab: type[Prepared] = type("Lab", (Prepared,), {"standby": []})
        """The laboratory of this project's gates, once runs are put in."""
        self._codes: set[str] = set()
        monkeypatch.setattr(say, "fact", partial(self._worded, say.fact))
        (self.root / "workloads").mkdir()
        self.write("pyproject.toml", '[project]\nname = "scratch"\nversion = "1"\n')

    def _worded(self, fact: Callable[[say.Coded], str], said: say.Coded) -> str:
        self._codes.add(said.code)
        return fact(said)

    # What is in it

    def write(self, name: str, text: str) -> Path:
        """Write a file, by its path from the root."""
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def workload(self, text: str = LOOP, *, file: str = "loops.py") -> Path:
        """Write a file of workloads."""
        return self.write(f"workloads/{file}", text)

    @property
    def store(self) -> Store:
        """The project's baselines and kept results."""
        return Store(self.root, "baselines")

    def bless(self, baseline: Baseline) -> Path:
        """Put a baseline where a gate looks for it."""
        return self.store.baselines.save(baseline, replacing=None)

    def keep(self, result: Result) -> Path:
        """Put a result where bless looks for it."""
        folder = self.store.results.new_folder(
            result.workload.id, result.machine.slug, at=result.measured_at
        )
        self.store.results.save(result, folder)
        return folder

    def kept(self, name: str = "loop") -> Result:
        """The result of a workload that was kept last."""
        kept = self.store.results.latest(name)
        assert kept is not None
        return kept.result

    def repeat(self, name: str = "loop") -> None:
        """Take the one run of the result that was kept last for as many as a baseline needs: real
        ones take long."""
        kept = self.store.results.latest(name)
        assert kept is not None
        (run,) = kept.result.runs
        self.store.results.save(kept.result.model_copy(update={"runs": (run,) * 5}), kept.folder)

    def code(self, file: str = "loops.py") -> dict[str, str]:
        """What a run of the workloads in a file loads now."""
        content = (self.root / "workloads" / file).read_bytes()
        return {f"workloads/{file}": hashlib.sha256(content).hexdigest()}

    def declared(
        self, name: str = "loop", *, file: str = "workloads/loops.py", steps: int = 4
    ) -> Workload:
        """The record of a workload like `LOOP`."""
        return Workload(id=name, source=file, nodeid=f"{file}::{name}", steps=steps, warmup=1)

    # What it stands on

    def nsys(self, body: str = "", *, version: str = "2024.2.3.38") -> Path:
        """Put an nsys of our own in place of a real one."""
        program = self.root / "bin" / "nsys"
        program.parent.mkdir(exist_ok=True)
        text = FAKE_NSYS.format(python=sys.executable, version=version, body=textwrap.dedent(body))
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
        self.patch.setenv(VARIABLE, str(program))
        return program

    def gpus(self, *gpus: FakeGpu) -> Machine:
        """Put GPUs into the machine, one H200 by default, and an nsys that answers; return the
        machine."""
        self._drive(FakeNvml(gpus=gpus or (FakeGpu(utilisation=0),)))
        self.patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        self.nsys()
        return self.machine

    def _drive(self, nvml: FakeNvml) -> None:
        """Put a driver in place of the machine's own."""
        self._nvml = nvml
        for name in dir(nvml):
            if name.startswith("nvml"):
                self.patch.setattr(pynvml, name, getattr(nvml, name))

    @property
    def machine(self) -> Machine:
        """The machine as a gate with runs of our own sees it."""
        if self._nvml is None:
            self._drive(FakeNvml())
        options = trace_options(graph_trace=GraphTrace.GRAPH)
        read = read_machine(os.environ, nsys="2024.2.3", nsys_options=options)
        return read.model_copy(update={"torch": "2.6.0", "cuda": "12.4", "nvtx": "0.2.11"})

    def measures(
        self,
        *outcomes: Run | BaseException | Callable[[], Run],
        code: Sequence[Mapping[str, str]] = (records.CODE,),
        withheld: tuple[str, ...] = (),
    ) -> list[str]:
        """Put runs in place of measured ones, in this order and then the last for ever; return who
        was measured.

        `code` is what each of them has loaded, the last again for ever; `withheld` what was not
        passed to them.
        """
        left, codes = list(outcomes), list(code)
        asked: list[str] = []

        def make(_context: RunContext, workload: Workload, folder: Path) -> Measured:
            asked.append(workload.id)
            folder.mkdir(parents=True)
            now = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(now, BaseException):
                raise now
            worker_report = WorkerReport(
                ending=Ending.FINISHED, pid=1, torch="2.6.0", cuda="12.4", nvtx="0.2.11"
            )
            made = now if isinstance(now, Run) else now()
            loaded = codes.pop(0) if len(codes) > 1 else codes[0]
            return Measured(run=made, worker_report=worker_report, code=loaded, withheld=withheld)

        self.makes(make)
        return asked

    def makes(self, make: Make) -> None:
        """Make runs in a way of our own."""
        if self._nvml is None:
            self._drive(FakeNvml())
        self.lab.making = staticmethod(make)
        self.patch.setattr(gate, "Laboratory", self.lab)

    def baseline(
        self,
        name: str = "loop",
        *,
        steps: int = 4,
        on: Machine | None = None,
        metrics: Collection[Metric] = tuple(Metric),
    ) -> Baseline:
        """A baseline of five runs of a workload like `LOOP`, on this machine by default, with
        these metrics."""
        made = records.baseline(of=self.declared(name, steps=steps), on=on or self.machine)
        kept = [
            {metric: value for metric, value in run.values.items() if metric in metrics}
            for run in made.runs
        ]
        runs = tuple(
            run.model_copy(update={"values": values})
            for run, values in zip(made.runs, kept, strict=True)
        )
        return records.in_one_occasion(made, runs=runs)

    def commit(self, message: str = "a commit") -> str:
        """Commit all there is, in a repository of the project's own; return the SHA."""
        if not (self.root / ".git").exists():
            self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def git(self, *words: str) -> str:
        """Run git as somebody, and return what it printed."""
        return run_git(self.root, *words)

    def unchanged(self, *gpus: FakeGpu) -> list[str]:
        """A workload that measures what its baseline holds, on an H200 by default; return who is
        measured."""
        self.gpus(*gpus)
        self.workload()
        self.bless(self.baseline())
        return self.measures(records.run())

    # What is done in it

    def gate(self, *arguments: str | Path, columns: int = WIDE) -> Seen:
        """Run `pytest --perfgate` here, in this process."""
        return self.pytest("--perfgate", *arguments, columns=columns)

    def document(self, *arguments: str | Path) -> GateDocument:
        """Run `pytest --perfgate` here, and return its document."""
        self.gate("--perfgate-json=gate.json", *arguments)
        return self.written("gate.json")

    def written(self, file: str) -> GateDocument:
        """Return the document that a gate has written to a file."""
        return read_document((self.root / file).read_text("utf-8"))

    def pytest(self, *arguments: str | Path, columns: int = WIDE) -> Seen:
        """Run pytest here, in this process."""
        self.patch.setenv("COLUMNS", str(columns))
        self._codes.clear()
        done = self._pytester.runpytest_inprocess("-p", "no:cacheprovider", *map(str, arguments))
        return self._seen(
            int(done.ret), "\n".join(done.outlines) + "\n", "\n".join(done.errlines) + "\n"
        )

    def perfgate(self, *arguments: str | Path, columns: int = 100) -> Seen:
        """Run `perfgate` here, in this process."""
        self.patch.setenv("COLUMNS", str(columns))
        self._codes.clear()
        capture = pytest.MonkeyPatch()
        out, err = self.root / ".out", self.root / ".err"
        try:
            with (
                out.open("w", encoding="utf-8") as stdout,
                err.open("w", encoding="utf-8") as stderr,
            ):
                capture.setattr(sys, "stdout", stdout)
                capture.setattr(sys, "stderr", stderr)
                status = 0
                try:
                    cli.main([str(argument) for argument in arguments])
                except SystemExit as left:
                    status = left.code if isinstance(left.code, int) else int(left.code is not None)
            return self._seen(status, out.read_text("utf-8"), err.read_text("utf-8"))
        finally:
            capture.undo()
            out.unlink()
            err.unlink()

    def start(self, *arguments: str, columns: int = 100, **more: object) -> subprocess.Popen[str]:
        """Start `pytest` here in a process and a process group of its own; `more` goes to Popen."""
        process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
            cwd=self.root,
            env={**os.environ, "COLUMNS": str(columns)},
            text=True,
            start_new_session=True,
            **more,  # type: ignore[call-overload]
        )
        return process

    def run(self, *arguments: str, columns: int = 100, timeout_s: float = 240) -> Seen:
        """Run `pytest` here in a process of its own."""
        process = self.start(
            *arguments, columns=columns, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            out, err = process.communicate(timeout=timeout_s)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        print(out, err)  # noqa: T201  (pytest shows it where a test fails)
        return self._seen(process.returncode, out, err)

    def _seen(self, status: int, out: str, err: str) -> Seen:
        codes = frozenset(self._codes)
        return Seen(status=status, out=self.alike(out), err=self.alike(err), codes=codes)

    def alike(self, text: str) -> str:
        """Make times and folders of a text the same on every machine."""
        text = text.replace(os.environ.get(VARIABLE, "\0"), "/bin/nsys")
        text = text.replace(str(self.root), "/project")
        text = re.sub(r"pid \d+ of \w+", "pid 1 of ada", text)
        text = re.sub(r"process \d+ shows", "process 1 shows", text)
        text = re.sub(
            r"step(?:_mean)?_ms( +\d\.\d\d\d)+(?=$|  \d+ runs?$)",
            _alike_times,
            text,
            flags=re.MULTILINE,
        )
        text = re.sub(r"a step takes 0\.0\d+ ms", "a step takes 0.002 ms", text)
        text = re.sub(r"since \d{4}-[-:.+\dTZ ]*\d(?: UTC|Z)?", "since THEN", text)
        text = re.sub(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{6}", "TIME", text)
        text = re.sub(r"\(\d+\.\d s\)", "(0.0 s)", text)
        return re.sub(r"\bin \d+\.\d\ds( \(\d+:\d\d:\d\d\))?", "in 0.00s", text)


def _alike_times(found: re.Match[str]) -> str:
    return re.sub(r"\d\.\d\d\d", "1.234", found[0])


def _wrapped(line: str) -> str:
    indent = line[: len(line) - len(line.lstrip())] + "    "
    return "\n".join(
        textwrap.wrap(
            line.rstrip(),
            PAGE,
            subsequent_indent=indent,
            break_on_hyphens=False,
            break_long_words=False,
        )
    )


@pytest.fixture
def project(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Project]:
    """An empty project on a machine without a GPU, with locks of its own."""
    for name in withhold_secrets(os.environ, ())[1]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PERFGATE_LOCKS", str(tmp_path))
    monkeypatch.setattr(os, "_exit", os._exit)  # a gate in this process holds it
    yield Project(pytester, monkeypatch)
    shutil.rmtree(pytester.path / ".perfgate", ignore_errors=True)


@pytest.fixture(scope="session")
def real_nsys(nsys_tool: NsysTool) -> Sequence[str]:
    """Version of the nsys that perfgate would find here."""
    return str(nsys_tool.version).split(".")


@pytest.fixture(scope="session")
def nsys_tool() -> NsysTool:
    """The nsys that perfgate would find here: `PERFGATE_NSYS`, PATH, or one of the usual folders;
    skips the test where there is none and none was promised."""
    try:
        return find_nsys(None, os.environ)
    except NsysNotFound as error:
        if os.environ.get(VARIABLE):
            raise
        pytest.skip(f"no nsys here. {error}")
