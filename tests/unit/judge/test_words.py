"""Numbers and changes in words."""

from __future__ import annotations

import pytest

from perfgate.judge.words import (
    amount,
    bless_command,
    milliseconds,
    percent,
    shown_loss,
    told_change,
)
from perfgate.model.metric import Basis


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.0312, "3.1"),
        (0.02, "2"),
        (0.0004, "0.04"),
        (-0.00001, "0"),
        (-0.004, "-0.4"),
        (0.355, "35.5"),
        (2.134, "213"),
        (1e20, "1e+22"),
    ],
)
def test_percent(fraction: float, text: str) -> None:
    assert percent(fraction) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.025, "2.5 %"), (2.134, "213 %"), (10.0, "1000 %"), (7.4e8, "more than 1000 %")],
)
def test_the_smallest_loss_that_runs_show_is_no_number_where_they_show_nothing(
    fraction: float, text: str
) -> None:
    assert shown_loss(fraction) == text


@pytest.mark.parametrize(
    ("value", "text"), [(3.0, "3"), (2.5, "2.5"), (1572864.0, "1572864"), (1e300, "1e+300")]
)
def test_amount(value: float, text: str) -> None:
    assert amount(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(12.5, "12.5"), (0.0125, "0.0125"), (0.0, "0"), (1234.5678, "1234.57")]
)
def test_milliseconds(value: float, text: str) -> None:
    assert milliseconds(value) == text


@pytest.mark.parametrize(
    ("change", "low", "high", "basis", "text"),
    [
        (0.031, 0.028, 0.034, Basis.LOG, "+3.1 % [+2.8, +3.4], budget 2 %"),
        (-0.109, -0.559, 0.802, Basis.LOG, "-10.9 % [-55.9, +80.2], budget 2 %"),
        (0.041, 0.035, 0.047, Basis.STEP, "+4.1 pp [+3.5, +4.7] of a step, budget 2 pp"),
    ],
)
def test_a_change_is_told_as_its_row_shows_it(
    change: float, low: float, high: float, basis: Basis, text: str
) -> None:
    assert told_change(change, low, high, budget=0.02, basis=basis) == text


def test_an_id_with_brackets_is_quoted_for_the_shell() -> None:
    assert bless_command("mlp[True]", "--accept-regression") == (
        "perfgate bless 'mlp[True]' --reason \"...\" --accept-regression"
    )
