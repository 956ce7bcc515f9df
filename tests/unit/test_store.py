"""Baselines and kept results on disk: whole or refused, never lost."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import records

from perfgate.model.baseline import Baseline, Result
from perfgate.model.errors import BaselineMissing, BaselineUnreadable, ResultMissing, ResultUnreadable, StoreFailed
from perfgate.model.metric import Metric
from perfgate.store import Store, baseline_content, baseline_text, file_name, seal_of, workload_of

SLUG = "nvidia-h200"
AGAIN = 'or delete it, gate once more and bless anew: perfgate bless mlp --reason "..."'
RESTORE = f"Restore it (git checkout HEAD -- baselines/nvidia-h200/mlp.json, or from an older commit), {AGAIN}"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, "baselines")


def written(store: Store, content: str | bytes) -> Path:
    """Put a file where the baseline of `mlp` lies."""
    path = store.baseline_path(SLUG, "mlp")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def edited(change: Callable[[dict[str, object]], object], *, sealed: bool) -> str:
    """Return a baseline's file with a change, sealed anew as perfgate would or left with its old seal."""
    content: dict[str, object] = json.loads(baseline_text(records.baseline()))
    seal = content.pop("seal")
    change(content)
    return json.dumps(content | {"seal": seal_of(content) if sealed else seal})


def refusal(store: Store) -> str:
    with pytest.raises(BaselineUnreadable) as caught:
        store.load_baseline(SLUG, "mlp")
    return str(caught.value)


def test_no_baseline_is_none(store: Store) -> None:
    assert store.load_baseline(SLUG, "mlp") is None


def test_saved_baseline_is_loaded_again(store: Store, tmp_path: Path) -> None:
    baseline = records.baseline()
    path = store.save_baseline(baseline, replacing=None)
    assert path == tmp_path / "baselines" / "nvidia-h200" / "mlp.json"
    assert store.load_baseline(SLUG, "mlp") == baseline


def test_file_is_sorted_indented_and_small(store: Store) -> None:
    text = store.save_baseline(records.baseline(), replacing=None).read_text()
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=2) + "\n"
    assert len(text) < 6000
    assert '\n  "blessing": {\n    "at": "2026-03-02T12:05:00Z",\n    "by": "Ada <ada@example.org>",\n' in text


def test_saving_leaves_no_other_file(store: Store) -> None:
    path = store.save_baseline(records.baseline(), replacing=None)
    assert [file.name for file in path.parent.iterdir()] == ["mlp.json"]


def test_times_keep_6_digits_and_counts_keep_all(store: Store) -> None:
    precise = {Metric.STEP_MS: 12.345678901, Metric.H2D_BYTES: 38_535_168.0, Metric.LAUNCHES: 46.123456789}
    store.save_baseline(records.baseline([precise]), replacing=None)
    loaded = store.load_baseline(SLUG, "mlp")
    assert loaded is not None
    assert loaded.values(Metric.STEP_MS) == (12.3457,)
    assert loaded.values(Metric.H2D_BYTES) == (38_535_168,)
    assert loaded.values(Metric.LAUNCHES) == (46.123456789,)


def test_whole_numbers_have_no_fraction_in_the_file(store: Store) -> None:
    text = store.save_baseline(records.baseline(), replacing=None).read_text()
    assert '"h2d_bytes": 38535168,' in text
    assert '"kernel_ms": 9.1,' in text


def test_rounding_twice_changes_nothing() -> None:
    once = Baseline.model_validate(baseline_content(records.baseline([{Metric.STEP_MS: 1 / 3}])))
    assert baseline_text(once) == baseline_text(records.baseline([{Metric.STEP_MS: 1 / 3}]))


@given(st.floats(min_value=1e-9, max_value=1e9))
def test_any_time_survives_the_file_to_half_a_millionth(step_ms: float) -> None:
    content = baseline_content(records.baseline([{Metric.STEP_MS: step_ms}]))
    read = Baseline.model_validate(json.loads(json.dumps(content))).values(Metric.STEP_MS)[0]
    assert read == pytest.approx(step_ms, rel=5.1e-6)


