"""The pytest around a gate: hooks that translate and hand over to the gate, in the hall, and to how it is told."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TextIO, cast

import pytest

from perfgate.execute.lab import Against, Invocation
from perfgate.gate import Closing
from perfgate.gate.gate import Gate
from perfgate.model.document import DocumentShard, GateDocument
from perfgate.model.errors import PerfgateError
from perfgate.model.loosening import Base
from perfgate.model.note import Severity, quoted
from perfgate.model.pyproject import (
    budgets_of_options,
    find_root,
    load_settings,
    project_around,
    project_within,
    without_effect,
)
from perfgate.model.secrets import Cleaner
from perfgate.model.shard import Shard
from perfgate.model.told import ToldChoice
from perfgate.model.workload import Workload
from perfgate.model.workload_file import is_script, scripts_of
from perfgate.plugin import OPTIONS
from perfgate.plugin.based import base_of, with_base
from perfgate.plugin.choice import Choice
from perfgate.plugin.cleaned import CleanedStream
from perfgate.plugin.collect import may_declare, spared_by_timeouts
from perfgate.plugin.handed_on import (
    environment_before,
    given_starting_options,
    own_options,
    restore_process,
)
from perfgate.plugin.items import (
    CommandCollector,
    CommandItem,
    GatedModule,
    GateShut,
    Lines,
    ScriptFile,
    WorkloadItem,
)
from perfgate.plugin.outputs import Outputs
from perfgate.plugin.progress import Progress
from perfgate.plugin.refusals import usage_error
from perfgate.plugin.sharding import label_of, refuse_empty, shard_of
from perfgate.plugin.telling import GATE, TELLING, Telling
from perfgate.plugin.typed import ASKING, LOOKING, STANDING, TYPED, heed_again
from perfgate.render.page import uncommanding
from perfgate.render.text import skipped_text, told_choice
from perfgate.system import git
from perfgate.views.pages import page_of
from perfgate.workload import holds_command, holds_workloads, workload_files

EXPECTED = pytest.StashKey[Sequence[Workload]]()
CLOSING = pytest.StashKey[Closing]()
TOLD = pytest.StashKey[bool]()
"""Whether the terminal has been told what the gate has come to."""
OUTPUTS = pytest.StashKey[Outputs]()
CHOICE = pytest.StashKey[Choice]()
"""What was typed to choose workloads: of the others none is missed."""
COLLECTED = pytest.StashKey[dict[str, WorkloadItem | CommandItem]]()
"""All workloads that were collected, by id, whatever a selection or a hook leaves of them."""
CHOSEN = pytest.StashKey[frozenset[str]]()
"""Those of them that this gate is to measure, or another shard of it."""
DESELECTED = pytest.StashKey[set[str]]()
"""Workloads that somebody deselected with a word to pytest."""
SHARD = pytest.StashKey[Shard | None]()
BASE = pytest.StashKey[Base | None]()
"""What is known of the branch that this change is for."""
ELSEWHERE = pytest.StashKey[frozenset[str]]()
"""Workloads of the other shards: not measured here, and not gone."""
DIVIDED = pytest.StashKey[tuple[str, ...] | None]()
"""All workloads that the shards divide among them, sorted; None until they are divided, and without shards."""
SKIPPED = pytest.StashKey[dict[str, str]]()
"""Workloads that a mark or condition skipped, and why."""
SKIPPED_FILES = pytest.StashKey[dict[str, str]]()
"""Files that skipped themselves while they were imported, and why: they hide their workloads."""
HIDDEN = pytest.StashKey[list[str]]()
"""Workloads whose failure pytest does not show: those marked xfail."""
BROKEN = pytest.StashKey[list[str]]()
"""Files that could not be collected."""
SCRIPTS = pytest.StashKey[frozenset[str]]()
"""Python files that YAML workloads run: importing one would run it here, before anything is measured."""

DESELECTED_BY_HOOK = "deselected by a conftest or plugin"
"""Why a workload was skipped that no typed option leaves out."""
COMPLETE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
"""Exit statuses of a pytest that came to its end."""


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Read the settings and choose what is collected."""
    config = session.config
    heed_again(config)
    refuse_distribution(config)
    refuse_misled_root(config)
    refuse_unreadable_root(config)
    refuse_expanded_root(config)
    if not config.pluginmanager.hasplugin("terminalreporter"):
        raise usage_error(
            "-p no:terminal: a gate tells its verdicts there. Leave it out; -q says least."
        )
    try:
        settings = load_settings(config.rootpath, options_of(config))
        choice = Choice.of(config, workloads=config.rootpath / settings.workloads)
        refuse_part_of_a_project(config, choice)
        refuse_whole_around_a_project(config, choice)
    except PerfgateError as invalid:
        raise usage_error(str(invalid)) from None
    for told in without_effect(settings):
        config.issue_config_time_warning(pytest.PytestConfigWarning(told), stacklevel=2)
    choose_arguments(config, choice, config.rootpath / settings.workloads)
    config.stash[OUTPUTS] = Outputs.of(config)
    config.stash[BASE] = base_of(config)
    config.stash[SHARD] = shard_of(config)
    config.stash[CHOICE], config.stash[CHOSEN] = choice, frozenset()
    config.stash[ELSEWHERE], config.stash[DIVIDED] = frozenset(), None
    end_as_on_ctrl_c(config)
    writer = config.get_terminal_writer()

    def clean(text: str) -> str:
        return config.stash[GATE].cleaner.clean(
            text
        )  # which comes to know the secrets of workloads

    writer._file = cast("TextIO", CleanedStream(writer._file, clean))
    config.stash[HIDDEN] = []
    config.stash[COLLECTED], config.stash[DESELECTED] = {}, set()
    config.stash[SKIPPED], config.stash[SKIPPED_FILES] = {}, {}
    config.stash[BROKEN] = []
    commands = filter(holds_command, workload_files(config.rootpath / settings.workloads))
    config.stash[SCRIPTS] = scripts_of(commands, root=config.rootpath)
    config.stash[GATE] = Gate(
        Invocation(
            root=config.rootpath,
            settings=settings,
            env=dict(os.environ),
            worker_env=git.without_repository(environment_before(config)),
            nsys=config.getoption("perfgate_nsys"),
            pytest_options=worker_options(config),
            against=against_of(config),
            keep_captures=config.getoption("perfgate_keep_captures"),
        ),
        _progress(config),
        runs_given=config.getoption("perfgate_runs") is not None,
        budgets_given=budgets_of_options(config.getoption("perfgate_budget")),
    )
    config.stash[TELLING] = Telling(
        gate=config.stash[GATE],
        label=label_of(config),
        loosening=None if (base := config.stash[BASE]) is None else base.loosening,
        width=writer.fullwidth,
        colour=writer.hasmarkup,
        verbose=config.get_verbosity() > 0,
    )
    config.add_cleanup(config.stash[GATE].tidy)


