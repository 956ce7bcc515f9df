"""Reads a YAML mapping: every scalar as it is written, every key once, and nothing that is too
large to walk through.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from pathlib import Path
from typing import Final

import yaml

from perfgate.model.errors import ConfigInvalid
from perfgate.model.note import Note, note
from perfgate.words import say

MOST_VALUES: Final = 20_000
"""In one file: aliases may make more of some lines than anybody would walk through."""
LARGEST_BYTES: Final = 65_536
"""A workload is some ten lines; whatever is larger is another file, which the parser would chew on
for minutes."""


class _Loader(yaml.BaseLoader):
    """Reads every scalar as the text that is written, and refuses a key that is there twice.

    The record says which texts are numbers. So `[train.py, 010, 1.10, yes]` hands over just these
    words, which YAML would have made 8, 1.1 and True; and of two keys YAML would silently have
    taken the last.
    """

    def get_single_node(self) -> yaml.Node | None:
        """Refuse a file that aliases make a large one of before anything walks through it."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            _values(node, {})
        return node

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002
    ) -> dict[Hashable, object]:
        """Build a mapping whose keys are texts, each of them once."""
        known: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _refusal(note("yaml-key-no-text"), key)
            if key.value in known:
                raise _refusal(note("yaml-key-twice", key=key.value), key)
            known.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _refusal(why: Note, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, say.fact(why), node.start_mark)


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node holds, those of aliases as often as they stand there.

    Raises:
        yaml.constructor.ConstructorError: there are too many, or it holds itself.
    """
    if id(node) not in known:
        known[id(node)] = MOST_VALUES  # within itself
        held = [] if isinstance(node, yaml.ScalarNode) else node.value
        inner = itertools.chain.from_iterable(held) if isinstance(node, yaml.MappingNode) else held
        known[id(node)] = 1 + sum(_values(one, known) for one in inner)
    if known[id(node)] >= MOST_VALUES:
        raise _refusal(note("yaml-too-large", most=MOST_VALUES), node)
    return known[id(node)]


def mapping(file: Path, source: str) -> dict[str, object]:
    """Read one file.

    Raises:
        ConfigInvalid: it is too large, cannot be read, or holds no mapping.
    """
    try:
        size = file.stat().st_size
        if size > LARGEST_BYTES:
            raise ConfigInvalid(
                "workload-file-large", file=source, bytes=size, most_bytes=LARGEST_BYTES
            )
        given = yaml.load(file.read_text(encoding="utf-8-sig"), Loader=_Loader)
    except yaml.MarkedYAMLError as broken:
        raise _at(broken, source) from broken
    except (yaml.YAMLError, UnicodeDecodeError, OSError, RecursionError) as broken:
        problem = broken.strerror if isinstance(broken, OSError) else None
        problem = problem or " ".join(str(broken).split())
        raise ConfigInvalid("workload-file-unreadable", file=source, problem=problem) from broken
    if not isinstance(given, dict):
        raise ConfigInvalid("workload-file-empty", file=source)
    return given


def _at(broken: yaml.MarkedYAMLError, source: str) -> ConfigInvalid:
    if broken.problem_mark is None:
        return ConfigInvalid("workload-file-unreadable", file=source, problem=str(broken))
    return ConfigInvalid(
        "workload-file-at",
        file=source,
        line=broken.problem_mark.line + 1,
        column=broken.problem_mark.column + 1,
        problem=str(broken.problem),
    )
