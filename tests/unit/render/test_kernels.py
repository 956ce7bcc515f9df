"""The tables of `perfgate explain --ncu`."""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion

from perfgate.model.comparison import KernelProbe, KernelProbes, LaunchFigures, MovedKernel
from perfgate.model.note import note, quoted
from perfgate.render.explanation import kernels_text
from perfgate.render.page import Page

A = LaunchFigures(
    kernel="_Z5Sobel",
    device=0,
    grid="(64, 64, 1)",
    block="(16, 16, 1)",
    duration_us=31.872,
    compute_percent=77.67,
    memory_percent=46.36,
    dram_percent=22.19,
    occupancy_percent=83.84,
    occupancy_limit_percent=100,
    registers=22,
    waves=12.19,
    sm_clock_mhz=941.63,
)
B = A.model_copy(
    update={
        "duration_us": 628.032,
        "compute_percent": 85.25,
        "memory_percent": 1.97,
        "dram_percent": None,
        "occupancy_percent": 95.5,
        "registers": 34,
        "sm_clock_mhz": 1049.25,
    }
)
MOVED = MovedKernel(
    name="Sobel",
    change_ms=0.5962,
    notes=(note("each-times-as-long", times=20),),
    per_step_before=1,
    per_step_now=1,
)


def shown(*probes: KernelProbe) -> str:
    made = KernelProbes(
        tool="ncu 2025.3.1",
        before="0123456789ab",
        now="the project as it is",
        probes=probes,
    )
    return kernels_text(
        Page(width=100, colour=False),
        made,
        named=lambda name: name,
        limited=lambda one: quoted(f"limited by something, {one.registers:g}"),
    )


def test_kernels_are_shown_before_and_now_or_why_not(snapshot: SnapshotAssertion) -> None:
    hostile = MOVED.model_copy(update={"name": "evil\x1b[2J", "notes": (quoted("no\rte"),)})
    gone = note("quoted", text="gone")
    text = shown(
        KernelProbe(moved=MOVED, before=A, now=B),
        KernelProbe(moved=MOVED, before=note("kernel-not-launched"), now=B),
        KernelProbe(moved=hostile, before=gone, now=note("kernel-not-seen")),
    )
    assert text == snapshot