@pytest.mark.parametrize(
    "relaid",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: json.dumps(json.loads(text), indent=4),
        lambda text: json.dumps(dict(reversed(list(json.loads(text).items())))),
    ],
    ids=["crlf", "bom", "reindented", "reordered"],
)
def test_layout_is_no_edit(store: Store, relaid: Callable[[str], str]) -> None:
    written(store, relaid(baseline_text(records.baseline())))
    assert store.load_baseline(SLUG, "mlp") == records.baseline()


def test_edited_value_is_refused(store: Store) -> None:
    written(store, baseline_text(records.baseline()).replace("12.36", "13.36"))
    assert refusal(store) == (
        "baselines/nvidia-h200/mlp.json: the baseline was changed after it was blessed. "
        "Its seal must match its content: a baseline is measured and blessed, never edited.\n" + RESTORE
    )


def test_missing_seal_is_refused(store: Store) -> None:
    content = baseline_content(records.baseline())
    written(store, json.dumps(content))
    assert refusal(store) == (
        "baselines/nvidia-h200/mlp.json: the baseline has no seal. "
        "Its seal must match its content: a baseline is measured and blessed, never edited.\n" + RESTORE
    )


def test_merge_conflict_is_named_with_its_line(store: Store) -> None:
    text = baseline_text(records.baseline()).replace(
        '  "digest"', '<<<<<<< HEAD\n  "digest"\n=======\n>>>>>>> other\n  "digest"', 1
    )
    written(store, text)
    line = text.splitlines().index("<<<<<<< HEAD") + 1
    assert refusal(store) == (
        f"baselines/nvidia-h200/mlp.json: the file holds merge-conflict markers (line {line}). "
        "Two baselines cannot be merged: each is one measurement.\n"
        "Keep one of them: git checkout --ours -- baselines/nvidia-h200/mlp.json (or --theirs). Where the markers are "
        "committed, take it from a commit without them: git checkout COMMIT -- baselines/nvidia-h200/mlp.json"
    )


def test_lfs_pointer_is_named(store: Store) -> None:
    written(store, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    assert refusal(store) == (
        "baselines/nvidia-h200/mlp.json: the file is a Git LFS pointer, not the baseline. "
        "A baseline is a few KB and belongs in git itself.\n"
        "Fetch it: git lfs pull"
    )


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "the baseline is broken: it is empty"),
        (b" \n", "the baseline is broken: it is empty"),
        (
            baseline_text(records.baseline()).partition("2026-03-02T12:0")[0].encode(),
            "the baseline is broken: its JSON ends too early (line 4: Unterminated string starting at)",
        ),
        (b'{"format": 1', "the baseline is broken: its JSON ends too early (line 1: Expecting ',' delimiter)"),
        (
            b'{\n"format": 1,,}',
            "the baseline is broken: its JSON is malformed (line 2: Expecting property name enclosed in double quotes)",
        ),
        (b'{"format": 1, "digest": "\xff"}', "the baseline is broken: it is not UTF-8 (byte 25)"),
        (b"[1]", "the baseline is broken: it is not a JSON object"),
        (b'{"format": 1, "a": NaN}', "the baseline is broken: it holds NaN, which is not a number"),
        (b'{"format": 1, "a": 1e999}', "the baseline is broken: it holds 1e999, which is beyond a number's range"),
        (b'{"format": 1, "format": 1}', "the baseline is broken: it holds the key 'format' twice"),
        (b"[" * 100_000, "the baseline is broken: it is nested too deeply"),
    ],
    ids=["empty", "blank", "truncated", "cut", "malformed", "latin-1", "array", "nan", "huge", "twice", "deep"],
)
def test_broken_file_says_how(store: Store, content: bytes, fact: str) -> None:
    written(store, content)
    assert refusal(store) == f"baselines/nvidia-h200/mlp.json: {fact}.\n{RESTORE}"


def test_foreign_json_is_no_baseline(store: Store) -> None:
    written(store, '{"name": "x"}')
    assert refusal(store) == (
        "baselines/nvidia-h200/mlp.json: the file is no baseline of perfgate. "
        "A baseline is a JSON object with a format number.\n" + RESTORE
    )


def test_newer_format_wants_an_upgrade(store: Store) -> None:
    written(store, edited(lambda content: content.update(format=2, novelty=1), sealed=True))
    assert refusal(store) == (
        "baselines/nvidia-h200/mlp.json: the baseline has format 2. This perfgate reads format 1.\n"
        'Upgrade perfgate, or delete the file, gate once more and bless anew: perfgate bless mlp --reason "..."'
    )


