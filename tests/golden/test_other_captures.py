"""Captures that are not of an eager PyTorch loop, with numbers worked out from their rows by hand.

A plain loop over the rows, in SQL and without perfgate, gave the expected numbers: a step is
complete when its range and the last operation launched in it have ended; gaps are what no operation
covers between the second completion and the last.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from support.exports import execute

from perfgate.metrics.measure import measure
from perfgate.model.metric import Metric
from perfgate.model.note import Severity, note
from perfgate.model.sample import ProcessSample
from perfgate.profilers.nsys.export.timeline import read_timeline


@pytest.fixture
def samples(
    recorded: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> tuple[ProcessSample, ...]:
    name, step, steps, *changes = request.param
    export = tmp_path / f"{name}.sqlite"
    export.write_bytes(
        lzma.decompress((recorded / f"{name}-h200-nsys2025.3.sqlite.xz").read_bytes())
    )
    for sql in changes:
        execute(export, sql)
    return measure(read_timeline(export), step=step, is_pattern=True, steps=steps)


@pytest.fixture
def measured(samples: tuple[ProcessSample, ...]) -> ProcessSample:
    (sample,) = samples
    return sample


def idle_ms(sample: ProcessSample, gap_ms: float) -> float:
    """Idle time of the whole window, of which `gap_ms` is the share that falls to a step of median
    length."""
    return gap_ms / sample.values[Metric.STEP_MS] * sample.window_ms


@pytest.mark.parametrize("samples", [("graph-by-graph", r"Batch \d+", 30)], indirect=True)
def test_a_graph_traced_whole_is_busy_time_and_one_launch(measured: ProcessSample) -> None:
    assert measured.steps == 30
    assert measured.values[Metric.STEP_MS] == pytest.approx(0.398116)
    assert measured.values[Metric.KERNEL_MS] == pytest.approx(0.345989833, rel=1e-8)
    assert measured.values[Metric.H2D_MS] == pytest.approx(0.040704067, rel=1e-7)
    assert idle_ms(measured, measured.values[Metric.GAP_MS]) == pytest.approx(0.320064)
    assert measured.values[Metric.LAUNCHES] == 0
    assert measured.values[Metric.GRAPH_LAUNCHES] == 1


@pytest.mark.parametrize("samples", [("graph-by-node", r"Batch \d+", 30)], indirect=True)
def test_the_same_graph_traced_by_node_is_as_busy(measured: ProcessSample) -> None:
    assert measured.values[Metric.STEP_MS] == pytest.approx(0.39868607)
    assert measured.values[Metric.KERNEL_MS] == pytest.approx(0.344276533, rel=1e-8)
    assert idle_ms(measured, measured.values[Metric.GAP_MS]) == pytest.approx(0.378592)
    assert measured.values[Metric.LAUNCHES] == 0
    assert measured.values[Metric.GRAPH_LAUNCHES] == 1
    assert [kernel.count for kernel in measured.kernels] == [8, 1]


GPU_CLOCK_BEHIND = tuple(
    f'UPDATE CUPTI_ACTIVITY_KIND_{table} SET start = start - 1000000000, "end" = "end" - 1000000000'
    for table in ("KERNEL", "MEMCPY")
)


@pytest.mark.parametrize(
    "samples", [("two-gpus", r"Step \d+ Start", 20, *GPU_CLOCK_BEHIND)], indirect=True
)
def test_a_gpu_clock_that_is_a_second_behind_is_no_measurement(measured: ProcessSample) -> None:
    (found,) = measured.notes
    assert (found.code, found.fields["operations"], found.fields["early"]) == (
        "clocks-disagree",
        200,
        200,
    )


COPIES_UNLINKED = "ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY DROP COLUMN correlationId"
A_THIRD_LOST = "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid % 3 = 0"


@pytest.mark.parametrize(
    "samples", [("graph-by-node", r"Batch \d+", 30, COPIES_UNLINKED)], indirect=True
)
def test_copies_that_no_call_links_to_a_step_are_not_counted_as_none(
    measured: ProcessSample,
) -> None:
    assert measured.values[Metric.KERNEL_MS] == pytest.approx(0.344276533, rel=1e-8)
    assert measured.notes[0] == note(
        "operations-of-no-step", Severity.INVALID, held=270, outside=28
    )


@pytest.mark.parametrize(
    "samples", [("graph-by-node", r"Batch \d+", 30, A_THIRD_LOST)], indirect=True
)
def test_graphs_that_lack_a_third_of_their_kernels_are_no_measurement(
    measured: ProcessSample,
) -> None:
    assert measured.notes[0] == note("graph-kernels-lost", Severity.INVALID, kernels=240, lost=80)


@pytest.mark.parametrize("samples", [("driver-only", r"step \d+", 12)], indirect=True)
def test_a_program_of_the_driver_api_alone_is_measured_like_any_other(
    measured: ProcessSample,
) -> None:
    assert measured.steps == 12
    assert measured.values[Metric.STEP_MS] == pytest.approx(0.4108002)
    assert measured.values[Metric.KERNEL_MS] == pytest.approx(0.10162425)
    assert measured.values[Metric.H2D_MS] == pytest.approx(0.230666833, rel=1e-8)
    assert idle_ms(measured, measured.values[Metric.GAP_MS]) == pytest.approx(0.996958)
    assert measured.values[Metric.LAUNCHES] == 1
    assert measured.values[Metric.H2D_BYTES] == 4194304
    assert measured.values[Metric.PAGEABLE_COPIES] == 1
    assert (
        measured.values[Metric.SYNCS] == 2
    )  # cuCtxSynchronize, and cuMemcpyHtoD, which waits for its own end


@pytest.mark.parametrize("samples", [("two-gpus", r"Step \d+ Start", 20)], indirect=True)
def test_of_one_process_on_two_gpus_work_is_summed_and_waiting_a_mean(
    measured: ProcessSample,
) -> None:
    assert measured.values[Metric.STEP_MS] == pytest.approx(3.10144356)
    assert measured.values[Metric.KERNEL_MS] == pytest.approx(5.57887255)
    assert [device.device for device in measured.devices] == [0, 1]
    gaps = [device.values[Metric.GAP_MS] for device in measured.devices]
    assert [idle_ms(measured, gap) for gap in gaps] == [
        pytest.approx(0.399481),
        pytest.approx(0.268065),
    ]
    assert measured.values[Metric.GAP_MS] == pytest.approx(sum(gaps) / 2)


@pytest.mark.parametrize("samples", [("two-ranks", r"step \d+", 20)], indirect=True)
def test_two_ranks_that_each_see_one_gpu_as_the_first_are_two_gpus(
    samples: tuple[ProcessSample, ...],
) -> None:
    assert [sample.pid for sample in samples] == [973, 974]
    assert [[device.device for device in sample.devices] for sample in samples] == [[0], [1]]
    steps = [sample.values[Metric.STEP_MS] for sample in samples]
    assert steps == [pytest.approx(13.68999), pytest.approx(13.6898055)]
    kernels = [sample.values[Metric.KERNEL_MS] for sample in samples]
    assert kernels == [pytest.approx(12.73894245), pytest.approx(12.77054115)]
    nccl = [sample.values[Metric.NCCL_MS] for sample in samples]
    assert nccl == [pytest.approx(1.83771585), pytest.approx(2.1032045)]
    gaps = [sample.values[Metric.GAP_MS] for sample in samples]
    idle = [idle_ms(sample, gap) for sample, gap in zip(samples, gaps, strict=True)]
    assert idle == [pytest.approx(1.477297), pytest.approx(1.570626)]
