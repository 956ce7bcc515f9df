"""What a worker is told: of the command line and the ini file what the project's own options rest
on, its environment.

The options of pytest and of installed plugins say how a gate is run, told or repeated, and stay
with it; those that a conftest or a plugin of the project declares are the workload's. A gate hands
on what it was given; what `addopts` in the configuration file says each worker reads there, since
that of another commit may say something else.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from perfgate.execute.addopts import addopts_in_force, starting_options
from perfgate.execute.places import Kind, Place, Places, prefixes_here
from perfgate.model.errors import ConfigInvalid


@dataclass(frozen=True, kw_only=True)
class Early:
    """The words of the command line and of PYTEST_ADDOPTS as they were before any conftest was
    loaded."""

    words: tuple[str, ...]
    own: frozenset[str]
    """Options among them, or in `addopts`, that nobody had declared by then, or a plugin of the
    project had."""
    environment: Mapping[str, str]
    """As it was then: a conftest sets what it sets in each worker anew, and another commit has one
    of its own."""
    cores: frozenset[int]
    niceness: int
    """Likewise: the process's own, which its children inherit; no cores where the system does not
    tell."""


EARLY = pytest.StashKey[Early]()
NOT_IN_WORKERS = frozenset(
    {
        *("--lf", "--last-failed", "--ff", "--failed-first", "--nf", "--new-first"),
        *("--lfnf", "--last-failed-no-failures", "--cache-show", "--cache-clear"),
        *("--sw", "--stepwise", "--sw-skip", "--stepwise-skip", "--sw-reset", "--stepwise-reset"),
    }
)
"""Options of pytest's cache, which a worker has none of."""


def note_early(config: pytest.Config, parser: pytest.Parser, words: Sequence[str]) -> None:
    """Note which options a conftest must know, or a plugin of the project knows. The words of
    `addopts` come first."""
    given = words[len(config.getini("addopts")) :]
    config.stash[EARLY] = Early(
        words=tuple(given),
        own=_own_among(config, parser, words),
        environment=dict(os.environ),
        cores=_cores(),
        niceness=os.getpriority(os.PRIO_PROCESS, 0),
    )


def prepend_addopts(config: pytest.Config, parser: pytest.Parser, words: list[str]) -> None:
    """In a worker, whose words begin with an option: put before them what `addopts` says of the
    project's own options.

    The worker's pytest itself is told of no `addopts`. One that the user overrides is that of both
    sides.
    """
    *overrides, _ = config.known_args_namespace.override_ini  # the last is the worker's own
    said = addopts_in_force(overrides, config.inipath)
    words[:0] = _with_values(said, _own_among(config, parser, said))


def _own_among(
    config: pytest.Config, parser: pytest.Parser, words: Sequence[str]
) -> frozenset[str]:
    """Options among the words that nobody has declared yet, or a plugin of the project has."""
    _, unknown = parser.parse_known_and_unknown_args(list(words))
    own = {
        word
        for word in unknown
        if _is_option(word) and word.partition("=")[0] not in NOT_IN_WORKERS
    }
    return frozenset(own | _of_own_plugins(config, words))


def environment_before(config: pytest.Config) -> Mapping[str, str]:
    """The environment that pytest was started in, before a conftest or a plugin's hook could change
    it."""
    early = config.stash.get(EARLY, None)
    return dict(os.environ) if early is None else early.environment


def _cores() -> frozenset[int]:
    """Where this process may run; empty where that is not Linux, so that a gate comes to say what
    it lacks there."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


def restore_process(config: pytest.Config) -> None:
    """Undo what loading conftests and workloads did to this process, or the runs of another commit
    would inherit it.

    Raises:
        pytest.UsageError: it gave up priority that only root can take back.
    """
    early = config.stash.get(EARLY, None)
    if early is None:
        return
    if _cores() != early.cores:
        os.sched_setaffinity(0, early.cores)
    now = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        if now != early.niceness:
            os.setpriority(os.PRIO_PROCESS, 0, early.niceness)
    except OSError:
        error = ConfigInvalid("niceness-changed", before=early.niceness, now=now)
        raise pytest.UsageError(str(error)) from None


def _of_own_plugins(config: pytest.Config, words: Sequence[str]) -> set[str]:
    """The options among the words that plugins declare which were named (`-p`) and lie in the
    project."""
    manager = config.pluginmanager
    named = [manager.get_plugin(name) for name in config.known_args_namespace.plugins]
    root = config.rootpath.resolve()
    places, of_project = Places(root, prefixes=prefixes_here()), Place(Kind.TREE, root)
    files = {plugin: getattr(plugin, "__file__", None) for plugin in named}
    within = [
        plugin for plugin, file in files.items() if file and places.of(Path(file)) == of_project
    ]
    own = [
        found
        for plugin in within
        if (found := getattr(plugin, "pytest_addoption", None)) is not None
    ]
    if not own:
        return set()
    scratch = pytest.Parser(_ispytest=True)
    given = {"parser": scratch, "pluginmanager": manager}
    for declare in own:
        declare(
            **{name: given[name] for name in inspect.signature(declare).parameters if name in given}
        )
    _, unknown = scratch.parse_known_and_unknown_args(list(words))
    return {word for word in words if _is_option(word)} - {*unknown, "--"}


def _is_option(word: str) -> bool:
    """Whether a word is no value; a negative number is one."""
    return word.startswith("-") and not _is_number(word)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def own_options(config: pytest.Config) -> list[str]:
    """The given words of options that a conftest or a plugin of the project declares, each with its
    values."""
    early = config.stash.get(EARLY, None)
    return (
        []
        if early is None
        else _with_values(early.words, early.own, files=config.option.file_or_dir)
    )


def compared_options(config: pytest.Config) -> dict[str, str]:
    """The options that `own_options` and `addopts` give, each with its value, or the digest of what
    may be a secret.

    Where files lie on this machine is no part of what is measured: an option whose value is an
    absolute path is left out.
    """
    early = config.stash.get(EARLY, None)
    names = sorted({word.partition("=")[0] for word in (() if early is None else early.own)})
    values = {name: str(config.getoption(name, None)) for name in names}
    return {
        name: _without_secrets(value)
        for name, value in values.items()
        if not Path(value).is_absolute()
    }


def digest(text: str) -> str:
    """What is told in place of a text: the first 12 hex digits of its SHA-256."""
    return f"sha256:{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()[:12]}"


def _without_secrets(value: str) -> str:
    """A number or a switch as it is, of anything else its digest."""
    return value if value in ("True", "False", "None") or _is_number(value) else digest(value)


def _with_values(
    words: Iterable[str], own: frozenset[str], files: Iterable[object] = ()
) -> list[str]:
    """Some options, each with what follows it: its values, unless pytest took them for files in the
    end."""
    left = [str(file) for file in files]
    handed: list[str] = []
    follows = False
    for word in words:
        if _is_option(word):
            follows = word in own
            if follows:
                handed.append(word)
        elif word in left:
            left.remove(word)
            follows = False
        elif follows:
            handed.append(word)
    return handed


def given_starting_options(config: pytest.Config) -> tuple[str, ...]:
    """What was given of files, plugins and ini values to begin with; what `addopts` says of them
    each side reads."""
    early = config.stash.get(EARLY, None)
    words = config.invocation_params.args if early is None else early.words
    return starting_options([str(word) for word in words], folder=config.invocation_params.dir)
