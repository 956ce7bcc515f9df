"""What the README says of commands and exit codes, held against the real ones."""

from __future__ import annotations

import re
from pathlib import Path

from perfgate.model import errors
from perfgate.model.errors import EXIT_OPEN, EXIT_SHUT, EXIT_USAGE, PerfgateError
from perfgate.model.metric import METRICS
from perfgate.model.outcome import Outcome
from perfgate.model.settings import Settings
from perfgate.plugin import OPTIONS

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_table_of_exit_codes_is_that_of_the_errors() -> None:
    told = dict(re.findall(r"^\| (\d+) \| (\w+)", section("Exit codes"), re.MULTILINE))
    classes = {
        str(found.exit_code): name
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, PerfgateError) and found is not PerfgateError
    }
    doors = {str(code) for code in (EXIT_OPEN, EXIT_SHUT, EXIT_USAGE)}
    assert {code: name for code, name in told.items() if code not in doors} == classes
    assert doors <= told.keys()


def test_every_outcome_is_explained() -> None:
    assert [name for name in Outcome if name not in section("What it says")] == []


def test_every_metric_is_explained() -> None:
    assert [metric for metric in METRICS if f"`{metric}`" not in section("What is measured")] == []


def test_the_settings_shown_are_the_defaults() -> None:
    told = section("Settings")
    defaults = Settings().model_dump(mode="json")
    shown = dict(re.findall(r'^(\w+) = ("[^"]*"|[\w.\[\]]+)', told, re.MULTILINE))
    shown.pop("step_ms")
    assert {name: value.strip('"') for name, value in shown.items()} == {
        name: str(value).lower()
        if isinstance(value, bool)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
        for name, value in defaults.items()
        if name != "budgets" and value is not None
    }
    unset = [name for name, value in defaults.items() if value is None]
    assert [name for name in unset if f"# {name}: " not in told and f"the setting `{name}`" not in told] == []


def test_every_option_is_named() -> None:
    assert [flag for flag, _ in OPTIONS if flag not in README] == []


def test_no_section_stands_twice_and_every_page_that_is_named_is_there() -> None:
    titles = re.findall(r"^## .+$", README, re.MULTILINE)
    assert len(set(titles)) == len(titles)
    top = Path(__file__).parents[2]
    for page in (top / "README.md", *sorted((top / ".github" / "docs").glob("*.md"))):
        links = re.findall(r"\]\((?!https?://)([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (page.parent / link).exists()] == []
