"""What perfgate and the processes of a run tell each other: files in the run's folder.

```
order.json    to the worker          which workload, how many steps, whose turn in a pair
account.json  from the worker        how it ended, which versions and code it loaded
turn          between both workers   a pair's FIFO: read to wait, written to by the other side to hand over
witnesses/    from every process     which modules it loaded
```
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from perfgate.execute.bench import Bench
from perfgate.execute.side_environment import PACKAGE
from perfgate.model.errors import RepositoryUnreadable, StoreFailed
from perfgate.model.order import Account, Bouts, Order
from perfgate.model.secrets import Cleaner
from perfgate.model.workload import Workload
from perfgate.system import git

ORDER: Final = "order.json"
ACCOUNT: Final = "account.json"
FIFO: Final = "turn"
WITNESSES: Final = "witnesses"


def order_of(bench: Bench, workload: Workload, folder: Path, *, bouts: Bouts | None) -> Order:
    """What the worker of a run in this folder is told."""
    return Order(
        workload=workload.id,
        steps=workload.steps,
        warmup=workload.warmup,
        root=str(bench.root),
        account=str(folder / ACCOUNT),
        bouts=bouts,
        vendored=_vendored(workload, bench),
        witnesses=None if bench.tree is not None else str(folder / WITNESSES),
    )


def _vendored(workload: Workload, bench: Bench) -> tuple[str, ...]:
    """What a worker cannot know of a project's files, for it does not ask git."""
    if workload.form != "command":
        with suppress(RepositoryUnreadable):
            return tuple(
                sorted(folder.as_posix() for folder in git.vendored(bench.root, env=bench.env))
            )
    return ()


def make_folder(folder: Path, order: Order) -> None:
    """Make a run's folder, with the order in it and what its processes need to speak.

    Raises:
        StoreFailed: it is there already, or the disk does not take it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=False)
        (folder / ORDER).write_text(order.model_dump_json(indent=2), encoding="utf-8")
        if order.witnesses is not None:
            Path(order.witnesses).mkdir()
            shutil.copyfile(
                PACKAGE / "execute" / "witness.py", Path(order.witnesses) / "sitecustomize.py"
            )
        if order.bouts is not None:
            os.mkfifo(order.bouts.own)
    except OSError as refused:
        raise StoreFailed(
            subject=str(folder),
            fact=f"the run's folder cannot be written ({refused.strerror or refused})",
            next_step="Make room or correct the permissions, and run again.",
        ) from refused


def read_account(file: Path, cleaner: Cleaner) -> Account | None:
    """Read what the worker has told of itself by now, and clean the file; None where that is nothing, or half of it."""
    if not file.is_file():
        return None  # a pipe in its place would be read for ever
    try:
        told = Account.model_validate(json.loads(file.read_text(encoding="utf-8")))
        cleaned = cleaner.record(told)
        if cleaned is not told:
            file.write_text(cleaned.model_dump_json(indent=2), encoding="utf-8")
        return cleaned
    except (OSError, ValueError):
        # A worker that was killed leaves none, or half of one: both say the same.
        return None
