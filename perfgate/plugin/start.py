"""How a gate begins: from pytest's configuration to the gate, and what is collected for it."""

from __future__ import annotations

import os
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TextIO, cast

import pytest
from pydantic import ValidationError

from perfgate.execute.lab import Against, Invocation
from perfgate.gate.gate import Gate
from perfgate.model.errors import PerfgateError
from perfgate.model.loosening import Base
from perfgate.model.options import OPTIONS
from perfgate.model.pyproject import budgets_of_options, load_settings, outdated
from perfgate.model.settings import Settings
from perfgate.model.workload_file import scripts_of
from perfgate.plugin.choice import Choice
from perfgate.plugin.cleaned import CleanedStream
from perfgate.plugin.display import Display
from perfgate.plugin.handed_on import environment_before, given_starting_options, own_options
from perfgate.plugin.outputs import Outputs
from perfgate.plugin.progress import Progress
from perfgate.plugin.refusals import refused, usage_error
from perfgate.plugin.roots import refuse_other_root, refuse_root_by_value, refuse_unusable_root
from perfgate.plugin.sharding import label_of, shard_of
from perfgate.plugin.state import STATE, State
from perfgate.system import git
from perfgate.system.signals import ending_as_on_ctrl_c
from perfgate.words import say
from perfgate.workload import holds_command, workload_files


def start(config: pytest.Config) -> State:
    """Make the gate that pytest was asked for.

    Raises:
        pytest.UsageError: an option, a setting or the project cannot be gated by.
    """
    settings, choice = _settled(config)
    outputs, base = Outputs.of(config), _base_of(config)
    shard, label = shard_of(config), label_of(config)
    held = ExitStack()
    held.enter_context(ending_as_on_ctrl_c())
    config.add_cleanup(held.close)
    writer = config.get_terminal_writer()

    def clean(text: str) -> str:
        # Asked anew for each text: the gate comes to know the secrets of workloads.
        return config.stash[STATE].gate.cleaner.clean(text)

    writer._file = cast("TextIO", CleanedStream(writer._file, clean))
    gate = _gate_of(config, settings)
    config.add_cleanup(gate.tidy)
    display = Display(
        gate=gate,
        label=label,
        loosening=None if base is None else base.loosening,
        width=writer.fullwidth,
        colour=writer.hasmarkup,
        verbose=config.get_verbosity() > 0,
    )
    commands = filter(holds_command, workload_files(config.rootpath / settings.workloads))
    return State(
        gate=gate,
        display=display,
        outputs=outputs,
        choice=choice,
        shard=shard,
        base=base,
        scripts=scripts_of(commands, root=config.rootpath),
    )


def _settled(config: pytest.Config) -> tuple[Settings, Choice]:
    """Return the settings and what was typed to choose workloads, of a project that can be gated."""
    root = config.rootpath
    refuse_root_by_value(config)
    refuse_unusable_root(root)
    if not config.pluginmanager.hasplugin("terminalreporter"):
        raise usage_error("plugin-off", plugin="terminal")
    try:
        settings = load_settings(root, options_of(config))
        choice = Choice.of(config, workloads=root / settings.workloads)
        refuse_other_root(config, choice)
    except PerfgateError as invalid:
        raise refused(invalid) from None
    for old in outdated(settings):
        warning = pytest.PytestConfigWarning(say.message(old))
        config.issue_config_time_warning(warning, stacklevel=2)
    _choose_arguments(config, choice, root / settings.workloads)
    return settings, choice


def options_of(config: pytest.Config) -> dict[str, object]:
    """Return the settings that were given as options; None where an option was not."""
    return {
        option.setting: config.getoption(option.dest)
        for option in OPTIONS
        if option.is_flag and option.setting is not None and option.setting != "nsys"
    }


def _choose_arguments(config: pytest.Config, choice: Choice, workloads: Path) -> None:
    """Collect the project's workloads unless files were typed.

    Raises:
        pytest.UsageError: there is no folder of workloads.
    """
    start, root = config.invocation_params.dir, config.rootpath
    if choice.words:
        config.args = list(choice.words)
    elif workloads.is_dir():
        # Relative: pytest takes a bracket in a word for parameters, and a folder's name may have
        # one.
        config.args = [os.path.relpath(workloads, start)]
    elif root in start.parents:
        raise usage_error(
            "workloads-folder-elsewhere", folder=str(workloads), root=str(root), start=str(start)
        )
    else:
        raise usage_error("workloads-folder-missing", folder=str(workloads))


def _base_of(config: pytest.Config) -> Base | None:
    """Return what `--perfgate-base` names: what is known of the branch that a change is for."""
    file = config.getoption("perfgate_base")
    if file is None:
        return None
    try:
        return Base.model_validate_json(Path(file).read_bytes())
    except (OSError, ValidationError) as broken:
        raise usage_error("base-unreadable", file=file) from broken


def _against_of(config: pytest.Config) -> Against | None:
    """Return the commit that `--perfgate-against` names."""
    revision = config.getoption("perfgate_against")
    if revision is None:
        return None
    try:
        return Against(revision=revision, commit=git.resolve(config.rootpath, revision))
    except PerfgateError as missing:
        raise refused(missing) from None


def _gate_of(config: pytest.Config, settings: Settings) -> Gate:
    return Gate(
        Invocation(
            root=config.rootpath,
            settings=settings,
            env=dict(os.environ),
            worker_env=git.without_repository(environment_before(config)),
            nsys=config.getoption("perfgate_nsys"),
            pytest_options=worker_options(config),
            against=_against_of(config),
            keep_captures=config.getoption("perfgate_keep_captures"),
        ),
        _progress(config),
        runs_given=config.getoption("perfgate_runs") is not None,
        budgets_given=budgets_of_options(config.getoption("perfgate_budget")),
    )


def worker_options(config: pytest.Config) -> tuple[str, ...]:
    """Return what the pytest of a worker shares with this one; the project's options come last."""
    options = [f"--rootdir={config.rootpath}"]
    if config.inipath is not None:
        options += ["-c", str(config.inipath)]
    return (*options, *given_starting_options(config), *own_options(config))


def _progress(config: pytest.Config) -> Progress:
    """Show progress on pytest's own terminal, around its capture."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    writer = config.get_terminal_writer()
    return Progress(
        writer._file,
        live=reporter is not None and reporter.isatty and not os.environ.get("CI"),
        width=writer.fullwidth,
        suspend=capture.global_and_fixture_disabled if capture is not None else nullcontext,
    )
