"""What ncu says while it profiles, in its own log: why it has no figures, and what to do about
that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from perfgate.model.errors import NcuFailed

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
