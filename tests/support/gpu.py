"""Whether a gate can be made here: it needs an NVIDIA GPU, or several, and an nsys."""

from __future__ import annotations

import os

import pytest

from perfgate.machine import read_machine
from perfgate.model.errors import PerfgateError
from perfgate.nsys.tool import find_nsys


def why_no_gate(gpus: int = 1) -> str | None:
    """Say why no gate on so many GPUs can be made here; None if one can."""
    try:
        shown = len(read_machine(os.environ, nsys=None, nsys_options=()).gpus)
        if shown < gpus:
            return "no NVIDIA GPU on this machine" if gpus == 1 else f"{gpus} NVIDIA GPUs are needed, {shown} are here"
        find_nsys(None, os.environ)
    except PerfgateError as missing:
        return f"no gate can be made here: {missing.fact}"
    return None


def needs_a_gate(gpus: int = 1) -> None:
    """Skip the test, and say why, where none can be made."""
    if (reason := why_no_gate(gpus)) is not None:
        pytest.skip(reason)
