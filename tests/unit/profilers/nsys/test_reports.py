"""What is read of nsys's CSVs, of reports and rules, and which of them must not be trusted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.model.errors import PerfgateError
from perfgate.model.reports import Finding, ReportName, Reports, RuleName
from perfgate.profilers.nsys.layouts import OPERATIONS
from perfgate.profilers.nsys.reports import parse_rule, read_reports

TIMES = "Time (%),Total Time (ns),{},Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"
NVTX = TIMES.format("Instances") + ",Style,Range\n"
KERNELS = TIMES.format("Instances") + ",Name\n"
MEMORY = TIMES.format("Count") + ",Operation\n"
KERN_SUM, MEM_SUM = ReportName.CUDA_GPU_KERN_SUM, ReportName.CUDA_GPU_MEM_TIME_SUM

CALLS = "Duration (ns),Start (ns),PID,TID,API Name\n"
COPIES_2022 = (
    "Duration (ns),Start (ns),Src Kind,Dst Kind,Bytes (B),PID,Device ID,Context ID,Stream ID,"
    "API Name\n"
)
COPIES = COPIES_2022.replace("Stream ID", "Green Context ID,Stream ID")
MEMSETS = COPIES.replace("Src Kind,Dst Kind", "Memory Kind")


def read(text: str, name: ReportName) -> Reports:
    return read_reports({name: text}, source="a.csv")


def refusal(text: str, name: ReportName | RuleName) -> str:
    """With which code a CSV is refused."""
    try:
        if isinstance(name, ReportName):
            read(text, name)
        else:
            parse_rule(text, rule=name, source="a.csv")
    except PerfgateError as error:
        return error.code
    return ""


def ranges(*names: str) -> str:
    """An nvtx_sum with these names as nsys writes them."""
    row = "50.0,500,5,100.0,100.0,90,110,8.2,PushPop,"
    return NVTX + "".join(f"{row}{name}\n" for name in names)


def names_of(text: str) -> list[str]:
    return [row.range for row in read(text, ReportName.NVTX_SUM).nvtx_sum]


# --- reports -------------------------------------------------------------------------------------


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
        ("\N{LINE SEPARATOR}\x0b\x0c\x1c\x85", "\N{LINE SEPARATOR}\x0b\x0c\x1c\x85"),
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


@pytest.mark.parametrize("null", ["", "None"])
def test_rows_that_took_no_time_have_no_share_of_it(null: str) -> None:
    """nsys divides by the time of all rows; 2022.4 prints NULL as None, newer ones nothing."""
    row = f'{null},0,2,0.0,0.0,0,0,0.0,PushPop,"a, b"\n'
    (found,) = read(NVTX + row, ReportName.NVTX_SUM).nvtx_sum
    assert found.time_percent == 0.0


@pytest.mark.parametrize(
    ("text", "name", "code"),
    [
        ("", ReportName.NVTX_SUM, "rows-broken"),
        (NVTX, ReportName.NVTX_SUM, "rows-broken"),
        (ranges("step")[:-1], ReportName.NVTX_SUM, "rows-broken"),
        (ranges("step")[:-20], ReportName.NVTX_SUM, "rows-broken"),
        (ranges("a,b"), ReportName.NVTX_SUM, "rows-broken"),
        (NVTX.replace("(ns)", "(ms)") + "1\n", ReportName.NVTX_SUM, "columns-unknown"),
        (NVTX.replace(" (ns)", "") + "1\n", ReportName.NVTX_SUM, "columns-unknown"),
        (f"Processing [a.sqlite]...\n{ranges('step')}", ReportName.NVTX_SUM, "columns-unknown"),
        (KERNELS, ReportName.NVTX_SUM, "columns-unknown"),
        (
            f'{MEMORY}100.0,"7,289",2,150.0,150.0,100,200,70.7,[CUDA memset]\n',
            MEM_SUM,
            "rows-broken",
        ),
        (f"{MEMORY}nan,1,1,1,1,1,1,1,[CUDA memset]\n", MEM_SUM, "rows-broken"),
        (f"{MEMORY}1.0,1,1,1,1,1,1,1,[CUDA memfrob]\n", MEM_SUM, "operation-unknown"),
        (f"{KERNELS}1.0,1,1,1,1,1,1,1,two\nlines\n", KERN_SUM, "rows-broken"),
    ],
)
def test_reports_that_cannot_be_trusted_are_refused(text: str, name: ReportName, code: str) -> None:
    assert refusal(text, name) == code


def test_every_operation_has_one_newer_name_and_keeps_it() -> None:
    for operation in set(OPERATIONS.values()):
        assert OPERATIONS[f"[{operation}]"] == operation


# --- rules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "green"), [(COPIES, "3,"), (COPIES, ","), (COPIES, "None,"), (COPIES_2022, "")]
)
def test_copies_are_read_with_green_contexts_or_without(header: str, green: str) -> None:
    rule = RuleName.CUDA_MEMCPY_ASYNC
    row = f"436219,150102143,Pageable,Device Static,8388608,548,0,1,{green}7,cudaMemcpyAsync_v3020"
    assert parse_rule(f"{header}{row}\n", rule=rule, source="a.csv") == (
        Finding(rule=rule, start_ns=150_102_143, duration_ns=436_219, pid=548),
    )


@pytest.mark.parametrize("unsaid", ["", "None"])
def test_memsets_of_a_memory_kind_that_nsys_does_not_know_are_read(unsaid: str) -> None:
    text = f"{MEMSETS}40,-7,{unsaid},64,548,1,2,,7,cudaMemset_v3020\n"
    (found,) = parse_rule(text, rule=RuleName.CUDA_MEMSET_SYNC, source="a.csv")
    assert (found.start_ns, found.duration_ns) == (-7, 40)


def test_calls_are_read_in_nsyss_order() -> None:
    text = f"{CALLS}5,9,548,576,cudaStreamSynchronize_v3020\n3,1,548,548,cudaDeviceSynchronize\n"
    calls = parse_rule(text, rule=RuleName.CUDA_API_SYNC, source="a.csv")
    assert [(one.start_ns, one.duration_ns) for one in calls] == [(9, 5), (1, 3)]
    assert parse_rule("", rule=RuleName.CUDA_API_SYNC, source="a.csv") == ()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (CALLS, "rows-broken"),
        (f"{CALLS}30,100,548,0,x\n20,9", "rows-broken"),
        (f"{CALLS}30,100,548,0,x\n20,9\n", "rows-broken"),
        (f"{CALLS}30,100,548,0,x\n\n20,900,548,0,x\n", "rows-broken"),
        (f"{CALLS}30.5,100,548,0,x\n", "rows-broken"),
        (f"{CALLS}30,,548,0,x\n", "rows-broken"),
        (f'{CALLS}"30,5",100,548,0,x\n', "rows-broken"),
        (CALLS.replace("(ns)", "(ms)") + "0.0030,0.0100,548,0,x\n", "columns-unknown"),
        ("There were no problems detected\n", "columns-unknown"),
    ],
)
def test_rules_that_cannot_be_trusted_are_refused(text: str, code: str) -> None:
    assert refusal(text, RuleName.CUDA_API_SYNC) == code
