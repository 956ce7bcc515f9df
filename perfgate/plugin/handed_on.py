"""What a worker's pytest is told of the command line and the ini file: what the project's own options rest on.

The options of pytest and of installed plugins say how a gate is run, told or repeated, and stay with it; those that a
conftest declares are the workload's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, kw_only=True)
class Early:
    """The words of the command line, `addopts` among them, as they were before any conftest was loaded."""

    words: tuple[str, ...]
    unknown: frozenset[str]
    """Options that nobody had declared by then."""


EARLY = pytest.StashKey[Early]()


def note_early(config: pytest.Config, parser: pytest.Parser, words: Sequence[str]) -> None:
    """Note which options only a conftest can know."""
    _, unknown = parser.parse_known_and_unknown_args(list(words))
    flags = frozenset(word for word in unknown if word.startswith("-"))
    config.stash[EARLY] = Early(words=tuple(words), unknown=flags)


def options_of_conftests(config: pytest.Config) -> list[str]:
    """The words of options that a conftest declares, each with its values."""
    early = config.stash.get(EARLY, None)
    if early is None:
        return []
    # A word behind such an option is its value, unless pytest took it for a file in the end.
    files = Counter(map(str, config.option.file_or_dir))
    handed: list[str] = []
    follows = False
    for word in early.words:
        if word.startswith("-"):
            follows = word in early.unknown
            if follows:
                handed.append(word)
        elif files[word]:
            files[word] -= 1
            follows = False
        elif follows:
            handed.append(word)
    return handed


def ini_values(config: pytest.Config) -> list[str]:
    """The options that override an ini value; `addopts` is not for a worker."""
    given = config.getoption("override_ini", None) or []
    return [f"--override-ini={one}" for one in given if one.partition("=")[0] != "addopts"]
