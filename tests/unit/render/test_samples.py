"""What `perfgate inspect` shows of a capture."""

from __future__ import annotations

from support import records
from syrupy.assertion import SnapshotAssertion

from perfgate.model.metric import Metric
from perfgate.model.note import Severity, quoted
from perfgate.model.sample import DeviceSample, KernelSample, ProcessSample, RangeSample
from perfgate.render.page import Page
from perfgate.render.samples import sample_text

NCCL = "no NCCL kernel in the capture"


def rank(number: int) -> ProcessSample:
    """Build one of two ranks on one GPU each."""
    values = {Metric.KERNEL_MS: 9.1, Metric.GAP_MS: 1.851}
    device = DeviceSample(device=number, ordinal=number, name="NVIDIA H200", values=values)
    return records.process(
        pid=100 + number,
        rank=number,
        absent={Metric.NCCL_MS: NCCL, Metric.NCCL_EXPOSED_MS: NCCL},
        devices=[device],
        information=["the GPU's clock was not sampled"],
    )


def window() -> ProcessSample:
    """Build the sample of a capture without steps and without a GPU."""
    sample = records.process(
        {Metric.LAUNCHES: 0},
        steps=0,
        absent=dict.fromkeys((Metric.STEP_MS, Metric.GAP_MS), "no GPU operations in the capture"),
        ranges=[],
        kernels=[],
    )
    invalid = quoted("of 12 kernel launches the capture lacks 4", Severity.INVALID)
    none = {"nvtx_step_ms": None, "memory_share_h2d": None, "window_ms": 123.4}
    return sample.model_copy(update={**none, "notes": (invalid,)})


def test_a_capture_is_shown_whole(snapshot: SnapshotAssertion) -> None:
    assert sample_text(Page(width=80, colour=False), [rank(0)], source="mlp.sqlite") == snapshot


def test_window_without_steps_says_what_it_lacks(snapshot: SnapshotAssertion) -> None:
    no_events = dict.fromkeys(("kernels", "copies"), quoted("no CUDA events"))
    missing = {**no_events, "ranges": quoted("no NVTX")}
    page = Page(width=80, colour=False)
    text = sample_text(page, [window()], source="x.nsys-rep", missing=missing)
    assert text == snapshot


def test_of_many_ranges_and_kernels_the_largest_are_shown_and_the_others_counted() -> None:
    ranges = [RangeSample(name=f"Batch {n}", count=1 / 30, cpu_ms=n) for n in range(1000)]
    kernels = [KernelSample(name=f"kernel {n}", count=1, gpu_ms=n) for n in range(100)]
    sample = records.process(ranges=ranges, kernels=kernels)
    text = sample_text(Page(width=80, colour=False), [sample], source="x")
    names = [line.split("  ")[1] for line in text.splitlines() if " 980" in line or "Batch" in line]
    assert names == [*(f"Batch {n}" for n in range(999, 979, -1)), "and 980 smaller"]
    assert text.count("\n  kernel ") == 10
    assert "and 90 smaller" in text
