"""What was measured of one capture, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from perfgate.model.note import Note, Severity
from perfgate.model.sample import ProcessSample
from perfgate.words import say

MEASUREMENT_FORMAT: Final = 1
"""History: 1, the first."""


def measurement_text(
    samples: Sequence[ProcessSample], *, source: str, missing: Mapping[str, Note]
) -> str:
    """Return the measurement of one capture as JSON, ending in a newline; `missing` is what it
    lacks, and why."""
    measured = {
        "format": MEASUREMENT_FORMAT,
        "source": source,
        "missing": {what: say.fact(why) for what, why in missing.items()},
        "processes": [_process(sample) for sample in samples],
    }
    return json.dumps(measured, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _process(sample: ProcessSample) -> dict[str, Any]:
    """A process with its notes in words, and as codes."""
    held = sample.model_dump(mode="json")
    is_invalid = [one.severity is Severity.INVALID for one in sample.notes]
    texts = [say.fact(one) for one in sample.notes]
    return {
        **held,
        "absent": {metric: say.fact(why) for metric, why in sample.absent.items()},
        "reasons": held["absent"],
        "information": [text for text, bad in zip(texts, is_invalid, strict=True) if not bad],
        "invalid": [text for text, bad in zip(texts, is_invalid, strict=True) if bad],
    }
