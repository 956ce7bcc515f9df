"""What a repository says of itself, so that `perfgate init` need not ask, and where a runner gets
perfgate from. Changes nothing."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from perfgate.model.errors import ConfigInvalid
from perfgate.model.note import Note, Severity, note
from perfgate.model.pyproject import find_root, load_settings
from perfgate.model.settings import Settings
from perfgate.system import git

LAST_RESORT: Final = "main"
"""The branch where HEAD is detached and no other is known."""
WRITTEN_TO: Final = Path(".github/workflows/perfgate-comment.yml")
"""A workflow that names the address of perfgate."""
_NAMED: Final = re.compile(r"perfgate @ ([^\s']+)")

EXAMPLE: Final = "git+https://HOST/OWNER/perfgate.git@COMMIT"
COMMAND: Final = f"perfgate init --force --install-from {EXAMPLE}"
"""Names the address where a runner gets perfgate from."""

_HOST: Final = r"(?!localhost\b|127\.|0\.0\.0\.0)[\w.-]+(?::\d+)?"
_FOLDER: Final = r"subdirectory=[\w./-]+"
_ADDRESS: Final = re.compile(
    rf"git\+(?:https?|ssh)://(?:\w+@)?{_HOST}/[\w./~%+-]+"
    rf"@(?:[0-9a-f]{{40}}|[0-9a-f]{{64}})(?:#{_FOLDER})?"
    rf"|https?://{_HOST}/[\w./~%+-]+#sha256=[0-9a-f]{{64}}(?:&{_FOLDER})?"
)
_CREDENTIALS: Final = re.compile(r"(?<=http://)[^/@]+@|(?<=https://)[^/@]+@")


@dataclass(frozen=True, kw_only=True, slots=True)
class InstalledTool:
    """The perfgate at work, as it was installed."""

    version: str
    direct_url: str | None
    """PEP 610's direct_url.json; None where it came from an index."""
    python: str
    """As `3.12`."""
    has_torch: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectFacts:
    """A project, its repository, and how both are installed on a runner."""

    tool: InstalledTool
    root: Path
    is_repository: bool
    top: Path | None
    """The repository's top; None where there is no repository, or where GitHub is left out."""
    folder: PurePosixPath
    """Where the root lies in the repository, `.` at its top."""
    settings: Settings
    branch: str
    requirements: tuple[str, ...]
    """What pip is given to install the project."""
    origin: str | None
    """Where a runner gets perfgate from."""
    notes: tuple[Note, ...]
    """What the user should know."""


def find_project(
    start: Path,
    tool: InstalledTool,
    *,
    github: bool,
    install_from: str | None,
    env: Mapping[str, str],
) -> ProjectFacts:
    """Find out about the project around a folder.

    Args:
        start: the folder.
        tool: the perfgate that runs.
        github: whether there is to be anything for GitHub; else git is not asked.
        install_from: where a runner gets perfgate from, as somebody says.
        env: the environment, for git.

    Raises:
        ConfigInvalid: settings that are not accepted, or an `install_from` that no runner reaches.
        RepositoryUnreadable: there is a repository, but git cannot say what is asked of it.
    """
    root = find_root(start)
    settings = load_settings(root, {})
    is_repository = any((one / ".git").exists() for one in (root, *root.parents))
    top, folder, branch = None, PurePosixPath("."), None
    if github and is_repository:
        folder = PurePosixPath(git.prefix(root, env=env))
        top = root.parents[len(folder.parts) - 1] if folder.parts else root
        branch = git.default_branch(root, env=env)
    origin = installed_from(tool.direct_url)
    if install_from is not None:
        origin = address_of(install_from)
        if origin is None:
            raise ConfigInvalid("install-from-odd", example=EXAMPLE)
    elif origin is None and top is not None:
        origin = _named_before(top)
    notes: list[Note] = []
    if github and not is_repository:
        notes.append(note("nothing-for-github-yet"))
    if top is not None and branch is None:
        notes.append(note("branch-not-known", branch=LAST_RESORT))
    if top is not None and origin is None:
        notes.append(note("origin-unknown", Severity.WARN, command=COMMAND))
    if not tool.has_torch:
        notes.append(note("torch-not-here"))
    return ProjectFacts(
        tool=tool,
        root=root,
        is_repository=is_repository,
        top=top,
        folder=folder,
        settings=settings,
        branch=branch or LAST_RESORT,
        requirements=tuple(_requirements(root)),
        origin=origin,
        notes=tuple(notes),
    )


def _named_before(top: Path) -> str | None:
    """The address that was named to an earlier `perfgate init`."""
    file = top / WRITTEN_TO
    text = file.read_text("utf-8", errors="replace") if file.is_file() else ""
    found = _NAMED.search(text)
    return None if found is None else found[1]


def _requirements(root: Path) -> Iterator[str]:
    if (root / "requirements.txt").is_file():
        yield from ("-r", "requirements.txt")
    pyproject = root / "pyproject.toml"
    tables = tomllib.loads(pyproject.read_text("utf-8")) if pyproject.is_file() else {}
    if tables.keys() & {"project", "build-system"} or (root / "setup.py").is_file():
        yield from ("-e", ".")


# Where a runner gets perfgate from: a git URL at a commit, or an archive at its hash. Never by name
# from an index: nobody is known to own the name `perfgate` there, and a stranger's package could
# stand under it.


def address_of(text: str) -> str | None:
    """Return an address as pip takes it behind `perfgate @`, without credentials; None of one that
    no runner reaches, or under which something else may lie tomorrow."""
    address = _CREDENTIALS.sub("", text.strip())
    return address if _ADDRESS.fullmatch(address) else None


def installed_from(direct_url: str | None) -> str | None:
    """Return where this perfgate was installed from, by PEP 610's direct_url.json; None of an
    index, and of what no runner reaches."""
    try:
        held = json.loads(direct_url or "")
        if "vcs_info" in held:
            vcs = held["vcs_info"]
            address = f"{vcs['vcs']}+{held['url']}@{vcs['commit_id']}"
        else:
            archive = held["archive_info"]
            hashes = archive.get("hashes") or dict([archive["hash"].split("=")])
            address = f"{held['url']}#sha256={hashes['sha256']}"
    except (ValueError, KeyError, TypeError):
        return None
    return None if "subdirectory" in held else address_of(address)