def against_of(config: pytest.Config) -> Against | None:
    """What `--perfgate-against` names.

    Raises:
        pytest.UsageError: it is no commit of this clone.
    """
    revision = config.getoption("perfgate_against")
    if revision is None:
        return None
    try:
        return Against(revision=revision, commit=git.resolve(config.rootpath, revision))
    except PerfgateError as missing:
        raise usage_error(f"--perfgate-against: {missing}") from None


def refuse_distribution(config: pytest.Config) -> None:
    """Refuse to run side by side, since gates on one GPU would measure one another, and in forks.

    Raises:
        pytest.UsageError: pytest-xdist was asked to distribute, or pytest-forked to fork.
    """
    workers = config.getoption("numprocesses", None)
    if config.option.collectonly:
        return
    if workers or config.getoption("tx", None) or hasattr(config, "workerinput"):
        raise usage_error(
            "--perfgate: pytest-xdist was asked to run workloads side by side. They would measure one another.\n"
            "Leave -n out, or pass -n 0."
        )
    if config.getoption("forked", None):
        raise usage_error(
            "--perfgate: pytest-forked was asked to run each workload in a process of its own, with which its verdict "
            "would be lost.\nLeave --forked out: a gate starts a fresh process for each run anyway."
        )


def refuse_misled_root(config: pytest.Config) -> None:
    """Refuse to gate a project that pytest found by the value of an option.

    pytest looks for its root before it knows a plugin's options: in `--perfgate-json FILE` it takes a FILE that exists
    for a test file, and looks from there.

    Raises:
        pytest.UsageError: the root is not the working directory's, and there is such a value.
    """
    if config.getoption("rootdir") or config.getoption("inifilename"):
        return
    here = config.invocation_params.dir
    ours = {flag for flag, _ in OPTIONS}
    words = [
        *shlex.split(os.environ.get("PYTEST_ADDOPTS", "")),
        *map(str, config.invocation_params.args),
    ]
    misleading = [
        (flag, value) for flag, value in pairwise(words) if flag in ours and (here / value).exists()
    ]
    root = find_root(here)
    if misleading and config.rootpath != root:
        flag, value = misleading[0]
        raise usage_error(
            f"{flag} {value}: pytest took {value} for a test file, looked for the project from there, and found "
            f"{config.rootpath} instead of {root}.\nJoin option and value: {flag}={value}"
        )


