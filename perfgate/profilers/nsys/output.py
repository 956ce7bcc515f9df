"""What nsys prints while it profiles, apart from the workload's own lines; and why a run left no
capture: one table of known failures by what it printed, and other signs."""

from __future__ import annotations

import re
import signal
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from perfgate.model.note import Note, Severity
from perfgate.model.secrets import Cleaner
from perfgate.model.workload import CaptureMode, CaptureWindow
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import ProfileSpec
from perfgate.system.process import Finished

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
    | Failed\ to\ (create|truncate)\ '
    | Substitution\ errors?\ in\ '
    | Importer\ error\ status:
    | Export\ error:
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


@dataclass(slots=True)
class Output:
    """The merged output of nsys and workload, line by line."""

    cleaner: Cleaner
    own: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES_KEPT))
    """nsys's last lines."""
    said: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES_KEPT))
    """The workload's."""
    _indented_is_own: bool = False

    @property
    def tail(self) -> tuple[str, ...]:
        """The workload's last lines.

        Where torchrun reports a failed rank, that rank's before it.
        """
        said = self.cleaner.lines(self.said)  # together: a secret may go over several
        failed = (place for place, line in enumerate(said) if TORCHRUN_FAILED.match(line))
        end = next(failed, len(said))
        lines = said[:end] or said
        if root := _ROOT_CAUSE.search("\n".join(said[end:])):
            lines = [line for line in lines if line.startswith(f"[rank{root[1]}]: ")] or lines
        return tuple(lines[-TAIL_LINES:])

    def take(self, line: str) -> None:
        """Take the next line; the workload's go to `said`, nsys's to `own`.

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


def signal_name(number: int) -> str | None:
    """Return what a signal is called, None for a number that is none's."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


FULL_BYTES: Final = 1_000_000
"""Free space below which the disk ran full during a run. nsys 2024.2 then takes the workload down
with SIGSEGV, or hangs, and turns what it has into a capture that looks whole."""


class Known(NamedTuple):
    """A failure that nsys names."""

    printed: str
    """Regular expression over what it printed; named groups are fields of the note."""
    code: str
    crashed: bool = False
    """Whether nsys itself broke down, so that another try may well succeed."""


NOT_STARTED: Final = "nsys-not-started"
"""Of failures before nsys came to start the workload."""
KNOWN: Final = (
    Known(r"No space left on device", "nsys-disk-full"),
    # An illegal --delay nsys sets to 0, and goes on.
    Known(
        r"^(?P<said>unrecogni[sz]ed option '.*?'|Illegal --\S+ argument(?!.* set to ).*)",
        NOT_STARTED,
    ),
    # An end of file is all that 2024.2 says where its agent is gone before it could report.
    Known(
        r"(?P<said>Local Endpoint is not available|Connection to Agent lost|Importation failed"
        r"|^End of file$)",
        "nsys-crashed",
        crashed=True,
    ),
    # So nsys 2024.2 and 2025.3 call an importer that was killed.
    Known(
        r"Importer error status: (?P<said>An unknown error occurred)",
        "nsys-not-imported",
        crashed=True,
    ),
    Known(r"Importer error status: (?P<said>.*)", "nsys-not-imported"),
    Known(r"Failed to create '(?P<path>.*?)': (?P<said>.*)", "nsys-cannot-write"),
    Known(r"(?P<said>FATAL ERROR: .*)", "nsys-crashed"),
)
"""The surest first."""


def is_nsys(name: str) -> bool:
    """Whether a process is nsys's own, by its name."""
    return name.startswith("nsys")


def why_no_capture(
    tool: NsysTool, spec: ProfileSpec, finished: Finished, printed: str
) -> tuple[Note, bool]:
    """Why there is no capture in a run's folder, and whether another try may well succeed.

    `printed` are nsys's own lines.
    """
    version, status = str(tool.version), finished.returncode
    if finished.timed_out:
        return invalid("capture-timed-out"), False
    for known in KNOWN:
        if found := re.search(known.printed, printed, re.MULTILINE):
            named = {"said": found[0], "path": "", **found.groupdict()}
            # The exit status is the workload's: one that failed is that run's result.
            again = known.crashed and not (known.code == "nsys-not-imported" and status)
            return invalid(known.code, nsys=version, program=str(tool.path), **named), again
    if any(spec.folder.glob("*.qdstrm")):
        return invalid("nsys-not-imported", nsys=version, said=""), False
    if status is not None and status < 0:
        said = signal_name(-status) or str(-status)
        return invalid("nsys-crashed", nsys=version, said=said), True
    if status == 0 and "Generating '" in printed:
        return invalid("nsys-crashed", nsys=version, said="it wrote no capture"), True
    return _why_never_opened(spec.capture, status), False


def invalid(code: str, /, **fields: str | float | tuple[str, ...]) -> Note:
    """What keeps a run from being valid."""
    return Note(code=code, severity=Severity.INVALID, fields=fields)


def _why_never_opened(capture: CaptureMode | CaptureWindow, status: int | None) -> Note:
    match capture:
        case CaptureMode.ALL:
            return invalid("nsys-wrote-nothing", status=status or 0)
        case _ if status:
            return invalid("ended-before-window", status=status)
        case CaptureMode.CUDA_PROFILER_API:
            return invalid("profiler-not-started")
        case CaptureWindow(delay=delay):
            return invalid("window-not-reached", delay_s=delay)
