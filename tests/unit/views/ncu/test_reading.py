"""ncu's CSV. The tables here are written after what ncu 2024.2 prints (tests/golden), changed one
thing at a time."""

from __future__ import annotations

import pytest
from support.refused import refused

from perfgate.model.errors import LayoutUnknown
from perfgate.views.ncu.reading import read_launches

HEAD = ("ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", "Device", "CC")
ROW = ("0", "42", "_Zfill", "(256, 1, 1)", "(128, 1, 1)", "0", "9.0")
TIME, COMPUTE = "gpu__time_duration.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed"


def table(*rows: tuple[str, ...]) -> str:
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


def launch(unit: str, value: str, *, metric: str = TIME, row: tuple[str, ...] = ROW) -> str:
    return table((*HEAD, metric), (*[""] * len(HEAD), unit), (*row, value))


@pytest.mark.parametrize(
    ("unit", "value", "duration_us"),
    [
        ("ns", "628032", 628.032),
        ("nsecond", "628,032", 628.032),
        ("ns", "1e3", 1),
    ],
)
def test_times_are_read_in_every_unit_that_ncu_has_had(
    unit: str, value: str, duration_us: float
) -> None:
    (read,) = read_launches(launch(unit, value), source="launch.csv")
    assert read.duration_us == pytest.approx(duration_us)


def test_what_was_not_collected_is_none_and_not_zero() -> None:
    text = table((*HEAD, TIME, COMPUTE), (*[""] * len(HEAD), "ns", "%"), (*ROW, "1000", "n/a"))
    (read,) = read_launches(text, source="launch.csv")
    assert (read.compute_percent, read.memory_percent, read.registers) == (None, None, None)


def test_a_figure_that_two_metrics_show_is_taken_from_the_first_that_is_there() -> None:
    clocks = ("gpc__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second")
    text = table(
        (*HEAD, TIME, *clocks),
        (*[""] * len(HEAD), "ns", "hz", "hz"),
        (*ROW, "1000", "", "1980000000"),
    )
    assert read_launches(text, source="launch.csv")[0].sm_clock_mhz == 1980


def test_lines_of_ncu_itself_are_no_part_of_the_table() -> None:
    text = (
        "==PROF== Connected to process 42 (/usr/bin/python)\n\n"
        f"{launch('ns', '1000')}==WARNING== something\n"
    )
    assert [one.kernel for one in read_launches(text, source="launch.csv")] == ["_Zfill"]


@pytest.mark.parametrize("text", ["", "\n", "==WARNING== No kernels were profiled.\n"])
def test_nothing_printed_is_no_launch(text: str) -> None:
    assert read_launches(text, source="launch.csv") == ()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("hello\n", "ncu-column-missing"),
        (table(("ID", "Kernel Name")), "ncu-column-missing"),
        (table(HEAD), "ncu-rows-uneven"),
        (launch("ns", "1000") + '"1"\n', "ncu-rows-uneven"),
        (launch("%", "1", metric=COMPUTE), "ncu-metric-missing"),
        (launch("fortnight", "1"), "ncu-unit-unknown"),
        (launch("ns", "12,34"), "ncu-no-number"),
        (launch("ns", "soon"), "ncu-no-number"),
        (launch("ns", "9e999"), "ncu-no-number"),
        (launch("ns", "1", row=(*ROW[:5], "GPU", "9.0")), "ncu-no-number"),
    ],
)
def test_what_is_not_known_is_an_error_and_no_guess(text: str, code: str) -> None:
    with refused(LayoutUnknown, code):
        read_launches(text, source="launch.csv")