def refuse_part_of_a_project(config: pytest.Config, choice: Choice) -> None:
    """Refuse to gate a folder of a project as if it were one: its baselines and results would be others.

    pytest takes the nearest folder with a configuration of its own for the root, `workloads/pytest.ini` for one.

    Raises:
        pytest.UsageError: the root is none of a project, and lies in one that the workloads are of.
    """
    around = project_around(config.rootpath)
    if around is None or config.getoption("rootdir") or config.getoption("inifilename"):
        return
    workloads = (around / load_settings(around, {}).workloads).resolve()
    files = [
        (config.invocation_params.dir / word.partition("::")[0]).resolve() for word in choice.words
    ]
    if files and not any(file.is_relative_to(workloads) for file in files):
        return
    by = "" if config.inipath is None else f" for its {config.inipath.name}"
    other = "" if config.inipath is None else f", or do without {config.inipath}"
    raise usage_error(
        f"--perfgate: pytest takes {config.rootpath} for the project{by}. It is a folder of the project {around}, "
        f"whose settings and baselines are meant.\nStart in {around} with --rootdir=.{other}."
    )


def refuse_whole_around_a_project(config: pytest.Config, choice: Choice) -> None:
    """Refuse to gate what lies around a project as if it were that one: the settings there would not be read.

    pytest takes the nearest folder that configures it for the root, the top of a repository for one.

    Raises:
        pytest.UsageError: the user stands in a project below the root, or names files of one.
    """
    if config.getoption("rootdir") or config.getoption("inifilename"):
        return
    start = config.invocation_params.dir
    for place in (start, *((start / word.partition("::")[0]).resolve() for word in choice.words)):
        within = project_within(config.rootpath, place)
        if within is not None:
            by = "" if config.inipath is None else f" for its {config.inipath.name}"
            raise usage_error(
                f"--perfgate: pytest takes {config.rootpath} for the project{by}, and would not read the "
                f"[tool.perfgate] of {within}.\nPut a [tool.pytest.ini_options] beside it, so that pytest, and "
                "perfgate's commands, find the project there."
            )


def refuse_unreadable_root(config: pytest.Config) -> None:
    """Refuse a project in a folder whose name no JSON document can hold.

    Raises:
        pytest.UsageError: its path is no UTF-8.
    """
    try:
        str(config.rootpath).encode()
    except UnicodeEncodeError:
        if _is_utf8(os.fsencode(config.rootpath)):
            raise usage_error(
                f"--perfgate: Python reads file names as {sys.getfilesystemencoding()} here, and the path of this "
                f"project is UTF-8: {str(config.rootpath)!a}.\n"
                "Set PYTHONUTF8=1, or LC_ALL to a locale of UTF-8 such as C.UTF-8."
            ) from None
        raise usage_error(
            f"--perfgate: the path of this project is no UTF-8: {str(config.rootpath)!a}.\n"
            "Move it to a folder whose path is."
        ) from None


