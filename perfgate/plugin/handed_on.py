"""What a worker is told: of the command line and the ini file what the project's own options rest on, its environment.

The options of pytest and of installed plugins say how a gate is run, told or repeated, and stay with it; those that a
conftest or a plugin of the project declares are the workload's.
"""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from perfgate.worker import ProjectFiles


@dataclass(frozen=True, kw_only=True)
class Early:
    """The words of the command line, `addopts` among them, as they were before any conftest was loaded."""

    words: tuple[str, ...]
    own: frozenset[str]
    """Options that nobody had declared by then, or a plugin of the project had."""
    environment: Mapping[str, str]
    """As it was then: a conftest sets what it sets in each worker anew, and another commit has one of its own."""


EARLY = pytest.StashKey[Early]()


def note_early(config: pytest.Config, parser: pytest.Parser, words: Sequence[str]) -> None:
    """Note which options a conftest must know, or a plugin of the project knows."""
    _, unknown = parser.parse_known_and_unknown_args(list(words))
    own = {word for word in unknown if _is_option(word)} | _of_own_plugins(config, words)
    config.stash[EARLY] = Early(words=tuple(words), own=frozenset(own), environment=dict(os.environ))


def environment_before(config: pytest.Config) -> Mapping[str, str]:
    """The environment that pytest was started in, before a conftest or a plugin's hook could change it."""
    early = config.stash.get(EARLY, None)
    return dict(os.environ) if early is None else early.environment


def _of_own_plugins(config: pytest.Config, words: Sequence[str]) -> set[str]:
    """The options among the words that plugins declare which were named (`-p`) and lie in the project."""
    manager = config.pluginmanager
    named = [manager.get_plugin(name) for name in config.known_args_namespace.plugins]
    files = ProjectFiles(config.rootpath)
    within = [plugin for plugin in named if files.relative(getattr(plugin, "__file__", None)) is not None]
    own = [found for plugin in within if (found := getattr(plugin, "pytest_addoption", None)) is not None]
    if not own:
        return set()
    scratch = pytest.Parser(_ispytest=True)
    given = {"parser": scratch, "pluginmanager": manager}
    for declare in own:
        declare(**{name: given[name] for name in inspect.signature(declare).parameters if name in given})
    _, unknown = scratch.parse_known_and_unknown_args(list(words))
    return {word for word in words if _is_option(word)} - {*unknown, "--"}


def _is_option(word: str) -> bool:
    """Whether a word is no value; a negative number is one."""
    try:
        float(word)
    except ValueError:
        return word.startswith("-")
    return False


def own_options(config: pytest.Config) -> list[str]:
    """The words of options that a conftest or a plugin of the project declares, each with its values."""
    early = config.stash.get(EARLY, None)
    if early is None:
        return []
    # A word behind such an option is its value, unless pytest took it for a file in the end.
    files = Counter(map(str, config.option.file_or_dir))
    handed: list[str] = []
    follows = False
    for word in early.words:
        if _is_option(word):
            follows = word in early.own
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
