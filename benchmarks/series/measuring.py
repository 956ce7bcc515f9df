"""Makes the runs of the variants, in turns, until each has enough or the time is over; judges
nothing.

round 1   serial -> workers -> pinned          one fresh process under nsys each
round 2   serial <- workers <- pinned          downwards: a drift hits neighbours alike
round 3   serial -> workers -> pinned
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from benchmarks.series.lessons import VARIANTS
from benchmarks.series.recording import (
    Failure,
    RecordedRun,
    RecordedVariant,
    Recording,
    Unusable,
    compact,
    refuse_other_parameters,
)
from perfgate.execute.context import RunContext
from perfgate.execute.run import TRIES, Measured, measure_run
from perfgate.machine import gpu_lock, read_machine, wait_until_idle
from perfgate.model.baseline import code_digest
from perfgate.model.errors import (
    CaptureFailed,
    CaptureUnreadable,
    LayoutUnknown,
    NsysCrashed,
    PerfgateError,
    StepsNotFound,
    WorkloadFailed,
    WorkloadTimedOut,
)
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import Severity, note
from perfgate.model.pyproject import load_settings
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.command import trace_options
from perfgate.profilers.nsys.tool import find_nsys
from perfgate.system import git
from perfgate.words.say import fact

LISTING: Final = """
import sys
from pathlib import Path
from pydantic import TypeAdapter
from perfgate.model.errors import ConfigInvalid
from perfgate.model.workload import Workload
from perfgate.plugin.listing import collect

root, *files = sys.argv[1:]
try:
    found = collect(Path(root), options=files).workloads
except ConfigInvalid as refused:
    sys.exit(str(refused.fields["reason"]))
print(TypeAdapter(list[Workload]).dump_json(list(found)).decode())
"""
"""Prints the workloads of a file as JSON; a process of its own, since collecting imports them."""
VARIABLE: Final = "VARIANTS"
"""Says to the workloads which variants to show: `all`, or their names with commas between them."""
OF_THE_VARIANT: Final = (
    CaptureFailed,
    CaptureUnreadable,
    LayoutUnknown,
    NsysCrashed,
    StepsNotFound,
    WorkloadFailed,
    WorkloadTimedOut,
)
"""Errors that end a variant, while the others go on; any other ends all."""
IDLE_PATIENCE_S: Final = 10.0
"""How long a GPU may take to become idle before a run."""


@dataclass(frozen=True, kw_only=True)
class Collected:
    """One variant of one loop, as it is to be run."""

    loop: str
    variant: str
    workload: Workload

    @property
    def key(self) -> tuple[str, str]:
        """Loop and variant."""
        return self.loop, self.variant


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One run, and the machine with what it has really loaded."""

    run: RecordedRun
    machine: Machine


Measure = Callable[[Collected], Taken]
"""Makes one run; raises any of `OF_THE_VARIANT`."""


# Which variants there are


def chosen_variants(loop: str, variants: Sequence[str]) -> tuple[str, ...] | None:
    """Which variants of a loop to show: those named, in the series's order; None stands for all
    that need no naming.
    """
    if not variants:
        return None
    series = VARIANTS.get(loop)
    if series is None:
        return tuple(variants)
    return tuple(variant.name for variant in series.variants if variant.name in variants)


def asked_of(chosen: tuple[str, ...] | None) -> str:
    """How the workloads are asked for them."""
    return "all" if chosen is None else ",".join(chosen)


def collect(
    project: Path,
    loops: Sequence[str],
    variants: Sequence[str],
    *,
    env: Mapping[str, str],
    machine: Machine,
) -> tuple[Collected, ...]:
    """Find the variants of the loops in a project, in the series' order.

    Raises:
        Unusable: a loop has no file there, the files cannot be collected, or none of the variants
        is in them.
    """
    found: list[Collected] = []
    for loop in loops:
        chosen = chosen_variants(loop, variants)
        if chosen == ():
            continue
        listed = _listing(project, _file_of(project, loop), env={**env, VARIABLE: asked_of(chosen)})
        of_loop = (
            Collected(loop=loop, variant=variant_of(workload, machine), workload=workload)
            for workload in listed
        )
        wanted = [one for one in of_loop if not variants or one.variant in variants]
        found += sorted(wanted, key=lambda one: _place(one.loop, one.variant))
    if not found:
        raise Unusable(
            f"There is nothing to run: {_listed(loops)} has none of the variants "
            f"{_listed(variants)}."
        )
    return tuple(found)


