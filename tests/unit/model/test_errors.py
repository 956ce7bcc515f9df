"""Errors: one exit code a class, and a message of four parts."""

from __future__ import annotations

import pytest

from perfgate.model import errors
from perfgate.model.errors import (
    EXIT_OPEN,
    EXIT_SHUT,
    EXIT_USAGE,
    ConfigInvalid,
    PerfgateError,
)

CLASSES = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, PerfgateError) and "exit_code" in vars(found)
]


def test_every_class_has_an_exit_code_of_its_own() -> None:
    codes = [error.exit_code for error in CLASSES]
    assert len(CLASSES) >= 18
    assert len({*codes, EXIT_OPEN, EXIT_SHUT, EXIT_USAGE}) == len(codes) + 3


def test_exit_codes_do_not_collide_with_pytests_and_fit_into_a_byte() -> None:
    pytests = {int(code) for code in pytest.ExitCode}
    assert not pytests & {error.exit_code for error in CLASSES}
    assert all(0 < error.exit_code < 126 for error in CLASSES)


def test_a_message_has_four_parts_on_two_lines() -> None:
    error = ConfigInvalid("table-invalid", type="str")
    assert str(error) == (
        "pyproject.toml [tool.perfgate]: it is of type str. Expected a table.\n"
        "Write [tool.perfgate] and keys below it."
    )
    assert error.fact == "it is of type str"


def test_a_fact_that_says_it_all_needs_no_expectation() -> None:
    error = ConfigInvalid("toml-unreadable", file="x.toml", problem="no key")
    assert str(error) == "x.toml: it cannot be read as TOML (no key).\nCorrect the file."
