"""What was measured of one capture, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from perfgate.model.record import Record
from perfgate.model.sample import ProcessSample

MEASUREMENT_FORMAT: Final = 1
"""History: 1, the first."""


class Measurement(Record):
    """All that `perfgate inspect` measured."""

    format: Literal[1] = MEASUREMENT_FORMAT
    source: str
    missing: Mapping[str, str]
    """What the capture lacks, and why."""
    processes: tuple[ProcessSample, ...]


def measurement_text(
    samples: Sequence[ProcessSample], *, source: str, missing: Mapping[str, str]
) -> str:
    """Return the measurement of one capture as JSON, ending in a newline."""
    measured = Measurement(source=source, missing=missing, processes=tuple(samples))
    return measured.model_dump_json(indent=2) + "\n"
