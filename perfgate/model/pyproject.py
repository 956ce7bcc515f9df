"""Where the project's settings come from: pyproject.toml and options, merged once and checked."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

from pydantic import TypeAdapter, ValidationError

from perfgate.model.errors import ConfigInvalid
from perfgate.model.metric import NO_LONGER_GATED, Budget, Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.options import OPTIONS
from perfgate.model.settings import (
    OLD_NAMES,
    Settings,
    check_budgets,
    check_keys,
    first_of,
    wrong,
)

TABLE: Final = "[tool.perfgate]"
_PLACE: Final = f"pyproject.toml {TABLE}"
FRACTION: Final = TypeAdapter[float](Budget)
"""Reads a budget that was typed."""
MISSPELT: Final = 0.85
"""From this likeness on (`difflib`), the name of another table is ours, misspelt."""
NOT_FOR_BASELINES: Final = frozenset({".git", ".perfgate"})
"""Folders of the project's root that are others' own, and in no commit."""


def find_root(start: Path) -> Path:
    """The project's root: pytest's own, since a gate under pytest keeps its results there.

    That is the nearest folder upwards that configures pytest, else the nearest with a
    pyproject.toml, else with a setup.py. Where pytest would then take `start`, the nearest
    repository comes first.
    """
    folders = (start := start.resolve(), *start.parents)
    if (configuring := next(filter(_configures_pytest, folders), None)) is not None:
        return configuring
    for name in ("pyproject.toml", "setup.py", ".git"):
        for folder in folders:
            if (folder / name).exists():
                return folder
    return start


def _configures_pytest(folder: Path) -> bool:
    own = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
    if any((folder / name).is_file() for name in own):
        return True
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        project = {}
    except (ValueError, OSError):
        return True  # pytest stops at it, and so must the settings: they tell what is wrong
    tool = project.get("tool", {})
    return (
        (isinstance(tool, dict) and isinstance(tool.get("pytest"), dict) and bool(tool["pytest"]))
        or _has_section(folder / "tox.ini", "[pytest]")
        or _has_section(folder / "setup.cfg", "[tool:pytest]")
    )


def _has_section(file: Path, *headers: str) -> bool:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (UnicodeDecodeError, OSError):
        return False
    return any(line.startswith(headers) for line in lines)


def load_settings(root: Path, options: Mapping[str, object]) -> Settings:
    """Merge the defaults, `[tool.perfgate]` of the root's pyproject.toml, and options.

    Options are by the setting's name; those that are None were not given. `budgets` is a list of
    texts as `step_ms=0.03`, and replaces the budgets of these metrics alone.

    Raises:
        ConfigInvalid: the file is no TOML, or holds a key or value that perfgate does not know.
    """
    written = _written(root / "pyproject.toml")
    given = {name: value for name, value in options.items() if value is not None}
    budgets = budgets_of_options(given.pop("budgets", ()))
    if budgets:
        given["budgets"] = {**written.budgets, **budgets}
    try:
        settings = Settings.model_validate({**dict(written), **given})
    except ValidationError as invalid:
        raise _of_option(invalid) from None
    if settings.max_runs < settings.runs:
        raise ConfigInvalid("runs-contradict", runs=settings.runs, max_runs=settings.max_runs)
    return settings


def _of_option(invalid: ValidationError) -> ConfigInvalid:
    error = first_of(invalid, place="")
    setting = str(error.fields["place"]).partition(".")[0]
    option = next(option.option for option in OPTIONS if option.setting == setting)
    return ConfigInvalid(error.code, **{**error.fields, "place": option})


def _written(file: Path) -> Settings:
    """Return what a file sets, checked whether or not options replace it."""
    table = _table(file) if file.is_file() else {}
    old = OLD_NAMES.keys() & table.keys()
    if twice := {name for name in old if OLD_NAMES[name] in table}:
        raise ConfigInvalid("setting-twice", old=min(twice), new=OLD_NAMES[min(twice)])
    known = Settings.model_fields.keys() - {"old_names"} | old
    check_keys(table, known=known, place=_PLACE)
    check_budgets(table.get("budgets"), place=f"{_PLACE} budgets")
    try:
        # TOML knows numbers from text: runs = "3" and runs = true are mistakes there.
        written = Settings.model_validate_json(json.dumps(table, default=str), strict=True)
    except ValidationError as invalid:
        raise first_of(invalid, place=f"{_PLACE} ") from None
    check_budgets(written.budgets, place=f"{_PLACE} budgets")
    _check_paths(written)
    return written.model_copy(update={"old_names": tuple(sorted(old))})


def _check_paths(written: Settings) -> None:
    """Refuse folders in which nothing would be found, or whose changes git could not leave out.

    Raises:
        ConfigInvalid: names the first of them.
    """
    for name in ("workloads", "baselines", "nsys", "ab_python", "ab_setup"):
        value = getattr(written, name) or ()
        if any("\0" in text for text in ((value,) if isinstance(value, str) else value)):
            raise wrong(f"{_PLACE} {name}", value, "expects-no-nul")
    workloads, baselines = PurePath(written.workloads), PurePath(written.baselines)
    if ".." in workloads.parts:
        raise wrong(f"{_PLACE} workloads", written.workloads, "expects-folder-within")
    if (
        ".." in baselines.parts
        or baselines.is_absolute()
        or not baselines.parts
        or baselines.parts[0] in NOT_FOR_BASELINES
        or workloads.is_relative_to(baselines)
    ):
        raise wrong(f"{_PLACE} baselines", written.baselines, "expects-own-folder")


def budgets_of_options(given: object) -> dict[Metric, float]:
    """Return budgets by metric, of texts as `step_ms=0.03`.

    Raises:
        ConfigInvalid: one is of another form, of no metric, or no budget that this one can have.
    """
    place = next(option.option for option in OPTIONS if option.setting == "budgets")
    found: dict[str, float] = {}
    for text in given if isinstance(given, Sequence) else ():
        metric, _, fraction = str(text).partition("=")
        try:
            found[metric.strip()] = FRACTION.validate_python(fraction.strip())
        except ValueError:
            raise wrong(place, str(text), "expects-budget") from None
    check_budgets(found, place=place)
    return {Metric(metric): budget for metric, budget in found.items()}


def outdated(settings: Settings) -> tuple[Note, ...]:
    """Return what is set as in older projects: by an old name, or without effect any more."""
    found = [
        note("setting-renamed", Severity.WARN, old=name, new=OLD_NAMES[name])
        for name in settings.old_names
    ]
    found += [
        note("setting-budget-without-effect", Severity.WARN, metric=metric)
        for metric in NO_LONGER_GATED
        if metric in settings.budgets
    ]
    if settings.trace_osrt:
        found.append(note("trace-without-effect", Severity.WARN))
    return tuple(found)


def _table(file: Path) -> dict[str, object]:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as broken:
        problem = " ".join(str(broken).split())
        raise ConfigInvalid("toml-unreadable", file=file.name, problem=problem) from broken
    tool = document.get("tool", {})
    if not isinstance(tool, dict):
        return {}
    meant = difflib.get_close_matches("perfgate", tool, n=1, cutoff=MISSPELT)
    if meant and "perfgate" not in tool:  # what it asks for would have no effect
        raise ConfigInvalid("table-misspelt", table=meant[0])
    table = tool.get("perfgate", {})
    if not isinstance(table, dict):
        raise ConfigInvalid("table-invalid", type=type(table).__name__)
    return table
