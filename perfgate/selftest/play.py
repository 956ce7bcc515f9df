"""Plays the selftest: real gates by pytest, in a project of its own, on what is planted; touches no
other project."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Final

from perfgate.bless import bless as blessing
from perfgate.execute.folder import end_killed_gates
from perfgate.execute.provenance import code_now
from perfgate.machine import gpu_lock
from perfgate.model.baseline import Baseline, Blessing
from perfgate.model.document_text import read_document
from perfgate.model.errors import (
    EXIT_OPEN,
    EXIT_SHUT,
    RepositoryUnreadable,
    StoreFailed,
    WorkloadFailed,
)
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.settings import Settings
from perfgate.model.verdict import Verdict
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.render.checks import SelftestRow, selftest_text
from perfgate.render.page import Page, Screen
from perfgate.render.text import verdict_table
from perfgate.store import Store
from perfgate.system import git
from perfgate.system.files import temporary_folder
from perfgate.system.process import gate_command, run_to_end
from perfgate.words import escape, say

WORKLOAD: Final = "loop"
STEP_MS: Final = 3.0
"""What a step of the GPU loop is to take."""
MOST_SUMS: Final = 200
SLEEP_SHARE: Final = 0.03
"""Of the GPU time of a step: what the planted sleep kernel takes."""
LOCK_TIMEOUT_S: Final = 3600.0
TAIL: Final = 15
"""Lines of a log that are shown where a gate came to no verdict."""

SETTINGS: Final = """\
[tool.perfgate]
timeout_s = 120

[tool.pytest.ini_options]
addopts = ""
"""

OWN: Final = (
    "user.name=perfgate selftest",
    "user.email=selftest@localhost",
    "commit.gpgsign=false",
    "core.hooksPath=/dev/null",
)
"""What git is set to for the project's one commit, whatever the user's own settings are."""

Run = Callable[..., int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plant:
    """One gate of the selftest: what is planted, and what must catch it."""

    name: str
    what: str
    caught_by: tuple[Metric, ...] = ()
    """Each of them must have REGRESSED; none: the gate must have PASSED."""

    @property
    def expected(self) -> str:
        """What must come of it, in words."""
        return ", ".join(self.caught_by) or Outcome.PASSED


ON_GPU: Final = (
    Plant(name="", what="nothing"),
    Plant(name="sleep", what="3 % more GPU time", caught_by=(Metric.KERNEL_MS,)),
    Plant(name="copy", what="one more H2D copy", caught_by=(Metric.H2D_COPIES,)),
    Plant(name="sync", what="one more sync", caught_by=(Metric.SYNCS,)),
    Plant(name="stall", what="2 ms host stall", caught_by=(Metric.STEP_MS, Metric.GAP_MS)),
)
ON_CPU: Final = (
    Plant(name="", what="nothing"),
    Plant(name="stall", what="20 ms host stall", caught_by=(Metric.STEP_MS,)),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Runner:
    """The runner that is tried."""

    machine: Machine
    nsys: NsysTool
    python: str
    env: Mapping[str, str]
    """Of the gates; what is pytest's in it is left out."""
    run: Run = run_to_end


@dataclass(kw_only=True, slots=True)
class _Gated:
    """What one gate came to."""

    verdict: Verdict | None
    status: int
    wall_s: float
    log: Path

    @property
    def outcome(self) -> Outcome | None:
        """Of the loop; None where there is no verdict."""
        return None if self.verdict is None else self.verdict.outcome

    @property
    def lost(self) -> tuple[Metric, ...]:
        """The metrics that REGRESSED."""
        rows = () if self.verdict is None else self.verdict.metrics
        return tuple(row.metric for row in rows if row.outcome is Outcome.REGRESSED)


def play(
    runner: Runner,
    say: Callable[[str], None],
    screen: Screen,
    *,
    keep: Path | None = None,
    cpu: bool = False,
) -> int:
    """Play the selftest and return its exit status: 0 only if every gate came out as it must.

    Args:
        runner: what is tried; on a machine without a GPU only `cpu` can be played.
        say: takes each piece of text.
        screen: what it is for.
        keep: a folder to make for the project, its captures and logs, instead of a temporary one.
        cpu: gate a loop that uses no GPU.

    Raises:
        StoreFailed: `keep` exists or cannot be made.
        WorkloadFailed: the GPU cannot be measured.
        GpuTaken: another gate held it for an hour.
    """
    with ExitStack() as held:
        folder = _folder(held, keep)
        played = _Play(runner=runner, folder=folder, say=say, screen=screen, cpu=cpu)
        works = played.all()
    if keep is not None:
        say(f"The project, its captures and logs are in {keep}.")
    elif not works:
        say("To see captures and logs, run again with --keep FOLDER.")
    return EXIT_OPEN if works else EXIT_SHUT


