"""Commands in messages are there to be copied: each ends its line, or stands in backticks,
parentheses or quotes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import perfgate
from perfgate.words.table import TEXT

pytestmark = pytest.mark.behaviour

PACKAGE = Path(perfgate.__file__).parent
COMMAND = (
    r"(?<=: )(?:perfgate (?:init|doctor|selftest|demo|bless|calibrate|show|history|compare"
    r"|explain|inspect|page"
    r"|merge)\b|pytest --|git (?:fetch|add|commit|rm|status|log|init|config|submodule|clone|-C)"
    r"|pip install|apt-get|rm -r|chmod|nvidia-smi|python)[^\n`]*"
)
GLUED = re.compile(r"[.;]\s|[.;]$|, (?:then|or|and) ")


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """The texts of a file, their values as braces; a text of several parts as one."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr | ast.Constant | ast.BinOp) and (
            shown := flat(node)
        ).strip("{}"):
            yield getattr(node, "lineno", 0), shown


def flat(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(flat(part) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return flat(left) + flat(right)
        case _:
            return "{}"


def glued(text: str) -> list[str]:
    """The commands of a text behind which something else follows in the line."""
    return [
        found[0]
        for found in re.finditer(COMMAND, text)
        if GLUED.search(re.sub(r'"[^"]*"|; perfgate bless', "", found[0]))
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See what is missing: perfgate doctor", False),
        ("Run `perfgate doctor`. A process that is forked", False),
        ("Hear it: perfgate doctor. A process that is forked", True),
        ("Make one: pytest --perfgate, then perfgate bless", True),
        ("See: git status.", True),
        ("Fetch it: git fetch --unshallow; elsewhere", True),
        ('Make one: perfgate bless --reason "..."', False),
        ("It has no effect: perfgate showed nothing. Remove it", False),
    ],
)
def test_a_glued_command_is_known(text: str, found: bool) -> None:
    assert bool(glued(text)) is found


def test_each_command_in_a_message_ends_its_line() -> None:
    found = {
        f"{file.relative_to(PACKAGE)}:{line}: {one}"
        for file in PACKAGE.rglob("*.py")
        for line, text in texts(file)
        for one in glued(text)
    }
    assert not found, "\n".join(sorted(found))


def test_what_another_message_says_to_do_ends_its_line_since_it_may_end_with_a_command() -> None:
    found = {
        code
        for code, text in TEXT.items()
        if re.search(r"\{\w+:(?:next|rest)\}[^\n]", text.next_step)
    }
    assert not found
