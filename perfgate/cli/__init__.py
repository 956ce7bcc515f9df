"""The command line: translates words into calls, prints what comes back, exits by the error's code."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from perfgate import __version__
from perfgate.model.errors import PerfgateError, StoreFailed
from perfgate.system.signals import ending_as_on_ctrl_c

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "bless": ("promoting", "bless"),
    "calibrate": ("repeating", "calibrate"),
    "compare": ("comparing", "compare"),
    "demo": ("trying", "demo"),
    "doctor": ("trying", "doctor"),
    "explain": ("comparing", "explain"),
    "github": ("github", "github"),
    "history": ("looking", "history"),
    "init": ("starting", "init"),
    "inspect": ("looking", "inspect"),
    "merge": ("merging", "merge_gates"),
    "page": ("looking", "page"),
    "schema": ("looking", "schema"),
    "selftest": ("trying", "selftest"),
    "show": ("looking", "show"),
    "trace": ("tracing", "trace"),
}
"""By its name, the module of this folder that holds a command, and its name there: loaded when it
is asked for."""
LONGEST_HELP: Final = 160
"""Characters of the sentence by which `--help` tells what a command does."""
EXIT_UNPRINTED: Final = 1
"""What it exits with where nobody can have read what it found."""


class Commands(click.Group):
    """Loads a command's module, and all that it needs, only for that command."""

    def __init__(
        self,
        *,
        package: str,
        commands: Mapping[str, tuple[str, str]],
        **options: Any,  # noqa: ANN401 - click's own
    ) -> None:
        """Take the package of the modules, and by the name of each command its module and its name
        in there."""
        super().__init__(**options)
        self._package, self._commands = package, commands

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click gives it
        """Name the commands, as `--help` lists them."""
        return [*self._commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click gives it
        """Load a command; None where there is none of that name."""
        if cmd_name not in self._commands:
            return None
        module, name = self._commands[cmd_name]
        found = getattr(importlib.import_module(f"{self._package}.{module}"), name)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does, wrapped: click cuts off what does not fit into the rest of
        a line."""
        commands = [(name, self.get_command(ctx, name)) for name in self._commands]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(LONGEST_HELP))
                    for name, command in commands
                    if command and not command.hidden
                ]
            )


@click.group(
    cls=Commands,
    package=__name__,
    commands=COMMANDS,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="perfgate")
def cli() -> None:
    """A CI gate for GPU performance. The gate itself is `pytest --perfgate`."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; the one place where an error becomes a message and an exit code."""
    try:
        with ending_as_on_ctrl_c():
            cli.main(args=None if arguments is None else list(arguments), prog_name="perfgate")
    except PerfgateError as error:
        from perfgate.cli.complaint import complaint  # noqa: PLC0415 - slow to import, and mostly not needed

        width = (
            shutil.get_terminal_size().columns
            if sys.stderr is not None and sys.stderr.isatty()
            else None
        )
        click.echo(complaint(error, width=width), err=True)
        sys.exit(error.exit_code)
    except OSError as refused:
        if not _is_of_printing(refused):
            raise
        _leave_unprinted()
        why = refused.strerror or str(refused)
        with contextlib.suppress(OSError):
            click.echo(str(StoreFailed("unprinted", reason=why)), err=True)
        sys.exit(EXIT_UNPRINTED)


def _is_of_printing(refused: OSError) -> bool:
    """Whether what refused was what is printed to: click's own line wrote to it, and no other."""
    *_, (innermost, _) = traceback.walk_tb(refused.__traceback__)
    return innermost.f_code is click.echo.__code__


def _leave_unprinted() -> None:
    """Let what is left to print go nowhere: Python tries to write it once more when it ends."""
    # What stands in for stdout may have no file, or be closed.
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, sys.stdout.fileno())
        finally:
            os.close(nowhere)