def refuse_expanded_root(config: pytest.Config) -> None:
    """Refuse a project whose path the pytest of a run, which is told its root, would read as another.

    Raises:
        pytest.UsageError: the path holds the name of a variable that is set.
    """
    root = str(config.rootpath)
    if (expanded := os.path.expandvars(root)) != root:
        raise usage_error(
            f"--perfgate: the path of this project is {root}, and pytest reads {expanded} where it is told it, as a "
            "variable of that name is set.\nMove it to a folder without a dollar sign, or unset the variable."
        )


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def options_of(config: pytest.Config) -> dict[str, object]:
    """The settings that were given as options; None where an option was not."""
    return {
        "runs": config.getoption("perfgate_runs"),
        "max_runs": config.getoption("perfgate_max_runs"),
        "time_budget_s": config.getoption("perfgate_time_budget"),
        "budgets": config.getoption("perfgate_budget"),
        "timeout_s": config.getoption("perfgate_timeout"),
        "new": config.getoption("perfgate_new"),
        "machine": config.getoption("perfgate_machine"),
        "inconclusive": config.getoption("perfgate_inconclusive"),
    }


def choose_arguments(config: pytest.Config, choice: Choice, workloads: Path) -> None:
    """Collect the project's workloads unless files were typed.

    Raises:
        pytest.UsageError: there is no folder of workloads.
    """
    if choice.words:
        config.args = list(choice.words)
        return
    start = config.invocation_params.dir
    if not workloads.is_dir():
        raise usage_error(
            f"--perfgate: there is no folder {workloads}. Workloads are collected from there.\n"
            f"Make one with a workload in it, or set workloads in [tool.perfgate].{_other_root(config)}"
        )
    # Relative: pytest takes a bracket in a word for parameters, and the project may lie in a folder with one.
    config.args = [os.path.relpath(workloads, start)]


def _other_root(config: pytest.Config) -> str:
    """Say why the folder that a user stands in is not the project, where it is not."""
    start, root = config.invocation_params.dir, config.rootpath
    if start == root or root not in start.parents:
        return ""
    by = "" if config.inipath is None else f" by {config.inipath}"
    return f" The project is {root}{by}; to have one here, give {start} a configuration of pytest's own."


def end_as_on_ctrl_c(config: pytest.Config) -> None:
    """Let SIGTERM and SIGHUP end a gate as Ctrl-C does, or nsys and the workload would outlive it."""
    if threading.current_thread() is not threading.main_thread():
        return
    ours = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    ]

    def put_back() -> None:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)

    for number in ours:
        signal.signal(number, signal.default_int_handler)
    config.add_cleanup(put_back)


