"""How a gate ends under pytest: what it comes to beside pytest's own exit status, and its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import pytest

from perfgate.gate import Closing
from perfgate.model.document import GateDocument
from perfgate.model.note import Note, Severity, note, quoted
from perfgate.model.options import APPROVAL
from perfgate.model.pagedata import PageData
from perfgate.plugin.documented import document_of
from perfgate.plugin.state import State
from perfgate.plugin.typed import only_looks
from perfgate.render.gate import loosening_text

COMPLETE: Final = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)
"""Exit statuses of a pytest that came to its end."""
ENDED: Final[Mapping[int, str]] = {
    pytest.ExitCode.INTERRUPTED: "pytest-interrupted",
    pytest.ExitCode.USAGE_ERROR: "pytest-not-started",
    pytest.ExitCode.INTERNAL_ERROR: "pytest-broke-down",
}
"""Those of others, and why each kept it from measuring."""


def close(state: State, session: pytest.Session) -> None:
    """Hold the exit status against the verdicts, and write the files."""
    if only_looks(session.config):
        return
    gate, status = state.gate, int(session.exitstatus)
    closing = gate.close(
        state.expected or (),
        skipped=state.skipped,
        skipped_files=state.skipped_files,
        chosen=partial(_was_chosen, state, status),
        paths=state.choice.paths,
    )
    closing = closing.but(*_shut_by_base(state, closing))
    closing = _with_pytest(closing, status, state.broken)

    def gathered(document: GateDocument) -> PageData:
        from perfgate.views.pages import Paths, page_of  # noqa: PLC0415 - few gates write a page

        paths = Paths(root=gate.root, store=gate.store, baselines=gate.settings.baselines)
        return page_of(document, paths, gate.cleaner)

    document = document_of(state, closing, pytest_status=status)
    state.document = state.outputs.write(document, gathered)
    session.exitstatus = state.document.exit_status


def _was_chosen(state: State, status: int, workload: str, source: str | None) -> bool:
    """Whether a workload with a baseline, perhaps not collected, is to be measured in this gate."""
    if workload in state.collected:
        return workload in state.here
    # A file that cannot be collected hides its workloads; they are not gone.
    is_complete = status in COMPLETE and not state.broken
    # One shard says what is gone; but files that skip themselves here need not do so elsewhere.
    asks = state.is_first_shard or bool(state.skipped_files)
    return is_complete and asks and state.choice.may_cover(workload, source)


def _shut_by_base(state: State, closing: Closing) -> Iterator[Note]:
    """What keeps a gate shut that was loosened, or lacks what the base branch has a baseline of."""
    base, machine = state.base, state.gate.machine
    if base is None:
        return
    if base.loosening.shuts:
        yield quoted(loosening_text(base.loosening, label=APPROVAL), Severity.INVALID)
    if machine is None or not state.is_first_shard:
        return
    named = [one.fields.get("workload") for one in closing.notes]
    known = {*state.gate.verdicts, *state.elsewhere, *named}
    for name in base.expected.get(machine.slug, ()):
        if name not in known:
            branch = base.loosening.base
            yield note("base-not-measured", Severity.INVALID, workload=name, branch=branch)


def _with_pytest(closing: Closing, status: int, broken: list[str]) -> Closing:
    """Keep a gate shut where pytest itself failed: at a file, or in another plugin."""
    why = why_ended(status, broken)
    if why is None and broken:
        why = _uncollected(broken)
    if why is not None:
        return Closing(opens=False, notes=(why, *closing.notes))
    if not closing.opens or status == pytest.ExitCode.OK:
        return closing
    return closing.but(note("pytest-failed", Severity.INVALID, exit_status=status))


def why_ended(status: int, broken: list[str]) -> Note | None:
    """Why pytest ended before it had measured what it should; None where it did not."""
    if broken and status == pytest.ExitCode.INTERRUPTED:
        return _uncollected(broken)
    code = ENDED.get(status)
    return None if code is None else note(code, Severity.INVALID)


def _uncollected(broken: list[str]) -> Note:
    return note("files-uncollected", Severity.INVALID, files=tuple(broken))
