"""Makes one verdict of several gates: shards of a project's workloads, kinds of GPU, or both;
judges no workload.

What it reads may come from jobs that ran a stranger's code: it is validated, limited in size, and
never trusted to be open because it says so.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError

from perfgate import __version__
from perfgate.model.baseline import Commit
from perfgate.model.document import (
    DocumentShard,
    DocumentWorkload,
    GateDocument,
    read_document,
    reasons_besides,
)
from perfgate.model.errors import DocumentUnreadable
from perfgate.model.limits import LARGEST_DOCUMENT
from perfgate.model.loosening import Direction, Loosening
from perfgate.model.merged import MergedGate, shown_names
from perfgate.model.outcome import PASSING, OnLoosened, Outcome, opens_gate
from perfgate.model.pagedata import PageData, PageWorkload, page_data, read_page_data
from perfgate.model.record import TwinKeys, without_twins
from perfgate.model.settings import Settings
from perfgate.render.gate import choice_text
from perfgate.words.names import inflected, plural

DOCUMENT_FILE: Final = "perfgate.json"
PAGE_FILE: Final = "page.json"
MOST_BYTES: Final = LARGEST_DOCUMENT
"""Of a file that is read."""
MOST_GATES: Final = 256
"""As many jobs as one matrix of GitHub Actions may have."""
MOST_SHOWN: Final = 200
"""Characters of where a file is not of the format; a stranger may have named the fields."""
MOST_DEEP: Final = 4
"""Folders below a named one in which gates that are not looked for are noticed, such as
`.perfgate/github` of a job."""
SHOWN_SHA: Final = 12
SHOWN_SHARDS: Final = 5
SHOWN_DEEP: Final = 5

_Read = TypeVar("_Read", GateDocument, PageData)


@dataclass(frozen=True, kw_only=True)
class Found:
    """One gate that was found in a folder."""

    folder: str
    """As it was named."""
    name: str
    """What the gate is called: its label, or else where it was found; of several that bear one
    label, both."""
    document: GateDocument
    page: PageData | None = None
    """None where there is no `page.json` beside the document, and where that is left out."""
    page_refused: str = ""
    """Why the `page.json` beside the document is left out; empty where it is not."""


def find_gates(folders: Sequence[Path]) -> tuple[tuple[Found, ...], tuple[str, ...]]:
    """Read the gates in these folders and the folders in them, and say of which folders none can be
    read.

    Deeper ones are not read; that there are some is said as well, down to `MOST_DEEP` folders.

    Raises:
        DocumentUnreadable: there are too many.
    """
    found: list[Found] = []
    unread: list[str] = []
    seen: set[Path] = set()
    looked: set[str] = set()
    for folder in folders:
        try:
            places = _places(folder)
        except OSError as refused:
            unread.append(_no_folder(folder, refused))
            continue
        looked.update(map(os.path.realpath, places))
        here = [place for place in places if _is_there(place / DOCUMENT_FILE)]
        bare = [place for place in places if place not in here and _is_there(place / PAGE_FILE)]
        unread += [
            f"{_told(place)}: there is a {PAGE_FILE} in it and no {DOCUMENT_FILE}" for place in bare
        ]
        if not here and not bare:
            unread.append(
                f"{_told(folder)}: there is no {DOCUMENT_FILE} in it, nor in a folder of it"
            )
        for place in here:
            is_link = place is not folder and place.is_symlink()
            real = place.absolute() if is_link else Path(os.path.realpath(place))
            if real in seen:
                continue
            seen.add(real)
            if len(seen) > MOST_GATES:
                raise DocumentUnreadable("merge-too-many", path=_told(folder), most=MOST_GATES)
            try:
                if is_link:
                    raise _unreadable(
                        place / DOCUMENT_FILE, "its folder is a link, which is not followed"
                    )
                found.append(_gate_in(place))
            except DocumentUnreadable as refused:
                unread.append(
                    f"the gate in {_told(place)} cannot be read: {_in_line(refused, place)}"
                )
    return _named(found), (*unread, *_too_deep(folders, looked))


def _too_deep(folders: Sequence[Path], looked: Container[str]) -> Iterator[str]:
    """Say which gates lie deeper than was looked: what is not seen would not be missed."""
    for folder in folders:
        deep = [
            place
            for place in _below(folder)
            if _is_there(place / DOCUMENT_FILE) and os.path.realpath(place) not in looked
        ]
        if deep:
            more = f" and {len(deep) - SHOWN_DEEP} more" if len(deep) > SHOWN_DEEP else ""
            told = ", ".join(map(_told, deep[:SHOWN_DEEP]))
            yield f"{_told(folder)}: gates lie deeper in it than in a folder of it, and are not read: {told}{more}"


def _below(folder: Path) -> Iterator[Path]:
    """Folders in the folders of one, without following links; those that cannot be listed have
    none."""
    for where, inner, _ in os.walk(folder):
        place = Path(where)
        depth = len(place.relative_to(folder).parts)
        if depth > 1:
            yield place
        inner[:] = sorted(inner) if depth < MOST_DEEP else []


def _is_there(file: Path) -> bool:
    """Whether there is one, be it that it cannot be read; what is not seen would not be missed."""
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _no_folder(folder: Path, refused: OSError) -> str:
    if folder.is_dir():
        return f"{_told(folder)}: it cannot be listed ({refused.strerror or refused})"
    if os.path.lexists(folder):
        return f"{_told(folder)}: it is a file; name the folder that holds it"
    return f"{_told(folder)}: it does not exist"


def _told(path: Path) -> str:
    """A path as text that can be written: the bytes of a name need not be UTF-8."""
    return os.fsencode(path).decode(errors="replace")


def _in_line(refused: DocumentUnreadable, folder: Path) -> str:
    """The words of an error of a file, in a sentence that names its folder."""
    return str(refused).removeprefix(f"{_told(folder)}/").replace("\n", " ")


def _named(found: Sequence[Found]) -> tuple[Found, ...]:
    borne = Counter(one.document.label for one in found)
    named = [
        replace(one, name=f"{one.document.label} in {one.folder}")
        if borne[one.document.label] > 1
        else one
        for one in found
        if one.document.label
    ]
    nameless = [one for one in found if not one.document.label]
    return tuple(sorted((*named, *nameless), key=lambda one: (one.name, one.folder)))


def _places(folder: Path) -> list[Path]:
    return [folder, *sorted(inner for inner in folder.iterdir() if inner.is_dir())]


def _gate_in(folder: Path) -> Found:
    document = _read(folder / DOCUMENT_FILE, read_document)
    if document.gates:
        raise DocumentUnreadable("merge-of-merged", path=_told(folder / DOCUMENT_FILE))
    found = Found(folder=_told(folder), name=document.label or _told(folder), document=document)
    try:
        return replace(found, page=_page_in(folder, document))
    except DocumentUnreadable as refused:
        return replace(found, page_refused=_in_line(refused, folder))


def _page_in(folder: Path, document: GateDocument) -> PageData | None:
    beside = folder / PAGE_FILE
    if not _is_there(beside):
        return None
    page = _read(beside, read_page_data)
    if not _is_page_of(page, document):
        raise DocumentUnreadable(
            "merge-page-of-another-gate", path=_told(beside), document=DOCUMENT_FILE
        )
    return page


def _is_page_of(page: PageData, document: GateDocument) -> bool:
    """Whether both tell the same of the same gate, so that the merged page and the merged verdict
    cannot differ."""
    told = ("started_at", "opens_gate", "exit_status", "shut_by", "machine", "loosening")
    return all(getattr(page, name) == getattr(document, name) for name in told) and [
        (one.verdict, one.opens_gate) for one in page.workloads
    ] == [(one.verdict, one.opens_gate) for one in document.workloads]


def _read(file: Path, parse: Callable[[str], _Read]) -> _Read:
    try:
        # Neither a link, which may lead anywhere, nor a pipe, which may never end.
        kind = stat.S_IFMT(file.lstat().st_mode)
        if kind != stat.S_IFREG:
            raise _unreadable(
                file,
                "it is a link, which is not followed"
                if kind == stat.S_IFLNK
                else "it is no plain file",
            )
        with os.fdopen(
            os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb"
        ) as source:
            content = source.read(MOST_BYTES + 1)
    except OSError as refused:
        raise _unreadable(file, f"it cannot be read ({refused.strerror or refused})") from refused
    if len(content) > MOST_BYTES:
        raise _unreadable(file, f"it is larger than {MOST_BYTES / 1e6:.0f} MB")
    try:
        text = content.decode("utf-8")
        parsed = parse(text)
    except UnicodeDecodeError as broken:
        raise _unreadable(file, "it is no UTF-8 text") from broken
    except ValidationError as broken:
        first = broken.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))[:MOST_SHOWN]
        fact = f"it is not of the format that this perfgate reads ({where + ': ' if where else ''}{first['msg']})"
        raise _unreadable(file, fact) from broken
    try:
        json.loads(text, object_pairs_hook=without_twins, parse_int=str, parse_float=str)
    except TwinKeys as twins:
        raise _unreadable(file, str(twins)) from twins
    return parsed


def _unreadable(file: Path, fact: str) -> DocumentUnreadable:
    return DocumentUnreadable(
        "merge-document-unreadable",
        path=_told(file),
        option="json" if file.name == DOCUMENT_FILE else "page-data",
        why=fact,
    )


def merge(
    found: Sequence[Found], *, unread: Sequence[str] = (), expect: int | None = None, at: datetime
) -> GateDocument:
    """Make one document of several gates' documents.

    It opens only if every gate does, by its word and by its workloads' outcomes, and what it tells
    of them agrees with that; all that were expected are there, each once and of one commit; all
    that was found could be read; of shards none is missing, all divided the same workloads, and
    each judged its part; no workload was judged twice for one machine; and each gate judged one at
    all.

    Args:
        found: the gates, in the order in which they are told.
        unread: where one was looked for in vain, or could not be read; a sentence each.
        expect: how many gates there should be, where that is known.
        at: when they are merged; told where no gate says when it began.
    """
    documents = [one.document for one in found]
    workloads = tuple(_placed(told, one) for one in found for told in one.document.workloads)
    shut_by = (
        *unread,
        *(
            f"the page of the gate in {one.folder} is left out: {one.page_refused}"
            for one in found
            if one.page_refused
        ),
        *_not_as_expected(found, expect),
        *_twice(found),
        *_of_other_commits(found),
        *_torn_shards(found),
        *_untold_of_shards(found),
        *_judged_twice(workloads),
        *_shut(found, workloads),
        *(contradiction for one in found for contradiction in _contradictions(one)),
    )
    machines = [document.machine for document in documents]
    return GateDocument(
        perfgate=__version__,
        started_at=min((document.started_at for document in documents), default=at),
        ended_at=max((document.ended_at for document in documents), default=at),
        opens_gate=not shut_by,
        exit_status=int(bool(shut_by)),
        shut_by=shut_by,
        machine=machines[0] if machines and all(one == machines[0] for one in machines) else None,
        commit=_common_commit(documents),
        gates=tuple(
            MergedGate(
                label=one.name,
                opens_gate=_opens(one),
                started_at=one.document.started_at,
                ended_at=one.document.ended_at,
                machine=one.document.machine,
                workloads=len(one.document.workloads),
            )
            for one in found
        ),
        remarks=_remarks(found),
        loosening=_loosening(documents),
        settings=documents[0].settings if documents else Settings(),
        workloads=workloads,
    )


def _loosening(documents: Sequence[GateDocument]) -> Loosening | None:
    """What any of the gates found to differ from its base branch's; approved only where it was of
    all."""
    told = [document.loosening for document in documents if document.loosening is not None]
    if not told:
        return None
    order = list(Direction)
    found = dict.fromkeys(one for loosening in told for one in loosening.differences)
    return Loosening(
        base=told[0].base,
        on=OnLoosened.FAIL if any(one.on is OnLoosened.FAIL for one in told) else OnLoosened.WARN,
        approved=all(one.approved for one in told),
        differences=tuple(sorted(found, key=lambda one: order.index(one.direction))),
    )


def merged_page(document: GateDocument, found: Sequence[Found]) -> PageData:
    """The page of a document that was merged of these gates: what each knew, or else what its
    document tells."""
    told = page_data(document)
    workloads = tuple(
        _shown(page, one)
        for one in found
        for page in (one.page or page_data(one.document)).workloads
    )
    return told.model_copy(update={"workloads": workloads})


def _placed(told: DocumentWorkload, of: Found) -> DocumentWorkload:
    lets = told.opens_gate and _lets_open(told, of.document.settings)
    return told.model_copy(
        update={"machine": of.document.machine, "gate": of.name, "opens_gate": lets}
    )


def _shown(told: PageWorkload, of: Found) -> PageWorkload:
    lets = told.opens_gate and _lets_open(told, of.document.settings)
    return told.model_copy(
        update={"machine": of.document.machine, "gate": of.name, "opens_gate": lets}
    )


def _lets_open(told: DocumentWorkload | PageWorkload, settings: Settings) -> bool:
    """What the verdict does by the gate's own settings, whatever the gate says of it."""
    return told.verdict.opens(on_inconclusive=settings.inconclusive, on_new=settings.new)


