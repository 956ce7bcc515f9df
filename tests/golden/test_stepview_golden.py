"""The typical step of recorded captures: few bars show the same sums as all of them."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from perfgate.metrics.stepview import step_view, typical_step
from perfgate.model.note import quoted
from perfgate.model.pagedata import StepView
from perfgate.profilers.nsys.export.timeline import read_timeline

CAPTURES = {
    "mlp-h200-nsys2024.2.3": "step",
    "graph-by-graph-h200-nsys2025.3": r"Batch \d+",
    "graph-by-node-h200-nsys2025.3": r"Batch \d+",
    "driver-only-h200-nsys2025.3": r"step \d+",
    "two-gpus-h200-nsys2025.3": r"Step \d+ Start",
    "two-ranks-h200-nsys2025.3": r"step \d+",
}


def seen(recorded: Path, name: str, tmp_path: Path, most_bars: int = 2000) -> StepView:
    """The typical step as perfgate shows it."""
    export = tmp_path / f"{name}.sqlite"
    export.write_bytes(lzma.decompress((recorded / f"{name}.sqlite.xz").read_bytes()))
    place = typical_step(read_timeline(export), step=CAPTURES[name], is_pattern=True)
    source = f"kept/{name}.sqlite"
    return step_view(place, label=quoted(name), source=source, most_bars=most_bars)


def lanes_of(view: StepView) -> dict[tuple[str, str], tuple[int, int]]:
    """Of each lane: how many its bars stand for, and how long these lasted together, ns."""
    return {
        (lane.title, lane.kind): (
            sum(bar.count for bar in lane.bars),
            sum(
                round((bar.length_us if bar.busy_us is None else bar.busy_us) * 1e3)
                for bar in lane.bars
            ),
        )
        for lane in view.lanes
    }


@pytest.mark.parametrize("name", CAPTURES)
def test_few_bars_show_the_same_sums(recorded: Path, tmp_path: Path, name: str) -> None:
    whole = seen(recorded, name, tmp_path)
    assert whole.operations == whole.drawn == sum(count for count, _ in lanes_of(whole).values())
    most = max(len(whole.lanes), whole.operations // 2)
    view = seen(recorded, name, tmp_path, most)
    assert lanes_of(view) == lanes_of(whole)
    assert view.operations == whole.operations
    assert view.drawn == sum(len(lane.bars) for lane in view.lanes) <= most


def test_the_whole_view_of_one_small_capture(recorded: Path, tmp_path: Path) -> None:
    name = "driver-only-h200-nsys2025.3"
    view = seen(recorded, name, tmp_path)
    lanes = [
        (lane.title, [(bar.start_us, round(bar.length_us, 3), bar.name) for bar in lane.bars])
        for lane in view.lanes
    ]
    assert lanes == [
        ("CPU", [(11.401, 399.842, "step 9")]),
        ("GPU 0 stream 7", [(304.023, 101.6, "spin")]),
        (
            "GPU 0 stream 7 copies",
            [(80.983, 214.432, "CUDA memcpy Host-to-Device, pageable, 4194304 bytes")],
        ),
        ("GPU 0 idle", [(0, 80.983, "idle"), (295.415, 8.608, "idle"), (405.623, 5.62, "idle")]),
    ]
    assert (view.label, view.source) == (quoted(name), f"kept/{name}.sqlite")
    assert (view.length_us, view.operations, view.drawn, view.pixel_us) == (411.243, 6, 6, 0)
