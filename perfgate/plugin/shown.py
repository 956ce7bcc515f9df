"""What pytest's terminal shows of a gate: a table a workload, and the summary."""

from __future__ import annotations

import sys

import pytest

from perfgate.model.note import note
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Verdict
from perfgate.plugin.closing import why_ended
from perfgate.plugin.documented import relative
from perfgate.plugin.state import STATE, State
from perfgate.plugin.typed import only_asks, only_looks
from perfgate.render.gate import choice_text, state_of
from perfgate.render.page import Page
from perfgate.render.text import gate_text, skipped_text, verdict_table
from perfgate.words import escape, say


def table(state: State, verdict: Verdict) -> str:
    """Return one workload's verdict as a table."""
    files = relative(state.gate.folder(verdict.workload), state.gate)
    return verdict_table(Page(**state.screen), verdict, files=files)


def show(state: State, reporter: pytest.TerminalReporter, exit_status: int) -> None:
    """Show tables that nothing above has shown, and whether the gate is open."""
    document = state.document
    if document is None:
        return
    state.shown = True
    judged = state.gate.verdicts
    left = {name: why for name, why in state.skipped.items() if name not in judged}
    text = skipped_text(Page(**state.screen), state.skipped_files | left)
    is_verbose = reporter.config.get_verbosity() > 0
    for name, verdict in judged.items():
        is_of_note = is_verbose or verdict.outcome is not Outcome.PASSED
        if name in state.hidden or (is_of_note and state.gate.opens(verdict)):
            text += f"{table(state, verdict)}\n"
    ended = why_ended(exit_status, state.broken)
    summary = state_of(document, ended="" if ended is None else say.fact(ended))
    notes: list[tuple[str, str]] = []
    if state.gate.sharing > 1 and any(verdict.stage is not None for verdict in judged.values()):
        notes.append(("", say.message(note("error-shared", workloads=state.gate.sharing))))
    if ended is None and state.part is not None:
        notes.append(("", choice_text(state.part)))
    text += gate_text(Page(**state.screen), summary, notes=notes)
    reporter.write_sep("=", "perfgate")
    for line in text.splitlines():
        reporter.write_line(escape.without_commands(line))


def status_of_success(config: pytest.Config) -> int:
    """Return the exit status of a pytest that ended with 0, which another hook may have set."""
    if only_looks(config) or only_asks(config):
        return int(pytest.ExitCode.OK)
    state = config.stash.get(STATE, None)
    document = None if state is None else state.document
    is_open = document is not None and document.opens_gate
    if not is_open and shown_status(config) is None:
        sys.stderr.write(f"{say.message(note('left-before-verdict'))}\n")
    return int(pytest.ExitCode.TESTS_FAILED) if document is None else document.exit_status


def shown_status(config: pytest.Config) -> int | None:
    """Return the exit status of a gate whose verdicts are shown; None before."""
    state = config.stash.get(STATE, None)
    if state is None or state.document is None or not state.shown:
        return None
    return state.document.exit_status