def _folder(held: ExitStack, keep: Path | None) -> Path:
    if keep is None:
        return held.enter_context(temporary_folder("selftest"))
    try:
        keep.mkdir(parents=True)
    except OSError as refused:
        raise StoreFailed(
            "selftest-folder-not-made",
            folder=str(keep),
            reason=refused.strerror or str(refused),
        ) from refused
    return keep.resolve()


@dataclass(kw_only=True)
class _Play:
    """One selftest, gate after gate."""

    runner: Runner
    folder: Path
    say: Callable[[str], None]
    screen: Screen
    cpu: bool
    rows: list[SelftestRow] = field(default_factory=list)
    tuning: dict[str, str] = field(default_factory=dict)
    """Variables by which the loop fits this GPU, the same in every gate."""

    @property
    def plants(self) -> Sequence[Plant]:
        """What is planted after the baseline."""
        return ON_CPU if self.cpu else ON_GPU

    def all(self) -> bool:
        """Play it, show the table, and return whether all came out as it must."""
        gpu, driver = self.runner.machine.gpu_name, self.runner.machine.driver
        where = "without a GPU" if self.cpu else f"on {gpu}, driver {driver}"
        span = "a minute" if self.cpu else "5 minutes"
        self.say(f"Selftest {where}, nsys {self.runner.nsys.version}: about {span}.")
        self._prepare()
        cycles_per_ms = 0.0 if self.cpu else self._probe()
        baseline = self._baseline()
        if baseline is not None:
            kernel_ms = median(baseline.values(Metric.KERNEL_MS) or [0.0])
            cycles = round(SLEEP_SHARE * kernel_ms * cycles_per_ms)
            self.tuning["PERFGATE_SELFTEST_CYCLES"] = str(cycles)
            for number, plant in enumerate(self.plants, start=2):
                self._plant(plant, number)
        else:
            self.rows += [
                SelftestRow(planted=plant.what, expected=plant.expected, outcome="not run")
                for plant in self.plants
            ]
        table = selftest_text(Page(**self.screen), self.rows, cpu=self.cpu)
        self.say(table.removesuffix("\n"))
        return all(row.ok for row in self.rows)

    def _prepare(self) -> None:
        workloads = self.folder / "project" / "workloads"
        workloads.mkdir(parents=True)
        (self.folder / "project" / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
        (self.folder / "project" / ".gitignore").write_text("__pycache__/\n", encoding="utf-8")
        self._write_loop("")
        # A gate can run its commit again then; without git it has stored runs alone, and says so.
        with suppress(RepositoryUnreadable):
            for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "The loop")):
                git.ask(self.folder / "project", self._env(), *words, settings=OWN)

    def _write_loop(self, planted: str) -> None:
        source = files("perfgate.selftest") / ("cpu_loop.py" if self.cpu else "gpu_loop.py")
        text = source.read_text(encoding="utf-8")
        file = self.folder / "project" / "workloads" / "loops.py"
        file.write_text(text.replace('PLANTED = ""', f'PLANTED = "{planted}"'), encoding="utf-8")

    def _probe(self) -> float:
        """Fit the loop to this GPU, and return the clock cycles that it makes in 1 ms."""
        found, log = self.folder / "probe.json", self.folder / "probe.log"
        command = (self.runner.python, "-m", "perfgate.selftest.probe", str(found))
        # Another gate's runs would be INVALID if this were to compute at that time.
        with gpu_lock(
            self.runner.machine.gpus,
            timeout_s=LOCK_TIMEOUT_S,
            on_wait=lambda what: self.say(say.fact(what)),
            workload="selftest",
        ):
            if (ended := end_killed_gates()) is not None:
                self.say(say.fact(ended))
            status = self.runner.run(command, cwd=self.folder, env=self._env(), log=log)
        if status != 0 or not found.is_file():
            raise WorkloadFailed(
                "selftest-gpu-not-measured",
                reason=(_tail(log) or [f"exit status {status}"])[-1],
            )
        probed = json.loads(found.read_text(encoding="utf-8"))
        sums = min(max(round(STEP_MS / probed["sum_ms"]), 1), MOST_SUMS)
        self.tuning["PERFGATE_SELFTEST_SUMS"] = str(sums)
        return float(probed["cycles_per_ms"])

    def _baseline(self) -> Baseline | None:
        """Measure and bless what the other gates compare with; None where that failed."""
        gated = self._gate(1, "", "no baseline yet", name="baseline")
        ok = (gated.status, gated.outcome) == (EXIT_SHUT, Outcome.NO_BASELINE)
        self._row(Plant(name="", what="the baseline"), Outcome.NO_BASELINE, gated, ok=ok)
        if not ok:
            return None
        store = Store(self.folder / "project", "baselines")
        kept = store.results.latest(WORKLOAD)
        assert kept is not None
        baseline = blessing.bless(
            [kept.result],
            None,
            Blessing(
                by="perfgate selftest",
                at=datetime.now(UTC),
                reason="what the selftest compares with",
            ),
            code_now=code_now(kept.result.code, self.folder / "project", baselines="baselines"),
            settings=Settings(),
            consent=blessing.Consent(insist=True),
        )
        store.baselines.save(baseline, replacing=None)
        return baseline

    def _plant(self, plant: Plant, number: int) -> None:
        gated = self._gate(
            number, plant.name, f"{plant.what} planted", name=plant.name or "nothing"
        )
        caught = (EXIT_SHUT, Outcome.REGRESSED)
        must = caught if plant.caught_by else (EXIT_OPEN, Outcome.PASSED)
        ok = (gated.status, gated.outcome) == must and {*plant.caught_by} <= {*gated.lost}
        self._row(plant, plant.expected, gated, ok=ok)

    def _gate(self, number: int, planted: str, what: str, *, name: str) -> _Gated:
        """Run one gate; its output goes to a log."""
        self.say(f"{number} of {len(self.plants) + 1}  a gate with {what} ...")
        log, document = self.folder / f"{number}-{name}.log", self.folder / f"{number}-{name}.json"
        project = self.folder / "project"
        options = (
            f"--perfgate-nsys={self.runner.nsys.path}",
            f"--perfgate-json={document}",
            "-p",
            "no:cacheprovider",
        )
        self._write_loop(planted)
        env = {**self._env(), **self.tuning}
        began = time.monotonic()
        status = self.runner.run(
            gate_command(self.runner.python, *options, root=project), cwd=project, env=env, log=log
        )
        text = document.read_text(encoding="utf-8") if document.is_file() else ""
        found = read_document(text).workloads if text else ()
        return _Gated(
            verdict=found[0].verdict if found else None,
            status=status,
            wall_s=time.monotonic() - began,
            log=log,
        )

    def _row(self, plant: Plant, expected: str, gated: _Gated, *, ok: bool) -> None:
        verdict = gated.verdict
        # Those that were expected come first: a narrow screen cuts the rest.
        lost = sorted(gated.lost, key=lambda metric: metric not in plant.caught_by)
        self.rows.append(
            SelftestRow(
                planted=plant.what,
                expected=expected,
                outcome=gated.outcome or f"exit {gated.status}",
                named=", ".join(lost),
                runs=verdict.runs if verdict is not None else 0,
                wall_s=gated.wall_s,
                ok=ok,
            )
        )
        if ok:
            return
        if verdict is not None:
            table = verdict_table(Page(**self.screen), verdict)
            self.say(table.removesuffix("\n"))
        else:
            self.say("\n".join(f"  | {escape.line(line)}" for line in _tail(gated.log)))

    def _env(self) -> dict[str, str]:
        """The environment of a gate: this one, without what was meant for another pytest."""
        every = self.runner.env.items()
        env = {name: value for name, value in every if not name.startswith("PYTEST_")}
        return {**env, "CUDA_VISIBLE_DEVICES": ""} if self.cpu else env


def _tail(log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    return [line for line in lines if line.strip()][-TAIL:]
