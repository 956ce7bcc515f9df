"""The files of a scaffold beside what is there: which are missing, the same, older, edited. Writes
nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final

from perfgate.init import lock as locking
from perfgate.init import table, templates
from perfgate.init.facts import PYPROJECT, Facts
from perfgate.init.installing import faults_of, gated_folders
from perfgate.model.errors import ScaffoldRefused
from perfgate.model.note import Note, note
from perfgate.workload import holds_workloads, workload_files

GPU: Final = "gpu"
"""The label of the runners that gates run on, beside `self-hosted`: the first of the workflows'
matrix."""
LARGEST_BYTES: Final = 1 << 20
"""Of a file that is still compared; a workflow has some kilobytes."""
_IN_PYTHON: Final = ("perfgate", "workload(")
_IN_YAML: Final = ("command:",)
"""What every file of workloads says somewhere."""


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
    OLDER = "of another perfgate"
    """As another version of perfgate wrote it."""
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
    """From the boundary: the repository's top, or the project's root where there is no repository.
    """
    target: Path
    kind: Kind
    text: str
    """The whole file as perfgate init means it."""
    there: str | None
    """The whole file as it is, None where there is none."""
    state: State
    faults: tuple[Note, ...] = ()
    """What is wrong with how it installs perfgate."""

    @property
    def differs(self) -> bool:
        """Whether it is GitHub's, and another than perfgate init means."""
        return self.kind is Kind.GITHUB and self.state in {State.OLDER, State.OTHER, State.EDITED}

    @property
    def is_up_to_date(self) -> bool:
        """Whether nothing has to be done about it, as far as is known: what was edited may be as
        good."""
        return self.state not in {State.MISSING, State.OLDER} and not self.faults


def plan(facts: Facts, *, resolve: bool = True, renew: bool = False) -> tuple[Planned, ...]:
    """Compare the scaffold with the project, in the order in which it is shown.

    Args:
        facts: the project.
        resolve: whether an index is asked for a lock file that is missing or of other requirements.
        renew: whether it is asked for one that is neither.

    Raises:
        ScaffoldRefused: a file, or a folder of it, must not be written to or cannot be read; or the
        lock file cannot
            be made.
        ConfigInvalid: pyproject.toml takes no table.
    """
    github = tuple(_github(facts))
    gates_this = any(file.state is not State.ANOTHERS for file in github)
    wants_lock = gates_this and facts.origin.url is not None
    lock = [plan_lock(facts, resolve=resolve, renew=renew)] if wants_lock else []
    text = table.with_table(facts.pyproject or "")
    settings = Planned(
        path=_shown(facts, facts.root / PYPROJECT),
        target=_checked(facts, facts.root / PYPROJECT),
        kind=Kind.SETTINGS,
        text=text,
        there=facts.pyproject,
        state=State.SAME if text == facts.pyproject else State.MISSING,
    )
    return (settings, _workload(facts), *github, *lock)


def plan_lock(facts: Facts, *, resolve: bool, renew: bool) -> Planned:
    """Compare the lock file with what it is to be of.

    Raises:
        ScaffoldRefused: there is no repository; its place must not be written to; or it cannot be
        made.
    """
    if facts.top is None:
        raise ScaffoldRefused("lock-without-repository")
    target = facts.top / ".github" / locking.NAME
    planned = _planned(facts, target, kind=Kind.LOCK, text="")
    there = planned.there
    is_current = there is not None and locking.is_current(there, facts.lock)
    state = State.SAME if is_current and planned.state is not State.EDITED else planned.state
    state = State.OTHER if state is State.OLDER else state
    text = there or ""
    if resolve and (renew or state in {State.MISSING, State.OTHER}):
        text = locking.locked(facts.lock, version=facts.version)
        if there is not None:
            state = State.SAME if templates.same(text, there) else State.OTHER
    is_fine = there is None or (is_current and locking.locks(there))
    faults = () if is_fine else (note("lock-not-current"),)
    return replace(planned, text=text, state=state, faults=faults)


def _workload(facts: Facts) -> Planned:
    """The example, unless there is a workload already."""
    folder = facts.root / facts.settings.workloads
    held = next(filter(_is_workload, workload_files(folder)), None)
    if held is not None:
        return Planned(
            path=_shown(facts, held),
            target=held,
            kind=Kind.WORKLOAD,
            text="",
            there="",
            state=State.SAME,
        )
    target = Path(os.path.normpath(folder / "example.py"))
    text = templates.sealed(templates.EXAMPLE.read_text(encoding="utf-8"), version=facts.version)
    planned = _planned(facts, target, kind=Kind.WORKLOAD, text=text)
    return planned if planned.there is None else replace(planned, state=State.EDITED)


