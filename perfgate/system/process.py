"""Running one program to its end, with everything that it starts."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import psutil

from perfgate.model.order import RUN_COOKIE
from perfgate.system.ending import end_all, new_mark, processes_of

WRAPPED_LINES: Final = 4
"""So many lines are held back, since those to come may go on with what stands in them."""
LONGEST_LINE: Final = 1 << 14
"""Bytes after which a line without an end is cut, so that no output can fill the memory, nor take
long to be cleaned."""
HEAD_BYTES: Final = 2_000_000
TAIL_BYTES: Final = 2_000_000
"""How much of the beginning and of the end of a program's output is kept in its log."""
_POLL_S: Final = 0.1
_LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A carriage return at the end of what has been read may be half of a line end; it waits for the
next byte."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """How a program ended."""

    returncode: int | None
    """Exit status; minus the signal's number where a signal ended it; None where it was ended for
    its time limit."""
    timed_out: bool
    wall_s: float
    left: tuple[str, ...]
    """Names of the processes that still ran when the program had ended or its time was up, and were
    ended."""


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Who hears of a program while it runs."""

    on_line: Callable[[str], None] | None = None
    """Gets each line that it writes."""
    on_tick: Callable[[], None] | None = None
    """Is called at least every 0.1 s, and may raise OutOfTime."""
    clean: Callable[[str], str] = str
    """Gets lines that may go together, and returns what may be seen of them."""


def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    timeout_s: float,
    listening: Listening | None = None,
) -> Finished:
    """Run a program in a session of its own until it ends or its time is up; afterwards nothing of
    it runs, but for what has left its session and cleared its environment.

    Its stdout and stderr become one stream of lines, ended by newline or carriage return (progress
    bars), undecodable bytes replaced; what is left of them once clean goes to `listening` and, but
    for the middle of very much, to `log`. Its stdin is empty. `timeout_s` is the most it may take.

    Raises:
        OSError: the program cannot be started, or the log cannot be written.
        KeyboardInterrupt: and whatever `listening` raises, after everything that was started
        has been ended.
    """
    mark = new_mark()
    inherited = env.get(RUN_COOKIE)
    started = time.monotonic()
    process: subprocess.Popen[bytes] | None = None

    def ours() -> list[psutil.Process]:
        return processes_of(mark, session=None if process is None else process.pid)

    heard = listening or Listening()
    with ExitStack() as held:
        record = _Record(held.enter_context(log.open("wb")), heard)
        held.callback(record.close)
        returncode = None
        try:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env={**env, RUN_COOKIE: f"{inherited}:{mark}" if inherited else mark},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            with suppress(OutOfTime):
                for lines in _lines(process, deadline=started + timeout_s, on_tick=heard.on_tick):
                    record.take(lines)
                returncode = process.poll()
            wall_s = time.monotonic() - started
            record.take((), are_last=True)
        finally:
            # Ctrl-C may fall between the program's start and its being known here: the mark finds
            # it anyway.
            left = end_all(ours, process)
    return Finished(returncode=returncode, timed_out=returncode is None, wall_s=wall_s, left=left)