def _opens_by(outcome: Outcome | None, settings: Settings) -> bool:
    return outcome is None or opens_gate(
        outcome, on_inconclusive=settings.inconclusive, on_new=settings.new
    )


def _opens(gate: Found) -> bool:
    """Whether a gate is open, and all that it says agrees with that."""
    document = gate.document
    lets = all(
        told.opens_gate and _lets_open(told, document.settings) for told in document.workloads
    )
    says = document.opens_gate and document.exit_status == 0 and not document.shut_by
    return says and bool(document.workloads) and lets and not any(_contradictions(gate))


def _contradictions(gate: Found) -> Iterator[str]:
    """What a gate tells of its workloads that does not go with outcomes that open it, or with its
    being loosened."""
    loosening = gate.document.loosening
    if loosening is not None and loosening.shuts and gate.document.opens_gate:
        yield f"{gate.folder}/{DOCUMENT_FILE} says that it is open, and that it was loosened without approval"
    for told in gate.document.workloads:
        if not (told.opens_gate and _lets_open(told, gate.document.settings)):
            continue
        verdict = told.verdict
        judged = [row for row in verdict.metrics if row.outcome is not None]
        # No judge passes what one of its rows does not, whatever the settings let in.
        passes = verdict.outcome in PASSING
        unlike = (
            f"{row.metric} is {row.outcome}"
            for row in judged
            if not _opens_by(row.outcome, gate.document.settings)
            or (passes and row.outcome not in PASSING)
        )
        whys = [
            *(
                ["no run was made"]
                if not verdict.runs or not (told.runs or told.interleaved_runs)
                else []
            ),
            *(["no machine was read"] if gate.document.machine is None else []),
            *(
                ["no metric was judged"]
                if not judged and verdict.outcome is not Outcome.NO_BASELINE
                else []
            ),
            *dict.fromkeys(unlike),
        ]
        if whys:
            yield f"{verdict.workload}: {gate.folder}/{DOCUMENT_FILE} says {verdict.outcome} where {' and '.join(whys)}"


