"""One gate as commands to the runner of GitHub Actions, which it shows next to the code.

A workload's name or reason may come from a stranger's pull request: it cannot begin another command
or point out of the repository.
"""

from __future__ import annotations

from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Final

from perfgate.model.document import GateDocument
from perfgate.model.outcome import PASSING
from perfgate.render.gate import Judged, state_of
from perfgate.words.escape import lines, one_line, workflow_command

LONGEST: Final = 2000
"""Characters of a message."""


def gate_annotations(document: GateDocument, *, prefix: PurePath) -> tuple[str, ...]:
    """Return a command for each workload that is not PASSED or IMPROVED, and for what else shuts.

    Errors come before warnings, and the worst first: GitHub shows the first ten of either.

    Args:
        document: all that the gate found.
        prefix: where the project lies in its repository.
    """
    state = state_of(document)
    shut = [_of(one, prefix) for one in state.judged if not one.opens]
    others = [
        workflow_command("error", _plain(reason), title="perfgate: gate shut")
        for reason in state.others
    ]
    let = [one for one in state.judged if one.opens and one.verdict.outcome not in PASSING]
    return (*shut, *others, *(_of(one, prefix) for one in let))


def _of(one: Judged, prefix: PurePath) -> str:
    verdict = one.verdict
    where = (f"{metric}: {text}" for metric, text in verdict.where.items())
    parts = filter(None, (verdict.reason, *where, *verdict.warnings, verdict.next_step))
    file = _file(one.workload.source, prefix)
    return workflow_command(
        "warning" if one.opens else "error",
        _plain("\n".join(parts) or verdict.outcome),
        file=file,
        line=one.workload.line if file else None,
        title=f"{one_line(one.name)}: {verdict.outcome}",
    )


def _file(source: str | None, prefix: PurePath) -> str:
    """Return the workload's file in the repository; nothing of one that would lie elsewhere."""
    if source is None or one_line(source, longest=1000) != source:
        return ""
    path = PurePosixPath(source)
    if path.is_absolute() or ".." in path.parts or PureWindowsPath(source).anchor or "\\" in source:
        return ""
    return (PurePosixPath(prefix.as_posix()) / path).as_posix()


def _plain(text: str) -> str:
    escaped = "\n".join(lines(text))
    return escaped if len(escaped) <= LONGEST else f"{escaped[:LONGEST]}..."
