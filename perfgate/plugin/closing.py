"""How a gate ends under pytest: its exit status against the verdicts, its files, its summary."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from perfgate.gate import Closing
from perfgate.model.document import DocumentShard, GateDocument
from perfgate.model.note import Note, Severity, note, quoted
from perfgate.model.pagedata import PageData
from perfgate.model.workflows import APPROVAL
from perfgate.plugin.state import State
from perfgate.plugin.typed import ASKING, LOOKING, TYPED
from perfgate.render.loosening import loosening_text
from perfgate.render.text import skipped_text
from perfgate.views.pages import page_of
from perfgate.words import escape, say

COMPLETE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
"""Exit statuses of a pytest that came to its end."""


def close(state: State, session: pytest.Session) -> None:
    """Hold the exit status against the verdicts, and write the files."""
    if any(getattr(session.config.stash[TYPED], option, None) for option in LOOKING):
        return
    closing = state.gate.close(
        state.expected or (),
        skipped=state.skipped,
        skipped_files=state.skipped_files,
        chosen=partial(_was_chosen, state, session),
        paths=state.choice.paths,
    )
    closing = _with_exit_status(_with_base(closing, state), session.exitstatus, state.broken)
    ended = int(session.exitstatus)

    def documented(so_far: Closing) -> GateDocument:
        status = max(ended, so_far.exit_status)
        return state.display.document(
            so_far, exit_status=status, shard=_shard_of(state), choice=state.part
        )

    def gathered(document: GateDocument) -> PageData:
        return page_of(document, state.display.paths, state.gate.cleaner)

    state.closing = state.outputs.write(documented, closing, gathered)
    session.exitstatus = max(ended, state.closing.exit_status)


def _was_chosen(state: State, session: pytest.Session, workload: str, source: str | None) -> bool:
    """Whether a workload with a baseline, perhaps not collected, is to be measured in this gate."""
    if workload in state.collected:
        return workload in state.here
    # A file that cannot be collected hides its workloads; they are not gone.
    complete = session.exitstatus in COMPLETE and not state.broken
    # One shard says what is gone; but files that skip themselves here need not do so elsewhere.
    asks = state.shard is None or state.shard.index == 1 or bool(state.skipped_files)
    return complete and asks and state.choice.may_cover(workload, source)


def _with_base(closing: Closing, state: State) -> Closing:
    """Keep a gate shut that was loosened, or lacks what the base branch has a baseline of."""
    base, machine = state.base, state.gate.machine
    if base is None:
        return closing
    shut: list[Note] = []
    if base.loosening.shuts:
        loosened = loosening_text(base.loosening, label=APPROVAL)
        shut.append(quoted(loosened, Severity.INVALID))
    if machine is not None and (state.shard is None or state.shard.index == 1):
        named = [one.fields.get("workload") for one in closing.notes]
        known = {*state.gate.verdicts, *state.elsewhere, *named}
        shut += [
            note("base-not-measured", Severity.INVALID, workload=name, branch=base.loosening.base)
            for name in base.expected.get(machine.slug, ())
            if name not in known
        ]
    return closing.but(*shut)


def _with_exit_status(closing: Closing, status: int, broken: list[str]) -> Closing:
    """Keep a gate shut where pytest itself failed: at a file, or in another plugin."""
    why = _why_ended(status, broken)
    if why is None and broken:
        why = note("files-uncollected", Severity.INVALID, files=tuple(broken))
    if why is not None:
        return Closing(opens=False, notes=(why, *closing.notes))
    if not closing.opens or status == pytest.ExitCode.OK:
        return closing
    return closing.but(note("pytest-failed", Severity.INVALID, exit_status=int(status)))


def _why_ended(status: int, broken: list[str]) -> Note | None:
    """Why pytest ended before it had measured what it should; None where it did not."""
    match status:
        case pytest.ExitCode.INTERRUPTED if broken:
            return note("files-uncollected", Severity.INVALID, files=tuple(broken))
        case pytest.ExitCode.INTERRUPTED:
            return note("pytest-interrupted", Severity.INVALID)
        case pytest.ExitCode.USAGE_ERROR:
            return note("pytest-not-started", Severity.INVALID)
        case pytest.ExitCode.INTERNAL_ERROR:
            return note("pytest-broke-down", Severity.INVALID)
        case _:
            return None


def _shard_of(state: State) -> DocumentShard | None:
    """What the document has of this shard, so that who merges sees what all of them left out."""
    if state.shard is None:
        return None
    judged = state.gate.verdicts
    return DocumentShard(
        index=state.shard.index,
        of=state.shard.of,
        workloads=None if state.expected is None else tuple(sorted(state.chosen)),
        skipped=tuple(sorted(name for name in state.skipped if name not in judged)),
    )


def show(state: State, reporter: pytest.TerminalReporter, exit_status: int) -> None:
    """Say whether the gate is open."""
    if state.closing is None:
        return
    state.shown = True
    reporter.write_sep("=", "perfgate")
    judged = state.gate.verdicts
    left = {name: why for name, why in state.skipped.items() if name not in judged}
    text = skipped_text(state.skipped_files | left, width=reporter._tw.fullwidth)
    ended = _why_ended(exit_status, state.broken)
    text += state.display.summary(
        state.closing,
        hidden=state.hidden,
        ended="" if ended is None else say.fact(ended),
        choice=state.part,
    )
    for line in text.splitlines():
        reporter.write_line(escape.without_commands(line))


def status_of_success(config: pytest.Config, state: State | None) -> int:
    """Return the exit status of a pytest that ended with 0, which another hook may have set."""
    if any(getattr(config.stash[TYPED], option, None) for option in (*LOOKING, *ASKING)):
        return int(pytest.ExitCode.OK)
    closing = None if state is None else state.closing
    if (state is None or not state.shown) and (closing is None or not closing.opens):
        sys.stderr.write(f"{say.message(note('left-before-verdict'))}\n")
    return int(pytest.ExitCode.TESTS_FAILED) if closing is None else closing.exit_status
