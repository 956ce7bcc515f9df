"""`[tool.perfgate]` in a pyproject.toml, appended as text: what else is in the file stays as it is, byte by byte."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Final

from perfgate.model.errors import ConfigInvalid

_TABLE: Final = """\
[tool.perfgate]
workloads = "workloads"  # what is measured: functions marked @workload, scripts by their YAML file
baselines = "baselines"  # what it is compared with, written by perfgate bless; committed
"""


def parsed(text: str) -> Mapping[str, object]:
    """Read a pyproject.toml.

    Raises:
        ConfigInvalid: it is no TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as broken:
        raise ConfigInvalid(
            subject="pyproject.toml",
            fact=f"it cannot be read as TOML ({' '.join(str(broken).split())})",
            next_step="Correct the file.",
        ) from broken


def has_table(document: Mapping[str, object]) -> bool:
    """Whether a pyproject.toml has settings of perfgate, be they empty."""
    tool = document.get("tool")
    return isinstance(tool, dict) and "perfgate" in tool


def with_table(text: str) -> str:
    """Return a pyproject.toml, maybe empty, with `[tool.perfgate]` at its end, in its own line ends.

    Raises:
        ConfigInvalid: the table cannot be appended, since `tool` is written inline or is no table.
    """
    before = parsed(text)
    refused = ""
    line_end = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text.strip() else line_end if text.endswith("\n") else 2 * line_end
    made = text + gap + _TABLE.replace("\n", line_end)
    try:
        if _others(tomllib.loads(made)) != _others(before):
            refused = "it would change another table"
    except tomllib.TOMLDecodeError as broken:
        refused = " ".join(str(broken).split())
    if refused:
        raise ConfigInvalid(
            subject="pyproject.toml",
            fact=f"[tool.perfgate] cannot be appended ({refused})",
            expectation="Settings of tools are tables of their own: [tool.NAME]",
            next_step="Write [tool.perfgate] by hand, with workloads and baselines.",
        )
    return made


def _others(document: Mapping[str, object]) -> str:
    """All but perfgate's table, as text: TOML knows nan, which equals nothing."""
    tool = document.get("tool", {})
    tools = (
        {name: held for name, held in tool.items() if name != "perfgate"}
        if isinstance(tool, dict)
        else tool
    )
    return repr(({name: held for name, held in document.items() if name != "tool"}, tools))
