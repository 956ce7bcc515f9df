"""One gate as pytest runs it: how it begins, what is expected of it, what came of it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, cast

import pytest
from pydantic import ValidationError

from perfgate.execute.lab import Against, Invocation
from perfgate.gate.gate import Gate
from perfgate.model.document import GateDocument, Shard
from perfgate.model.errors import ConfigInvalid
from perfgate.model.loosening import Base
from perfgate.model.note import note
from perfgate.model.options import OPTIONS
from perfgate.model.pyproject import (
    budgets_of_options,
    find_root,
    load_settings,
    outdated,
)
from perfgate.model.settings import Settings
from perfgate.model.workload import Workload
from perfgate.model.workload_file import scripts_of
from perfgate.plugin.guards import CleanedStream
from perfgate.plugin.handed_on import EARLY, worker_options
from perfgate.plugin.outputs import Outputs
from perfgate.plugin.progress import Progress
from perfgate.plugin.typed import Choice, usage_error
from perfgate.render.page import Screen
from perfgate.system import git
from perfgate.system.signals import ending_as_on_ctrl_c
from perfgate.words import say
from perfgate.workload import holds_command, workload_files

WORKLOAD = pytest.StashKey[Workload]()
"""Of an item: the workload that it is."""


@dataclass(kw_only=True)
class State:
    """All that the hooks of one gate share."""

    gate: Gate
    screen: Screen
    outputs: Outputs
    choice: Choice
    """What was typed to choose workloads: of the others none is missed."""
    shard: Shard | None
    base: Base | None
    """What is known of the branch that this change is for."""
    scripts: frozenset[str]
    """Python files that YAML workloads run: importing one would run it here."""

    collected: dict[str, pytest.Item] = field(default_factory=dict)
    """All workloads that were collected, by id, whatever a selection or a hook leaves of them."""
    chosen: frozenset[str] = frozenset()
    """Those of them that this gate is to measure, or another shard of it."""
    elsewhere: frozenset[str] = frozenset()
    """Those that fall to the other shards: not measured here, and not gone."""
    deselected: set[str] = field(default_factory=set)
    """Workloads that somebody deselected with a word to pytest."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Workloads that a mark or condition skipped, and why."""
    skipped_files: dict[str, str] = field(default_factory=dict)
    """Files that skipped themselves while they were imported, and why."""
    hidden: list[str] = field(default_factory=list)
    """Workloads whose failure pytest does not show: those marked xfail."""
    broken: list[str] = field(default_factory=list)
    """Files that could not be collected."""
    expected: Sequence[Workload] | None = None
    """What is missed from here on where it is missing; None until collection is done."""
    document: GateDocument | None = None
    """What the gate has come to."""

    @property
    def is_first_shard(self) -> bool:
        """Whether this shard, or whole gate, is the one that says what is gone."""
        return self.shard is None or self.shard.index == 1

    def collect(self, item: pytest.Item) -> None:
        """Take a workload that was collected.

        Raises:
            pytest.UsageError: there is another of its name, and they would share a baseline.
        """
        workload = item.stash[WORKLOAD]
        other = self.collected.setdefault(workload.id, item).stash[WORKLOAD]
        if other.source != workload.source:
            sources = (other.source, workload.source)
            raise usage_error("workload-name-twice", workload=workload.id, sources=sources)

    def expect(self, session: pytest.Session) -> None:
        """Note what is expected, and leave to other shards what falls to them: from here on, what
        is missing is missed.

        Chosen is what was typed, whatever a hook leaves of it.

        Raises:
            pytest.UsageError: there are more shards than workloads.
        """
        left = [item for item in session.items if WORKLOAD in item.stash]
        by_words = self.choice.of_items(self.collected.values())
        self.chosen = frozenset(map(id_of, [*by_words, *left]))
        if self.shard is not None:
            if not session.testsfailed and 0 < len(self.chosen) < self.shard.of:
                raise usage_error(
                    "shards-too-many", value=str(self.shard), workloads=len(self.chosen)
                )
            self.elsewhere = self.chosen - self.shard.part(self.chosen)
            others = [item for item in left if id_of(item) in self.elsewhere]
            session.items[:] = [item for item in session.items if item not in others]
            session.config.hook.pytest_deselected(items=others)
        mine = [item for item in left if id_of(item) not in self.elsewhere]
        gone = self.chosen - self.elsewhere - {id_of(item) for item in mine}
        for name in sorted(gone & self.deselected):
            self.skipped[name] = say.message(note("deselected-by-hook"))
        dropped = [item for name, item in self.collected.items() if name in gone]
        self.expected = [item.stash[WORKLOAD] for item in (*mine, *dropped)]
        self.gate.expect(self.expected, elsewhere=self.elsewhere)


