"""Where the project's settings come from: pyproject.toml, the environment and options, merged once and checked."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from perfgate.model.errors import ConfigInvalid
from perfgate.model.metric import METRICS, Metric
from perfgate.model.settings import Settings

TABLE = "[tool.perfgate]"


def find_root(start: Path) -> Path:
    """The project's root: the nearest folder upwards with a pyproject.toml or a repository, else `start` itself."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / "pyproject.toml").is_file() or (folder / ".git").exists():
            return folder
    return start


def load_settings(root: Path, options: Mapping[str, object]) -> Settings:
    """Merge the defaults, `[tool.perfgate]` of the root's pyproject.toml, and options that are not None.

    Raises:
        ConfigInvalid: the file is no TOML, or holds a key or value that perfgate does not know.
    """
    file = root / "pyproject.toml"
    told = _table(file) if file.is_file() else {}
    given = {name: value for name, value in options.items() if value is not None}
    check_keys(told, known=Settings.model_fields, subject=f"{file.name} {TABLE}")
    merged: dict[str, object] = {**told, **given}
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        name = str(first["loc"][0])
        subject = f"--perfgate-{name.replace('_', '-')}" if name in given else f"{file.name} {TABLE} {name}"
        raise invalid_value(first, subject=subject) from None
    check_budgets(settings.budgets, subject=f"{file.name} {TABLE} budgets")
    if settings.max_runs < settings.runs:
        raise ConfigInvalid(
            subject="runs",
            fact=f"the first look takes {settings.runs} runs, but no more than {settings.max_runs} are allowed",
            expectation="max_runs is at least runs",
            next_step="Raise --perfgate-max-runs or lower --perfgate-runs.",
        )
    return settings


def check_keys(told: Mapping[str, object], *, known: Mapping[str, object], subject: str) -> None:
    """Refuse keys that nobody reads.

    Raises:
        ConfigInvalid: names the first unknown key, and the one that was perhaps meant.
    """
    for key in told:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            raise ConfigInvalid(
                subject=subject,
                fact=f"unknown key {key!r}",
                expectation=f"known are {', '.join(sorted(known))}",
                next_step=f"Perhaps you meant {near[0]!r}." if near else "Remove it.",
            )


def check_budgets(budgets: Mapping[Metric, float], *, subject: str) -> None:
    """Refuse budgets of metrics that are not gated by one, and budgets that are no fractions.

    Raises:
        ConfigInvalid: names the metric.
    """
    clocks = [metric for metric, spec in METRICS.items() if spec.clock is not None]
    for metric, budget in budgets.items():
        if metric not in clocks:
            raise ConfigInvalid(
                subject=f"{subject} {metric}",
                fact="this metric has no budget: counts are exact, and NCCL time is shown only",
                expectation=f"metrics with a budget are {', '.join(clocks)}",
                next_step="Remove it.",
            )
        if not 0 < budget < 1:
            raise ConfigInvalid(
                subject=f"{subject} {metric}",
                fact=f"the budget is {budget:g}",
                expectation="a fraction above 0 and below 1: 0.02 is 2 %",
                next_step="Write the budget as a fraction.",
            )


def invalid_value(error: Mapping[str, object], *, subject: str) -> ConfigInvalid:
    """One of pydantic's complaints as a ConfigInvalid."""
    return ConfigInvalid(
        subject=subject,
        fact=f"the value is {error.get('input')!r}",
        expectation=str(error.get("msg", "")).replace("Input should be", "it should be"),
        next_step="Correct it.",
    )


def _table(file: Path) -> dict[str, object]:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as broken:
        raise ConfigInvalid(
            subject=str(file.name),
            fact=f"it cannot be read as TOML ({broken})",
            next_step="Correct the file.",
        ) from broken
    tool = document.get("tool", {})
    table = tool.get("perfgate", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise ConfigInvalid(
            subject=f"{file.name} {TABLE}",
            fact=f"it is a {type(table).__name__}",
            expectation="a table",
            next_step="Write [tool.perfgate] and keys below it.",
        )
    return table
