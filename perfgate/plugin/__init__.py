"""The pytest door: options, and the choice between gate and worker. Light: a run without `--perfgate` loads no more."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
from collections.abc import Generator
from functools import partial

import pytest

from perfgate.workload import declaration_of

OPTIONS = (
    (
        "--perfgate-runs",
        {"metavar": "N", "help": "runs of the first look (default: 3, or [tool.perfgate] runs)"},
    ),
    (
        "--perfgate-max-runs",
        {
            "metavar": "N",
            "help": "runs of a workload after which it is INCONCLUSIVE, a duet's included (default: 29)",
        },
    ),
    (
        "--perfgate-time-budget",
        {
            "metavar": "SECONDS",
            "help": "time that the whole gate has: a workload it comes to later is NOT_MEASURED",
        },
    ),
    (
        "--perfgate-against",
        {
            "metavar": "REV",
            "help": "compare with another commit, run alternately, instead of with the baselines",
        },
    ),
    (
        "--perfgate-budget",
        {
            "metavar": "METRIC=FRACTION",
            "action": "append",
            "help": "what a clock may lose at most, such as step_ms=0.03",
        },
    ),
    ("--perfgate-timeout", {"metavar": "SECONDS", "help": "time limit of one run (default: 600)"}),
    (
        "--perfgate-new",
        {
            "metavar": "fail|allow",
            "help": "what a workload without a baseline does (default: fail)",
        },
    ),
    (
        "--perfgate-inconclusive",
        {"metavar": "warn|fail", "help": "what an INCONCLUSIVE workload does (default: fail)"},
    ),
    ("--perfgate-shard", {"metavar": "I/N", "help": "gate the I-th of N parts of the workloads"}),
    (
        "--perfgate-label",
        {"metavar": "TEXT", "help": "what to call this gate among others that it is merged with"},
    ),
    (
        "--perfgate-machine",
        {
            "metavar": "SLUG",
            "help": "what this machine must be, or the gate is shut: nvidia-h200-x2, no-gpu",
        },
    ),
    ("--perfgate-nsys", {"metavar": "PATH", "help": "the nsys program (default: search for it)"}),
    (
        "--perfgate-json",
        {"metavar": "FILE", "help": "write verdicts and measurements to FILE as JSON"},
    ),
    (
        "--perfgate-html",
        {"metavar": "FILE", "help": "write a page with plots and timelines to FILE"},
    ),
    (
        "--perfgate-trace",
        {"metavar": "FILE", "help": "write typical steps to FILE as a trace for Perfetto"},
    ),
    (
        "--perfgate-page-data",
        {"metavar": "FILE", "help": "write what such a page is made of to FILE as JSON"},
    ),
    (
        "--perfgate-markdown",
        {
            "metavar": "FILE",
            "help": "append verdicts to FILE as Markdown, such as $GITHUB_STEP_SUMMARY",
        },
    ),
)
"""Options that only mean something under --perfgate: flag, arguments of argparse."""
_BEGUN = pytest.StashKey[bool]()
"""Whether all is loaded, and pytest does what it was started for."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the options, and be asked when pytest ends."""
    config = pluginmanager.get_plugin("pytestconfig")
    assert isinstance(config, pytest.Config)
    config.add_cleanup(partial(_refuse_leaving, config))
    _declare_options(parser)


def _refuse_leaving(config: pytest.Config) -> None:
    """Let no conftest or plugin leave for success before `_Outermost` sees to that.

    Not held are plugins of `-p`: pytest imports them, and asks for their options, before it knows this one.

    Raises:
        pytest.UsageError: one did.
    """
    left = sys.exception()
    if not isinstance(left, SystemExit) or left.code or config.stash.get(_BEGUN, False):
        return
    given = [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *config.getini("addopts")]
    if "--perfgate" in (*given, *config.invocation_params.args):
        raise pytest.UsageError(
            "--perfgate: a conftest or plugin left with sys.exit(0) while it was loaded, so nothing was measured. "
            "That is no success.\nLet it raise, or skip what it cannot run."
        ) from None


