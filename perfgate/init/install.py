"""How a project, and perfgate itself, are installed on a runner, as far as files say it. Runs
nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from perfgate.init import lock
from perfgate.init.origin import Origin
from perfgate.model.note import Note, note
from perfgate.words.say import fact

OLDEST_PYTHON: Final = (3, 11)
"""That perfgate runs on."""
NO_ORIGIN: Final = "# without a known origin"
"""By this line an install step that fails is known again."""

_NEWEST_MINOR: Final = 30
_TORCH: Final = re.compile(r"\s*torch\s*($|[\[<>=!~;@#])", re.IGNORECASE)
_OTHERS: Final = re.compile(r"\s*(-r|--requirement)\b")
_VENV: Final = 'python -m venv "$RUNNER_TEMP/venv"\n'
_PIP: Final = '"$RUNNER_TEMP/venv/bin/pip"'


def project_words(
    root: Path, pyproject: Mapping[str, object]
) -> tuple[tuple[str, ...], list[Note]]:
    """Return what pip is given to install of the project at `root`, word by word, and what to know
    of it."""
    words: list[str] = []
    others = sorted(path.name for path in root.glob("requirements-*.txt") if path.is_file())
    if (root / "requirements.txt").is_file():
        words += ["-r", "requirements.txt"]
    elif len(others) == 1:
        words += ["-r", others.pop()]
    if "project" in pyproject or "build-system" in pyproject or (root / "setup.py").is_file():
        words += ["-e", "."]
    others += [
        name
        for name in ("uv.lock", "environment.yml", "environment.yaml")
        if (root / name).is_file()
    ]
    notes = [note("files-not-installed", files=tuple(others))] if others else []
    if "-e" in words and _leaves_egg_info(root, pyproject):
        notes.append(note("egg-info-not-ignored"))
    if not words:
        notes.append(note("installation-unknown"))
    if not _names_torch(root, words, pyproject):
        words.append("torch")
        notes.append(note("torch-not-named"))
    return tuple(words), notes


def _names_torch(root: Path, words: Sequence[str], pyproject: Mapping[str, object]) -> bool:
    """Whether the project names torch, or names its dependencies in a way that is not read here."""
    lines: list[str] = []
    for name in (word for word in words if word.endswith(".txt")):
        lines += (root / name).read_text(encoding="utf-8", errors="replace").splitlines()
    if "-e" in words:
        project = pyproject.get("project")
        if not isinstance(project, dict) or "dependencies" in project.get("dynamic", ()):
            return True
        lines += map(str, project.get("dependencies", ()))
    return any(_TORCH.match(line) or _OTHERS.match(line) for line in lines)


def project_script(words: Sequence[str], origin: Origin) -> str:
    """Return the shell's lines that install a project and perfgate into an environment in a
    temporary folder."""
    if origin.url is None:
        return _failing(origin)
    whole = shlex.join((*words, f"perfgate[github] @ {origin.url}"))
    return f"{_VENV}{_PIP} install -q {whole}\n"


def locked_script(origin: Origin) -> str:
    """Return the shell's lines that install perfgate alone: what it needs by the lock file, itself
    by its address."""
    if origin.url is None:
        return _failing(origin)
    return (
        f"{_VENV}{_PIP} install -q --require-hashes -r .github/{lock.NAME}\n"
        f"{_PIP} install -q --no-deps --no-build-isolation {shlex.quote(f'perfgate @ {origin.url}')}\n"
    )


def _failing(origin: Origin) -> str:
    """The shell's lines of an install step that cannot be written: they fail, and say what to do."""
    return f"{NO_ORIGIN}\necho {shlex.quote(f'::error::{fact(origin.unknown)}')}\nexit 1\n"


def python_version(
    root: Path, pyproject: Mapping[str, object], *, running: tuple[int, int]
) -> tuple[str, list[Note]]:
    """Return the Python for the runners, as `3.12`: the pinned one, else the running one if the
    project takes it."""
    project = pyproject.get("project")
    asked = project.get("requires-python") if isinstance(project, dict) else None
    pinned = _pinned(root / ".python-version")
    try:
        taken = SpecifierSet(f"=={pinned}.*" if pinned else str(asked or ""))
    except InvalidSpecifier:
        taken = SpecifierSet()
    fitting = [one for one in _versions(taken) if one >= OLDEST_PYTHON]
    if not fitting:
        too_old = note("python-too-old", asked=pinned or str(asked), oldest=shown(OLDEST_PYTHON))
        return shown(OLDEST_PYTHON), [too_old]
    newer = [one for one in fitting if one >= running]
    return shown(min(newer) if newer else max(fitting)), []


def _versions(taken: SpecifierSet) -> Iterator[tuple[int, int]]:
    """Minor versions of Python 3 of which a project takes some release."""
    for minor in range(_NEWEST_MINOR):
        if any(taken.contains(f"3.{minor}.{patch}") for patch in range(_NEWEST_MINOR)):
            yield 3, minor


def _leaves_egg_info(root: Path, pyproject: Mapping[str, object]) -> bool:
    """Whether installing the project in place leaves a folder that git sees: setuptools does so."""
    system = pyproject.get("build-system")
    backend = system.get("build-backend") if isinstance(system, dict) else None
    ignore = root / ".gitignore"
    ignored = ignore.read_text(encoding="utf-8", errors="replace") if ignore.is_file() else ""
    return str(backend or "setuptools").startswith("setuptools") and "egg-info" not in ignored


def _pinned(file: Path) -> str | None:
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    found = re.match(r"(?:cpython-)?(3\.\d+)\b", text)
    return None if found is None else found[1]


def shown(version: tuple[int, int]) -> str:
    """Return a version of Python as `3.12`."""
    return ".".join(map(str, version))
