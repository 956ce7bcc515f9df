"""Which of the files that a pull request changes belong to what judges it: baselines, workloads,
hooks, settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from github.PullRequest import PullRequest
from github.Repository import Repository

from perfgate.github.api import MOST_CHANGED_FILES
from perfgate.model.errors import GitHubRefused, GitHubUnreachable
from perfgate.model.note import note
from perfgate.model.settings import Settings
from perfgate.words.say import Coded

_FILES: Final = {
    "pyproject.toml": "settings",
    "pytest.ini": "settings",
    ".pytest.ini": "settings",
    "pytest.toml": "settings",
    ".pytest.toml": "settings",
    "tox.ini": "settings",
    "setup.cfg": "settings",
    "conftest.py": "conftest",
}
"""Files in which pytest looks for its configuration and hooks, or perfgate for its settings."""


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


def touched(
    repository: Repository, pull: PullRequest, head_sha: str, settings: Settings
) -> Touched:
    """Return what of a commit judges it, by the default branch's settings. What GitHub does not say
    is not known, and no reason to fail."""
    try:
        files = list(pull.get_files())
        now = repository.get_pull(pull.number).head.sha
    except (GitHubRefused, GitHubUnreachable) as error:
        return Touched(paths={}, unknown=error)
    if now != head_sha:
        # The list is of the head, which may have moved since the pull request was looked for.
        return Touched(paths={}, unknown=note("head-moved-on", commit=now))
    changed = {one.filename for one in files}
    changed |= {
        one.previous_filename for one in files if one.previous_filename and one.status != "copied"
    }
    kinds = {path: kind for path in sorted(changed) if (kind := kind_of(path, settings))}
    all_listed = len(files) < MOST_CHANGED_FILES
    return Touched(
        paths=kinds,
        unknown=None if all_listed else note("files-listed-in-part", most=MOST_CHANGED_FILES),
    )


def kind_of(path: str, settings: Settings) -> str | None:
    """To which part of what judges a pull request a path belongs.

    Whatever its case, for where files have none, and wherever its folder lies; and a folder's own
    name counts, since a link may take its place.
    """
    within = f"/{path.casefold()}/"
    kind = _FILES.get(PurePosixPath(path.casefold()).name)
    if kind is not None:
        return kind
    folders = {
        ".github": ".github",
        settings.baselines: "baselines",
        settings.workloads: "workloads",
    }
    for folder, of_folder in folders.items():
        if f"/{PurePosixPath(folder.casefold()).as_posix()}/" in within:
            return of_folder
    return None
