"""`perfgate trace`: typical steps of what was kept, or a whole capture, for Perfetto."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from support import records
from support.project import Project

CAPTURE = Path(__file__).parents[1] / "golden" / "data" / "mlp-h200-nsys2024.2.3.sqlite.xz"


def events(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["traceEvents"]
    return found


def test_a_whole_capture_has_every_range_call_and_operation(here: Project) -> None:
    (here.root / "mlp.sqlite").write_bytes(lzma.decompress(CAPTURE.read_bytes()))
    assert here.perfgate("trace", "out.json", "mlp.sqlite").status == 0
    found = events(here.root / "out.json")
    titles = [event["args"]["name"] for event in found if event["name"] == "thread_name"]
    assert titles == [
        "thread 548: ranges",
        "thread 548: CUDA calls",
        "thread 576: CUDA calls",
        "GPU 0 stream 7",
    ]
    slices = [event for event in found if event["ph"] == "X"]
    assert min(event["ts"] for event in slices) == 0
    counted = [sum(event["tid"] == tid for event in slices) for tid in (1, 2, 3, 4)]
    assert counted == [120, 442, 1360, 1140]


def test_of_kept_results_without_captures_it_is_empty_and_of_none_it_is_refused(
    here: Project,
) -> None:
    assert here.perfgate("trace", "out.json").status == 20
    here.keep(records.result(of=here.declared()))
    assert here.perfgate("trace", "out.json", "loop").status == 0
    assert events(here.root / "out.json") == []
    assert here.perfgate("trace", "pyproject.toml/out.json").status == 23


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("trace", "mine.sqlite"), 2),
        (("trace", "mine.nsys-rep", "loop"), 2),
        (("page", "mine.sqlite"), 2),
        (("trace", "loop"), 2),
        (("trace", "baselines/loop.json"), 2),
        (("trace", "out.json", "mine.sqlite", "mine.sqlite"), 2),
        (("trace", "out.json", "gone.sqlite"), 14),
    ],
)
def test_a_capture_is_read_and_never_written_over(
    here: Project, words: tuple[str, ...], status: int
) -> None:
    here.keep(records.result(of=here.declared()))
    held = [here.write(name, "a capture") for name in ("mine.sqlite", "mine.nsys-rep")]
    assert here.perfgate(*words).status == status
    assert [path.read_text() for path in held] == ["a capture", "a capture"]
    assert not any((here.root / name).exists() for name in ("out.json", "loop"))


def test_a_gate_writes_one_where_it_is_asked_to(here: Project) -> None:
    here.measures(*records.runs())
    assert here.pytest("--perfgate", "--perfgate-trace=out/trace.json").status == 1
    assert events(here.root / "out" / "trace.json") == []
