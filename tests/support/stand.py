"""A series and its duels whose runs are prepared, and what was asked for and told."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from support import records

from perfgate.execute import running
from perfgate.execute.proof import Witness
from perfgate.gate.duels import AlternateDuel, InterleavedDuel
from perfgate.gate.series import Series
from perfgate.model.baseline import Baseline
from perfgate.model.errors import NsysCrashed
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.order import Account, Ending
from perfgate.model.settings import Settings
from perfgate.model.workload import Workload
from perfgate.plugin.progress import Progress
from perfgate.profilers.nsys.tool import NsysTool, NsysVersion

SHA = "0123456789abcdef0123456789abcdef01234567"
CHANGED = "the workload's code changed meanwhile"
CRASHED = NsysCrashed(
    subject="mlp",
    fact="nsys 2024.2.3 itself failed: Connection to Agent lost",
    next_step="Run: perfgate doctor",
)
Made = running.Measured | BaseException


def measured(
    step_ms: float = 12.34,
    *,
    code: Mapping[str, str] = records.CODE,
    torch: str = "2.6.0",
    cores: float | None = None,
    withheld: str | None = None,
    loaded: Mapping[str, str] | None = None,
) -> running.Measured:
    """A run with what is known beside its numbers."""
    return running.Measured(
        run=records.run({Metric.STEP_MS: step_ms}),
        account=Account(
            ending=Ending.FINISHED, pid=1, torch=torch, cuda="12.4", nvtx="0.2.11", cores=cores
        ),
        code=code,
        withheld=() if withheld is None else (withheld,),
        witnesses=() if loaded is None else (Witness(pid=1, prefixes=(), modules=loaded),),
    )


@dataclass
class Stand:
    """Runs that are prepared, and what was asked for and told."""

    folder: Path
    out: io.StringIO = field(default_factory=io.StringIO)
    runs: list[Made] = field(default_factory=list)
    pairs: list[tuple[running.Measured, running.Measured] | BaseException] = field(
        default_factory=list
    )
    asked: list[dict[str, object]] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    busy: str | None = None

    def __post_init__(self) -> None:
        tool = NsysTool(path=Path("nsys"), version=NsysVersion(2024, 2, 3), env={})

        def bench(root: str) -> running.Bench:
            return running.Bench(
                root=self.folder / root,
                settings=Settings(),
                tool=tool,
                machine=Machine(),
                env={},
                python="python",
            )

        self.here, self.there = bench("project"), bench("checkout")
        self.progress = Progress(self.out, live=False, width=200)
        self.workload = records.workload()
        self.series = Series(
            bench=self.here, workload=self.workload, folder=self.folder, listener=self.progress
        )

    def measure_run(
        self, bench: running.Bench, workload: Workload, folder: Path
    ) -> running.Measured:
        """Stand in for the real one."""
        assert workload == self.workload
        self.folders.append(f"{bench.root.name}: {folder.name}")
        made = self.runs.pop(0)
        if isinstance(made, BaseException):
            raise made
        return made

    def measure_pair(
        self,
        reference: running.Bench,
        candidate: running.Bench,
        workload: Workload,
        folders: tuple[Path, Path],
        **asked: object,
    ) -> tuple[running.Measured, running.Measured]:
        """Stand in for the real one."""
        assert (reference, candidate, workload) == (self.there, self.here, self.workload)
        self.folders.append(" | ".join(folder.name for folder in folders))
        self.asked.append(asked)
        made = self.pairs.pop(0)
        if isinstance(made, BaseException):
            raise made
        return made

    def alternate(self, *, blessed_code: str | None = None) -> AlternateDuel:
        """A duet of runs one after the other."""
        return AlternateDuel(
            revision="HEAD~1",
            commit=SHA,
            bench=self.there,
            series=self.series,
            workload=self.workload,
            folder=self.folder,
            listener=self.progress,
            blessed=self._blessed(blessed_code),
        )

    def interleaved(self, *, blessed_code: str | None = None) -> InterleavedDuel:
        """A duet of runs at once."""
        return InterleavedDuel(
            revision="HEAD~1",
            commit=SHA,
            bench=self.there,
            series=self.series,
            workload=self.workload,
            folder=self.folder,
            listener=self.progress,
            blessed=self._blessed(blessed_code),
            bout_steps=10,
            steps=150,
            core=3,
        )

    @staticmethod
    def _blessed(code: str | None) -> Baseline | None:
        return None if code is None else records.baseline().model_copy(update={"code": code})

    @property
    def lines(self) -> list[str]:
        """What the progress told, without the numbers."""
        return [line.strip().partition(": ")[0] for line in self.out.getvalue().splitlines()]
