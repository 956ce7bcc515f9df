"""Files that perfgate wrote at format 1, of a real gate without a GPU, and what becomes of them at
format 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from perfgate.model.document_text import document_text, read_document
from perfgate.model.errors import BaselineUnreadable
from perfgate.store import Store, baseline_text
from perfgate.store.sealed import seal_of

pytestmark = pytest.mark.behaviour
DATA: Final = Path(__file__).parent / "data" / "format-1"


def text_of(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def content_of(text: str) -> dict[str, object]:
    content = json.loads(text)
    assert isinstance(content, dict)
    return content


def kept_baseline(root: Path, text: str) -> Store:
    folder = root / "baselines/no-gpu"
    folder.mkdir(parents=True)
    (folder / "loop.json").write_text(text, encoding="utf-8")
    return Store(root, "baselines")


def test_a_baseline_of_format_1_is_read_and_written_as_format_2(tmp_path: Path) -> None:
    old = content_of(text_of("baseline.json"))
    baseline = kept_baseline(tmp_path, text_of("baseline.json")).baselines.load("no-gpu", "loop")
    assert baseline is not None
    new = content_of(baseline_text(baseline))
    assert (old["format"], new["format"]) == (1, 2)
    assert {
        key: new[key]
        for key in old
        if key not in ("format", "seal", "occasions", "blessing", "anchor")
    } == {
        key: value
        for key, value in old.items()
        if key not in ("format", "seal", "occasions", "blessing", "anchor")
    }
    old_runs = [
        run
        for occasion in json.loads(text_of("baseline.json"))["occasions"]
        for run in occasion["runs"]
    ]
    assert [run.values for run in baseline.runs] == [run["values"] for run in old_runs]
    assert {run.form for run in baseline.runs} == {None}
    assert (baseline.held, baseline.step_value) == ({}, "median")
    assert baseline.occasions[0].environment is None


def test_a_baseline_of_format_1_that_was_edited_is_still_refused(tmp_path: Path) -> None:
    store = kept_baseline(
        tmp_path,
        text_of("baseline.json").replace('"step_ms"', '"step_ms" ', 1).replace("10.", "9."),
    )
    with pytest.raises(BaselineUnreadable):
        store.baselines.load("no-gpu", "loop")


def test_a_commit_that_is_no_whole_sha_is_refused_however_it_is_sealed(tmp_path: Path) -> None:
    content = content_of(text_of("baseline.json"))
    del content["seal"]
    content["occasions"][0]["commit"]["sha"] = "HEAD"  # type: ignore[index]
    store = kept_baseline(tmp_path, json.dumps(content | {"seal": seal_of(content)}))
    with pytest.raises(BaselineUnreadable):
        store.baselines.load("no-gpu", "loop")


def test_a_result_of_format_1_is_read(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(text_of("result.json"), encoding="utf-8")
    result = Store(tmp_path, "baselines").results.load(tmp_path)
    old = content_of(text_of("result.json"))
    assert (old["format"], result.format) == (1, 2)
    assert len(result.runs) == 5
    assert result.environment is None


def test_a_document_of_format_1_is_read() -> None:
    document = read_document(text_of("document.json"))
    assert content_of(document_text(document))["format"] == 2
    assert [one.verdict.outcome for one in document.workloads] == ["NO_BASELINE"]
    assert [run.form for run in document.workloads[0].runs] == [None] * 5
