"""What `perfgate show`, `compare` and `bless` show of records."""

from __future__ import annotations

from datetime import timedelta

from support import records
from syrupy.assertion import SnapshotAssertion

from perfgate.bless import bless as blessing
from perfgate.explain.sides import side_of_result
from perfgate.model.baseline import Anchor, Baseline, Blessing, Spread, code_digest
from perfgate.model.comparison import Side
from perfgate.model.metric import Metric
from perfgate.model.note import quoted
from perfgate.model.settings import Settings
from perfgate.render.page import Page
from perfgate.render.records import baseline_text, bless_text, unlike

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
        Blessing(
            by="Bob",
            at=records.NOON + timedelta(days=2),
            reason="fused the loss",
            commit=records.COMMIT,
        ),
        code_now=records.CODE,
        settings=Settings(),
    )


def test_baseline_at_80_columns(snapshot: SnapshotAssertion) -> None:
    assert baseline_text(Page(width=80, colour=False), old(), path=PATH) == snapshot


NOTES = {"runs": [quoted("what it costs")], "note": [quoted("what to know")]}


def test_blessing_shows_what_changes(snapshot: SnapshotAssertion) -> None:
    rows = blessing.differences(old(), new())
    page = Page(width=80, colour=False)
    text = bless_text(page, old(), new(), rows, notes=NOTES, path=PATH)
    assert text == snapshot


RUN_URL = "https://github.com/ada/loops/actions/runs/4711"


def with_occasion() -> Baseline:
    """Build what one more occasion makes of the old one, whose first occasion has to make room."""
    at = records.NOON + timedelta(days=3)
    return blessing.add_occasion(
        records.result(at=at, measured=records.runs(*[12.4] * 28), code=records.CODE),
        old().model_copy(update={"code": code_digest(records.CODE)}),
        Blessing(
            by="perfgate",
            at=at + timedelta(minutes=5),
            reason="the weekly occasion",
            commit=records.COMMIT,
            run_url=RUN_URL,
            runner="h200-a",
        ),
    )


def test_one_more_occasion_shows_what_it_changes(snapshot: SnapshotAssertion) -> None:
    rows = blessing.differences(old(), with_occasion())[:2]
    page = Page(width=100, colour=False)
    text = bless_text(page, old(), with_occasion(), rows, notes=NOTES, path=PATH)
    assert text == snapshot


def test_baseline_and_result_of_unlike_machines_are_compared_with_a_warning() -> None:
    a = Side.of_baseline(PATH, old())
    other = records.machine("NVIDIA H100", "NVIDIA H100", nsys="2025.1.1")
    b = side_of_result("kept", records.result(on=other))
    assert unlike(a, b) == [
        f"GPU of {PATH}: NVIDIA H200; of kept: 2 x NVIDIA H100",
        f"nsys of {PATH}: 2024.2.3; of kept: 2025.1.1",
    ]


def test_hostile_text_in_a_baseline_stays_text() -> None:
    hostile = records.baseline(name="[red]\x1b[2J", reason="a\x1b[2J\n[bold]b")
    text = baseline_text(Page(width=80, colour=False), hostile)
    assert "\x1b" not in text
    assert text.startswith("[red]\\x1b[2J on NVIDIA H200\n")
    assert "  reason      a\\x1b[2J\n              [bold]b\n" in text
