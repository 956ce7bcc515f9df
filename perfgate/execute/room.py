"""How many runs of a workload may be alive at once on this machine, and where they wait."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from perfgate.machine.processes import free_bytes
from perfgate.model.baseline import BlessedRun
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.order import Needs
from perfgate.model.sample import Form
from perfgate.model.workload import Workload

MOST: Final = 9
"""Runs that are started together; of more, those that wait cost more than they save."""
PER_CORE: Final = 2
"""And for each CPU core, all of which they need to start and to end."""
ROOM: Final = 0.8
"""How much of what is free they may take: runs differ."""
NSYS_BYTES: Final = 400 << 20
"""What nsys takes beside a run: its agent, and the capture that it imports."""


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
