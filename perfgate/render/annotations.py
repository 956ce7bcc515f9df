"""One gate as commands to the runner of GitHub Actions, which it shows beside the code.

All text from elsewhere is inert: a workload's name or reason may come from a stranger's pull request, and cannot begin
another command, end a property or point out of the repository.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Final, Literal

from perfgate.model.document import DocumentWorkload, GateDocument, other_reasons
from perfgate.model.merged import shown_names
from perfgate.model.outcome import PASSING, WORST_FIRST
from perfgate.model.words import plural
from perfgate.render.page import inert, inert_prose

MOST: Final = 10
"""Errors of a step that GitHub shows, and as many warnings."""
LONGEST: Final = 2000
"""Characters of a message."""

Kind = Literal["error", "warning", "notice"]


def gate_annotations(document: GateDocument, *, prefix: PurePath) -> tuple[str, ...]:
    """Return a command for each workload that is not PASSED or IMPROVED, and for whatever else keeps the gate shut.

    Errors come before warnings, and the worst first; what GitHub would not show is counted in the last one.

    Args:
        document: all that the gate found.
        prefix: where the project lies in its repository.
    """
    named = zip(shown_names(document.workloads), document.workloads, strict=True)
    ordered = sorted(named, key=lambda pair: WORST_FIRST.index(pair[1].verdict.outcome))
    errors = [_of(name, one, prefix) for name, one in ordered if not one.opens_gate]
    errors += [
        command("error", _plain(reason), title="perfgate: gate shut")
        for reason in other_reasons(document)
    ]
    let_in = [
        (name, one)
        for name, one in ordered
        if one.opens_gate and one.verdict.outcome not in PASSING
    ]
    warnings = [_of(name, one, prefix) for name, one in let_in]
    return (*errors[:MOST], *warnings[:MOST], *_rest(errors, warnings))


def command(
    kind: Kind, message: str, *, title: str = "", file: str = "", line: int | None = None
) -> str:
    """Return a command that the runner shows a message by; no text can end it, or begin another."""
    given = {"file": file, "line": "" if line is None else str(line), "title": title}
    properties = ",".join(f"{name}={_property(value)}" for name, value in given.items() if value)
    return f"::{kind}{' ' if properties else ''}{properties}::{_data(message)}"


def _of(name: str, one: DocumentWorkload, prefix: PurePath) -> str:
    verdict = one.verdict
    where = (f"{metric}: {told}" for metric, told in verdict.where.items())
    said = "\n".join(
        part for part in (verdict.reason, *where, *verdict.caveats, verdict.next_step) if part
    )
    file = _file(one.source, prefix)
    return command(
        "warning" if one.opens_gate else "error",
        _plain(said or verdict.outcome),
        title=f"{inert(name)}: {verdict.outcome}",
        file=file,
        line=one.line if file else None,
    )


def _file(source: str | None, prefix: PurePath) -> str:
    """The workload's file in the repository; nothing of one that would lie elsewhere, or is no name to be shown."""
    if source is None or inert(source, longest=1000) != source:
        return ""
    path = PurePosixPath(source)
    if path.is_absolute() or ".." in path.parts or PureWindowsPath(source).anchor or "\\" in source:
        return ""
    return (PurePosixPath(prefix.as_posix()) / path).as_posix()


def _plain(text: str) -> str:
    """A text of several lines without what cannot be seen."""
    told = "\n".join(inert_prose(text))
    return told if len(told) <= LONGEST else f"{told[:LONGEST]}..."


def _rest(errors: Sequence[str], warnings: Sequence[str]) -> tuple[str, ...]:
    """A line that says how many more there are; a notice, of which GitHub shows ten besides."""
    more = ((len(errors) - MOST, "error"), (len(warnings) - MOST, "warning"))
    told = [plural(count, f"more {noun}") for count, noun in more if count > 0]
    if not told:
        return ()
    return (
        command("notice", f"{' and '.join(told)} in the summary of this job.", title="perfgate"),
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
