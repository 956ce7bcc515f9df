"""What pytest prints of a refusal, which may quote the project's files or options: nothing in it
steers a terminal."""

from __future__ import annotations

import pytest

from perfgate.model.errors import ConfigInvalid, PerfgateError
from perfgate.words import escape


def usage_error(code: str, /, **fields: object) -> pytest.UsageError:
    """Make the error by which pytest does not start."""
    return refused(ConfigInvalid(code, **fields))


def refused(error: PerfgateError) -> pytest.UsageError:
    """Make the error by which pytest does not start of one of our own."""
    return pytest.UsageError(escape.message(str(error)))
