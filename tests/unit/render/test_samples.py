"""What `perfgate inspect` shows of a capture."""

from __future__ import annotations

from support import records

from perfgate.model.metric import Metric
from perfgate.model.note import Severity, quoted
from perfgate.model.sample import DeviceSample, KernelSample, ProcessSample, RangeSample
from perfgate.render.samples import sample_text

NCCL = "no NCCL kernel in the capture"


def rank(number: int) -> ProcessSample:
    """Build one of two ranks on one GPU each."""
    return records.process(
        pid=100 + number,
        rank=number,
        absent={Metric.NCCL_MS: NCCL, Metric.NCCL_EXPOSED_MS: NCCL},
        devices=[
            DeviceSample(
                device=number,
                ordinal=number,
                name="NVIDIA H200",
                values={Metric.KERNEL_MS: 9.1, Metric.GAP_MS: 1.851},
            )
        ],
        remarks=["the GPU's clock was not sampled"],
    )


def window() -> ProcessSample:
    """Build the sample of a capture without steps and without a GPU."""
    return records.process(
        {Metric.LAUNCHES: 0},
        steps=0,
        absent=dict.fromkeys((Metric.STEP_MS, Metric.GAP_MS), "no GPU operations in the capture"),
        ranges=[],
        kernels=[],
    ).model_copy(update={"nvtx_step_ms": None, "memory_share_h2d": None, "window_ms": 123.4})


def test_what_makes_a_run_invalid_is_said_of_a_capture_as_well() -> None:
    sample = records.process().model_copy(
        update={"notes": (quoted("of 12 kernel launches the capture lacks 4", Severity.INVALID),)}
    )
    text = sample_text([sample], source="mlp.sqlite", width=120, colour=False)
    told = "  INVALID     of 12 kernel launches the capture lacks 4. A gate does not count such a run.\n"
    assert told in text


def test_process_at_80_columns() -> None:
    assert (
        sample_text([rank(0)], source="mlp.sqlite", width=80, colour=False)
        == """\
mlp.sqlite: 1 process

process 100 (rank 0): 30 steps, 370.2 ms
  metric          per step of the step what it is
  --------------- -------- ----------- -----------------------------------------
  step_ms            12.34             mean period between step completions...
  kernel_ms          9.100      73.7 % kernel time, NCCL's kernels apart
  gap_ms             1.851      15.0 % time in which a GPU ran no kernel...
  h2d_ms             1.389      11.3 % host-to-device copy time
  h2d_exposed_ms    0.0421       0.3 % host-to-device copy time during which...
  launches              46             kernel launches, runtime and driver API
  graph_launches         0             CUDA graph launches
  h2d_copies             2             host-to-device copies
  h2d_bytes       38.54 MB             bytes copied host to device
  d2h_copies             1             device-to-host copies
  pageable_copies        0             copies whose host side is pageable memory
  syncs                  1             calls that make the CPU wait for the GPU
  unmeasured  nccl_ms, nccl_exposed_ms: no NCCL kernel in the capture
  nvtx_sum    the step's range lasts 1.020 ms on the CPU
  memory      host-to-device is 93.1 % of all memory operation time
  note        the GPU's clock was not sampled

  metric     GPU 0
  ---------  -----
  kernel_ms  9.100
  gap_ms     1.851
  GPU 0       NVIDIA H200

  range      per step  CPU ms  kernel ms  gap ms  h2d ms  launches  syncs
  ---------  --------  ------  ---------  ------  ------  --------  -----
  backward          1   2.110      6.080  0.3100                31
  forward           1   1.204      3.020                        15
  data_load         1  0.6100              1.541   1.389                1

  kernel, copy or memset                                per step GPU ms of these
  ----------------------------------------------------- -------- ------ --------
  sm90_xmma_gemm_f32f32_tf32f32_f32...rpgroupsize1x1x1        12  7.400   70.6 %
  void at::native::vectorized_eleme...dFunctor<float>>        34  1.700   16.2 %
  [CUDA memcpy Host-to-Device]                                 2  1.389   13.2 %
"""
    )


def test_window_without_steps_says_what_it_lacks() -> None:
    told = sample_text(
        [window()],
        source="x.nsys-rep",
        width=80,
        colour=False,
        missing={"kernels": "the table CUPTI_ACTIVITY_KIND_KERNEL is not in the export"},
        remarks=["nsys: CUDA profiling might not have been started correctly."],
    )
    assert (
        told
        == """\
x.nsys-rep: 1 process
  missing     kernels: the table CUPTI_ACTIVITY_KIND_KERNEL is not in the export
  note        nsys: CUDA profiling might not have been started correctly.

process 4242: the whole captured window, as one, 123.4 ms
  metric    in all  what it is
  --------  ------  ---------------------------------------
  launches       0  kernel launches, runtime and driver API
  unmeasured  step_ms, gap_ms: no GPU operations in the capture
"""
    )


def test_of_many_ranges_and_kernels_the_largest_are_shown() -> None:
    ranges = [RangeSample(name=f"Batch {n}", count=1 / 30, cpu_ms=n) for n in range(1000)]
    kernels = [KernelSample(name=f"kernel {n}", count=1, gpu_ms=n) for n in range(100)]
    told = sample_text(
        [records.process(ranges=ranges, kernels=kernels)], source="x", width=80, colour=False
    )
    assert "Batch 999 " in told
    assert "Batch 980 " in told
    assert "Batch 979 " not in told
    assert "  and 980 smaller ranges\n" in told
    assert "kernel 90 " in told
    assert "kernel 89 " not in told
    assert "  and 90 more\n" in told


def test_hostile_range_and_kernel_names_are_inert() -> None:
    name = "[red]\x1b[2J\n" + "void at::native::" * 700
    ranges = [RangeSample(name=name, count=1, cpu_ms=1, values={Metric.KERNEL_MS: 1})]
    sample = records.process(
        ranges=ranges, kernels=[KernelSample(name=name, count=1, gpu_ms=1)], remarks=[]
    )
    told = sample_text([sample], source=name, width=80, colour=False).splitlines()
    assert all(line.isprintable() for line in told)
    assert max(len(line) for line in told[1:]) <= 80
    assert told[-1].startswith("  [red]\\x1b[2J\\nvoid at::native::")


def test_what_is_missing_for_one_reason_is_told_once() -> None:
    missing = dict.fromkeys(("kernels", "copies"), "no CUDA events were recorded") | {
        "ranges": "no NVTX"
    }
    text = sample_text([], source="a.sqlite", width=120, colour=False, missing=missing)
    assert text.splitlines()[1:] == [
        "  missing     kernels, copies: no CUDA events were recorded",
        "  missing     ranges: no NVTX",
    ]
