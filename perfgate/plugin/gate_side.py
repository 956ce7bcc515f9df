"""The pytest around a gate: hooks that translate and hand over. What they hand over to is in `bench`."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from perfgate.gate import Closing
from perfgate.model.errors import PerfgateError
from perfgate.model.workload import Workload
from perfgate.plugin.bench import GATE, PytestGate
from perfgate.plugin.collect import holds_workloads, spared_by_timeouts
from perfgate.plugin.items import CommandCollector, CommandItem, GatedModule, WorkloadItem
from perfgate.plugin.progress import Progress
from perfgate.settings import load_settings

EXPECTED = pytest.StashKey[Sequence[Workload]]()
CLOSING = pytest.StashKey[Closing]()
WHOLE = pytest.StashKey[bool]()
"""Whether all workloads of the project were asked for, so that a missing one is missed."""


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Read the settings and choose what is collected."""
    config = session.config
    refuse_distribution(config)
    try:
        settings = load_settings(config.rootpath, options_of(config))
    except PerfgateError as invalid:
        raise pytest.UsageError(str(invalid)) from None
    choose_arguments(config, config.rootpath / settings.workloads)
    writer = config.get_terminal_writer()
    config.stash[GATE] = PytestGate(
        root=config.rootpath,
        settings=settings,
        env=dict(os.environ),
        pytest_options=worker_options(config),
        runs_given=config.getoption("perfgate_runs") is not None,
        keep_captures=config.getoption("perfgate_keep_captures"),
        progress=_progress(config),
        width=writer.fullwidth,
        colour=writer.hasmarkup,
    )


def refuse_distribution(config: pytest.Config) -> None:
    """Refuse to run side by side: gates on one GPU would measure one another.

    Raises:
        pytest.UsageError: pytest-xdist was asked to distribute.
    """
    workers = config.getoption("numprocesses", None)
    if workers or config.getoption("tx", None) or hasattr(config, "workerinput"):
        raise pytest.UsageError(
            "--perfgate: pytest-xdist was asked to run workloads side by side. They would measure one another.\n"
            "Leave -n out, or pass -n 0."
        )


def options_of(config: pytest.Config) -> dict[str, object]:
    """The settings that were given as options; None where an option was not."""
    return {
        "runs": config.getoption("perfgate_runs"),
        "max_runs": config.getoption("perfgate_max_runs"),
        "timeout_s": config.getoption("perfgate_timeout"),
        "new": config.getoption("perfgate_new"),
        "inconclusive": config.getoption("perfgate_inconclusive"),
        "nsys": config.getoption("perfgate_nsys"),
    }


def choose_arguments(config: pytest.Config, workloads: Path) -> None:
    """Collect the project's workloads unless the user names files.

    Raises:
        pytest.UsageError: there is no folder of workloads.
    """
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    config.stash[WHOLE] = not named
    if named:
        return
    if not workloads.is_dir():
        raise pytest.UsageError(
            f"--perfgate: there is no folder {workloads}. Workloads are collected from there.\n"
            "Make one with a workload in it, or set workloads in [tool.perfgate]."
        )
    config.args = [str(workloads)]


def worker_options(config: pytest.Config) -> tuple[str, ...]:
    """What the pytest of a worker must share with this one."""
    options = [f"--rootdir={config.rootpath}", f"--import-mode={config.getoption('importmode')}"]
    if config.inipath is not None:
        options += ["-c", str(config.inipath)]
    for plugin in config.getoption("plugins"):
        options += ["-p", plugin]
    return tuple(options)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Collect workloads, and nothing else."""
    yield
    workloads = parent.config.rootpath / parent.config.stash[GATE].settings.workloads
    if not (file_path.is_relative_to(workloads) or parent.session.isinitpath(file_path)):
        return []
    if holds_workloads(file_path):
        return [GatedModule.from_parent(parent, path=file_path)]
    if file_path.suffix in {".yaml", ".yml"}:
        return [CommandCollector.from_parent(parent, path=file_path)]
    return []


def pytest_itemcollected(item: pytest.Item) -> None:
    """Every run has a time limit of its own."""
    spared_by_timeouts(item)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note what is expected: from here on, what is missing is missed."""
    expected = [item.workload for item in session.items if isinstance(item, WorkloadItem | CommandItem)]
    session.config.stash[EXPECTED] = tuple(expected)
    for workload in expected:
        twins = [other.source for other in expected if other.id == workload.id]
        if len(twins) > 1:
            raise pytest.UsageError(
                f"{workload.id}: {len(twins)} workloads bear this name ({', '.join(twins)}). "
                "Baselines are kept by name, so it must be unique.\nRename all but one."
            )


def pytest_deselected(items: list[pytest.Item]) -> None:
    """A selection leaves workloads out on purpose."""
    if items:
        items[0].config.stash[WHOLE] = False


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hold the exit status against the verdicts, and write the document."""
    config = session.config
    if config.option.collectonly:
        return
    gate = config.stash[GATE]
    closing = gate.close(config.stash.get(EXPECTED, ()), whole=config.stash[WHOLE])
    config.stash[CLOSING] = closing
    if not closing.opens and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if config.getoption("perfgate_json"):
        file = config.invocation_params.dir / config.getoption("perfgate_json")
        gate.write_document(file, closing, exit_status=int(session.exitstatus))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Say whether the gate is open."""
    closing = config.stash.get(CLOSING, None)
    if closing is None:
        return
    terminalreporter.section("perfgate")
    interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
    for line in config.stash[GATE].told(closing, interrupted=interrupted).splitlines():
        terminalreporter.write_line(line)


def _progress(config: pytest.Config) -> Progress:
    """Progress on pytest's own terminal, around its capture."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    writer = config.get_terminal_writer()
    return Progress(
        writer._file,
        live=reporter is not None and reporter.isatty and not os.environ.get("CI"),
        width=writer.fullwidth,
        suspend=capture.global_and_fixture_disabled if capture is not None else nullcontext,
    )