def _github(facts: Facts) -> Iterator[Planned]:
    if facts.top is None:
        return
    github = facts.top / ".github"
    gating: set[str] = set()
    for name in (templates.START, templates.GATE):
        gating |= gated_folders(_read(_checked(facts, github / "workflows" / name)) or "")
    ours = templates.verbatim(facts.folder.as_posix())
    names: tuple[str, ...] = templates.WORKFLOWS
    values = _values(facts)
    project, is_anothers = None, False
    if gating and ours not in gating:  # the workflows of the first project are left to it
        names, project = templates.FURTHER, templates.slug(facts.folder.as_posix())
        values["measured"] = ours
        gate = github / "workflows" / templates.file_of(templates.GATE, project)
        is_anothers = bool(gated_folders(_read(_checked(facts, gate)) or "") - {ours})
    for name in (*names, templates.ACTION):
        text, target = templates.template(name), github / "workflows" / name
        if name == templates.ACTION:
            target = github / "actions" / "perfgate" / name
        elif project is not None:
            text = templates.of_project(text, project)
            target = target.with_name(templates.file_of(name, project))
        text = templates.sealed(templates.filled(text, values), version=facts.version)
        planned = _planned(facts, target, kind=Kind.GITHUB, text=text)
        left = is_anothers and name != templates.ACTION
        yield replace(planned, state=State.ANOTHERS) if left else planned


def _values(facts: Facts) -> dict[str, str | Sequence[str]]:
    """What goes into the templates' places. GitHub evaluates expressions in all of them but the
    branches."""
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


def _planned(facts: Facts, target: Path, *, kind: Kind, text: str) -> Planned:
    """Compare one place with what is meant for it."""
    there = _read(_checked(facts, target))
    seal = None if there is None else templates.seal_of(there)
    if there is None:
        state = State.MISSING
    elif templates.same(there, text):
        state = State.SAME
    elif seal is None or not seal.intact:
        state = State.EDITED
    else:
        state = State.OTHER if seal.version == facts.version else State.OLDER
    is_workflow = kind is Kind.GITHUB and there is not None
    return Planned(
        path=_shown(facts, target),
        target=target,
        kind=kind,
        text=text,
        there=there,
        state=state,
        faults=faults_of(there) if is_workflow and there is not None else (),
    )


def _shown(facts: Facts, target: Path) -> PurePosixPath:
    return PurePosixPath(os.path.relpath(target, facts.boundary))


def _checked(facts: Facts, target: Path) -> Path:
    """Return a place that is not behind a link that leads out, nor below or at what is of the wrong
    sort.

    Raises:
        ScaffoldRefused: names what is in the way.
    """
    within = [one for one in (*reversed(target.parents), target) if one != facts.boundary]
    for place in within if target.is_relative_to(facts.boundary) else [target]:
        if place in facts.boundary.parents:
            continue
        is_below = _leads_below(place, facts.boundary)
        fits = place.is_file() if place == target else place.is_dir()
        if not is_below or (place.exists() and not fits):
            shown = os.path.relpath(place, facts.boundary)
            raise ScaffoldRefused("place-not-written-to", path=shown, top=str(facts.boundary))
    return target


def _leads_below(place: Path, boundary: Path) -> bool:
    """Whether a path, its links followed, lies below a folder; a link that leads nowhere does not."""
    try:
        is_below = place.is_relative_to(boundary) and place.resolve().is_relative_to(
            boundary.resolve()
        )
        return is_below and (place.exists() or not place.is_symlink())
    except (OSError, RuntimeError):  # a link that leads to itself
        return False


def _read(file: Path) -> str | None:
    """A file's text, its line ends as they are; what is no UTF-8 is replaced, and never written
    back."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(LARGEST_BYTES + 1)
        if len(raw) > LARGEST_BYTES:
            raise OSError(f"it has more than {LARGEST_BYTES} bytes")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ScaffoldRefused(
            "place-not-read", path=str(file), reason=error.strerror or str(error)
        ) from error
    return raw.decode(errors="replace")


def _is_workload(file: Path) -> bool:
    """Whether a file holds a workload, by its text: it is not run."""
    try:
        with file.open("rb") as opened:
            text = opened.read(LARGEST_BYTES).decode(errors="replace")
    except OSError:
        return False
    return all(mark in text for mark in (_IN_PYTHON if holds_workloads(file) else _IN_YAML))
