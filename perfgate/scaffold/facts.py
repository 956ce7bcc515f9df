"""What a repository says of itself, so that `perfgate init` need not ask. Reads; changes and runs nothing of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from perfgate import git
from perfgate.model.errors import ConfigInvalid
from perfgate.model.settings import Settings
from perfgate.scaffold import install, table
from perfgate.settings import find_root, load_settings

PYPROJECT: Final = "pyproject.toml"
NO_REPOSITORY: Final = (
    "This is no git repository, so there is nothing for GitHub yet: git init, then perfgate init again."
)
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
    remarks: tuple[str, ...]
    version: str


def find_facts(start: Path, *, tool: Tool, github: bool, env: Mapping[str, str] | None = None) -> Facts:
    """Find out about the project around a folder; without `github`, git is not asked.

    Raises:
        ConfigInvalid: a pyproject.toml that is no TOML, or settings that are not accepted.
        RepositoryUnreadable: there is a repository, but git cannot say what is asked of it.
    """
    root = find_root(start)
    text = _text_of(root / PYPROJECT)
    document = {} if text is None else table.parsed(text)
    settings = load_settings(root, {})
    repository = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
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
            remarks.append(f"No branch is known here: the workflows name {LAST_RESORT}, correct that.")
    words, of_project = install.install_words(root, document)
    torch, of_torch = install.torch_words(root, words, document)
    words += torch
    perfgate = install.perfgate_requirement(tool.version, tool.direct_url)
    python = install.python_version(root, document, running=tool.python)
    if top is not None:
        remarks += [*of_project, *of_torch, *perfgate.remarks, *python.remarks]
    if not tool.has_torch:
        remarks.append("There is no torch here, which the example needs: install the CUDA build for your driver.")
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
        install=install.script(*words, perfgate.value),
        install_perfgate=install.script(perfgate.value),
        remarks=tuple(remarks),
        version=tool.version,
    )


def _text_of(file: Path) -> str | None:
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigInvalid(
            subject=file.name, fact=f"it cannot be read ({why})", next_step="Make it a readable UTF-8 file."
        ) from error