def test_format_0_never_existed(store: Store) -> None:
    written(store, edited(lambda content: content.update(format=0), sealed=True))
    assert refusal(store) == (
        "baselines/nvidia-h200/mlp.json: the baseline has format 0. This perfgate reads format 1.\n" + RESTORE
    )


@pytest.mark.parametrize("sealed", [True, False])
def test_unknown_keys_are_named(store: Store, sealed: bool) -> None:
    written(store, edited(lambda content: content.update(comment="fast"), sealed=sealed))
    assert refusal(store) == (
        f"baselines/nvidia-h200/mlp.json: the baseline holds what this perfgate does not know: comment.\n{RESTORE}"
    )


def test_content_that_does_not_fit_is_named_with_its_place(store: Store) -> None:
    written(store, edited(lambda content: content.update(occasions=[]), sealed=True))
    assert refusal(store) == (
        "baselines/nvidia-h200/mlp.json: the baseline does not fit: occasions: "
        f"tuple should have at least 1 item after validation, not 0.\n{RESTORE}"
    )


def test_baseline_of_another_workload_is_refused(store: Store) -> None:
    written(store, baseline_text(records.baseline(name="resnet")))
    assert refusal(store) == (
        "baselines/nvidia-h200/mlp.json: the baseline in it is that of resnet. "
        f"A renamed workload is another workload, with a baseline of its own.\n{RESTORE}"
    )


def test_baseline_under_any_name_can_be_looked_at(store: Store, tmp_path: Path) -> None:
    baseline = records.baseline(name="resnet")
    (tmp_path / "theirs.json").write_text(baseline_text(baseline))
    assert store.read_baseline(tmp_path / "theirs.json") == baseline


def test_baseline_to_look_at_must_be_there_and_whole(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BaselineMissing) as missing:
        store.read_baseline(tmp_path / "theirs.json")
    assert str(missing.value) == (
        "theirs.json: there is no such file. A baseline was expected there.\n"
        "Check the path; perfgate show lists the baselines of this project."
    )
    (tmp_path / "theirs.json").write_text("")
    with pytest.raises(BaselineUnreadable) as broken:
        store.read_baseline(tmp_path / "theirs.json")
    assert str(broken.value) == (
        "theirs.json: the baseline is broken: it is empty.\n"
        "Restore it (git checkout HEAD -- theirs.json, or from an older commit), or delete it, gate once more and "
        'bless anew: perfgate bless WORKLOAD --reason "..."'
    )


def test_folder_in_the_place_of_a_baseline_is_refused(store: Store) -> None:
    store.baseline_path(SLUG, "mlp").mkdir(parents=True)
    assert refusal(store) == (
        "baselines/nvidia-h200/mlp.json: the baseline cannot be read (Is a directory).\n"
        "Make it a file that this user may read."
    )


def test_no_broken_baseline_is_overwritten(store: Store) -> None:
    path = written(store, "<<<<<<< HEAD\n")
    with pytest.raises(BaselineUnreadable):
        store.save_baseline(records.baseline(), replacing=None)
    assert path.read_text() == "<<<<<<< HEAD\n"


def test_newer_baseline_is_not_overwritten(store: Store) -> None:
    old, theirs, mine = (records.baseline(reason=reason) for reason in ("old", "theirs", "mine"))
    store.save_baseline(old, replacing=None)
    store.save_baseline(theirs, replacing=old)
    with pytest.raises(StoreFailed) as caught:
        store.save_baseline(mine, replacing=old)
    assert str(caught.value) == (
        "baselines/nvidia-h200/mlp.json: another baseline was written. "
        "The file is no longer what the new baseline was compared with; nothing was changed.\n"
        "Look at what is there now (git log, perfgate show), then bless again."
    )
    assert store.load_baseline(SLUG, "mlp") == theirs


def test_baseline_deleted_in_between_is_told(store: Store) -> None:
    old = records.baseline()
    store.save_baseline(old, replacing=None).unlink()
    with pytest.raises(StoreFailed, match=r"^baselines/nvidia-h200/mlp\.json: it was deleted\. "):
        store.save_baseline(records.baseline(reason="new"), replacing=old)


