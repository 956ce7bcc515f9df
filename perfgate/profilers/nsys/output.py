"""What nsys prints while it profiles, apart from the workload's own lines.

Draws no conclusion from it.
"""

from __future__ import annotations

import re
import signal
from collections import deque
from collections.abc import Callable
from typing import Final

from perfgate.model.secrets import Cleaner

TAIL_LINES: Final = 20

_LINES_KEPT: Final = 400
"""Of nsys's and of the workload's: eight ranks may print their tracebacks at once."""

OWN_LINE: Final = re.compile(
    r"""Collecting\ data\.\.\.
    | Generating\ '.*\.qdstrm'
    | Generated:
    | \[\d+/\d+\]\ (\[|Executing\ ')
    | Processing\ (events\.\.\.|\d+\ events)
    | Capture\ range\ (started|ended)\ in\ the\ application\.
    | The\ target\ application\ terminated\.
    | Waiting\ for\ termination\ of\ re-parented\ processes\.
    | SKIPPED:\ (No\ data\ available\.|.*does\ not\ contain\ .*)
    | WARNING:\ (CUDA\ graph-level|Device-side\ CUDA|Backtraces?\ )
    | WARNING:\ CPU\ (IP|context|sampling|backtrace)
    | Failed\ to\ create\ '
    | Substitution\ error\ in\ '
    | Importer\ error\ status:
    | Import\ Failed\ with\ unexpected\ exception
    | Unable\ to\ retrieve\ the\ importer\ version
    | FATAL\ ERROR:\ .*QuadD
    | Connection\ to\ Agent\ lost
    | End\ of\ file$
    | Please\ refer\ to\ the\ troubleshooting\ section\ of\ the\ docs:
    | https://docs\.nvidia\.com/nsight-systems/
    | \S*QuadD\S*\(\d+\):\ Throw\ in\ function
    | Dynamic\ exception\ type:
    | std::exception::what:
    | \[(QuadDCommon|boost)::
    | Error\ \{$
    | (Illegal|Rounding)\ --\S+\ argument
    | unrecogni[sz]ed\ option\ '
    | usage:\ nsys\ profile
    | Try\ 'nsys\ profile\ --help'
    """,
    re.VERBOSE,
)
"""How lines of nsys itself begin, 2022.4 to 2026; the indented lines after one are nsys's too, and
a closing brace."""

PROGRESS: Final = re.compile(r"\[\d+/\d+\] \[[=\d% ]*\] \S*?\.(nsys-rep|sqlite|qdstrm)")
"""A progress bar; nsys ends it with a carriage return only before the next, so output of the
workload may follow."""


TORCHRUN_FAILED: Final = re.compile(
    r"(E\d{4} |ERROR:).*torch[./]distributed[./]elastic[./]multiprocessing[./]api"
    r".*failed \(exitcode: "
)
"""Where torchrun begins to report that a rank failed: its own traceback, and which was the
first."""
_ROOT_CAUSE: Final = re.compile(
    r"Root Cause \(first observed failure\):.*?\n\s*rank\s*: (\d+)", re.DOTALL
)


class Output:
    """The merged output of nsys and workload, line by line."""

    def __init__(
        self, on_line: Callable[[str], None] | None, cleaner: Cleaner | None = None
    ) -> None:
        self._on_line, self._cleaner = on_line, cleaner or Cleaner()
        self._indented_is_own = False
        self.in_listener = False
        """Whether `on_line` was called and has not come back: what was raised since is its own."""
        self.own: deque[str] = deque(maxlen=_LINES_KEPT)
        self.said: deque[str] = deque(maxlen=_LINES_KEPT)

    @property
    def tail(self) -> tuple[str, ...]:
        """The workload's last lines.

        Where torchrun reports a failed rank, that rank's before it.
        """
        said = self._cleaner.lines(self.said)  # together: a secret may go over several
        failed = (place for place, line in enumerate(said) if TORCHRUN_FAILED.match(line))
        end = next(failed, len(said))
        lines = said[:end] or said
        if root := _ROOT_CAUSE.search("\n".join(said[end:])):
            lines = [line for line in lines if line.startswith(f"[rank{root[1]}]: ")] or lines
        return tuple(lines[-TAIL_LINES:])

    def take(self, line: str) -> None:
        """Take the next line; the workload's go to `said` and `on_line`, nsys's to `own`.

        Progress bars and blank lines go nowhere.
        """
        while (bar := PROGRESS.match(line)) is not None:
            line = line[bar.end() :]
            self._indented_is_own = False
        if not line.strip():
            return
        if OWN_LINE.match(line):
            self._indented_is_own = True
            self.own.append(line)
        elif self._indented_is_own and (line[0] in " \t" or line == "}"):
            self.own.append(line)
        else:
            self._indented_is_own = False
            self.said.append(line)
            if self._on_line is not None:
                self.in_listener = True
                self._on_line(line)
                self.in_listener = False


def signal_name(number: int) -> str | None:
    """Return what a signal is called, None for a number that is none's."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
