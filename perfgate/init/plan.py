"""The files of a scaffold beside what is there: which are missing, the same, older, edited. Writes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final

from packaging.version import InvalidVersion, Version

from perfgate.init import lock as locking
from perfgate.init import table, templates
from perfgate.init.facts import PYPROJECT, Facts
from perfgate.init.lacking import gated_folders, installing, lacking
from perfgate.model.errors import ScaffoldRefused
from perfgate.workload import holds_workloads, workload_files

GPU: Final = "gpu"
"""The label of the runners that gates run on, beside `self-hosted`: the first of the workflows' matrix."""
LARGEST_BYTES: Final = 1 << 20
"""Of a file that is still compared; a workflow has some kilobytes."""


_NOTHING: Final = "Nothing was written."


class Kind(StrEnum):
    """What a file is to the project."""

    SETTINGS = "settings"
    WORKLOAD = "workload"
    GITHUB = "github"
    """A workflow, or the action: perfgate's, until someone edits it."""
    LOCK = "lock"
    """The lock file: renewed unless someone has edited it."""


class State(StrEnum):
    """What is where a file of the scaffold belongs."""

    MISSING = "missing"
    SAME = "up to date"
    OLDER = "older"
    """As an older perfgate wrote it."""
    NEWER = "newer"
    """As a newer perfgate wrote it."""
    OTHER = "of other settings"
    """As this perfgate wrote it when something else was found in the repository."""
    ANOTHERS = "of another project"
    """It gates another project of the repository: never overwritten."""
    EDITED = "edited"
    """By hand, or not perfgate's at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """One file of the scaffold."""

    path: PurePosixPath
    """From the boundary: the repository's top, or the project's root where there is no repository."""
    target: Path
    kind: Kind
    text: str
    """The whole file as perfgate init means it."""
    there: str | None
    """The whole file as it is, None where there is none."""
    state: State
    lacks: tuple[str, ...]
    """What an older or edited file lacks, a sentence each."""
    writer: str
    """The version of the perfgate that wrote what is there; empty where that is not known."""


def plan(facts: Facts, *, resolve: bool = True, renew: bool = False) -> tuple[Planned, ...]:
    """Compare the scaffold with the project, in the order in which it is told.

    Args:
        facts: the project.
        resolve: whether an index is asked for a lock file that is missing or of other requirements.
        renew: whether it is asked for one that is neither.

    Raises:
        ScaffoldRefused: a file, or a folder of it, must not be written to or cannot be read; or the lock file cannot
            be made.
        ConfigInvalid: pyproject.toml takes no table.
    """
    github = tuple(_github(facts))
    gates_this = any(file.state is not State.ANOTHERS for file in github)
    lock = (
        [plan_lock(facts, resolve=resolve, renew=renew)]
        if gates_this and facts.origin.url is not None
        else []
    )
    return (_settings(facts), *_workloads(facts), *github, *lock)


def plan_lock(facts: Facts, *, resolve: bool, renew: bool) -> Planned:
    """Compare the lock file with what it is to be of.

    Raises:
        ScaffoldRefused: there is no repository; its place must not be written to; or it cannot be made.
    """
    if facts.top is None:
        raise ScaffoldRefused(
            subject=f".github/{locking.NAME}",
            fact="this is no git repository",
            expectation=f"The lock file is for its workflows. {_NOTHING}",
            next_step="Run it in the repository.",
        )
    target = facts.top / ".github" / locking.NAME
    _check_place(facts, target)
    there = _read(target)
    seal = None if there is None else templates.seal_of(there)
    is_current = there is not None and locking.is_current(there, facts.lock)
    if there is None:
        state = State.MISSING
    elif seal is None or not seal.intact:
        state = State.EDITED
    else:
        state = State.SAME if is_current else State.OTHER
    text = there or ""
    if resolve and (renew or state in {State.MISSING, State.OTHER}):
        text = locking.locked(facts.lock, version=facts.version)
        if there is not None:
            state = State.SAME if templates.same(text, there) else State.OTHER
    planned = _of(facts, target, kind=Kind.LOCK, text=text, there=there, state=state)
    lacks = () if there is None else locking.faults(there)
    if there is not None and not is_current:
        lacks = (
            *lacks,
            "it is not of what this perfgate needs. Resolve it anew: perfgate init --renew-lock",
        )
    return replace(planned, lacks=lacks)


def installing_faults(top: Path) -> tuple[str, ...] | None:
    """Return what is wrong with how the workflows below a repository's top install perfgate; None without any."""
    files = sorted((top / ".github" / "workflows").glob("perfgate*.yml"))
    there = {
        file.name: text for file in files if file.is_file() and (text := _read(file)) is not None
    }
    faults = [f"{name}, {fault}" for name, text in there.items() for fault in installing(text)]
    return tuple(faults) if there else None


