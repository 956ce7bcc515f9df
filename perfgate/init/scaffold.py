"""The first files of a project next to what is there, and putting them into their places."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final

from perfgate.init.project import COMMAND, ProjectFacts
from perfgate.model.errors import ConfigInvalid, ScaffoldRefused
from perfgate.store.disk import Disk
from perfgate.workload import workload_files

FOLDER: Final = Path(__file__).parent
GPU: Final = "gpu"
"""The label of the runners that gates run on, next to `self-hosted`."""
WORKFLOWS: Final = (
    *("perfgate.yml", "perfgate-gate.yml", "perfgate-approved.yml"),
    *("perfgate-comment.yml", "perfgate-bless.yml", "perfgate-occasions.yml"),
)
GITHUB: Final = (
    *(f"workflows/{name}" for name in WORKFLOWS),
    "actions/perfgate/action.yml",
    "perfgate-lock.txt",
)
"""What is written below .github."""
NO_ORIGIN: Final = "# without a known origin"
"""By this line an install step that fails is known again."""
TABLE: Final = """\
[tool.perfgate]
workloads = "workloads"  # what is measured: functions marked @workload, scripts by their YAML file
baselines = "baselines"  # what it is compared with, written by perfgate bless; committed
"""

WRITTEN: Final = "# perfgate init "
"""How the first line of a file begins that perfgate init wrote; its version follows."""


class FileState(StrEnum):
    """What is where a file of the scaffold belongs."""

    MISSING = "missing"
    SAME = "up to date"
    OLDER = "of another perfgate"
    """As another version of perfgate wrote it, edited or not."""
    DIFFERS = "differs"
    """Edited, written when the repository said something else, or not perfgate's at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """One file of the scaffold."""

    place: Path
    path: PurePosixPath
    """As it is shown, from the repository's top."""
    text: str
    """The whole file as perfgate init means it."""
    there: str = ""
    """As it is."""
    state: FileState

    @property
    def differs(self) -> bool:
        """Whether another one is there than perfgate init means; only of GitHub's files."""
        return self.state in {FileState.OLDER, FileState.DIFFERS}


def planned(project: ProjectFacts) -> tuple[File, ...]:
    """Compare the scaffold with the project, in the order in which it is shown.

    Raises:
        ScaffoldRefused: a place must not be written to, or cannot be read.
        ConfigInvalid: pyproject.toml takes no table.
    """
    settings = project.root / "pyproject.toml"
    workloads = project.root / project.settings.workloads
    held = next(workload_files(workloads), None)
    first_line = (
        f"{WRITTEN}{project.tool.version}: what a newer one would change: perfgate init --check\n"
    )
    example = first_line + (FOLDER / "example.py").read_text("utf-8")
    files = [
        _file(project, settings, with_table(_read(project, settings) or "")),
        File(place=held, path=_shown(project, held), text="", state=FileState.SAME)
        if held is not None
        else _file(project, workloads / "example.py", example),
    ]
    if project.top is not None:
        values = _values(project)
        for name in GITHUB:
            text = (FOLDER / "files" / Path(name).name).read_text("utf-8")
            for value, filled in values.items():
                text = text.replace(f"__{value}__", filled)
            place = project.top / ".github" / name
            files.append(_file(project, place, first_line + text, is_github=True))
    return tuple(files)


def write(files: Sequence[File]) -> None:
    """Put files into their places, each whole or not at all.

    Raises:
        StoreFailed: the disk does not take one.
    """
    for file in files:
        disk = Disk(file.place.parent)
        disk.make_folder(file.place.parent)
        disk.write(file.place, file.text)


def installs_fail(top: Path) -> bool | None:
    """Whether the workflows of a repository do not know where to get perfgate from; None without
    any."""
    files = (top / ".github" / "workflows").glob("perfgate*.yml")
    texts = [file.read_text("utf-8", errors="replace") for file in files]
    return any(NO_ORIGIN in text for text in texts) if texts else None


def with_table(text: str) -> str:
    """Return a pyproject.toml, maybe empty, with `[tool.perfgate]` at its end, if it has none.

    Raises:
        ConfigInvalid: the table cannot be appended, since `tool` is written inline or is no table.
    """
    tool = tomllib.loads(text).get("tool")
    if isinstance(tool, dict) and "perfgate" in tool:
        return text
    gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    made = text + gap + TABLE
    try:
        tomllib.loads(made)
    except tomllib.TOMLDecodeError as broken:
        raise ConfigInvalid("table-not-appended") from broken
    return made


def _file(project: ProjectFacts, place: Path, text: str, *, is_github: bool = False) -> File:
    """Compare one place with what is meant for it; only what is GitHub's is ever replaced."""
    there = _read(project, place)
    began = (there or "").partition("\n")[0].rstrip()
    if there is None or (place.name == "pyproject.toml" and there != text):
        state = FileState.MISSING
    elif not is_github or there.replace("\r\n", "\n") == text:
        state = FileState.SAME
    elif began.startswith(WRITTEN) and not text.startswith(began):
        state = FileState.OLDER
    else:
        state = FileState.DIFFERS
    path = _shown(project, place)
    return File(place=place, path=path, text=text, there=there or "", state=state)


def _shown(project: ProjectFacts, place: Path) -> PurePosixPath:
    return PurePosixPath(os.path.relpath(place, project.top or project.root))


def _read(project: ProjectFacts, place: Path) -> str | None:
    """A file's text, its line ends as they are; None where there is none.

    Raises:
        ScaffoldRefused: a link leads it out of the repository, something else is in its place or on
        the way there, or it cannot be read.
    """
    top = (project.top or project.root).resolve()
    there = next(one for one in (place, *place.parents) if os.path.lexists(one))
    with suppress(OSError, RuntimeError):  # that of a link that leads to itself, before Python 3.13
        if place.resolve().is_relative_to(top):
            if there == place:
                return place.read_bytes().decode(errors="replace")
            if there.is_dir():
                return None
    raise ScaffoldRefused("place-not-written-to", path=str(there), top=str(top))


def _values(project: ProjectFacts) -> Mapping[str, str]:
    """What stands in the places of a workflow, as YAML."""
    folder, origin = project.folder, project.origin
    lock = ("--require-hashes", "-r", ".github/perfgate-lock.txt")
    alone = ("--no-deps", "--no-build-isolation", f"perfgate @ {origin}")
    return {
        "branches": json.dumps([project.branch]),
        "gpus": json.dumps([GPU]),
        "python": json.dumps(project.tool.python),
        "folder": json.dumps(folder.as_posix()),
        "branch_folder": json.dumps(("branch" / folder).as_posix()),
        "trusted_folder": json.dumps(("trusted" / folder).as_posix()),
        "install": _install(origin, (*project.requirements, f"perfgate[github] @ {origin}")),
        # perfgate alone: what it needs by the lock file, itself by its address
        "install_perfgate": _install(origin, lock, alone),
    }


def _install(origin: str | None, *each: Sequence[str]) -> str:
    """The script that makes an environment and has pip install into it; one that fails and says
    what to do where nobody knows where a runner gets perfgate from."""
    pip = '"$RUNNER_TEMP/venv/bin/pip" install -q'
    lines = ['python -m venv "$RUNNER_TEMP/venv"', *(f"{pip} {shlex.join(one)}" for one in each)]
    if origin is None:
        why = f"::error::perfgate: name where it comes from: {COMMAND}"
        lines = [NO_ORIGIN, f"echo {shlex.quote(why)}", "exit 1"]
    return "\n".join(("|", *(f"          {line}" for line in lines)))
