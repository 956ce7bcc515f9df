"""What `addopts` in a pytest configuration file says, and which of such words pytest begins with.

Light by design: a worker imports it.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from iniconfig import IniConfig, ParseError

INI = "--override-ini="
_STARTS = re.compile(
    r"(-p|-o)(.+)?|(--(?:override-ini|import-mode|confcutdir))(?:=(.*))?", re.DOTALL
)
"""An option that pytest begins with, and its value if that is not the next word; of short options
that stand together in one word none is."""


def settings_of(path: Path) -> Mapping[str, Any]:
    """All that a file sets for pytest; `[tool.pytest]` is there from pytest 9 on.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no file of its form.
    """
    if path.suffix != ".toml":
        try:
            sections = IniConfig(str(path)).sections
        except ParseError as broken:
            raise ValueError(str(broken)) from broken
        return dict(sections.get("tool:pytest" if path.suffix == ".cfg" else "pytest", {}))
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    tables = tables.get("tool", {}) if path.name == "pyproject.toml" else tables
    table: Mapping[str, Any] = tables.get("pytest", {})
    settings: Mapping[str, Any] = table.get("ini_options", table)
    return settings


def configuration_in(folder: Path) -> Path | None:
    """The file in a folder by which pytest is configured there: the first, in pytest's order, that
    is for it.

    Raises:
        OSError: one cannot be read.
        ValueError: one is no file of its form.
    """
    for name in ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini"):
        if (folder / name).is_file():
            return folder / name
    others = (folder / name for name in ("pyproject.toml", "tox.ini", "setup.cfg"))
    return next((file for file in others if file.is_file() and settings_of(file)), None)


def addopts_in_force(overrides: Sequence[str], path: Path | None) -> list[str]:
    """`addopts` by the ini values that were given, each `name=value`, or else by a configuration
    file that pytest has accepted."""
    given = [
        value for name, _, value in (one.partition("=") for one in overrides) if name == "addopts"
    ]
    if given:
        return shlex.split(given[-1])
    said = None if path is None else settings_of(path).get("addopts")
    return shlex.split(said) if isinstance(said, str) else [str(word) for word in said or []]


def starting_options(words: Sequence[str], *, folder: Path) -> tuple[str, ...]:
    """Return the options among some words that say which files, plugins and ini values pytest
    begins with.

    They come back in one spelling each, a `--confcutdir` as an absolute path; `folder` is what it
    is relative to.
    """
    options: list[str] = []
    left = takewhile("--".__ne__, words)
    for word in left:
        found = _STARTS.fullmatch(word)
        if found is None:
            continue
        name, value = found[1] or found[3], found[2] or found[4]
        value = next(left, None) if value is None else value
        if value is None:  # which pytest itself refuses
            return ()
        match name:
            case "-p":
                options += [name, value]
            case "--import-mode":
                options.append(f"{name}={value}")
            case "--confcutdir":
                options.append(f"{name}={(folder / value).resolve()}")
            case _:
                options.append(f"{INI}{value}")
    return tuple(options)


def starting_options_of(options: Sequence[str]) -> tuple[str, ...]:
    """Return what the `addopts` say that a pytest with these options would read, of what it begins
    with.

    One that the options override, with an option or a value, is that; else it is that of the file
    they name.
    """
    ini = next((Path(path) for word, path in pairwise(options) if word == "-c"), None)
    overrides = [word.removeprefix(INI) for word in options if word.startswith(INI)]
    said = addopts_in_force(overrides, ini if ini is not None and ini.is_file() else None)
    found = starting_options(said, folder=Path.cwd() if ini is None else ini.parent)
    return tuple(word for word in found if not word.startswith(f"{INI}addopts="))
