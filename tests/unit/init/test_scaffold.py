"""`[tool.perfgate]` in a pyproject.toml: appended, and nothing else changed."""

from __future__ import annotations

import tomllib

import pytest

from perfgate.init.scaffold import with_table
from perfgate.model.errors import ConfigInvalid


@pytest.mark.parametrize(
    "text", ["", "\n", "[project]\nname = 'x'", "# mine\r\n[tool.ruff]\r\nx = 1\r\n", "[tool]\n"]
)
def test_the_table_comes_behind_what_is_there(text: str) -> None:
    made = with_table(text)
    assert made.startswith(text)
    assert tomllib.loads(made)["tool"]["perfgate"] == {
        "workloads": "workloads",
        "baselines": "baselines",
    }
    assert with_table(made) == made


@pytest.mark.parametrize("text", ["tool = {ruff = {}}\n", "tool = 3\n", 'tool = "perfgate"\n'])
def test_a_table_that_cannot_be_appended_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid):
        with_table(text)
