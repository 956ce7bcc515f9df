"""Why a run left no capture: one table of known failures by what nsys printed, and other signs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from perfgate.model.note import Note, Severity
from perfgate.model.workload import CaptureMode, CaptureWindow
from perfgate.profilers.nsys.output import signal_name
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import ProfileSpec
from perfgate.system.files import temporary_folder
from perfgate.system.process import Finished, Listening, run_process

FULL_BYTES: Final = 1_000_000
"""Free space below which the disk ran full during a run. nsys 2024.2 then takes the workload down
with SIGSEGV, or hangs, and turns what it has into a capture that looks whole."""
LDD_TIMEOUT_S: Final = 20.0


class Known(NamedTuple):
    """A failure that nsys names."""

    printed: str
    """Regular expression over what it printed; named groups are fields of the note."""
    code: str
    crashed: bool = False
    """Whether nsys itself broke down, so that another try may well succeed."""


KNOWN: Final = (
    Known(r"No space left on device", "nsys-disk-full"),
    Known(r"unrecogni[sz]ed option '(?P<said>.*?)'", "nsys-option-unknown"),
    # An illegal --delay nsys sets to 0, and goes on.
    Known(r"^(?P<said>Illegal --\S+ argument(?!.* set to ).*)", "nsys-window-illegal"),
    Known(r"(?P<said>std::exception::what:.*temp_directory_path.*)", "nsys-tmpdir-unusable"),
    Known(
        r"(?P<said>Local Endpoint is not available|Connection to Agent lost)",
        "nsys-crashed",
        crashed=True,
    ),
    Known(r"(?P<said>Importation failed)", "nsys-crashed", crashed=True),
    # All that 2024.2 says where its agent is gone before it could report.
    Known(r"^(?P<said>End of file)$", "nsys-crashed", crashed=True),
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

NOT_STARTED: Final = {"nsys-option-unknown", "nsys-window-illegal", "nsys-tmpdir-unusable"}
"""Failures before nsys came to start the workload."""


def is_nsys(name: str) -> bool:
    """Whether a process is nsys's own, by its name."""
    return name.startswith("nsys")


def nsys_hung(finished: Finished) -> bool:
    """Whether nothing but nsys was left when the time was up."""
    return finished.timed_out and bool(finished.left) and all(map(is_nsys, finished.left))


def why_no_capture(
    tool: NsysTool, spec: ProfileSpec, finished: Finished, printed: str
) -> tuple[Note, bool]:
    """Why there is no capture in a run's folder, and whether another try may well succeed.

    `printed` are nsys's own lines.
    """
    version, program = str(tool.version), str(tool.path)
    if finished.timed_out:
        return _note("capture-timed-out"), False
    for known in KNOWN:
        if found := re.search(known.printed, printed, re.MULTILINE):
            is_import = known.code == "nsys-not-imported"
            if is_import and (lacking := missing_libraries(tool.path)):
                return _note("nsys-importer-lacks", libraries=tuple(sorted(lacking))), False
            fields = {"said": found[0], "path": "", **found.groupdict()}
            # The exit status is the workload's: one that failed is that run's result.
            again = known.crashed and not (is_import and finished.returncode)
            return _note(known.code, nsys=version, program=program, **fields), again
    if any(spec.folder.glob("*.qdstrm")):
        return _note("nsys-not-imported", nsys=version, program=program, said=""), False
    status = finished.returncode
    if status is not None and status < 0:
        return _note("nsys-crashed", nsys=version, said=signal_name(-status) or str(-status)), True
    if status == 0 and "Generating '" in printed:
        return _note("nsys-lost-recording", nsys=version), True
    return _why_never_opened(spec.capture, status), False


def _note(code: str, /, **fields: str | float | tuple[str, ...]) -> Note:
    return Note(code=code, severity=Severity.INVALID, fields=fields)


def _why_never_opened(capture: CaptureMode | CaptureWindow, status: int | None) -> Note:
    match capture:
        case CaptureMode.ALL:
            return _note("nsys-wrote-nothing", status=status or 0)
        case _ if status:
            return _note("ended-before-window", status=status)
        case CaptureMode.CUDA_PROFILER_API:
            return _note("profiler-not-started")
        case CaptureWindow(delay=delay):
            return _note("window-not-reached", delay_s=delay)


def missing_libraries(nsys: Path) -> frozenset[str]:
    """Ask the loader what the importer next to an nsys lacks; empty if nothing, or not known.

    nsys itself only says "Importer error status: An unknown error occurred", leaves a .qdstrm and
    exits with 0.
    """
    missing: set[str] = set()
    for importer in nsys.resolve().parent.parent.glob("*/QdstrmImporter"):
        lines: list[str] = []
        try:
            with temporary_folder("ldd") as work:
                run_process(
                    ("ldd", str(importer)),
                    cwd=work,
                    env={
                        "LC_ALL": "C",
                        "PATH": "/usr/bin:/bin",
                        "LD_LIBRARY_PATH": str(importer.parent),
                    },
                    log=work / "log",
                    timeout_s=LDD_TIMEOUT_S,
                    listening=Listening(
                        on_line=lines.append,
                    ),
                )
        except OSError:
            continue
        missing |= {line.split()[0] for line in lines if line.rstrip().endswith("=> not found")}
    return frozenset(missing)