class _Record:
    """What a program writes, cleaned however its lines come: what goes over the last few may go on
    in those to come. Of very much the first and the last lines are kept in its log, and between
    them how much was left out."""

    def __init__(self, log: BinaryIO, heard: Listening) -> None:
        self._log, self._heard = log, heard
        self._held: list[str] = []
        """Lines that a later one may still change."""
        self._enough = 0
        """So many held lines are worth another look, after one that could part none of them."""
        self._room = HEAD_BYTES
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._dropped_lines = self._dropped_bytes = 0

    def take(self, lines: Sequence[str], *, are_last: bool = False) -> None:
        """Take further lines; keep, and pass on, those that no later one can change."""
        self._held += lines
        for line in self._parted(ends=are_last or self._heard.clean is str):
            self._keep(line)
            if self._heard.on_line is not None:
                self._heard.on_line(line)

    def close(self) -> None:
        """Keep what is left, which nobody hears of any more, and write the last lines."""
        for line in self._cleaned(self._held):
            self._keep(line)
        if self._dropped_lines:
            size = f"{self._dropped_bytes / 1e6:.1f} MB"
            note = f"[perfgate left out {self._dropped_lines} lines here, {size}]\n"
            self._log.write(note.encode())
        self._log.writelines(self._tail)

    def _parted(self, *, ends: bool) -> list[str]:
        """Take off what is held so many lines that cleaning each part by itself is cleaning the
        whole, and return them clean: all where it ends, none if it cannot be parted. What could
        not be, such as a key without an end, is looked at again when it has grown by a quarter."""
        held = self._held
        if not ends and len(held) < self._enough:
            return []
        self._enough, whole = 0, self._cleaned(held)
        if ends:
            self._held = []
            return whole
        if whole == held:  # nothing to hide, and no more than the last lines can go on in others
            cut = max(0, len(held) - WRAPPED_LINES)
            self._held = held[cut:]
            return held[:cut]
        for cut in range(len(held) - WRAPPED_LINES, max(0, len(held) - 4 * WRAPPED_LINES), -1):
            done, rest = self._cleaned(held[:cut]), self._cleaned(held[cut:])
            if done + rest == whole:
                self._held = held[cut:]
                return done
        self._enough = len(held) * 5 // 4
        return []

    def _cleaned(self, lines: Sequence[str]) -> list[str]:
        return self._heard.clean("\n".join(lines)).split("\n") if lines else []

    def _keep(self, line: str) -> None:
        """Add a line to the log: at once as long as there is room, else at the end."""
        data = (line + "\n").encode(errors="replace")
        if self._room > 0:
            self._room -= len(data)
            self._log.write(data)
            self._log.flush()
            return
        self._tail.append(data)
        self._tail_bytes += len(data)
        while self._tail_bytes > TAIL_BYTES:
            dropped = len(self._tail.popleft())
            self._tail_bytes -= dropped
            self._dropped_lines += 1
            self._dropped_bytes += dropped


class OutOfTime(Exception):
    """The program still ran at its deadline; or at another, whoever raises it on a tick."""


def _lines(
    process: subprocess.Popen[bytes],
    *,
    deadline: float,
    on_tick: Callable[[], None] | None,
) -> Iterator[list[str]]:
    """Yield the output, the lines that come together at a time, until the program has ended.

    Raises:
        OutOfTime: the deadline came first. The pipe is closed then, at which the program may end
        by itself; that is no end in time.
    """
    stream = process.stdout
    assert stream is not None
    descriptor = stream.fileno()
    os.set_blocking(descriptor, False)
    pending = b""
    with stream, selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if on_tick is not None:
                on_tick()
            ended = process.poll() is not None
            remaining = deadline - time.monotonic()
            if remaining <= 0 and not ended:
                if pending:
                    yield [_decoded(pending)]
                raise OutOfTime
            if not selector.select(timeout=_POLL_S if ended else min(_POLL_S, remaining)):
                if ended:
                    break  # a child that outlives the program holds the pipe open
                continue
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                # All ends of the pipe are closed; the program itself may run on without a word.
                while process.poll() is None and time.monotonic() < deadline:
                    if on_tick is not None:
                        on_tick()
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(timeout=min(_POLL_S, max(0.0, deadline - time.monotonic())))
                break
            if ended and remaining <= 0:
                break  # a child that outlives the program floods the pipe
            *whole, pending = _LINE_END.split(pending + chunk)
            while len(pending) > LONGEST_LINE:
                whole.append(pending[:LONGEST_LINE])
                pending = pending[LONGEST_LINE:]
            if whole:
                yield list(map(_decoded, whole))
    if pending:
        yield [_decoded(pending)]


def _decoded(line: bytes) -> str:
    return line.rstrip(b"\r").decode(errors="replace")
