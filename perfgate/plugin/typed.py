"""The words that a gate was started with: some options count only where they were typed, files,
`-k` and the like choose workloads, and those of the project's own are for its runs.

In `addopts` and PYTEST_ADDOPTS they are meant for a project's tests: a gate that heeded them there
would leave workloads out, could not measure, or would be held to less than `[tool.perfgate]` says.
What a conftest sets counts as little.
"""

from __future__ import annotations

import copy
import hashlib
import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from perfgate.execute.addopts import addopts_in_force, starting_options
from perfgate.execute.places import Place, Places
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


@dataclass(kw_only=True)
class Started:
    """How pytest was started; of its environment, what it was before any conftest was loaded:
    another commit has its own."""

    words: tuple[str, ...]
    """Those of `addopts`, of PYTEST_ADDOPTS, and of the command line."""
    environment: Mapping[str, str]
    cores: frozenset[int]
    finders: tuple[object, ...]
    """Its import hooks, and those of Python itself."""
    typed: Namespace
    """All options, as far as they were typed."""
    standing: list[str] = field(default_factory=list)
    """The flags of `WHERE_TYPED` that were given elsewhere, and are not heeded."""


STARTED = pytest.StashKey[Started]()


def usage_error(why: str | PerfgateError, /, **fields: object) -> pytest.UsageError:
    """Make the error by which pytest does not start, of a code or of an error of our own.

    It may quote the project's files or options: nothing in it steers a terminal.
    """
    error = ConfigInvalid(why, **fields) if isinstance(why, str) else why
    return pytest.UsageError(escape.message(str(error)))


def note_words(config: pytest.Config, parser: pytest.Parser, words: Sequence[str]) -> None:
    """Note how pytest was started and what was typed, and keep plugins that begin before conftests
    from the rest; the words of `addopts` come first."""
    config.stash[STARTED] = Started(
        words=tuple(words),
        environment=dict(os.environ),
        cores=frozenset(os.sched_getaffinity(0)),
        finders=tuple(sys.meta_path),
        typed=parser.parse_known_args(list(config.invocation_params.args)),
    )
    heed(config, config.known_args_namespace)


def heed_what_was_typed(config: pytest.Config) -> None:
    """Give each option of `WHERE_TYPED` the value that was typed, now that all are declared.

    Raises:
        pytest.UsageError: what was typed is nothing that a gate can be run with.
    """
    if config.option.help:  # pytest read no further
        return
    typed = config._parser.parse(list(config.invocation_params.args))
    config.stash[STARTED].typed = typed
    if getattr(typed, "setupplan", False):  # their plugins may be switched off
        typed.setuponly = True  # as pytest has it
    heed(config, config.option)
    for name, flag in REFUSED.items():
        if getattr(typed, name, None) and not typed.collectonly:
            raise usage_error("option-not-in-a-gate", option=flag)


def heed(config: pytest.Config, option: Namespace) -> None:
    """Give options the values that were typed, and note which had others."""
    started = config.stash[STARTED]
    for name, flag in WHERE_TYPED.items():
        value = getattr(started.typed, name, None)
        if hasattr(option, name) and getattr(option, name) != value:
            setattr(option, name, value)
            if flag not in started.standing:
                started.standing.append(flag)


def was_typed(config: pytest.Config, names: Iterable[str]) -> bool:
    """Whether one of some options was typed."""
    return any(getattr(config.stash[STARTED].typed, name, None) for name in names)


class Choice:
    """Which workloads a person chose: asked of what was collected, and of baselines without it."""

    def __init__(self, config: pytest.Config, *, workloads: Path) -> None:
        """Take the folder of all workloads, and what was typed."""
        self._config = config
        self._typed = typed = config.stash[STARTED].typed
        self.words = tuple(map(str, typed.file_or_dir))
        """Files, folders and node ids that were typed."""
        split = [word.partition("::") for word in self.words]
        here, folder = config.invocation_params.dir, workloads.resolve()
        places = [((here / path).resolve(), name) for path, _, name in split]
        is_whole = any(not name and folder.is_relative_to(path) for path, name in places)
        self._places = () if is_whole else tuple(places)
        """Their paths, each with what follows its `::`; none where all workloads are asked for."""
        options = (flag for name, flag in SELECTING.items() if getattr(typed, name, None))
        self.flags = (*(("path",) if self._places else ()), *options)
        """By what was chosen; empty where all workloads are gated."""
        self._is_by_cache = "--lf" in self.flags
        """Whether pytest's cache chooses, which alone knows what: only its choice is missed."""

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


# What a worker gets of them
#
# The options of pytest and of installed plugins say how a gate is run, reported or repeated, and
# stay with it; those that a conftest or a plugin of the project declares are the workload's. A gate
# hands on what it was given; what `addopts` in the configuration file says each worker reads there,
# since that of another commit may say something else.


def prepend_addopts(config: pytest.Config, words: list[str]) -> None:
    """In a worker, with its conftests: put before its words what `addopts` says of the project's
    own options.

    The worker's pytest itself gets no `addopts`. One that the user overrides is that of both sides.
    """
    *overrides, _ = config.known_args_namespace.override_ini  # the last is the worker's own
    words[:0] = _own_among(config, addopts_in_force(overrides, config.inipath))


def worker_options(config: pytest.Config) -> tuple[str, ...]:
    """Return what the pytest of a worker shares with this one; the project's options come last.

    What `addopts` says of files, plugins and ini values to begin with each side reads itself.
    """
    given = config.stash[STARTED].words[len(config.getini("addopts")) :]
    options = [f"--rootdir={config.rootpath}"]
    if config.inipath is not None:
        options += ["-c", str(config.inipath)]
    starting = starting_options(given, folder=config.invocation_params.dir)
    return (*options, *starting, *_own_among(config, given))


def compared_options(config: pytest.Config) -> dict[str, str]:
    """The project's own options, each with its value, or the digest of what may be a secret.

    Where files lie on this machine is no part of what is measured: an option whose value is an
    absolute path is left out.
    """
    own = _own_among(config, config.stash[STARTED].words)
    options = (word for word in own if word.startswith("-") and not _is_number(word))
    names = sorted({word.partition("=")[0] for word in options})
    values = {name: str(config.getoption(name, None)) for name in names}
    return {
        name: value if value in ("True", "False", "None") or _is_number(value) else digest(value)
        for name, value in values.items()
        if not Path(value).is_absolute()
    }


def digest(text: str) -> str:
    """What is kept in place of a text: the first 12 hex digits of its SHA-256."""
    return f"sha256:{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()[:12]}"


def _own_among(config: pytest.Config, words: Sequence[str]) -> list[str]:
    """The options among some words that conftests declare, or plugins that lie in the project, each
    with its values."""
    parser, manager = pytest.Parser(_ispytest=True), config.pluginmanager
    root = config.rootpath.resolve()
    places, of_project = Places(root), Place(root, is_tree=True)
    given = {"parser": parser, "pluginmanager": manager}
    for declares in config.hook.pytest_addoption.get_hookimpls():
        file = Path(getattr(declares.plugin, "__file__", None) or os.devnull)
        if file.name == "conftest.py" or places.of(file) == of_project:
            declares.function(*(given[name] for name in declares.argnames))
    found, others = parser.parse_known_and_unknown_args(list(words))
    left = ["--", *others, *map(str, found.file_or_dir)]
    own: list[str] = []
    for word in words:
        if word in left:
            left.remove(word)
        else:
            own.append(word)
    return own


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
