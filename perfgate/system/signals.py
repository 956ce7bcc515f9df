"""The signals that end a perfgate: taken as Ctrl-C, and held back while it clears up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_as_on_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does, or what it started would outlive it."""
    ours = [number for number in _of_main_thread() if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def holding_signals_back(*, then_raise: bool = True) -> Iterator[Callable[[], bool]]:
    """Let no signal cut a clearing up short; the first that came is raised afterwards, or none.

    Yields a function that says whether one came.
    """
    came: list[int] = []
    before = {
        number: handler
        for number in _of_main_thread()
        if callable(handler := signal.getsignal(number))
    }
    try:
        for number in before:
            signal.signal(number, lambda number, _frame: came.append(number))
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came and then_raise:
            signal.raise_signal(came[0])


def _of_main_thread() -> tuple[signal.Signals, ...]:
    """No signal arrives in another thread, nor can its handler be set there."""
    return ENDING if threading.current_thread() is threading.main_thread() else ()
