"""Makes one verdict of several gates: shards of a project's workloads, kinds of GPU, or both.

It judges no workload, and believes no document that says it is open: what opens is reckoned again
from outcomes, settings and commits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from perfgate import __version__
from perfgate.bless.gates import DOCUMENT_FILE, PAGE_FILE, Found
from perfgate.model.baseline import Commit
from perfgate.model.document import (
    DocumentShard,
    DocumentWorkload,
    GateDocument,
    reasons_besides,
)
from perfgate.model.loosening import Direction, Loosening
from perfgate.model.note import Note, Severity, Value, note, quoted
from perfgate.model.outcome import PASSING, OnLoosened, Outcome, opens_gate
from perfgate.model.pagedata import PageData, PageWorkload, page_data
from perfgate.model.settings import Settings
from perfgate.model.summary import MergedGate, shown_names
from perfgate.render.gate import choice_text
from perfgate.words import say

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
        *_pages_left_out(found),
        *_not_as_expected(found, expect),
        *_twice(found),
        *_of_other_commits(found),
        *_shards_missing(found),
        *_shards_in_part(found),
        *_judged_twice(workloads),
        *_shut(found, workloads),
        *(contradiction for one in found for contradiction in _contradictions(one)),
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
    lets = held.opens_gate and _lets_open(held, of.document.settings)
    update = {"machine": of.document.machine, "gate": of.name, "opens_gate": lets}
    return held.model_copy(update=update)


def _lets_open(held: DocumentWorkload | PageWorkload, settings: Settings) -> bool:
    """What the verdict does by the gate's own settings, whatever the gate says of it."""
    return held.verdict.opens(on_inconclusive=settings.inconclusive, on_new=settings.new)


def _merged_gate(one: Found) -> MergedGate:
    return MergedGate(
        label=one.name,
        opens_gate=_opens(one),
        started_at=one.document.started_at,
        ended_at=one.document.ended_at,
        machine=one.document.machine,
        workloads=len(_of(one)),
    )


def _opens(one: Found) -> bool:
    """Whether a gate is open, and all of its document agrees with that."""
    document = one.document
    says = document.opens_gate and document.exit_status == 0 and not document.shut_by
    lets = all(_placed(held, one).opens_gate for held in _of(one))
    return says and bool(_of(one)) and lets and not any(_contradictions(one))


def _of(one: Found) -> Sequence[DocumentWorkload]:
    return one.document.workloads


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
    commits = [document.commit for document in documents if document.commit is not None]
    if not commits or len(commits) < len(documents) or len({commit.sha for commit in commits}) > 1:
        return None
    branches = {commit.branch for commit in commits}
    return commits[0].model_copy(
        update={
            "dirty": any(commit.dirty for commit in commits),
            "branch": commits[0].branch if len(branches) == 1 else None,
        }
    )


# What keeps it shut


def _sentence(one: Note) -> str:
    """The words of a note; a gate's own sentence as it is, since whoever shows it escapes it."""
    return str(one.fields["text"]) if one.code == "quoted" else say.in_one_line(one)


def _shut_note(code: str, **fields: Value) -> Note:
    return Note(code=code, severity=Severity.INVALID, fields=fields)


def _in(one: Found) -> str:
    return f"{one.folder}/{DOCUMENT_FILE}"


def _pages_left_out(found: Sequence[Found]) -> Iterator[Note]:
    for one in found:
        if one.page_refused is not None:
            yield _shut_note("merge-page-left-out", folder=one.folder, why=one.page_refused)


def _not_as_expected(found: Sequence[Found], expect: int | None) -> Iterator[Note]:
    if expect is not None and len(found) != expect:
        names = tuple(one.name for one in found) or ("none",)
        yield _shut_note("merge-not-as-expected", expected=expect, found=len(found), gates=names)
    if not any(map(_of, found)):
        yield _shut_note("merge-nothing-judged")
        return
    for one in found:
        if one.document.opens_gate and not _of(one):
            yield _shut_note("merge-gate-judged-nothing", gate=one.name, file=_in(one))


