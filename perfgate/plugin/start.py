"""How a gate begins: from pytest's configuration to the gate, and what is collected for it."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TextIO, cast

import pytest
from pydantic import ValidationError

from perfgate.execute.lab import Against, Invocation
from perfgate.gate.gate import Gate
from perfgate.model.document import Shard
from perfgate.model.errors import ConfigInvalid, PerfgateError
from perfgate.model.loosening import Base
from perfgate.model.options import OPTIONS
from perfgate.model.pyproject import budgets_of_options, load_settings, outdated
from perfgate.model.settings import Settings
from perfgate.model.workload_file import scripts_of
from perfgate.plugin.choice import Choice
from perfgate.plugin.handed_on import EARLY, given_starting_options, own_options
from perfgate.plugin.outputs import Outputs
from perfgate.plugin.progress import Progress
from perfgate.plugin.refusals import refused, usage_error
from perfgate.plugin.reports import CleanedStream
from perfgate.plugin.roots import refuse_other_root
from perfgate.plugin.state import STATE, State
from perfgate.render.page import Screen
from perfgate.system import git
from perfgate.system.signals import ending_as_on_ctrl_c
from perfgate.words import say
from perfgate.workload import holds_command, workload_files


def start(config: pytest.Config) -> State:
    """Make the gate that pytest was asked for.

    Raises:
        pytest.UsageError: an option, a setting or the project cannot be gated by.
    """
    if not config.pluginmanager.hasplugin("terminalreporter"):
        raise usage_error("plugin-off", plugin="terminal")
    try:
        return _started(config)
    except PerfgateError as invalid:
        raise refused(invalid) from None


def _started(config: pytest.Config) -> State:
    settings = load_settings(config.rootpath, options_of(config))
    workloads = config.rootpath / settings.workloads
    choice = Choice(config, workloads=workloads)
    refuse_other_root(config, choice)
    for old in outdated(settings):
        warning = pytest.PytestConfigWarning(say.message(old))
        config.issue_config_time_warning(warning, stacklevel=2)
    config.args = list(choice.words) or [_folder_to_collect(config, workloads)]
    outputs, base, shard = Outputs.of(config), _base_of(config), _shard_of(config)
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
    commands = filter(holds_command, workload_files(workloads))
    return State(
        gate=gate,
        screen=Screen(width=writer.fullwidth, colour=writer.hasmarkup),
        outputs=outputs,
        choice=choice,
        shard=shard,
        label=config.getoption("perfgate_label") or "",
        base=base,
        scripts=scripts_of(commands, root=config.rootpath),
    )


def options_of(config: pytest.Config) -> dict[str, object]:
    """Return the settings that were given as options; None where an option was not."""
    return {
        option.setting: config.getoption(option.dest)
        for option in OPTIONS
        if option.is_flag and option.setting is not None and option.setting != "nsys"
    }


def _folder_to_collect(config: pytest.Config, workloads: Path) -> str:
    """The project's workloads.

    Raises:
        ConfigInvalid: there is no such folder.
    """
    if workloads.is_dir():
        # Relative: pytest takes a bracket in a word for parameters, and a folder may have one.
        return os.path.relpath(workloads, config.invocation_params.dir)
    raise ConfigInvalid(
        "workloads-folder-missing", folder=str(workloads), root=str(config.rootpath)
    )


def _base_of(config: pytest.Config) -> Base | None:
    """Return what `--perfgate-base` names: what is known of the branch that a change is for."""
    file = config.getoption("perfgate_base")
    if file is None:
        return None
    try:
        return Base.model_validate_json(Path(file).read_bytes())
    except (OSError, ValidationError) as broken:
        raise ConfigInvalid("base-unreadable", file=file) from broken


def _shard_of(config: pytest.Config) -> Shard | None:
    """Return which part of the workloads was asked for.

    Raises:
        ConfigInvalid: it is none.
    """
    given = config.getoption("perfgate_shard")
    if given is None:
        return None
    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", given)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise ConfigInvalid("shard-invalid", value=given)
    return Shard(index=int(found[1]), of=int(found[2]))


def _gate_of(config: pytest.Config, settings: Settings) -> Gate:
    revision, root = config.getoption("perfgate_against"), config.rootpath
    return Gate(
        Invocation(
            root=root,
            settings=settings,
            env=dict(os.environ),
            worker_env=git.without_repository(config.stash[EARLY].environment),
            nsys=config.getoption("perfgate_nsys"),
            pytest_options=worker_options(config),
            against=None
            if revision is None
            else Against(revision=revision, commit=git.resolve(root, revision)),
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
