"""The shell's door: translates words into calls, prints what comes back, and exits with the error's code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click

from perfgate import __version__
from perfgate.model.errors import PerfgateError

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "bless": ("promoting", "bless"),
    "calibrate": ("repeating", "calibrate"),
    "compare": ("looking", "compare"),
    "demo": ("trying", "demo"),
    "doctor": ("trying", "doctor"),
    "explain": ("looking", "explain"),
    "github": ("github", "github"),
    "history": ("looking", "history"),
    "init": ("starting", "init"),
    "inspect": ("looking", "inspect"),
    "merge": ("merging", "merge_gates"),
    "page": ("looking", "page"),
    "schema": ("looking", "schema"),
    "selftest": ("trying", "selftest"),
    "show": ("looking", "show"),
}
"""By its name, the module of this folder that holds a command, and its name there: loaded when it is asked for."""


class Door(click.Group):
    """Loads a command's module, and all that it needs, only for that command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click gives it
        """Name the commands, as `--help` lists them."""
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click gives it
        """Load a command; None where there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        found = getattr(importlib.import_module(f"{__name__}.{module}"), name)
        assert isinstance(found, click.Command)
        return found


@click.group(cls=Door, context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100})
@click.version_option(__version__, prog_name="perfgate")
def cli() -> None:
    """A CI gate for GPU performance. The gate itself is `pytest --perfgate`."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; the one place where an error becomes a message and an exit code."""
    try:
        cli.main(args=None if arguments is None else list(arguments), prog_name="perfgate")
    except PerfgateError as error:
        click.echo(f"perfgate: {error}", err=True)
        sys.exit(error.exit_code)