def _not_as_expected(found: Sequence[Found], expect: int | None) -> Iterator[str]:
    if expect is not None and len(found) != expect:
        names = ", ".join(one.name for one in found) or "none"
        wanted = f"{plural(expect, 'gate')} {inflected(expect, 'was', 'were')} expected"
        yield f"{wanted}, and {plural(len(found), 'gate')} found: {names}"
    if not any(one.document.workloads for one in found):
        yield "no workload was judged, so nothing is known"
        return
    for one in found:
        if not one.document.workloads and one.document.opens_gate:
            yield f"{one.name}: {one.folder}/{DOCUMENT_FILE} says that it is open, and no workload was judged"


def _twice(found: Sequence[Found]) -> Iterator[str]:
    by_label: defaultdict[str, list[str]] = defaultdict(list)
    for one in found:
        by_label[one.document.label].append(one.folder)
    for label, folders in by_label.items():
        if label and len(folders) > 1:
            yield f"{label}: {len(folders)} gates bear this label ({', '.join(folders)}), and a gate counts once"
    nameless = [one for one in found if not one.document.label]
    for number, one in enumerate(nameless):
        twins = [other.folder for other in nameless[number + 1 :] if other.document == one.document]
        if twins:
            yield f"{one.folder}: the same gate is in {', '.join(twins)} as well, and a gate counts once"


