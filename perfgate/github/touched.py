"""Which of the files that a pull request changes belong to what judges it: baselines, workloads,
hooks, settings."""

from __future__ import annotations

import tomllib
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from github.PullRequest import PullRequest
from github.Repository import Repository

from perfgate.github.api import MOST_CHANGED_FILES, files_of
from perfgate.model.errors import GitHubRefused, GitHubUnreachable
from perfgate.model.note import note
from perfgate.model.settings import Settings
from perfgate.words.say import Coded

MOST_PROJECTS: Final = 50
GITHUB, SETTINGS, CONFTEST = ".github", "settings", "conftest"
_SETTINGS: Final = frozenset(
    {
        *("pyproject.toml", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"),
        *("tox.ini", "setup.cfg"),
    }
)
"""Files in which pytest looks for its configuration, or perfgate for its own."""
_USUAL: Final = Settings()

Folders = Mapping[tuple[str, ...], str]
"""Folders that judge, as parts of their paths in small letters, wherever they lie: each with what
it holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Touched:
    """What a pull request changes of what judges it. Names are a stranger's."""

    paths: Mapping[str, str]
    """By path, what it belongs to; a rename is both of its paths."""
    unknown: Coded | None = None
    """Why there may be others."""

    @property
    def counts(self) -> Counter[str]:
        """How many files of each kind there are."""
        return Counter(self.paths.values())


def touched(repository: Repository, pull: PullRequest, head_sha: str) -> Touched:
    """Return what of a commit judges it. What GitHub does not say is not known, and no reason to
    fail."""
    try:
        files = list(pull.get_files())
        now = repository.get_pull(pull.number).head.sha
        if now != head_sha:
            # The list is of the head, which may have moved since the pull request was looked for.
            return Touched(paths={}, unknown=note("head-moved-on", commit=now))
        folders = folders_of(_projects(repository, pull.base.sha))
    except (GitHubRefused, GitHubUnreachable) as error:
        return Touched(paths={}, unknown=error)
    changed = {one.filename for one in files}
    changed |= {
        one.previous_filename for one in files if one.previous_filename and one.status != "copied"
    }
    kinds = {path: kind for path in sorted(changed) if (kind := kind_of(path, folders))}
    all_listed = len(files) < MOST_CHANGED_FILES
    return Touched(
        paths=kinds,
        unknown=None if all_listed else note("files-listed-in-part", most=MOST_CHANGED_FILES),
    )


def folders_of(projects: Iterable[bytes]) -> Folders:
    """The folders of workloads and baselines by what each pyproject.toml of a repository sets; else
    the usual ones."""
    found: dict[tuple[str, ...], str] = {}
    for content in projects:
        try:
            table = tomllib.loads(content.decode("utf-8"))["tool"]["perfgate"]
            found |= _folders(
                table.get("workloads", _USUAL.workloads), table.get("baselines", _USUAL.baselines)
            )
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
            continue  # no project of perfgate's, or one that no gate accepts
    return {**(found or _folders(_USUAL.workloads, _USUAL.baselines)), (".github",): GITHUB}


def _folders(workloads: str, baselines: str) -> dict[tuple[str, ...], str]:
    named = {workloads: "workloads", baselines: "baselines"}
    return {PurePosixPath(folder.casefold()).parts: kind for folder, kind in named.items()}


def kind_of(path: str, folders: Folders) -> str | None:
    """To which part of what judges a pull request a path belongs.

    Whatever its case, for where files have none; and a folder's own name counts, since a link may
    take its place.
    """
    parts = tuple(path.casefold().split("/"))
    if parts[-1] in _SETTINGS:
        return SETTINGS
    if parts[-1] == "conftest.py":
        return CONFTEST
    held = {
        kind
        for folder, kind in folders.items()
        if any(parts[at : at + len(folder)] == folder for at in range(len(parts)))
    }
    return next((kind for kind in (GITHUB, "baselines", "workloads") if kind in held), None)


def _projects(repository: Repository, sha: str) -> Iterator[bytes]:
    """What every pyproject.toml of a commit holds."""
    found = [
        blob
        for path, blob in files_of(repository, sha).items()
        if PurePosixPath(path).name == "pyproject.toml"
    ]
    for blob in found[:MOST_PROJECTS]:
        yield b64decode(repository.get_git_blob(blob).content)