def test_first_baseline_is_not_written_over_one_that_appeared(store: Store) -> None:
    store.save_baseline(records.baseline(), replacing=None)
    with pytest.raises(StoreFailed, match="another baseline was written"):
        store.save_baseline(records.baseline(reason="new"), replacing=None)


def test_of_eight_that_bless_at_once_one_wins(store: Store) -> None:
    old = records.baseline()
    store.save_baseline(old, replacing=None)
    news = [records.baseline(reason=f"blessed by {n}") for n in range(8)]
    start = threading.Barrier(8)

    def save(new: Baseline) -> bool:
        start.wait()
        try:
            store.save_baseline(new, replacing=old)
        except StoreFailed:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        saved = list(pool.map(save, news))
    assert sum(saved) == 1
    assert store.load_baseline(SLUG, "mlp") == news[saved.index(True)]


def test_unrounded_predecessor_is_recognised(store: Store) -> None:
    old = records.baseline([{Metric.STEP_MS: 12.345678901}])
    store.save_baseline(old, replacing=None)
    new = records.baseline(reason="new")
    store.save_baseline(new, replacing=old)
    assert store.load_baseline(SLUG, "mlp") == new


def failing(number: int) -> Callable[..., object]:
    def fail(*args: object, **kwargs: object) -> object:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "fact", "next_step"),
    [
        (
            errno.ENOSPC,
            "the disk is full",
            "Free some space (old captures lie under .perfgate/results), then run again.",
        ),
        (
            errno.EDQUOT,
            "the disk quota is used up",
            "Free some space (old captures lie under .perfgate/results), then run again.",
        ),
        (errno.EACCES, "this user may not write there", "Make the folder writable for this user, then run again."),
        (errno.EROFS, "the file system is read-only", "Run where the project can be written to."),
        (errno.EIO, "it could not be written (Input/output error)", "See to it, then run again."),
    ],
)
def test_failing_disk_loses_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, call: str, number: int, fact: str, next_step: str
) -> None:
    old = records.baseline()
    path = store.save_baseline(old, replacing=None)
    with monkeypatch.context() as patched:
        if call == "fsync":
            patched.setattr(os, "fsync", failing(number))
        else:
            patched.setattr(Path, "replace", failing(number))
        with pytest.raises(StoreFailed) as caught:
            store.save_baseline(records.baseline(reason="new"), replacing=old)
    told = f"baselines/nvidia-h200/mlp.json: {fact}. What was there before is unchanged.\n{next_step}"
    assert str(caught.value) == told
    assert store.load_baseline(SLUG, "mlp") == old
    assert [file.name for file in path.parent.iterdir()] == ["mlp.json"]


