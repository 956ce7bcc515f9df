"""One gate as pytest runs it: how it begins, what is expected of it, what it comes to besides
pytest's own exit status, its files, and what the terminal shows of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO, cast

import pytest
from pydantic import ValidationError

from perfgate import __version__
from perfgate.execute.lab import Against, Invocation
from perfgate.gate.gate import Gate
from perfgate.model.document import (
    DocumentRun,
    DocumentWorkload,
    GateDocument,
    PartChosen,
    Shard,
    declared_at,
)
from perfgate.model.errors import EXIT_OPEN, EXIT_SHUT, ConfigInvalid
from perfgate.model.loosening import Base
from perfgate.model.note import Note, Severity, note, quoted
from perfgate.model.options import APPROVAL, OPTIONS
from perfgate.model.outcome import Outcome
from perfgate.model.pagedata import PageData
from perfgate.model.pyproject import (
    budgets_of_options,
    find_root,
    load_settings,
    outdated,
)
from perfgate.model.settings import Settings
from perfgate.model.verdict import Verdict
from perfgate.model.workload import Workload
from perfgate.model.workload_file import scripts_of
from perfgate.plugin.guards import ENDS_WITH, CleanedStream
from perfgate.plugin.outputs import Outputs, outputs_of, write_outputs
from perfgate.plugin.progress import Progress
from perfgate.plugin.typed import (
    ASKING,
    LOOKING,
    STARTED,
    Choice,
    usage_error,
    was_typed,
    worker_options,
)
from perfgate.render.gate import choice_text, loosening_text, state_of
from perfgate.render.page import Page, Screen
from perfgate.render.text import gate_text, skipped_text, verdict_table
from perfgate.system import git
from perfgate.system.signals import ending_as_on_ctrl_c
from perfgate.words import escape, say
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
    """Workloads that a mark, a condition or such a word left out, and why."""
    skipped_files: dict[str, str] = field(default_factory=dict)
    """Files that skipped themselves while they were imported, and why."""
    collecting: ExitStack = field(default_factory=ExitStack)
    """What is done only until collection has ended."""
    broken: list[str] = field(default_factory=list)
    """Files that could not be collected."""
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
        gone = sorted(self.chosen - self.elsewhere - {id_of(item) for item in mine})
        said = [name for name in gone if name in self.deselected]
        self.skipped |= dict.fromkeys(said, say.message(note("deselected-by-hook")))
        dropped = [self.collected[name] for name in gone]
        expected = [item.stash[WORKLOAD] for item in (*mine, *dropped)]
        self.gate.expect(expected, elsewhere=self.elsewhere)


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
    for old in outdated(root, settings):
        warning = pytest.PytestConfigWarning(say.message(old))
        config.issue_config_time_warning(warning, stacklevel=2)
    workloads = root / settings.workloads
    choice = Choice(config, workloads=workloads)
    if not choice.words and not workloads.is_dir():
        raise ConfigInvalid("workloads-folder-missing", folder=str(workloads), root=str(root))
    # Relative: pytest takes a bracket in a word for parameters, and a folder may have one.
    config.args = list(choice.words) or [os.path.relpath(workloads, here)]
    outputs = outputs_of(
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
    index, _, of = given.partition("/")
    try:
        return Shard.model_validate({"index": index, "of": of})
    except ValidationError:
        raise ConfigInvalid("shard-invalid", value=given) from None


def _gate_of(config: pytest.Config, settings: Settings) -> Gate:
    """Make the gate, which shows its progress on pytest's own terminal, around its capture."""
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    revision, root = config.getoption("perfgate_against"), config.rootpath
    writer = config.get_terminal_writer()
    stream = CleanedStream(writer._file, str)
    writer._file = cast("TextIO", stream)
    gate = Gate(
        Invocation(
            root=root,
            settings=settings,
            env=dict(os.environ),
            worker_env=git.without_repository(config.stash[STARTED].environment),
            nsys=config.getoption("perfgate_nsys"),
            pytest_options=worker_options(config),
            against=revision and Against(revision=revision, commit=git.resolve(root, revision)),
            keep_captures=config.getoption("perfgate_keep_captures"),
        ),
        Progress(
            writer._file,
            live=reporter.isatty and not os.environ.get("CI"),
            width=writer.fullwidth,
            suspend=capture.global_and_fixture_disabled if capture is not None else nullcontext,
        ),
        runs_given=config.getoption("perfgate_runs") is not None,
        budgets_given=budgets_of_options(config.getoption("perfgate_budget")),
    )
    # The gate comes to know the secrets of workloads.
    stream.clean = lambda text: gate.cleaner.clean(text)  # noqa: PLW0108
    held = ExitStack()
    held.enter_context(ending_as_on_ctrl_c())
    held.callback(gate.tidy)
    config.add_cleanup(held.close)
    return gate


