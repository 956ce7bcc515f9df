"""`[tool.perfgate]` appended to a pyproject.toml, of which nothing else changes."""

from __future__ import annotations

import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.init import table
from perfgate.model.errors import ConfigInvalid
from perfgate.model.settings import Settings

APPENDED = """\
[tool.perfgate]
workloads = "workloads"  # what is measured: functions marked @workload, scripts by their YAML file
baselines = "baselines"  # what it is compared with, written by perfgate bless; committed
"""


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("", APPENDED),
        ("\n", f"\n{APPENDED}"),
        ("# mine\n[project]\nname = 'x' # y\n", f"# mine\n[project]\nname = 'x' # y\n\n{APPENDED}"),
        ("[project]\nname = 'x'", f"[project]\nname = 'x'\n\n{APPENDED}"),
        (
            "a = 1\r\n[tool.x]\r\ny = nan\r\n",
            "a = 1\r\n[tool.x]\r\ny = nan\r\n\r\n" + APPENDED.replace("\n", "\r\n"),
        ),
        ("tool.x.y = 1\n", f"tool.x.y = 1\n\n{APPENDED}"),
    ],
)
def test_the_table_comes_behind_all_else(text: str, made: str) -> None:
    assert table.with_table(text) == made


def test_it_says_the_defaults() -> None:
    assert Settings.model_validate(tomllib.loads(APPENDED)["tool"]["perfgate"]) == Settings()


@pytest.mark.parametrize(
    "text", ["tool = {x = {y = 1}}\n", "tool = 3\n", "[[tool]]\nx = 1\n[[tool]]\n"]
)
def test_where_it_cannot_be_appended_the_user_is_told(text: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        table.with_table(text)
    why = re.sub(
        r"appended \(.+\)\.", "appended (WHY).", str(refused.value)
    )  # tomllib's words, by Python's version
    assert why == (
        "pyproject.toml: [tool.perfgate] cannot be appended (WHY). "
        "Settings of tools are tables of their own: [tool.NAME].\n"
        "Write [tool.perfgate] by hand, with workloads and baselines."
    )


def test_a_broken_file_is_told_in_tomllibs_words() -> None:
    with pytest.raises(ConfigInvalid) as refused:
        table.with_table("[project\n")
    assert str(refused.value) == (
        "pyproject.toml: it cannot be read as TOML (Expected ']' at the end of a table declaration "
        "(at line 1, column 9)).\nCorrect the file."
    )


@pytest.mark.parametrize(
    ("text", "there"), [("", False), ("[tool.perfgate]\n", True), ("[tool]\nx = 1\n", False)]
)
def test_an_empty_table_is_one(text: str, there: bool) -> None:
    assert table.has_table(table.parsed(text)) is there


@given(
    st.lists(
        st.sampled_from(
            [
                "# c",
                "",
                "[project]",
                "[tool.ruff]",
                "x = 1",
                "y = 'é'",
                'z = """\n[tool.perfgate]\n"""',
                "[[tool.a]]",
            ]
        )
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_all_else_stays_as_it_is(lines: list[str], line_end: str) -> None:
    text = line_end.join(lines)
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    made = table.with_table(text)
    after = tomllib.loads(made)
    assert made.startswith(text)
    assert after["tool"].pop("perfgate") == {"workloads": "workloads", "baselines": "baselines"}
    assert after == before | {"tool": before.get("tool", {})}
