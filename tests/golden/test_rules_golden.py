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
from perfgate.model.reports import Finding, Findings, PlacedFinding, Placing, RuleName
from perfgate.model.sample import ProcessSample
from perfgate.model.timeline import Timeline
from perfgate.profilers.nsys.export.timeline import read_timeline
from perfgate.profilers.nsys.layouts import OLD_NAMES
from perfgate.profilers.nsys.reports import parse_rule

VERSIONS = ("2022.4.2", "2023.4.4", "2024.2.3")


def recorded_rows(folder: Path, rule: RuleName) -> tuple[Finding, ...]:
    """One rule's rows, under the name that this version gave it; a rule without a file found
    nothing."""
    file = folder / f"{OLD_NAMES[rule] if folder.name.endswith('2022.4.2') else rule}.csv"
    return (
        parse_rule(file.read_bytes().decode(), rule=rule, source=file.name)
        if file.is_file()
        else ()
    )


def findings_of(recorded: Path, name: str) -> Findings:
    folder = recorded / "rules" / name
    assert folder.is_dir()
    return Findings(rows={rule: recorded_rows(folder, rule) for rule in RuleName}, skipped={})


def timeline_of(recorded: Path, name: str, tmp_path: Path) -> Timeline:
    export = tmp_path / f"{name}.sqlite"
    export.write_bytes(lzma.decompress((recorded / f"{name}.sqlite.xz").read_bytes()))
    return read_timeline(export)


def gaps_of(sample: ProcessSample) -> dict[str, float]:
    """gap_ms by range."""
    return {
        row.name: row.values[Metric.GAP_MS]
        for row in sample.ranges
        if row.values.get(Metric.GAP_MS)
    }


def rows_of(placing: Placing, rule: RuleName) -> list[PlacedFinding]:
    (process,) = placing.processes
    return [row for row in process.rows if row.rule is rule]


# --- the CSVs
# --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_findings_of_every_version_are_the_same(recorded: Path, version: str) -> None:
    found = findings_of(recorded, f"mlp-{version}")
    assert {
        rule: len(rows) for rule, rows in found.rows.items() if rule is not RuleName.GPU_GAPS
    } == {
        RuleName.CUDA_MEMCPY_ASYNC: 20,
        RuleName.CUDA_MEMCPY_SYNC: 0,
        RuleName.CUDA_MEMSET_SYNC: 0,
        RuleName.CUDA_API_SYNC: 21,
        RuleName.GPU_TIME_UTIL: 7,
    }
    assert found.rows[RuleName.CUDA_MEMCPY_ASYNC][0] == Finding(
        rule=RuleName.CUDA_MEMCPY_ASYNC,
        start_ns=150_102_143,
        duration_ns=436_219,
        pid=548,
        device=0,
        api="cudaMemcpyAsync_v3020",
        bytes=8_388_608,
        source="Pageable",
        target="Device",
    )
    assert (
        sum(row.duration_ns for row in found.rows[RuleName.CUDA_MEMCPY_ASYNC]) == 8_406_075
    )  # all of h2d
    assert found.rows[RuleName.CUDA_API_SYNC][0] == Finding(
        rule=RuleName.CUDA_API_SYNC,
        start_ns=152_480_085,
        duration_ns=2_571_110,
        pid=548,
        tid=548,
        api="cudaDeviceSynchronize_v3020",
    )
    assert found.rows[RuleName.GPU_TIME_UTIL][0] == Finding(
        rule=RuleName.GPU_TIME_UTIL,
        start_ns=16_388_003,
        duration_ns=4_781_327,
        pid=548,
        device=0,
        in_use_percent=42.1,
    )
    long = [row for row in found.rows[RuleName.GPU_GAPS] if row.duration_ns > 1_000_000]
    assert len(long) == 19
    assert long[0] == Finding(
        rule=RuleName.GPU_GAPS, start_ns=16_559_223, duration_ns=2_634_815, pid=548, device=0
    )
    assert sum(row.duration_ns for row in long) == 45_133_391


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_says_the_same_row_by_row(recorded: Path, version: str) -> None:
    newest, this = findings_of(recorded, "mlp-2024.2.3"), findings_of(recorded, f"mlp-{version}")
    for rule in RuleName:
        rows = newest.rows[rule]
        if rule is RuleName.GPU_GAPS and version != "2024.2.3":
            rows = tuple(row for row in rows if row.duration_ns > 1_000_000)  # asked for with gap=1
        assert this.rows[rule] == rows


def test_the_columns_of_another_rule_are_not_known(recorded: Path) -> None:
    text = (recorded / "rules" / "mlp-2024.2.3" / "gpu_gaps.csv").read_text(encoding="utf-8")
    with pytest.raises(LayoutUnknown):
        parse_rule(text, rule=RuleName.CUDA_API_SYNC, source="gpu_gaps.csv")


