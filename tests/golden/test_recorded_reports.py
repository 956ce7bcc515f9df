"""Reports as real nsys versions wrote them, with the exact numbers in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfgate.model.errors import LayoutUnknown
from perfgate.model.reports import KernelRow, NvtxRow, ReportName, Reports
from perfgate.profilers.nsys.layouts import OLD_NAMES
from perfgate.profilers.nsys.reports import read_reports

VERSIONS = ("2022.4.2", "2023.4.4", "2024.2.3")


def read(recorded: Path, version: str) -> Reports:
    """The recorded reports, which each version named in its way."""
    folder = recorded / f"mlp-{version}"
    names = OLD_NAMES if version < "2023" else {name: name.value for name in ReportName}
    texts = {name: (folder / f"{names[name]}.csv").read_bytes().decode() for name in ReportName}
    return read_reports(texts, source=version)


@pytest.mark.parametrize("version", VERSIONS)
def test_ranges_of_every_version_are_the_same(recorded: Path, version: str) -> None:
    rows = read(recorded, version).nvtx_sum
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
    rows = read(recorded, version).cuda_gpu_mem_time_sum
    assert [(row.operation, row.count, row.total_ns, row.time_percent) for row in rows] == [
        ("CUDA memcpy Host-to-Device", 20, 8406075, 97.1),
        ("CUDA memset", 180, 185793, 2.1),
        ("CUDA memcpy Device-to-Device", 20, 69536, 0.8),
    ]


def test_kernels_of_every_version_add_up_to_the_same(recorded: Path) -> None:
    """nsys 2022.4 has a row for each size that a kernel was launched in."""
    old, middle, new = (read(recorded, version).cuda_gpu_kern_sum for version in VERSIONS)
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


def test_reports_of_2021_3_are_refused(recorded: Path) -> None:
    with pytest.raises(LayoutUnknown):
        read(recorded, "2021.3.3")


@pytest.mark.parametrize(
    ("version", "unnamed"), [("2022.4.2", "None"), ("2023.4.4", ""), ("2024.2.3", "")]
)
def test_names_that_csv_cannot_hold_come_out_right(
    recorded: Path, version: str, unnamed: str
) -> None:
    text = (recorded / "names" / f"nvtx_sum_{version}.csv").read_bytes().decode()
    rows = read_reports({ReportName.NVTX_SUM: text}, source=version).nvtx_sum
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
