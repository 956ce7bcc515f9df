"""What `perfgate show`, `compare` and `bless` show of records."""

from __future__ import annotations

from datetime import timedelta

from support import records
from syrupy.assertion import SnapshotAssertion

from perfgate.bless import bless as blessing
from perfgate.explain.sides import differences, side_of_result, side_of_samples
from perfgate.model.baseline import Anchor, Baseline, Spread, code_digest
from perfgate.model.metric import Metric
from perfgate.model.note import note, quoted
from perfgate.model.side import Side
from perfgate.render.records import (
    baseline_text,
    bless_text,
    comparison_text,
    occasion_text,
)

PATH = "baselines/nvidia-h200/mlp.json"


def old() -> Baseline:
    """Build a baseline of two occasions, calibrated, whose best step was better."""
    occasions = [
        [{Metric.STEP_MS: ms} for ms in (12.34, 12.31, 12.36)],
        [{Metric.STEP_MS: 12.4}] * 2,
    ]
    baseline = records.baseline(
        *occasions, anchor=Anchor(step_ms=11.9, at=records.NOON, commit=records.COMMIT)
    )
    spread = Spread(run_sd=0.004, occasion_sd=0.0031, runs=20, at=records.NOON)
    return baseline.model_copy(update={"calibration": {Metric.STEP_MS: spread}})


def new() -> Baseline:
    """Build what blessing a faster result makes of it."""
    faster = [records.run({Metric.STEP_MS: 12.1, Metric.GAP_MS: 1.6, Metric.SYNCS: 0})] * 5
    return blessing.bless(
        [records.result(measured=faster)],
        old(),
        reason="fused the loss",
        by="Bob",
        at=records.NOON + timedelta(days=2),
        commit=records.COMMIT,
        code_now=records.CODE,
    )


def test_baseline_at_80_columns(snapshot: SnapshotAssertion) -> None:
    assert baseline_text(old(), width=80, colour=False, path=PATH) == snapshot


def test_blessing_shows_what_changes() -> None:
    rows = blessing.differences(old(), new())
    told = bless_text(old(), new(), rows, width=80, colour=False, costs="what it costs", path=PATH)
    assert (
        told
        == """\
mlp: new baseline on NVIDIA H200
  reason      fused the loss
  replaces    blessed 2026-03-02 12:05 UTC by Ada <ada@example.org> at
              0123456789ab: first baseline

  metric             before     after  change
  ---------------  --------  --------  -----------
  step_ms             12.36     12.10  -2.1 %
  kernel_ms           9.100     9.100  0 %
  gap_ms              1.851     1.600  -2.0 pp
    gap_share        15.0 %    13.2 %
  h2d_ms              1.389     1.389  0 pp
    h2d_share        11.2 %    11.5 %
  h2d_exposed_ms     0.0421    0.0421  0 pp
  launches               46        46
  graph_launches          0         0
  h2d_copies              2         2
  h2d_bytes        38.54 MB  38.54 MB
  d2h_copies              1         1
  pageable_copies         0         0
  syncs                   1         0  -1 (-100 %)
  pp: percentage points of the step before

  anchor      best step ever blessed here 11.90 ms; this one is 1.7 % slower
  runs        what it costs
  file        baselines/nvidia-h200/mlp.json
"""
    )


RUN_URL = "https://github.com/ada/loops/actions/runs/4711"


def with_occasion() -> Baseline:
    """Build what one more occasion makes of the old one, whose first occasion has to make room."""
    at = records.NOON + timedelta(days=3)
    return blessing.add_occasion(
        [records.result(at=at, measured=records.runs(*[12.4] * 28), code=records.CODE)],
        old().model_copy(update={"code": code_digest(records.CODE)}),
        reason="the weekly occasion",
        by="perfgate",
        at=at + timedelta(minutes=5),
        commit=records.COMMIT,
        run_url=RUN_URL,
        runner="h200-a",
    )


