"""What a repository says of itself, so that `perfgate init` need not ask. Reads; changes and runs
nothing of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from perfgate.init import install, lock, table
from perfgate.init.origin import Origin, checked_origin, command, folder_of, origin_of
from perfgate.model.errors import ConfigInvalid, RepositoryUnreadable
from perfgate.model.note import Note, note
from perfgate.model.pyproject import find_root, load_settings
from perfgate.model.settings import Settings
from perfgate.system import git

PYPROJECT: Final = "pyproject.toml"
LAST_RESORT: Final = "main"
"""The branch where HEAD is detached and no other is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """The perfgate at work, as it was installed."""

    version: str
    direct_url: str | None
    """PEP 610's direct_url.json; None where it came from an index."""
    python: tuple[int, int]
    """The interpreter's version."""
    has_torch: bool
    requires: tuple[str, ...] = ()
    """What its metadata says that it needs; empty where it is run from its folder, not installed.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A project, its repository, and how both are to be handled on a runner."""

    root: Path
    top: Path | None
    """The repository's top; None where there is no repository, or where GitHub is left out."""
    boundary: Path
    """The folder outside of which nothing is written: the repository's top, or else the root."""
    folder: PurePosixPath
    """Where the root lies in the repository, `.` at its top."""
    pyproject: str | None
    """The text of pyproject.toml, its line ends as they are; None where there is none."""
    settings: Settings
    branch: str
    python: str
    install: str
    """The shell's lines that install the project and perfgate."""
    install_perfgate: str
    """The shell's lines that install perfgate alone."""
    origin: Origin
    """Where a runner gets perfgate from."""
    lock: lock.Wanted
    """What the lock file is to be of."""
    notes: tuple[Note, ...]
    """What the user should know."""
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What `perfgate init` was asked for."""

    github: bool = True
    """Whether there is to be anything for GitHub; else git is not asked."""
    install_from: str | None = None
    """Where a runner gets perfgate from, as somebody says; else what is known of its installation,
    else what the lock file says that was said before."""
    renew: bool = False
    """Whether the lock file is to be of the Python that runs, whatever it is of now."""


def find_facts(start: Path, tool: Tool, asked: Asked, *, env: Mapping[str, str]) -> Facts:
    """Find out about the project around a folder.

    Raises:
        ConfigInvalid: a pyproject.toml that is no TOML, settings that are not accepted, or an
        `install_from` that no
            runner reaches.
        RepositoryUnreadable: there is a repository, but git cannot say what is asked of it.
    """
    root = find_root(start)
    text = _text_of(root / PYPROJECT)
    document = table.parsed(text or "")
    around = [folder for folder in (root, *root.parents) if (folder / ".git").exists()]
    notes: list[Note] = []
    top, folder, branch = None, PurePosixPath("."), LAST_RESORT
    if asked.github and not around:
        notes.append(note("nothing-for-github-yet"))
    elif asked.github:
        folder = PurePosixPath(git.prefix(root, env=env))
        top = root.parents[len(folder.parts) - 1] if folder.parts else root
        found = git.default_branch(root, env=env)
        branch = found or LAST_RESORT
        notes += [] if found else [note("branch-not-known", branch=LAST_RESORT)]
    words, of_project = install.project_words(root, document)
    python, of_python = install.python_version(root, document, running=tool.python)
    head = None if top is None else lock.head_of(_text_of(top / ".github" / lock.NAME) or "")
    origin = _origin(tool, asked, head)
    if top is not None:
        notes += [*of_project, *of_python]
        notes += origin.notes if origin.url else [origin.unknown, *_suggestion(tool, env)]
    if not tool.has_torch:
        notes.append(note("torch-not-here"))
    newest = install.shown(max(tool.python, install.OLDEST_PYTHON))
    return Facts(
        root=root,
        top=top,
        boundary=top or next(iter(around), root),
        folder=folder,
        pyproject=text,
        settings=load_settings(root, {}),
        branch=branch,
        python=python,
        install=install.project_script(words, origin),
        install_perfgate=install.locked_script(origin),
        origin=origin,
        lock=lock.Wanted(
            python=newest if head is None or asked.renew else head.python,
            requirements=lock.requirements_of(tool.requires),
            origin=origin.url,
        ),
        notes=tuple(notes),
        version=tool.version,
    )


def _origin(tool: Tool, asked: Asked, head: lock.Head | None) -> Origin:
    if asked.install_from is not None:
        given = checked_origin(asked.install_from)
        if given.url is None:
            raise ConfigInvalid("install-from-odd", why=given.notes[0])
        return given
    found = origin_of(tool.direct_url)
    if found.url is None and head is not None and head.version == tool.version:
        before = checked_origin(head.origin or "")
        return found if before.url is None else before
    return found


def _suggestion(tool: Tool, env: Mapping[str, str]) -> Iterator[Note]:
    """What may be said instead of a folder of this machine: its commit, where that is in a remote."""
    folder = folder_of(tool.direct_url)
    try:
        at = None if folder is None else git.read_pushed(folder, env=env)
    except RepositoryUnreadable:
        return
    if at is None:
        return
    below = "" if at.prefix == "." else f"#subdirectory={at.prefix}"
    named = checked_origin(f"git+{at.url}@{at.sha}{below}")
    if named.url is not None and at.not_there:
        yield note("origin-not-pushed", folder=str(folder), what=at.not_there)
    elif named.url is not None:
        yield note("origin-suggested", folder=str(folder), command=command(named.url))


def _text_of(file: Path) -> str | None:
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid("project-file-unreadable", file=file.name, reason=str(error)) from error
