"""Where the project's settings come from: pyproject.toml and options, merged once and checked. Reads no environment."""

from __future__ import annotations

import difflib
import json
import reprlib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

from pydantic import TypeAdapter, ValidationError

from perfgate.model.errors import ConfigInvalid
from perfgate.model.metric import METRICS, NO_LONGER_GATED, Budget, Metric
from perfgate.model.settings import Settings

TABLE: Final = "[tool.perfgate]"
MISSPELT: Final = 0.85
"""From this likeness on (`difflib`), the name of another table is ours with a slip: a letter less, more or changed."""
BUDGET: Final = "--perfgate-budget"
_BUDGET: Final = TypeAdapter[float](Budget)
_WITH_BUDGET: Final = tuple(metric for metric, spec in METRICS.items() if spec.gated)
NOT_FOR_BASELINES: Final = frozenset({".git", ".perfgate"})
"""Folders of the project's root that are others' own, and in no commit."""

_IN_OUR_WORDS: Final = (
    ("Input should", "It should"),
    ("an object", "a mapping"),
    ("a valid dictionary", "a mapping"),
    ("a valid array", "a list"),
    ("a valid tuple", "a list"),
    ("a valid string", "text"),
    ("a valid integer", "a whole number"),
    ("a valid number", "a number"),
    ("a valid boolean", "true or false"),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
)
"""What pydantic says, whose words differ by where a value came from, and what a user is told."""


def find_root(start: Path) -> Path:
    """The project's root: pytest's own, since a gate under pytest keeps its results there.

    That is the nearest folder upwards that configures pytest, else the nearest with a pyproject.toml, else with a
    setup.py. Where pytest would then take `start`, the nearest repository comes first.
    """
    start = start.resolve()
    for is_root in (_configures_pytest, _has_pyproject, _has_setup, _is_repository):
        for folder in (start, *start.parents):
            if is_root(folder):
                return folder
    return start


def project_around(root: Path) -> Path | None:
    """The nearest project that a root lies in without being one itself; None of a root that is, or lies in none.

    A project has `[tool.perfgate]` or workloads; to have others in it, the one around has `[tool.perfgate]` or
    baselines as well.
    """
    default = Settings()
    if _has_table(root) or (root / default.workloads).is_dir():
        return None
    for folder in root.parents:
        if _has_table(folder) or all(
            (folder / held).is_dir() for held in (default.workloads, default.baselines)
        ):
            return folder
    return None


def project_within(root: Path, start: Path) -> Path | None:
    """The nearest folder at or above `start`, and below a root, with `[tool.perfgate]`; None where there is none."""
    if root not in start.parents:
        return None
    below = (folder for folder in (start, *start.parents) if root in folder.parents)
    return next(filter(_has_table, below), None)


def _has_table(folder: Path) -> bool:
    file = folder / "pyproject.toml"
    return _has_section(file, TABLE) or _has_section(file, TABLE.replace("]", "."))


def _configures_pytest(folder: Path) -> bool:
    if any(
        (folder / name).is_file()
        for name in ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
    ):
        return True
    if (folder / "pyproject.toml").is_file():
        try:
            tool = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get(
                "tool", {}
            )
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError):
            return True  # pytest stops at it, and so must the settings: they tell what is wrong
        pytests = tool.get("pytest", {}) if isinstance(tool, dict) else {}
        if isinstance(pytests, dict) and pytests:
            return True
    return _has_section(folder / "tox.ini", "[pytest]") or _has_section(
        folder / "setup.cfg", "[tool:pytest]"
    )


def _has_section(file: Path, header: str) -> bool:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (UnicodeDecodeError, OSError):
        return False
    return any(line.startswith(header) for line in lines)


def _has_pyproject(folder: Path) -> bool:
    return (folder / "pyproject.toml").is_file()


def _has_setup(folder: Path) -> bool:
    return (folder / "setup.py").is_file()


def _is_repository(folder: Path) -> bool:
    return (folder / ".git").exists()


