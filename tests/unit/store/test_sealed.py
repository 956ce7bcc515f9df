"""A baseline as a file: whole and unchanged, or refused with what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import records
from support.stored import SLUG, edited, refusal, written
from syrupy.assertion import SnapshotAssertion

from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.store import Store
from perfgate.store.sealed import baseline_content, baseline_text


def test_file_is_sorted_indented_and_small(store: Store) -> None:
    text = store.baselines.save(records.baseline(), replacing=None).read_text()
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=2) + "\n"
    assert len(text) < 6000
    assert '"h2d_bytes": 38535168,' in text  # a whole number without a fraction
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


WHOLE = baseline_text(records.baseline())
CONFLICT = WHOLE.replace(
    '  "digest"', '<<<<<<< HEAD\n  "digest"\n=======\n>>>>>>> other\n  "digest"', 1
)


def changed(**change: object) -> str:
    return edited(lambda content: content.update(change), sealed=True)


@pytest.mark.parametrize(
    ("content", "code", "fields"),
    [
        (WHOLE.replace("12.36", "13.36"), "baseline-edited", {}),
        (json.dumps(baseline_content(records.baseline())), "baseline-edited", {}),
        (CONFLICT, "baseline-conflict", {}),
        (
            "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "baseline-lfs-pointer",
            {},
        ),
        ('{"name": "x"}', "baseline-other-format", {"number": "None", "newest": 2}),
        (changed(format=3, novelty=1), "baseline-other-format", {"number": "3", "newest": 2}),
        (
            changed(comment="fast"),
            "baseline-does-not-fit",
            {"why": "comment: extra inputs are not permitted"},
        ),
        (
            changed(occasions=[]),
            "baseline-does-not-fit",
            {"why": "occasions: tuple should have at least 1 item after validation, not 0"},
        ),
        (
            baseline_text(records.baseline(name="resnet")),
            "baseline-of-another-workload",
            {"found": "resnet"},
        ),
    ],
    ids=[
        "edited",
        "without a seal",
        "conflict",
        "Git LFS",
        "no format",
        "newer",
        "unknown key",
        "no occasions",
        "another workload",
    ],
)
def test_what_is_no_whole_unchanged_baseline_is_refused(
    store: Store,
    content: str,
    code: str,
    fields: dict[str, object],
    snapshot: SnapshotAssertion,
) -> None:
    written(store, content)
    found = refusal(store)
    assert str(found) == snapshot
    named = {"path": "baselines/nvidia-h200/mlp.json", "workload": "mlp"}
    assert (found.code, found.fields) == (code, {**named, **fields})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", note("json-empty")),
        (
            b'{"format": 1',
            note("json-unreadable", problem="Expecting ',' delimiter: line 1 column 13 (char 12)"),
        ),
        (
            b'{"format": 1, "digest": "\xff"}',
            note(
                "json-unreadable",
                problem="'utf-8' codec can't decode byte 0xff in position 25: invalid start byte",
            ),
        ),
        (b"[1]", note("json-no-object")),
        (b'{"format": 1, "format": 1}', note("json-key-twice", key="'format'")),
        (b"[" * 100_000, note("json-nested-too-deeply")),
    ],
    ids=["empty", "cut", "latin-1", "array", "twice", "deep"],
)
def test_a_broken_file_says_how(
    store: Store, content: bytes, why: Note, snapshot: SnapshotAssertion
) -> None:
    written(store, content)
    found = refusal(store)
    assert (found.code, found.fields["why"]) == ("baseline-broken", why)
    assert str(found) == snapshot
