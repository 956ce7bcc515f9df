"""Of real captures, the rows of every table add up to the metric that they are parts of."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from perfgate.metrics.measure import measure
from perfgate.model.metric import METRICS, Kind, Metric
from perfgate.model.sample import ProcessSample
from perfgate.profilers.nsys.export.timeline import read_timeline

CAPTURES = {
    "mlp-h200-nsys2024.2.3": "step",
    "graph-by-graph-h200-nsys2025.3": r"Batch \d+",
    "graph-by-node-h200-nsys2025.3": r"Batch \d+",
    "driver-only-h200-nsys2025.3": r"step \d+",
    "two-gpus-h200-nsys2025.3": r"Step \d+ Start",
    "two-ranks-h200-nsys2025.3": r"step \d+",
}


@pytest.fixture(params=CAPTURES)
def samples(
    recorded: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> tuple[ProcessSample, ...]:
    export = tmp_path / "capture.sqlite"
    export.write_bytes(lzma.decompress((recorded / f"{request.param}.sqlite.xz").read_bytes()))
    return measure(read_timeline(export), step=CAPTURES[request.param], is_pattern=True)


def test_ranges_add_up_to_every_clock_that_they_show(samples: tuple[ProcessSample, ...]) -> None:
    for sample in samples:
        shown = {metric for row in sample.ranges for metric in row.values}
        assert Metric.KERNEL_MS in shown
        for metric in shown:
            if METRICS[metric].kind is Kind.TIME:
                whole = sum(row.values.get(metric, 0.0) for row in sample.ranges)
                assert whole == pytest.approx(sample.values[metric], rel=1e-9, abs=1e-12), metric


def test_kernels_add_up_to_kernel_time(samples: tuple[ProcessSample, ...]) -> None:
    for sample in samples:
        of_kind = {
            kind: sum(row.gpu_ms for row in sample.kernels if row.kind == kind)
            for kind in ("kernel", "nccl")
        }
        assert of_kind["kernel"] == pytest.approx(sample.values[Metric.KERNEL_MS], rel=1e-9)
        assert of_kind["nccl"] == pytest.approx(sample.values.get(Metric.NCCL_MS, 0.0), rel=1e-9)


def test_copies_and_calls_add_up_to_their_metrics(samples: tuple[ProcessSample, ...]) -> None:
    for sample in samples:
        inbound = [row for row in sample.copies if row.direction == "Host-to-Device"]
        assert sum(row.gpu_ms for row in inbound) == pytest.approx(
            sample.values[Metric.H2D_MS], rel=1e-9
        )
        # Counts are medians over the steps, rows are means: on these loops every step is alike.
        assert sum(row.count for row in inbound) == pytest.approx(sample.values[Metric.H2D_COPIES])
        assert sum(row.bytes for row in inbound) == pytest.approx(sample.values[Metric.H2D_BYTES])
        pageable = sum(row.count for row in sample.copies if row.host == "pageable")
        assert pageable == pytest.approx(sample.values[Metric.PAGEABLE_COPIES])
        waits = sum(
            row.values[Metric.SYNCS] for row in sample.ranges
        )  # two ranks do not wait in every step
        assert sum(row.count for row in sample.syncs) == pytest.approx(waits)