def load_settings(root: Path, options: Mapping[str, object]) -> Settings:
    """Merge the defaults, `[tool.perfgate]` of the root's pyproject.toml, and options that are not None.

    The option `budgets` is a list of texts as `step_ms=0.03`, and replaces the budgets of these metrics alone.

    Raises:
        ConfigInvalid: the file is no TOML, or holds a key or value that perfgate does not know.
    """
    file = root / "pyproject.toml"
    told = _table(file) if file.is_file() else {}
    given = {name: value for name, value in options.items() if value is not None}
    check_keys(told, known=Settings.model_fields, subject=f"{file.name} {TABLE}")
    check_metrics(told.get("budgets"), subject=f"{file.name} {TABLE} budgets")
    try:
        # TOML knows numbers from text, so runs = "3" and runs = true are mistakes there; options are text.
        written = Settings.model_validate_json(json.dumps(told, default=str), strict=True)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise invalid_value(first, subject=f"{file.name} {TABLE} {where}") from None
    told_budgets = budgets_of_options(given.pop("budgets", ()))
    if told_budgets:
        given["budgets"] = {**written.budgets, **told_budgets}
    try:
        settings = Settings.model_validate({**dict(written), **given})
    except ValidationError as invalid:
        first = invalid.errors()[0]
        name = str(first["loc"][0]).removesuffix("_s").replace("_", "-")
        raise invalid_value(first, subject=f"--perfgate-{name}") from None
    check_budgets(written.budgets, subject=f"{file.name} {TABLE} budgets")
    _check_folders(written, subject=f"{file.name} {TABLE}")
    if settings.max_runs < settings.runs:
        raise ConfigInvalid(
            subject="runs",
            fact=f"the first look takes {settings.runs} runs, but no more than {settings.max_runs} are allowed",
            expectation="max_runs must be at least runs",
            next_step="Raise max_runs (--perfgate-max-runs) or lower runs (--perfgate-runs).",
        )
    return settings


def _check_folders(written: Settings, *, subject: str) -> None:
    """Refuse folders in which nothing would be found, or whose changes git could not be asked to pass over.

    Raises:
        ConfigInvalid: names the first of them.
    """
    workloads, baselines = PurePath(written.workloads), PurePath(written.baselines)
    texts = {
        name: getattr(written, name)
        for name in ("workloads", "baselines", "nsys", "duet_python", "duet_setup")
    }
    for name, value in texts.items():
        if any("\0" in text for text in ((value,) if isinstance(value, str) else value or ())):
            raise ConfigInvalid(
                subject=f"{subject} {name}",
                fact="it holds a NUL, which no path or word can",
                next_step="Remove it.",
            )
    if ".." in workloads.parts:
        raise ConfigInvalid(
            subject=f"{subject} workloads",
            fact=f"the value is {_shown(written.workloads)}",
            expectation="It should be a folder, without '..' on the way to it",
            next_step="Correct it.",
        )
    elsewhere = ".." in baselines.parts or baselines.is_absolute()
    others = (
        not baselines.parts
        or baselines.parts[0] in NOT_FOR_BASELINES
        or workloads.is_relative_to(baselines)
    )
    if elsewhere or others:
        raise ConfigInvalid(
            subject=f"{subject} baselines",
            fact=f"the value is {_shown(written.baselines)}",
            expectation="It should be a folder of its own in the project: what changes there is not taken for code",
            next_step='Correct it, for example: baselines = "baselines"',
        )


def budgets_of_options(told: object) -> dict[Metric, float]:
    """Budgets by metric, of texts as `step_ms=0.03`.

    Raises:
        ConfigInvalid: one is of another form, of no metric, or no budget that this one can have.
    """
    found: dict[str, float] = {}
    for text in told if isinstance(told, Sequence) else ():
        metric, _, fraction = str(text).partition("=")
        try:
            found[metric.strip()] = _BUDGET.validate_python(fraction.strip())
        except ValueError:
            raise ConfigInvalid(
                subject=BUDGET,
                fact=f"the value is {_shown(text)}",
                expectation="Expected a metric and a fraction, such as step_ms=0.03 or step_ms=3%",
                next_step="Correct it.",
            ) from None
    check_metrics(found, subject=BUDGET)
    budgets: dict[Metric, float] = {Metric(metric): fraction for metric, fraction in found.items()}
    check_budgets(budgets, subject=BUDGET)
    return budgets


def check_keys(told: Mapping[str, object], *, known: Mapping[str, object], subject: str) -> None:
    """Refuse keys that nobody reads.

    Raises:
        ConfigInvalid: names the first unknown key, and the one that was perhaps meant.
    """
    for key in told:
        if key not in known:
            raise ConfigInvalid(
                subject=subject,
                fact=f"unknown key {key!r}",
                expectation=f"Known are {', '.join(sorted(known))}",
                next_step=_perhaps(key, known),
            )