def _of_other_commits(found: Sequence[Found]) -> Iterator[str]:
    if len(found) < 2:
        return
    known = [
        (one.name, one.document.commit.sha) for one in found if one.document.commit is not None
    ]
    if len({sha for _, sha in known}) > 1:
        told = ", ".join(f"{name} of {sha[:SHOWN_SHA]}" for name, sha in known)
        yield f"the gates are of several commits, and a verdict is of one: {told}"
    for one in found:
        if one.document.commit is None:
            yield f"{one.name}: it does not say at which commit it was measured"


def _common_commit(documents: Sequence[GateDocument]) -> Commit | None:
    """The commit that all are of; with changes where one of them was measured with changes."""
    commits = [document.commit for document in documents if document.commit is not None]
    if not commits or len(commits) < len(documents) or len({commit.sha for commit in commits}) > 1:
        return None
    branches = {commit.branch for commit in commits}
    return Commit(
        sha=commits[0].sha,
        dirty=any(commit.dirty for commit in commits),
        branch=commits[0].branch if len(branches) == 1 else None,
        tree=commits[0].tree,
    )


def _torn_shards(found: Sequence[Found]) -> Iterator[str]:
    """Of each machine and each number of shards those that no gate was, and what some of them
    divided and others not.

    Each shard divides what it collected itself. Where two collected differently, a workload may be
    of neither: shard 1 of a, b, c, d leaves d to shard 2, and shard 2 of a, b, c has b alone.
    Shards of one machine that divided the same workloads are one gate's; there may be several such
    gates, of the parts of a project.

    A gate that does not say its machine, or what it divided, may be any that is missing; it is shut
    by that itself.
    """
    there: defaultdict[tuple[str, int], list[tuple[Found, DocumentShard]]] = defaultdict(list)
    anywhere: defaultdict[int, set[int]] = defaultdict(set)
    gpu_names: dict[str, str] = {}
    for one in found:
        shard, machine = one.document.shard, one.document.machine
        if shard is None:
            continue
        if machine is None:
            anywhere[shard.of].add(shard.index)
        else:
            there[machine.slug, shard.of].append((one, shard))
            gpu_names[machine.slug] = machine.gpu_name
    for of in anywhere:
        if not any(number == of for _, number in there):
            there["", of] = []
    for (slug, of), shards in there.items():
        where = f" on {gpu_names[slug]}" if slug else ""
        vague = anywhere[of] | {shard.index for _, shard in shards if shard.workloads is None}
        by_division: defaultdict[frozenset[str], list[tuple[Found, DocumentShard]]] = defaultdict(
            list
        )
        for one, shard in shards:
            if shard.workloads is not None:
                by_division[frozenset(shard.workloads)].append((one, shard))
        torn = {
            division: members
            for division, members in by_division.items()
            if len(vague | {shard.index for _, shard in members}) < of
        }
        indices = vague | {shard.index for members in torn.values() for _, shard in members}
        missing = [f"{index}/{of}" for index in range(1, of + 1) if index not in indices]
        if missing and (torn or not by_division):
            noun, verb = ("shard", "is") if len(missing) == 1 else ("shards", "are")
            yield f"{noun} {_first_of(missing)}{where} {verb} missing"
        if len(torn) > 1:
            gates = {division: [one for one, _ in members] for division, members in torn.items()}
            yield _divided_differently(
                gates, f"the shards of {of}{where}", complete=not missing and not vague
            )


