"""What the README and the pages behind it say of commands, settings and exit codes, held against
the real ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perfgate.cli import COMMANDS
from perfgate.model import errors
from perfgate.model.errors import EXIT_OPEN, EXIT_SHUT, EXIT_USAGE, PerfgateError
from perfgate.model.metric import METRICS
from perfgate.model.options import OPTIONS, Option
from perfgate.model.outcome import Outcome
from perfgate.model.settings import Settings

TOP = Path(__file__).parents[2]
PAGES = (
    TOP / "README.md",
    TOP / "workloads" / "README.md",
    *sorted((TOP / "docs").glob("*.md")),
)
README = (TOP / "README.md").read_text(encoding="utf-8")
NUMBERS = (TOP / "docs" / "numbers.md").read_text(encoding="utf-8")
REFERENCE = (TOP / "docs" / "reference.md").read_text(encoding="utf-8")


def section(title: str, page: str = README) -> str:
    found = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert found, title
    return found


def test_the_table_of_exit_codes_is_that_of_the_errors() -> None:
    shown = dict(re.findall(r"^\| (\d+) \| (\w+)", section("Exit codes", REFERENCE), re.MULTILINE))
    classes = {
        str(found.exit_code): name
        for name, found in vars(errors).items()
        if isinstance(found, type)
        and issubclass(found, PerfgateError)
        and "exit_code" in vars(found)
    }
    doors = {str(code) for code in (EXIT_OPEN, EXIT_SHUT, EXIT_USAGE)}
    assert {code: name for code, name in shown.items() if code not in doors} == classes
    assert doors <= shown.keys()


def test_every_outcome_is_explained() -> None:
    assert [name for name in Outcome if name not in section("What it says")] == []


def test_every_metric_is_explained() -> None:
    assert [metric for metric in METRICS if f"`{metric}`" not in NUMBERS] == []


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_the_reference_shows_each_option(option: Option) -> None:
    (row,) = [row for row in REFERENCE.splitlines() if row.endswith(f"| {option.help} |")]
    flag = option.option if option.is_flag else ""
    assert all(f"`{name}" in row for name in (option.setting, flag, option.action_input) if name)


def test_the_table_of_options_is_that_of_the_settings() -> None:
    defaults = Settings().model_dump(mode="json")
    helps = {one.setting: one.help for one in OPTIONS if one.setting is not None}
    assert helps.keys() == defaults.keys()
    named = {name: value for name, value in defaults.items() if value not in (None, [], {})}
    for name, value in named.items():
        assert helps[name].endswith(f"(default: {str(value).lower()})")


def test_the_inputs_of_the_action_are_those_of_the_table() -> None:
    action = (TOP / ".github/actions/perfgate/action.yml").read_text(encoding="utf-8")
    inputs = set(re.findall(r"^  ([a-z-]+):$", action.partition("outputs:")[0], re.MULTILINE))
    assert {one.action_input for one in OPTIONS if one.action_input is not None} <= inputs


def test_every_command_is_named() -> None:
    rows = re.findall(r"^\| (`.+?) \|", section("Commands", REFERENCE), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} - {"perfgate"} == set(
        COMMANDS
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_no_section_stands_twice_and_every_page_and_heading_that_is_named_is_there(
    page: Path,
) -> None:
    text = page.read_text(encoding="utf-8")
    titles = re.findall(r"^## .+$", text, re.MULTILINE)
    assert len(set(titles)) == len(titles)
    for link, _, heading in (
        named.partition("#") for named in re.findall(r"\]\(\s*(?!https?://)([^)]+)\)", text)
    ):
        target = page.parent / link if link else page
        assert target.exists(), link
        assert not heading or heading in anchors(target.read_text(encoding="utf-8")), (
            f"{link}#{heading}"
        )


def anchors(text: str) -> set[str]:
    """The names by which GitHub links the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_is_named_in_the_readme() -> None:
    links = {
        (TOP / link).resolve()
        for link in re.findall(r"\]\(\s*(?!https?://)([^)#]+)[^)]*\)", README)
    }
    assert [page for page in PAGES[1:] if page.resolve() not in links] == []


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= 900
