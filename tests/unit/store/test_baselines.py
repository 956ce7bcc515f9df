"""The folder of the baselines: listed with their errors, never silently overwritten."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import records
from support.refused import refused
from support.stored import SLUG, written
from syrupy.assertion import SnapshotAssertion

from perfgate.model.baseline import Baseline
from perfgate.model.errors import BaselineMissing, BaselineUnreadable, StoreFailed
from perfgate.model.note import Note
from perfgate.store import ListedBaseline, Store, baseline_text


def error_of(listed: ListedBaseline) -> BaselineUnreadable:
    assert isinstance(listed.found, BaselineUnreadable)
    return listed.found


def code_of(listed: ListedBaseline) -> str:
    return error_of(listed).code


def test_a_baseline_under_any_name_can_be_looked_at(
    store: Store, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    theirs = tmp_path / "theirs.json"
    with pytest.raises(BaselineMissing) as missing:
        store.baselines.read(theirs)
    assert missing.value.code == "baseline-not-there"
    assert str(missing.value) == snapshot
    theirs.write_text("")
    with pytest.raises(BaselineUnreadable) as broken:
        store.baselines.read(theirs)
    assert broken.value.code == "baseline-broken"
    assert str(broken.value) == snapshot
    theirs.write_text(baseline_text(records.baseline(name="resnet")))
    assert store.baselines.read(theirs) == records.baseline(name="resnet")


def test_no_broken_baseline_is_overwritten(store: Store) -> None:
    path = written(store, "<<<<<<< HEAD\n")
    with pytest.raises(BaselineUnreadable):
        store.baselines.save(records.baseline(), replacing=None)
    assert path.read_text() == "<<<<<<< HEAD\n"


def test_only_the_baseline_that_was_compared_with_is_replaced(
    store: Store, snapshot: SnapshotAssertion
) -> None:
    old, theirs, mine = (records.baseline(reason=reason) for reason in ("old", "theirs", "mine"))

    def refused(replacing: Baseline | None) -> str:
        with pytest.raises(StoreFailed) as caught:
            store.baselines.save(mine, replacing=replacing)
        assert caught.value.code == "baseline-changed-meanwhile"
        assert str(caught.value) == snapshot
        what = caught.value.fields["what"]
        assert isinstance(what, Note)
        return what.code

    assert refused(old) == "baseline-was-deleted"
    store.baselines.save(old, replacing=None)
    assert refused(None) == "baseline-was-written"
    path = store.baselines.save(theirs, replacing=old)
    assert refused(old) == "baseline-was-written"
    assert store.baselines.load(SLUG, "mlp") == theirs
    assert [file.name for file in path.parent.iterdir()] == ["mlp.json"]


def test_of_eight_that_bless_at_once_one_wins(store: Store) -> None:
    old = records.baseline()
    store.baselines.save(old, replacing=None)
    news = [records.baseline(reason=f"blessed by {n}") for n in range(8)]
    start = threading.Barrier(8)

    def save(new: Baseline) -> bool:
        start.wait()
        try:
            store.baselines.save(new, replacing=old)
        except StoreFailed:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        saved = list(pool.map(save, news))
    assert sum(saved) == 1
    assert store.baselines.load(SLUG, "mlp") == news[saved.index(True)]


def test_file_in_the_place_of_the_baselines_folder_is_reported(
    store: Store, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    (tmp_path / "baselines").write_text("")
    with pytest.raises(StoreFailed) as caught:
        store.baselines.save(records.baseline(), replacing=None)
    assert caught.value.code == "disk-failed"
    assert str(caught.value) == snapshot
    with refused(BaselineUnreadable, "baseline-not-readable"):
        store.baselines.listed()


def test_listing_shows_the_unreadable_with_their_error(store: Store) -> None:
    good = records.baseline(name="good[4-64]")
    store.baselines.save(good, replacing=None)
    written(store, "")
    (store.baselines.path(SLUG, "mlp").parent / "notes.txt").write_text("not listed")
    (store.baselines.path(SLUG, "mlp").parent / ".mlp.json").write_text("not listed")
    listed = store.baselines.listed()
    assert [(entry.slug, entry.workload) for entry in listed] == [
        (SLUG, "good[4-64]"),
        (SLUG, "mlp"),
    ]
    assert listed[0].found == good
    assert code_of(listed[1]) == "baseline-broken"


def test_a_pipe_in_a_baselines_place_is_not_waited_for(store: Store) -> None:
    path = store.baselines.path(SLUG, "mlp")
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    (entry,) = store.baselines.listed()
    assert code_of(entry) == "baseline-not-readable"


def test_listing_of_one_machine_leaves_out_the_others(store: Store) -> None:
    store.baselines.save(records.baseline(), replacing=None)
    store.baselines.save(records.baseline(on=records.machine("NVIDIA H100")), replacing=None)
    assert [entry.slug for entry in store.baselines.listed("nvidia-h100")] == ["nvidia-h100"]
    assert [entry.slug for entry in store.baselines.listed()] == ["nvidia-h100", "nvidia-h200"]
    assert store.baselines.listed("nvidia-a100") == ()


def test_listing_names_a_workload_whose_name_was_cut(store: Store) -> None:
    name = "mlp[" + "x" * 300 + "]"
    store.baselines.save(records.baseline(name=name), replacing=None)
    assert [entry.workload for entry in store.baselines.listed()] == [name]


def test_other_machines_are_those_with_a_baseline_of_the_workload(store: Store) -> None:
    store.baselines.save(records.baseline(on=records.machine("NVIDIA H100")), replacing=None)
    store.baselines.save(records.baseline(on=records.machine("NVIDIA A100")), replacing=None)
    store.baselines.save(records.baseline(name="other"), replacing=None)
    assert store.baselines.other_machines("mlp") == ("nvidia-a100", "nvidia-h100")
    assert store.baselines.other_machines("unknown") == ()
