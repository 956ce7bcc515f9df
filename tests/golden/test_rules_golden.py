"""nsys's expert rules as real versions wrote them, and where they lie in the steps of the captures
they are of."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from perfgate.metrics.measure import measure
from perfgate.metrics.placing import place
from perfgate.model.errors import LayoutUnknown
from perfgate.model.metric import Metric
from perfgate.model.reports import Finding, PlacedFindings, RuleName
from perfgate.model.timeline import Timeline
from perfgate.profilers.nsys.export.timeline import read_timeline
from perfgate.profilers.nsys.layouts import OLD_NAMES
from perfgate.profilers.nsys.reports import parse_rule

COPIES, SYNCS = RuleName.CUDA_MEMCPY_ASYNC, RuleName.CUDA_API_SYNC


def findings_of(recorded: Path, name: str) -> dict[RuleName, tuple[Finding, ...]]:
    """The rows of each rule, under the name that this version gave it; a rule without a file found
    nothing."""
    folder = recorded / "rules" / name
    assert folder.is_dir()
    found = {}
    for rule in RuleName:
        file = folder / f"{OLD_NAMES[rule] if name.endswith('2022.4.2') else rule}.csv"
        text = file.read_bytes().decode() if file.is_file() else ""
        found[rule] = parse_rule(text, rule=rule, source=file.name)
    return found


def timeline_of(recorded: Path, name: str, tmp_path: Path) -> Timeline:
    export = tmp_path / f"{name}.sqlite"
    export.write_bytes(lzma.decompress((recorded / f"{name}.sqlite.xz").read_bytes()))
    return read_timeline(export)


@pytest.mark.parametrize("version", ["2022.4.2", "2023.4.4", "2024.2.3"])
def test_findings_of_every_version_are_the_same(recorded: Path, version: str) -> None:
    found = findings_of(recorded, f"mlp-{version}")
    assert [len(rows) for rows in found.values()] == [20, 0, 0, 21]
    assert found == findings_of(recorded, "mlp-2024.2.3")
    assert found[COPIES][0] == Finding(
        rule=COPIES, start_ns=150_102_143, duration_ns=436_219, pid=548
    )
    assert sum(row.duration_ns for row in found[COPIES]) == 8_406_075  # all of h2d
    assert found[SYNCS][0] == Finding(
        rule=SYNCS, start_ns=152_480_085, duration_ns=2_571_110, pid=548
    )


def test_the_columns_of_another_rule_are_not_known(recorded: Path) -> None:
    text = (recorded / "rules" / "mlp-2024.2.3" / f"{SYNCS}.csv").read_text(encoding="utf-8")
    with pytest.raises(LayoutUnknown):
        parse_rule(text, rule=COPIES, source="copies.csv")


def test_the_findings_of_an_eager_loop_by_range(recorded: Path, tmp_path: Path) -> None:
    timeline = timeline_of(recorded, "mlp-h200-nsys2024.2.3", tmp_path)
    (sample,) = measure(timeline, step="step", steps=20)
    found = [row for rows in findings_of(recorded, "mlp-2024.2.3").values() for row in rows]
    placed = place(found, timeline, step="step", steps=20)
    (theirs,) = sample.syncs
    assert placed.keys() == {(COPIES, "h2d"), (SYNCS, theirs.range)}
    assert placed[COPIES, "h2d"] == PlacedFindings(count=1.0, ms=8.406075 / 20)
    assert placed[SYNCS, theirs.range].count == theirs.count
    assert placed[SYNCS, theirs.range].ms == pytest.approx(theirs.cpu_ms)
    assert sample.values[Metric.PAGEABLE_COPIES] == 1.0


def test_of_two_ranks_it_is_the_mean(recorded: Path, tmp_path: Path) -> None:
    timeline = timeline_of(recorded, "two-ranks-h200-nsys2025.3", tmp_path)
    found = findings_of(recorded, "two-ranks-2024.2.3")[SYNCS]
    placed = place(found, timeline, step=r"step \d+", is_pattern=True, steps=20)
    samples = measure(timeline, step=r"step \d+", is_pattern=True, steps=20)
    calls = [one for sample in samples for one in sample.syncs]
    waits = sum(one.count for one in calls if "Stream" in one.call or "Dev" in one.call)
    assert sum(row.count for row in placed.values()) == pytest.approx(waits / 2)