def worker_options(config: pytest.Config) -> tuple[str, ...]:
    """What the pytest of a worker must share with this one; the project's own options come last."""
    options = [f"--rootdir={config.rootpath}"]
    if config.inipath is not None:
        options += ["-c", str(config.inipath)]
    return (*options, *given_starting_options(config), *own_options(config))


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
        scripts = parent.config.stash[SCRIPTS]
        if is_script(file_path, scripts, root=parent.config.rootpath) and not may_declare(
            file_path
        ):
            return [ScriptFile.from_parent(parent, path=file_path)]
        return [GatedModule.from_parent(parent, path=file_path)]
    if holds_command(file_path):
        return [CommandCollector.from_parent(parent, path=file_path)]
    return []


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Note files that skip themselves, and those that cannot be collected."""
    report = yield
    clean_report(report, collector.config.stash[GATE].cleaner)
    if report.failed:
        collector.config.stash[BROKEN].append(collector.nodeid.encode(errors="replace").decode())
    if report.skipped:
        collector.config.stash[SKIPPED_FILES][collector.nodeid] = why_skipped(report)
    return report


def clean_report(report: pytest.CollectReport | pytest.TestReport, cleaner: Cleaner) -> None:
    """Take secrets out of what pytest, and plugins that write files, are to show of a failure or skip."""
    if isinstance(report.longrepr, tuple):
        report.longrepr = cleaner.record(report.longrepr)
    elif report.longrepr is not None and cleaner.clean(told := str(report.longrepr)) != told:
        report.longrepr = Lines(cleaner.clean(told))
    report.sections = [(title, cleaner.clean(text)) for title, text in report.sections]
    if isinstance(report, pytest.TestReport):
        report.user_properties = list(cleaner.record(tuple(report.user_properties)))
        if hasattr(report, "wasxfail"):
            report.wasxfail = cleaner.clean(report.wasxfail)


def why_skipped(report: pytest.CollectReport | pytest.TestReport) -> str:
    """The reason that a mark, or a call of `pytest.skip`, gives."""
    told = (
        report.longrepr[2]
        if isinstance(report.longrepr, tuple)
        else getattr(report, "wasxfail", "")
    )
    return " ".join(told.removeprefix("Skipped: ").split())


def pytest_itemcollected(item: pytest.Item) -> None:
    """Note it; every run has a time limit of its own."""
    spared_by_timeouts(item)
    if isinstance(item, WorkloadItem | CommandItem):
        item.config.stash[COLLECTED][item.workload.id] = item


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave what falls to other shards to them; after -k and the like, so that every shard has its part of the rest."""
    choose(session)
    shard, chosen = config.stash[SHARD], config.stash[CHOSEN]
    if shard is None:
        return
    refuse_twins(workloads_of(items))
    if not session.testsfailed:
        refuse_empty(shard, chosen)
    config.stash[DIVIDED], config.stash[ELSEWHERE] = (
        tuple(sorted(chosen)),
        chosen - shard.part(chosen),
    )
    others = [item for item in items if id_of(item) in config.stash[ELSEWHERE]]
    items[:] = [item for item in items if id_of(item) not in config.stash[ELSEWHERE]]
    config.hook.pytest_deselected(items=others)


def choose(session: pytest.Session) -> None:
    """Note which of the collected workloads were chosen: by what was typed, and not by what a hook leaves of them."""
    config, collected = session.config, list(session.config.stash[COLLECTED].values())
    chosen = [*config.stash[CHOICE].of_items(collected, config), *session.items]
    config.stash[CHOSEN] = frozenset(workload.id for workload in workloads_of(chosen))


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say which options of the project's are not heeded."""
    stood = config.stash[STANDING]
    return (
        [f"perfgate: a gate heeds what is typed on its command line, so not {', '.join(stood)}"]
        if stood
        else []
    )


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Say which part of the workloads this is."""
    shard, mine = config.stash[SHARD], len(config.stash[EXPECTED])
    whole = mine + len(config.stash[ELSEWHERE])
    return [] if shard is None else [f"shard {shard}: {mine} of {whole} workloads"]


def workloads_of(items: Sequence[pytest.Item]) -> list[Workload]:
    """The workloads among pytest's items, in their order."""
    return [item.workload for item in items if isinstance(item, WorkloadItem | CommandItem)]


