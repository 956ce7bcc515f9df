"""Recorded gates: what each rule has of them, what is counted, and how it is shown."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.decision import measured as measuring
from benchmarks.decision.measured import (
    OWN,
    Found,
    Summary,
    judge_recording,
    load,
    summarise,
)
from benchmarks.decision.results import load as load_results
from benchmarks.decision.table import markdown

FOLDER = Path(measuring.__file__).parent


def test_the_committed_numbers_of_real_gates_are_of_their_recording_and_the_judge_of_now() -> None:
    recording = load(FOLDER / "h200.json")
    committed = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))["measured"]
    found = [Found.model_validate(one) for one in committed["found"]]
    shown = [Summary.model_validate(one) for one in committed["summaries"]]
    own = judge_recording(recording, ())
    assert ([one for one in found if one.rule in OWN], shown) == (own, summarise(recording)), (
        "python -m benchmarks.decision measured"
    )
    assert committed["machine"] == recording.machine
    assert tuple(committed["notes"]) == recording.notes


def test_the_committed_table_is_of_the_committed_numbers() -> None:
    made = markdown(load_results(FOLDER / "results.json"))
    assert (FOLDER / "RESULTS.md").read_text(encoding="utf-8") == made, (
        "python -m benchmarks.decision render"
    )
