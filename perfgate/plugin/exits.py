"""Lets no `os._exit(0)` in the process of a gate pass for success: neither a hook nor a `finally`
follows it."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable
from functools import cache

import pytest

from perfgate.model.note import note
from perfgate.words import say


class _Held:
    """What `os._exit` is in the process of a gate; in those forked from it, it is as it was."""

    def __init__(self, leave: Callable[[int], object]) -> None:
        self._leave = leave
        self._pid = os.getpid()
        self._stderr = _stderr()
        self.status: Callable[[], int | None] = lambda: None

    def __call__(self, status: int) -> None:
        if os.getpid() == self._pid and status == 0:
            shown = self.status()
            if shown is None:
                caller = traceback.extract_stack(limit=2)[0]
                with contextlib.suppress(OSError):
                    os.write(self._stderr, _words(f"{caller.filename}:{caller.lineno}").encode())
            status = int(pytest.ExitCode.TESTS_FAILED) if shown is None else shown
        self._leave(status)


def hold_exits(status: Callable[[], int | None]) -> None:
    """Have `os._exit(0)` leave this process with `status()`, and with 1 and a sentence where that
    is still None."""
    held = os._exit if isinstance(os._exit, _Held) else _Held(os._exit)
    held.status = status
    os._exit = held  # type: ignore[assignment]  # typed as a function that does not return


@cache
def _stderr() -> int:
    """Where what is said is seen: what is written to 2 itself pytest captures later on."""
    try:
        return os.dup(2)
    except OSError:  # closed
        return 2


def _words(place: str) -> str:
    return f"\n{say.message(note('exited-before-verdict', place=place))}\n"
