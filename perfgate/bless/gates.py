"""Finds the documents of gates in folders, and reads them.

They may come from jobs that ran a stranger's code: they are validated and limited in size, and no
link is followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError

from perfgate.model.document import GateDocument
from perfgate.model.errors import DocumentUnreadable
from perfgate.model.note import Note, Severity, noted
from perfgate.model.pagedata import PageData
from perfgate.model.record import LARGEST_DOCUMENT
from perfgate.store.sealed import NotJson, first_complaint, parsed

DOCUMENT_FILE: Final = "perfgate.json"
PAGE_FILE: Final = "page.json"
_SHARED: Final = ("started_at", "opens_gate", "exit_status", "shut_by", "machine", "loosening")
"""What a page has in common with the document of its gate."""

_Read = TypeVar("_Read", GateDocument, PageData)


@dataclass(frozen=True, kw_only=True)
class Found:
    """One gate that was found in a folder."""

    folder: str
    document: GateDocument
    page: PageData | None = None
    """None where there is no `page.json` next to the document, and where that is left out."""

    @property
    def name(self) -> str:
        """What the gate is called: its label, or else its folder."""
        return self.document.label or self.folder


def find_gates(folders: Sequence[Path]) -> tuple[tuple[Found, ...], tuple[Note, ...]]:
    """Read the gates in these folders and below them, and note what cannot be read."""
    found: dict[str, Found] = {}
    unread: list[Note] = []
    for folder in folders:
        before = len(unread)
        places = list(_places(folder, unread))
        if not places and len(unread) == before:
            unread.append(_note("merge-no-gate", folder=folder, file=DOCUMENT_FILE))
        for place in places:
            if (real := os.path.realpath(place)) not in found:
                try:
                    found[real] = _gate_in(place, unread)
                except DocumentUnreadable as refused:
                    unread.append(noted(refused, Severity.INVALID))
    in_order = sorted(found.values(), key=lambda one: (not one.document.label, one.name))
    return tuple(in_order), tuple(unread)


def _places(folder: Path, unread: list[Note]) -> Iterator[Path]:
    """Folders at and below one that hold a gate's files; what cannot be listed is noted."""

    def refused(error: OSError) -> None:
        where = error.filename or folder
        unread.append(_note("merge-no-folder", folder=where, why=error.strerror or str(error)))

    for where, inner, files in os.walk(folder, onerror=refused):
        inner.sort()
        for name in inner:
            link = Path(where, name)
            if link.is_symlink() and os.path.lexists(link / DOCUMENT_FILE):
                unread.append(_note("merge-folder-is-link", folder=link))
        if {DOCUMENT_FILE, PAGE_FILE} & {*files, *inner}:
            yield Path(where)


def _note(code: str, *, folder: Path | str, **fields: str | Note) -> Note:
    return Note(code=code, severity=Severity.INVALID, fields={"folder": _text(folder), **fields})


def _text(path: Path | str) -> str:
    """A path as text that can be written: the bytes of a name need not be UTF-8."""
    return os.fsencode(path).decode(errors="replace")


def _gate_in(folder: Path, unread: list[Note]) -> Found:
    document = _read(folder / DOCUMENT_FILE, GateDocument, option="json")
    if document.gates:
        raise DocumentUnreadable("merge-of-merged", path=_text(folder / DOCUMENT_FILE))
    page: PageData | None = None
    if os.path.lexists(folder / PAGE_FILE):
        try:
            page = _page_of(document, folder / PAGE_FILE)
        except DocumentUnreadable as refused:
            unread.append(_note("merge-page-left-out", folder=folder, why=noted(refused)))
    return Found(folder=_text(folder), document=document, page=page)


def _page_of(document: GateDocument, file: Path) -> PageData:
    """The page's data; refused where it shows another verdict than the document."""
    page = _read(file, PageData, option="page-data")
    of_page = [(one.verdict, one.opens_gate) for one in page.workloads]
    if of_page != [(one.verdict, one.opens_gate) for one in document.workloads] or any(
        getattr(page, name) != getattr(document, name) for name in _SHARED
    ):
        raise DocumentUnreadable(
            "merge-page-of-another-gate", path=_text(file), document=DOCUMENT_FILE
        )
    return page


def _read(file: Path, of: type[_Read], *, option: str) -> _Read:
    def unreadable(code: str, **fields: str | Note) -> DocumentUnreadable:
        why = Note(code=code, fields=fields)
        return DocumentUnreadable(
            "merge-document-unreadable", path=_text(file), option=option, why=why
        )

    try:
        # Neither a link, which may lead anywhere, nor a pipe, which may never end.
        if not stat.S_ISREG(file.lstat().st_mode):
            raise unreadable("merge-no-plain-file")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(file, flags), "rb") as source:
            content = source.read(LARGEST_DOCUMENT + 1)
        if len(content) > LARGEST_DOCUMENT:
            raise unreadable("merge-too-large", largest=f"{LARGEST_DOCUMENT / 1e6:.0f} MB")
        parsed(content)  # no key twice; and of depth what can be written again:
        return of.model_validate_json(content)
    except OSError as refused:
        why = refused.strerror or str(refused)
        raise unreadable("merge-not-readable", why=why) from refused
    except ValidationError as broken:
        raise unreadable("merge-other-format", problem=first_complaint(broken)) from broken
    except NotJson as broken:
        raise unreadable("merge-other-format", problem=broken.why) from broken
