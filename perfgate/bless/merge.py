"""Makes one verdict of several gates: shards of a project's workloads, kinds of GPU, or both.

It judges no workload, and believes no document that says it is open: what opens is reckoned again
from outcomes, settings and commits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, TypeVar

from perfgate import __version__
from perfgate.bless.gates import DOCUMENT_FILE, PAGE_FILE, Found
from perfgate.model.baseline import Commit
from perfgate.model.document import DocumentWorkload, GateDocument, MergedGate
from perfgate.model.loosening import Direction, Loosening
from perfgate.model.note import Note, Severity, note, quoted
from perfgate.model.outcome import PASSING, OnLoosened, Outcome
from perfgate.model.pagedata import PageData, PageWorkload, page_data
from perfgate.model.settings import Settings
from perfgate.render.gate import choice_text, shown_names, state_of
from perfgate.words import say

_SHUT: Final = Severity.INVALID
_Held = TypeVar("_Held", DocumentWorkload, PageWorkload)


def merge(
    found: Sequence[Found], *, unread: Sequence[Note] = (), expect: int | None = None, at: datetime
) -> GateDocument:
    """Make one document of several gates' documents.

    It opens only if every gate does, by its word and by its workloads' outcomes, and its document
    agrees with itself; all that were expected are there, each once and of one commit; all that was
    found could be read; of shards none is missing, all divided the same workloads, and each judged
    its part; no workload was judged twice for one machine; and each gate judged one at all.

    Args:
        found: the gates, in the order in which they are shown.
        unread: where one was looked for in vain, or could not be read.
        expect: how many gates there should be, where that is known.
        at: when they are merged; shown where no gate says when it began.
    """
    documents = [one.document for one in found]
    workloads = tuple(_placed(held, one) for one in found for held in one.document.workloads)
    shut = [
        *unread,
        *_of_all(found, expect),
        *_of_workloads(workloads),
        *(why for one in found for why in _of_gate(one, among=len(found))),
    ]
    machines = [document.machine for document in documents]
    return GateDocument(
        perfgate=__version__,
        started_at=min((document.started_at for document in documents), default=at),
        ended_at=max((document.ended_at for document in documents), default=at),
        opens_gate=not shut,
        exit_status=int(bool(shut)),
        shut_by=tuple(map(_sentence, shut)),
        shut_codes=tuple(one.code for one in shut),
        machine=machines[0] if machines and all(one == machines[0] for one in machines) else None,
        commit=_common_commit(documents),
        gates=tuple(map(_merged_gate, found)),
        information=tuple(map(say.sentences, _information(found))),
        loosening=_loosening(documents),
        settings=documents[0].settings if documents else Settings(),
        workloads=workloads,
    )


def merged_page(document: GateDocument, found: Sequence[Found]) -> PageData:
    """The page of a merged document: what each gate's page held, or else what its document does."""
    workloads = tuple(
        _placed(held, one)
        for one in found
        for held in (one.page or page_data(one.document)).workloads
    )
    return page_data(document).model_copy(update={"workloads": workloads})


def _placed(held: _Held, of: Found) -> _Held:
    """A workload of a gate: it opens by its outcome and the gate's own settings, whatever the gate
    says of it."""
    settings = of.document.settings
    lets = settings.opens(held.verdict)
    opens = held.opens_gate and lets
    update = {"machine": of.document.machine, "gate": of.name, "opens_gate": opens}
    return held.model_copy(update=update)


def _merged_gate(one: Found) -> MergedGate:
    document = one.document
    lets = [_placed(held, one).opens_gate for held in document.workloads]
    return MergedGate(
        label=one.name,
        opens_gate=document.opens_gate and all(lets) and not any(_of_gate(one)),
        started_at=document.started_at,
        ended_at=document.ended_at,
        machine=document.machine,
        workloads=len(lets),
    )


def _loosening(documents: Sequence[GateDocument]) -> Loosening | None:
    """What any of the gates found to differ from its base branch's; approved only where it was of
    all."""
    held = [document.loosening for document in documents if document.loosening is not None]
    if not held:
        return None
    order = list(Direction)
    differences = dict.fromkeys(one for loosening in held for one in loosening.differences)
    return Loosening(
        base=held[0].base,
        on=OnLoosened.FAIL if any(one.on is OnLoosened.FAIL for one in held) else OnLoosened.WARN,
        approved=all(one.approved for one in held),
        differences=tuple(sorted(differences, key=lambda one: order.index(one.direction))),
    )


def _common_commit(documents: Sequence[GateDocument]) -> Commit | None:
    """The commit that all are of; with changes where one of them was measured with changes."""
    commits = [document.commit for document in documents]
    known = [commit for commit in commits if commit is not None]
    if len({commit.sha for commit in known}) != 1 or None in commits:
        return None
    return known[0].model_copy(update={"dirty": any(commit.dirty for commit in known)})


# What keeps it shut


def _sentence(one: Note) -> str:
    """The words of a note; a gate's own sentence as it is, since whoever shows it escapes it."""
    return str(one.fields["text"]) if one.code == "quoted" else say.in_one_line(one)


