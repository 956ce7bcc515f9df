"""What is said of an export that is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfgate.model.errors import CaptureUnreadable, PerfgateError
from perfgate.profilers.nsys.export.timeline import read_timeline

AGAIN = "Export it again: nsys export --type sqlite --force-overwrite true CAPTURE.nsys-rep"

HOSTILE = "\x1b]0;mine\x07\n::error::\N{RIGHT-TO-LEFT OVERRIDE}"
"""A name or a text that would have its own way with a terminal or a job's log."""
TAMED = r"\x1b]0;mine\x07\n::error::\u202e"
"""How a message shows it."""


def refusal(path: Path, kind: type[PerfgateError] = CaptureUnreadable) -> str:
    """The whole message with which an export is refused, without its folder."""
    with pytest.raises(kind) as caught:
        read_timeline(path)
    return str(caught.value).replace(f"{path.parent}/", "")