def id_of(item: pytest.Item) -> str | None:
    """The workload's id; None of an item that is none."""
    return item.workload.id if isinstance(item, WorkloadItem | CommandItem) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Note what is expected: from here on, what is missing is missed."""
    config = session.config
    restore_process(config)
    expected = workloads_of(session.items)
    refuse_twins(expected)
    if config.stash[SHARD] is None:
        choose(session)  # again, for here all hooks are done
    if not session.testsfailed:
        # Again, for only here it keeps pytest from listing them.
        refuse_empty(config.stash[SHARD], {*config.stash[CHOSEN]})
    left, deselected = (
        here(config) - {workload.id for workload in expected},
        config.stash[DESELECTED],
    )
    dropped = [item.workload for name, item in config.stash[COLLECTED].items() if name in left]
    config.stash[SKIPPED] |= {
        name: DESELECTED_BY_HOOK for name in sorted(left) if name in deselected
    }
    config.stash[EXPECTED] = (*expected, *dropped)
    config.stash[GATE].expect(config.stash[EXPECTED], elsewhere=config.stash[ELSEWHERE])


def here(config: pytest.Config) -> frozenset[str]:
    """The chosen workloads that fall to no other shard."""
    chosen, elsewhere = config.stash[CHOSEN], config.stash[ELSEWHERE]
    return frozenset(name for name in chosen if name not in elsewhere)


def refuse_twins(expected: Sequence[Workload]) -> None:
    """Refuse workloads that would share a baseline.

    Raises:
        pytest.UsageError: two bear one name.
    """
    for workload in expected:
        twins = [other.source for other in expected if other.id == workload.id]
        if len(twins) > 1:
            raise usage_error(
                f"{workload.id}: {len(twins)} workloads bear this name ({', '.join(twins)}). "
                "Baselines are kept by name, so it must be unique.\nRename all but one."
            )


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Note what somebody leaves out."""
    for item in items:
        item.config.stash[DESELECTED].add(id_of(item) or "")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note failures that an xfail mark hides, and what is skipped."""
    report = yield
    clean_report(report, item.config.stash[GATE].cleaner)
    if report.skipped and isinstance(item, WorkloadItem | CommandItem):
        item.config.stash[SKIPPED][item.workload.id] = why_skipped(report)
    if (
        hasattr(report, "wasxfail")
        and call.excinfo is not None
        and isinstance(call.excinfo.value, GateShut)
    ):
        item.config.stash[HIDDEN].append(call.excinfo.value.verdict.workload)
    return report


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Close the gate after all others, also where one of them ends pytest."""
    try:
        return (yield)
    finally:
        close_gate(session)


def close_gate(session: pytest.Session) -> None:
    """Hold the exit status against the verdicts, and write the document."""
    config = session.config
    gate = config.stash.get(GATE, None)
    if gate is None or any(getattr(config.stash[TYPED], option, None) for option in LOOKING):
        return
    broken: list[str] = config.stash[BROKEN]
    skipped: dict[str, str] = config.stash[SKIPPED]
    closing = gate.close(
        config.stash.get(EXPECTED, ()),
        skipped=skipped,
        skipped_files=config.stash[SKIPPED_FILES],
        chosen=partial(was_chosen, session),
        paths=config.stash[CHOICE].paths,
    )
    closing = with_base(
        closing,
        config.stash[BASE],
        machine=gate.machine,
        known={*gate.verdicts, *config.stash[ELSEWHERE]},
        asks=(shard := config.stash[SHARD]) is None or shard.index == 1,
    )
    closing = with_exit_status(closing, session.exitstatus, broken=broken)
    ended = int(session.exitstatus)

    telling = config.stash[TELLING]

    def documented(told: Closing) -> GateDocument:
        status = max(ended, told.exit_status)
        return telling.document(
            told, exit_status=status, shard=told_shard(config), choice=chosen_part(config)
        )

    paged = partial(page_of, shelf=telling.shelf, cleaner=gate.cleaner)
    config.stash[CLOSING] = config.stash[OUTPUTS].write(documented, closing, paged)
    session.exitstatus = max(ended, config.stash[CLOSING].exit_status)


def was_chosen(session: pytest.Session, workload: str, source: str | None) -> bool:
    """Whether a workload that has a baseline, and perhaps was not collected, is to be measured in this gate."""
    config = session.config
    if workload in config.stash[COLLECTED]:
        return workload in here(config)
    # A file that cannot be collected hides its workloads; they are not gone.
    complete = session.exitstatus in COMPLETE and not config.stash[BROKEN]
    asks = complete and asks_for_orphans(config.stash[SHARD], config.stash[SKIPPED_FILES])
    return asks and config.stash[CHOICE].may_cover(workload, source)


def held_status(config: pytest.Config) -> int:
    """The exit status of a pytest that ended with 0: another hook may have set that, or ended it before the gate."""
    if any(getattr(config.stash[TYPED], option, None) for option in (*LOOKING, *ASKING)):
        return int(pytest.ExitCode.OK)
    closing = config.stash.get(CLOSING, None)
    if not config.stash.get(TOLD, False) and (closing is None or not closing.opens):
        sys.stderr.write(
            "GATE SHUT: pytest was ended with exit status 0 before the gate was told: by pytest.exit or "
            "pytest_cmdline_main in a conftest or plugin, for one. That is no success; let it raise, or skip what it "
            "cannot run.\n"
        )
    return int(pytest.ExitCode.TESTS_FAILED) if closing is None else closing.exit_status


