"""Where the project's settings come from: pyproject.toml and options, merged once and checked."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from perfgate.model.errors import ConfigInvalid
from perfgate.model.given import refused, wrong
from perfgate.model.metric import NO_LONGER_GATED, Budget, Budgeted, Metric
from perfgate.model.note import Notes, Severity, note
from perfgate.model.options import OPTIONS
from perfgate.model.settings import Settings

TABLE: Final = "[tool.perfgate]"
FRACTION: Final = TypeAdapter[float](Budget)
"""Reads a budget that was typed."""
_BUDGETS: Final = TypeAdapter(dict[Budgeted, Budget])
MISSPELT: Final = 0.85
"""From this likeness on (`difflib`), the name of another table is ours, misspelt."""
_CONFIGURE_PYTEST: Final = (
    ("pytest.toml", ""),
    (".pytest.toml", ""),
    ("pytest.ini", ""),
    (".pytest.ini", ""),
    ("pyproject.toml", "[tool.pytest]"),
    ("pyproject.toml", "[tool.pytest."),
    ("tox.ini", "[pytest]"),
    ("setup.cfg", "[tool:pytest]"),
)
"""Files, and how the line begins by which they configure pytest."""


def find_root(start: Path) -> Path:
    """The project's root: pytest's own, since a gate under pytest keeps its results there.

    That is the nearest folder upwards that configures pytest, else the nearest with a
    pyproject.toml, else with a setup.py. Where pytest would then take `start`, the nearest
    repository comes first.
    """
    folders = (start := start.resolve(), *start.parents)
    for folder in folders:
        if any(_has_line(folder / name, header) for name, header in _CONFIGURE_PYTEST):
            return folder
    for name in ("pyproject.toml", "setup.py", ".git"):
        for folder in folders:
            if (folder / name).exists():
                return folder
    return start


def _has_line(file: Path, beginning: str) -> bool:
    """Whether there is such a file, with a line that begins so."""
    try:
        return f"\n{beginning}" in f"\n{file.read_text(encoding='utf-8')}"
    except (UnicodeDecodeError, OSError):
        return False


def load_settings(root: Path, options: Mapping[str, object]) -> Settings:
    """Merge the defaults, `[tool.perfgate]` of the root's pyproject.toml, and options.

    Options are by the setting's name; those that are None were not given. `budgets` is a list of
    texts as `step_ms=0.03`, and replaces the budgets of these metrics alone.

    Raises:
        ConfigInvalid: the file is no TOML, or holds a key or value that perfgate does not know.
    """
    written = _written(root / "pyproject.toml")
    given = {name: value for name, value in options.items() if value is not None}
    if budgets := budgets_of_options(given.pop("budgets", ())):
        given["budgets"] = {**written.budgets, **budgets}
    try:
        settings = Settings.model_validate({**dict(written), **given})
    except ValidationError as invalid:
        error = refused(invalid, Settings, place="")
        error.fields["place"] = next(
            option.option for option in OPTIONS if option.setting == error.fields["place"]
        )
        raise ConfigInvalid(error.code, **error.fields) from None
    if settings.max_runs < settings.runs:
        raise ConfigInvalid("runs-contradict", runs=settings.runs, max_runs=settings.max_runs)
    return settings


def _written(file: Path) -> Settings:
    """Return what a file sets, checked whether or not options replace it."""
    try:
        # TOML knows numbers from text: runs = "3" and runs = true are mistakes there.
        return Settings.model_validate_json(json.dumps(_table(file), default=str), strict=True)
    except ValidationError as invalid:
        raise refused(invalid, Settings, place=f"pyproject.toml {TABLE} ") from None


def budgets_of_options(given: object) -> dict[Metric, float]:
    """Return budgets by metric, of texts as `step_ms=0.03`.

    Raises:
        ConfigInvalid: one is of another form, of no metric, or no budget that this one can have.
    """
    found: dict[Metric, float] = {}
    for text in given if isinstance(given, Sequence) else ():
        metric, _, fraction = map(str.strip, text.partition("="))
        try:
            found |= _BUDGETS.validate_python({metric: fraction})
        except ValidationError:
            raise wrong("--perfgate-budget", text, "expects-budgets") from None
    return found


def outdated(root: Path, settings: Settings) -> Notes:
    """Return what is set as in older projects: by an old name, or without effect any more."""
    table = _table(root / "pyproject.toml")
    found = [
        note("setting-renamed", Severity.WARN, old=field.validation_alias, new=name)
        for name, field in Settings.model_fields.items()
        if field.validation_alias in table
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
    if not file.is_file():
        return {}
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
