"""What a person typed for this gate: some options count only where they were typed.

In `addopts` and PYTEST_ADDOPTS they are meant for a project's tests: a gate that heeded them there
would leave workloads out, could not measure, or would be held to less than `[tool.perfgate]` says.
What a conftest sets counts as little.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Final

import pytest

from perfgate.model.options import OPTIONS
from perfgate.plugin.refusals import usage_error

SELECTING: Final = {
    "keyword": "-k",
    "markexpr": "-m",
    "deselect": "--deselect",
    "ignore": "--ignore",
    "ignore_glob": "--ignore-glob",
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
}
"""Options of pytest and of its plugins with which a gate could not measure, or not alone on the
machine: refused where they are typed."""
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
STANDING = pytest.StashKey[tuple[str, ...]]()
"""The flags of `WHERE_TYPED` that were given elsewhere, and are not heeded."""


def note_words(config: pytest.Config, parser: pytest.Parser) -> None:
    """Note what was typed, and keep plugins that begin before conftests from the rest."""
    config.stash[TYPED] = parser.parse_known_args(_words(config))
    config.stash[STANDING] = ()
    _heed(config, config.known_args_namespace)


def heed_what_was_typed(config: pytest.Config) -> None:
    """Give each option of `WHERE_TYPED` the value that was typed, now that all are declared.

    Raises:
        pytest.UsageError: pytest shows its help, for which nobody typed; or what was typed is
            nothing that a gate can be run with.
    """
    if config.stash[TYPED].help:
        return
    if config.option.help:  # pytest read no further
        raise usage_error("help-not-typed")
    typed = config.stash[TYPED] = config._parser.parse(_words(config))
    typed.setuponly |= typed.setupplan  # as pytest has it
    heed_again(config)
    for name, flag in REFUSED.items():
        if getattr(typed, name, None) and not typed.collectonly:
            raise usage_error("option-not-in-a-gate", option=flag)


def heed_again(config: pytest.Config) -> None:
    """Likewise, now that each conftest has configured pytest."""
    _heed(config, config.option)


def only_looks(config: pytest.Config) -> bool:
    """Whether nothing is to be measured."""
    return any(getattr(config.stash[TYPED], name, None) for name in LOOKING)


def only_asks(config: pytest.Config) -> bool:
    """Whether pytest answers without a session."""
    return any(getattr(config.stash[TYPED], name, None) for name in ASKING)


def _words(config: pytest.Config) -> list[str]:
    return [str(word) for word in config.invocation_params.args]


def _heed(config: pytest.Config, option: Namespace) -> None:
    typed = config.stash[TYPED]
    stood = [*config.stash[STANDING]]
    for name, flag in WHERE_TYPED.items():
        if hasattr(option, name) and getattr(option, name) != getattr(typed, name, None):
            setattr(option, name, getattr(typed, name, None))
            stood.append(flag)
    once: tuple[str, ...] = tuple(dict.fromkeys(stood))
    config.stash[STANDING] = once