def _settings(facts: Facts) -> Planned:
    there = facts.pyproject
    text = there if there is not None and facts.has_table else table.with_table(there or "")
    state = State.SAME if text == there else State.MISSING
    return _planned(facts, facts.root / PYPROJECT, kind=Kind.SETTINGS, text=text, state=state)


def _workloads(facts: Facts) -> Iterator[Planned]:
    """The example, unless there is a workload already."""
    folder = facts.root / facts.settings.workloads
    if (held := _first_workload(folder)) is not None:
        yield _of(facts, held, kind=Kind.WORKLOAD, text="", there="", state=State.SAME)
        return
    target = Path(os.path.normpath(folder / "example.py"))
    text = templates.sealed(templates.EXAMPLE.read_text(encoding="utf-8"), version=facts.version)
    state = State.EDITED if os.path.lexists(target) else State.MISSING
    yield _planned(facts, target, kind=Kind.WORKLOAD, text=text, state=state)


def _github(facts: Facts) -> Iterator[Planned]:
    if facts.top is None:
        return
    github = facts.top / ".github"
    gating: set[str] = set()
    for name in (templates.START, templates.GATE):
        file = github / "workflows" / name
        _check_place(facts, file)
        gating |= gated_folders(_read(file) or "")
    ours = templates.verbatim(facts.folder.as_posix())
    action = github / "actions" / "perfgate" / templates.ACTION
    project, state, values = None, None, _values(facts)
    if gating and ours not in gating:  # the workflows of the first project are left to it
        project = templates.slug(facts.folder.as_posix())
        values["measured"] = ours
        gate = github / "workflows" / templates.file_of(templates.GATE, project)
        _check_place(facts, gate)
        state = State.ANOTHERS if gated_folders(_read(gate) or "") - {ours} else None
    for name in templates.WORKFLOWS if project is None else templates.FURTHER:
        text, target = templates.template(name), github / "workflows" / name
        if project is not None:
            text, target = (
                templates.of_project(text, project),
                target.with_name(templates.file_of(name, project)),
            )
        text = templates.sealed(templates.filled(text, values), version=facts.version)
        yield _planned(facts, target, kind=Kind.GITHUB, text=text, state=state)
    text = templates.sealed(
        templates.filled(templates.template(templates.ACTION), values), version=facts.version
    )
    yield _planned(facts, action, kind=Kind.GITHUB, text=text, state=None)


def _values(facts: Facts) -> dict[str, str | Sequence[str]]:
    """What goes into the templates' places. GitHub evaluates expressions in all of them but the branches."""
    return {
        "branches": [templates.branch_pattern(facts.branch)],
        "gpus": [GPU],
        "python": facts.python,
        "folder": templates.verbatim(facts.folder.as_posix()),
        "branch_folder": templates.verbatim((PurePosixPath("branch") / facts.folder).as_posix()),
        "install": templates.verbatim(facts.install),
        "lock_python": facts.lock.python,
        "install_perfgate": templates.verbatim(facts.install_perfgate),
        "measured": "",
    }


def _planned(facts: Facts, target: Path, *, kind: Kind, text: str, state: State | None) -> Planned:
    """Look at one place; without a state, what is there decides."""
    _check_place(facts, target)
    there = _read(target)
    state = state or _state(there, text, version=facts.version)
    return _of(facts, target, kind=kind, text=text, there=there, state=state)


