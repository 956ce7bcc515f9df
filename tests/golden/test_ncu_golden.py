"""What a real ncu prints of a report: columns, units and numbers, read exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfgate.explain.nvidia import limited_by
from perfgate.model.comparison import LaunchFigures
from perfgate.profilers.nsys.export.ranges import kernel_symbols
from perfgate.profilers.nsys.export.timeline import read_timeline
from perfgate.views.ncu.reading import read_launches

SOBEL = LaunchFigures(
    kernel="_Z5SobelIdEvP6uchar4S1_ii",
    device=0,
    grid="(64, 64, 1)",
    block="(16, 16, 1)",
    duration_us=628.032,
    compute_percent=85.25,
    memory_percent=1.97,
    dram_percent=1.11,
    occupancy_percent=95.5,
    occupancy_limit_percent=100,
    registers=34,
    waves=12.19,
    sm_clock_mhz=1049.25163049,
)


def read(recorded: Path, name: str) -> LaunchFigures:
    file = recorded / "ncu-2024.2.0" / f"{name}.csv"
    (launch,) = read_launches(file.read_text(encoding="utf-8"), source=file.name)
    return launch


def test_a_report_of_ncu_2024_2_is_read(recorded: Path) -> None:
    assert read(recorded, "sobelDouble") == SOBEL


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("sobelDouble", "limited-by-compute"),
        ("sobelFloat", "limited-by-compute"),
        ("transposeCoalesced", "limited-by-memory"),
    ],
)
def test_what_it_is_limited_by_is_what_the_example_is_about(
    recorded: Path, name: str, code: str
) -> None:
    found = limited_by(read(recorded, name))
    assert found is not None
    assert found.code == code


def test_a_recorded_capture_shows_the_symbols_that_ncu_is_asked_for(capture: Path) -> None:
    symbols = kernel_symbols(capture)
    assert symbols[
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)"
    ] == ("_ZN7cutlass7Kernel2I43cutlass_80_simt_sgemm_256x128_8x4_nn_align1EEvNT_6ParamsE")
    assert set(symbols) <= set(read_timeline(capture).names.values())
    assert len(symbols) == 12