def test_one_more_occasion_shows_what_it_changes() -> None:
    rows = blessing.differences(old(), with_occasion())[:2]
    told = occasion_text(
        old(), with_occasion(), rows, width=100, colour=False, costs="what it costs", path=PATH
    )
    lines = told.splitlines()
    assert f"  CI run      {RUN_URL} on h200-a" in lines
    assert "  holds       before 5 runs over 2 occasions, after 30 runs over 2 occasions" in lines
    assert "  left out    2026-03-02 12:00 UTC: 3 runs, the oldest, to make room" in lines
    assert "  step_ms     12.36  12.40  +0.32 %" in lines
    assert "  runs        what it costs" in lines


def test_comparison_shows_medians() -> None:
    slow = records.process(
        {**records.VALUES, Metric.STEP_MS: 14.0, Metric.GAP_MS: 3.5},
    )
    a = side_of_samples("before.sqlite", [records.process()])
    b = side_of_samples("after.sqlite", [slow])
    assert (
        comparison_text(a, b, differences(a, b), width=80, colour=False)
        == """\
a: before.sqlite (1 run)
b: after.sqlite (1 run)

  metric                  a         b  change
  ---------------  --------  --------  --------
  step_ms             12.34     14.00  +13.5 %
  kernel_ms           9.100     9.100  0 %
  gap_ms              1.851     3.500  +13.4 pp
    gap_share        15.0 %    25.0 %
  h2d_ms              1.389     1.389  0 pp
    h2d_share        11.3 %     9.9 %
  h2d_exposed_ms     0.0421    0.0421  0 pp
  launches               46        46
  graph_launches          0         0
  h2d_copies              2         2
  h2d_bytes        38.54 MB  38.54 MB
  d2h_copies              1         1
  pageable_copies         0         0
  syncs                   1         1
  pp: percentage points of the step of a
"""
    )


def test_baseline_and_result_of_unlike_machines_are_compared_with_a_warning() -> None:
    a = Side.of_baseline(PATH, old())
    b = side_of_result(
        "kept", records.result(on=records.machine("NVIDIA H100", "NVIDIA H100", nsys="2025.1.1"))
    )
    told = comparison_text(a, b, differences(a, b), width=120, colour=False).splitlines()
    assert told[:4] == [
        "a: baselines/nvidia-h200/mlp.json (5 runs)",
        "b: kept (5 runs)",
        f"  not alike   {PATH} is of NVIDIA H200, kept of 2 x NVIDIA H100",
        f"  not alike   {PATH} was captured by nsys 2024.2.3, kept by nsys 2025.1.1",
    ]


def test_comparison_says_what_a_side_lacks_and_what_cannot_be_compared() -> None:
    absent = {Metric.SYNCS: "no CUDA calls were recorded"}
    values = dict(records.VALUES)
    del values[Metric.SYNCS]
    a = side_of_samples("a.sqlite", [records.process(values, absent=absent)])
    b = side_of_samples("b.sqlite", [records.process()])
    step, *others = differences(a, b)
    rows = (
        step.model_copy(update={"now": 13.0, "change": None, "note": note("not-comparable")}),
        *others,
    )
    told = comparison_text(
        a, b, rows, width=80, colour=False, warnings=(quoted("a was traced unlike b"),)
    ).splitlines()
    assert told[:5] == [
        "a: a.sqlite (1 run)",
        "  unmeasured  syncs: no CUDA calls were recorded",
        "b: b.sqlite (1 run)",
        "  not alike   a was traced unlike b",
        "",
    ]
    assert "  step_ms             12.34     13.00  not comparable" in told
    assert "  syncs                             1  not measured in a" in told
    assert "  syncs                   1            not measured in b" in (
        comparison_text(b, a, differences(b, a), width=80, colour=False).splitlines()
    )


def test_hostile_text_in_a_baseline_is_inert() -> None:
    hostile = records.baseline(name="[red]\x1b[2J", reason="a\x1b[2J\n[bold]b")
    told = baseline_text(hostile, width=80, colour=False)
    assert "\x1b" not in told
    assert told.startswith("[red]\\x1b[2J on NVIDIA H200\n")
    assert "  reason      a\\x1b[2J\n              [bold]b\n" in told
