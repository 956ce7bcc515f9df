"""The shell's door: translates words into calls, prints what comes back, and exits with the error's code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from perfgate import __version__
from perfgate.cli.looking import compare, explain, history, inspect, page, schema, show
from perfgate.cli.promoting import bless
from perfgate.cli.repeating import calibrate
from perfgate.cli.trying import demo, doctor, selftest
from perfgate.model.errors import PerfgateError


@click.group(context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100})
@click.version_option(__version__, prog_name="perfgate")
def cli() -> None:
    """A CI gate for GPU performance. The gate itself is `pytest --perfgate`."""


for _command in (bless, calibrate, compare, demo, doctor, explain, history, inspect, page, schema, selftest, show):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; the one place where an error becomes a message and an exit code."""
    try:
        cli.main(args=None if arguments is None else list(arguments), prog_name="perfgate")
    except PerfgateError as error:
        click.echo(f"perfgate: {error}", err=True)
        sys.exit(error.exit_code)