# How it ends

INCOMPLETE: Final[Mapping[int, str]] = {
    pytest.ExitCode.INTERRUPTED: "pytest-interrupted",
    pytest.ExitCode.USAGE_ERROR: "pytest-not-started",
    pytest.ExitCode.INTERNAL_ERROR: "pytest-broke-down",
}
"""Exit statuses of a pytest that did not come to its end, and why each kept it from measuring."""


def close(state: State, session: pytest.Session) -> None:
    """Hold the exit status against the verdicts, and write the files."""
    if was_typed(session.config, LOOKING):
        return
    gate, status = state.gate, int(session.exitstatus)
    shut = gate.close(
        skipped=state.skipped,
        skipped_files=state.skipped_files,
        chosen=partial(_was_chosen, state, status),
    )
    if state.base is not None:
        shut += _shut_by_base(state, state.base, tuple(shut))
    if (why := _why_incomplete(state, status)) is not None:
        shut.insert(0, why)
    elif not shut and status != pytest.ExitCode.OK:
        shut.append(note("pytest-failed", Severity.INVALID, exit_status=status))

    def gathered(document: GateDocument) -> PageData:
        from perfgate.views.pages import page_of  # noqa: PLC0415 - few gates write a page

        return page_of(document, gate.store, gate.cleaner)

    label = session.config.getoption("perfgate_label") or ""
    document = _document_of(state, shut, pytest_status=status, label=label)
    state.document = write_outputs(state.outputs, document, gathered)
    session.exitstatus = state.document.exit_status


def _was_chosen(state: State, status: int, workload: str, source: str | None) -> bool:
    """Whether a workload with a baseline, perhaps not collected, is to be measured in this gate."""
    if workload in state.collected:
        return workload in state.chosen - state.elsewhere
    # A file that cannot be collected hides its workloads; they are not gone.
    is_complete = _why_incomplete(state, status) is None
    # One shard says what is gone; but files that skip themselves here need not do so elsewhere.
    asks = state.is_first_shard or bool(state.skipped_files)
    return is_complete and asks and state.choice.may_cover(workload, source)


def _shut_by_base(state: State, base: Base, shut: Sequence[Note]) -> Iterator[Note]:
    """What keeps a gate shut that was loosened, or lacks what the base branch has a baseline of."""
    machine, loosening = state.gate.machine, base.loosening
    if loosening.shuts:
        yield quoted(loosening_text(loosening, label=APPROVAL), Severity.INVALID)
    if machine is None or not state.is_first_shard:
        return
    named = [one.fields.get("workload") for one in shut]
    known = {*state.gate.verdicts, *state.elsewhere, *named}
    for name, source in base.expected.get(machine.slug, {}).items():
        if name not in known and state.choice.may_cover(name, source):
            yield note("base-not-measured", Severity.INVALID, workload=name, branch=loosening.base)


def _why_incomplete(state: State, status: int) -> Note | None:
    """Why pytest has not measured all that it should, by its exit status; None where it has."""
    code = INCOMPLETE.get(status)
    # pytest interrupts itself where a file cannot be collected.
    if state.broken and code in (None, "pytest-interrupted"):
        return note("files-uncollected", Severity.INVALID, files=tuple(state.broken))
    return None if code is None else note(code, Severity.INVALID)