def _declare_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("perfgate", "GPU performance gate")
    group.addoption(
        "--perfgate",
        action="store_true",
        default=False,
        help="run the workloads under Nsight Systems and judge them against their baselines, instead of the tests",
    )
    for flag, arguments in OPTIONS:
        group.addoption(flag, default=None, **arguments)
    group.addoption(
        "--perfgate-keep-captures",
        action="store_true",
        default=False,
        help="keep the .nsys-rep files as well; they hold the workload's environment variables",
    )
    group.addoption("--perfgate-worker", default=None, help=argparse.SUPPRESS)
    group.addoption("--perfgate-base", default=None, help=argparse.SUPPRESS)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None]:
    """Note, for the workers of a gate, the environment before any conftest, and which options are those of one."""
    given = early_config.known_args_namespace
    if getattr(given, "perfgate", False):
        importlib.import_module("perfgate.plugin.cleaned").clean_standard_streams()
        importlib.import_module("perfgate.plugin.exits").hold_exits(
            partial(_told_status, early_config)
        )
        importlib.import_module("perfgate.plugin.handed_on").note_early(early_config, parser, args)
        importlib.import_module("perfgate.plugin.typed").note_words(early_config, parser)
    elif getattr(given, "perfgate_worker", None):
        importlib.import_module("perfgate.plugin.handed_on").prepend_addopts(
            early_config, parser, args
        )
    yield
    if getattr(given, "perfgate", False):
        early_config.pluginmanager.register(_Outermost())


class _Outermost:
    """A plugin that is registered after all conftests, so that none of their hooks is outside its own."""

    @staticmethod
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(
        config: pytest.Config,
    ) -> Generator[None, int | pytest.ExitCode | None, int | pytest.ExitCode | None]:
        """Refuse what pytest-xdist would do before a gate could, and let no pytest succeed whose gate is not open."""
        importlib.import_module("perfgate.plugin.typed").heed_what_was_typed(config)
        if config.getoption("looponfail", None):
            raise pytest.UsageError(
                "--perfgate: pytest-xdist was asked to run again whatever fails until it passes (-f). A gate gives one "
                "verdict.\nLeave -f out."
            )
        config.stash[_BEGUN] = True
        status: int | pytest.ExitCode | None = None
        try:
            status = yield
        except SystemExit as left:
            if left.code:
                raise
        status = status or int(
            importlib.import_module("perfgate.plugin.gate_side").held_status(config)
        )
        importlib.import_module("perfgate.plugin.exits").hold_exits(partial(int, status))
        return status


def _told_status(config: pytest.Config) -> int | None:
    """The exit status of a gate that has told its verdicts; None before."""
    side = sys.modules.get("perfgate.plugin.gate_side")
    return None if side is None else side.told_status(config)


def pytest_configure(config: pytest.Config) -> None:
    """Load the side that this process is on."""
    side = (
        "worker_side"
        if config.getoption("perfgate_worker")
        else "gate_side"
        if config.getoption("perfgate")
        else ""
    )
    if side == "worker_side" and config.getoption("perfgate"):
        raise pytest.UsageError(
            "--perfgate-worker is what a gate passes to its own runs. Leave it out."
        )
    if side:
        # Not pluginmanager.import_plugin: it warns where `perfgate doctor` has imported the side before, to no purpose.
        name = f"perfgate.plugin.{side}"
        if config.pluginmanager.register(importlib.import_module(name), name) is None:
            raise pytest.UsageError(
                f"-p no:{name}: it is switched off, and nothing would be measured. "
                "Leave it out, or leave --perfgate out."
            )
        return
    given = [
        flag
        for flag, _ in OPTIONS
        if config.getoption(flag.removeprefix("--").replace("-", "_")) is not None
    ]
    if given:
        raise pytest.UsageError(
            f"{given[0]} does nothing without --perfgate. Add --perfgate, or leave it out."
        )


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Leave workloads alone without `--perfgate`, whatever their names: they are no tests."""
    ours = collector.config.getoption("perfgate") or collector.config.getoption("perfgate_worker")
    return None if ours or declaration_of(obj) is None else []
