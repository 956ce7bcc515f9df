"""How a project, and perfgate itself, are installed on a runner, as far as files say it. Runs nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perfgate.init import lock, origin

OLDEST_PYTHON: Final = (3, 11)
"""That perfgate runs on."""

_CLAUSE: Final = re.compile(r"\s*(===|~=|==|!=|<=|>=|<|>)\s*(\d+)(?:\.(\d+))?([\w.*+!-]*)\s*")
_PINNED: Final = re.compile(r"(?:cpython-)?(3)\.(\d+)(?:\.\d+\w*)?")
_TORCH: Final = re.compile(r"\s*torch\s*($|[\[<>=!~;@#])", re.IGNORECASE)
_VENV: Final = 'python -m venv "$RUNNER_TEMP/venv"\n'
_PIP: Final = '"$RUNNER_TEMP/venv/bin/pip"'


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A value, and what the user should know of how it was found."""

    value: str
    remarks: tuple[str, ...] = ()


def install_words(
    root: Path, pyproject: Mapping[str, object]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what pip is told to install of the project at `root`, word by word, and remarks."""
    words: list[str] = []
    remarks: list[str] = []
    others = sorted(path.name for path in root.glob("requirements-*.txt") if path.is_file())
    if (root / "requirements.txt").is_file():
        words += ["-r", "requirements.txt"]
    elif len(others) == 1:
        words += ["-r", others.pop()]
    if others:
        remarks.append(
            f"The workflows do not install {', '.join(others)}: add what the workloads need."
        )
    if "project" in pyproject or "build-system" in pyproject or (root / "setup.py").is_file():
        words += ["-e", "."]
    if (root / "uv.lock").is_file():
        remarks.append(
            "The workflows install with pip, which does not read uv.lock: versions may differ from yours."
        )
    remarks += [
        f"{name} is not used: the workflows install with pip. Add what it brings and pip does not."
        for name in ("environment.yml", "environment.yaml")
        if (root / name).is_file()
    ]
    if "-e" in words and _leaves_egg_info(root, pyproject):
        remarks.append(
            "Ignore *.egg-info/ in .gitignore: what an installation leaves makes a measured commit dirty."
        )
    if not words:
        remarks.append(
            "No file says how the project is installed: add that to the install step of perfgate-gate.yml."
        )
    return tuple(words), tuple(remarks)


def torch_words(
    root: Path, words: Sequence[str], pyproject: Mapping[str, object]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what is installed beside the project's own `words` so that there is a torch, and a remark if anything is.

    Nothing where the project names it, or names its dependencies in a way that is not read here.
    """
    if _names_torch(root, words, pyproject):
        return (), ()
    return ("torch",), (
        "The project does not name torch: the workflows install the newest. See that it fits your driver.",
    )


def _names_torch(root: Path, words: Sequence[str], pyproject: Mapping[str, object]) -> bool:
    lines: list[str] = []
    for name in (word for word in words if word.endswith(".txt")):
        try:
            lines += (root / name).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return True
    if any(
        line.lstrip().startswith("-r") or line.lstrip().startswith("--requirement")
        for line in lines
    ):
        return True
    if "-e" in words:
        project = pyproject.get("project")
        if not isinstance(project, dict) or "dependencies" in project.get("dynamic", ()):
            return True
        lines += map(str, project.get("dependencies", ()))
    return any(_TORCH.match(line) for line in lines)


def script(*words: str) -> str:
    """Return the shell's lines that install some words into an environment in the runner's temporary folder."""
    return f"{_VENV}{_PIP} install -q {shlex.join(words)}\n"


def perfgate_words(url: str) -> tuple[str, ...]:
    """Return what pip is told beside a project's own words, so that perfgate comes from its address and no index."""
    return (f"perfgate[github] @ {url}",)


def locked_script(url: str) -> str:
    """Return the shell's lines that install perfgate alone: what it needs by the lock file, itself by its address."""
    return (
        f"{_VENV}{_PIP} install -q --require-hashes -r .github/{lock.NAME}\n"
        f"{_PIP} install -q --no-deps --no-build-isolation {shlex.quote(f'perfgate @ {url}')}\n"
    )


def failing_script(why_not: str) -> str:
    """Return the shell's lines of an install step that cannot be written: they fail, and say what to do."""
    return f"echo {shlex.quote('::error::' + origin.asked_for(why_not))}\nexit 1\n"


def python_version(
    root: Path, pyproject: Mapping[str, object], *, running: tuple[int, int]
) -> Found:
    """Return the Python for the runners, as `3.12`: the pinned one, else the running one if the project takes it."""
    if (pinned := _pinned(root / ".python-version")) is not None:
        if pinned >= OLDEST_PYTHON:
            return Found(value=shown(pinned))
        return Found(
            value=shown(OLDEST_PYTHON),
            remarks=(
                f".python-version says {shown(pinned)}, but perfgate needs {shown(OLDEST_PYTHON)} or newer.",
            ),
        )
    project = pyproject.get("project")
    asked = project.get("requires-python") if isinstance(project, dict) else None
    if not isinstance(asked, str):
        return Found(value=shown(max(running, OLDEST_PYTHON)))
    lowest, highest = _bounds(asked)
    if highest is not None and highest < OLDEST_PYTHON:
        return Found(
            value=shown(OLDEST_PYTHON),
            remarks=(
                f"requires-python is {asked!r}, but perfgate needs {shown(OLDEST_PYTHON)} or newer.",
            ),
        )
    chosen = max(running, lowest, OLDEST_PYTHON)
    return Found(value=shown(chosen if highest is None else min(chosen, highest)))


def _leaves_egg_info(root: Path, pyproject: Mapping[str, object]) -> bool:
    """Whether installing the project in place leaves a folder that git sees: setuptools does so."""
    system = pyproject.get("build-system")
    backend = (
        system.get("build-backend", "setuptools") if isinstance(system, dict) else "setuptools"
    )
    try:
        ignored = (root / ".gitignore").read_text(encoding="utf-8", errors="replace")
    except OSError:
        ignored = ""
    return str(backend).startswith("setuptools") and "egg-info" not in ignored


def _pinned(file: Path) -> tuple[int, int] | None:
    try:
        lines = file.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError):
        return None
    found = _PINNED.fullmatch(lines[0]) if lines else None
    return None if found is None else (int(found[1]), int(found[2]))


def _bounds(specifiers: str) -> tuple[tuple[int, int], tuple[int, int] | None]:
    """The lowest and the highest minor version that a requires-python names; what it does not name, or is not
    understood, bounds nothing."""
    lowest, highest = (3, 0), None
    for clause in specifiers.split(","):
        if (found := _CLAUSE.fullmatch(clause)) is None or found[1] == "!=":
            continue
        sign, major, minor, rest = found[1], int(found[2]), int(found[3] or 0), found[4]
        named = (major, minor)
        ends_here = found[3] is not None and (
            sign in {"==", "==="} or (sign == "~=" and rest.startswith("."))
        )
        if sign in {">=", ">", "~=", "==", "==="}:
            lowest = max(lowest, named)
        if (sign == "<=" and found[3] is not None) or ends_here:
            highest = min(highest or named, named)
        elif sign == "<" and major == 3 and (minor or rest.strip(".0")):
            below = named if rest.strip(".0") else (major, minor - 1)
            highest = min(highest or below, below)
    return lowest, highest


def shown(version: tuple[int, int]) -> str:
    """Return a version of Python as `3.12`."""
    return ".".join(map(str, version))