def _twice(found: Sequence[Found]) -> Iterator[Note]:
    """Gates of one label, and copies of one without a label."""
    groups: defaultdict[str, list[Found]] = defaultdict(list)
    for one in found:
        groups[one.document.label or one.document.model_dump_json()].append(one)
    for members in groups.values():
        if len(members) > 1:
            folders = tuple(one.folder for one in members)
            yield _shut_note("merge-gate-twice", gate=members[0].name, folders=folders)


def _of_other_commits(found: Sequence[Found]) -> Iterator[Note]:
    if len(found) < 2:
        return
    known = [(one.name, one.document.commit) for one in found]
    shown = tuple(f"{name} of {commit.sha[:12]}" for name, commit in known if commit is not None)
    if len({commit.sha for _, commit in known if commit is not None}) > 1:
        yield _shut_note("merge-several-commits", gates=shown)
    for name, commit in known:
        if commit is None:
            yield _shut_note("merge-commit-unknown", gate=name)


def _shards_missing(found: Sequence[Found]) -> Iterator[Note]:
    """Of each machine and number of shards those that no gate was, and that shards divided
    different workloads.

    Each shard divides what it collected itself. Where two collected differently, a workload may be
    of neither: shard 1 of a, b, c, d leaves d to shard 2, and shard 2 of a, b, c has b alone.
    Shards that divided the same workloads are one gate's; there may be several such gates, of the
    parts of a project. A shard that does not say its machine, or what it divided, may be any that
    is missing; it is shut by that itself.
    """
    known: defaultdict[tuple[str, int], list[DocumentShard]] = defaultdict(list)
    unknown: defaultdict[int, set[int]] = defaultdict(set)
    for one in found:
        shard, machine = one.document.shard, one.document.machine
        if shard is None:
            continue
        if machine is None or shard.workloads is None:
            unknown[shard.of].add(shard.index)
        else:
            known[machine.gpu_name, shard.of].append(shard)
    known.update({("", of): [] for of in unknown if not any(number == of for _, number in known)})
    for (gpu, of), shards in known.items():
        divisions: dict[frozenset[str], set[int]] = {}
        for shard in shards:
            division = frozenset(shard.workloads or ())
            divisions.setdefault(division, set(unknown[of])).add(shard.index)
        torn = [division for division, indices in divisions.items() if len(indices) < of]
        there = set(unknown[of]).union(*(divisions[division] for division in torn))
        missing = tuple(f"{index}/{of}" for index in range(1, of + 1) if index not in there)
        if missing and (torn or not divisions):
            yield _shut_note(
                "merge-shards-missing",
                shards=missing,
                n=len(missing),
                gpu=f"on {gpu}" if gpu else "",
            )
        if len(torn) > 1:
            union = frozenset[str]().union(*torn)
            some = sorted(union - frozenset(union).intersection(*torn))
            yield _shut_note(
                "merge-shards-differ", of=of, gpu=f"on {gpu}" if gpu else "", workloads=tuple(some)
            )


def _shards_in_part(found: Sequence[Found]) -> Iterator[Note]:
    """Shards that do not say what they divided, and those that are open without all of their part.

    One that is shut and judged nothing may have ended before it collected.
    """
    for one in found:
        shard = one.document.shard
        if shard is None or not (one.document.opens_gate or _of(one)):
            continue
        if shard.workloads is None:
            yield _shut_note("merge-shard-of-what", gate=one.name, file=_in(one))
            continue
        judged = {held.verdict.workload for held in _of(one)}
        lacking = sorted(shard.part(frozenset(shard.workloads)) - judged - {*shard.skipped})
        if lacking and one.document.opens_gate:
            names = tuple(lacking)
            yield _shut_note("merge-shard-lacks", gate=one.name, file=_in(one), workloads=names)


