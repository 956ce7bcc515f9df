"""`[tool.perfgate]` appended to a pyproject.toml, of which nothing else changes."""

from __future__ import annotations

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
    ("text", "code"),
    [
        ("tool = {x = {y = 1}}\n", "table-not-appended"),
        ("tool = 3\n", "table-not-appended"),
        ("[[tool]]\nx = 1\n[[tool]]\n", "table-not-appended"),
        ("[project\n", "pyproject-no-toml"),
    ],
)
def test_where_it_cannot_be_appended_that_is_an_error(text: str, code: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        table.with_table(text)
    assert refused.value.code == code


def test_a_table_that_is_there_stays_as_it_is() -> None:
    text = "[tool.perfgate]\r\nruns = 5 # mine\n"
    assert table.with_table(text) == text


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