def _state(there: str | None, text: str, *, version: str) -> State:
    if there is None:
        return State.MISSING
    if templates.same(there, text):
        return State.SAME
    seal = templates.seal_of(there)
    if seal is None or not seal.intact:
        return State.EDITED
    if seal.version == version:
        return State.OTHER
    return State.NEWER if _is_newer(seal.version, version) else State.OLDER


def _is_newer(version: str, than: str) -> bool:
    """Whether a version comes after another; one that is none was written by no perfgate."""
    try:
        return Version(version) > Version(than)
    except InvalidVersion:
        return False


def _of(
    facts: Facts, target: Path, *, kind: Kind, text: str, there: str | None, state: State
) -> Planned:
    seal = None if there is None else templates.seal_of(there)
    return Planned(
        path=PurePosixPath(os.path.relpath(target, facts.boundary)),
        target=target,
        kind=kind,
        text=text,
        there=there,
        state=state,
        lacks=lacking(there) if kind is Kind.GITHUB and there is not None else (),
        writer="" if seal is None else seal.version,
    )


def _check_place(facts: Facts, target: Path) -> None:
    """Refuse a place behind a link that leads out, or below or at what is of the wrong sort.

    Raises:
        ScaffoldRefused: names what is in the way.
    """
    below = f"Files are written only below {facts.boundary}"
    if not target.is_relative_to(facts.boundary):
        raise ScaffoldRefused(
            subject=str(target),
            fact="it lies outside",
            expectation=below,
            next_step=f"Name a folder in the project: workloads of [tool.perfgate]. {_NOTHING}",
        )
    boundary = facts.boundary.resolve()
    for place in (*reversed(target.parents), target):
        if not place.is_relative_to(facts.boundary) or place == facts.boundary:
            continue
        shown = os.path.relpath(place, facts.boundary)
        if not _leads_below(place, boundary):
            raise ScaffoldRefused(
                subject=shown,
                fact="it is a link that leads out of the project, or nowhere",
                expectation=below,
                next_step=f"Replace the link by a file or folder of its own, then run again. {_NOTHING}",
            )
        fits = place.is_file() if place == target else place.is_dir()
        if place.exists() and not fits:
            what, wanted = (
                ("no file", "A file")
                if place == target
                else ("no folder", f"A folder, for {target.name},")
            )
            raise ScaffoldRefused(
                subject=shown,
                fact=f"it is {what}",
                expectation=f"{wanted} belongs there",
                next_step=f"Move it away, then run again. {_NOTHING}",
            )


def _leads_below(place: Path, boundary: Path) -> bool:
    """Whether a path, its links followed, lies below a folder; a link that leads nowhere does not."""
    try:
        return place.resolve().is_relative_to(boundary) and (
            place.exists() or not place.is_symlink()
        )
    except (OSError, RuntimeError):  # a link that leads to itself
        return False


def _read(file: Path) -> str | None:
    """A file's text, its line ends as they are; what is no UTF-8 is replaced, and never written back."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ScaffoldRefused(
            subject=str(file),
            fact=f"it cannot be read ({error.strerror})",
            expectation="What is there is compared before anything is written",
            next_step=f"Make it readable for this user, then run again. {_NOTHING}",
        ) from error
    if len(raw) > LARGEST_BYTES:
        raise ScaffoldRefused(
            subject=str(file),
            fact=f"it has more than {LARGEST_BYTES:,} bytes",
            expectation="What is there is compared before anything is written",
            next_step=f"Move it away, then run again. {_NOTHING}",
        )
    return raw.decode(errors="replace")


def _first_workload(folder: Path) -> Path | None:
    """A file below a folder that holds a workload, by its text: it is not run."""
    for file in workload_files(folder):
        text = _head(file)
        if all(mark in text for mark in (_IN_PYTHON if holds_workloads(file) else _IN_YAML)):
            return file
    return None


_IN_PYTHON: Final = ("perfgate", "workload(")
_IN_YAML: Final = ("command:",)
"""What every file of workloads says somewhere."""


def _head(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(LARGEST_BYTES).decode(errors="replace")
    except OSError:
        return ""