def _document_of(
    state: State, shut: Sequence[Note], *, pytest_status: int, label: str
) -> GateDocument:
    """Return everything found, without secrets; the gate is open where nothing keeps it shut."""
    gate, chosen_by = state.gate, state.choice.flags
    part = shard = None
    if chosen_by and gate.workloads is not None:
        known = {*state.collected, *gate.blessed}
        part = PartChosen(by=chosen_by, workloads=len(gate.workloads), of=len(known))
    if state.shard is not None:  # so that who merges sees what all of them left out
        divided = None if gate.workloads is None else tuple(sorted(state.chosen))
        skipped = tuple(sorted(state.skipped.keys() - gate.verdicts.keys()))
        shard = state.shard.model_copy(update={"workloads": divided, "skipped": skipped})
    document = GateDocument(
        perfgate=__version__,
        started_at=gate.started_at,
        ended_at=datetime.now(UTC),
        opens_gate=not shut,
        exit_status=max(pytest_status, EXIT_SHUT if shut else EXIT_OPEN),
        shut_by=tuple(map(say.in_one_line, shut)),
        shut_codes=tuple(one.code for one in shut),
        machine=gate.machine,
        commit=gate.commit,
        label=label,
        shard=shard,
        choice=part,
        loosening=None if state.base is None else state.base.loosening,
        settings=gate.settings,
        workloads=tuple(_workload(state, verdict) for verdict in gate.verdicts.values()),
    )
    return gate.cleaner.record(document)


def _workload(state: State, verdict: Verdict) -> DocumentWorkload:
    """One workload: its runs, and where it lies, only where a file is written, which alone shows
    them."""
    gate = state.gate
    opens_gate = gate.settings.opens(verdict)
    if not state.outputs:
        return DocumentWorkload(verdict=verdict, opens_gate=opens_gate)
    source, line = declared_at(state.collected[verdict.workload].stash[WORKLOAD])
    measured: dict[str, Any] = {}
    if (result := gate.results.get(verdict.workload)) is not None:
        measured = {
            "runs": tuple(map(DocumentRun.of, result.runs)),
            "reference_runs": tuple(map(DocumentRun.of, result.reference_runs)),
            "interleaved_runs": tuple(map(DocumentRun.of, result.interleaved_runs)),
            "environment": result.environment,
        }
    return DocumentWorkload(
        verdict=verdict,
        opens_gate=opens_gate,
        **measured,
        baseline=_from_root(gate.baseline_file(verdict.workload), gate),
        files=_from_root(gate.folder(verdict.workload), gate),
        source=source,
        line=line,
    )


def _from_root(path: Path | None, gate: Gate) -> str | None:
    """Return a path as it is shown: from the project's root."""
    return None if path is None else os.path.relpath(path, gate.root)


def table(state: State, verdict: Verdict) -> str:
    """Return one workload's verdict as a table."""
    files = _from_root(state.gate.folder(verdict.workload), state.gate)
    return verdict_table(Page(**state.screen), verdict, files=files)


def show(state: State, reporter: pytest.TerminalReporter, exit_status: int) -> None:
    """Show tables that nothing above has shown, and whether the gate is open."""
    document = state.document
    if document is None:
        return
    reporter.config.stash[ENDS_WITH] = document.exit_status
    judged = state.gate.verdicts
    left = {name: why for name, why in state.skipped.items() if name not in judged}
    text = skipped_text(Page(**state.screen), state.skipped_files | left)
    is_verbose = reporter.config.get_verbosity() > 0
    for verdict in judged.values():
        is_of_note = is_verbose or verdict.outcome is not Outcome.PASSED
        if is_of_note and state.gate.settings.opens(verdict):
            text += f"{table(state, verdict)}\n"
    ended = _why_incomplete(state, exit_status) if exit_status in INCOMPLETE else None
    summary = state_of(document, ended="" if ended is None else say.fact(ended))
    notes: list[tuple[str, str]] = []
    if state.gate.sharing > 1 and any(verdict.stage is not None for verdict in judged.values()):
        notes.append(("", say.message(note("error-shared", workloads=state.gate.sharing))))
    if ended is None and document.choice is not None:
        notes.append(("", choice_text(document.choice)))
    text += gate_text(Page(**state.screen), summary, notes=notes)
    reporter.write_sep("=", "perfgate")
    for line in text.splitlines():
        reporter.write_line(escape.without_commands(line))


def status_of_success(config: pytest.Config) -> int:
    """Return the exit status of a pytest that ended with 0, which another hook may have set."""
    if was_typed(config, (*LOOKING, *ASKING)):
        return int(pytest.ExitCode.OK)
    state = config.stash.get(STATE, None)
    document = None if state is None else state.document
    if ENDS_WITH not in config.stash and (document is None or not document.opens_gate):
        sys.stderr.write(f"{say.message(note('left-before-verdict'))}\n")
    return int(pytest.ExitCode.TESTS_FAILED) if document is None else document.exit_status
