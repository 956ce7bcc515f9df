"""What a capture lacks, with nsys's own warnings about it; judges no metric by it."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np

from perfgate.model.note import Note, note
from perfgate.model.timeline import Timeline
from perfgate.profilers.nsys.export.layout import LOSSES, MARK_EVENT, RANGES
from perfgate.profilers.nsys.export.opening import Export

MOST_QUOTED: Final = 2
"""Of nsys's warnings about one thing."""
_WARNINGS: Final = (2, 3)
"""Severities of DIAGNOSTIC_EVENT: warning and error."""
_NOT_OF_RANGES: Final = re.compile(r"NVTX function (?!\w*Range)\w+ was called")
"""The nvtx package destroys its domains at its end in a way that nsys warns of."""
_LOSS: Final = re.compile(
    "|".join(".*".join(map(re.escape, text.split("%"))) for text in LOSSES), re.DOTALL
)
"""SQL's LIKE, of which `%` is the only sign that is used."""


def missing_in(export: Export, timeline: Timeline, *, unnamed: AbstractSet[int]) -> dict[str, Note]:
    """What `Timeline.missing` says. A capture with kernels and no memset simply has no memset.

    Args:
        export: has the marks, which are in no timeline.
        timeline: all that was read.
        unnamed: keys of kernels and calls whose names are not in the capture.
    """
    missing: dict[str, Note] = {}
    calls = len(timeline.calls.start)
    if not timeline.gpu_operations:
        lacks = note("no-gpu-operations", calls=calls) if calls else note("no-cuda-events")
        lacks = _with_warnings(lacks, timeline, "CUDA")
        missing = dict.fromkeys(("kernels", "copies", "memsets", "graphs"), lacks)
        if not calls:
            missing["calls"] = lacks
    elif not calls:
        missing["calls"] = note("no-cuda-calls")
    if not len(timeline.ranges.start):
        marks = len(export.rows(RANGES.name, ("start",), where=f"eventType = {MARK_EVENT}"))
        missing["ranges"] = (
            note("only-nvtx-marks", marks=marks)
            if marks
            else _with_warnings(note("no-nvtx-ranges"), timeline, "NVTX", but=_NOT_OF_RANGES)
        )
    if lost := [one.text for one in timeline.diagnostics if _LOSS.fullmatch(one.text.strip())]:
        missing["records"] = note("records-lost", warnings=_quoted(lost))
    kernels, calls_of = (
        int(np.isin(names, list(unnamed)).sum()) if unnamed else 0
        for names in (timeline.kernels.name, timeline.calls.name)
    )
    if kernels:
        missing["names of kernels"] = note("kernel-names-missing", unnamed=kernels)
    if calls_of:
        missing["names of calls"] = note("call-names-missing", unnamed=calls_of)
    return missing


def _with_warnings(
    lacks: Note, timeline: Timeline, about: str, *, but: re.Pattern[str] | None = None
) -> Note:
    """Add what nsys warned of that names the trace in question."""
    warnings = [
        one.text
        for one in timeline.diagnostics
        if about in one.text
        and one.severity in _WARNINGS
        and (but is None or not but.search(one.text))
    ]
    if not warnings:
        return lacks
    return note("nsys-warned", lacks=lacks, warnings=_quoted(warnings))


def _quoted(warnings: list[str]) -> tuple[Note, ...]:
    texts = dict.fromkeys(text.strip().rstrip(".") for text in warnings)
    return tuple(note("nsys-said", text=text) for text in list(texts)[:MOST_QUOTED])
