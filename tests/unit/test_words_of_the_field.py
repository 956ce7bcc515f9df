"""The code is written in the field's words: retired ones stay out of its identifiers, and a class
name means one thing."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import perfgate

ROOT = Path(perfgate.__file__).parent
RETIRED = frozenset(
    {
        "account",
        "bench",
        "bout",
        "caveat",
        "creep",
        "door",
        "duel",
        "duet",
        "inert",
        "ladder",
        "mood",
        "remark",
        "rung",
        "shed",
        "shelf",
        "slip",
        "spelled",
        "stand",
        "tell",
        "told",
        "untold",
        "witness",
    }
)
"""Of the glossary in docs/terms.md, as far as no other meaning of them is in use."""
NOWHERE = frozenset({"bench", "bout", "duel", "duet", "mood", "shelf", "tell", "told", "witness"})
"""Those that have no other meaning in tests, benchmarks and workloads either."""
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def identifiers(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.string


def retired_in(name: str) -> frozenset[str]:
    """The retired words of a name, singular or plural."""
    parts = {part.lower() for part in _PARTS.findall(name)}
    return RETIRED & (parts | {part.removesuffix("s") for part in parts})


def test_retired_words_are_found_in_names() -> None:
    assert retired_in("told_of") == {"told"}
    assert retired_in("DuetForm") == {"duet"}
    assert retired_in("BOUTS") == {"bout"}
    assert not retired_in("standard_deviation_about_accounts_payable") - {"account"}


def test_no_identifier_holds_a_retired_word() -> None:
    found = {
        f"{file.relative_to(ROOT)}: {name}"
        for file in ROOT.rglob("*.py")
        for name in identifiers(file.read_text(encoding="utf-8"))
        if retired_in(name)
    }
    assert not found


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "workloads"])
def test_nor_does_one_next_to_the_package(folder: str) -> None:
    found = {
        f"{file}: {name}"
        for file in (ROOT.parent / folder).rglob("*.py")
        for name in identifiers(file.read_text(encoding="utf-8"))
        if retired_in(name) & NOWHERE
    }
    assert not found


def test_a_class_name_means_one_thing() -> None:
    places = defaultdict(set)
    for file in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(str(file.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
