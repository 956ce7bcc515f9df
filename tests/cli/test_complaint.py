"""What is printed of an error: its words as they are, and nothing of what it quotes that a terminal
or a CI obeys."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from support.project import Project

from perfgate import cli
from perfgate.cli import looking
from perfgate.cli.complaint import complaint
from perfgate.model.errors import EXIT_SHUT, CaptureUnreadable, PerfgateError

HOSTILE = "\x1b]0;OWNED\x07\x1b[2J\x9b31m\u202e\r"
SPELLED = r"\x1b]0;OWNED\x07\x1b[2J\x9b31m\u202e\r"


def error(
    *,
    subject: str = "x.sqlite",
    fact: str = "it is none",
    expectation: str = "",
    next_step: str = "Check the path.",
) -> PerfgateError:
    return CaptureUnreadable(
        subject=subject, fact=fact, expectation=expectation, next_step=next_step
    )


@pytest.mark.parametrize("expectation", ["", "It takes a file"])
def test_an_ordinary_message_is_printed_as_it_is(expectation: str) -> None:
    tail = "See run.log.\nLast lines of its output:\n  | \u6a21\u578b\n  |     raise"
    ordinary = error(expectation=expectation, next_step=tail)
    assert complaint(ordinary) == f"perfgate: {ordinary}"


@pytest.mark.parametrize("part", ["subject", "fact", "expectation", "next_step"])
def test_what_steers_a_terminal_is_spelled_out_in_every_part(part: str) -> None:
    told = complaint(error(**{part: f"a{HOSTILE}b"}))
    assert f"a{SPELLED}b" in told
    assert all(character.isprintable() or character == "\n" for character in told)


@pytest.mark.parametrize("part", ["subject", "fact", "expectation", "next_step"])
@pytest.mark.parametrize("between", ["\n", "\r\n", "\n \u00a0", "\u2028"])
def test_no_line_of_it_begins_a_command_of_github_actions(part: str, between: str) -> None:
    told = complaint(error(**{part: f"a{between}::error::b{between}::add-mask::c"}))
    assert "::error::b" in told
    assert not any(line.lstrip().startswith("::") for line in told.splitlines())


def test_the_older_form_of_commands_is_broken_anywhere() -> None:
    assert "##[" not in complaint(error(fact="a ##[error]b", next_step="c\n  | ##[debug]d"))


def test_further_lines_of_a_fact_are_quoted_and_tabs_are_spaces() -> None:
    assert complaint(error(fact="it said:\n\tno\n  | never", expectation="It should")) == (
        "perfgate: x.sqlite: it said:\n  |     no\n  | never. It should.\nCheck the path."
    )


def test_a_line_is_cut_in_its_middle_where_it_is_longer_than_a_screen() -> None:
    first, second, last = complaint(
        error(fact="a" * 100_000 + "\n" + "\x1b" * 100_000, expectation="b")
    ).split("\n")
    assert max(len(first), len(second)) <= 4000
    assert last == "Check the path."
    assert (first[:24], second[-4:]) == ("perfgate: x.sqlite: aaaa", ". b.")


def test_a_command_prints_it_so(project: Project) -> None:
    seen = project.perfgate("inspect", f"no{HOSTILE}\n::error::.sqlite")
    assert (seen.out, seen.status) == ("", 14)
    assert seen.err.splitlines()[0].startswith(
        rf"perfgate: no{SPELLED}\n::error::.sqlite: there is no such file."
    )


# Where nothing can be printed


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this system has no disk that is always full"
)
@pytest.mark.parametrize(
    "words",
    [["schema"], ["--help"], ["inspect", "mlp.sqlite"], ["inspect", "mlp.sqlite", "--json"]],
)
@pytest.mark.usefixtures("project", "capture")
def test_a_full_disk_behind_what_is_printed_is_said_in_a_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # What Python does at its end is done when the file is closed: it writes what is left.
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as left:
            cli.main(words)
    assert left.value.code == EXIT_SHUT
    assert (
        capsys.readouterr().err
        == "perfgate: what it prints cannot be written (No space left on device).\n"
    )


@pytest.mark.usefixtures("project")
def test_another_refusal_of_the_system_is_not_taken_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(OSError, match="No space left"):
        cli.main(["schema"])


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

    monkeypatch.setattr(looking.show, "callback", lambda **_: killed())
    with pytest.raises(SystemExit) as left:
        cli.main(["show"])
    assert (left.value.code, cleared, capsys.readouterr().err.strip()) == (1, ["all"], "Aborted!")


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
