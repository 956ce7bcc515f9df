"""A baseline as a file: whole and unchanged, or refused with what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import records
from support.stored import RESTORE, SLUG, edited, refusal, written

from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.store import Store, baseline_content, baseline_text


def test_file_is_sorted_indented_and_small(store: Store) -> None:
    text = store.baselines.save(records.baseline(), replacing=None).read_text()
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=2) + "\n"
    assert len(text) < 6000
    assert (
        '\n  "blessing": {\n    "at": "2026-03-02T12:05:00Z",\n    "by": "Ada <ada@example.org>",\n'
        in text
    )


def test_times_keep_6_digits_and_counts_keep_all(store: Store) -> None:
    precise = {
        Metric.STEP_MS: 12.345678901,
        Metric.H2D_BYTES: 38_535_168.0,
        Metric.LAUNCHES: 46.123456789,
    }
    store.baselines.save(records.baseline([precise]), replacing=None)
    loaded = store.baselines.load(SLUG, "mlp")
    assert loaded is not None
    assert loaded.values(Metric.STEP_MS) == (12.3457,)
    assert loaded.values(Metric.H2D_BYTES) == (38_535_168,)
    assert loaded.values(Metric.LAUNCHES) == (46.123456789,)


def test_whole_numbers_have_no_fraction_in_the_file(store: Store) -> None:
    text = store.baselines.save(records.baseline(), replacing=None).read_text()
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
    assert store.baselines.load(SLUG, "mlp") == records.baseline()


def test_edited_value_is_refused(store: Store) -> None:
    written(store, baseline_text(records.baseline()).replace("12.36", "13.36"))
    assert refusal(store) == (
        "baselines/nvidia-h200/mlp.json: the baseline was changed after it was blessed. "
        "Its seal must match its content: a baseline is measured and blessed, never edited.\n"
        + RESTORE
    )


def test_missing_seal_is_refused(store: Store) -> None:
    content = baseline_content(records.baseline())
    written(store, json.dumps(content))
    assert refusal(store) == (
        "baselines/nvidia-h200/mlp.json: the baseline has no seal. "
        "Its seal must match its content: a baseline is measured and blessed, never edited.\n"
        + RESTORE
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
        "Keep one of them, by --ours, --theirs or, where the markers are committed, the name "
        "of a commit "
        "without them: git checkout --ours -- baselines/nvidia-h200/mlp.json"
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
            "the baseline is broken: Unterminated string starting at: line 4 column 11 (char 46)",
        ),
        (
            b'{"format": 1',
            "the baseline is broken: Expecting ',' delimiter: line 1 column 13 (char 12)",
        ),
        (
            b'{\n"format": 1,,}',
            (
                "the baseline is broken: Expecting property name enclosed in double quotes: line 2 "
                "column 13 (char 14)"
            ),
        ),
        (
            b'{"format": 1, "digest": "\xff"}',
            (
                "the baseline is broken: 'utf-8' codec can't decode byte 0xff in position 25: "
                "invalid start byte"
            ),
        ),
        (b"[1]", "the baseline is broken: it is not a JSON object"),
        (b'{"format": 1, "a": NaN}', "the baseline is broken: it holds NaN, which is not a number"),
        (
            b'{"format": 1, "a": 1e999}',
            "the baseline is broken: it holds 1e999, which is beyond a number's range",
        ),
        (b'{"format": 1, "format": 1}', "the baseline is broken: it holds the key 'format' twice"),
        (b"[" * 100_000, "the baseline is broken: it is nested too deeply"),
    ],
    ids=[
        "empty",
        "blank",
        "truncated",
        "cut",
        "malformed",
        "latin-1",
        "array",
        "nan",
        "huge",
        "twice",
        "deep",
    ],
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
    written(store, edited(lambda content: content.update(format=3, novelty=1), sealed=True))
    assert refusal(store) == (
        "baselines/nvidia-h200/mlp.json: the baseline has format 3. This perfgate reads formats 1 to 2.\n"
        'Upgrade perfgate, or delete the file, gate once more and bless anew: perfgate bless mlp --reason "..."'
    )


def test_format_0_never_existed(store: Store) -> None:
    written(store, edited(lambda content: content.update(format=0), sealed=True))
    assert refusal(store) == (
        "baselines/nvidia-h200/mlp.json: the baseline has format 0. This perfgate reads formats 1 to 2.\n"
        + RESTORE
    )


@pytest.mark.parametrize("sealed", [True, False])
def test_unknown_keys_are_named(store: Store, sealed: bool) -> None:
    written(store, edited(lambda content: content.update(comment="fast"), sealed=sealed))
    assert refusal(store) == (
        f"baselines/nvidia-h200/mlp.json: the baseline holds what this perfgate does not know: comment.\n{RESTORE}"
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"occasions": []}, "occasions: tuple should have at least 1 item after validation, not 0"),
        ({"workload": ""}, "workload: string should have at least 1 character"),
    ],
)
def test_content_that_does_not_fit_is_named_with_its_place(
    store: Store, change: dict[str, object], complaint: str
) -> None:
    written(store, edited(lambda content: content.update(change), sealed=True))
    assert (
        refusal(store)
        == f"baselines/nvidia-h200/mlp.json: the baseline does not fit: {complaint}.\n{RESTORE}"
    )
