"""Running one program to its end, with everything that it starts; and a gate, as a command."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from perfgate.model.order import RUN_COOKIE
from perfgate.system.ending import end_all, new_mark, processes_of
from perfgate.system.signals import holding_signals_back

WRAPPED_LINES: Final = 4
"""So many lines are held back, since those to come may go on with what stands in them."""
LONGEST_LINE: Final = 1 << 14
"""Bytes after which a line without an end is cut, so that no output can fill the memory, nor take
long to be cleaned."""
HEAD_BYTES: Final = 2_000_000
TAIL_LINES: Final = 5_000
"""How much of the beginning and of the end of a program's output is kept in its log."""
PATIENCE_S: Final = 30.0
"""How long a gate that is asked to end may take to end nsys and the workload."""
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
    wall_s: float
    left: tuple[str, ...]
    """Names of the processes that still ran when the program had ended or its time was up, and were
    ended."""

    @property
    def timed_out(self) -> bool:
        """Whether its time was up."""
        return self.returncode is None


def ignore(*_: object) -> None:
    """Nobody listens."""


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Who hears of a program while it runs."""

    on_line: Callable[[str], object] = ignore
    """Gets each line that it writes."""
    on_tick: Callable[[], object] = ignore
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
    listening: Listening = Listening(),
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
    returncode: int | None = None
    with log.open("wb") as file:
        record = _Record(file, listening)
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
                for lines in _lines(process, started + timeout_s, listening.on_tick):
                    record.take(lines)
                returncode = process.poll()
            wall_s = time.monotonic() - started
            record.take((), are_last=True)
        finally:
            # Ctrl-C may fall between the program's start and its being known here: the mark finds
            # it anyway.
            session = None if process is None else process.pid
            with holding_signals_back():
                left = end_all(lambda: processes_of(mark, session=session))
                if process is not None:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(timeout=1.0)
                record.close()
    return Finished(returncode=returncode, wall_s=wall_s, left=left)


class _Record:
    """What a program writes, cleaned however its lines come: what goes over the last few may go on
    in those to come. Of very much the first and the last lines are kept in its log, and between
    them how many were left out."""

    def __init__(self, log: BinaryIO, listening: Listening) -> None:
        self._log, self._listening = log, listening
        self._held: list[str] = []
        """Lines that a later one may still change."""
        self._enough = 0
        """So many held lines are worth another look, after one that could not part them."""
        self._room = HEAD_BYTES
        self._tail: deque[bytes] = deque(maxlen=TAIL_LINES)
        self._beyond = 0
        """Lines that did not find room at the beginning."""

    def take(self, lines: Sequence[str], *, are_last: bool = False) -> None:
        """Take further lines; keep, and pass on, those that no later one can change.

        These are the lines before the last few, if cleaning each part by itself is cleaning the
        whole; else the whole is looked at again when it has grown by a quarter.
        """
        self._held += lines
        held, cut = self._held, len(self._held) - WRAPPED_LINES
        if are_last or self._listening.clean is str:
            cut = len(held)
        elif cut <= 0 or len(held) < self._enough:
            return
        done, rest = self._cleaned(held[:cut]), self._cleaned(held[cut:])
        if rest and done + rest != self._cleaned(held):
            self._enough = len(held) * 5 // 4
            return
        self._held, self._enough = held[cut:], 0
        for line in done:
            self._keep(line)
            self._listening.on_line(line)

    def close(self) -> None:
        """Keep what is left, which nobody hears of any more, and write the last lines."""
        for line in self._cleaned(self._held):
            self._keep(line)
        if dropped := self._beyond - len(self._tail):
            self._log.write(f"[perfgate left out {dropped} lines here]\n".encode())
        self._log.writelines(self._tail)

    def _cleaned(self, lines: Sequence[str]) -> list[str]:
        return self._listening.clean("\n".join(lines)).split("\n") if lines else []

    def _keep(self, line: str) -> None:
        """Add a line to the log: at once as long as there is room, else at the end."""
        data = (line + "\n").encode(errors="replace")
        if self._room > 0:
            self._room -= len(data)
            self._log.write(data)
            self._log.flush()
        else:
            self._tail.append(data)
            self._beyond += 1


class OutOfTime(Exception):
    """The program still ran at its deadline; or at another, whoever raises it on a tick."""


def _lines(
    process: subprocess.Popen[bytes], deadline: float, on_tick: Callable[[], object]
) -> Iterator[list[str]]:
    """Yield the output, the lines that come together at a time, until the program has ended.

    Raises:
        OutOfTime: the deadline came first. The pipe is closed then, at which the program may end
        by itself; that is no end in time.
    """
    stream = process.stdout
    assert stream is not None
    pending, is_open = b"", True
    with stream, selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            on_tick()
            ended = process.poll() is not None
            remaining = deadline - time.monotonic()
            if remaining <= 0 or (ended and not is_open):
                break  # a child that outlives the program may flood the pipe
            wait_s = min(_POLL_S, remaining)
            if not is_open:  # all its ends are closed; the program itself runs on without a word
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=wait_s)
            elif selector.select(timeout=wait_s):
                chunk = os.read(stream.fileno(), 1 << 16)
                is_open = bool(chunk)
                *whole, pending = _LINE_END.split(pending + chunk)
                while len(pending) > LONGEST_LINE:
                    whole.append(pending[:LONGEST_LINE])
                    pending = pending[LONGEST_LINE:]
                if whole:
                    yield list(map(_decoded, whole))
            elif ended:
                break  # a child that outlives the program holds the pipe open
    if pending:
        yield [_decoded(pending)]
    if not ended:
        raise OutOfTime


def _decoded(line: bytes) -> str:
    return line.rstrip(b"\r").decode(errors="replace")


# A gate


def gate_command(python: str, *options: str, root: Path) -> tuple[str, ...]:
    """Return the command of a gate on the project at `root`; `options` are pytest's, workloads
    among them.

    It names the plugin, which `addopts` or the environment may have switched off.
    """
    return (python, "-m", "pytest", "-p", "perfgate", "--perfgate", f"--rootdir={root}", *options)


def run_to_end(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path | None = None
) -> int:
    """Run a gate and return its exit status, below zero where a signal ended it.

    Its output goes to `log`, or where ours goes. It gets a process group of its own, so that Ctrl-C
    reaches it once, from here: two in a row would interrupt its clearing up.

    Raises:
        OSError: the command cannot be started, or the log cannot be written.
        KeyboardInterrupt: after the command has ended.
    """
    with nullcontext() if log is None else log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            process_group=0,
        )
        try:
            return process.wait()
        except BaseException:
            # It takes SIGTERM for Ctrl-C and clears up, but for one that hangs, or a user who will
            # not wait.
            try:
                process.terminate()
                process.wait(timeout=PATIENCE_S)
            except (KeyboardInterrupt, subprocess.TimeoutExpired):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            raise
