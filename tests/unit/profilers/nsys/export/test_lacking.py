"""What a capture says that it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.exports import Call, Event, Kernel, Range, Row, write_export

from perfgate.model.note import Note, note
from perfgate.profilers.nsys.export.timeline import read_timeline

ALL = (Kernel("k", 0, 1), Call("c", 0, 1), Range("step", 0, 9))
OPERATIONS = ("kernels", "copies", "memsets", "graphs")
DESTROYED = "NVTX function nvtxDomainDestroy was called with wrong domain ID argument"
POPPED = "NVTX function nvtxDomainRangePop was called with wrong domain ID argument"


def said(*texts: str, severity: int = 2) -> list[Row]:
    return [Row("DIAGNOSTIC_EVENT", severity=severity, text=f"{text}.") for text in texts]


def warned(lacks: Note, *texts: str) -> Note:
    quoted = tuple(note("nsys-said", text=text) for text in texts)
    return note("nsys-warned", lacks=lacks, warnings=quoted)


def lacking(path: Path, *rows: Event | Row) -> dict[str, Note]:
    return dict(read_timeline(write_export(path, *rows)).missing)


def test_a_capture_without_cuda_says_so_in_the_words_of_nsys(path: Path) -> None:
    text = "No CUDA events collected. Does the process use CUDA?"
    rows: list[Event | Row] = [Range("step", 0, 1), *said("CUDA is fine", severity=1), *said(text)]
    why = warned(note("no-cuda-events"), text)
    assert lacking(path, *rows) == dict.fromkeys((*OPERATIONS, "calls"), why)


def test_calls_without_gpu_operations(path: Path) -> None:
    why = note("no-gpu-operations", calls=1)
    rows = (Range("step", 0, 1), Call("cudaLaunchKernel", 0, 1))
    assert lacking(path, *rows) == dict.fromkeys(OPERATIONS, why)


def test_gpu_operations_without_calls_and_ranges(path: Path) -> None:
    """A warning about another NVTX function is no reason for missing ranges."""
    assert lacking(path, Kernel("k", 0, 1), *said(DESTROYED, POPPED)) == {
        "calls": note("no-cuda-calls"),
        "ranges": warned(note("no-nvtx-ranges"), POPPED),
    }


@pytest.mark.parametrize(
    "text",
    [
        "CUPTI dropped 12 records. Some CUPTI events might be missing",
        "Couldn't allocate CUPTI buffers 3 times.Some CUPTI events might be missing",
        (
            "Could not parse 7 CUPTI activity records. Please try updating the CUDA driver or use "
            "more recent profiler version"
        ),
    ],
)
def test_what_nsys_says_that_it_lost(path: Path, text: str) -> None:
    lost = note("records-lost", warnings=(note("nsys-said", text=text),))
    assert lacking(path, *ALL, *said(text, text, severity=1)) == {"records": lost}


@pytest.mark.parametrize(
    "text",
    [
        "Not all CUDA events might have been collected",
        "Number of CUPTI events produced: \t2969, CUPTI buffers: 50",
        "Number of incomplete CUPTI events dropped: 2. Incomplete events appear when GPU",
    ],
)
def test_what_nsys_says_of_good_captures_too_is_no_loss(path: Path, text: str) -> None:
    assert lacking(path, *ALL, *said(text)) == {}
