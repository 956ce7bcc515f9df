"""What `perfgate init` says of each file, of differences, and of what comes next. Returns, never prints."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import assert_never

from perfgate.init import templates
from perfgate.init.facts import Facts
from perfgate.init.origin import asked_for
from perfgate.init.plan import GPU, Kind, Planned, State
from perfgate.words.names import inflected

_FURTHER = (
    "Another project of this repository has comments, blessing by comment and occasions: bless this one at a desk. "
    "It is gated where its folder is changed; what it shares with others belongs into `measured` of the gate's file."
)
_UNPRINTABLE = re.compile(
    r"[^\t\x20-\x7e\xa0-\uffff\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def init_text(facts: Facts, files: Sequence[Planned], written: Sequence[Planned]) -> str:
    """Tell what was written and what was left, with the differences, and what comes next."""
    rows = [(*_done(file, is_written=file in written), file) for file in files]
    wide = max(len(word) for word, _, _ in rows)
    lines = [_title(facts), ""]
    lines += [f"  {word:<{wide}}  {file.path}{remark}" for word, remark, file in rows]
    differing = [file for file in files if file.there is not None and _differs(file)]
    for file in differing:
        lines += ["", *_difference(file, facts.version)]
    left = [
        str(file.path) for file in differing if file not in written and file.kind is Kind.GITHUB
    ]
    if left:
        lines += [
            "",
            f"Left as they are: {', '.join(left)}. perfgate init --force overwrites them.",
        ]
    project = templates.slug(facts.folder.as_posix())
    further = any(file.path.name == templates.file_of(templates.GATE, project) for file in files)
    remarks = [*([_FURTHER] if further else []), *facts.remarks]
    lines += [
        "",
        *_next_steps(facts, f"perfgate {project}" if further else "perfgate"),
        *(["", *remarks] if remarks else []),
    ]
    return _printable(lines)


def check_text(facts: Facts, files: Sequence[Planned]) -> str:
    """Tell of each file whether it is up to date, and what it lacks."""
    wide = max(len(file.state) for file in files)
    lines = [_title(facts), ""]
    for file in files:
        lines.append(f"  {_found(file):<{wide}}  {file.path}{_writer(file)}")
        lines += [f"  {'':<{wide}}    lacks: {one}" for one in file.lacks]
    told = sum(not is_up_to_date(file) for file in files)
    lines.append("")
    if told and facts.origin.url is None and facts.top is not None:
        lines += [asked_for(facts.origin.why_not), ""]
    if not told:
        lines.append("Nothing is lacking.")
    else:
        lines.append(f"{told} of {len(files)} {inflected(told, 'lacks', 'lack')} something.")
        lines.append(
            "perfgate init writes what is missing and shows what differs; --force overwrites what differs."
        )
    return _printable(lines)


def is_up_to_date(file: Planned) -> bool:
    """Whether a file is as safe and as able as the one that perfgate init writes today, as far as it can tell."""
    match file.state:
        case State.MISSING | State.OLDER:
            return False
        case State.SAME | State.NEWER | State.OTHER | State.ANOTHERS | State.EDITED:
            return not file.lacks
        case _:
            assert_never(file.state)


def _title(facts: Facts) -> str:
    if facts.top is None:
        return f"perfgate init in {facts.root}"
    where = "" if not facts.folder.parts else f", below {facts.top}"
    return f"perfgate init in {facts.root}{where} (branch {facts.branch}, Python {facts.python})"


def _differs(file: Planned) -> bool:
    match file.kind:
        case Kind.GITHUB:
            return file.state in {State.OLDER, State.NEWER, State.OTHER, State.EDITED}
        case Kind.SETTINGS | Kind.WORKLOAD | Kind.LOCK:
            return False
        case _:
            assert_never(file.kind)


def _done(file: Planned, *, is_written: bool) -> tuple[str, str]:
    """The word of a file's row, and the remark behind its path."""
    if is_written:
        appended = file.kind is Kind.SETTINGS and file.there is not None
        word = (
            "written"
            if file.there is None or appended
            else "renewed"
            if file.kind is Kind.LOCK
            else "overwritten"
        )
        return word, ": [tool.perfgate] at its end" if appended else ""
    if file.kind is Kind.WORKLOAD:
        return (
            "there already",
            "" if file.state is State.SAME else ": no workload of perfgate; it is left",
        )
    if file.kind is Kind.LOCK:
        return (
            "there already",
            ""
            if file.state is State.SAME
            else f": {_why(file)}; perfgate init --renew-lock resolves it anew",
        )
    if file.state is State.ANOTHERS:
        return "there already", f": {_why(file)}"
    return ("there already", "") if file.state is State.SAME else ("differs", f": {_why(file)}")


def _why(file: Planned) -> str:
    match file.state:
        case State.OLDER | State.NEWER:
            return f"of perfgate {file.writer}, not edited since"
        case State.OTHER:
            return "not edited, but other things are found here now"
        case State.EDITED:
            return "edited by hand" if file.writer else "not written by perfgate init"
        case State.ANOTHERS:
            return "it gates another project, to which it is left"
        case State.MISSING | State.SAME:
            return file.state.value
        case _:
            assert_never(file.state)


def _found(file: Planned) -> str:
    return (
        "edited" if file.kind is Kind.WORKLOAD and file.state is State.EDITED else file.state.value
    )


def _writer(file: Planned) -> str:
    if file.kind is Kind.SETTINGS and file.state is State.MISSING and file.there is not None:
        return ": [tool.perfgate]"
    return f": {_why(file)}" if _differs(file) or file.state is State.ANOTHERS else ""


def _difference(file: Planned, version: str) -> list[str]:
    there, meant = (file.there or "").splitlines(), file.text.splitlines()
    names = {"fromfile": str(file.path), "tofile": f"{file.path} of perfgate init {version}"}
    told = list(difflib.unified_diff(there, meant, **names, lineterm="", n=1))
    return told or [f"{file.path}: only its line ends differ"]


def _next_steps(facts: Facts, check: str) -> list[str]:
    in_repository = any((folder / ".git").exists() for folder in (facts.root, *facts.root.parents))
    committed = (
        "all this committed, " if in_repository else ""
    )  # so that the baseline knows its commit
    lines = [
        f"Next, in {facts.root}, {committed}on a machine with a GPU (perfgate doctor says what is missing there):",
        "  pytest --perfgate",
        '  perfgate bless --reason "first baseline"',
    ]
    if facts.top is not None:
        lines += [
            "On GitHub, once all this is committed:",
            f"  a runner with the labels self-hosted and {GPU}, and nsys and the GPU's driver on it;",
            f"  for more GPUs or shards of the workloads, the matrix in {check.replace(' ', '-')}-gate.yml;",
            f"  the check {check} / Verdict as a required one, so that nothing is merged that keeps the gate shut;",
            "  the label perfgate-approved, for maintainers to let one commit of a fork run there;",
            '  "Allow GitHub Actions to create and approve pull requests" in Settings, Actions, General.',
        ]
    return lines


def _printable(lines: Sequence[str]) -> str:
    """Lines as a text, without what would steer a terminal: names of files and branches are anybody's."""
    return "".join(
        _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", line) + "\n" for line in lines
    )
