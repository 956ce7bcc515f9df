"""What perfgate and the processes of a run tell each other: files in the run's folder.

```
order.json    to the worker          which workload, how many steps, whose turn in a pair
worker-report.json  from the worker        how it ended, with which versions
turn          between both workers   a pair's FIFO: read to wait, written to to hand over
imports/      from every process     which files it loaded
```
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Final

from perfgate.execute import import_log
from perfgate.execute.context import RunContext
from perfgate.model.errors import StoreFailed
from perfgate.model.order import Blocks, Order, WorkerReport
from perfgate.model.secrets import Cleaner
from perfgate.model.workload import Workload

ORDER: Final = "order.json"
WORKER_REPORT: Final = "worker-report.json"
FIFO: Final = "turn"
IMPORTS: Final = "imports"


def order_of(
    context: RunContext, workload: Workload, folder: Path, *, blocks: Blocks | None
) -> Order:
    """What is ordered of the worker of a run in this folder."""
    return Order(
        workload=workload.id,
        steps=workload.steps,
        warmup=workload.warmup,
        root=str(context.root),
        worker_report=str(folder / WORKER_REPORT),
        blocks=blocks,
    )


def make_folder(folder: Path, order: Order) -> None:
    """Make a run's folder, with the order in it and what its processes need to log their imports.

    Raises:
        StoreFailed: it is there already, or the disk does not take it.
    """
    try:
        folder.mkdir(parents=True)
        (folder / IMPORTS).mkdir()
        (folder / ORDER).write_text(order.model_dump_json(indent=2), encoding="utf-8")
        shutil.copyfile(import_log.__file__, folder / IMPORTS / "sitecustomize.py")
        if order.blocks is not None:
            os.mkfifo(order.blocks.own)
    except OSError as refused:
        raise StoreFailed(
            "run-folder-not-written", folder=str(folder), why=refused.strerror or str(refused)
        ) from refused


def read_worker_report(file: Path, cleaner: Cleaner) -> WorkerReport | None:
    """Read what the worker has reported by now, and clean the file; None where that is nothing, or
    half of it."""
    if not file.is_file():
        return None  # a pipe in its place would be read for ever
    try:
        found = WorkerReport.model_validate(json.loads(file.read_text(encoding="utf-8")))
        cleaned = cleaner.record(found)
        if cleaned is not found:
            file.write_text(cleaned.model_dump_json(indent=2), encoding="utf-8")
        return cleaned
    except (OSError, ValueError):
        # A worker that was killed leaves none, or half of one: both say the same.
        return None
