"""Kept results: whole or refused, the oldest forgotten."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support import records
from support.refused import refused
from support.stored import SLUG
from syrupy.assertion import SnapshotAssertion

from perfgate.model.baseline import Result
from perfgate.model.errors import ResultMissing, ResultUnreadable
from perfgate.model.note import note
from perfgate.store import Store


def kept(store: Store, result: Result, *, slug: str = SLUG) -> Path:
    folder = store.results.new_folder(result.workload.id, slug, at=result.measured_at)
    (folder / "run-1").mkdir()
    (folder / "run-1" / "capture.sqlite").write_text("big")
    store.results.save(result, folder)
    return folder


def test_a_fresh_folder_bears_the_time_in_utc_and_git_ignores_it(
    store: Store, tmp_path: Path
) -> None:
    at = datetime.fromisoformat("2026-03-02T13:00:00.5+01:00")
    folder = store.results.new_folder("a/b", SLUG, at=at)
    assert folder.parent == tmp_path / ".perfgate" / "results" / SLUG / "a%2Fb"
    assert folder.name.startswith("20260302T120000.500000Z-")
    assert folder.is_dir()
    assert folder != store.results.new_folder("a/b", SLUG, at=at)
    assert (tmp_path / ".perfgate" / ".gitignore").read_text() == "*\n"


def test_saved_result_is_loaded_again_to_the_last_digit(store: Store) -> None:
    result = records.result(measured=records.runs(12.345678901234))
    folder = kept(store, result)
    assert store.results.load(folder) == result
    assert store.results.load(folder / "result.json") == result


def test_latest_result_is_the_newest_over_all_machines(store: Store) -> None:
    old, new = records.result(), records.result(at=records.NOON + timedelta(hours=1))
    kept(store, new, slug="nvidia-h100")
    kept(store, old)
    latest = store.results.latest("mlp")
    assert latest is not None
    assert latest.result == new
    assert store.results.latest("other") is None


def test_folder_without_a_result_is_no_result(store: Store) -> None:
    store.results.new_folder("mlp", SLUG, at=records.NOON)
    assert store.results.latest("mlp") is None
    assert store.results.workloads() == ()


def test_results_come_newest_first_and_the_broken_are_counted(store: Store, tmp_path: Path) -> None:
    hours = [records.result(at=records.NOON + timedelta(hours=n)) for n in range(3)]
    folders = [kept(store, result) for result in hours]
    (folders[1] / "result.json").write_text('{"format": 1, "work')
    found, unreadable = store.results.kept("mlp", SLUG)
    assert ([one.folder for one in found], unreadable) == ([folders[2], folders[0]], 1)
    (folders[2] / "result.json").write_text("")
    with pytest.raises(ResultUnreadable):  # an older one is not taken in its place
        store.results.latest("mlp")


LONG = json.loads(records.result().model_dump_json())
LONG["runs"][2]["wall_s"] = "long"


@pytest.mark.parametrize(
    ("content", "code", "fields"),
    [
        ("", "result-broken", {"why": note("json-empty")}),
        (
            json.dumps(LONG),
            "result-does-not-fit",
            {
                "why": "runs[2].wall_s: input should be a valid number, "
                "unable to parse string as a number"
            },
        ),
    ],
    ids=["empty", "a text for a number"],
)
def test_what_is_no_whole_result_is_refused(
    store: Store,
    tmp_path: Path,
    content: str,
    code: str,
    fields: dict[str, object],
    snapshot: SnapshotAssertion,
) -> None:
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(ResultUnreadable) as caught:
        store.results.load(tmp_path)
    assert (caught.value.code, caught.value.fields) == (code, {"path": "result.json", **fields})
    assert str(caught.value) == snapshot


def test_a_folder_in_its_place_is_no_result_and_without_one_there_is_none(
    store: Store, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    (tmp_path / "result.json").mkdir()
    with refused(ResultUnreadable, "result-not-readable"):
        store.results.load(tmp_path)
    with pytest.raises(ResultMissing) as missing:
        store.results.load(tmp_path / "nowhere.json")
    assert str(missing.value) == snapshot


def test_20_results_stay_and_the_captures_of_2(store: Store) -> None:
    folders = [
        kept(store, records.result(at=records.NOON + timedelta(minutes=n))) for n in range(23)
    ]
    assert [folder.exists() for folder in folders] == [False] * 3 + [True] * 20
    assert [(folder / "run-1").exists() for folder in folders] == [False] * 21 + [True] * 2
    assert len(store.results.kept("mlp", SLUG)[0]) == 20


def test_newest_saved_stays_even_if_the_clock_went_back(store: Store) -> None:
    for n in range(20):
        kept(store, records.result(at=records.NOON + timedelta(minutes=n)))
    folder = kept(store, records.result(at=records.NOON - timedelta(days=1)))
    assert (folder / "run-1" / "capture.sqlite").exists()


def test_what_an_interrupted_gate_left_goes_after_a_day(store: Store) -> None:
    left = store.results.new_folder("mlp", SLUG, at=records.NOON)
    foreign = left.parent / "my-notes"
    foreign.mkdir()
    kept(store, records.result(at=records.NOON + timedelta(hours=23)))
    assert left.exists()
    kept(store, records.result(at=records.NOON + timedelta(hours=25)))
    assert not left.exists()
    assert foreign.exists()


def test_links_are_not_followed_when_pruning(store: Store, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("x")
    folder = kept(store, records.result())
    (folder / "link").symlink_to(elsewhere)
    for n in range(1, 4):
        kept(store, records.result(at=records.NOON + timedelta(minutes=n)))
    assert not (folder / "link").exists()
    assert (elsewhere / "precious").read_text() == "x"


def test_kept_workloads_are_named_even_where_a_name_was_cut(store: Store) -> None:
    long = "x" * 300
    kept(store, records.result(of=records.workload(long)))
    kept(store, records.result(of=records.workload("a/b")), slug="nvidia-h100")
    assert store.results.workloads() == ("a/b", long)
