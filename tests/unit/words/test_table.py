"""The table of texts against the code that uses it: every code has a text, every text a code and
its fields."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

import pytest

import perfgate
from perfgate.model import errors
from perfgate.words import table
from perfgate.words.say import _FORMATS
from perfgate.words.table import TEXT
from perfgate.words.text import Text

PACKAGE = Path(perfgate.__file__).parent
MAKERS = {
    "note",
    *(
        name
        for name, made in vars(errors).items()
        if isinstance(made, type) and issubclass(made, errors.PerfgateError)
    ),
}
"""What is called with a code: `note(...)` and the classes of errors."""


@dataclass(frozen=True, kw_only=True)
class Use:
    """One place that makes a note or an error of a code."""

    code: str
    place: str
    fields: frozenset[str] | None
    """None where it hands on a mapping of fields."""


def uses() -> Iterator[Use]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _name(node.func) in MAKERS and node.args:
                for code in _literals(node.args[0]):
                    names = [keyword.arg for keyword in node.keywords]
                    given = frozenset(name for name in names if name is not None)
                    yield Use(
                        code=code,
                        place=f"{path.relative_to(PACKAGE)}:{node.lineno}",
                        fields=None if None in names else given,
                    )


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _literals(code: ast.expr) -> Iterator[str]:
    match code:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=one, orelse=other):
            yield from (*_literals(one), *_literals(other))
        case _:
            pass


def named_fields(text: Text) -> frozenset[str]:
    """The fields that a text shows, and those that its formats ask for."""
    found: set[str] = set()
    for part in text:
        for _, name, spec, _ in Formatter().parse(part):
            if name is not None:
                found |= {
                    name,
                    *([spec.split("of ")[1]] if spec and "of " in spec else []),
                }
    return frozenset(found)


def test_every_code_that_is_used_has_a_text() -> None:
    assert [f"{use.place}: {use.code}" for use in uses() if use.code not in TEXT] == []


def test_every_use_gives_the_fields_that_its_text_shows() -> None:
    lacking = {
        f"{use.place}: {use.code}": sorted(missing)
        for use in uses()
        if use.code in TEXT
        and use.fields is not None
        and (missing := named_fields(TEXT[use.code]) - use.fields)
    }
    assert lacking == {}


def test_every_text_is_used() -> None:
    """A code may be chosen from a table of the room's own: it is there as a literal all the
    same.
    """
    literals = {
        node.value
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "words"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert sorted(TEXT.keys() - literals) == []


def test_a_code_has_one_text() -> None:
    twice = Counter(code for rows in table._TABLES for code in rows)
    assert [code for code, times in twice.items() if times > 1] == []


@pytest.mark.parametrize("code", TEXT)
def test_texts_have_the_form_of_the_table(code: str) -> None:
    text: Text = TEXT[code]
    assert code == code.lower().replace("_", "-").replace(" ", "-")
    assert text.fact
    assert not text.fact.endswith(".")
    assert not text.expectation.endswith(".")
    for part in text:
        # A format that is not known would end a gate where it has something to say.
        for _, field, spec, _ in Formatter().parse(part):
            is_known = spec in {*_FORMATS, "", "next", "rest", "sentences"}
            is_open = spec is not None and (
                spec.startswith("list") or "|" in spec or re.fullmatch(r"(\w+ )?of \w+", spec)
            )
            assert field is None or is_known or is_open, f"{field}:{spec}"