def _divided_differently(
    gates: Mapping[frozenset[str], Sequence[Found]], which: str, *, complete: bool
) -> str:
    """Say what some gates collected and others did not, by what each divided; of all shards also
    what that lost."""
    union = frozenset[str]().union(*gates)
    lost = sorted(
        union - {name for members in gates.values() for one in members for name in _told_by(one)}
    )
    fell = (
        f"so that {_first_of(lost)} fell to none"
        if complete and lost
        else "so that one may have fallen to none"
    )
    lacking = [
        f"{_first_of([one.name for one in members])} did not collect {_first_of(sorted(union - division))}"
        for division, members in gates.items()
        if division != union
    ]
    return (
        f"{which} divided different workloads, {fell}: {_first_of(lacking, between='; ')}. "
        "All should collect the same. Give them the same options, environment and parameters, and skip by a mark what "
        "a file skips by itself."
    )


def _told_by(gate: Found) -> frozenset[str]:
    """The workloads that a gate judged, or says were skipped."""
    shard = gate.document.shard
    return frozenset(
        {
            *(shard.skipped if shard else ()),
            *(told.verdict.workload for told in gate.document.workloads),
        }
    )


def _first_of(told: Sequence[str], *, between: str = ", ") -> str:
    more = f" and {len(told) - SHOWN_SHARDS} more" if len(told) > SHOWN_SHARDS else ""
    return between.join(told[:SHOWN_SHARDS]) + more


