"""Numbers as text: the right power of ten, and no digit that means nothing."""

from __future__ import annotations

import pytest

from perfgate.model.metric import Basis, Metric
from perfgate.words import numbers


@pytest.mark.parametrize(
    ("ms", "found"),
    [
        (0, "0"),
        (0.00000123, "1.23e-06"),
        (0.0421, "0.0421"),
        (0.83124, "0.8312"),
        (12.345, "12.35"),
        (1234.56, "1,235"),
        (1e7, "1.00e+07"),
        (-0.31, "-0.3100"),
    ],
)
def test_milliseconds_have_four_digits(ms: float, found: str) -> None:
    assert numbers.milliseconds(ms) == found


@pytest.mark.parametrize(
    ("n_bytes", "found"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (21_500, "21.5 kB"),
        (999_999, "1 MB"),
        (38_535_168, "38.54 MB"),
        (2.5, "2.5 B"),
    ],
)
def test_bytes_are_decimal(n_bytes: float, found: str) -> None:
    assert numbers.size(n_bytes) == found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (0, "0"),
        (1 / 3, "0.33"),
        (1_572_864, "1,572,864"),
        (1e15, "1.000e+15"),
    ],
)
def test_counts_are_whole_where_they_are(value: float, found: str) -> None:
    assert numbers.count(value) == found


@pytest.mark.parametrize(
    ("fraction", "found"),
    [
        (0.0308, "+3.1 %"),
        (0.0042, "+0.42 %"),
        (0.00996, "+1.0 %"),
        (1.5, "+150 %"),
        (-0.00000001, "+0.00 %"),
    ],
)
def test_percentages_have_two_digits_or_three(fraction: float, found: str) -> None:
    assert numbers.percent(fraction, signed=True) == found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (numbers.change(0.0308, Basis.LOG.unit, 0.0247, 0.0369), "+3.1 % [+2.5, +3.7]"),
        (numbers.change(0.0003, Basis.STEP.unit, -0.0012, 0.0018), "+0.03 pp [-0.12, +0.18]"),
        (numbers.change(0.013, Basis.STEP.unit), "+1.3 pp"),
        (numbers.change(0, Basis.LOG.unit), "0 %"),
        (numbers.change(0, Basis.LOG.unit, -0.001, 0.001), "+0.00 % [-0.10, +0.10]"),
        (numbers.change(1.9, Basis.LOG.unit, 1.7, 2.1), "+190 % [+170, +210]"),
        (numbers.change(11.4, Basis.LOG.unit, 10.9, 11.8), "x12.4 [x11.9, x12.8]"),
        (numbers.change(1234.5, Basis.STEP.unit), "+1.2e+05 pp"),
    ],
)
def test_changes_and_their_intervals_share_their_digits(found: str, expected: str) -> None:
    assert found == expected


@pytest.mark.parametrize(
    ("metric", "before", "after", "found"),
    [
        (Metric.LAUNCHES, 46, 46, ""),
        (Metric.LAUNCHES, 46, 47, "+1 (+2.2 %)"),
        (Metric.SYNCS, 0, 2, "+2"),
        (Metric.SYNCS, 2, 0, "-2 (-100 %)"),
        (Metric.SYNCS, 1, 30, "+29 (x30)"),
        (Metric.LAUNCHES, 1.001, 1.002, "+0.001 (+0.10 %)"),
        (Metric.H2D_BYTES, 38_535_168, 38_535_172, "+4 B"),
        (Metric.H2D_BYTES, 2_000_000, 1_000_000, "-1 MB (-50.0 %)"),
    ],
)
def test_any_change_of_a_count_is_seen(
    metric: Metric, before: float, after: float, found: str
) -> None:
    assert numbers.count_change(metric, before, after) == found


@pytest.mark.parametrize(
    ("p", "found"),
    [
        (0, "<0.0001"),
        (0.0312, "0.031"),
        (0.999, ">0.99"),
    ],
)
def test_probabilities_are_never_0_or_1(p: float, found: str) -> None:
    assert numbers.probability(p) == found
