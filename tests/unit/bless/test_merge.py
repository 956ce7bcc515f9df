"""Several gates as one: when that is open, and what keeps it shut."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support import gates, records
from support.gates import H100, H200, found, gate, judged, shard

from perfgate import __version__
from perfgate.bless.merge import MOST_GATES, find_gates, merge, merged_page
from perfgate.model.baseline import Commit
from perfgate.model.document import DocumentWorkload, GateDocument, document_text, read_document
from perfgate.model.errors import DocumentUnreadable
from perfgate.model.metric import Metric
from perfgate.model.outcome import OnInconclusive, OnNew, Outcome
from perfgate.model.pagedata import page_data_text, read_page_data
from perfgate.model.settings import Settings
from perfgate.model.verdict import MetricVerdict

ONE, TWO = shard(1, 2, "mlp", "relu"), shard(2, 2, "mlp", "relu")
ALPHABET = ("a", "b", "c", "d", "e", "f", "g", "h")
ALIKE = (
    "All should collect the same. Give them the same options, environment and parameters, and skip by a mark what a "
    "file skips by itself."
)
UNSAID = (
    "does not say which workloads the shards divided. One that fell to none of them would not be missed. "
    "Gate all shards anew, with the perfgate that merges."
)
OTHER = Commit(sha="fedcba9876543210fedcba9876543210fedcba98", branch="main")


def told_of(workload: DocumentWorkload, **verdict: object) -> DocumentWorkload:
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


def test_open_gates_are_an_open_gate_with_all_workloads_and_where_they_were_measured() -> None:
    told = merged(
        gate("a", judged("mlp"), shard=ONE),
        gate("b", judged("relu", Outcome.IMPROVED), shard=TWO),
        expect=2,
    )
    assert (told.opens_gate, told.exit_status, told.shut_by) == (True, 0, ())
    assert [(one.verdict.workload, one.gate, one.machine) for one in told.workloads] == [
        ("mlp", "a", H200),
        ("relu", "b", H200),
    ]
    assert [(one.label, one.opens_gate, one.workloads) for one in told.gates] == [
        ("a", True, 1),
        ("b", True, 1),
    ]
    assert (told.commit, told.machine, told.perfgate) == (records.COMMIT, H200, __version__)


def test_one_gate_alone_may_be_merged_even_where_nobody_knows_its_commit() -> None:
    assert merged(gate("", judged("mlp"), commit=None), expect=1).opens_gate


SHUT: Sequence[tuple[str, Sequence[GateDocument], int | None, tuple[str, ...]]] = [
    ("nothing", [], None, ("no workload was judged, so nothing is known",)),
    (
        "no gate of one",
        [],
        1,
        (
            "1 gate was expected, and 0 gates found: none",
            "no workload was judged, so nothing is known",
        ),
    ),
    (
        "a gate without workloads",
        [gate("a")],
        None,
        ("no workload was judged, so nothing is known",),
    ),
    (
        "fewer than expected",
        [gate("a", judged("mlp"))],
        2,
        ("2 gates were expected, and 1 gate found: a",),
    ),
    (
        "more than expected",
        [gate("a", judged("mlp")), gate("b", judged("lstm"))],
        1,
        ("1 gate was expected, and 2 gates found: a, b",),
    ),
    (
        "a shut gate",
        [gate("a", judged("mlp")), gate("b", judged("lstm", Outcome.REGRESSED))],
        None,
        ("lstm: REGRESSED",),
    ),
    (
        "a gate that is shut by more than its workloads",
        [
            gate("a", judged("mlp")),
            gate("b", judged("lstm"), shut_by=["relu: it was expected, and not measured"]),
        ],
        None,
        ("b: relu: it was expected, and not measured",),
    ),
    (
        "a gate that does not say why it is shut",
        [gate("a", judged("mlp")).model_copy(update={"opens_gate": False})],
        None,
        ("a: it is shut, and does not say why",),
    ),
    (
        "a gate that says it is open, and pytest failed",
        [gate("a", judged("mlp")).model_copy(update={"exit_status": 2})],
        None,
        ("a: it says that it is open, and that pytest ended with 2",),
    ),
    (
        "a gate that says it is open, and is not by its outcomes",
        [gate("a", judged("mlp", Outcome.REGRESSED, opens_gate=True))],
        None,
        ("mlp: REGRESSED",),
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
        ("lstm: INCONCLUSIVE",),
    ),
    (
        "two commits",
        [gate("a", judged("mlp")), gate("b", judged("lstm"), commit=OTHER)],
        None,
        (
            "the gates are of several commits, and a verdict is of one: a of 0123456789ab, b of fedcba987654",
        ),
    ),
    (
        "a commit that nobody knows",
        [gate("a", judged("mlp")), gate("b", judged("lstm"), commit=None)],
        None,
        ("b: it does not say at which commit it was measured",),
    ),
    (
        "a label twice",
        [gate("a", judged("mlp")), gate("a", judged("lstm"))],
        None,
        ("a: 2 gates bear this label (gates/a, gates/a), and a gate counts once",),
    ),
    (
        "one gate twice",
        [gate("", judged("mlp")), gate("", judged("mlp"))],
        None,
        (
            "gates/: the same gate is in gates/ as well, and a gate counts once",
            "mlp on NVIDIA H200: 2 gates judged it (gates/, gates/)",
        ),
    ),
    (
        "a workload twice on one kind of machine",
        [gate("a", judged("mlp")), gate("b", judged("mlp"))],
        None,
        ("mlp on NVIDIA H200: 2 gates judged it (a, b)",),
    ),
    (
        "a workload twice on machines that nobody knows",
        [gate("a", judged("mlp"), on=None), gate("b", judged("mlp"), judged("lstm"), on=None)],
        None,
        (
            "mlp: gates/a/perfgate.json says PASSED where no machine was read",
            "mlp: gates/b/perfgate.json says PASSED where no machine was read",
            "lstm: gates/b/perfgate.json says PASSED where no machine was read",
        ),
    ),
    (
        "a workload twice, once on a machine that nobody knows",
        [gate("a", judged("mlp")), gate("b", judged("mlp"), on=None)],
        None,
        ("mlp: gates/b/perfgate.json says PASSED where no machine was read",),
    ),
    (
        "a gate that is open without a workload beside another",
        [gate("a", judged("mlp")), gate("b")],
        None,
        ("b: gates/b/perfgate.json says that it is open, and no workload was judged",),
    ),
    (
        "a gate that is shut without a workload beside another",
        [
            gate("a", judged("mlp")),
            gate("b", shut_by=["no workload was collected, so nothing was measured"]),
        ],
        None,
        ("b: no workload was collected, so nothing was measured",),
    ),
    (
        "a pass of no run and no metric",
        [gate("a", judged("mlp"), told_of(judged("lstm", runs=()), metrics=(), runs=0))],
        None,
        ("lstm: gates/a/perfgate.json says PASSED where no run was made and no metric was judged",),
    ),
    (
        "a pass that tells no run",
        [gate("a", judged("mlp", runs=()))],
        None,
        ("mlp: gates/a/perfgate.json says PASSED where no run was made",),
    ),
    (
        "a pass on a machine that nobody read",
        [gate("a", judged("mlp"), told_of(judged("lstm", runs=()), metrics=(), runs=0), on=None)],
        None,
        (
            "mlp: gates/a/perfgate.json says PASSED where no machine was read",
            (
                "lstm: gates/a/perfgate.json says PASSED where no run was made and no machine was read and no metric "
                "was judged"
            ),
        ),
    ),
    (
        "a workload without a baseline that is let in on a machine that nobody read",
        [
            gate(
                "a",
                judged("mlp", Outcome.NO_BASELINE, opens_gate=True),
                settings=Settings(new=OnNew.ALLOW),
                on=None,
            )
        ],
        None,
        ("mlp: gates/a/perfgate.json says NO_BASELINE where no machine was read",),
    ),
    (
        "a gain of metrics that are only shown",
        [gate("a", told_of(judged("mlp", Outcome.IMPROVED), metrics=rows(None, None)))],
        None,
        ("mlp: gates/a/perfgate.json says IMPROVED where no metric was judged",),
    ),
    (
        "a pass whose metrics did not",
        [
            gate(
                "a",
                told_of(
                    judged("mlp"),
                    metrics=rows(
                        Outcome.PASSED, Outcome.REGRESSED, Outcome.IMPROVED, Outcome.NOT_MEASURED
                    )
                    * 2,
                ),
            )
        ],
        None,
        (
            "mlp: gates/a/perfgate.json says PASSED where step_mean_ms is REGRESSED and gap_ms is NOT_MEASURED",
        ),
    ),
    (
        "a pass that its settings would not let in by its metrics",
        [
            gate(
                "a",
                told_of(judged("mlp"), metrics=rows(Outcome.PASSED, Outcome.INCONCLUSIVE)),
                settings=Settings(inconclusive=OnInconclusive.FAIL),
            )
        ],
        None,
        ("mlp: gates/a/perfgate.json says PASSED where step_mean_ms is INCONCLUSIVE",),
    ),
    (
        "a pass of nothing but metrics that are open, which its settings let in",
        [
            gate(
                "a",
                told_of(judged("mlp"), metrics=rows(Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE)),
            ),
            gate(
                "b",
                told_of(
                    judged("lstm", Outcome.IMPROVED),
                    metrics=rows(Outcome.IMPROVED, Outcome.INCONCLUSIVE),
                ),
            ),
            gate(
                "c",
                told_of(judged("gru"), metrics=rows(Outcome.NO_BASELINE, Outcome.PASSED)),
                settings=Settings(new=OnNew.ALLOW),
            ),
        ],
        None,
        (
            "mlp: gates/a/perfgate.json says PASSED where step_ms is INCONCLUSIVE and step_mean_ms is INCONCLUSIVE",
            "lstm: gates/b/perfgate.json says IMPROVED where step_mean_ms is INCONCLUSIVE",
            "gru: gates/c/perfgate.json says PASSED where step_ms is NO_BASELINE",
        ),
    ),
    (
        "a loss without rows",
        [gate("a", told_of(judged("mlp", Outcome.NOT_MEASURED, runs=()), metrics=(), runs=0))],
        None,
        ("mlp: NOT_MEASURED",),
    ),
    (
        "a shard that is missing",
        [gate("a", judged("mlp"), shard=ONE), gate("b", judged("mlp"), on=H100, shard=ONE)],
        2,
        ("shard 2/2 on NVIDIA H200 is missing", "shard 2/2 on NVIDIA H100 80GB HBM3 is missing"),
    ),
    (
        "many shards that are missing",
        [gate("a", judged("mlp"), shard=shard(2, 9, "lstm", "mlp"))],
        None,
        ("shards 1/9, 3/9, 4/9, 5/9, 6/9 and 3 more on NVIDIA H200 are missing",),
    ),
    (
        "shards of different divisions",
        [
            gate("a", judged("mlp"), shard=ONE),
            gate("b", judged("lstm"), shard=shard(2, 3, "gru", "lstm")),
        ],
        None,
        ("shard 2/2 on NVIDIA H200 is missing", "shards 1/3, 3/3 on NVIDIA H200 are missing"),
    ),
    (
        "shards that are missing where no gate knew its machine",
        [gate("a", judged("mlp", Outcome.NOT_MEASURED), on=None, shard=ONE)],
        None,
        ("shard 2/2 is missing", "mlp: NOT_MEASURED"),
    ),
    (
        "a workload that fell to no shard, for the second did not collect it",
        [
            gate("a", judged("a"), judged("c"), shard=shard(1, 2, "a", "b", "c", "d")),
            gate("b", judged("b"), shard=shard(2, 2, "a", "b", "c")),
        ],
        2,
        (
            (
                "the shards of 2 on NVIDIA H200 divided different workloads, so that d fell to none: "
                f"b did not collect d. {ALIKE}"
            ),
        ),
    ),
    (
        "a workload that fell to no shard, for the first did not collect it",
        [
            gate("a", judged("a"), judged("c"), shard=shard(1, 2, "a", "b", "c")),
            gate("b", judged("c"), judged("a0"), shard=shard(2, 2, "a", "a0", "b", "c")),
        ],
        2,
        (
            (
                "the shards of 2 on NVIDIA H200 divided different workloads, so that b fell to none: "
                f"a did not collect a0. {ALIKE}"
            ),
            "c on NVIDIA H200: 2 gates judged it (a, b)",
        ),
    ),
    (
        "shards of which each collected something else, and one that is missing",
        [
            gate("a", judged("a"), shard=shard(1, 3, *ALPHABET)),
            gate("b", judged("b"), shard=shard(2, 3, "a", "b", "z")),
        ],
        None,
        (
            "shard 3/3 on NVIDIA H200 is missing",
            (
                "the shards of 3 on NVIDIA H200 divided different workloads, so that one may have fallen to none: "
                f"a did not collect z; b did not collect c, d, e, f, g and 1 more. {ALIKE}"
            ),
            (
                "a: gates/a/perfgate.json says that it is open, and does not tell of d, g, which fell to it. "
                "Gate this shard anew."
            ),
        ),
    ),
    (
        "shards that collected something else on one of two machines",
        [
            gate("a", judged("mlp"), shard=ONE),
            gate("b", judged("relu"), shard=TWO),
            gate("c", judged("mlp"), on=H100, shard=ONE),
            gate(
                "d",
                judged("relu"),
                judged("tanh"),
                on=H100,
                shard=shard(2, 2, "mlp", "relu", "tanh"),
            ),
        ],
        4,
        (
            (
                "the shards of 2 on NVIDIA H100 80GB HBM3 divided different workloads, so that one may have fallen to "
                f"none: c did not collect tanh. {ALIKE}"
            ),
        ),
    ),
    (
        "shards of two parts of a project of which one is missing",
        [
            gate("a", judged("mlp"), shard=ONE),
            gate("b", judged("relu"), shard=TWO),
            gate("c", judged("gru"), shard=shard(1, 2, "gru", "lstm")),
        ],
        None,
        ("shard 2/2 on NVIDIA H200 is missing",),
    ),
    (
        "a shard that an older perfgate gated",
        [
            gate("a", judged("mlp"), shard=ONE),
            gate("b", judged("relu"), shard=TWO.model_copy(update={"workloads": None})),
        ],
        2,
        (f"b: gates/b/perfgate.json {UNSAID}",),
    ),
    (
        "the only shard that an older perfgate gated",
        [gate("a", judged("mlp"), shard=ONE.model_copy(update={"workloads": None}))],
        None,
        ("shard 2/2 on NVIDIA H200 is missing", f"a: gates/a/perfgate.json {UNSAID}"),
    ),
    (
        "a shard that did not come to collect",
        [
            gate("a", judged("mlp"), shard=ONE),
            gate("b", shard=TWO.model_copy(update={"workloads": None}), shut_by=["interrupted"]),
        ],
        2,
        ("b: interrupted",),
    ),
    (
        "a shard that does not tell of all its part",
        [gate("a", judged("mlp"), shard=shard(1, 1, "mlp", "relu"))],
        None,
        (
            (
                "a: gates/a/perfgate.json says that it is open, and does not tell of relu, which fell to it. "
                "Gate this shard anew."
            ),
        ),
    ),
]


@pytest.mark.parametrize(
    ("documents", "expect", "says"), [row[1:] for row in SHUT], ids=[row[0] for row in SHUT]
)
def test_the_merged_gate_stays_shut(
    documents: Sequence[GateDocument], expect: int | None, says: tuple[str, ...]
) -> None:
    told = merged(*documents, expect=expect)
    assert told.shut_by == says
    assert (told.opens_gate, told.exit_status) == (False, 1)


def test_what_a_mark_skips_in_a_shard_is_no_workload_that_is_missed() -> None:
    """Where it had a baseline there, its own gate is shut."""
    of = ("mlp", "relu", "tanh")
    told = merged(
        gate("a", judged("mlp"), shard=shard(1, 2, *of, skipped=["tanh"])),
        gate("b", judged("relu"), shard=shard(2, 2, *of)),
    )
    assert told.opens_gate


def test_parts_of_a_project_may_each_have_shards_of_their_own() -> None:
    other = ("gru", "lstm")
    told = merged(
        gate("a", judged("mlp"), shard=ONE),
        gate("b", judged("relu"), shard=TWO),
        gate("c", judged("gru"), shard=shard(1, 2, *other)),
        gate("d", judged("lstm"), shard=shard(2, 2, *other)),
    )
    assert (told.opens_gate, told.shut_by) == (True, ())


def test_a_gate_that_contradicts_itself_is_told_to_be_shut() -> None:
    told = merged(
        gate("a", judged("mlp")), gate("b"), gate("c", told_of(judged("lstm"), metrics=()))
    )
    assert [(one.label, one.opens_gate) for one in told.gates] == [
        ("a", True),
        ("b", False),
        ("c", False),
    ]


def test_an_interleaved_candidates_runs_are_runs() -> None:
    placed = judged("mlp")
    assert merged(
        gate("a", placed.model_copy(update={"runs": (), "interleaved_runs": placed.runs}))
    ).opens_gate


def test_one_workload_on_an_unknown_machine_that_is_shut_by_itself_is_no_second_word() -> None:
    told = merged(gate("a", judged("mlp")), gate("b", judged("mlp", Outcome.NOT_MEASURED), on=None))
    assert told.shut_by == ("mlp (b): NOT_MEASURED",)


def test_what_cannot_be_read_keeps_it_shut_beside_gates_that_are_open() -> None:
    told = merge(
        [found(gate("a", judged("mlp")))], unread=["gates/b: it does not exist"], at=records.NOON
    )
    assert (told.opens_gate, told.exit_status) == (False, 1)
    assert told.shut_by == ("gates/b: it does not exist",)


def test_a_page_that_is_left_out_keeps_it_shut_and_is_not_said_to_be_missing() -> None:
    refused = replace(
        found(gate("a", judged("mlp"))), page_refused="page.json: it is no plain file."
    )
    told = merge([refused], at=records.NOON)
    assert told.shut_by == (
        "the page of the gate in gates/a is left out: page.json: it is no plain file.",
    )
    assert told.remarks == ()


def test_a_shard_of_an_unknown_machine_may_be_the_missing_one_and_is_shut_by_itself() -> None:
    unmeasured = gate("b", judged("relu", Outcome.NOT_MEASURED), on=None, shard=TWO)
    assert merged(gate("a", judged("mlp"), shard=ONE), unmeasured).shut_by == (
        "relu: NOT_MEASURED",
    )


def test_workloads_of_several_machines_are_called_by_their_gpu_as_well() -> None:
    told = merged(gate("a", judged("mlp", Outcome.REGRESSED)), gate("b", judged("mlp"), on=H100))
    assert told.shut_by == ("mlp on NVIDIA H200: REGRESSED",)
    assert told.machine is None


def test_what_gates_let_in_by_their_settings_opens_the_merged_one() -> None:
    lenient = Settings(new=OnNew.ALLOW)
    told = merged(gate("a", judged("mlp", Outcome.NO_BASELINE, opens_gate=True), settings=lenient))
    assert told.opens_gate


def test_differences_that_shut_nothing_are_remarked() -> None:
    dirty = Commit(sha=records.COMMIT.sha, dirty=True, branch="other")
    told = merged(
        gate("a", judged("mlp"), settings=Settings(runs=5)).model_copy(
            update={"perfgate": "0.0.9"}
        ),
        gate("b", judged("lstm"), commit=dirty),
    )
    assert told.opens_gate
    assert told.remarks == (
        f"Measured by perfgate 0.0.9, merged by {__version__}.",
        "Measured with uncommitted changes: b.",
        "The gates differ in their settings (runs); shown are those of a.",
        "Without blessed runs, timelines and history on the page, for there is no page.json: a, b.",
    )
    assert told.commit == Commit(sha=records.COMMIT.sha, dirty=True)
    assert told.settings == Settings(runs=5)


def test_the_page_has_what_each_gate_knew_and_the_same_verdicts() -> None:
    a, b = gate("a", judged("mlp", Outcome.REGRESSED)), gate("b", judged("mlp"), on=H100)
    both = [found(a, page=gates.rich(a)), found(b)]
    told = merge(both, at=records.NOON)
    page = merged_page(told, both)
    assert [one.verdict for one in page.workloads] == [one.verdict for one in told.workloads]
    assert [one.opens_gate for one in page.workloads] == [one.opens_gate for one in told.workloads]
    assert [(one.gate, one.machine) for one in page.workloads] == [("a", H200), ("b", H100)]
    assert [one.baseline is None for one in page.workloads] == [False, True]
    assert (page.shut_by, page.gates, page.remarks) == (told.shut_by, told.gates, told.remarks)
    assert page.workloads[1].candidate is not None
    assert page.workloads[1].candidate.machine == H100


def test_merged_documents_and_pages_are_read_again() -> None:
    both = [found(gate("a", judged("mlp"))), found(gate("b", judged("mlp"), on=H100))]
    told = merge(both, at=records.NOON)
    assert read_document(document_text(told)) == told
    page = merged_page(told, both)
    assert read_page_data(page_data_text(page)) == page


# What is found


def test_gates_are_found_in_folders_and_one_below_and_sorted_by_label(tmp_path: Path) -> None:
    b, a, deep = gate("b", judged("lstm")), gate("a", judged("mlp")), gate("deep", judged("relu"))
    gates.put(tmp_path / "x" / "b", b, page=gates.rich(b))
    gates.put(tmp_path / "y", a)
    gates.put(tmp_path / "x" / "b" / "deep", deep)
    listed, unread = find_gates([tmp_path / "x", tmp_path / "y", tmp_path / "z"])
    assert [(one.name, one.folder, one.page is None) for one in listed] == [
        ("a", (tmp_path / "y").as_posix(), True),
        ("b", (tmp_path / "x" / "b").as_posix(), False),
    ]
    assert listed[1].document == b
    assert unread == (
        f"{tmp_path}/z: it does not exist",
        f"{tmp_path}/x: gates lie deeper in it than in a folder of it, and are not read: {tmp_path}/x/b/deep",
    )
    listed, unread = find_gates([tmp_path / "x", tmp_path / "x" / "b" / "deep"])
    assert [one.name for one in listed] == ["b", "deep"]
    assert unread == ()


def test_gates_that_lie_too_deep_are_told_with_their_folders(tmp_path: Path) -> None:
    gates.put(tmp_path / "a", gate("a", judged("mlp")))
    for number in range(7):
        gates.put(tmp_path / "b" / ".perfgate" / "github" / str(number), gate("b", judged("lstm")))
    gates.put(tmp_path / "b" / ".perfgate" / "github" / "0" / "unseen", gate("c", judged("relu")))
    (tmp_path / "a" / "link").symlink_to(tmp_path / "b")
    deep = ", ".join(f"{tmp_path}/b/.perfgate/github/{number}" for number in range(5))
    _, unread = find_gates([tmp_path])
    assert unread == (
        f"{tmp_path}: gates lie deeper in it than in a folder of it, and are not read: {deep} and 2 more",
    )


@pytest.mark.parametrize("inner", ["", "b"])
def test_a_page_without_a_document_is_not_passed_over(tmp_path: Path, inner: str) -> None:
    a = gate("a", judged("mlp"))
    gates.put(tmp_path / "a", a)
    (tmp_path / "b").mkdir()
    (tmp_path / inner / "page.json").write_text(page_data_text(gates.rich(a)), encoding="utf-8")
    listed, unread = find_gates([tmp_path])
    assert [one.name for one in listed] == ["a"]
    assert unread == (f"{tmp_path / inner}: there is a page.json in it and no perfgate.json",)
    (only,) = find_gates([tmp_path / inner])[1] if inner else unread
    assert only == f"{tmp_path / inner}: there is a page.json in it and no perfgate.json"


@pytest.mark.parametrize(
    ("once", "twice", "key"),
    [
        ('"opens_gate": false', '"opens_gate": false, "opens_gate": true', "opens_gate"),
        ('"outcome": "REGRESSED"', '"outcome": "REGRESSED", "outcome": "PASSED"', "outcome"),
        ('"exit_status": 1', '"exit_status": 1, "exit_status": 0', "exit_status"),
    ],
)
def test_a_key_that_stands_twice_is_refused(
    tmp_path: Path, once: str, twice: str, key: str
) -> None:
    folder = gates.put(tmp_path / "a", gate("a", judged("mlp", Outcome.REGRESSED)))
    text = (folder / "perfgate.json").read_text("utf-8")
    assert once in text
    (folder / "perfgate.json").write_text(text.replace(once, twice), encoding="utf-8")
    assert find_gates([folder]) == (
        (),
        (
            (
                f"the gate in {folder} cannot be read: perfgate.json: it holds the key '{key}' twice. It should be "
                "what --perfgate-json writes. Let the gate write it anew, with the perfgate that merges."
            ),
        ),
    )


def test_a_page_with_a_key_that_stands_twice_is_left_out(tmp_path: Path) -> None:
    document = gate("a", judged("mlp"))
    folder = gates.put(tmp_path / "a", document, page=gates.rich(document))
    text = (folder / "page.json").read_text("utf-8")
    (folder / "page.json").write_text(
        text.replace('"label"', '"label": "x", "label"', 1), encoding="utf-8"
    )
    ((only,), _) = find_gates([folder])
    assert only.page_refused == (
        "page.json: it holds the key 'label' twice. It should be what --perfgate-page-data writes. Let the gate write "
        "it anew, with the perfgate that merges."
    )


def test_a_gate_without_a_label_is_called_by_its_folder(tmp_path: Path) -> None:
    gates.put(tmp_path / "one", gate("", judged("mlp")))
    ((only,), _) = find_gates([tmp_path])
    assert only.name == (tmp_path / "one").as_posix()


def test_gates_of_one_label_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for name in ("one", "two"):
        gates.put(tmp_path / name, gate("a", judged(name)))
    listed, _ = find_gates([tmp_path])
    assert [one.name for one in listed] == [
        f"a in {(tmp_path / name).as_posix()}" for name in ("one", "two")
    ]


def test_more_gates_than_a_matrix_can_have_are_refused(tmp_path: Path) -> None:
    text = document_text(gate("a", judged("mlp")))
    for number in range(MOST_GATES + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "perfgate.json").write_text(text, encoding="utf-8")
    with pytest.raises(DocumentUnreadable) as refused:
        find_gates([tmp_path])
    assert str(refused.value) == f"{tmp_path}: there are more than 256 gates.\nMerge fewer of them."


@pytest.mark.parametrize(
    "change",
    [
        {"started_at": records.NOON.replace(hour=13)},
        {"opens_gate": False},
        {"shut_by": ("another",)},
        {"machine": H100},
        {"workloads": ()},
    ],
    ids=str,
)
def test_page_data_of_another_gate_is_left_out_and_its_document_counts(
    tmp_path: Path, change: dict[str, object]
) -> None:
    document = gate("a", judged("mlp"))
    folder = gates.put(
        tmp_path / "a", document, page=gates.rich(document).model_copy(update=change)
    )
    ((only,), unread) = find_gates([folder])
    assert (only.document, only.page, unread) == (document, None, ())
    assert only.page_refused == (
        "page.json: it is of another gate than the perfgate.json beside it. Take both from one gate."
    )


def test_gates_are_read_beside_one_that_cannot_be(tmp_path: Path) -> None:
    gates.put(tmp_path / "a", gate("a", judged("mlp")))
    gates.put(tmp_path / "c", gate("c", judged("lstm")))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "perfgate.json").write_bytes(b"\xff")
    listed, unread = find_gates([tmp_path])
    assert [one.name for one in listed] == ["a", "c"]
    assert unread == (
        (
            f"the gate in {tmp_path}/b cannot be read: perfgate.json: it is no UTF-8 text. It should be what "
            "--perfgate-json writes. Let the gate write it anew, with the perfgate that merges."
        ),
    )


@pytest.mark.parametrize(
    "when", ["2026-01-01T00:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:00-12:00"]
)
@pytest.mark.parametrize("where", ["started_at", "ended_at", "a run's"])
def test_a_gate_whose_moments_are_not_to_be_told_in_utc_cannot_be_read(
    tmp_path: Path, when: str, where: str
) -> None:
    gates.put(tmp_path / "a", gate("a", judged("mlp")))
    told = json.loads(document_text(gate("b", judged("lstm"))))
    (told["workloads"][0]["runs"][0] if where == "a run's" else told)[
        where.replace("a run's", "started_at")
    ] = when
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "perfgate.json").write_text(json.dumps(told), encoding="utf-8")
    listed, (unread,) = find_gates([tmp_path])
    assert [one.name for one in listed] == ["a"]
    assert unread.startswith(f"the gate in {tmp_path}/b cannot be read: perfgate.json: ")


def test_moments_are_kept_in_utc() -> None:
    told = json.loads(document_text(gate("a", judged("mlp")))) | {
        "started_at": "2026-03-02T05:00:00+02:00"
    }
    assert read_document(json.dumps(told)).started_at.isoformat() == "2026-03-02T03:00:00+00:00"


def test_gates_that_cannot_be_read_count_among_the_most(tmp_path: Path) -> None:
    for number in range(MOST_GATES + 1):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "perfgate.json").write_text("{", encoding="utf-8")
    with pytest.raises(DocumentUnreadable) as refused:
        find_gates([tmp_path])
    assert str(refused.value) == f"{tmp_path}: there are more than 256 gates.\nMerge fewer of them."


def test_a_field_that_a_stranger_named_is_told_in_part(tmp_path: Path) -> None:
    (tmp_path / "perfgate.json").write_text('{"' + "x" * 9_000 + '": 1}', encoding="utf-8")
    _, (told,) = find_gates([tmp_path])
    assert len(told) < 1_000


def test_a_folder_that_is_a_link_is_not_followed_into(tmp_path: Path) -> None:
    gates.put(tmp_path / "elsewhere" / "a", gate("a", judged("mlp")))
    inner = tmp_path / "gates" / "a"
    inner.parent.mkdir()
    inner.symlink_to(tmp_path / "elsewhere" / "a")
    assert find_gates([tmp_path / "gates"]) == (
        (),
        (
            (
                f"the gate in {inner} cannot be read: perfgate.json: its folder is a link, which is not followed. It "
                "should be what --perfgate-json writes. Let the gate write it anew, with the perfgate that merges."
            ),
        ),
    )
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")  # one that the user names is followed
    ((only,), _) = find_gates([tmp_path / "link"])
    assert only.name == "a"


def test_what_is_no_folder_is_told_as_what_it_is(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    assert find_gates([file, file / "x", tmp_path / "nowhere", tmp_path / "empty"]) == (
        (),
        (
            f"{file}: it is a file; name the folder that holds it",
            f"{file}/x: it does not exist",
            f"{tmp_path}/nowhere: it does not exist",
            f"{tmp_path}/empty: there is no perfgate.json in it, nor in a folder of it",
        ),
    )


def test_a_folder_that_cannot_be_listed_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(folder: Path) -> list[Path]:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refused)
    assert find_gates([tmp_path]) == ((), (f"{tmp_path}: it cannot be listed (Permission denied)",))


def test_a_gate_whose_folder_hides_it_is_not_overlooked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates.put(tmp_path / "a", gate("a", judged("mlp")))
    stat_of = Path.lstat

    def refused(file: Path) -> os.stat_result:
        if file.name == "perfgate.json":
            raise PermissionError(errno.EACCES, "Permission denied", str(file))
        return stat_of(file)

    monkeypatch.setattr(Path, "lstat", refused)
    _, (told,) = find_gates([tmp_path / "a"])
    assert "perfgate.json: it cannot be read (Permission denied)." in told


def test_a_folder_whose_name_is_no_text_is_told_in_a_document_that_can_be_written(
    tmp_path: Path,
) -> None:
    folder = tmp_path / os.fsdecode(b"bad\xff")
    gates.put(folder, gate("", judged("mlp")))
    listed, unread = find_gates([folder, folder / "nowhere"])
    told = merge(listed, unread=unread, at=records.NOON)
    assert told.shut_by == (f"{tmp_path}/bad\ufffd/nowhere: it does not exist",)
    assert read_document(document_text(told)) == told
