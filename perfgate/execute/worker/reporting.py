"""A worker's last word: how it ended, and with what."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from perfgate.execute.worker.marking import nvtx_version
from perfgate.execute.worker.steps import MeasuredSteps
from perfgate.model.note import Note
from perfgate.model.order import Ending, Order, WorkerReport


def report(
    order: Order,
    steps: MeasuredSteps,
    ending: Ending,
    *,
    why: Note | None = None,
) -> None:
    """Close what the loop left open, and write the worker's report where the order wants it.

    Whatever the workload made of being abandoned, that is how it ended. A process that the workload
    forked, and that comes to its end as the worker does, has nothing to report.
    """
    if not steps.is_here:
        return
    steps.close()
    if steps.abandoned is not None:
        ending, why = Ending.ABANDONED, steps.abandoned.why
    torch = sys.modules.get("torch")
    torch_version = getattr(torch, "__version__", None)
    worker_report = WorkerReport(
        ending=ending,
        why=why,
        turns=steps.turns,
        pid=os.getpid(),
        torch=None if torch_version is None else str(torch_version),
        cuda=getattr(getattr(torch, "version", None), "cuda", None),
        nvtx=nvtx_version(),
        needs=steps.needs,
    )
    file = Path(order.worker_report)
    # For this user alone: what a workload raises may quote what nobody else is to read.
    file.touch(mode=0o600)
    file.write_text(worker_report.model_dump_json(indent=2), encoding="utf-8")
