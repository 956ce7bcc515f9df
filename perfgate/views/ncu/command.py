"""Which ncu to run, its command lines, as tuples, and what it says in its log where it has no
figures: the one place that knows its options. Runs nothing that is profiled."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perfgate.model.errors import NcuFailed, NcuNotFound, NcuUnsupported
from perfgate.profilers.nsys.tool import Program, Tool, Version
from perfgate.views.ncu.reading import METRIC_NAMES

VARIABLE: Final = "PERFGATE_NCU"
"""The environment variable that names the ncu program."""

VERSION_TIMEOUT_S: Final = 60.0
"""ncu is a program of some 90 MB, which a cold network file system takes a while to bring."""

NCU: Final = Program(
    name="ncu",
    product="Nsight Compute",
    package="nsight-compute",
    variable=VARIABLE,
    # The first that has only the options used here; before, kernels were named by others.
    oldest=Version(2022, 1),
    places=(
        "/usr/local/cuda*/bin/ncu",
        "/opt/nvidia/nsight-compute/*/ncu",
        "/usr/local/cuda*/nsight-compute-*/ncu",
        "/usr/local/NVIDIA-Nsight-Compute*/ncu",
        "/opt/nvidia/hpc_sdk/Linux_*/*/compilers/bin/ncu",
        "/usr/lib/nsight-compute/ncu",
        "/usr/lib/*/nsight-compute/target/*/ncu",
    ),
    kept_variables=(
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LD_LIBRARY_PATH",
        "TMPDIR",
        "XDG_CONFIG_HOME",
    ),
    not_found=NcuNotFound,
    unsupported=NcuUnsupported,
)


def find_ncu(env: Mapping[str, str]) -> Tool:
    """Find the ncu to run: `PERFGATE_NCU`, PATH, then the newest in NVIDIA's usual folders.

    Raises:
        NcuNotFound: nothing there, or what was named does not run.
        NcuUnsupported: what was named, or all that was found, is too old or says no version.
    """
    named = ((VARIABLE, env.get(VARIABLE)),)
    return NCU.find(named, env, places=NCU.places, timeout_s=VERSION_TIMEOUT_S)


SECTIONS: Final = ("SpeedOfLight", "LaunchStats", "Occupancy")
"""Those of ncu's set `basic` that hold the figures which are read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OneLaunch:
    """Which launch of which kernel is looked at."""

    kernel: str
    """The mangled name: the same in nsys and ncu, whatever either makes of it for people, and
    matched exactly.

    Or `regex:` and an expression, for which all kernels that it matches are one."""
    skip: int = 0
    """Launches of this kernel to pass over first."""
    from_start: bool = False
    """Whether they are counted from the start of the process, and not from `cudaProfilerStart` on.
    """


def profile_command(
    tool: Tool, launch: OneLaunch, argv: Sequence[str], *, report: Path, log: Path
) -> tuple[str, ...]:
    """Profile one launch of what `argv` runs.

    Clocks stay as they are: ncu would lock them to their base, which perfgate never does, for it
    changes what others on the machine measure, is left behind where ncu is killed, and shows a
    kernel at another clock than the gate saw. Caches are emptied before each replay (ncu's default,
    said here because the figures rest on it): what ran before the kernel then does not show in
    them, so two sides can be compared.
    """
    return (
        str(tool.path),
        *(word for section in SECTIONS for word in ("--section", section)),
        "--apply-rules=no",
        "--target-processes=all",
        "--replay-mode=kernel",
        "--cache-control=all",
        "--clock-control=none",
        f"--profile-from-start={'on' if launch.from_start else 'off'}",
        "--kernel-name-base=mangled",
        f"--kernel-name={launch.kernel}",
        f"--launch-skip={launch.skip}",
        "--launch-count=1",
        f"--log-file={log}",
        f"--export={report}",
        "--force-overwrite",
        *argv,
    )


def read_command(tool: Tool, report: Path) -> tuple[str, ...]:
    """Print what a report holds as CSV: a row a launch, in base units."""
    return (
        str(tool.path),
        f"--import={report}",
        "--page=raw",
        "--csv",
        "--print-units=base",
        "--print-kernel-base=mangled",
        f"--metrics={','.join(METRIC_NAMES)}",
    )


CODES: Final[Mapping[str, str]] = {
    "ERR_NVGPUCTRPERM": "ncu-no-permission",
    "Driver resource was unavailable": "ncu-counters-taken",
    "InterprocessLockFailed": "ncu-locked",
    "failed to connect to the CUDA driver": "ncu-no-driver",
    "LibraryNotLoaded": "ncu-no-counters",
    "To find out supported GPUs": "ncu-gpu-unknown",
    "did not match any section": "ncu-sections-missing",
    "unrecognised option": "ncu-option-unknown",
}
"""Words of an error of ncu, and the code that says what to do about it."""

_ERROR: Final = re.compile(r"^==ERROR== (.*\S)", re.MULTILINE)
_APPLICATION: Final = re.compile(r"The application returned an error code \((-?\d+)\)")


def application_status(log: str) -> int | None:
    """The exit status of the workload where ncu says that it was another than 0."""
    found = _APPLICATION.search(log)
    return None if found is None else int(found[1])


def trouble(log: str, *, subject: str, where: str) -> NcuFailed | None:
    """What ncu complains of, other than the workload itself; None where it does not.

    Args:
        log: what it said.
        subject: who has no figures for it.
        where: the log's file.
    """
    said = [line for line in _ERROR.findall(log) if not _APPLICATION.search(line)]
    if not said:
        return None
    known = ((line, code) for words, code in CODES.items() for line in said if words in line)
    line, code = next(known, (said[0], "ncu-trouble"))
    return NcuFailed(code, kernel=subject, line=line.rstrip("."), log=where)
