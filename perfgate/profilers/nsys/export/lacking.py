"""What a capture lacks, with nsys's own warnings about it; judges no metric by it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np

from perfgate.model.note import Note, note
from perfgate.model.timeline import Timeline
from perfgate.profilers.nsys.export.layout import LOSSES

MOST_QUOTED: Final = 2
"""Of nsys's warnings about one thing."""
_WARNINGS: Final = (2, 3)
"""Severities of DIAGNOSTIC_EVENT: warning and error."""
_OF_DOMAINS: Final = "nvtxDomainDestroy"
"""The nvtx package destroys its domains at its end in a way that nsys warns of."""
_LOSS: Final = re.compile(
    "|".join(".*".join(map(re.escape, text.split("%"))) for text in LOSSES), re.DOTALL
)
"""SQL's LIKE, of which `%` is the only sign that is used."""


def missing_in(timeline: Timeline, *, marks: int, unnamed: AbstractSet[int]) -> dict[str, Note]:
    """What `Timeline.missing` says. A capture with kernels and no memset simply has no memset.

    Args:
        timeline: all that was read.
        marks: how many NVTX marks there are, which are in no timeline.
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
        none = note("no-nvtx-ranges")
        missing["ranges"] = (
            note("only-nvtx-marks", marks=marks)
            if marks
            else _with_warnings(none, timeline, "NVTX")
        )
    texts = (one.text for one in timeline.diagnostics)
    if lost := [text for text in texts if _LOSS.fullmatch(text.strip())]:
        missing["records"] = note("records-lost", warnings=_quoted(lost))
    keys = list(unnamed)
    if kernels := int(np.isin(timeline.kernels.name, keys).sum()) if keys else 0:
        missing["names of kernels"] = note("kernel-names-missing", unnamed=kernels)
    if called := int(np.isin(timeline.calls.name, keys).sum()) if keys else 0:
        missing["names of calls"] = note("call-names-missing", unnamed=called)
    return missing


def _with_warnings(lacks: Note, timeline: Timeline, about: str) -> Note:
    """Add what nsys warned of that names the trace in question."""
    warnings = [
        one.text
        for one in timeline.diagnostics
        if about in one.text and one.severity in _WARNINGS and _OF_DOMAINS not in one.text
    ]
    return note("nsys-warned", lacks=lacks, warnings=_quoted(warnings)) if warnings else lacks


def _quoted(warnings: Iterable[str]) -> tuple[Note, ...]:
    texts = dict.fromkeys(text.strip().rstrip(".") for text in warnings)
    return tuple(note("nsys-said", text=text) for text in list(texts)[:MOST_QUOTED])