def test_file_size_limit_of_the_system_loses_nothing(tmp_path: Path) -> None:
    # A real write that fails half way: the kernel lets this process write 1000 bytes to a file.
    script = f"""
        import resource, signal, sys
        from pathlib import Path
        sys.path[:0] = {sys.path!r}
        from perfgate.model.errors import StoreFailed
        from perfgate.store import Store
        from support import records

        store = Store(Path({str(tmp_path)!r}), "baselines")
        old = records.baseline()
        store.save_baseline(old, replacing=None)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            store.save_baseline(records.baseline(reason="new"), replacing=old)
        except StoreFailed as error:
            print(error.fact)
        print(store.load_baseline("nvidia-h200", "mlp") == old)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("it could not be written (File too large)\nTrue\n", "")
    assert [file.name for file in (tmp_path / "baselines" / SLUG).iterdir()] == ["mlp.json"]


def test_file_in_the_place_of_the_baselines_folder_is_told(store: Store, tmp_path: Path) -> None:
    (tmp_path / "baselines").write_text("")
    with pytest.raises(StoreFailed) as caught:
        store.save_baseline(records.baseline(), replacing=None)
    assert str(caught.value) == (
        "baselines/nvidia-h200: a file stands where a folder must be. What was there before is unchanged.\n"
        "Move it away, then run again."
    )


def test_listing_shows_the_unreadable_with_their_error(store: Store) -> None:
    good = records.baseline(name="good[4-64]")
    store.save_baseline(good, replacing=None)
    written(store, "")
    (store.baseline_path(SLUG, "mlp").parent / "notes.txt").write_text("not listed")
    (store.baseline_path(SLUG, "mlp").parent / ".mlp.json").write_text("not listed")
    listed = store.baselines()
    assert [(entry.slug, entry.workload) for entry in listed] == [(SLUG, "good[4-64]"), (SLUG, "mlp")]
    assert listed[0].found == good
    assert str(listed[1].found).startswith("baselines/nvidia-h200/mlp.json: the baseline is broken: it is empty.")


def test_a_pipe_in_a_baselines_place_is_not_waited_for(store: Store) -> None:
    path = store.baseline_path(SLUG, "mlp")
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    (entry,) = store.baselines()
    assert str(entry.found).startswith(
        "baselines/nvidia-h200/mlp.json: the baseline cannot be read (It is no plain file)."
    )


def test_listing_of_one_machine_leaves_out_the_others(store: Store) -> None:
    store.save_baseline(records.baseline(), replacing=None)
    store.save_baseline(records.baseline(on=records.machine("NVIDIA H100")), replacing=None)
    assert [entry.slug for entry in store.baselines("nvidia-h100")] == ["nvidia-h100"]
    assert [entry.slug for entry in store.baselines()] == ["nvidia-h100", "nvidia-h200"]
    assert store.baselines("nvidia-a100") == ()


def test_listing_names_a_workload_whose_name_was_cut(store: Store) -> None:
    name = "mlp[" + "x" * 300 + "]"
    store.save_baseline(records.baseline(name=name), replacing=None)
    assert [entry.workload for entry in store.baselines()] == [name]


def test_a_link_in_a_baselines_place_is_neither_replaced_nor_written_through(store: Store, tmp_path: Path) -> None:
    old = records.baseline()
    path = store.save_baseline(old, replacing=None)
    shared = path.rename(tmp_path / "shared.json")
    path.symlink_to(shared)
    text = shared.read_text()
    with pytest.raises(StoreFailed) as refused:
        store.save_baseline(records.baseline([{}] * 6), replacing=old)
    assert str(refused.value) == (
        "baselines/nvidia-h200/mlp.json: it is a link. What it leads to may be others' too, so it is neither written "
        "nor replaced.\nPut a copy of that file in its place, or delete the link; then bless again."
    )
    assert path.is_symlink()
    assert shared.read_text() == text


def test_link_to_nowhere_is_listed_with_its_error(store: Store) -> None:
    path = store.baseline_path(SLUG, "mlp")
    path.parent.mkdir(parents=True)
    path.symlink_to("nowhere")
    (listed,) = store.baselines()
    assert str(listed.found) == (
        "baselines/nvidia-h200/mlp.json: it is a link to nowhere. "
        "Whether there is a baseline behind it cannot be told.\n"
        "Restore what it leads to, or delete the link."
    )


def test_folder_that_cannot_be_listed_is_told(store: Store, tmp_path: Path) -> None:
    (tmp_path / "baselines").write_text("")
    with pytest.raises(BaselineUnreadable) as caught:
        store.baselines()
    assert str(caught.value) == (
        "baselines: the folder cannot be listed (Not a directory).\nMake it a folder that this user may read."
    )


def test_other_machines_are_those_with_a_baseline_of_the_workload(store: Store) -> None:
    store.save_baseline(records.baseline(on=records.machine("NVIDIA H100")), replacing=None)
    store.save_baseline(records.baseline(on=records.machine("NVIDIA A100")), replacing=None)
    store.save_baseline(records.baseline(name="other"), replacing=None)
    assert store.other_machines("mlp") == ("nvidia-a100", "nvidia-h100")
    assert store.other_machines("mlp", besides="nvidia-h100") == ("nvidia-a100",)
    assert store.other_machines("unknown") == ()


def test_slug_cannot_leave_its_folder(store: Store, tmp_path: Path) -> None:
    assert store.baseline_path("../..", "../x") == tmp_path / "baselines" / "%2E.%2F.." / "%2E.%2Fx.json"


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("mlp", "mlp"),
        ("mlp[4-64,pinned=True]", "mlp[4-64,pinned=True]"),
        ("a/b", "a%2Fb"),
        ("100%", "100%25"),
        (".hidden", "%2Ehidden"),
        ("..", "%2E."),
        ("a b\n\x1b", "a%20b%0A%1B"),
        ("größe", "gr%C3%B6%C3%9Fe"),
        ("a~b", "a%7Eb"),
        ("\udcff", "%ED%B3%BF"),
    ],
)
def test_file_names_are_safe_and_can_be_undone(name: str, encoded: str) -> None:
    assert file_name(name) == encoded
    assert workload_of(encoded) == name


@given(st.text(st.characters(), min_size=1, max_size=30))
def test_any_name_is_one_safe_path_part(name: str) -> None:
    encoded = file_name(name)
    assert "/" not in encoded
    assert not encoded.startswith(".")
    assert encoded.isascii()
    assert encoded.isprintable()
    assert len(encoded) <= 200
    assert workload_of(encoded) in (name, None)


def test_long_name_ends_in_a_hash() -> None:
    names = ["x" * 201, "x" * 202, "x" * 10_000, "é" * 500]
    encoded = [file_name(name) for name in names]
    assert len({*encoded}) == 4
    assert all(len(name) <= 200 and workload_of(name) is None for name in encoded)
    assert encoded[0][:183] == "x" * 183
    assert encoded[0][183] == "~"
    assert file_name("x" * 200) == "x" * 200


def test_long_name_is_not_cut_within_an_escape() -> None:
    assert "%" not in file_name("x" * 182 + "é" * 50)[182:]


def test_empty_name_has_no_file() -> None:
    with pytest.raises(ValueError, match=r"^A workload without an id has no file name\.$"):
        file_name("")


# Kept results


def kept(store: Store, result: Result, *, slug: str = SLUG) -> Path:
    folder = store.new_folder(result.workload.id, slug, at=result.measured_at)
    (folder / "run-1").mkdir()
    (folder / "run-1" / "capture.sqlite").write_text("big")
    store.save_result(result, folder)
    return folder


def test_kept_results_are_ignored_by_git(store: Store, tmp_path: Path) -> None:
    store.new_folder("mlp", SLUG, at=records.NOON)
    assert (tmp_path / ".perfgate" / ".gitignore").read_text() == "*\n"


def test_folder_bears_the_time_in_utc(store: Store, tmp_path: Path) -> None:
    at = datetime.fromisoformat("2026-03-02T13:00:00.5+01:00")
    folder = store.new_folder("a/b", SLUG, at=at)
    assert folder.parent == tmp_path / ".perfgate" / "results" / SLUG / "a%2Fb"
    assert folder.name.startswith("20260302T120000.500000Z-")
    assert folder.is_dir()


def test_two_folders_of_one_moment_differ(store: Store) -> None:
    assert store.new_folder("mlp", SLUG, at=records.NOON) != store.new_folder("mlp", SLUG, at=records.NOON)


def test_saved_result_is_loaded_again_to_the_last_digit(store: Store) -> None:
    result = records.result(measured=records.runs(12.345678901234))
    folder = kept(store, result)
    assert store.load_result(folder) == result
    assert store.load_result(folder / "result.json") == result


def test_latest_result_is_the_newest_over_all_machines(store: Store) -> None:
    old, new = records.result(), records.result(at=records.NOON + timedelta(hours=1))
    kept(store, new, slug="nvidia-h100")
    folder = kept(store, old)
    everywhere, here = store.latest_result("mlp"), store.latest_result("mlp", SLUG)
    assert everywhere is not None
    assert here is not None
    assert everywhere.result == new
    assert (here.result, here.folder) == (old, folder)
    assert store.latest_result("other") is None


def test_folder_without_a_result_is_no_result(store: Store) -> None:
    store.new_folder("mlp", SLUG, at=records.NOON)
    assert store.latest_result("mlp") is None
    assert store.kept_workloads() == ()


def test_results_come_newest_first_and_the_broken_with_their_error(store: Store, tmp_path: Path) -> None:
    hours = [records.result(at=records.NOON + timedelta(hours=n)) for n in range(3)]
    folders = [kept(store, result) for result in hours]
    (folders[1] / "result.json").write_text('{"format": 1, "work')
    listed = store.results("mlp")
    assert [entry.folder for entry in listed] == folders[::-1]
    assert listed[0].found == hours[2]
    assert str(listed[1].found) == (
        f"{(folders[1] / 'result.json').relative_to(tmp_path)}: the kept result is broken: "
        "its JSON ends too early (line 1: Unterminated string starting at).\nMeasure again: pytest --perfgate"
    )


def test_broken_newest_result_is_not_passed_over(store: Store) -> None:
    kept(store, records.result())
    folder = kept(store, records.result(at=records.NOON + timedelta(hours=1)))
    (folder / "result.json").write_text("")
    with pytest.raises(ResultUnreadable, match="the kept result is broken: it is empty"):
        store.latest_result("mlp")


def test_result_of_a_newer_format_wants_an_upgrade(store: Store, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"format": 2}')
    with pytest.raises(ResultUnreadable) as caught:
        store.load_result(tmp_path)
    assert str(caught.value) == (
        "result.json: the kept result has format 2. This perfgate reads format 1.\n"
        "Upgrade perfgate, or measure again with this one: pytest --perfgate"
    )


def test_result_that_does_not_fit_is_named_with_its_place(store: Store, tmp_path: Path) -> None:
    content = json.loads(records.result().model_dump_json())
    content["runs"][2]["wall_s"] = "long"
    (tmp_path / "result.json").write_text(json.dumps(content))
    with pytest.raises(ResultUnreadable) as caught:
        store.load_result(tmp_path)
    assert str(caught.value) == (
        "result.json: the kept result does not fit: runs[2].wall_s: "
        "input should be a valid number, unable to parse string as a number.\nMeasure again: pytest --perfgate"
    )


def test_result_that_is_a_folder_cannot_be_read(store: Store, tmp_path: Path) -> None:
    folder = store.new_folder("mlp", SLUG, at=records.NOON)
    (folder / "result.json").mkdir()
    told = (folder / "result.json").relative_to(tmp_path)
    with pytest.raises(ResultUnreadable) as caught:
        store.load_result(folder)
    assert str(caught.value) == (
        f"{told}: the kept result cannot be read (Is a directory).\nMeasure again: pytest --perfgate"
    )


def test_missing_result_is_told(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ResultMissing) as caught:
        store.load_result(tmp_path / "nowhere.json")
    assert str(caught.value) == "nowhere.json: there is no such file.\nMeasure again: pytest --perfgate"


def test_20_results_stay_and_the_captures_of_2(store: Store) -> None:
    folders = [kept(store, records.result(at=records.NOON + timedelta(minutes=n))) for n in range(23)]
    assert [folder.exists() for folder in folders] == [False] * 3 + [True] * 20
    assert [(folder / "run-1").exists() for folder in folders] == [False] * 21 + [True] * 2
    assert len(store.results("mlp")) == 20


def test_newest_saved_stays_even_if_the_clock_went_back(store: Store) -> None:
    for n in range(20):
        kept(store, records.result(at=records.NOON + timedelta(minutes=n)))
    folder = kept(store, records.result(at=records.NOON - timedelta(days=1)))
    assert (folder / "run-1" / "capture.sqlite").exists()


def test_other_workloads_and_machines_are_not_pruned(store: Store) -> None:
    other = kept(store, records.result(of=records.workload("other")))
    there = kept(store, records.result(), slug="nvidia-h100")
    for n in range(1, 22):
        kept(store, records.result(at=records.NOON + timedelta(minutes=n)))
    assert (other / "run-1").exists()
    assert (there / "run-1").exists()


def test_what_an_interrupted_gate_left_goes_after_a_day(store: Store) -> None:
    left = store.new_folder("mlp", SLUG, at=records.NOON)
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
    assert store.kept_workloads() == ("a/b", long)
    assert store.kept_workloads(SLUG) == (long,)


def test_full_disk_is_told_when_a_result_is_kept(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = records.result(at=datetime(2026, 3, 2, tzinfo=UTC))
    folder = store.new_folder("mlp", SLUG, at=result.measured_at)
    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    with pytest.raises(StoreFailed) as caught:
        store.save_result(result, folder)
    assert str(caught.value) == (
        f"{(folder / 'result.json').relative_to(tmp_path)}: the disk is full. What was there before is unchanged.\n"
        "Free some space (old captures lie under .perfgate/results), then run again."
    )
    assert list(folder.iterdir()) == []


def test_full_disk_is_told_when_a_folder_is_made(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "mkdir", failing(errno.ENOSPC))
    with pytest.raises(StoreFailed, match=r"^\.perfgate: the disk is full\."):
        store.new_folder("mlp", SLUG, at=records.NOON)