def told_status(config: pytest.Config) -> int | None:
    """The exit status of a gate whose verdicts are told; None before."""
    closing = config.stash.get(CLOSING, None)
    return closing.exit_status if closing is not None and config.stash.get(TOLD, False) else None


def told_shard(config: pytest.Config) -> DocumentShard | None:
    """What the document tells of this shard, so that those who merge see what all of them left out."""
    shard, judged = config.stash[SHARD], config.stash[GATE].verdicts
    if shard is None:
        return None
    skipped = tuple(sorted(name for name in config.stash[SKIPPED] if name not in judged))
    return DocumentShard(
        index=shard.index, of=shard.of, workloads=config.stash[DIVIDED], skipped=skipped
    )


def asks_for_orphans(shard: Shard | None, skipped_files: dict[str, str]) -> bool:
    """Whether baselines without a workload are looked for here.

    By one shard, so that one gate says it and not all; but the files that skip themselves on one runner need not do so
    on the others.
    """
    return shard is None or shard.index == 1 or bool(skipped_files)


def with_exit_status(closing: Closing, status: int, *, broken: Sequence[str] = ()) -> Closing:
    """A gate does not open where pytest itself failed: at a file that it cannot collect, or in another plugin."""
    if why := why_ended(status, broken=broken) or uncollected(broken):
        return Closing(opens=False, notes=(quoted(why, Severity.INVALID), *closing.notes))
    if not closing.opens or status == pytest.ExitCode.OK:
        return closing
    why = f"pytest failed beside the workloads, see above (exit status {int(status)})"
    return closing.but(quoted(why, Severity.INVALID))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Say whether the gate is open."""
    closing = config.stash.get(CLOSING, None)
    if closing is None:
        return
    config.stash[TOLD] = True
    terminalreporter.write_sep("=", "perfgate")
    hidden = config.stash.get(HIDDEN, [])
    broken: list[str] = config.stash[BROKEN]
    why = why_ended(exitstatus, broken=broken)
    chosen = "" if why or (choice := chosen_part(config)) is None else told_choice(choice)
    told = config.stash[TELLING].summary(closing, hidden=hidden, why=why, chosen=chosen)
    told = skipped_text(unmeasured(config), width=terminalreporter._tw.fullwidth) + told
    for line in told.splitlines():
        terminalreporter.write_line(uncommanding(line))


def chosen_part(config: pytest.Config) -> ToldChoice | None:
    """How many of the known workloads were chosen, and by what; None where all were asked for."""
    flags = config.stash[CHOICE].flags
    if not flags or EXPECTED not in config.stash:
        return None
    known = {*config.stash[COLLECTED], *config.stash[GATE].blessed}
    return ToldChoice(by=flags, workloads=len(config.stash[EXPECTED]), of=len(known))


def unmeasured(config: pytest.Config) -> dict[str, str]:
    """The files and workloads that were skipped, and why."""
    files, workloads = config.stash[SKIPPED_FILES], config.stash[SKIPPED]
    judged = config.stash[GATE].verdicts
    return files | {name: why for name, why in workloads.items() if name not in judged}


def uncollected(broken: Sequence[str]) -> str:
    """Name the files that cannot be collected; empty where all can."""
    return f"files that cannot be collected: {', '.join(broken)}" if broken else ""


def why_ended(status: int, *, broken: Sequence[str]) -> str:
    """Why pytest ended before it had measured what it should, in a phrase; empty where it did not."""
    match status:
        case pytest.ExitCode.INTERRUPTED:
            return uncollected(broken) or "interrupted"
        case pytest.ExitCode.USAGE_ERROR:
            return "pytest did not start, see its error"
        case pytest.ExitCode.INTERNAL_ERROR:
            return "pytest broke down, see its traceback"
        case _:
            return ""


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
