"""What a capture lacks, and why, in nsys's own words where it has any; judges no metric by it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np

from perfgate.model.spelling import LONGEST_TEXT, inert
from perfgate.model.timeline import SmallInts, Timeline
from perfgate.model.words import plural
from perfgate.profilers.nsys.export.layout import LOSSES, MARK_EVENT, RANGES
from perfgate.profilers.nsys.export.opening import Export

MOST_QUOTED: Final = 2
"""Of nsys's warnings about one thing."""
_WARNINGS: Final = (2, 3)
"""Severities of DIAGNOSTIC_EVENT: warning and error."""
_NOT_OF_RANGES: Final = re.compile(r"NVTX function (?!\w*Range)\w+ was called")
"""The nvtx package destroys its domains at its end in a way that nsys warns of, whatever was recorded."""
_LOSS: Final = re.compile(
    "|".join(".*".join(map(re.escape, text.split("%"))) for text in LOSSES), re.DOTALL
)
"""SQL's LIKE, of which `%` is the only sign that is used."""


def missing_in(
    export: Export, timeline: Timeline, *, mixed: str, unnamed: AbstractSet[int]
) -> dict[str, str]:
    """What `Timeline.missing` says. A capture with kernels and no memset simply has no memset.

    Args:
        export: has the marks, which are in no timeline.
        timeline: all that was read.
        mixed: why it is not known which operations ran on the same GPU; empty where it is.
        unnamed: keys of kernels and calls whose names are not in the capture.
    """
    missing = _unrecorded(timeline)
    if lost := [note.text for note in timeline.diagnostics if _LOSS.fullmatch(note.text.strip())]:
        missing["records"] = "nsys lost GPU operations or calls" + _quoted(
            text.strip().rstrip(".") for text in lost
        )
    if mixed:
        missing["devices"] = mixed
    if "ranges" in missing and (
        marks := len(export.rows(RANGES.name, ("start",), where=f"eventType = {MARK_EVENT}"))
    ):
        missing["ranges"] = (
            f"only NVTX marks were recorded, {marks} of them, and a mark has no length"
        )
    if unnamed and (told := _names_missing(timeline.kernels.name, unnamed, "kernels")):
        missing["names of kernels"] = told
    if unnamed and (told := _names_missing(timeline.calls.name, unnamed, "CUDA calls")):
        missing["names of calls"] = told
    return missing


def _unrecorded(timeline: Timeline) -> dict[str, str]:
    """Of GPU operations, calls and ranges those of which there is none at all."""
    missing: dict[str, str] = {}
    calls = len(timeline.calls.start)
    if not timeline.gpu_operations:
        recorded = plural(calls, "CUDA call was", "CUDA calls were")
        what = (
            f"{recorded} recorded, but no GPU operation"
            if calls
            else "no CUDA events were recorded"
        )
        missing = dict.fromkeys(
            ("kernels", "copies", "memsets", "graphs"), what + _warned(timeline, "CUDA")
        )
        if not calls:
            missing["calls"] = missing["kernels"]
    elif not calls:
        missing["calls"] = "GPU operations were recorded, but not the CUDA calls that started them"
    if not len(timeline.ranges.start):
        missing["ranges"] = "no NVTX ranges were recorded" + _warned(
            timeline, "NVTX", but=_NOT_OF_RANGES
        )
    return missing


def _names_missing(keys: SmallInts, unnamed: AbstractSet[int], words: str) -> str:
    """Say how many have no name; empty where all have one."""
    count = int(np.isin(keys, list(unnamed)).sum())
    return f"the names of {count} of {len(keys)} {words} are not in the capture" if count else ""


def _warned(timeline: Timeline, about: str, *, but: re.Pattern[str] | None = None) -> str:
    """What nsys warned of that names the trace in question, quoted."""
    return _quoted(
        note.text.strip()
        for note in timeline.diagnostics
        if about in note.text
        and note.severity in _WARNINGS
        and (but is None or not but.search(note.text))
    )


def _quoted(told: Iterable[str]) -> str:
    """As the end of a sentence, the first `MOST_QUOTED` that differ; nothing where nothing was told."""
    texts = [
        f'"{text}"' for text in dict.fromkeys(inert(text, longest=LONGEST_TEXT) for text in told)
    ]
    return f": {', '.join(texts[:MOST_QUOTED])}" if texts else ""
