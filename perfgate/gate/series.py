"""The candidate's runs of one workload in one gate, each made on an idle GPU and told of. Judges nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from perfgate.execute import running
from perfgate.execute.proof import Witness
from perfgate.gate.listener import Listener
from perfgate.machine import wait_until_idle
from perfgate.model.machine import Machine
from perfgate.model.note import quoted
from perfgate.model.order import Account
from perfgate.model.sample import Form, Run
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload

IDLE_PATIENCE_S: Final = 10.0
"""How long a GPU may take to become idle before a run: the driver's load figures fade within a second."""


class Series:
    """The runs of one workload in one gate, and what they say beside their numbers."""

    def __init__(
        self, *, bench: running.Bench, workload: Workload, folder: Path, listener: Listener
    ) -> None:
        self.bench = bench
        self._workload = workload
        self._folder = folder
        self._listener = listener
        self._made = self._taken = 0
        self.last: Run | None = None
        """The candidate's run that was made last, alone."""
        self.code: Mapping[str, str] = {}
        self.witnesses: tuple[Witness, ...] = ()
        """What the processes of the run that was taken last said that they loaded."""
        self._account: Account | None = None
        self._withheld: tuple[str, ...] = ()
        self.environment: Mapping[str, str] | None = None
        """Variables that may change how fast the candidate is, of the first run in which they were seen."""

    @property
    def machine(self) -> Machine:
        """The machine, with the versions that the worker really loaded."""
        account, machine = self._account, self.bench.machine
        if account is None:
            return machine
        return machine.model_copy(
            update={
                "torch": account.torch,
                "cuda": account.cuda or machine.cuda,
                "nvtx": account.nvtx,
            }
        )

    @property
    def cores(self) -> float | None:
        """CPU cores that the run made last kept busy, as its worker tells."""
        return None if self._account is None else self._account.cores

    def measure(self, index: int, planned: int) -> Run:
        """Make one run and tell of it."""
        return self.measure_as(f"run {index + 1} of {planned}")

    def measure_as(self, title: str, form: Form = Form.ALONE) -> Run:
        """Make the next run under a title of the caller's."""
        made = measure(self.bench, self._workload, self.next_folder(), self._listener, title, form)
        self.last = self.take(made)
        return self.last

    def next_folder(self) -> Path:
        """Where the next run is to be made."""
        self._made += 1
        return self._folder / f"run-{self._made}"

    def take(self, measured: running.Measured) -> Run:
        """Take a run of the candidate's in, which may have been made beside another commit's."""
        run = measured.run
        self._taken += 1
        if self._taken > 1 and measured.code != self.code:
            run = run.model_copy(
                update={"complaints": (*run.complaints, "the workload's code changed meanwhile")}
            )
        self.code, self._account, self._withheld = (
            measured.code,
            measured.account,
            measured.withheld,
        )
        self.witnesses = measured.witnesses
        if self.environment is None:
            self.environment = measured.environment
        return run

    def annotated(self, verdict: Verdict) -> Verdict:
        """The verdict with what only the runs' circumstances tell."""
        if not self._withheld:
            return verdict
        return verdict.model_copy(
            update={"notes": (*verdict.notes, quoted(running.told_withheld(self._withheld)))}
        )


def measure(
    bench: running.Bench,
    workload: Workload,
    folder: Path,
    listener: Listener,
    title: str,
    form: Form,
) -> running.Measured:
    """Make one run on an idle GPU and tell of it."""
    busy = kept_busy(bench)
    with listener.run(title):
        measured = running.outlasting_crashes(
            lambda fresh: running.measure_run(bench, workload, fresh(folder)),
            on_crash=listener.crashed,
        )
    measured = complaining(
        replace(measured, run=measured.run.model_copy(update={"form": form})), busy
    )
    listener.done(title, measured.run)
    return measured


def kept_busy(bench: running.Bench) -> str | None:
    """Wait for an idle GPU, and say what keeps it busy if it does not become so."""
    return wait_until_idle(bench.machine.gpus, IDLE_PATIENCE_S)


def complaining(measured: running.Measured, busy: str | None) -> running.Measured:
    """The run with a complaint of what kept the GPU busy before it, if anything did."""
    if busy is None:
        return measured
    complaints = (*measured.run.complaints, f"before it started, {busy}")
    return replace(measured, run=measured.run.model_copy(update={"complaints": complaints}))
