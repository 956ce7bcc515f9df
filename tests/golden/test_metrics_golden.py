"""A capture recorded on an H200, measured: exact numbers, and agreement with nsys's own reports on
the same capture."""

from __future__ import annotations

import csv
import lzma
from pathlib import Path

import numpy as np
import pytest

from perfgate.metrics.intervals import Idle
from perfgate.metrics.measure import measure
from perfgate.model.metric import Metric
from perfgate.model.sample import NO_NCCL, ProcessSample
from perfgate.model.timeline import Timeline
from perfgate.profilers.nsys.export.timeline import read_timeline

DATA = Path(__file__).parent / "data"
CAPTURE = DATA / "mlp-h200-nsys2024.2.3.sqlite.xz"
REPORTS = DATA / "mlp-2024.2.3"

GPU_GAPS = (
    (2_634_815, 16_559_223),
    (2_578_592, 103_237_380),
    (2_559_681, 110_721_479),
    (2_513_664, 118_202_603),
    (2_487_361, 140_218_490),
    (2_487_105, 132_817_878),
    (2_471_201, 147_630_942),
    (2_461_217, 38_418_440),
    (2_447_362, 52_805_077),
    (2_342_403, 60_183_866),
    (2_340_547, 95_963_070),
    (2_318_051, 67_448_192),
    (2_300_291, 125_616_623),
    (2_250_084, 74_667_462),
    (2_245_988, 88_810_999),
    (2_238_532, 24_111_225),
    (2_227_364, 31_270_401),
    (2_136_486, 45_783_116),
    (2_092_647, 81_823_181),
)
"""Duration and start, ns: all rows of `nsys analyze -r gpu_gaps:gap=1:rows=-1`, nsys 2024.2.3."""
GPU_TIME_UTIL = (16_388_003, 133_877_156, 63.6)
"""Start, duration (ns) and in-use (%): the only row of `nsys analyze -r
gpu_time_util:threshold=90`."""

STEP_MS = 130.935241 / 18
"""Of 18 periods none is longer than 1.2 medians."""


