"""A pair in blocks: both sides of an A/B run at the same time; whichever fails first ends the
other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar
from uuid import uuid4

from perfgate.execute.context import RunContext
from perfgate.execute.folder import FIFO
from perfgate.execute.run import Measured, OneRun, OtherSideEnded, conditions_of, ordered
from perfgate.machine import Sampler
from perfgate.model.errors import ConfigInvalid, NsysCrashed, PerfgateError
from perfgate.model.order import Blocks
from perfgate.model.workload import Workload

Side = Literal["reference", "candidate"]
"""One of the two that an A/B run compares: another commit, and what is in the project now."""


class ReferenceFailed(Exception):
    """The reference's side of a pair came to nothing, by an `error` that `measure_run` would have
    raised for it."""

    def __init__(self, error: PerfgateError) -> None:
        self.error = error
        super().__init__(str(error))


def measure_pair(
    reference: RunContext,
    candidate: RunContext,
    workload: Workload,
    folders: tuple[Path, Path],
    *,
    begins: Side,
    block_steps: int,
    steps: int,
    core: int | None,
) -> tuple[Measured, Measured]:
    """Run a decorated workload once on either side, both at the same time, in blocks of steps.

    Either process waits while the other takes its next `block_steps` steps, so that what slows the
    machine slows both.

    Args:
        reference: what runs of the other commit share.
        candidate: that of the project.
        workload: what to run. Either side may take twice its time limit, for it waits for the
            other.
        folders: of the reference's run, and of the candidate's.
        begins: which side takes the first block.
        block_steps: measured steps of one block, at least 2.
        steps: measured steps of each side, in place of the workload's own number.
        core: the one core that both take their steps on; None leaves them where they may run.

    Raises:
        ConfigInvalid: the workload is a command, which nobody can stop between its steps.
        NsysCrashed: nsys itself broke down, on either side.
        ReferenceFailed: the reference came to nothing in another way.
        PerfgateError: the candidate did, by what `measure_run` raises. Whichever side fails first
        ends the other.
    """
    if workload.form == "command":
        raise ConfigInvalid("command-in-blocks", workload=workload.id)
    run_id = uuid4().hex
    stretched = workload.model_copy(update={"steps": steps, "timeout_s": 2 * workload.timeout_s})

    def side_of(context: RunContext, own: Path, other: Path, *, side: Side) -> OneRun:
        blocks = Blocks(
            steps=block_steps,
            begins=begins == side,
            own=str(own / FIFO),
            other=str(other / FIFO),
            core=core,
            patience_s=workload.timeout_s,
        )
        return held.enter_context(ordered(context, stretched, own, run_id=run_id, blocks=blocks))

    with ExitStack() as held:
        try:
            of_reference = side_of(reference, *folders, side="reference")
        except PerfgateError as failed:
            raise ReferenceFailed(failed) from failed
        of_candidate = side_of(candidate, *reversed(folders), side="candidate")
        with Sampler(candidate.machine.gpus, run_id=run_id) as sampler:
            try:
                ran = _both(of_reference.run, of_candidate.run)
            except ReferenceFailed as failed:
                if isinstance(failed.error, NsysCrashed):
                    raise failed.error from failed
                raise
        conditions = conditions_of(candidate, sampler)
        return _both(
            partial(of_reference.measured, ran[0], conditions),
            partial(of_candidate.measured, ran[1], conditions),
        )


T = TypeVar("T")
Ticking = Callable[..., T]
"""Does one side's part of a pair, and calls its keyword argument `on_tick` at least every 0.1 s
meanwhile."""


class _CalledOff(Exception):
    """The other side of the pair has failed, so this one is of no use."""


def _both(reference: Ticking[T], candidate: Ticking[T]) -> tuple[T, T]:
    """Do both at once, and as soon as one fails, or Ctrl-C comes, call the other off.

    The candidate's part is done in this thread, where a KeyboardInterrupt arrives if it is the main
    one.

    Raises:
        ReferenceFailed: by the first failure, if that was the reference's.
    """
    is_over = threading.Event()
    failed: dict[Side, PerfgateError] = {}
    abandoned: dict[Side, PerfgateError] = {}
    """Each of these says that the other ended first."""

    def tick() -> None:
        if is_over.is_set():
            raise _CalledOff

    def attempt(side: Side, part: Ticking[T]) -> T | None:
        try:
            return part(on_tick=tick)
        except _CalledOff:
            return None
        except OtherSideEnded as blameless:
            abandoned[side] = blameless.error
            return None
        except PerfgateError as error:
            is_over.set()
            failed[side] = error
            return None
        except BaseException:
            is_over.set()
            raise

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="perfgate-reference") as pool:
        try:
            other = pool.submit(attempt, "reference", reference)
            ours = attempt("candidate", candidate)
            theirs = other.result()
        finally:
            is_over.set()  # does nothing once both have ended
    for errors in (failed, abandoned):
        if "candidate" in errors:
            raise errors["candidate"]
        if "reference" in errors:
            raise ReferenceFailed(errors["reference"]) from errors["reference"]
    assert ours is not None
    assert theirs is not None
    return theirs, ours
