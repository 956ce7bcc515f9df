"""What is printed of an error: its words as they are, and nothing of what it quotes that a terminal
or a CI obeys."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

import pytest
from support.project import Project

from perfgate import cli
from perfgate.cli import looking
from perfgate.model.errors import StoreFailed

HOSTILE = "\x1b]0;OWNED\x07\x1b[2J\x9b31m\u202e\r"
SPELLED = r"\x1b]0;OWNED\x07\x1b[2J\x9b31m\u202e\r"


def test_what_it_quotes_steers_neither_a_terminal_nor_a_ci(project: Project) -> None:
    quoted = f"a{HOSTILE}b\n::error::c\n  ##[debug]d\u2028::add-mask::e.sqlite"
    seen = project.perfgate("inspect", quoted)
    assert (seen.out, seen.status) == ("", 14)
    assert seen.err.startswith(f"perfgate: a{SPELLED}b")
    assert "##[" not in seen.err
    assert not any(line.lstrip().startswith("::") for line in seen.err.splitlines())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_command_may_clear_up_before_it_is_ended(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cleared: list[str] = []

    def killed() -> None:
        try:
            os.kill(os.getpid(), number)
        finally:
            cleared.append("all")

    monkeypatch.setattr(looking.show_baselines, "callback", lambda **_: killed())
    with pytest.raises(SystemExit) as left:
        cli.main(["show"])
    assert (left.value.code, cleared, capsys.readouterr().err.strip()) == (1, ["all"], "Aborted!")


def test_a_full_disk_behind_stdout_is_a_message_and_no_traceback(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = os.fdopen(os.open("/dev/full", os.O_WRONLY), "w", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as left:
            cli.main(["schema"])
    with suppress(OSError):
        full.close()
    assert left.value.code == StoreFailed.exit_code
    assert capsys.readouterr().err.startswith("perfgate: stdout: ")


def test_a_closed_pipe_is_left_in_silence(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    errors = project.root / "errors"
    stdout = os.fdopen(writing, "w", encoding="utf-8")
    with errors.open("w", encoding="utf-8") as stderr, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        patch.setattr(sys, "stdout", stdout)
        with pytest.raises(SystemExit) as left:
            cli.main(["schema"])
    with suppress(BrokenPipeError):
        stdout.close()
    assert (left.value.code, errors.read_text("utf-8")) == (1, "")
