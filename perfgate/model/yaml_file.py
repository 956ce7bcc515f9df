"""Reads a YAML mapping: every scalar as it is written, every key once, and no aliases."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

import yaml

from perfgate.model.errors import ConfigInvalid
from perfgate.model.note import note
from perfgate.words import say


class _Loader(yaml.BaseLoader):
    """Reads every scalar as the text that is written, and refuses a key that is there twice.

    The record says which texts are numbers. So `[train.py, 010, 1.10, yes]` hands over just these
    words, which YAML would have made 8, 1.1 and True; and of two keys YAML would silently have
    taken the last. Aliases may make more of some lines than anybody would walk through.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse an alias."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem=say.fact(note("yaml-alias")), problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002
    ) -> dict[Hashable, object]:
        """Build a mapping that has each of its keys once."""
        held = super().construct_mapping(node, deep=deep)
        if len(held) < len(node.value):
            keys = [key.value for key, _ in node.value]
            again = next(n for n, key in enumerate(keys) if key in keys[:n])
            problem = say.fact(note("yaml-key-twice", key=keys[again]))
            mark = node.value[again][0].start_mark
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
        return held


def mapping(file: Path, source: str) -> dict[str, object]:
    """Read one file.

    Raises:
        ConfigInvalid: it cannot be read, or holds no mapping.
    """
    try:
        given = yaml.load(file.read_text(encoding="utf-8-sig"), Loader=_Loader)
    except (yaml.YAMLError, UnicodeDecodeError, OSError, RecursionError) as broken:
        problem = " ".join(str(broken).split())
        raise ConfigInvalid("workload-file-unreadable", file=source, problem=problem) from broken
    if not isinstance(given, dict):
        raise ConfigInvalid("workload-file-empty", file=source)
    return given
