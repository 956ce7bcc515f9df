"""Plays the selftest: real gates by pytest, in a project of its own, on what is planted; touches no
other project."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
from perfgate.model.errors import EXIT_OPEN, EXIT_SHUT, RepositoryUnreadable, WorkloadFailed
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.settings import Settings
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.render.checks import SelftestRow, selftest_text
from perfgate.render.page import Page, Screen
from perfgate.render.text import verdict_table
from perfgate.store import Store
from perfgate.system import git
from perfgate.system.files import kept_or_temporary
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
    """One gate of the selftest: what is planted, and what must come of it."""

    name: str
    what: str
    outcome: Outcome = Outcome.REGRESSED
    caught_by: tuple[Metric, ...] = ()
    """Each of them must have REGRESSED."""

    @property
    def expected(self) -> str:
        """What must come of it, in words."""
        return ", ".join(self.caught_by) or self.outcome


BASELINE: Final = Plant(name="baseline", what="nothing yet", outcome=Outcome.NO_BASELINE)
NOTHING: Final = Plant(name="nothing", what="nothing", outcome=Outcome.PASSED)
ON_GPU: Final = (
    NOTHING,
    Plant(name="sleep", what="3 % more GPU time", caught_by=(Metric.KERNEL_MS,)),
    Plant(name="copy", what="one more H2D copy", caught_by=(Metric.H2D_COPIES,)),
    Plant(name="sync", what="one more sync", caught_by=(Metric.SYNCS,)),
    Plant(name="stall", what="2 ms host stall", caught_by=(Metric.STEP_MS, Metric.GAP_MS)),
)
ON_CPU: Final = (
    NOTHING,
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
    with kept_or_temporary("selftest", keep) as folder:
        works = _Play(runner=runner, folder=folder, say=say, screen=screen, cpu=cpu).all()
    if keep is not None:
        say(f"The project, its captures and logs are in {keep}.")
    elif not works:
        say("To see captures and logs, run again with --keep FOLDER.")
    return EXIT_OPEN if works else EXIT_SHUT


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
    def project(self) -> Path:
        """The project that is gated."""
        return self.folder / "project"

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
        if self._gate(1, BASELINE):
            kernel_ms = median(self._blessed().values(Metric.KERNEL_MS) or [0.0])
            cycles = round(SLEEP_SHARE * kernel_ms * cycles_per_ms)
            self.tuning["PERFGATE_SELFTEST_CYCLES"] = str(cycles)
            for number, plant in enumerate(self.plants, start=2):
                self._gate(number, plant)
        table = selftest_text(Page(**self.screen), self.rows, cpu=self.cpu)
        self.say(table.removesuffix("\n"))
        return all(row.ok for row in self.rows)

    def _prepare(self) -> None:
        (self.project / "workloads").mkdir(parents=True)
        (self.project / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
        (self.project / ".gitignore").write_text("__pycache__/\n", encoding="utf-8")
        self._write_loop(BASELINE)
        # A gate can run its commit again then; without git it has stored runs alone, and says so.
        with suppress(RepositoryUnreadable):
            for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "The loop")):
                git.ask(self.project, self._env(), *words, settings=OWN)

    def _write_loop(self, plant: Plant) -> None:
        source = files("perfgate.selftest") / ("cpu_loop.py" if self.cpu else "gpu_loop.py")
        planted = plant.name if plant.caught_by else ""
        text = source.read_text("utf-8").replace('PLANTED = ""', f'PLANTED = "{planted}"')
        (self.project / "workloads" / "loops.py").write_text(text, encoding="utf-8")

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
            reason = (_tail(log) or [f"exit status {status}"])[-1]
            raise WorkloadFailed("selftest-gpu-not-measured", reason=reason)
        probed = json.loads(found.read_text(encoding="utf-8"))
        sums = min(max(round(STEP_MS / probed["sum_ms"]), 1), MOST_SUMS)
        self.tuning["PERFGATE_SELFTEST_SUMS"] = str(sums)
        return float(probed["cycles_per_ms"])

    def _blessed(self) -> Baseline:
        """Bless what was measured: the other gates compare with it."""
        store = Store(self.project, "baselines")
        kept = store.results.latest(WORKLOAD)
        assert kept is not None
        why = "what the selftest compares with"
        baseline = blessing.bless(
            [kept.result],
            None,
            Blessing(by="perfgate selftest", at=datetime.now(UTC), reason=why),
            code_now=code_now(kept.result.code, self.project, baselines="baselines"),
            settings=Settings(),
        )
        store.baselines.save(baseline, replacing=None)
        return baseline

    def _gate(self, number: int, plant: Plant) -> bool:
        """Run one gate, whose output goes to a log, and say whether it came out as it must."""
        self.say(f"{number} of {len(self.plants) + 1}  a gate with {plant.what} planted ...")
        log, document = (self.folder / f"{number}-{plant.name}.{kind}" for kind in ("log", "json"))
        options = (
            f"--perfgate-nsys={self.runner.nsys.path}",
            f"--perfgate-json={document}",
            *("-p", "no:cacheprovider"),
        )
        command = gate_command(self.runner.python, *options, root=self.project)
        self._write_loop(plant)
        began = time.monotonic()
        env = {**self._env(), **self.tuning}
        status = self.runner.run(command, cwd=self.project, env=env, log=log)
        found = read_document(document.read_text("utf-8")).workloads if document.is_file() else ()
        verdict = found[0].verdict if found else None
        metrics = () if verdict is None else verdict.metrics
        lost = [row.metric for row in metrics if row.outcome is Outcome.REGRESSED]
        outcome = f"exit {status}" if verdict is None else verdict.outcome
        must = EXIT_OPEN if plant.outcome is Outcome.PASSED else EXIT_SHUT
        ok = (status, outcome) == (must, plant.outcome) and {*plant.caught_by} <= {*lost}
        self.rows.append(
            SelftestRow(
                planted=plant.what,
                expected=plant.expected,
                outcome=outcome,
                # Those that were expected come first: a narrow screen cuts the rest.
                named=", ".join(sorted(lost, key=lambda metric: metric not in plant.caught_by)),
                runs=0 if verdict is None else verdict.runs,
                wall_s=time.monotonic() - began,
                ok=ok,
            )
        )
        if not ok and verdict is not None:
            self.say(verdict_table(Page(**self.screen), verdict).removesuffix("\n"))
        elif not ok:
            self.say("\n".join(f"  | {escape.line(line)}" for line in _tail(log)))
        return ok

    def _env(self) -> dict[str, str]:
        """The environment of a gate: this one, without what was meant for another pytest."""
        every = self.runner.env.items()
        env = {name: value for name, value in every if not name.startswith("PYTEST_")}
        return {**env, "CUDA_VISIBLE_DEVICES": ""} if self.cpu else env


def _tail(log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    return [line for line in lines if line.strip()][-TAIL:]
