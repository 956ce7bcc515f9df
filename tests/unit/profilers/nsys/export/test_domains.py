"""How NVTX domains name their ranges."""

from __future__ import annotations

from pathlib import Path

from support.exports import (
    Domain,
    Range,
    execute,
    write_export,
)

from perfgate.profilers.nsys.export.timeline import read_timeline


def test_ranges_of_a_named_domain_bear_its_name(path: Path) -> None:
    timeline = read_timeline(
        write_export(
            path,
            Domain("NCCL", 1),
            Domain("NCCL again", 1, start=5),
            Domain("other", 1, process=600),
            Range("allReduce", 10, 20, domain=1),
            Range("a:b", 20, 30),
            Range("allReduce", 30, 40, domain=1, process=600),
            Range("lost", 40, 50, domain=9),
            Range("none", 50, 60, domain=None),
        )
    )
    assert list(timeline.ranges.name) == [
        "NCCL:allReduce",
        "a:b",
        "other:allReduce",
        "lost",
        "none",
    ]


def test_ranges_of_a_domain_that_several_threads_created_are_repeated_in_the_report(
    path: Path,
) -> None:
    write_export(
        path,
        Domain("one", 1),
        Domain("one", 1, start=1),
        Domain("one", 1, start=2),
        Domain("one", 1, start=3),
        Domain("one", 1, process=600, start=4),
        Range("a", 10, 20, domain=1),
        Range("b", 20, 30, domain=1),
        Range("step", 30, 40),
        Range("none", 30, 40, domain=None),
        Range("c", 30, 40, domain=1, process=600),
    )
    assert read_timeline(path).ranges_repeated == 0
    execute(
        path,
        "UPDATE NVTX_EVENTS SET globalTid = globalTid + start WHERE eventType = 75 AND start IN (2, 3)",
    )
    assert read_timeline(path).ranges_repeated == 2 * 2
    execute(path, "DELETE FROM NVTX_EVENTS WHERE eventType = 59")
    assert read_timeline(path).ranges_repeated == 0


def test_a_domain_may_be_named_by_a_registered_string(path: Path) -> None:
    write_export(
        path,
        Domain("?", 1),
        Range("allReduce", 10, 20, domain=1),
        Range("NCCL", 20, 30, registered=True),
    )
    execute(path, "UPDATE NVTX_EVENTS SET text = NULL, textId = 1 WHERE eventType = 75")
    assert list(read_timeline(path).ranges.name) == ["NCCL:allReduce", "NCCL"]