def variant_of(workload: Workload, machine: Machine) -> str:
    """A workload's variant: what stands in its brackets, or on how many GPUs it runs where nothing
    does."""
    _, bracket, inner = workload.id.partition("[")
    if bracket:
        return inner.removesuffix("]")
    count = len(machine.gpus)
    return "no GPU" if not count else f"{count} GPU{'s' if count > 1 else ''}"


def _place(loop: str, variant: str) -> int:
    names = [one.name for one in VARIANTS[loop].variants] if loop in VARIANTS else []
    return names.index(variant) if variant in names else len(names)


def _file_of(project: Path, loop: str) -> Path:
    places = (project / "workloads" / f"{loop}{end}" for end in (".py", ".yaml", ".yml"))
    file = next((place for place in places if place.exists()), None)
    if file is None:
        there = project / "workloads" / loop
        raise Unusable(f"--workload {loop}: there is no {there}.py, and no {loop}.yaml next to it.")
    return file


def _listing(project: Path, file: Path, *, env: Mapping[str, str]) -> list[Workload]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", LISTING, str(project), str(file)],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it does not say why"]
        raise Unusable(f"{file.name}: the workloads cannot be collected ({said[-1].rstrip('.')}).")
    return TypeAdapter(list[Workload]).validate_json(done.stdout.splitlines()[-1])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))


# Whose turn it is


def next_turn(
    variants: Sequence[Collected],
    made: Mapping[tuple[str, str], int],
    *,
    runs: int,
    left_out: Collection[tuple[str, str]],
) -> Collected | None:
    """Return the variant of one loop that is to be run next; None where each has its runs, or is
    left out.
    """
    for number in range(runs):
        in_order = variants if number % 2 == 0 else variants[::-1]
        for one in in_order:
            if made.get(one.key, 0) <= number and one.key not in left_out:
                return one
    return None


@dataclass(kw_only=True)
class Turns:
    """The runs of one invocation: makes them one after another, and saves after each."""

    recording: Recording
    variants: Sequence[Collected]
    runs: int
    measure: Measure
    save: Callable[[Recording], None]
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    ends: float | None = None
    """On that clock; None for no limit."""
    _left_out: set[tuple[str, str]] = field(default_factory=set)

    def take(self) -> Recording:
        """Make runs until each variant has enough of them, or the time is over; loop after loop.

        Raises:
            PerfgateError: what is no variant's own fault: no nsys, a GPU that another gate holds, a
            full disk. Unusable: a variant's recorded runs are of other parameters.
        """
        for one in self.variants:
            former = self.recording.of(*one.key)
            if former is None:
                variant = RecordedVariant(loop=one.loop, variant=one.variant, workload=one.workload)
                self.recording = self.recording.with_variant(variant)
                continue
            refuse_other_parameters(former, one.workload)
            if former.failures and not former.sound:
                self._left_out.add(one.key)
                self.say(f"{one.workload.id}: it failed before, and is left out")
        for loop in dict.fromkeys(one.loop for one in self.variants):
            of_loop = [one for one in self.variants if one.loop == loop]
            while (turn := self._next(of_loop)) is not None:
                self._take(turn)
        return self.recording

    def missing(self) -> tuple[Collected, ...]:
        """The variants that do not have their runs."""
        return tuple(one for one in self.variants if self._made(one) < self.runs)

    def _next(self, of_loop: Sequence[Collected]) -> Collected | None:
        if self.ends is not None and self.clock() >= self.ends:
            return None
        made = {one.key: self._made(one) for one in of_loop}
        return next_turn(of_loop, made, runs=self.runs, left_out=self._left_out)

    def _made(self, one: Collected) -> int:
        variant = self.recording.of(*one.key)
        return 0 if variant is None else len(variant.sound)

    def _take(self, one: Collected) -> None:
        variant = self.recording.of(*one.key)
        assert variant is not None
        try:
            taken = self.measure(one)
        except OF_THE_VARIANT as failed:
            self._left_out.add(one.key)
            self._fail(variant, _reason(failed, subject=one.workload.id))
            return
        self.recording, index = self.recording.machine_index(taken.machine)
        run = taken.run.model_copy(update={"machine": index})
        variant = variant.model_copy(update={"runs": (*variant.runs, run)})
        self.recording = self.recording.with_variant(variant)
        self.save(self.recording)
        if not run.problems:
            step_ms = run.run.value(Metric.STEP_MS)
            shown = "no step time" if step_ms is None else f"{step_ms:.4g} ms a step"
            self.say(
                f"{one.workload.id}: run {len(variant.sound)} of {self.runs}, {shown}, "
                f"{run.took_s:.0f} s"
            )
            return
        self._left_out.add(one.key)
        self._fail(variant, f"a run does not count: {run.problems[0]}")

    def _fail(self, variant: RecordedVariant, reason: str) -> None:
        self.say(f"{variant.workload.id}: failed, {reason}")
        failed = Failure(at=datetime.now(UTC), reason=reason)
        self.recording = self.recording.with_variant(
            variant.model_copy(update={"failures": (*variant.failures, failed)})
        )
        self.save(self.recording)


