"""What a person typed for this gate: some options count only where they were typed, and files,
`-k` and the like choose workloads.

In `addopts` and PYTEST_ADDOPTS they are meant for a project's tests: a gate that heeded them there
would leave workloads out, could not measure, or would be held to less than `[tool.perfgate]` says.
What a conftest sets counts as little.
"""

from __future__ import annotations

import copy
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from perfgate.model.errors import ConfigInvalid, PerfgateError
from perfgate.model.options import OPTIONS
from perfgate.words import escape

SELECTING: Final = {
    "keyword": "-k",
    "markexpr": "-m",
    "deselect": "--deselect",
    "lf": "--lf",
    "perfgate_shard": "--perfgate-shard",
}
"""Options that leave workloads out, by where pytest keeps their value."""
LOOKING: Final = {
    "collectonly": "--collect-only",
    "showfixtures": "--fixtures",
    "show_fixtures_per_test": "--fixtures-per-test",
    "cacheshow": "--cache-show",
}
"""Options under which nothing is to be measured."""
ASKING: Final = {"help": "--help", "version": "--version", "markers": "--markers"}
"""Options that pytest answers without a session."""
REFUSED: Final = {
    "numprocesses": "-n",
    "tx": "--tx",
    "forked": "--forked",
    "looponfail": "-f",
    "stepwise": "--sw",
    "ignore": "--ignore",
    "ignore_glob": "--ignore-glob",
}
"""Options of pytest and of its plugins with which a gate could not measure, not alone on the
machine, or would not know what it leaves out: refused where they are typed."""
HINDERING: Final = {
    "last_failed_no_failures": "--lfnf",
    "stepwise_skip": "--sw-skip",
    "stepwise_reset": "--sw-reset",
    "setuponly": "--setup-only",
    "setupplan": "--setup-plan",
    "usepdb": "--pdb",
    "trace": "--trace",
    "session_timeout": "--session-timeout",
    "maxprocesses": "--maxprocesses",
    "dist": "--dist",
    "distload": "-d",
    "px": "--px",
    "cov_source": "--cov",
}
"""Others that are for tests alone."""
SETTING: Final = {
    "perfgate_base": "--perfgate-base",
    **{option.dest: option.option for option in OPTIONS if option.is_flag and option.typed},
}
"""Options that say what a gate is held to: `[tool.perfgate]` is where a change of that is seen."""
WHERE_TYPED: Final = {**SELECTING, **LOOKING, **ASKING, **REFUSED, **HINDERING, **SETTING}

TYPED = pytest.StashKey[Namespace]()
"""All options, as far as they were typed."""
STANDING = pytest.StashKey[list[str]]()
"""The flags of `WHERE_TYPED` that were given elsewhere, and are not heeded."""


def usage_error(why: str | PerfgateError, /, **fields: object) -> pytest.UsageError:
    """Make the error by which pytest does not start, of a code or of an error of our own.

    It may quote the project's files or options: nothing in it steers a terminal.
    """
    error = ConfigInvalid(why, **fields) if isinstance(why, str) else why
    return pytest.UsageError(escape.message(str(error)))


def note_words(config: pytest.Config, parser: pytest.Parser) -> None:
    """Note what was typed, and keep plugins that begin before conftests from the rest."""
    config.stash[TYPED] = parser.parse_known_args(list(config.invocation_params.args))
    config.stash[STANDING] = []
    heed(config, config.known_args_namespace)


def heed_what_was_typed(config: pytest.Config) -> None:
    """Give each option of `WHERE_TYPED` the value that was typed, now that all are declared.

    Raises:
        pytest.UsageError: what was typed is nothing that a gate can be run with.
    """
    if config.option.help:  # pytest read no further
        return
    typed = config.stash[TYPED] = config._parser.parse(list(config.invocation_params.args))
    typed.setuponly |= typed.setupplan  # as pytest has it
    heed(config, config.option)
    for name, flag in REFUSED.items():
        if getattr(typed, name, None) and not typed.collectonly:
            raise usage_error("option-not-in-a-gate", option=flag)


def heed(config: pytest.Config, option: Namespace) -> None:
    """Give options the values that were typed, and note which had others."""
    standing = config.stash[STANDING]
    for name, flag in WHERE_TYPED.items():
        value = getattr(config.stash[TYPED], name, None)
        if hasattr(option, name) and getattr(option, name) != value:
            setattr(option, name, value)
            if flag not in standing:
                standing.append(flag)


def was_typed(config: pytest.Config, names: Iterable[str]) -> bool:
    """Whether one of some options was typed."""
    return any(getattr(config.stash[TYPED], name, None) for name in names)


class Choice:
    """Which workloads a person chose: asked of what was collected, and of baselines without it."""

    def __init__(self, config: pytest.Config, *, workloads: Path) -> None:
        """Take the folder of all workloads, and what was typed."""
        self._config = config
        self._typed = typed = config.stash[TYPED]
        self.words = tuple(map(str, typed.file_or_dir))
        """Files, folders and node ids that were typed."""
        split = [word.partition("::") for word in self.words]
        here, folder = config.invocation_params.dir, workloads.resolve()
        places = [((here / path).resolve(), name) for path, _, name in split]
        is_whole = any(not name and folder.is_relative_to(path) for path, name in places)
        self._places = () if is_whole else tuple(places)
        """Their paths, each with what follows its `::`; none where all workloads are asked for."""
        self.paths = tuple(path for path, name in self._places if not name)
        """Files and folders whose workloads are all asked for; empty where nothing was named."""
        options = (flag for name, flag in SELECTING.items() if getattr(typed, name, None))
        self.flags = (*(("path",) if self._places else ()), *options)
        """By what was chosen; empty where all workloads are gated."""

    @property
    def _is_by_cache(self) -> bool:
        """Whether pytest's cache chooses, which alone knows what: only its choice is missed."""
        return bool(getattr(self._typed, "lf", False))

    def of_items(self, items: Iterable[pytest.Item]) -> list[pytest.Item]:
        """Return those of the collected items that pytest, by what was typed alone, would keep: a
        conftest may set other options."""
        left = [] if self._is_by_cache else list(items)
        as_typed: Any = copy.copy(self._config)
        as_typed.option = self._typed
        as_typed.hook = SimpleNamespace(pytest_deselected=lambda **_: None)
        for name in ("mark", "main"):
            plugin: Any = self._config.pluginmanager.get_plugin(name)
            plugin.pytest_collection_modifyitems(items=left, config=as_typed)
        return left

    def may_cover(self, workload: str, source: str | None) -> bool:
        """Whether a workload that was not collected may be one of the chosen, by its id and its
        file: options choose among what was collected."""
        file = None if source is None else (self._config.rootpath / source).resolve()
        return not self._is_by_cache and (
            not self._places
            or any(
                file is not None
                and file.is_relative_to(path)
                and (not name or workload == name or workload.startswith(f"{name}["))
                for path, name in self._places
            )
        )
