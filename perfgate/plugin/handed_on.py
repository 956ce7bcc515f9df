"""What a worker gets of a gate's command line and ini file: what the project's own options rest on;
and the environment that the gate was started in.

The options of pytest and of installed plugins say how a gate is run, reported or repeated, and stay
with it; those that a conftest or a plugin of the project declares are the workload's. A gate hands
on what it was given; what `addopts` in the configuration file says each worker reads there, since
that of another commit may say something else.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from perfgate.execute.addopts import addopts_in_force, starting_options
from perfgate.execute.places import Place, PlaceKind, Places, prefixes_here


@dataclass(frozen=True, kw_only=True)
class Early:
    """How pytest was started, before any conftest was loaded: another commit has its own."""

    words: tuple[str, ...]
    """Those of `addopts`, of PYTEST_ADDOPTS, and of the command line."""
    given: tuple[str, ...]
    """The same without those of `addopts`."""
    environment: Mapping[str, str]
    cores: frozenset[int]


EARLY = pytest.StashKey[Early]()


def note_early(config: pytest.Config, words: Sequence[str]) -> None:
    """Note how pytest was started; the words of `addopts` come first."""
    config.stash[EARLY] = Early(
        words=tuple(words),
        given=tuple(words[len(config.getini("addopts")) :]),
        environment=dict(os.environ),
        cores=frozenset(os.sched_getaffinity(0)),
    )


def prepend_addopts(config: pytest.Config, words: list[str]) -> None:
    """In a worker, with its conftests: put before its words what `addopts` says of the project's
    own options.

    The worker's pytest itself gets no `addopts`. One that the user overrides is that of both sides.
    """
    *overrides, _ = config.known_args_namespace.override_ini  # the last is the worker's own
    words[:0] = _own_among(config, addopts_in_force(overrides, config.inipath))


def restore_cores(config: pytest.Config) -> None:
    """Undo what loading conftests and workloads did to the cores of this process, or the runs of
    another commit would inherit it."""
    os.sched_setaffinity(0, config.stash[EARLY].cores)


def worker_options(config: pytest.Config) -> tuple[str, ...]:
    """Return what the pytest of a worker shares with this one; the project's options come last.

    What `addopts` says of files, plugins and ini values to begin with each side reads itself.
    """
    given = config.stash[EARLY].given
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
    own = _own_among(config, config.stash[EARLY].words)
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
    places, of_project = Places(root, prefixes=prefixes_here()), Place(PlaceKind.TREE, root)
    given = {"parser": parser, "pluginmanager": manager}
    for plugin in manager.get_plugins():
        file, declare = getattr(plugin, "__file__", None), getattr(plugin, "pytest_addoption", None)
        if file is None or declare is None:
            continue
        if Path(file).name == "conftest.py" or places.of(Path(file)) == of_project:
            wanted = inspect.signature(declare).parameters
            declare(**{name: value for name, value in given.items() if name in wanted})
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