STATE = pytest.StashKey[State]()


def id_of(item: pytest.Item) -> str:
    """Return the workload's id; of an item that is none, which a plugin may make, its own."""
    return item.stash[WORKLOAD].id if WORKLOAD in item.stash else item.nodeid


def start(config: pytest.Config) -> State:
    """Make the gate that pytest was asked for.

    Raises:
        PerfgateError: an option, a setting or the project cannot be gated by.
    """
    if not config.pluginmanager.hasplugin("terminalreporter"):
        raise ConfigInvalid("plugin-off", plugin="terminal")
    here, root = config.invocation_params.dir, config.rootpath
    is_given = config.getoption("rootdir") or config.getoption("inifilename")
    if not is_given and root.resolve() != (project := find_root(here)):
        raise ConfigInvalid("root-misled", root=str(root), start=str(here), project=str(project))
    given = {
        option.setting: config.getoption(option.dest)
        for option in OPTIONS
        if option.is_flag and option.setting is not None and option.setting != "nsys"
    }
    settings = load_settings(root, given)
    for old in outdated(settings):
        warning = pytest.PytestConfigWarning(say.message(old))
        config.issue_config_time_warning(warning, stacklevel=2)
    workloads = root / settings.workloads
    choice = Choice(config, workloads=workloads)
    if not choice.words and not workloads.is_dir():
        raise ConfigInvalid("workloads-folder-missing", folder=str(workloads), root=str(root))
    # Relative: pytest takes a bracket in a word for parameters, and a folder may have one.
    config.args = list(choice.words) or [os.path.relpath(workloads, here)]
    outputs = Outputs.of(
        "--perfgate-", lambda name: config.getoption(f"perfgate_{name}", None), folder=here
    )
    base, shard = config.getoption("perfgate_base"), config.getoption("perfgate_shard")
    writer = config.get_terminal_writer()
    return State(
        outputs=outputs,
        choice=choice,
        shard=None if shard is None else _read_shard(shard),
        base=None if base is None else _read_base(base),
        scripts=scripts_of(filter(holds_command, workload_files(workloads))),
        screen=Screen(width=writer.fullwidth, colour=writer.hasmarkup),
        gate=_gate_of(config, settings),
    )


def _read_base(file: str) -> Base:
    """Return what is known of the branch that a change is for."""
    try:
        return Base.model_validate_json(Path(file).read_bytes())
    except (OSError, ValidationError) as broken:
        raise ConfigInvalid("base-unreadable", file=file) from broken


def _read_shard(given: str) -> Shard:
    """Return which part of the workloads was asked for: `1/4`."""
    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", given)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise ConfigInvalid("shard-invalid", value=given)
    return Shard(index=int(found[1]), of=int(found[2]))


def _gate_of(config: pytest.Config, settings: Settings) -> Gate:
    """Make the gate, which shows its progress on pytest's own terminal, around its capture."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    revision, root = config.getoption("perfgate_against"), config.rootpath
    writer = config.get_terminal_writer()

    def clean(text: str) -> str:
        return gate.cleaner.clean(text)  # it comes to know the secrets of workloads

    writer._file = cast("TextIO", CleanedStream(writer._file, clean))
    gate = Gate(
        Invocation(
            root=root,
            settings=settings,
            env=dict(os.environ),
            worker_env=git.without_repository(config.stash[EARLY].environment),
            nsys=config.getoption("perfgate_nsys"),
            pytest_options=worker_options(config),
            against=revision and Against(revision=revision, commit=git.resolve(root, revision)),
            keep_captures=config.getoption("perfgate_keep_captures"),
        ),
        Progress(
            writer._file,
            live=reporter is not None and reporter.isatty and not os.environ.get("CI"),
            width=writer.fullwidth,
            suspend=capture.global_and_fixture_disabled if capture is not None else nullcontext,
        ),
        runs_given=config.getoption("perfgate_runs") is not None,
        budgets_given=budgets_of_options(config.getoption("perfgate_budget")),
    )
    held = ExitStack()
    held.enter_context(ending_as_on_ctrl_c())
    held.callback(gate.tidy)
    config.add_cleanup(held.close)
    return gate