def _reason(failed: PerfgateError, *, subject: str) -> str:
    """What an error says, in a line, without its advice."""
    return str(failed).removeprefix(f"{subject}: ").partition("\n")[0].rstrip(".")


# One run


@dataclass(frozen=True, kw_only=True)
class Nsys:
    """Makes runs under nsys, each in a folder of its own below `folder`."""

    context: RunContext
    folder: Path
    variants: tuple[str, ...]
    """Those asked for by name; without any, all that need no naming."""
    commit: str | None
    say: Callable[[str], None] = print
    locks: Path | None = None
    """Where the GPUs' locks lie; by default where all gates of this machine look."""

    def __call__(self, one: Collected) -> Taken:
        """Make one run."""
        asked = asked_of(chosen_variants(one.loop, self.variants))
        context = replace(self.context, env={**self.context.env, VARIABLE: asked})
        workload = one.workload
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        folder = self.folder / f"{one.loop}-{one.variant}-{stamp}".replace(" ", "-")
        held = gpu_lock(
            context.machine.gpus,
            timeout_s=context.settings.lock_timeout_s,
            on_wait=lambda waits: self.say(fact(waits)),
            workload=workload.id,
            folder=self.locks,
        )
        try:
            with held:
                began = time.monotonic()
                busy = wait_until_idle(context.machine.gpus, IDLE_PATIENCE_S)
                measured = _measured(context, workload, folder)
        finally:
            for made in self.folder.glob(f"{folder.name}*"):
                shutil.rmtree(made, ignore_errors=True)
        run = compact(measured.run)
        if busy is not None:
            run = run.model_copy(
                update={
                    "notes": (
                        *run.notes,
                        note("busy-before", Severity.INVALID, why=busy),
                    )
                }
            )
        worker_report, machine = measured.worker_report, context.machine
        if worker_report is not None:
            loaded = {
                "torch": worker_report.torch,
                "cuda": worker_report.cuda or machine.cuda,
                "nvtx": worker_report.nvtx,
            }
            machine = machine.model_copy(update=loaded)
        recorded = RecordedRun(
            run=run,
            machine=0,
            took_s=float(f"{time.monotonic() - began:.4g}"),
            code=code_digest(measured.code),
            commit=self.commit,
        )
        return Taken(run=recorded, machine=machine)


def context_of(project: Path, env: Mapping[str, str]) -> RunContext:
    """What all runs in a project share.

    Raises:
        NsysNotFound, NsysUnsupported, MachineUnreadable, ConfigInvalid: as their names say.
    """
    settings = load_settings(project, {})
    tool = find_nsys(None, env, setting=settings.nsys)
    options = trace_options(graph_trace=settings.cuda_graph_trace)
    return RunContext(
        root=project,
        settings=settings,
        tool=tool,
        machine=read_machine(env, nsys=str(tool.version), nsys_options=options),
        env=env,
        python=sys.executable,
        pytest_options=(f"--rootdir={project}", "--import-mode=importlib"),
    )


def commit_of(project: Path) -> str | None:
    """The commit that the project stands at, with a plus where it has changes; None outside a
    repository."""
    commit = git.read_commit(project)
    return None if commit is None else f"{commit.sha[:12]}{'+' if commit.dirty else ''}"


def _measured(context: RunContext, workload: Workload, folder: Path) -> Measured:
    """One run; if nsys itself breaks down, it is made again in a folder next to that one."""
    for number in range(1, TRIES):
        with suppress(NsysCrashed):
            tried = folder if number == 1 else folder.with_name(f"{folder.name}-try-{number}")
            return measure_run(context, workload, tried)
    return measure_run(context, workload, folder.with_name(f"{folder.name}-try-{TRIES}"))
