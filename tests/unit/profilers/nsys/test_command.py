from __future__ import annotations

from pathlib import Path

import pytest

from perfgate.model.reports import ReportName, RuleName
from perfgate.model.settings import GraphTrace
from perfgate.model.workload import CaptureMode, CaptureWindow
from perfgate.profilers.nsys.command import (
    answers_command,
    called,
    profile_command,
    window_options,
)
from perfgate.profilers.nsys.layouts import COLUMNS, HEADERS, OLD_NAMES
from perfgate.profilers.nsys.tool import NsysVersion

NSYS = Path("/opt/nsys")


def test_profile_opens_the_capture_by_the_cuda_profiler_api_and_never_kills() -> None:
    command = profile_command(
        NSYS,
        ("python", "train.py", "--lr=1"),
        output=Path("/runs/1/capture"),
        window=window_options(CaptureMode.CUDA_PROFILER_API),
        graph_trace=GraphTrace.GRAPH,
    )
    assert command == (
        "/opt/nsys",
        "profile",
        "--stats=true",
        "--trace=cuda,nvtx",
        "--cuda-graph-trace=graph",
        "--sample=none",
        "--cpuctxsw=none",
        "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop",
        "--kill=none",
        "--wait=primary",
        "--force-overwrite=true",
        "--output=/runs/1/capture",
        "python",
        "train.py",
        "--lr=1",
    )


@pytest.mark.parametrize(
    ("capture", "flushes_at_once", "options"),
    [
        (CaptureMode.ALL, True, ()),
        (CaptureWindow(delay=10, duration=2.5), True, ("--delay=10", "--duration=2.5")),
        (
            CaptureMode.CUDA_PROFILER_API,
            False,
            ("--capture-range=cudaProfilerApi", "--capture-range-end=none"),
        ),
    ],
)
def test_the_window_opens_and_closes_as_it_is_declared(
    capture: CaptureMode | CaptureWindow, options: tuple[str, ...], *, flushes_at_once: bool
) -> None:
    assert window_options(capture, flushes_at_once=flushes_at_once) == options


@pytest.mark.parametrize(
    ("rules", "asked", "words"),
    [
        (False, ("nvtx_sum", "cuda_api_sum"), ("--report=nvtx_sum", "--report=cuda_api_sum")),
        (True, ("cuda_api_sync:rows=9", "x"), ("--rule=cuda_api_sync:rows=9", "--rule=x")),
    ],
)
def test_answers_are_asked_for_in_nanoseconds_and_bytes(
    asked: tuple[str, ...], words: tuple[str, ...], *, rules: bool
) -> None:
    assert answers_command(NSYS, asked, rules=rules, source="c.sqlite", output="out") == (
        "/opt/nsys",
        "analyze" if rules else "stats",
        *words,
        "--format=csv:mem=B",
        "--timeunit=nsec",
        "--force-overwrite=true",
        "--output=out",
        "c.sqlite",
    )


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (NsysVersion(2022, 4, 2), "gpukernsum"),
        (NsysVersion(2023, 3, 3), "gpukernsum"),
        (NsysVersion(2023, 4, 4), "cuda_gpu_kern_sum"),
        (NsysVersion(2026, 3, 2), "cuda_gpu_kern_sum"),
    ],
)
def test_reports_are_asked_for_by_the_names_of_the_version(version: NsysVersion, name: str) -> None:
    assert called(ReportName.CUDA_GPU_KERN_SUM, version) == name


def test_every_report_and_rule_has_an_old_name_and_columns() -> None:
    assert OLD_NAMES.keys() == HEADERS.keys() == {*ReportName, *RuleName}
    headings = ",".join(header for its in HEADERS.values() for header in its).split(",")
    assert set(headings) == COLUMNS.keys()
