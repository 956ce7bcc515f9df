"""Several gates as one: when that is open, and what keeps it shut."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import gates, records
from support.gates import H100, found, gate, judged, shard
from syrupy.assertion import SnapshotAssertion

from perfgate.bless.gates import find_gates
from perfgate.bless.merge import merge
from perfgate.model.baseline import Commit
from perfgate.model.document import DocumentWorkload, GateDocument
from perfgate.model.document_text import document_text, read_document
from perfgate.model.metric import Metric
from perfgate.model.note import Note
from perfgate.model.outcome import OnInconclusive, OnNew, Outcome
from perfgate.model.pagedata import page_data_text
from perfgate.model.record import LARGEST_DOCUMENT
from perfgate.model.settings import Settings
from perfgate.model.verdict import MetricVerdict
from perfgate.words import say

ONE, TWO = shard(1, 2, "mlp", "relu"), shard(2, 2, "mlp", "relu")
OPEN = gate("a", judged("mlp"))
FIRST, SECOND = gate("a", judged("mlp"), shard=ONE), gate("b", judged("relu"), shard=TWO)
OTHER = Commit(sha="fedcba9876543210fedcba9876543210fedcba98", branch="main")


def with_verdict(workload: DocumentWorkload, **verdict: object) -> DocumentWorkload:
    """The workload with another verdict than its gate came to."""
    return workload.model_copy(update={"verdict": workload.verdict.model_copy(update=verdict)})


def rows(*outcomes: Outcome | None) -> tuple[MetricVerdict, ...]:
    """One metric after the other with these outcomes."""
    return tuple(
        MetricVerdict(metric=metric, outcome=outcome)
        for metric, outcome in zip(Metric, outcomes, strict=False)
    )


def merged(*documents: GateDocument, expect: int | None = None) -> GateDocument:
    return merge([found(one) for one in documents], expect=expect, at=records.NOON)


def test_one_gate_alone_may_be_merged_even_where_nobody_knows_its_commit() -> None:
    assert merged(gate("", judged("mlp"), commit=None), expect=1).opens_gate


SHUT: Sequence[tuple[str, Sequence[GateDocument], int | None, tuple[str, ...]]] = [
    ("nothing", [], None, ("merge-nothing-judged",)),
    (
        "no gate of one",
        [],
        1,
        ("merge-not-as-expected", "merge-nothing-judged"),
    ),
    (
        "a gate without workloads",
        [gate("a")],
        None,
        ("merge-nothing-judged", "merge-contradicts-itself"),
    ),
    (
        "a shut gate",
        [OPEN, gate("b", judged("lstm", Outcome.REGRESSED))],
        None,
        ("workload-shuts",),
    ),
    (
        "a gate that is shut by more than its workloads",
        [
            OPEN,
            gate("b", judged("lstm"), shut_by=["relu: it was expected, and not measured"]),
        ],
        None,
        ("quoted",),
    ),
    (
        "a gate that does not say why it is shut",
        [OPEN.model_copy(update={"opens_gate": False})],
        None,
        ("merge-contradicts-itself",),
    ),
    (
        "a gate that says it is shut by a workload that passed",
        [OPEN.model_copy(update={"opens_gate": False, "shut_by": ("mlp: PASSED",)})],
        None,
        ("merge-contradicts-itself",),
    ),
    (
        "a gate that says it is open, and pytest failed",
        [OPEN.model_copy(update={"exit_status": 2})],
        None,
        ("merge-contradicts-itself",),
    ),
    (
        "a gate that says it is open, and is not by its outcomes",
        [gate("a", judged("mlp", Outcome.REGRESSED, opens_gate=True))],
        None,
        ("workload-shuts",),
    ),
    (
        "a gate that lets in what its own settings do not",
        [
            gate(
                "a",
                judged("mlp", Outcome.INCONCLUSIVE, opens_gate=True),
                settings=Settings(inconclusive=OnInconclusive.WARN),
            ),
            gate("b", judged("lstm", Outcome.INCONCLUSIVE, opens_gate=True)),
        ],
        None,
        ("workload-shuts",),
    ),
    (
        "two commits",
        [OPEN, gate("b", judged("lstm"), commit=OTHER)],
        None,
        ("merge-several-commits",),
    ),
    (
        "a commit that nobody knows",
        [OPEN, gate("b", judged("lstm"), commit=None)],
        None,
        ("merge-commit-unknown",),
    ),
    (
        "a label twice",
        [OPEN, gate("a", judged("lstm"))],
        None,
        ("merge-gate-twice",),
    ),
    (
        "one gate twice",
        [gate("", judged("mlp")), gate("", judged("mlp"))],
        None,
        ("merge-gate-twice", "merge-judged-twice"),
    ),
    (
        "a workload twice on one kind of machine",
        [OPEN, gate("b", judged("mlp"))],
        None,
        ("merge-judged-twice",),
    ),
    (
        "a workload twice, once on a machine that nobody knows",
        [OPEN, gate("b", judged("mlp"), on=None)],
        None,
        ("merge-outcome-unlike",),
    ),
    (
        "a gate that is open without a workload next to another",
        [OPEN, gate("b")],
        None,
        ("merge-contradicts-itself",),
    ),
    (
        "a pass of no run and no metric",
        [gate("a", judged("mlp"), with_verdict(judged("lstm", runs=()), metrics=(), runs=0))],
        None,
        ("merge-outcome-unlike",),
    ),
    (
        "a pass that shows no run",
        [gate("a", judged("mlp", runs=()))],
        None,
        ("merge-outcome-unlike",),
    ),
    (
        "a pass whose metrics did not",
        [
            gate(
                "a",
                with_verdict(
                    judged("mlp"),
                    metrics=rows(
                        Outcome.PASSED, Outcome.REGRESSED, Outcome.IMPROVED, Outcome.NOT_MEASURED
                    )
                    * 2,
                ),
            )
        ],
        None,
        ("merge-outcome-unlike",),
    ),
    (
        "a pass of nothing but metrics that are open, which its settings let in",
        [
            gate(
                "a",
                with_verdict(
                    judged("mlp"), metrics=rows(Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE)
                ),
            ),
            gate(
                "b",
                with_verdict(
                    judged("lstm", Outcome.IMPROVED),
                    metrics=rows(Outcome.IMPROVED, Outcome.INCONCLUSIVE),
                ),
            ),
            gate(
                "c",
                with_verdict(judged("gru"), metrics=rows(Outcome.NO_BASELINE, Outcome.PASSED)),
                settings=Settings(new=OnNew.ALLOW),
            ),
        ],
        None,
        ("merge-outcome-unlike", "merge-outcome-unlike", "merge-outcome-unlike"),
    ),
    (
        "a shard that is missing",
        [FIRST, gate("b", judged("mlp"), on=H100, shard=ONE)],
        2,
        ("merge-shards-missing", "merge-shards-missing"),
    ),
    (
        "a workload that fell to no shard, for the second did not collect it",
        [
            gate("a", judged("a"), judged("c"), shard=shard(1, 2, "a", "b", "c", "d")),
            gate("b", judged("b"), shard=shard(2, 2, "a", "b", "c")),
        ],
        2,
        ("merge-shards-missing", "merge-shards-missing"),
    ),
    (
        "shards of two parts of a project of which one is missing",
        [
            FIRST,
            SECOND,
            gate("c", judged("gru"), shard=shard(1, 2, "gru", "lstm")),
        ],
        None,
        ("merge-shards-missing",),
    ),
    (
        "a shard that an older perfgate gated",
        [
            FIRST,
            gate("b", judged("relu"), shard=TWO.model_copy(update={"workloads": None})),
        ],
        2,
        ("merge-shards-missing", "merge-shard-of-what"),
    ),
    (
        "a shard that did not come to collect",
        [
            FIRST,
            gate("b", shard=TWO.model_copy(update={"workloads": None}), shut_by=["interrupted"]),
        ],
        2,
        ("merge-shards-missing", "quoted"),
    ),
    (
        "a shard that does not show all its part",
        [gate("a", judged("mlp"), shard=shard(1, 1, "mlp", "relu"))],
        None,
        ("merge-shard-lacks",),
    ),
]


@pytest.mark.parametrize(
    ("documents", "expect", "codes"), [row[1:] for row in SHUT], ids=[row[0] for row in SHUT]
)
def test_the_merged_gate_stays_shut(
    documents: Sequence[GateDocument],
    expect: int | None,
    codes: tuple[str, ...],
    snapshot: SnapshotAssertion,
) -> None:
    shut = merged(*documents, expect=expect)
    assert sorted(shut.shut_codes) == sorted(codes)
    assert (shut.opens_gate, shut.exit_status) == (False, 1)
    assert shut.shut_by == snapshot


def test_what_a_mark_skips_in_a_shard_is_no_workload_that_is_missed() -> None:
    """Where it had a baseline there, its own gate is shut."""
    of = ("mlp", "relu", "tanh")
    shown = merged(
        gate("a", judged("mlp"), shard=shard(1, 2, *of, skipped=["tanh"])),
        gate("b", judged("relu"), shard=shard(2, 2, *of)),
    )
    assert shown.opens_gate


def test_parts_of_a_project_may_each_have_shards_of_their_own() -> None:
    other = ("gru", "lstm")
    shown = merged(
        FIRST,
        SECOND,
        gate("c", judged("gru"), shard=shard(1, 2, *other)),
        gate("d", judged("lstm"), shard=shard(2, 2, *other)),
    )
    assert (shown.opens_gate, shown.shut_by) == (True, ())


def test_a_gate_that_contradicts_itself_is_reported_to_be_shut() -> None:
    shown = merged(OPEN, gate("b"), gate("c", with_verdict(judged("lstm"), metrics=())))
    assert [(one.label, one.opens_gate) for one in shown.gates] == [
        ("a", True),
        ("b", False),
        ("c", False),
    ]


def test_an_interleaved_candidates_runs_are_runs() -> None:
    placed = judged("mlp")
    assert merged(
        gate("a", placed.model_copy(update={"runs": (), "interleaved_runs": placed.runs}))
    ).opens_gate


def test_what_gates_let_in_by_their_settings_opens_the_merged_one() -> None:
    lenient = Settings(new=OnNew.ALLOW)
    shown = merged(gate("a", judged("mlp", Outcome.NO_BASELINE, opens_gate=True), settings=lenient))
    assert shown.opens_gate


def test_differences_that_shut_nothing_are_noted(snapshot: SnapshotAssertion) -> None:
    dirty = Commit(sha=records.COMMIT.sha, dirty=True, branch="other")
    shown = merged(
        gate("a", judged("mlp"), settings=Settings(runs=5)).model_copy(
            update={"perfgate": "0.0.9"}
        ),
        gate("b", judged("lstm"), commit=dirty),
    )
    assert shown.opens_gate
    assert shown.information == snapshot
    assert shown.commit == records.COMMIT.model_copy(update={"dirty": True})
    assert shown.settings == Settings(runs=5)


# What is found


def codes_of(notes: Sequence[Note]) -> list[tuple[str, ...]]:
    """Codes, each with those of the notes in its fields."""
    return [(one.code, *(code for held in codes_in(one) for code in held)) for one in notes]


def codes_in(outer: Note) -> list[tuple[str, ...]]:
    return codes_of([held for held in outer.fields.values() if isinstance(held, Note)])


def test_gates_are_found_at_and_below_folders_and_sorted_by_label(tmp_path: Path) -> None:
    b, a, deep = gate("b", judged("lstm")), OPEN, gate("deep", judged("relu"))
    gates.put(tmp_path / "x" / "b", b, page=gates.rich(b))
    gates.put(tmp_path / "y", a)
    gates.put(tmp_path / "x" / "b" / "deep", deep)
    listed, unread = find_gates([tmp_path / "x", tmp_path / "y", tmp_path / "z", tmp_path / "y"])
    assert [(one.name, one.folder, one.page is None) for one in listed] == [
        ("a", (tmp_path / "y").as_posix(), True),
        ("b", (tmp_path / "x" / "b").as_posix(), False),
        ("deep", (tmp_path / "x" / "b" / "deep").as_posix(), True),
    ]
    assert listed[1].document == b
    assert codes_of(unread) == [("merge-no-folder",)]


def test_a_page_without_a_document_is_not_passed_over(tmp_path: Path) -> None:
    gates.put(tmp_path / "a", OPEN)
    (tmp_path / "page.json").write_text(page_data_text(gates.rich(OPEN)), encoding="utf-8")
    listed, unread = find_gates([tmp_path])
    assert [one.name for one in listed] == ["a"]
    assert codes_of(unread) == [("merge-document-unreadable", "merge-not-readable")]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"\xff", "merge-other-format"),
        (b'{"' + b"x" * 9_000 + b'": 1}', "merge-other-format"),
        (b" " * (LARGEST_DOCUMENT + 1), "merge-too-large"),
        (None, "merge-no-plain-file"),
    ],
    ids=["bytes", "long key", "large", "pipe"],
)
def test_gates_are_read_next_to_one_that_cannot_be(
    tmp_path: Path, content: bytes | None, code: str
) -> None:
    gates.put(tmp_path / "a", OPEN)
    file = tmp_path / "b" / "perfgate.json"
    file.parent.mkdir()
    if content is None:
        os.mkfifo(file)
    else:
        file.write_bytes(content)
    listed, unread = find_gates([tmp_path])
    assert [one.name for one in listed] == ["a"]
    ((*outer, _),) = [[*codes, ""][:3] for codes in codes_of(unread)]
    assert outer == ["merge-document-unreadable", code]
    said = say.in_one_line(unread[0])
    assert "(:" not in said
    assert len(said) < 1_000


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    folder = gates.put(tmp_path / "a", gate("a", judged("mlp", Outcome.REGRESSED)))
    text = (folder / "perfgate.json").read_text("utf-8")
    twice = text.replace('"exit_status": 1', '"exit_status": 1, "exit_status": 0')
    (folder / "perfgate.json").write_text(twice, encoding="utf-8")
    listed, unread = find_gates([folder])
    assert listed == ()
    assert codes_of(unread) == [
        ("merge-document-unreadable", "merge-other-format", "json-key-twice")
    ]


def test_what_is_nested_too_deeply_to_be_written_again_is_refused(tmp_path: Path) -> None:
    folder = gates.put(tmp_path / "a", OPEN)
    text = (folder / "perfgate.json").read_text("utf-8")
    nested = '{"code": "quoted", "causes": [' * 120 + "]}" * 120
    text = text.replace('"notes": []', f'"notes": [{nested}]', 1)
    (folder / "perfgate.json").write_text(text, encoding="utf-8")
    listed, unread = find_gates([folder])
    assert listed == ()
    assert codes_of(unread) == [("merge-document-unreadable", "merge-other-format")]


@pytest.mark.parametrize(
    "change",
    [{"opens_gate": False}, {"machine": H100}, {"workloads": ()}],
    ids=str,
)
def test_page_data_of_another_gate_is_left_out_and_its_document_counts(
    tmp_path: Path, change: dict[str, object]
) -> None:
    document = OPEN
    page = gates.rich(document).model_copy(update=change)
    folder = gates.put(tmp_path / "a", document, page=page)
    ((only,), unread) = find_gates([folder])
    assert (only.document, only.page) == (document, None)
    assert codes_of(unread) == [("merge-page-left-out", "merge-page-of-another-gate")]


def test_a_folder_that_is_a_link_is_not_followed_into_and_not_passed_over(tmp_path: Path) -> None:
    gates.put(tmp_path / "elsewhere" / "a", OPEN)
    inner = tmp_path / "gates" / "a"
    inner.parent.mkdir()
    inner.symlink_to(tmp_path / "elsewhere" / "a")
    listed, unread = find_gates([tmp_path / "gates"])
    assert (listed, codes_of(unread)) == ((), [("merge-folder-is-link",)])
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")  # one that the user names is followed
    ((only,), _) = find_gates([tmp_path / "link"])
    assert only.name == "a"


def test_a_folder_whose_name_is_no_text_is_shown_in_a_document_that_can_be_written(
    tmp_path: Path,
) -> None:
    folder = tmp_path / os.fsdecode(b"bad\xff")
    gates.put(folder, gate("", judged("mlp")))
    listed, unread = find_gates([folder, folder / "nowhere"])
    merged_document = merge(listed, unread=unread, at=records.NOON)
    assert merged_document.shut_codes == ("merge-no-folder",)
    assert read_document(document_text(merged_document)) == merged_document
