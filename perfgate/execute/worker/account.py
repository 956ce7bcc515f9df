"""A worker's last word: how it ended, with what, and of which code."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from perfgate.execute.worker.code import loaded_code
from perfgate.execute.worker.marking import nvtx_version
from perfgate.execute.worker.steps import MeasuredSteps
from perfgate.model.order import Account, Ending, Order


def tell(
    order: Order,
    steps: MeasuredSteps,
    ending: Ending,
    *,
    message: str = "",
    exit_status: int | None = None,
    before: Mapping[str, str] | None = None,
) -> None:
    """Close what the loop left open, and write the worker's account where the order wants it.

    Whatever the workload made of being abandoned, that is how it ended. `before` are the digests of code as it was
    loaded: a file that has another one now gets one that no other run's has.

    A process that the workload forked, and that comes to its end as the worker does, has nothing to say of it.
    """
    if not steps.is_here:
        return
    steps.close()
    if steps.abandoned is not None:
        ending, message = Ending.ABANDONED, steps.abandoned
    torch = sys.modules.get("torch")
    torch_version = getattr(torch, "__version__", None)
    account = Account(
        ending=ending,
        message=_writable(message),
        exit_status=exit_status,
        turns=steps.turns,
        pid=os.getpid(),
        torch=None if torch_version is None else str(torch_version),
        cuda=getattr(getattr(torch, "version", None), "cuda", None),
        nvtx=nvtx_version(),
        marked_by=steps.marked_by,
        captured_by=steps.captured_by,
        core=steps.kept_core,
        cores=steps.cores,
        code=_as_loaded(before or {}, loaded_code(Path(order.root), order.vendored)),
    )
    if order.witnesses is not None:
        _tell_modules(Path(order.witnesses))
    _write(Path(order.account), account)


def tell_failed(order: Order, steps: MeasuredSteps, message: str) -> None:
    """Say in the account of a workload that came to its end well what failed after that."""
    file = Path(order.account)
    if not steps.is_here or not file.exists():
        return
    account = Account.model_validate_json(file.read_text(encoding="utf-8"))
    if account.ending is Ending.FINISHED:
        update = {"ending": Ending.FAILED, "message": _writable(message)}
        _write(file, account.model_copy(update=update))


def _write(file: Path, account: Account) -> None:
    """For this user alone: what a workload raises may quote what nobody else is to read."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(account.model_dump_json(indent=2))


def _writable(message: str) -> str:
    return message.encode(errors="backslashreplace").decode()


def _tell_modules(folder: Path) -> None:
    """Write the file of each loaded module, as `execute/witness.py` does for processes that perfgate does not touch."""
    files = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str):
            files[str(name)] = str(Path(file).absolute())
    prefixes = sorted({sys.prefix, sys.base_prefix, sys.exec_prefix})
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        told = {"pid": os.getpid(), "prefixes": prefixes, "modules": files}
        (folder / "worker.json").write_text(json.dumps(told), encoding="utf-8")


def _as_loaded(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    return {
        path: digest
        if before.get(path, digest) == digest
        else hashlib.sha256(f"{before[path]} {digest} {os.getpid()}".encode()).hexdigest()
        for path, digest in now.items()
    }
