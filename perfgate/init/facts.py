"""What a repository says of itself, so that `perfgate init` need not ask. Reads; changes and runs nothing of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from perfgate.init import install, lock, table
from perfgate.init.origin import (
    EXAMPLE,
    OPTION,
    Origin,
    asked_for,
    checked_origin,
    command,
    folder_of,
    origin_of,
)
from perfgate.model.errors import ConfigInvalid, RepositoryUnreadable
from perfgate.model.pyproject import find_root, load_settings
from perfgate.model.settings import Settings
from perfgate.system import git

PYPROJECT: Final = "pyproject.toml"
NO_REPOSITORY: Final = "This is no git repository, so there is nothing for GitHub yet. For that: git init && perfgate init"
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
    """What its metadata says that it needs; empty where it is run from its folder, not installed."""


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
    has_table: bool
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
    remarks: tuple[str, ...]
    version: str


def find_facts(
    start: Path,
    *,
    tool: Tool,
    github: bool,
    env: Mapping[str, str] | None = None,
    install_from: str | None = None,
    renew: bool = False,
) -> Facts:
    """Find out about the project around a folder; without `github`, git is not asked.

    Args:
        start: that folder.
        tool: the perfgate at work.
        github: whether there is to be anything for GitHub.
        env: the environment in which git is asked.
        install_from: where a runner gets perfgate from, as somebody says; else what is known of its installation,
            else what the lock file says that was said before.
        renew: whether the lock file is to be of the Python that runs, whatever it is of now.

    Raises:
        ConfigInvalid: a pyproject.toml that is no TOML, settings that are not accepted, or an `install_from` that no
            runner reaches.
        RepositoryUnreadable: there is a repository, but git cannot say what is asked of it.
    """
    root = find_root(start)
    text = _text_of(root / PYPROJECT)
    document = {} if text is None else table.parsed(text)
    settings = load_settings(root, {})
    repository = next(
        (folder for folder in (root, *root.parents) if (folder / ".git").exists()), None
    )
    remarks: list[str] = []
    top, folder, branch = None, PurePosixPath("."), LAST_RESORT
    if github and repository is None:
        remarks.append(NO_REPOSITORY)
    elif github:
        folder = PurePosixPath(git.prefix(root, env=env))
        top = root.parents[len(folder.parts) - 1] if folder.parts else root
        found = git.default_branch(root, env=env)
        branch = found or LAST_RESORT
        if found is None:
            remarks.append(
                f"No branch is known here: the workflows name {LAST_RESORT}, correct that."
            )
    words, of_project = install.install_words(root, document)
    torch, of_torch = install.torch_words(root, words, document)
    words += torch
    python = install.python_version(root, document, running=tool.python)
    head = None if top is None else lock.head_of(_text_of(top / ".github" / lock.NAME) or "")
    origin = _origin(tool, install_from, head)
    wanted = lock.Wanted(
        python=install.shown(max(tool.python, install.OLDEST_PYTHON))
        if head is None or renew
        else head.python,
        requirements=lock.requirements_of(tool.requires),
        origin=origin.url,
    )
    if top is not None:
        remarks += [*of_project, *of_torch, *origin.remarks, *python.remarks]
        if origin.url is None:
            remarks += [
                f"{asked_for(origin.why_not)}",
                *_suggestion(folder_of(tool.direct_url), env),
            ]
    if not tool.has_torch:
        remarks.append(
            "There is no torch here, which the example needs: install the CUDA build for your driver."
        )
    return Facts(
        root=root,
        top=top,
        boundary=top or repository or root,
        folder=folder,
        pyproject=text,
        has_table=table.has_table(document),
        settings=settings,
        branch=branch,
        python=python.value,
        install=install.script(*words, *install.perfgate_words(origin.url))
        if origin.url is not None
        else install.failing_script(origin.why_not),
        install_perfgate=install.locked_script(origin.url)
        if origin.url is not None
        else install.failing_script(origin.why_not),
        origin=origin,
        lock=wanted,
        remarks=tuple(remarks),
        version=tool.version,
    )


def _origin(tool: Tool, install_from: str | None, head: lock.Head | None) -> Origin:
    if install_from is not None:
        said = checked_origin(install_from)
        if said.url is None:
            raise ConfigInvalid(
                subject=OPTION,
                fact=said.why_not,
                expectation=f"A git URL at a commit, such as {EXAMPLE}, or https://HOST/NAME.whl#sha256=HASH",
                next_step="Name the address of a perfgate that a runner reaches.",
            )
        return said
    found = origin_of(tool.direct_url)
    if (
        found.url is None
        and head is not None
        and head.origin is not None
        and head.version == tool.version
    ):
        before = checked_origin(head.origin)
        return found if before.url is None else before
    return found


def _suggestion(folder: Path | None, env: Mapping[str, str] | None) -> tuple[str, ...]:
    """What may be said instead of a folder of this machine: its commit, where that is in a remote."""
    if folder is None:
        return ()
    try:
        at = git.read_pushed(folder, env=env)
    except RepositoryUnreadable:
        return ()
    if at is None:
        return ()
    below = "" if at.prefix == "." else f"#subdirectory={at.prefix}"
    named = checked_origin(f"git+{at.url}@{at.sha}{below}")
    if named.url is None:
        return ()
    if at.not_there:
        return (
            f"It was installed from {folder}, of which {at.not_there}: push what is installed, then name that.",
        )
    return (f"It was installed from {folder}. If that is still this commit: {command(named.url)}",)


def _text_of(file: Path) -> str | None:
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigInvalid(
            subject=file.name,
            fact=f"it cannot be read ({why})",
            next_step="Make it a readable UTF-8 file.",
        ) from error
