"""What a capture says that it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.exports import (
    Call,
    Kernel,
    Range,
    Row,
    write_export,
)
from support.refusals import HOSTILE, TAMED

from perfgate.profilers.nsys.export.timeline import read_timeline


def test_a_capture_without_cuda_says_so_in_the_words_of_nsys(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Range("step", 0, 1),
            Row("DIAGNOSTIC_EVENT", severity=1, text="CUDA injection initialized successfully."),
            Row(
                "DIAGNOSTIC_EVENT",
                severity=2,
                text="No CUDA events collected. Does the process use CUDA?",
            ),
        )
    )
    why = 'no CUDA events were recorded: "No CUDA events collected. Does the process use CUDA?"'
    assert timeline.missing == dict.fromkeys(
        ("kernels", "copies", "memsets", "graphs", "calls"), why
    )


def test_the_words_of_nsys_are_quoted_on_one_line_and_spelled_out(path: Path) -> None:
    warnings = [f"No CUDA events collected.{HOSTILE}!", "CUDA" + "x" * 5000]
    rows = [Row("DIAGNOSTIC_EVENT", severity=2, text=text) for text in warnings]
    told = read_timeline(write_export(path, Range("step", 0, 1), *rows)).missing["kernels"]
    short = "CUDA" + "x" * 194 + "..." + "x" * 99
    assert told == f'no CUDA events were recorded: "No CUDA events collected.{TAMED}!", "{short}"'


def test_calls_without_gpu_operations_are_told(path: Path) -> None:
    timeline = read_timeline(
        write_export(path, Range("step", 0, 1), Call("cudaLaunchKernel", 0, 1))
    )
    why = "1 CUDA call was recorded, but no GPU operation"
    assert timeline.missing == dict.fromkeys(("kernels", "copies", "memsets", "graphs"), why)


def test_gpu_operations_without_calls_and_ranges_are_told(path: Path) -> None:
    warning = "NVTX payload extension is incompatible. Provided compatibility ID 260 != 259."
    timeline = read_timeline(
        write_export(path, Kernel("k", 0, 1), Row("DIAGNOSTIC_EVENT", severity=2, text=warning))
    )
    assert timeline.missing == {
        "calls": "GPU operations were recorded, but not the CUDA calls that started them",
        "ranges": f'no NVTX ranges were recorded: "{warning}"',
    }


def test_a_warning_about_another_nvtx_function_is_no_reason_for_missing_ranges(path: Path) -> None:
    warnings = [
        "NVTX function nvtxDomainDestroy was called with wrong domain ID argument.",
        "NVTX function nvtxDomainRangePop was called with wrong domain ID argument.",
    ]
    rows = [Row("DIAGNOSTIC_EVENT", severity=2, text=text) for text in warnings]
    told = read_timeline(write_export(path, Kernel("k", 0, 1), *rows)).missing["ranges"]
    assert told == f'no NVTX ranges were recorded: "{warnings[1]}"'


UNPARSED = "Could not parse 7 CUPTI activity records. Please try updating the CUDA driver or use more recent profiler version"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (
            "CUPTI dropped 12 records. Some CUPTI events might be missing.",
            "CUPTI dropped 12 records. Some CUPTI events might be missing",
        ),
        (
            "Couldn't allocate CUPTI buffers 3 times.Some CUPTI events might be missing.\n",
            "Couldn't allocate CUPTI buffers 3 times.Some CUPTI events might be missing",
        ),
        (f"{UNPARSED}.", UNPARSED),
    ],
)
@pytest.mark.parametrize("severity", [1, 2, 3])
def test_what_nsys_says_that_it_lost_is_told(
    path: Path, text: str, quoted: str, severity: int
) -> None:
    note = Row("DIAGNOSTIC_EVENT", severity=severity, text=text)
    rows = (Kernel("k", 0, 1), Call("c", 0, 1), Range("step", 0, 9), note, note)
    assert read_timeline(write_export(path, *rows)).missing == {
        "records": f'nsys lost GPU operations or calls: "{quoted}"'
    }


@pytest.mark.parametrize(
    "text",
    [
        "Not all CUDA events might have been collected.",
        "Number of CUPTI events produced: \t2969, CUPTI buffers: 50.",
        (
            "Number of incomplete CUPTI events dropped: 2. Incomplete events appear when GPU timestamp information "
            "have not been retrieved at the time the profiling session was stopped."
        ),
    ],
)
def test_what_nsys_says_of_good_captures_too_is_no_loss(path: Path, text: str) -> None:
    note = Row("DIAGNOSTIC_EVENT", severity=2, text=text)
    rows = (Kernel("k", 0, 1), Call("c", 0, 1), Range("step", 0, 9), note)
    assert read_timeline(write_export(path, *rows)).missing == {}


def test_marks_without_ranges_are_told(path: Path) -> None:
    warning = Row("DIAGNOSTIC_EVENT", severity=2, text="NVTX payload extension is incompatible.")
    marks = [Range("step", 10 * n, None, event=34) for n in range(3)]
    timeline = read_timeline(write_export(path, Kernel("k", 0, 1), *marks, warning))
    assert (
        timeline.missing["ranges"]
        == "only NVTX marks were recorded, 3 of them, and a mark has no length"
    )