def _of_all(found: Sequence[Found], expect: int | None) -> Iterator[Note]:
    """What does not fit together."""
    if expect is not None and len(found) != expect:
        names = tuple(one.name for one in found) or ("none",)
        yield note("merge-not-as-expected", _SHUT, expected=expect, found=len(found), gates=names)
    if not any(one.document.workloads for one in found):
        yield note("merge-nothing-judged", _SHUT)
    # Gates of one label, and copies of one without a label.
    alike: defaultdict[str, list[Found]] = defaultdict(list)
    for one in found:
        alike[one.document.label or one.document.model_dump_json()].append(one)
    for twins in alike.values():
        if len(twins) > 1:
            folders = tuple(one.folder for one in twins)
            yield note("merge-gate-twice", _SHUT, gate=twins[0].name, folders=folders)
    known = [(one.name, commit) for one in found if (commit := one.document.commit) is not None]
    if len({commit.sha for _, commit in known}) > 1:
        shown = tuple(f"{name} of {commit.sha[:12]}" for name, commit in known)
        yield note("merge-several-commits", _SHUT, gates=shown)
    yield from _shards_missing(found)


def _shards_missing(found: Sequence[Found]) -> Iterator[Note]:
    """Of each machine and division those shards that no gate was.

    Each shard divides what it collected itself. Where two collected differently, a workload may be
    of neither: shard 1 of a, b, c, d leaves d to shard 2, and shard 2 of a, b, c has b alone. So
    only shards that divided the same workloads make up a gate; there may be several such gates, of
    the parts of a project. One that does not say its machine, or what it divided, is shut by that.
    """
    there: defaultdict[tuple[str, int, frozenset[str]], set[int]] = defaultdict(set)
    for one in found:
        shard, machine = one.document.shard, one.document.machine
        if shard is not None and shard.workloads is not None and machine is not None:
            there[machine.gpu_name, shard.of, frozenset(shard.workloads)].add(shard.index)
    for (gpu, of, _), indices in there.items():
        shards = tuple(f"{index}/{of}" for index in range(1, of + 1) if index not in indices)
        if shards:
            yield note("merge-shards-missing", _SHUT, shards=shards, n=len(shards), gpu=gpu)


def _of_workloads(workloads: Sequence[DocumentWorkload]) -> Iterator[Note]:
    """Workloads that shut their gate, and those that two gates judged against one baseline: which
    of the verdicts holds?

    One of an unknown machine may be of any; it is shut by itself.
    """
    judges: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for held in workloads:
        if held.machine is not None:
            key = (held.machine.slug, held.machine.gpu_name, held.verdict.workload)
            judges[key].append(held.gate)
    for (_, gpu, workload), gates in judges.items():
        if len(gates) > 1:
            named = tuple(gates)
            yield note("merge-judged-twice", _SHUT, workload=workload, gpu=gpu, gates=named)
    for name, held in zip(shown_names(workloads), workloads, strict=True):
        if not held.opens_gate:
            yield note("workload-shuts", _SHUT, workload=name, outcome=held.verdict.outcome)


def _of_gate(one: Found, *, among: int = 1) -> Iterator[Note]:
    """Why one of so many gates is shut besides its workloads: by its own word, for what it lacks,
    and by what does not go with its being open."""
    document, gate, others = one.document, one.name, state_of(one.document).others
    workloads, file = document.workloads, f"{one.folder}/{DOCUMENT_FILE}"
    if among > 1 and document.commit is None:
        yield note("merge-commit-unknown", _SHUT, gate=gate)
    for sentence in others:
        yield quoted(f"{gate}: {sentence}" if among > 1 else sentence, _SHUT)
    opening = [held for held in workloads if _placed(held, one).opens_gate]
    unlike = tuple(held.verdict.workload for held in opening if not _may_open(held, document))
    if unlike:
        yield note("merge-outcome-unlike", _SHUT, gate=gate, file=file, workloads=unlike)
    loosened = document.loosening is not None and document.loosening.shuts
    opens = bool(workloads) and document.exit_status == 0 and not loosened
    # Nothing that a shut one says, or that its workloads came to, shuts it.
    if not (opens if document.opens_gate else others or len(opening) < len(workloads)):
        yield note("merge-contradicts-itself", _SHUT, gate=gate, file=file)
    # A shard that is shut and judged nothing may have ended before it collected.
    shard = document.shard
    if shard is None or not (document.opens_gate or workloads):
        return
    if shard.workloads is None:
        yield note("merge-shard-of-what", _SHUT, gate=gate, file=file)
    elif document.opens_gate:
        judged = {held.verdict.workload for held in workloads}
        lacking = shard.part(frozenset(shard.workloads)) - judged - {*shard.skipped}
        if lacking:
            names = tuple(sorted(lacking))
            yield note("merge-shard-lacks", _SHUT, gate=gate, file=file, workloads=names)


def _may_open(held: DocumentWorkload, document: GateDocument) -> bool:
    """Whether an outcome that opens the gate goes with what else the document holds of it."""
    verdict, settings = held.verdict, document.settings
    outcomes = {row.outcome for row in verdict.metrics} - {None}
    if not verdict.runs or not (held.runs or held.interleaved_runs) or document.machine is None:
        return False
    if verdict.outcome in PASSING:  # no judge passes what one of its rows does not
        return bool(outcomes) and outcomes <= {*PASSING}
    return bool(outcomes or verdict.outcome is Outcome.NO_BASELINE) and all(
        settings.lets_pass(one) for one in outcomes if one is not None
    )


# What else is to be known


def _information(found: Sequence[Found]) -> Iterator[Note]:
    changed = tuple(one.name for one in found if one.document.commit and one.document.commit.dirty)
    if changed:
        yield note("merge-with-changes", gates=changed)
    for one in found:
        choice = one.document.choice
        # Of shards, what one leaves out the others measure.
        if choice and choice.by != ("--perfgate-shard",):
            yield note("merge-part-chosen", gate=one.name, choice=choice_text(choice))
    without = tuple(one.name for one in found if one.page is None)
    if without:
        yield note("merge-without-page", file=PAGE_FILE, gates=without)
