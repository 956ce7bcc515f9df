"""Tests with a real nsys; none needs a GPU."""

from __future__ import annotations

import os

import pytest

from perfgate.model.errors import NsysNotFound
from perfgate.profilers.nsys.tool import VARIABLE, NsysTool, find_nsys


@pytest.fixture(scope="session")
def nsys_tool() -> NsysTool:
    """The nsys that perfgate would find here: `PERFGATE_NSYS`, PATH, or one of the usual
    folders.
    """
    try:
        return find_nsys(None, os.environ)
    except NsysNotFound as error:
        if os.environ.get(VARIABLE):
            raise  # one was promised
        pytest.skip(f"no nsys here. {error}")
