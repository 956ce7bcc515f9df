"""A job of GitHub Actions that asks perfgate for something, in a checkout, and what it leaves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

import pytest
from support import records
from support.promotion import Scene

from perfgate import cli
from perfgate.cli import terminal
from perfgate.model.errors import PerfgateError


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a step leaves."""

    status: int
    out: str
    err: str
    summary: str
    code: str | None
    """Of its error."""

    @property
    def wording(self) -> str:
        """The summary without what is another one each time."""
        return without_commits(self.summary)


def without_commits(text: str) -> str:
    """A text with COMMIT in the place of names of commits, and DAY in that of days."""
    text = re.sub(r"\b(?:[0-9a-f]{40}|[0-9a-f]{12})\b", "COMMIT", text)
    return re.sub(r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}\b", "DAY", text)


class Job:
    """One job of a workflow, its branch being checked out."""

    def __init__(
        self,
        scene: Scene,
        folder: Path,
        patch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.scene = scene
        self.hub = scene.hub
        self._folder = folder
        self._patch = patch
        self._capsys = capsys

    def dispatched(
        self, reason: str = "fused the loss", workload: str = "", accept: str = "false"
    ) -> Seen:
        return self.run("bless", self.dispatch(reason, workload, accept))

    def dispatch(
        self, reason: str = "fused the loss", workload: str = "", accept: str = "false"
    ) -> dict[str, str]:
        """The environment of a job that a maintainer has started on the branch."""
        more = {
            "GITHUB_REF": f"refs/heads/{self.scene.branch}",
            "GITHUB_SHA": self.scene.head,
            "PERFGATE_INPUT_REASON": reason,
            "PERFGATE_INPUT_WORKLOAD": workload,
            "PERFGATE_INPUT_ACCEPT_REGRESSION": accept,
        }
        return self.hub.env_of("workflow_dispatch", {"inputs": {}}, self._folder, **more)

    def commented(
        self,
        body: str,
        number: int,
        *,
        login: str = "ada",
        minutes: int = 10,
        event_name: str = "issue_comment",
        more: Mapping[str, object] = MappingProxyType({}),
    ) -> Seen:
        """Run it for a comment that was made so many minutes after noon; `more` is in its event."""
        event = {
            "action": "created",
            "issue": {"number": number, "pull_request": {}},
            "comment": {
                "body": body,
                "created_at": (records.NOON + timedelta(minutes=minutes)).isoformat(),
                "user": {"login": login},
            },
            **more,
        }
        inputs = dict.fromkeys(("REASON", "WORKLOAD", "ACCEPT_REGRESSION"), "")
        env = self.hub.env_of(event_name, event, self._folder)
        return self.run(
            "bless", env | {f"PERFGATE_INPUT_{name}": value for name, value in inputs.items()}
        )

    def run(self, command: str, env: Mapping[str, str], *arguments: str) -> Seen:
        """Run a command in this process."""
        summary = self._folder / "summary.md"
        summary.write_text("", encoding="utf-8")
        for name, value in {
            **self.scene.env,
            **env,
            "GITHUB_STEP_SUMMARY": str(summary),
            "CI": "true",
        }.items():
            self._patch.setenv(name, value)
        self._patch.chdir(self.scene.root)
        codes: list[str] = []
        show_error = terminal.show_error

        def note_code(error: PerfgateError) -> None:
            codes.append(error.code)
            show_error(error)

        self._patch.setattr(terminal, "show_error", note_code)
        status = 0
        try:
            cli.main(["github", command, *arguments])
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else int(left.code is not None)
        self._patch.setattr(terminal, "show_error", show_error)
        seen = self._capsys.readouterr()
        return Seen(
            status=status,
            out=seen.out,
            err=seen.err,
            summary=summary.read_text(encoding="utf-8"),
            code=next(iter(codes), None),
        )

    def gated(self) -> int:
        """Let a gate keep its result of the workload, and return its run."""
        return self.scene.gate(self.scene.result())

    def pull(self, **more: object) -> int:
        """Open the branch's pull request."""
        branch, sha = self.scene.branch, self.scene.head
        return self.hub.pull(branch=branch, sha=sha, **more)  # type: ignore[arg-type]