@pytest.fixture(scope="module")
def timeline(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    """The recorded capture: an 8-layer MLP, 20 steps."""
    export = tmp_path_factory.mktemp("golden") / "mlp.sqlite"
    export.write_bytes(lzma.decompress(CAPTURE.read_bytes()))
    return read_timeline(export)


@pytest.fixture(scope="module")
def by_step(timeline: Timeline) -> ProcessSample:
    (sample,) = measure(timeline, step="step", steps=20)
    return sample


@pytest.fixture(scope="module")
def as_one(timeline: Timeline) -> ProcessSample:
    (sample,) = measure(timeline, step=None)
    return sample


@pytest.fixture(scope="module")
def idle(timeline: Timeline) -> Idle:
    """Of the capture's only GPU."""
    parts = (timeline.kernels, timeline.copies, timeline.memsets)
    return Idle.from_intervals([ops.start for ops in parts], [ops.end for ops in parts])


def report(name: str) -> list[dict[str, str]]:
    """A report as nsys 2024.2.3 wrote it."""
    with (REPORTS / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_metric_of_the_capture(by_step: ProcessSample) -> None:
    assert by_step.values == {
        Metric.STEP_MS: pytest.approx(STEP_MS),
        Metric.STEP_MEAN_MS: pytest.approx(130.935241 / 18),
        Metric.KERNEL_MS: pytest.approx(4.282099),
        Metric.GAP_MS: pytest.approx(STEP_MS * 46.064089 / 130.935241),
        Metric.H2D_MS: pytest.approx(0.42030375),
        Metric.H2D_EXPOSED_MS: pytest.approx(0.42030375),
        # 180 memsets (185793 ns) and 20 copies within the GPU (69536 ns), none of them next to a
        # kernel.
        Metric.MEM_EXPOSED_MS: pytest.approx((0.185793 + 0.069536) / 20),
        Metric.LAUNCHES: 46.0,
        Metric.GRAPH_LAUNCHES: 0.0,
        Metric.H2D_COPIES: 1.0,
        Metric.H2D_BYTES: 8_388_608.0,
        Metric.D2H_COPIES: 0.0,
        Metric.PAGEABLE_COPIES: 1.0,
        Metric.SYNCS: 1.0,
    }
    assert by_step.absent == {
        Metric.NCCL_MS: NO_NCCL,
        Metric.NCCL_EXPOSED_MS: NO_NCCL,
    }
    assert (by_step.pid, by_step.steps, len(by_step.periods_ms), by_step.window_ms) == (
        548,
        20,
        18,
        130.935241,
    )
    assert by_step.notes == ()


def test_where_the_time_of_a_step_went(by_step: ProcessSample) -> None:
    shown = {
        row.name: (
            row.count,
            round(row.values[Metric.KERNEL_MS] * 20e6),
            round(row.values[Metric.GAP_MS] / STEP_MS * 130_935_241),
            row.values[Metric.LAUNCHES],
        )
        for row in by_step.ranges
    }
    assert shown == {
        "step": (1.0, 0, 266_557, 0.0),
        "data_load": (1.0, 0, 40_399_571, 0.0),
        "h2d": (1.0, 0, 2_252_702, 0.0),
        "forward": (1.0, 29_549_617, 1_836_582, 10.0),
        "backward": (1.0, 54_052_742, 1_262_725, 34.0),
        "optimizer": (1.0, 2_039_621, 45_952, 2.0),
    }
    assert sum(gap for _, _, gap, _ in shown.values()) == 46_064_089


def test_the_gap_is_the_window_without_the_time_nsys_says_the_gpu_worked(
    by_step: ProcessSample, timeline: Timeline
) -> None:
    # No two operations of this capture overlap, so busy time is the plain sum of clipped durations.
    last = int(timeline.kernels.end.max())
    first = last - round(by_step.window_ms * 1e6)
    busy = 0
    for ops in (timeline.kernels, timeline.copies, timeline.memsets):
        busy += int((np.clip(ops.end, first, last) - np.clip(ops.start, first, last)).sum())
    share = by_step.values[Metric.GAP_MS] / by_step.values[Metric.STEP_MS]
    assert round(share * by_step.window_ms * 1e6) == last - first - busy


def test_gaps_above_a_millisecond_are_those_of_gpu_gaps(idle: Idle) -> None:
    starts, ends = idle.starts[1:-1], (idle.starts + np.diff(idle.before))[1:-1]
    ours = sorted(
        ((e - s, s) for s, e in zip(starts.tolist(), ends.tolist(), strict=True) if e - s > 10**6),
        reverse=True,
    )
    assert ours == list(GPU_GAPS)


def test_busy_share_is_that_of_gpu_time_util(idle: Idle) -> None:
    first, length, in_use = GPU_TIME_UTIL
    before, after = idle.until(np.array([first, first + length], np.int64)).tolist()
    assert 1 - (after - before) / length == pytest.approx(in_use / 100, abs=0.0005)


def test_kernel_times_are_those_of_cuda_gpu_kern_sum(as_one: ProcessSample) -> None:
    theirs = {
        row["Name"]: (int(row["Total Time (ns)"]), float(row["Instances"]))
        for row in report("cuda_gpu_kern_sum")
    }
    ours = {
        k.name: (round(k.gpu_ms * 1e6), k.count)
        for k in as_one.kernels
        if not k.name.startswith("CUDA ")
    }
    assert ours == theirs
    assert round(as_one.values[Metric.KERNEL_MS] * 1e6) == sum(
        total for total, _ in theirs.values()
    )


def test_memory_times_are_those_of_cuda_gpu_mem_time_sum(
    as_one: ProcessSample, by_step: ProcessSample
) -> None:
    rows = report("cuda_gpu_mem_time_sum")
    theirs = {
        row["Operation"].strip("[]"): (int(row["Total Time (ns)"]), float(row["Count"]))
        for row in rows
    }
    ours = {
        k.name: (round(k.gpu_ms * 1e6), k.count)
        for k in as_one.kernels
        if k.name.startswith("CUDA ")
    }
    assert ours == theirs
    share = next(float(row["Time (%)"]) for row in rows if "Host-to-Device" in row["Operation"])
    assert by_step.memory_share_h2d == pytest.approx(share / 100, abs=0.0005)


def test_range_times_are_those_of_nvtx_sum(by_step: ProcessSample) -> None:
    rows = {row["Range"]: row for row in report("nvtx_sum")}
    assert by_step.nvtx_step_ms == float(rows["step"]["Med (ns)"]) / 1e6
    ours = {
        row.name: (round(row.cpu_ms * 20e6), row.count * 20) for row in by_step.ranges if row.count
    }
    assert ours == {
        name: (int(row["Total Time (ns)"]), float(row["Instances"])) for name, row in rows.items()
    }


def test_calls_are_those_of_cuda_api_sum(as_one: ProcessSample) -> None:
    calls = {row["Name"]: int(row["Num Calls"]) for row in report("cuda_api_sum")}
    launches = (
        calls["cudaLaunchKernel"] + calls["cudaLaunchKernelExC_v11060"] + calls["cuLaunchKernel"]
    )
    assert as_one.values[Metric.LAUNCHES] == launches == 920
    assert (
        as_one.values[Metric.SYNCS]
        == calls["cudaStreamSynchronize"] + calls["cudaDeviceSynchronize"]
        == 21
    )


def test_backward_holds_what_autograd_launched_from_its_own_thread(by_step: ProcessSample) -> None:
    # nvtx_gpu_proj_sum goes by thread and finds 20 operations under backward in all 20 steps.
    (backward,) = (row for row in by_step.ranges if row.name == "backward")
    assert backward.values[Metric.LAUNCHES] * 20 == 680
    assert backward.values[Metric.KERNEL_MS] / by_step.values[Metric.KERNEL_MS] == pytest.approx(
        0.631, abs=0.0005
    )
