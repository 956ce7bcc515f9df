"""How the processes of a capture are numbered."""

from __future__ import annotations

from pathlib import Path

from support.exports import (
    Call,
    Kernel,
    Range,
    write_export,
)

from perfgate.profilers.nsys.export.timeline import read_timeline


def test_processes_are_numbered_in_the_order_of_their_ids(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Kernel("k", 0, 1, process=900),
            Kernel("k", 0, 1, process=20),
            Call("c", 0, 1, process=20, thread=21),
            Range("step", 0, 1, process=900, thread=902),
        )
    )
    assert timeline.processes == (20, 900)
    assert timeline.kernels.process.tolist() == [1, 0]
    assert timeline.calls.process.tolist() == [0]
    assert timeline.calls.thread.tolist() == [21]
    assert timeline.ranges.process.tolist() == [1]
    assert timeline.ranges.thread.tolist() == [902]


def test_equal_pids_of_two_machines_are_two_processes(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path, Kernel("k", 0, 1, host=1), Kernel("k", 0, 1, host=2), Call("c", 0, 1, host=2)
        )
    )
    assert timeline.processes == (548, 548)
    assert timeline.kernels.process.tolist() == [0, 1]
    assert timeline.calls.process.tolist() == [1]


def test_rows_without_a_process_belong_to_the_only_one(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path, Kernel("k", 0, 1, process=None), Call("c", 0, 1), Range("r", 0, 1, process=None)
        )
    )
    assert timeline.processes == (548,)
    assert timeline.kernels.process.tolist() == [0]
    assert timeline.ranges.process.tolist() == [0]


def test_rows_without_a_process_among_several_are_a_process_of_their_own(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Kernel("k", 0, 1, process=None),
            Call("c", 0, 1, process=7),
            Call("c", 0, 1, process=8),
        )
    )
    assert timeline.processes == (7, 8, 0)
    assert timeline.kernels.process.tolist() == [2]
