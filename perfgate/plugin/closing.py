"""How a gate ends under pytest: what it comes to besides pytest's own exit status, its files, and
what the terminal shows of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from perfgate import __version__
from perfgate.gate import Closing
from perfgate.gate.gate import Gate
from perfgate.model.document import (
    DocumentRun,
    DocumentShard,
    DocumentWorkload,
    GateDocument,
    PartChosen,
    Shard,
    declared_at,
)
from perfgate.model.loosening import Base
from perfgate.model.note import Note, Severity, note, quoted
from perfgate.model.options import APPROVAL
from perfgate.model.outcome import Outcome
from perfgate.model.pagedata import PageData
from perfgate.model.verdict import Verdict
from perfgate.plugin.guards import ENDS_WITH
from perfgate.plugin.state import STATE, State
from perfgate.plugin.typed import ASKING, LOOKING, was_typed
from perfgate.render.gate import choice_text, loosening_text, state_of
from perfgate.render.page import Page
from perfgate.render.text import gate_text, skipped_text, verdict_table
from perfgate.words import escape, say

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
    closing = gate.close(
        state.expected or (),
        skipped=state.skipped,
        skipped_files=state.skipped_files,
        chosen=partial(_was_chosen, state, status),
    )
    if state.base is not None:
        closing = closing.but(*_shut_by_base(state, state.base, closing))
    if (why := _why_incomplete(state, status)) is not None:
        closing = Closing(opens=False, notes=(why, *closing.notes))
    elif closing.opens and status != pytest.ExitCode.OK:
        closing = closing.but(note("pytest-failed", Severity.INVALID, exit_status=status))

    def gathered(document: GateDocument) -> PageData:
        from perfgate.views.pages import page_of  # noqa: PLC0415 - few gates write a page

        return page_of(document, gate.store, gate.cleaner)

    label = session.config.getoption("perfgate_label") or ""
    document = _document_of(state, closing, pytest_status=status, label=label)
    state.document = state.outputs.write(document, gathered)
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


def _shut_by_base(state: State, base: Base, closing: Closing) -> Iterator[Note]:
    """What keeps a gate shut that was loosened, or lacks what the base branch has a baseline of."""
    machine, loosening = state.gate.machine, base.loosening
    if loosening.shuts:
        yield quoted(loosening_text(loosening, label=APPROVAL), Severity.INVALID)
    if machine is None or not state.is_first_shard:
        return
    named = [one.fields.get("workload") for one in closing.notes]
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


def _document_of(state: State, closing: Closing, *, pytest_status: int, label: str) -> GateDocument:
    """Return everything found, without secrets."""
    gate, chosen_by, part = state.gate, state.choice.flags, None
    if chosen_by and state.expected is not None:
        known = {*state.collected, *gate.blessed}
        part = PartChosen(by=chosen_by, workloads=len(state.expected), of=len(known))
    document = GateDocument(
        perfgate=__version__,
        started_at=gate.started_at,
        ended_at=datetime.now(UTC),
        opens_gate=closing.opens,
        exit_status=max(pytest_status, closing.exit_status),
        shut_by=closing.shut_by,
        shut_codes=tuple(one.code for one in closing.notes),
        machine=gate.machine,
        commit=gate.checkout.commit,
        label=label,
        shard=None if state.shard is None else _shard_of(state, state.shard),
        choice=part,
        loosening=None if state.base is None else state.base.loosening,
        settings=gate.settings,
        workloads=tuple(_workload(state, verdict) for verdict in gate.verdicts.values()),
    )
    return gate.cleaner.record(document)


def _shard_of(state: State, shard: Shard) -> DocumentShard:
    """This shard, so that who merges sees what all of them left out."""
    return DocumentShard(
        index=shard.index,
        of=shard.of,
        workloads=None if state.expected is None else tuple(sorted(state.chosen)),
        skipped=tuple(sorted(state.skipped.keys() - state.gate.verdicts.keys())),
    )


def _workload(state: State, verdict: Verdict) -> DocumentWorkload:
    """One workload: its runs, and where it lies, only where a file is written, which alone shows
    them."""
    gate, opens_gate = state.gate, state.gate.opens(verdict)
    if not state.outputs.files:
        return DocumentWorkload(verdict=verdict, opens_gate=opens_gate)
    checked = gate.checked(verdict.workload)
    source, line = declared_at(gate.workloads[verdict.workload])
    return DocumentWorkload(
        verdict=verdict,
        opens_gate=opens_gate,
        runs=tuple(map(DocumentRun.of, checked.runs)),
        reference_runs=tuple(map(DocumentRun.of, checked.reference_runs)),
        interleaved_runs=tuple(map(DocumentRun.of, checked.interleaved_runs)),
        environment=checked.environment,
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
    for name, verdict in judged.items():
        is_of_note = is_verbose or verdict.outcome is not Outcome.PASSED
        if name in state.hidden or (is_of_note and state.gate.opens(verdict)):
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
