"""The tables of `perfgate explain --ncu`."""

from __future__ import annotations

from perfgate.model.kernelfigures import KernelProbe, KernelProbes, LaunchFigures, MovedKernel
from perfgate.model.note import Note, note, quoted
from perfgate.render.kernels import kernels_text

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


def told(*probes: KernelProbe, notes: tuple[Note, ...] = ()) -> str:
    made = KernelProbes(
        tool="ncu 2025.3.1",
        before="0123456789ab",
        now="the project as it is",
        probes=probes,
        notes=notes,
    )
    return kernels_text(
        made,
        named=lambda name: name,
        limited=lambda one: quoted(f"limited by something, {one.registers:g}"),
        width=100,
        colour=False,
    )


def test_a_kernel_is_told_before_and_now() -> None:
    assert (
        told(KernelProbe(moved=MOVED, before=A, now=B))
        == """\
kernels under ncu 2025.3.1: a is 0123456789ab, b is the project as it is
  One launch each, the first of the measured steps, with caches emptied and clocks as they were: its
  time is not that of a step in the gate.

Sobel  +0.5962 ms a step, each 20 times as long
  figure                        a            b    change
  ------------------  -----------  -----------  --------
  duration, us              31.87        628.0     x19.7
  compute throughput       77.7 %       85.2 %   +7.6 pp
  memory throughput        46.4 %        2.0 %  -44.4 pp
    of that, DRAM          22.2 %            -
  achieved occupancy       83.8 %       95.5 %  +11.7 pp
    possible              100.0 %      100.0 %   +0.0 pp
  registers a thread           22           34       +12
  waves of blocks           12.19        12.19
  SM clock, MHz               942         1049   +11.4 %
  grid                (64, 64, 1)  (64, 64, 1)
  block               (16, 16, 1)  (16, 16, 1)
  a is        limited by something, 22
  b is        limited by something, 34
"""
    )


def test_a_side_without_figures_says_why() -> None:
    text = told(KernelProbe(moved=MOVED, now=B, no_before=note("kernel-not-launched")))
    lines = text.splitlines()
    assert "  duration, us        -        628.0" in lines
    assert "  a           no figures: it is not launched there" in lines
    assert "  b is        limited by something, 34" in lines
    assert not any(line.startswith("  a is") for line in lines)
    neither = told(
        KernelProbe(
            moved=MOVED, no_before=note("quoted", text="gone"), no_now=note("kernel-not-seen")
        )
    ).splitlines()
    assert neither[-3:] == [
        "Sobel  +0.5962 ms a step, each 20 times as long",
        "  a           no figures: gone",
        "  b           no figures: it was not launched in the steps that were looked at",
    ]


def test_no_kernel_that_moved_is_said() -> None:
    assert told() == (
        "kernels under ncu 2025.3.1: a is 0123456789ab, b is the project as it is\n"
        "  No kernel's time per step has moved by 0.1 % of all kernel time.\n"
    )


def test_names_cannot_move_the_cursor() -> None:
    moved = MOVED.model_copy(update={"name": "evil\x1b[2J", "notes": ()})
    assert "evil\\x1b[2J  +0.5962 ms a step" in told(
        KernelProbe(moved=moved, now=B, no_before=note("quoted", text="x"))
    )
