"""Refusals by their codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from perfgate.model.errors import PerfgateError


@contextmanager
def refused(error: type[PerfgateError], code: str) -> Iterator[None]:
    """What is within is refused with an error of this class and code."""
    with pytest.raises(error) as caught:
        yield
    assert caught.value.code == code
