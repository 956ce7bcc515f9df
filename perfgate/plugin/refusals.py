"""What pytest prints of a refusal, which may quote the project's files or options: nothing in it steers a terminal."""

from __future__ import annotations

import pytest

from perfgate.render.page import inert_message


def usage_error(text: str) -> pytest.UsageError:
    """The error by which pytest does not start."""
    return pytest.UsageError(inert_message(text))
