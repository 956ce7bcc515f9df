"""Reports as real nsys versions wrote them, with the exact numbers in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfgate.model.errors import LayoutUnknown
from perfgate.model.reports import KernelRow, NvtxRow, ReportName
from perfgate.profilers.nsys.reports import parse_report

OLD_NAMES = {
    ReportName.NVTX_SUM: "nvtxsum",
    ReportName.CUDA_GPU_MEM_TIME_SUM: "gpumemtimesum",
    ReportName.CUDA_GPU_MEM_SIZE_SUM: "gpumemsizesum",
    ReportName.CUDA_GPU_KERN_SUM: "gpukernsum",
    ReportName.CUDA_API_SUM: "cudaapisum",
}
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


@pytest.mark.parametrize("version", VERSIONS)
def test_calls_of_every_version_are_the_same(recorded: Path, version: str) -> None:
    text = report(recorded, version, ReportName.CUDA_API_SUM)
    rows = parse_report(text, name=ReportName.CUDA_API_SUM, source=version)
    assert [(row.name, row.count) for row in rows[:4]] == [
        ("cudaMemcpyAsync", 40),
        ("cudaDeviceSynchronize", 1),
        ("cudaLaunchKernel", 320),
        ("cudaLaunchKernelExC_v11060", 300),
    ]
    assert sum(row.count for row in rows) == 1802
    assert sum(row.total_ns for row in rows) == 19_032_547


def test_kernels_of_2022_4_merge_to_what_newer_versions_say(recorded: Path) -> None:
    old, middle, new = (
        parse_report(
            report(recorded, version, ReportName.CUDA_GPU_KERN_SUM),
            name=ReportName.CUDA_GPU_KERN_SUM,
            source=version,
        )
        for version in VERSIONS
    )
    assert middle == new
    assert len(new) == 12
    assert [row.model_copy(update={"med_ns": None}) for row in old] == [
        row.model_copy(update={"med_ns": None}) for row in new
    ]
    # the one kernel that ran in two sizes, 200 and 320 blocks
    assert [(row.count, row.total_ns) for row in old if row.med_ns is None] == [(40, 2_039_621)]
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
    assert sum(row.count for row in new) == 920


def test_sizes_are_read_where_nsys_was_asked_for_bytes(recorded: Path) -> None:
    text = (recorded / "mlp-2024.2.3" / "cuda_gpu_mem_size_sum_bytes.csv").read_bytes().decode()
    rows = parse_report(text, name=ReportName.CUDA_GPU_MEM_SIZE_SUM, source="sizes")
    assert [(row.operation, row.count, row.total_bytes, row.max_bytes) for row in rows] == [
        ("CUDA memcpy Device-to-Device", 20, 167772160, 8388608),
        ("CUDA memcpy Host-to-Device", 20, 167772160, 8388608),
        ("CUDA memset", 180, 10320, 64),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_sizes_in_megabytes_are_refused(recorded: Path, version: str) -> None:
    # three decimals of a megabyte: the 10 320 B of memsets above read 0.010, their mean 0.000
    name = ReportName.CUDA_GPU_MEM_SIZE_SUM
    with pytest.raises(LayoutUnknown, match=r"is in other units: Total \(MB\),Count,Avg \(MB\)"):
        parse_report(report(recorded, version, name), name=name, source=version)


@pytest.mark.parametrize(
    "file", ["2022.4.2_de_DE", "2022.4.2_fr_FR", "2024.2.3_de_DE", "2024.2.3_fr_FR"]
)
def test_sizes_of_other_locales_are_refused(recorded: Path, file: str) -> None:
    text = (recorded / "locale" / f"cuda_gpu_mem_size_sum_{file}.csv").read_bytes().decode()
    assert '"167,772",20' in text
    with pytest.raises(LayoutUnknown, match="is in other units"):
        parse_report(text, name=ReportName.CUDA_GPU_MEM_SIZE_SUM, source=file)


@pytest.mark.parametrize("name", ReportName)
def test_reports_of_2021_3_are_refused(recorded: Path, name: ReportName) -> None:
    with pytest.raises(
        LayoutUnknown, match=f"{name} has the columns of nsys 2021.3, which have no medians"
    ):
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
