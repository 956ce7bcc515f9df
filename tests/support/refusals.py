"""With which code an export is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from perfgate.model.errors import PerfgateError
from perfgate.profilers.nsys.export.timeline import read_timeline

HOSTILE = "\x1b]0;mine\x07\n::error::\N{RIGHT-TO-LEFT OVERRIDE}"
"""A name or a text that would have its own way with a terminal or a job's log."""
TAMED = r"\x1b]0;mine\x07\n::error::\u202e"
"""How a message shows it."""


def refusal(path: Path) -> tuple[str, Mapping[str, object]]:
    """The code with which an export is refused, and its fields but for the path."""
    with pytest.raises(PerfgateError) as caught:
        read_timeline(path)
    fields = {name: value for name, value in caught.value.fields.items() if name != "path"}
    return caught.value.code, fields
