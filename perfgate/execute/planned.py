"""The runs of either side that a gate has asked for and that are still to be made: which belong
together, how many steps and blocks they have."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from perfgate.execute.ahead import Wanted, in_blocks
from perfgate.model.sample import Form

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


@dataclass(kw_only=True)
class PlannedRun:
    """One run of either side that is still to be made."""

    title: str
    form: Form
    asked: Form | None = None
    """As what it was asked for."""
    is_reference: bool = False
    candidate_begins: bool = False
    """Of a pair in blocks, as its reference's side says."""
    folder: str = ""
    tries: int = 0
    steps: int | None = None
    """As many as it was last started with."""


Unit = tuple[PlannedRun, ...]
"""Those that belong together."""


def asked_as(stage: Form | None, units: Sequence[Unit]) -> list[Unit]:
    """Those of one stage: pairs in a form, or runs of the candidate."""
    return [unit for unit in units if unit[0].asked == stage]


def first_of(units: Sequence[Unit], most: int) -> list[PlannedRun]:
    """The first of them, as many as there is room for; the two of a pair in blocks in any case."""
    batch = list(units[0])
    if batch[0].form is not Form.BLOCK:
        batch = batch[: max(most, 1)]
    for unit in units[1:]:
        if len(batch) + len(unit) > most:
            break
        batch += unit
    return batch


def pair_of(form: Form, index: int, planned: int) -> tuple[PlannedRun, PlannedRun]:
    """Both runs of a pair: the candidate's first in every second one, so that drift hits both.

    In blocks they are made at once, and the order is that of their first blocks.
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
        asked=form,
        is_reference=True,
        folder=folder,
        candidate_begins=candidate_begins,
    )
    candidate = PlannedRun(title=f"{title}, candidate", form=form, asked=form)
    if candidate_begins and form is not Form.BLOCK:
        return candidate, reference
    return reference, candidate


def pair_in_blocks(
    sides: tuple[Wanted, Wanted], reference: PlannedRun, block_steps: int
) -> tuple[Wanted, Wanted]:
    """Both sides of a pair as they are made in blocks, on the last core."""
    return in_blocks(
        sides,
        candidate_begins=reference.candidate_begins,
        block_steps=block_steps,
        core=max(os.sched_getaffinity(0)),
    )


def steps_of_a_block(step_ms: float | None, steps: int) -> int:
    """How many steps a block has, of so many that a side takes."""
    most = BLOCK_STEPS if not step_ms else math.ceil(SHORT_BLOCK_MS / step_ms)
    return max(BLOCK_STEPS, min(math.ceil(steps / MOST_BLOCKS), most))


def steps_in_blocks(step_ms: float | None) -> int:
    """How many steps a side takes, in whole blocks and at least three of them."""
    blocks = MOST_BLOCKS if not step_ms else int(BLOCKS_S * 1000 / step_ms / BLOCK_STEPS)
    return BLOCK_STEPS * min(max(blocks, 3), MOST_BLOCKS)