# --- their places
# ----------------------------------------------------------------------------------------------------


def test_the_findings_of_an_eager_loop_by_range(recorded: Path, tmp_path: Path) -> None:
    timeline = timeline_of(recorded, "mlp-h200-nsys2024.2.3", tmp_path)
    (sample,) = measure(timeline, step="step", steps=20)
    placing = place(findings_of(recorded, "mlp-2024.2.3"), timeline, step="step", steps=20)
    (process,) = placing.processes
    assert (process.pid, process.steps) == (548, 20)
    assert rows_of(placing, RuleName.CUDA_MEMCPY_ASYNC) == [
        PlacedFinding(
            rule=RuleName.CUDA_MEMCPY_ASYNC,
            range="h2d",
            count=1.0,
            ms=8.406075 / 20,
            bytes=8_388_608.0,
            steps=20,
        )
    ]
    assert sample.values[Metric.PAGEABLE_COPIES] == 1.0
    (synchronised,) = rows_of(placing, RuleName.CUDA_API_SYNC)
    (theirs,) = sample.syncs
    assert (synchronised.range, synchronised.count, synchronised.steps) == (
        theirs.range,
        theirs.count,
        20,
    )
    assert synchronised.ms == pytest.approx(theirs.cpu_ms)


def test_all_gaps_of_a_capture_make_gap_ms_range_by_range(recorded: Path, tmp_path: Path) -> None:
    timeline = timeline_of(recorded, "mlp-h200-nsys2024.2.3", tmp_path)
    (sample,) = measure(timeline, step="step", steps=20)
    rows = rows_of(
        place(findings_of(recorded, "mlp-2024.2.3"), timeline, step="step", steps=20),
        RuleName.GPU_GAPS,
    )
    assert {row.range: row.ms for row in rows} == pytest.approx(gaps_of(sample))
    assert [(row.range, round(row.count * 18), row.steps) for row in rows] == [
        # One gap before each of what a range launches, and what the GPU waits for the CPU in the
        # others.
        ("data_load", 18, 18),
        ("h2d", 18, 18),
        ("forward", 180, 18),
        ("backward", 774, 18),
        ("step", 0, 0),
        ("optimizer", 36, 18),
    ]


def test_gaps_of_two_ranks_that_both_say_device_0_are_of_two_gpus(
    recorded: Path, tmp_path: Path
) -> None:
    timeline = timeline_of(recorded, "two-ranks-h200-nsys2025.3", tmp_path)
    found = findings_of(recorded, "two-ranks-2024.2.3")
    assert {row.device for row in found.rows[RuleName.GPU_GAPS]} == {0}
    samples = measure(timeline, step=r"step \d+", is_pattern=True, steps=20)
    placing = place(found, timeline, step=r"step \d+", is_pattern=True, steps=20)
    assert [process.pid for process in placing.processes] == [973, 974]
    for sample, process in zip(samples, placing.processes, strict=True):
        gaps = {row.range: row.ms for row in process.rows if row.rule is RuleName.GPU_GAPS}
        assert gaps == pytest.approx(gaps_of(sample))


def test_a_graph_traced_whole_is_no_gap_though_nsys_says_so(recorded: Path, tmp_path: Path) -> None:
    timeline = timeline_of(recorded, "graph-by-graph-h200-nsys2025.3", tmp_path)
    found = findings_of(recorded, "graph-by-graph-2024.2.3")
    (sample,) = measure(timeline, step=r"Batch \d+", is_pattern=True, steps=30)
    placing = place(found, timeline, step=r"Batch \d+", is_pattern=True, steps=30)
    # The last replay is followed by no operation that nsys counts: its 2784 ns of idle time are in
    # no gap.
    gaps = sum(row.ms for row in rows_of(placing, RuleName.GPU_GAPS))
    share = (sample.values[Metric.GAP_MS] - gaps) / sample.values[Metric.STEP_MS]
    assert share * sample.window_ms == pytest.approx(2784e-6)


def test_gaps_of_one_process_on_two_gpus_are_placed_on_each(recorded: Path, tmp_path: Path) -> None:
    timeline = timeline_of(recorded, "two-gpus-h200-nsys2025.3", tmp_path)
    (sample,) = measure(timeline, step=r"Step \d+ Start", is_pattern=True, steps=20)
    (process,) = place(
        findings_of(recorded, "two-gpus-2024.2.3"),
        timeline,
        step=r"Step \d+ Start",
        is_pattern=True,
        steps=20,
    ).processes
    typical_steps = sample.window_ms / sample.values[Metric.STEP_MS]
    assert [
        (row.rule, row.range, round(row.count * 18), round(row.ms * typical_steps * 1e6))
        for row in process.rows
    ] == [(RuleName.GPU_GAPS, "Step # Start", 178, 529_857)]
