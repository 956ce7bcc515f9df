"""The pytest plugin: options, the choice between gate and worker, and what both collect. A run
without `--perfgate` loads no more."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
from collections.abc import Generator
from functools import partial
from typing import Any

import pytest

# pytest rewrites what a plugin's package asserts: it would compile 240 files of ours, and again at
# each start where nothing can be written next to them.
for _finder in sys.meta_path:
    getattr(_finder, "_must_rewrite", set[str]()).discard("perfgate")

from perfgate.model.options import OPTIONS  # noqa: E402
from perfgate.workload import declaration_of  # noqa: E402

_BEGUN = pytest.StashKey[bool]()
"""Whether all is loaded, and pytest does what it was started for."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the options, and be asked when pytest ends."""
    config = pluginmanager.get_plugin("pytestconfig")
    assert isinstance(config, pytest.Config)
    config.add_cleanup(partial(_refuse_leaving, config))
    group = parser.getgroup("perfgate", "GPU performance gate")
    group.addoption(
        "--perfgate",
        action="store_true",
        default=False,
        help="run the workloads under Nsight Systems and judge them against their baselines, "
        "instead of the tests",
    )
    for option in OPTIONS:
        if option.is_flag:
            group.addoption(option.option, help=option.help, **option.arguments)
    group.addoption("--perfgate-worker", default=None, help=argparse.SUPPRESS)
    group.addoption("--perfgate-base", default=None, help=argparse.SUPPRESS)


def _refuse_leaving(config: pytest.Config) -> None:
    """Let no conftest or plugin leave for success before `_Outermost` sees to that.

    Not held are plugins of `-p`: pytest imports them before it knows this one.

    Raises:
        pytest.UsageError: one did.
    """
    left = sys.exception()
    if not isinstance(left, SystemExit) or left.code or config.stash.get(_BEGUN, False):
        return
    given = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *config.getini("addopts")]
    if "--perfgate" in (*given, *config.invocation_params.args):
        raise _part("typed").usage_error("left-while-loading") from None


def _part(name: str) -> Any:  # noqa: ANN401 - a module, loaded only where it is needed
    return importlib.import_module(f"perfgate.plugin.{name}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None]:
    """Note, for the workers of a gate, the environment before any conftest, and their options."""
    given = early_config.known_args_namespace
    gates = getattr(given, "perfgate", False)
    if gates:
        _part("guards").guard_process(early_config)
        _part("typed").note_words(early_config, parser, args)
    yield
    if gates:
        early_config.pluginmanager.register(_Outermost())
    elif getattr(given, "perfgate_worker", None):
        _part("typed").prepend_addopts(early_config, args)


class _Outermost:
    """A plugin that is registered after all conftests: no hook of theirs is outside of it."""

    @staticmethod
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(
        config: pytest.Config,
    ) -> Generator[None, int | pytest.ExitCode | None, int | pytest.ExitCode | None]:
        """Let no pytest succeed whose gate is not open."""
        _part("typed").heed_what_was_typed(config)
        config.stash[_BEGUN] = True
        status: int | pytest.ExitCode | None = None
        try:
            status = yield
        except SystemExit as left:
            if left.code:
                raise
        status = int(status or _part("state").status_of_success(config))
        config.stash[_part("guards").ENDS_WITH] = status
        return status


def pytest_configure(config: pytest.Config) -> None:
    """Load the side that this process is on."""
    gates, works = config.getoption("perfgate"), config.getoption("perfgate_worker")
    if gates and works:
        raise _part("typed").usage_error("worker-option")
    if not gates and not works:
        for option in OPTIONS:
            if option.metavar and config.getoption(option.dest) is not None:
                raise _part("typed").usage_error("option-without-gate", option=option.option)
        return
    # pluginmanager.import_plugin would warn where `perfgate doctor` has imported it before.
    loaded = _part("gate_side" if gates else "worker_side")
    if config.pluginmanager.register(loaded, loaded.__name__) is None:
        raise _part("typed").usage_error("plugin-off", plugin=loaded.__name__)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Leave workloads alone without `--perfgate`, whatever their names, and all else with it."""
    ours = collector.config.getoption("perfgate") or collector.config.getoption("perfgate_worker")
    return None if bool(ours) == (declaration_of(obj) is not None) else []


# What both sides collect


class WorkloadModule(pytest.Module):
    """A Python file of workloads."""

    def istestfunction(self, obj: object, name: str) -> bool:  # noqa: ARG002 - as pytest asks
        """Whether an object is a workload, whatever its name."""
        return declaration_of(obj) is not None


def spared_by_timeouts(item: pytest.Item) -> None:
    """Exempt an item from pytest-timeout: a gate is several runs, each with a time limit of its
    own."""
    if item.config.pluginmanager.hasplugin("timeout"):
        # In front, or a workload's own mark would win.
        item.add_marker(pytest.mark.timeout(0), append=False)
