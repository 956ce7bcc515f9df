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
    "stepwise": "--sw",
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
HINDERING: Final = {
    "last_failed_no_failures": "--lfnf",
    "stepwise_skip": "--sw-skip",
    "stepwise_reset": "--sw-reset",
    "setuponly": "--setup-only",
    "setupplan": "--setup-plan",
    "usepdb": "--pdb",
    "trace": "--trace",
    "session_timeout": "--session-timeout",
    "numprocesses": "-n",
    "maxprocesses": "--maxprocesses",
    "dist": "--dist",
    "distload": "-d",
    "tx": "--tx",
    "px": "--px",
    "looponfail": "-f",
    "forked": "--forked",
    "cov_source": "--cov",
}
"""Options of pytest and of its plugins with which a gate could not measure, or not alone on the
machine."""
ALONE: Final = ("numprocesses", "tx", "forked")
"""Those of them that are refused: gates on one GPU would measure one another, or be lost in forks.
"""
SETTING: Final = {
    "perfgate_base": "--perfgate-base",
    **{option.dest: option.option for option in OPTIONS if option.is_flag and option.typed},
}
"""Options that say what a gate is held to: `[tool.perfgate]` is where a change of that is seen."""
WHERE_TYPED: Final = {**SELECTING, **LOOKING, **ASKING, **HINDERING, **SETTING}

TYPED = pytest.StashKey[Namespace]()
"""All options, as far as they were typed."""
STANDING = pytest.StashKey[tuple[str, ...]]()
"""The flags of `WHERE_TYPED` that were given elsewhere, and are not heeded."""
_WORDS = pytest.StashKey[tuple[str, ...]]()


def note_words(config: pytest.Config, parser: pytest.Parser) -> None:
    """Note what was typed before a conftest could change it, and keep plugins that begin here from
    the rest."""
    words = tuple(map(str, config.invocation_params.args))
    config.stash[_WORDS] = words
    config.stash[TYPED] = parser.parse_known_args(words)
    _heed(config.known_args_namespace, config.stash[TYPED])


def heed_what_was_typed(config: pytest.Config) -> None:
    """Give each option of `WHERE_TYPED` the value that was typed, now that all options are
    declared.

    Raises:
        pytest.UsageError: pytest was told to show its help, which nobody typed; or it was asked for
            what no gate can be run with.
    """
    if config.stash[TYPED].help:
        return
    if config.option.help:  # pytest read no further
        raise usage_error("help-not-typed")
    words: tuple[str, ...] = config.stash[_WORDS]
    typed = config.stash[TYPED] = config._parser.parse(words)
    typed.setuponly |= typed.setupplan  # as pytest has it
    config.stash[STANDING] = _heed(config.option, config.stash[TYPED])
    for name in ("looponfail", *(() if typed.collectonly else ALONE)):
        if getattr(typed, name, None):
            raise usage_error("option-not-in-a-gate", option=HINDERING[name])


def heed_again(config: pytest.Config) -> None:
    """Likewise, now that each conftest has configured pytest."""
    stood = _heed(config.option, config.stash[TYPED])
    config.stash[STANDING] = tuple(dict.fromkeys((*config.stash[STANDING], *stood)))


def _heed(option: Namespace, typed: Namespace) -> tuple[str, ...]:
    """Set them, and return the flags of those that were something else."""
    stood: list[str] = []
    for name, flag in WHERE_TYPED.items():
        if hasattr(option, name) and getattr(option, name) != getattr(typed, name, None):
            setattr(option, name, getattr(typed, name, None))
            stood.append(flag)
    return tuple(stood)
