"""What a real nsys counts in captures where its reports do not count what one would think."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from support.exports import Copy, Domain, Kernel, Memset, Range, Row, execute, write_export

from perfgate.metrics.check import contradictions
from perfgate.model.workload import CaptureMode
from perfgate.profilers.nsys.command import withhold_secrets
from perfgate.profilers.nsys.export.timeline import read_timeline
from perfgate.profilers.nsys.profile import profile
from perfgate.profilers.nsys.reports import run_reports
from perfgate.profilers.nsys.tool import NsysTool
from perfgate.profilers.seam import ProfileSpec

pytestmark = pytest.mark.nsys

TWO_LOADERS = """
import nvtx, threading, time
from nvtx.nvtx import get_domain

def load():
    get_domain.cache_clear()  # each thread creates the domain, as a library in C does
    for _ in range(2):
        with nvtx.annotate("load", domain="loader"):
            time.sleep(0.001)

for number in range(3):
    with nvtx.annotate("step"):
        threads = [threading.Thread(target=load) for _ in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
"""
LABELS = tuple(
    Row("ENUM_CUDA_MEMCPY_OPER", id=number, name=label, label=label)
    for number, label in ((1, "Host-to-Device"), (2, "Device-to-Host"))
)


def test_a_domain_that_several_threads_created_is_no_contradiction(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    (tmp_path / "workload.py").write_text(TWO_LOADERS)
    kept, _ = withhold_secrets(os.environ, ())
    spec = ProfileSpec(
        argv=(sys.executable, "workload.py"),
        folder=tmp_path / "run",
        cwd=tmp_path,
        env=kept,
        timeout_s=60.0,
        capture=CaptureMode.ALL,
    )
    [captured] = profile(nsys_tool, spec).captures
    timeline = read_timeline(captured.sqlite)
    reports = run_reports(nsys_tool, captured.sqlite, tmp_path / "reports")

    assert len(timeline.ranges.start) == 3 + 3 * 2 * 2
    assert timeline.ranges_repeated == 12 * (6 - 1)
    assert sum(row.count for row in reports.nvtx_sum) == 3 + 12 * 6
    assert contradictions(timeline, reports) == ()


def test_domains_are_counted_as_the_script_joins_them(nsys_tool: NsysTool, tmp_path: Path) -> None:
    path = write_export(
        tmp_path / "run.sqlite",
        Domain("one", 1),
        Domain("one again", 1, start=5),  # by the same thread
        Domain("two", 2),
        Domain("two", 2, start=7),
        Domain("two", 2, process=600),
        Range("a", 10, 20, domain=1),
        Range("b", 30, 40, domain=2),
        Range("b", 50, 60, domain=2, event=60),
        Range("b", 50, 60, domain=2, process=600),
        Range("step", 70, 80, registered=True),
        Range("lost", 80, 90, domain=9),
    )
    execute(path, "UPDATE NVTX_EVENTS SET globalTid = globalTid + 1 WHERE start = 7")
    timeline, reports = read_timeline(path), run_reports(nsys_tool, path, tmp_path / "reports")
    assert timeline.ranges_repeated == 2
    assert sum(row.count for row in reports.nvtx_sum) == 6 + 2
    assert contradictions(timeline, reports) == ()


def test_operations_that_took_no_time_have_no_share_of_it(
    nsys_tool: NsysTool, tmp_path: Path
) -> None:
    path = write_export(
        tmp_path / "run.sqlite",
        Kernel("gemm", 0, 0),
        Copy(0, 0, 64),
        Copy(0, 0, 64, kind=2),
        Memset(0, 0),
        Range("step", 5, 5),
        Range("a, b", 9, 9),
        *LABELS,
    )
    reports = run_reports(nsys_tool, path, tmp_path / "reports")
    assert {(row.time_percent, row.total_ns) for row in reports.cuda_gpu_mem_time_sum} == {(0.0, 0)}
    assert sorted(row.range for row in reports.nvtx_sum) == ["a, b", "step"]
    assert contradictions(read_timeline(path), reports) == ()


def test_copies_that_cupti_merged_are_no_contradiction(nsys_tool: NsysTool, tmp_path: Path) -> None:
    copies = Copy(0, 5, 64), Copy(9, 12, 512)
    path = write_export(tmp_path / "run.sqlite", Kernel("gemm", 0, 5), *copies, *LABELS)
    execute(path, "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD COLUMN copyCount INTEGER")
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyCount = 8 WHERE start = 9")
    timeline = read_timeline(path)
    assert timeline.copies.count.tolist() == [1, 8]
    assert contradictions(timeline, run_reports(nsys_tool, path, tmp_path / "reports")) == ()