def _untold_of_shards(found: Sequence[Found]) -> Iterator[str]:
    """Shards that do not say what they divided, and those that say they are open without all of
    their part.

    One that is shut and judged nothing may have ended before it collected.
    """
    for one in found:
        shard, document = one.document.shard, one.document
        if shard is None or not (document.opens_gate or document.workloads):
            continue
        if shard.workloads is None:
            yield (
                f"{one.name}: {one.folder}/{DOCUMENT_FILE} does not say which workloads the shards divided. One that "
                "fell to none of them would not be missed. Gate all shards anew, with the perfgate that merges."
            )
            continue
        untold = sorted(shard.part(frozenset(shard.workloads)) - _told_by(one))
        if untold and document.opens_gate:
            yield (
                f"{one.name}: {one.folder}/{DOCUMENT_FILE} says that it is open, and does not tell of "
                f"{_first_of(untold)}, which fell to it. Gate this shard anew."
            )


def _judged_twice(workloads: Sequence[DocumentWorkload]) -> Iterator[str]:
    """Workloads that two gates judged against one baseline: which of the verdicts holds?

    One of an unknown machine may be of any; it is shut by itself.
    """
    judges: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    gpu_names: dict[str, str] = {}
    for told in workloads:
        if told.machine is not None:
            judges[told.machine.slug, told.verdict.workload].append(told.gate)
            gpu_names[told.machine.slug] = told.machine.gpu_name
    for (slug, workload), gates in judges.items():
        if len(gates) > 1:
            yield f"{workload} on {gpu_names[slug]}: {len(gates)} gates judged it ({', '.join(gates)})"


def _shut(found: Sequence[Found], workloads: Sequence[DocumentWorkload]) -> Iterator[str]:
    """Why the gates themselves are shut: their workloads, and what else they say."""
    for name, told in zip(shown_names(workloads), workloads, strict=True):
        if not told.opens_gate:
            yield f"{name}: {told.verdict.outcome}"
    for one in found:
        document = one.document
        before = f"{one.name}: " if len(found) > 1 else ""
        besides = reasons_besides(document.shut_by, document.workloads)
        yield from (f"{before}{sentence}" for sentence in besides)
        if document.opens_gate and document.exit_status != 0:
            yield f"{one.name}: it says that it is open, and that pytest ended with {document.exit_status}"
        elif not document.opens_gate and not document.shut_by:
            yield f"{one.name}: it is shut, and does not say why"


def _remarks(found: Sequence[Found]) -> tuple[str, ...]:
    documents = [one.document for one in found]
    remarks: list[str] = []
    versions = sorted({document.perfgate for document in documents} - {__version__})
    if versions:
        remarks.append(f"Measured by perfgate {' and '.join(versions)}, merged by {__version__}.")
    changed = [
        one.name for one in found if one.document.commit is not None and one.document.commit.dirty
    ]
    if changed:
        remarks.append(f"Measured with uncommitted changes: {', '.join(changed)}.")
    unlike = [
        field
        for field in Settings.model_fields
        if any(
            getattr(document.settings, field) != getattr(documents[0].settings, field)
            for document in documents
        )
    ]
    if unlike:
        remarks.append(
            f"The gates differ in their settings ({', '.join(unlike)}); shown are those of {found[0].name}."
        )
    # Of shards, what one leaves out the others measure.
    chosen = [(one.name, one.document.choice) for one in found]
    remarks += [
        f"{name}: {choice_text(by)}."
        for name, by in chosen
        if by and by.by != ("--perfgate-shard",)
    ]
    bare = [one.name for one in found if one.page is None and not one.page_refused]
    if bare:
        remarks.append(
            f"Without blessed runs, timelines and history on the page, for there is no {PAGE_FILE}: {', '.join(bare)}."
        )
    return tuple(remarks)