def check_metrics(budgets: object, *, subject: str) -> None:
    """Refuse budgets of what is no metric; what is no mapping at all is left to the record.

    Raises:
        ConfigInvalid: names the first unknown metric, and the one that was perhaps meant.
    """
    for name in budgets if isinstance(budgets, Mapping) else ():
        if name not in METRICS:
            raise ConfigInvalid(
                subject=subject,
                fact=f"unknown metric {name!r}",
                expectation=f"Metrics with a budget are {', '.join(_WITH_BUDGET)}",
                next_step=_perhaps(name, _WITH_BUDGET),
            )


def check_budgets(budgets: Mapping[Metric, float], *, subject: str) -> None:
    """Refuse budgets of metrics that are not gated by one, and budgets that are no fractions.

    Raises:
        ConfigInvalid: names the metric.
    """
    for metric, budget in budgets.items():
        if metric not in (*_WITH_BUDGET, *NO_LONGER_GATED):
            raise ConfigInvalid(
                subject=f"{subject} {metric}",
                fact="this metric has no budget: it is shown only",
                expectation=f"Metrics with a budget are {', '.join(_WITH_BUDGET)}",
                next_step="Remove it.",
            )
        if not 0 < budget < 1:
            raise ConfigInvalid(
                subject=f"{subject} {metric}",
                fact=f"the budget is {budget:g}",
                expectation="Expected a fraction above 0 and below 1: 0.02 is 2 %",
                next_step="Write the budget as a fraction.",
            )


def without_effect(settings: Settings) -> tuple[str, ...]:
    """What is set as in older projects, and has no effect any more, as sentences."""
    told = [
        f"the budget of {metric} in {TABLE} has no effect any more: it is a part of step_ms, and shown only. Remove it."
        for metric in NO_LONGER_GATED
        if metric in settings.budgets
    ]
    if settings.trace_osrt:
        told.append(
            f"trace_osrt in {TABLE} has no effect any more: perfgate showed nothing of what it recorded. Remove it; a "
            "baseline that was blessed with it must be measured and blessed again."
        )
    return tuple(told)


def invalid_value(error: Mapping[str, object], *, subject: str) -> ConfigInvalid:
    """One of pydantic's complaints as a ConfigInvalid."""
    if error.get("type") == "missing":
        return ConfigInvalid(
            subject=subject,
            fact="it is not there",
            expectation="It has no default",
            next_step="Add it.",
        )
    said, _, _ = str(error.get("msg", "")).partition(", unable to parse")
    for pydantics, ours in _IN_OUR_WORDS:
        said = said.replace(pydantics, ours)
    return ConfigInvalid(
        subject=subject,
        fact=f"the value is {_shown(error.get('input'))}",
        expectation="It should not be empty"
        if error.get("type") in {"too_short", "string_too_short"}
        else said,
        next_step="Correct it.",
    )


def _perhaps(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, [str(one) for one in known], n=1)
    return f"Perhaps you meant {near[0]!r}." if near else "Remove it."


def _shown(value: object) -> str:
    """Show a refused value: enough to find it, however large or deep it is."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 80
    short.maxlevel = 2
    return short.repr(value)


def _refuse_misspelt(file: Path, tool: Mapping[str, object]) -> None:
    """Refuse a table whose name is nearly ours: what it asks for, `inconclusive = "fail"` say, would have no effect."""
    if meant := difflib.get_close_matches("perfgate", tool, n=1, cutoff=MISSPELT):
        raise ConfigInvalid(
            subject=f"{file.name} [tool.{meant[0]}]",
            fact="no tool of this name is known to perfgate",
            expectation=f"Perhaps you meant {TABLE}",
            next_step=f"Write {TABLE}, or give a table of another tool beside an empty {TABLE}.",
        )


def _table(file: Path) -> dict[str, object]:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as broken:
        raise ConfigInvalid(
            subject=str(file.name),
            fact=f"it cannot be read as TOML ({' '.join(str(broken).split())})",
            next_step="Correct the file.",
        ) from broken
    tool = document.get("tool", {})
    if isinstance(tool, dict) and "perfgate" not in tool:
        _refuse_misspelt(file, tool)
    table = tool.get("perfgate", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise ConfigInvalid(
            subject=f"{file.name} {TABLE}",
            fact=f"it is a {type(table).__name__}",
            expectation="Expected a table",
            next_step="Write [tool.perfgate] and keys below it.",
        )
    return table