def _judged_twice(workloads: Sequence[DocumentWorkload]) -> Iterator[Note]:
    """Workloads that two gates judged against one baseline: which of the verdicts holds?

    One of an unknown machine may be of any; it is shut by itself.
    """
    judges: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for held in workloads:
        if held.machine is not None:
            key = (held.machine.slug, held.machine.gpu_name, held.verdict.workload)
            judges[key].append(held.gate)
    for (_, gpu, workload), gates in judges.items():
        if len(gates) > 1:
            yield _shut_note("merge-judged-twice", workload=workload, gpu=gpu, gates=tuple(gates))


def _shut(found: Sequence[Found], workloads: Sequence[DocumentWorkload]) -> Iterator[Note]:
    """Why the gates themselves are shut: their workloads, and what else they say."""
    for name, held in zip(shown_names(workloads), workloads, strict=True):
        if not held.opens_gate:
            yield _shut_note("workload-shuts", workload=name, outcome=held.verdict.outcome)
    for one in found:
        document = one.document
        for sentence in reasons_besides(document.shut_by, document.workloads):
            before = f"{one.name}: " if len(found) > 1 else ""
            yield quoted(f"{before}{sentence}", Severity.INVALID)
        if document.opens_gate and document.exit_status != 0:
            status = document.exit_status
            yield _shut_note("merge-open-but-failed", gate=one.name, status=status)
        elif not document.opens_gate and not document.shut_by:
            yield _shut_note("merge-shut-without-reason", gate=one.name)


def _contradictions(one: Found) -> Iterator[Note]:
    """What a gate says of its workloads that does not go with outcomes that open it, or with its
    being loosened."""
    loosening = one.document.loosening
    if loosening is not None and loosening.shuts and one.document.opens_gate:
        yield _shut_note("merge-open-but-loosened", file=_in(one))
    for held in _of(one):
        if not (held.opens_gate and _lets_open(held, one.document.settings)):
            continue
        verdict = held.verdict
        if whys := tuple(_unlike(held, one.document)):
            yield _shut_note(
                "merge-outcome-unlike",
                workload=verdict.workload,
                file=_in(one),
                outcome=verdict.outcome,
                whys=whys,
            )


def _unlike(held: DocumentWorkload, document: GateDocument) -> Iterator[Note]:
    verdict, settings = held.verdict, document.settings
    judged = [row for row in verdict.metrics if row.outcome is not None]
    if not verdict.runs or not (held.runs or held.interleaved_runs):
        yield note("merge-no-run")
    if document.machine is None:
        yield note("merge-no-machine")
    if not judged and verdict.outcome is not Outcome.NO_BASELINE:
        yield note("merge-no-metric")
    for row in {row.metric: row for row in judged}.values():
        opens = row.outcome is not None and opens_gate(
            row.outcome, on_inconclusive=settings.inconclusive, on_new=settings.new
        )
        # No judge passes what one of its rows does not, whatever the settings let in.
        if not opens or (verdict.outcome in PASSING and row.outcome not in PASSING):
            yield note("merge-metric-is", metric=row.metric, outcome=row.outcome)


# What else is to be known


def _information(found: Sequence[Found]) -> Iterator[Note]:
    documents = [one.document for one in found]
    versions = tuple(sorted({document.perfgate for document in documents} - {__version__}))
    if versions:
        yield note("merge-versions", versions=versions, own=__version__)
    changed = tuple(one.name for one in found if one.document.commit and one.document.commit.dirty)
    if changed:
        yield note("merge-with-changes", gates=changed)
    unlike = tuple(
        field
        for field in Settings.model_fields
        if len({repr(getattr(document.settings, field)) for document in documents}) > 1
    )
    if unlike:
        yield note("merge-settings-differ", settings=unlike, shown=found[0].name)
    for one in found:
        choice = one.document.choice
        # Of shards, what one leaves out the others measure.
        if choice and choice.by != ("--perfgate-shard",):
            yield note("merge-part-chosen", gate=one.name, choice=choice_text(choice))
    without = tuple(one.name for one in found if one.page is None and one.page_refused is None)
    if without:
        yield note("merge-without-page", file=PAGE_FILE, gates=without)
