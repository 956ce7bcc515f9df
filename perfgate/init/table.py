"""`[tool.perfgate]` in a pyproject.toml, appended as text: what else is in the file stays as it is,
byte by byte."""

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
        raise ConfigInvalid("pyproject-no-toml", reason=str(broken)) from broken


def with_table(text: str) -> str:
    """Return a pyproject.toml, maybe empty, with `[tool.perfgate]` at its end, in its own line
    ends, if it has none.

    Raises:
        ConfigInvalid: the table cannot be appended, since `tool` is written inline or is no table.
    """
    before = parsed(text)
    tool = before.get("tool")
    if isinstance(tool, dict) and "perfgate" in tool:
        return text
    line_end = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text.strip() else line_end if text.endswith("\n") else 2 * line_end
    made = text + gap + _TABLE.replace("\n", line_end)
    try:
        alike = _others(tomllib.loads(made)) == _others(before)
    except tomllib.TOMLDecodeError:
        alike = False
    if not alike:
        raise ConfigInvalid("table-not-appended")
    return made


def _others(document: Mapping[str, object]) -> str:
    """All but perfgate's table, as text: TOML knows nan, which equals nothing."""
    tool = document.get("tool", {})
    if isinstance(tool, dict):
        tool = {name: held for name, held in tool.items() if name != "perfgate"}
    return repr({**document, "tool": tool})
