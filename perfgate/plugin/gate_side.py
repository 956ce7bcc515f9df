"""The pytest of a gate: hooks that translate and hand over."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from perfgate.execute.torch_first import FirstImport, surroundings
from perfgate.model.errors import PerfgateError
from perfgate.model.note import note
from perfgate.plugin import spared_by_timeouts
from perfgate.plugin.guards import clean_report, why_skipped
from perfgate.plugin.items import CommandCollector, GatedModule
from perfgate.plugin.state import STATE, WORKLOAD, close, id_of, show, start
from perfgate.plugin.typed import ASKING, LOOKING, STARTED, heed, usage_error, was_typed
from perfgate.words import say
from perfgate.workload import holds_command, holds_workloads


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin the gate."""
    heed(session.config, session.config.option)  # each conftest has configured pytest by now
    try:
        session.config.stash[STATE] = start(session.config)
    except PerfgateError as invalid:
        raise usage_error(invalid) from None
    if not was_typed(session.config, (*LOOKING, *ASKING)):
        begun = session.config.stash[STARTED]
        began = surroundings(begun.environment, begun.cores)
        state = session.config.stash[STATE]
        torch = FirstImport(began, begun.finders, state.gate.start_standby)
        state.collecting.enter_context(suppress(ValueError))  # a conftest may have removed it
        state.collecting.callback(sys.meta_path.remove, torch)
        session.config.add_cleanup(state.collecting.close)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Collect workloads, and nothing else."""
    yield
    state, root = parent.config.stash[STATE], parent.config.rootpath
    within = file_path.is_relative_to(root / state.gate.settings.workloads)
    if not (within or parent.session.isinitpath(file_path)):
        return []
    if holds_command(file_path):
        return [CommandCollector.from_parent(parent, path=file_path)]
    if not holds_workloads(file_path):
        return []
    return [GatedModule.from_parent(parent, path=file_path)]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Note files that skip themselves, and those that cannot be collected."""
    report, state = (yield), collector.config.stash[STATE]
    clean_report(report, state.gate.cleaner)
    if report.failed:
        state.broken.append(collector.nodeid.encode(errors="replace").decode())
    if report.skipped:
        state.skipped_files[collector.nodeid] = why_skipped(report)
    return report


def pytest_itemcollected(item: pytest.Item) -> None:
    """Note it; every run has a time limit of its own."""
    spared_by_timeouts(item)
    if WORKLOAD in item.stash:
        item.config.stash[STATE].collect(item)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Name the project's options that are not heeded."""
    stood = config.stash[STARTED].standing
    return [say.message(note("options-not-heeded", options=tuple(stood)))] if stood else []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Note what is expected, now that -k, other hooks and the like have chosen."""
    session.config.stash[STATE].collecting.close()
    # What loading a workload did to the cores, the runs of another commit would inherit.
    os.sched_setaffinity(0, session.config.stash[STARTED].cores)
    session.config.stash[STATE].expect(session)


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Note what somebody leaves out."""
    for item in items:
        item.config.stash[STATE].deselected.add(id_of(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what is skipped."""
    report, state = (yield), item.config.stash[STATE]
    clean_report(report, state.gate.cleaner)
    if report.skipped:
        state.skipped[id_of(item)] = why_skipped(report)
    return report


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Close the gate after all others, also where one of them ends pytest."""
    try:
        return (yield)
    finally:
        if STATE in session.config.stash:
            close(session.config.stash[STATE], session)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Say whether the gate is open."""
    if STATE in config.stash:
        show(config.stash[STATE], terminalreporter, exitstatus)
