"""A recorded H200 capture read as a Timeline, against nsys's own reports on it."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from perfgate.model.errors import NsysNotFound
from perfgate.model.reports import ReportName
from perfgate.model.timeline import CapturedGpu, Timeline
from perfgate.profilers.nsys.export.scrub import scrub
from perfgate.profilers.nsys.export.timeline import read_timeline
from perfgate.profilers.nsys.tool import VARIABLE, find_nsys

Summary = tuple[int, int, int, int, float]


@pytest.fixture(scope="module")
def timeline(capture: Path) -> Timeline:
    return read_timeline(capture)


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
