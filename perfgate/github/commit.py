"""Baselines as a commit on a branch: by whom they were asked for, what measured them, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from github.Repository import Repository

from perfgate.bless import bless as blessing
from perfgate.github import api
from perfgate.model.baseline import Baseline, Blessing, Commit
from perfgate.model.verdict import MetricVerdict
from perfgate.store import baseline_text, file_name
from perfgate.words.escape import one_line

LONGEST_SUBJECT: Final = 72
"""Characters of the first line of a commit's message."""

_SPEAKING: Final = re.compile(
    r"(?<=[@#])(?=\S)|(?<=\bGH)(?=-\d)|(?<=\[)(?=(?:skip|no|ci|actions) )", re.IGNORECASE
)
"""Where a message of a commit mentions, refers, closes, or has GitHub start no workflow."""
_BREAK: Final = "\u200b"


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """One baseline that is to be committed."""

    old: Baseline | None
    new: Baseline
    path: str

    @property
    def changes(self) -> Sequence[MetricVerdict]:
        """What becomes of its values."""
        return blessing.differences(self.old, self.new)


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where baselines come from: who asked, and which run measured them, where."""

    by: str
    run_url: str
    runner: str | None

    def blessing(self, reason: str, at_commit: Commit | None) -> Blessing:
        """What a baseline says of where it comes from."""
        return Blessing(
            by=self.by,
            at=datetime.now(UTC),
            reason=reason.strip(),
            commit=at_commit,
            run_url=self.run_url,
            runner=self.runner,
        )


def commit(
    repository: Repository, planned: Sequence[Planned], *, onto: str, reason: str, origin: Origin
) -> str:
    """Commit baselines on top of a commit, that no branch is at yet; return the SHA.

    Raises:
        GitHubRefused: the token may not commit there.
    """
    return api.commit(
        repository,
        onto=onto,
        files={one.path: baseline_text(one.new) for one in planned},
        message=commit_message([one.new.workload for one in planned], reason, origin),
    )


def commit_message(workloads: Sequence[str], reason: str, origin: Origin) -> str:
    """Return a commit's message: what was blessed, the reason in quotation marks, and where it
    comes from as trailers.

    Nothing in it mentions anyone, closes an issue, or keeps a workflow from starting; the reason is
    no trailer.
    """
    names = list(dict.fromkeys(map(file_name, workloads)))
    subject = f"bless: {', '.join(names)}"
    if len(subject) > LONGEST_SUBJECT and len(names) > 1:
        subject = f"bless: {len(names)} workloads"
    said = f'{subject[:LONGEST_SUBJECT]}\n\n"{" ".join(reason.split())}"'
    trailers = {
        "Perfgate-Run": origin.run_url,
        "Perfgate-Runner": _SPEAKING.sub(_BREAK, one_line(origin.runner or "")),
        "Blessed-by": one_line(origin.by),
    }
    lines = [f"{name}: {value}\n" for name, value in trailers.items() if value]
    return f"{_SPEAKING.sub(_BREAK, said)}\n\n{''.join(lines)}"
