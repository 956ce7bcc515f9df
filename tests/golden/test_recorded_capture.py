"""A recorded H200 capture read as a Timeline, against nsys's own reports on it."""

from __future__ import annotations

import dataclasses
import os
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from perfgate.model.errors import NsysNotFound
from perfgate.model.reports import ReportName, Reports, TimeRow
from perfgate.model.timeline import NO_NODE, CapturedGpu, CopyKind, Ints, MemoryKind, Timeline
from perfgate.profilers.nsys.export.scrub import scrub
from perfgate.profilers.nsys.export.timeline import read_timeline
from perfgate.profilers.nsys.reports import read_reports
from perfgate.profilers.nsys.tool import VARIABLE, find_nsys

Summary = tuple[int, int, int, int, float]


@pytest.fixture(scope="module")
def timeline(capture: Path) -> Timeline:
    return read_timeline(capture)


def summed(names: Iterable[str], durations: Ints) -> dict[str, Summary]:
    """Per name: count, total, least, most and median, ns."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for name, duration in zip(names, durations.tolist(), strict=True):
        groups[name].append(duration)
    return {
        name: (len(its), sum(its), min(its), max(its), float(statistics.median(its)))
        for name, its in groups.items()
    }


def said(row: TimeRow, median: float | None) -> Summary:
    """The same of a row of nsys's."""
    assert median is not None
    return row.count, row.total_ns, row.min_ns, row.max_ns, median


def reports(recorded: Path) -> Reports:
    texts = {
        name: (recorded / "mlp-2024.2.3" / f"{name}.csv").read_bytes().decode()
        for name in ReportName
    }
    return read_reports(texts, source="r")


def test_every_row_of_the_capture_is_read(timeline: Timeline) -> None:
    assert len(timeline.kernels.start) == 920
    assert len(timeline.copies.start) == 40
    assert len(timeline.memsets.start) == 180
    assert len(timeline.graphs.start) == 0
    assert len(timeline.calls.start) == 1802
    assert len(timeline.ranges.start) == 120
    assert int(timeline.ranges.name.bear("step").sum()) == 20
    assert timeline.gpu_operations == 1140
    assert timeline.processes == (548,)
    assert timeline.gpus == (
        CapturedGpu(
            device=0,
            name="NVIDIA H200",
            uuid="3f8f0e54-8331-5a67-b798-1a7f0258f052",
            bus="0000:00:06.0",
        ),
    )
    assert timeline.missing == {}


def test_what_the_capture_holds_is_read_as_it_is(timeline: Timeline) -> None:
    assert timeline.ranges.closed.all()
    assert timeline.ranges.push_pop.all()
    assert set(timeline.ranges.thread.tolist()) == {548}
    assert set(timeline.calls.thread.tolist()) == {
        548,
        576,
    }  # autograd's thread launches the backward kernels
    assert set(timeline.kernels.graph_node.tolist()) == {NO_NODE}
    assert set(timeline.kernels.device.tolist()) == {0}
    h2d = timeline.copies.kind == CopyKind.H2D
    assert timeline.copies.bytes[h2d].tolist() == [8_388_608] * 20
    assert set(timeline.copies.source[h2d].tolist()) == {MemoryKind.PAGEABLE}
    assert set(timeline.copies.target[h2d].tolist()) == {MemoryKind.DEVICE}
    launched = np.isin(timeline.kernels.correlation, timeline.calls.correlation)
    assert launched.all()


def test_kernels_add_up_to_cuda_gpu_kern_sum(timeline: Timeline, recorded: Path) -> None:
    kernels = timeline.kernels
    names = [timeline.names[name] for name in kernels.name.tolist()]
    rows = reports(recorded).cuda_gpu_kern_sum
    expected = {row.name: said(row, row.med_ns) for row in rows}
    assert summed(names, kernels.end - kernels.start) == expected


def test_copies_and_memsets_add_up_to_cuda_gpu_mem_time_sum(
    timeline: Timeline, recorded: Path
) -> None:
    labels = {
        CopyKind.H2D: "CUDA memcpy Host-to-Device",
        CopyKind.D2D: "CUDA memcpy Device-to-Device",
    }
    names = [labels[CopyKind(kind)] for kind in timeline.copies.kind.tolist()]
    names += ["CUDA memset"] * len(timeline.memsets.start)
    durations = np.concatenate(
        [timeline.copies.end - timeline.copies.start, timeline.memsets.end - timeline.memsets.start]
    )
    rows = reports(recorded).cuda_gpu_mem_time_sum
    expected = {row.operation: said(row, row.med_ns) for row in rows}
    assert summed(names, durations) == expected


def test_ranges_add_up_to_nvtx_sum(timeline: Timeline, recorded: Path) -> None:
    rows = reports(recorded).nvtx_sum
    expected = {row.range: said(row, row.med_ns) for row in rows}
    assert (
        summed(list(timeline.ranges.name), timeline.ranges.end - timeline.ranges.start) == expected
    )


def test_a_scrubbed_copy_measures_the_same(
    timeline: Timeline, capture: Path, tmp_path: Path
) -> None:
    target = tmp_path / "scrubbed.sqlite"
    scrub(capture, target)
    scrubbed = read_timeline(target)
    for events in ("kernels", "copies", "memsets", "graphs", "calls", "ranges"):
        mine, its = getattr(timeline, events), getattr(scrubbed, events)
        for column in (one.name for one in dataclasses.fields(mine)):
            np.testing.assert_array_equal(
                getattr(mine, column), getattr(its, column), err_msg=f"{events} {column}"
            )
    assert scrubbed.names == timeline.names
    assert scrubbed.gpus == timeline.gpus
    assert target.stat().st_size < capture.stat().st_size
    assert b"redacted" in capture.read_bytes()  # where hosts and paths were
    assert b"redacted" not in target.read_bytes()


@pytest.mark.nsys
def test_nsys_reports_the_same_of_a_scrubbed_copy(capture: Path, tmp_path: Path) -> None:
    try:
        nsys = find_nsys(None, os.environ).path
    except NsysNotFound as error:
        if os.environ.get(VARIABLE):
            raise  # one was promised
        pytest.skip(f"no nsys here. {error}")
    scrub(capture, tmp_path / "scrubbed.sqlite")
    names = [*ReportName, "cuda_gpu_trace", "nvtx_gpu_proj_sum"]
    found: list[dict[str, bytes]] = []
    for source in (capture, tmp_path / "scrubbed.sqlite"):
        folder = tmp_path / source.stem
        folder.mkdir()
        reports = [option for name in names for option in ("--report", name)]
        command = [
            str(nsys),
            "stats",
            *reports,
            "--format",
            "csv:mem=B",
            "--output",
            f"{folder}/r",
            str(source),
        ]
        subprocess.run(
            command, env={**os.environ, "LC_ALL": "C"}, check=True, capture_output=True, timeout=120
        )
        found.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert sorted(found[0]) == sorted(f"r_{name}.csv" for name in names)
    assert all(found[0].values())
    assert found[1] == found[0]
