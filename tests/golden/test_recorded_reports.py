"""Reports as real nsys versions wrote them, with the exact numbers in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfgate.model.errors import LayoutUnknown
from perfgate.model.reports import KernelRow, NvtxRow, ReportName
from perfgate.profilers.nsys.layouts import OLD_NAMES
from perfgate.profilers.nsys.reports import parse_report

VERSIONS = ("2022.4.2", "2023.4.4", "2024.2.3")


def report(recorded: Path, version: str, name: ReportName) -> str:
    """The text of one recorded report, under the name that this version gave it."""
    file = OLD_NAMES[name] if version < "2023" else str(name)
    return (recorded / f"mlp-{version}" / f"{file}.csv").read_bytes().decode()


@pytest.mark.parametrize("version", VERSIONS)
def test_ranges_of_every_version_are_the_same(recorded: Path, version: str) -> None:
    rows = parse_report(
        report(recorded, version, ReportName.NVTX_SUM), name=ReportName.NVTX_SUM, source=version
    )
    assert [row.range for row in rows] == [
        "step",
        "data_load",
        "backward",
        "h2d",
        "forward",
        "optimizer",
    ]
    assert rows[0] == NvtxRow(
        time_percent=50.1,
        total_ns=145790656,
        count=20,
        avg_ns=7289532.8,
        med_ns=7289726.0,
        min_ns=6966571,
        max_ns=7782602,
        stddev_ns=191535.8,
        style="PushPop",
        range="step",
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_memory_times_of_every_version_are_the_same(recorded: Path, version: str) -> None:
    text = report(recorded, version, ReportName.CUDA_GPU_MEM_TIME_SUM)
    rows = parse_report(text, name=ReportName.CUDA_GPU_MEM_TIME_SUM, source=version)
    assert [(row.operation, row.count, row.total_ns, row.time_percent) for row in rows] == [
        ("CUDA memcpy Host-to-Device", 20, 8406075, 97.1),
        ("CUDA memset", 180, 185793, 2.1),
        ("CUDA memcpy Device-to-Device", 20, 69536, 0.8),
    ]


def test_kernels_of_every_version_add_up_to_the_same(recorded: Path) -> None:
    """nsys 2022.4 has a row for each size that a kernel was launched in."""
    name = ReportName.CUDA_GPU_KERN_SUM
    old, middle, new = (
        parse_report(report(recorded, version, name), name=name, source=version)
        for version in VERSIONS
    )
    assert middle == new
    assert (len(old), len(new)) == (13, 12)
    assert sum(row.count for row in old) == sum(row.count for row in new) == 920
    assert sum(row.total_ns for row in old) == sum(row.total_ns for row in new)
    assert new[1] == KernelRow(
        time_percent=31.5,
        total_ns=26977969,
        count=160,
        avg_ns=168612.3,
        med_ns=168638.0,
        min_ns=167582,
        max_ns=169438,
        stddev_ns=311.8,
        name="void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>(T1::Params)",
    )


@pytest.mark.parametrize("name", ReportName)
def test_reports_of_2021_3_are_refused(recorded: Path, name: ReportName) -> None:
    with pytest.raises(LayoutUnknown):
        parse_report(report(recorded, "2021.3.3", name), name=name, source="2021.3.3")


@pytest.mark.parametrize(
    ("version", "unnamed"), [("2022.4.2", "None"), ("2023.4.4", ""), ("2024.2.3", "")]
)
def test_names_that_csv_cannot_hold_come_out_right(
    recorded: Path, version: str, unnamed: str
) -> None:
    text = (recorded / "names" / f"nvtx_sum_{version}.csv").read_bytes().decode()
    rows = parse_report(text, name=ReportName.NVTX_SUM, source=version)
    assert [row.range for row in rows] == [
        *(
            "step",
            "data_load",
            "backward",
            "h2d",
            "a,b",
            "tab\tx",
            'quote",comma',
            "forward",
            'say "hi"',
            "semi;colon",
        ),
        *(
            "optimizer",
            "  padded  ",
            unnamed,
            "multi\nline",
            "back\\slash",
            "",
            "=cmd()",
            "ünïcode→",
            "123",
        ),
    ]
    assert sum(row.total_ns for row in rows) == 290_872_099
