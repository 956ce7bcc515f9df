"""What ncu says while it profiles, in its own log: why it has no figures, and what to do about that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from perfgate.model.errors import NcuFailed

TROUBLES: Final[Sequence[tuple[str, str]]] = (
    (
        "ERR_NVGPUCTRPERM",
        "Let this user read the GPU's counters, or run it as root: https://developer.nvidia.com/ERR_NVGPUCTRPERM",
    ),
    (
        "Driver resource was unavailable",
        "Something else reads the GPU's counters, DCGM most often. Pause it: dcgmi profile --pause",
    ),
    (
        "InterprocessLockFailed",
        "Another user's ncu has left its lock: remove nsight-compute-lock from TMPDIR or /tmp, as root.",
    ),
    (
        "failed to connect to the CUDA driver",
        "No NVIDIA driver answers, or a stub of libcuda.so comes before it on LD_LIBRARY_PATH. Run: perfgate doctor",
    ),
    (
        "LibraryNotLoaded",
        "ncu cannot read counters on this machine; some sandboxes and virtual GPUs do not let it. Use another one.",
    ),
    ("To find out supported GPUs", "Use an ncu that knows this GPU, through PERFGATE_NCU."),
    (
        "did not match any section",
        "Install ncu whole, sections and all, or set PERFGATE_NCU to another one.",
    ),
    ("unrecognised option", "Use another ncu through PERFGATE_NCU, and report this one."),
)
"""Words of an error of ncu, and what to do about it."""

_ERROR: Final = re.compile(r"^==ERROR== (.*\S)", re.MULTILINE)
_APPLICATION: Final = re.compile(r"The application returned an error code \((-?\d+)\)")
_LONGEST: Final = 300


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
    known = ((line, advice) for words, advice in TROUBLES for line in said if words in line)
    line, advice = next(known, (said[0], f"See {where}."))
    return NcuFailed(
        subject=subject,
        fact=f"ncu has no figures of it: {line[:_LONGEST].rstrip('.')}",
        next_step=advice,
    )
