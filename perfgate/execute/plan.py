"""What is known of a workload says of its further runs: which belong together, how many steps and
blocks they have, how many may be alive at once."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from perfgate.machine.processes import free_bytes
from perfgate.model.baseline import BlessedRun
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.order import Needs
from perfgate.model.sample import Form
from perfgate.model.workload import Workload

BLOCK_STEPS: Final = 10
MOST_BLOCKS: Final = 45
BLOCKS_S: Final = 4.5
"""Of a pair in blocks: steps of a block, blocks of a side at most, and seconds that they may take.

On hosts with other work nearly all that pairs differ by is noise of their blocks, of which 15 left
1.3 to 1.9 %; on a quiet one half of it is, and as much belongs to the two processes
(`benchmarks/host-noise`; `benchmarks/ahead`: by three pairs on another, 10
blocks left 1.8 %, 20 left 1.3 and 45 left 0.8).
"""
SHORT_BLOCK_MS: Final = 50.0
"""Blocks of more steps, of a loop that declares more than so many blocks hold, are no longer."""
MOST: Final = 9
"""Runs that are started together; of more, those that wait cost more than they save."""
PER_CORE: Final = 2
"""And for each CPU core, all of which they need to start and to end."""
ROOM: Final = 0.8
"""How much of what is free they may take: runs differ."""
NSYS_BYTES: Final = 400 << 20
"""What nsys takes besides a run: its agent, and the capture that it imports."""


# Which runs


@dataclass(kw_only=True)
class PlannedRun:
    """One run of either side that is still to be made."""

    title: str
    form: Form
    is_reference: bool = False
    candidate_begins: bool = False
    """Of a pair in blocks, as its reference's side says."""
    folder: str = ""


Turn = tuple[PlannedRun, ...]
"""What measures at once: one run, or both of a pair in blocks, the reference's first."""


def turns_of(form: Form | None, after: int, number: int) -> list[Turn]:
    """Further runs of the candidate, or pairs in a form, behind so many."""
    turns, planned = list[Turn](), after + number
    for index in range(after, planned):
        if form is None:
            turns.append((PlannedRun(title=f"run {index + 1} of {planned}", form=Form.ALONE),))
        else:
            turns += _turns_of_pair(form, index, planned)
    return turns


def _turns_of_pair(form: Form, index: int, planned: int) -> list[Turn]:
    """Both runs of a pair: the candidate's first in every second one, so that drift hits both.

    In blocks it is the candidate's first block that comes first.
    """
    title = f"pair {index + 1} of {planned}"
    match form:
        case Form.ALONE:
            title, folder = "alone", "reference-alone"
        case Form.BLOCK:
            title, folder = f"{title}, in blocks", f"interleaved-reference-{index + 1}"
        case _:
            folder = f"reference-{index + 1}"
    candidate_begins = index % 2 == 1
    reference = PlannedRun(
        title=title,
        form=form,
        is_reference=True,
        folder=folder,
        candidate_begins=candidate_begins,
    )
    candidate = PlannedRun(title=f"{title}, candidate", form=form)
    if form is Form.BLOCK:
        return [(reference, candidate)]
    return [(candidate,), (reference,)] if candidate_begins else [(reference,), (candidate,)]


def first_of(left: Sequence[Turn], most: int, *, with_blocks: bool) -> list[Turn]:
    """The first of them, as many as there is room for, and one in any case.

    Pairs in blocks wait for what comes before them where that is to say how long they are.
    """
    begins_in_blocks, batch = len(left[0]) > 1, list[Turn]()
    room = max(most, len(left[0]))
    for turn in left:
        waits = len(turn) > 1 and not (begins_in_blocks or with_blocks)
        room -= len(turn)
        if waits or room < 0:
            break
        batch.append(turn)
    return batch


# How many steps


def steps_of_a_block(step_ms: float | None, steps: int) -> int:
    """How many steps a block has, of so many that a side takes."""
    most = BLOCK_STEPS if not step_ms else math.ceil(SHORT_BLOCK_MS / step_ms)
    return max(BLOCK_STEPS, min(math.ceil(steps / MOST_BLOCKS), most))


def steps_in_blocks(step_ms: float | None) -> int:
    """How many steps a side takes, in whole blocks and at least three of them."""
    blocks = MOST_BLOCKS if not step_ms else int(BLOCKS_S * 1000 / step_ms / BLOCK_STEPS)
    return BLOCK_STEPS * min(max(blocks, 3), MOST_BLOCKS)


# How many at once


def how_to_run(
    workload: Workload, machine: Machine, known: Sequence[BlessedRun], *, asked: int | None
) -> tuple[Form, int]:
    """In which form a workload's next runs are made, and how many of them at once.

    CUDA graphs take other times in other forms, so their runs are made as those that are known.

    Args:
        workload: what is to be run.
        machine: where.
        known: its runs so far, the blessed ones first.
        asked: how many somebody wants at once; None for as many as there is room for.
    """
    if any((run.processes or 1) > 1 for run in known):
        return Form.ALONE, 1
    if workload.form == "command":
        if not machine.gpus:
            return Form.ALONE, 1  # it is held at its first use of CUDA
        most = workload.ahead or 1
        asked = min(asked or most, most)
    has_graphs = [run for run in known if run.values.get(Metric.GRAPH_LAUNCHES)]
    if has_graphs and has_graphs[0].form not in (Form.EARLY, Form.LATE):
        return Form.ALONE, 1
    if asked == 1:
        return (Form.EARLY if has_graphs else Form.ALONE), 1
    needs = next((run.needs for run in reversed(known) if run.needs is not None), None)
    if needs is None:
        return Form.EARLY, asked or 1  # how long it builds, and with what, the first one shows
    form = Form.EARLY if has_graphs or needs.tunes else Form.LATE
    return form, asked or _room(needs, machine)


def _room(needs: Needs, machine: Machine) -> int:
    """How many runs there is room for, one at least."""
    rooms = [MOST, PER_CORE * len(os.sched_getaffinity(0))]
    rooms.append(int(ROOM * free_bytes() / (needs.host_bytes + NSYS_BYTES)))
    for gpu in machine.gpus:
        known = needs.gpu_bytes is not None and gpu.memory_mib is not None
        free = ROOM * (gpu.memory_mib or 0) * (1 << 20)
        rooms.append(int(free / max(needs.gpu_bytes or 0, 1)) if known else 1)
    return max(min(rooms), 1)
