"""What parse_report makes of nsys's CSV, and what it says of CSV that it must not trust."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.model.errors import CaptureUnreadable, LayoutUnknown, PerfgateError
from perfgate.model.reports import ApiRow, KernelRow, MemSizeRow, MemTimeRow, NvtxRow, ReportName
from perfgate.profilers.nsys.layouts import OPERATIONS, REPORT_LAYOUTS, RETIRED_HEADERS
from perfgate.profilers.nsys.reports import parse_report, read_reports

TIMES = "Time (%),Total Time (ns),{},Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"
NVTX = TIMES.format("Instances") + ",Style,Range\n"
KERNELS = TIMES.format("Instances") + ",Name\n"
KERNELS_2022 = TIMES.format("Instances") + ",GridXYZ,BlockXYZ,Name\n"
MEM_TIME = TIMES.format("Count") + ",Operation\n"
MEM_SIZE = "Total (B),Count,Avg (B),Med (B),Min (B),Max (B),StdDev (B),Operation\n"
CALLS = TIMES.format("Num Calls") + ",Name\n"

RERUN = "Let perfgate run the reports itself, or write them with: LC_ALL=C nsys stats --format csv:mem=B --timeunit nsec"
AGAIN = "Delete the file and write the report again; if the disk is full, free some space first"


def refusal(text: str, name: ReportName, kind: type[PerfgateError]) -> str:
    """The whole message with which a report is refused."""
    with pytest.raises(kind) as caught:
        parse_report(text, name=name, source="a.csv")
    return str(caught.value)


def ranges(*names: str) -> str:
    """An nvtx_sum in which every range has the same share, its names as nsys writes them."""
    share = f"{100 / len(names):.1f}"
    return NVTX + "".join(
        f"{share},500,5,100.0,100.0,90,110,8.2,PushPop,{name}\n" for name in names
    )


def names_of(text: str) -> list[str]:
    return [row.range for row in parse_report(text, name=ReportName.NVTX_SUM, source="a.csv")]


# --- the five reports ------------------------------------------------------------------------------------------------


def test_ranges_are_read() -> None:
    text = (
        NVTX
        + "75.0,300,2,150.5,150.0,100,201,70.7,PushPop,step\n25.0,100,1,100.0,100.0,100,100,0.0,StartEnd,step\n"
    )
    assert parse_report(text, name=ReportName.NVTX_SUM, source="a.csv") == (
        NvtxRow(
            time_percent=75.0,
            total_ns=300,
            count=2,
            avg_ns=150.5,
            med_ns=150.0,
            min_ns=100,
            max_ns=201,
            stddev_ns=70.7,
            style="PushPop",
            range="step",
        ),
        NvtxRow(
            time_percent=25.0,
            total_ns=100,
            count=1,
            avg_ns=100.0,
            med_ns=100.0,
            min_ns=100,
            max_ns=100,
            stddev_ns=0.0,
            style="StartEnd",
            range="step",
        ),
    )


def test_kernels_are_read_with_the_commas_of_their_names() -> None:
    text = KERNELS + '100.0,300,2,150.0,150.0,100,200,70.7,"void f<(int)1, (int)2>(T1, T2)"\n'
    assert parse_report(text, name=ReportName.CUDA_GPU_KERN_SUM, source="a.csv") == (
        KernelRow(
            time_percent=100.0,
            total_ns=300,
            count=2,
            avg_ns=150.0,
            med_ns=150.0,
            min_ns=100,
            max_ns=200,
            stddev_ns=70.7,
            name="void f<(int)1, (int)2>(T1, T2)",
        ),
    )


def test_memory_times_are_read_in_the_newer_words() -> None:
    text = MEM_TIME + "100.0,300,2,150.0,150.0,100,200,70.7,[CUDA memcpy HtoD]\n"
    assert parse_report(text, name=ReportName.CUDA_GPU_MEM_TIME_SUM, source="a.csv") == (
        MemTimeRow(
            time_percent=100.0,
            total_ns=300,
            count=2,
            avg_ns=150.0,
            med_ns=150.0,
            min_ns=100,
            max_ns=200,
            stddev_ns=70.7,
            operation="CUDA memcpy Host-to-Device",
        ),
    )


def test_memory_sizes_are_read_in_bytes() -> None:
    text = MEM_SIZE + "10320,180,57.333333333333336,64,4,64,18.908778369882622,[CUDA memset]\n"
    assert parse_report(text, name=ReportName.CUDA_GPU_MEM_SIZE_SUM, source="a.csv") == (
        MemSizeRow(
            total_bytes=10320,
            count=180,
            avg_bytes=57.333333333333336,
            med_bytes=64.0,
            min_bytes=4,
            max_bytes=64,
            stddev_bytes=18.908778369882622,
            operation="CUDA memset",
        ),
    )


def test_calls_are_read() -> None:
    text = CALLS + "100.0,300,2,150.0,150.0,100,200,70.7,cudaLaunchKernel\n"
    assert parse_report(text, name=ReportName.CUDA_API_SUM, source="a.csv") == (
        ApiRow(
            time_percent=100.0,
            total_ns=300,
            count=2,
            avg_ns=150.0,
            med_ns=150.0,
            min_ns=100,
            max_ns=200,
            stddev_ns=70.7,
            name="cudaLaunchKernel",
        ),
    )


def test_kernels_of_2022_4_are_merged_over_their_launch_sizes() -> None:
    # f ran for 100, 110, 120 in one size and for 300, 340 in another; g once for 30
    text = (
        KERNELS_2022
        + "64.0,640,2,320.0,320.0,300,340,28.3,  64    1    1, 128    1    1,f\n"
        + "33.0,330,3,110.0,110.0,100,120,10.0,  32    1    1, 128    1    1,f\n"
        + "3.0,30,1,30.0,30.0,30,30,0.0,   1    1    1,  32    1    1,g\n"
    )
    assert parse_report(text, name=ReportName.CUDA_GPU_KERN_SUM, source="a.csv") == (
        KernelRow(
            time_percent=97.0,
            total_ns=970,
            count=5,
            avg_ns=194.0,
            med_ns=None,
            min_ns=100,
            max_ns=340,
            stddev_ns=116.1,  # the sample deviation of the five
            name="f",
        ),
        KernelRow(
            time_percent=3.0,
            total_ns=30,
            count=1,
            avg_ns=30.0,
            med_ns=30.0,
            min_ns=30,
            max_ns=30,
            stddev_ns=0.0,
            name="g",
        ),
    )


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("step", "step"),
        ("", ""),
        ("  padded  ", "  padded  "),
        ('"a,b"', "a,b"),
        ('"quote",comma"', 'quote",comma'),
        ('say "hi"', 'say "hi"'),
        ('"quoted"', '"quoted"'),
        ('""quoted", comma"', '"quoted", comma'),
        ("back\\slash", "back\\slash"),
        ("tab\tx", "tab\tx"),
        ("carriage\rreturn\r", "carriage\rreturn\r"),
        ("multi\nline", "multi\nline"),
        ("ends with a break\n", "ends with a break\n"),
        ("\n\n", "\n\n"),
        ('"a,\nb"', "a,\nb"),
        (
            '"a,b\n25.0,500,5,100.0,100.0,90,110,8.2,PushPop,not a row"',
            "a,b\n25.0,500,5,100.0,100.0,90,110,8.2,PushPop,not a row",
        ),
        (":step", "step"),
        ("::colons", ":colons"),
        ("NCCL:ncclAllReduce", "NCCL:ncclAllReduce"),
        ("123", "123"),
        ("=cmd()", "=cmd()"),
        (
            "\N{NO-BREAK SPACE}\N{LINE SEPARATOR}\x0b\x0c\x1c\x85",
            "\N{NO-BREAK SPACE}\N{LINE SEPARATOR}\x0b\x0c\x1c\x85",
        ),
    ],
)
def test_range_names_are_read_as_they_were_given(written: str, name: str) -> None:
    assert names_of(ranges("first", written, "then", written)) == ["first", name, "then", name]


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters='\n"')), min_size=1, max_size=8
    )
)
def test_any_name_without_breaks_and_quotes_comes_back(names: list[str]) -> None:
    written = [f'"{name}"' if "," in name else name for name in names]
    assert names_of(ranges(*written)) == [name.removeprefix(":") for name in names]


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\n", "  \n\n"])
def test_an_empty_report(text: str) -> None:
    assert refusal(text, ReportName.NVTX_SUM, CaptureUnreadable) == (
        "a.csv: nvtx_sum is empty. nsys leaves an empty file where it skipped the report or could not write it.\n"
        "Look for SKIPPED or ERROR in the output of nsys stats"
    )


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (
            "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation",
            ReportName.CUDA_GPU_MEM_SIZE_SUM,
        ),
        ("Total,Count,Avg,Med,Min,Max,StdDev,Operation", ReportName.CUDA_GPU_MEM_SIZE_SUM),
        (NVTX.strip().replace("(ns)", "(ms)"), ReportName.NVTX_SUM),
        (NVTX.strip().replace("(ns)", "(sec)"), ReportName.NVTX_SUM),
        (NVTX.strip().replace(" (ns)", "").replace(" (%)", ""), ReportName.NVTX_SUM),
    ],
)
def test_other_units_and_none(header: str, name: ReportName) -> None:
    known = REPORT_LAYOUTS[name][0].header
    assert refusal(f"{header}\n1,1,1,1,1,1,1,x\n", name, LayoutUnknown) == (
        f"a.csv: {name} is in other units: {header}. perfgate reads {known} (nsys 2022.4 and newer).\n{RERUN}"
    )


def test_raw_columns_of_a_report_script() -> None:
    header = "Time:ratio_%,Total Time:dur_ns,Instances,Avg:dur_ns,Med:dur_ns,Min:dur_ns,Max:dur_ns,StdDev:dur_ns,Style,Range"
    assert refusal(f"{header}\n", ReportName.NVTX_SUM, LayoutUnknown) == (
        f"a.csv: nvtx_sum has the raw columns of a report script that was run by itself: {header}. "
        f"perfgate reads {NVTX.strip()} (nsys 2022.4 and newer).\n{RERUN}"
    )


def test_columns_of_another_report() -> None:
    assert refusal(CALLS, ReportName.CUDA_GPU_KERN_SUM, LayoutUnknown) == (
        f"a.csv: cuda_gpu_kern_sum has columns that perfgate does not know: {CALLS.strip()}. "
        f"Known are {KERNELS.strip()} (nsys 2023.4 and newer) or {KERNELS_2022.strip()} (nsys 2022.4).\n"
        f"{RERUN}. If nsys itself wrote this, perfgate must learn its version: please report it"
    )


def test_lines_before_the_header() -> None:
    processing = "Processing [run.sqlite] with [nvtx_sum.py]..."
    assert refusal(f"{processing}\n{ranges('step')}", ReportName.NVTX_SUM, LayoutUnknown) == (
        f"a.csv: nvtx_sum has columns that perfgate does not know: {processing}. "
        f"Known are {NVTX.strip()} (nsys 2022.4 and newer).\n"
        f"{RERUN}. If nsys itself wrote this, perfgate must learn its version: please report it"
    )


@pytest.mark.parametrize(("header", "version"), RETIRED_HEADERS.items())
def test_columns_of_versions_that_are_too_old(header: str, version: str) -> None:
    assert refusal(f"{header}\n1.0,1\n", ReportName.NVTX_SUM, LayoutUnknown) == (
        f"a.csv: nvtx_sum has the columns of nsys {version}, which have no medians. "
        "perfgate reads reports of nsys 2022.4 and newer.\n"
        "Install a newer nsys; it reads captures of older versions too"
    )


@pytest.mark.parametrize(
    "row",
    [
        '"167,772",20,"8,389","8,389","8,389","8,389","0,000",[CUDA memset]',
        '167772160,20,"8,388,608.0",8388608,8388608,8388608,0.0,[CUDA memset]',
        '"167\N{NARROW NO-BREAK SPACE}772",20,1,1,1,1,1,[CUDA memset]',
    ],
)
def test_numbers_of_another_locale(row: str) -> None:
    assert refusal(f"{MEM_SIZE}{row}\n", ReportName.CUDA_GPU_MEM_SIZE_SUM, CaptureUnreadable) == (
        f"a.csv: cuda_gpu_mem_size_sum has numbers in another locale's notation in line 2: {row}. "
        f"A comma could part thousands or decimals, so perfgate reads plain numbers only.\n{RERUN}"
    )


@pytest.mark.parametrize(
    "row", ["nan,1,1,1,1,1,1,[CUDA memset]", "10,,1,1,1,1,1,[CUDA memset]", "10.5,1,1,1,1,1,1,x"]
)
def test_rows_that_hold_no_numbers(row: str) -> None:
    assert refusal(f"{MEM_SIZE}{row}\n", ReportName.CUDA_GPU_MEM_SIZE_SUM, CaptureUnreadable) == (
        f"a.csv: cuda_gpu_mem_size_sum is truncated or damaged: line 2 is no row of it: {row!r}.\n{AGAIN}"
    )


@pytest.mark.parametrize("kept", [ranges("step")[:-1], ranges("step")[:-20], NVTX[:-1]])
def test_a_last_line_that_is_cut_off(kept: str) -> None:
    assert refusal(kept, ReportName.NVTX_SUM, CaptureUnreadable) == (
        f"a.csv: nvtx_sum is truncated or damaged: its last line is not complete.\n{AGAIN}"
    )


def test_a_header_without_rows() -> None:
    assert refusal(NVTX, ReportName.NVTX_SUM, CaptureUnreadable) == (
        f"a.csv: nvtx_sum is truncated or damaged: it has a header and no rows.\n{AGAIN}"
    )


def test_a_report_that_was_cut_at_the_end_of_a_line_is_given_away_by_its_shares() -> None:
    whole = (
        NVTX
        + "75.0,300,1,300.0,300.0,300,300,0.0,PushPop,a\n25.0,100,1,100.0,100.0,100,100,0.0,PushPop,b\n"
    )
    assert names_of(whole) == ["a", "b"]
    assert refusal(
        "\n".join(whole.split("\n")[:2]) + "\n", ReportName.NVTX_SUM, CaptureUnreadable
    ) == (
        "a.csv: nvtx_sum is truncated or damaged: "
        f"a row says that it is 75.0 % of the time, and it is 100.0 % of the rows.\n{AGAIN}"
    )


@pytest.mark.parametrize("null", ["", "None"])
def test_rows_that_took_no_time_have_no_share_of_it(null: str) -> None:
    """nsys divides by the time of all rows; 2022.4 prints a NULL as None, newer ones print nothing."""
    rows = "".join(
        f"{null},0,{count},0.0,0.0,0,0,0.0,PushPop,{name}\n"
        for count, name in ((2, '"a, b"'), (1, "c\nd"))
    )
    found = parse_report(NVTX + rows, name=ReportName.NVTX_SUM, source="a.csv")
    assert [(row.range, row.count, row.time_percent) for row in found] == [
        ("a, b", 2, 0.0),
        ("c\nd", 1, 0.0),
    ]


def test_rows_that_took_time_must_say_their_share_of_it() -> None:
    """Between rows that do, one that does not is no row, and reads as the rest of a name."""
    told = "75.0,300,1,300.0,300.0,300,300,0.0,PushPop,a\n"
    untold = ",100,1,100.0,100.0,100,100,0.0,PushPop,b\n"
    assert refusal(NVTX + untold, ReportName.NVTX_SUM, CaptureUnreadable) == (
        f"a.csv: nvtx_sum is truncated or damaged: its rows do not say what share of the 100 ns they are.\n{AGAIN}"
    )
    for rows in (told + untold, untold + told):
        name = rows[:-1].partition("PushPop,")[2]
        assert refusal(NVTX + rows, ReportName.NVTX_SUM, CaptureUnreadable) == (
            f"a.csv: nvtx_sum is truncated or damaged: a name with a comma is not in quotes: {name!r}.\n{AGAIN}"
        )


def test_a_name_with_a_comma_outside_quotes() -> None:
    assert refusal(ranges("a,b"), ReportName.NVTX_SUM, CaptureUnreadable) == (
        f"a.csv: nvtx_sum is truncated or damaged: a name with a comma is not in quotes: 'a,b'.\n{AGAIN}"
    )


def test_a_memory_operation_without_a_known_name() -> None:
    assert refusal(
        f"{MEM_SIZE}1,1,1,1,1,1,1,[CUDA memfrob]\n", ReportName.CUDA_GPU_MEM_SIZE_SUM, LayoutUnknown
    ) == (
        "a.csv: cuda_gpu_mem_size_sum names a memory operation that perfgate does not know: [CUDA memfrob]. "
        f"Known are {', '.join(OPERATIONS)}.\n"
        "perfgate must learn it: please report it with the version of nsys"
    )


def test_every_operation_has_one_newer_name_and_keeps_it() -> None:
    for operation in set(OPERATIONS.values()):
        assert OPERATIONS[f"[{operation}]"] == operation


# --- all five --------------------------------------------------------------------------------------------------------


def test_all_reports_are_read_or_skipped_with_their_reason() -> None:
    skipped: dict[ReportName, str] = {
        name: f"run.sqlite does not contain {name} data."
        for name in ReportName
        if name is not ReportName.NVTX_SUM
    }
    reports = read_reports(
        {ReportName.NVTX_SUM: ranges("step")}, skipped=skipped, source="run.sqlite"
    )
    assert [row.range for row in reports.nvtx_sum] == ["step"]
    assert reports.cuda_gpu_kern_sum == ()
    assert reports.skipped == skipped


def test_a_report_neither_there_nor_skipped() -> None:
    with pytest.raises(CaptureUnreadable) as caught:
        read_reports(
            {ReportName.NVTX_SUM: ranges("step"), ReportName.CUDA_API_SUM: CALLS},
            skipped={ReportName.CUDA_GPU_KERN_SUM: "no kernels"},
            source="run.sqlite",
        )
    assert str(caught.value) == (
        "run.sqlite: nsys wrote no cuda_gpu_mem_time_sum, cuda_gpu_mem_size_sum and does not say that it skipped any "
        "of them. Each of the five reports is either written or skipped with a reason.\n"
        "Look for ERROR in the output of nsys stats"
    )
