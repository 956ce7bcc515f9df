"""The command line: translates words into calls, prints what comes back, exits by the error."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from perfgate import __version__
from perfgate.model.errors import PerfgateError
from perfgate.system.signals import ending_as_on_ctrl_c

COMMANDS: Final[Mapping[str, str]] = {
    "bless": "perfgate.cli.promoting:bless",
    "calibrate": "perfgate.cli.promoting:calibrate",
    "compare": "perfgate.cli.comparing:compare",
    "demo": "perfgate.cli.trying:demo",
    "doctor": "perfgate.cli.trying:doctor",
    "explain": "perfgate.cli.comparing:explain",
    "github": "perfgate.cli.github:github",
    "history": "perfgate.cli.looking:history",
    "init": "perfgate.cli.starting:init",
    "inspect": "perfgate.cli.looking:inspect",
    "merge": "perfgate.cli.merging:merge_gates",
    "page": "perfgate.cli.looking:page",
    "schema": "perfgate.cli.looking:schema",
    "selftest": "perfgate.cli.trying:selftest",
    "show": "perfgate.cli.looking:show_baselines",
    "trace": "perfgate.cli.looking:trace",
}
"""By its name, where a command is: loaded when it is asked for."""

LONGEST_HELP: Final = 160
"""Characters of the sentence by which `--help` says what a command does."""


class Commands(click.Group):
    """Loads a command's module, and all that it needs, only for that command."""

    def __init__(
        self,
        *,
        places: Mapping[str, str] = {},
        **options: Any,  # noqa: ANN401 - click's own
    ) -> None:
        """Take by the name of each command that is loaded later its place, `module:name`."""
        super().__init__(**options)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands, as `--help` lists them."""
        return [*self._places, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; None where there is none of that name."""
        found = super().get_command(ctx, cmd_name)
        if cmd_name in self._places:
            found = pkgutil.resolve_name(self._places[cmd_name])
        if found is not None:
            # click cuts off what does not fit into a line, but for what is short by its own word.
            found.short_help = found.get_short_help_str(LONGEST_HELP)
        return found


@click.group(
    cls=Commands,
    places=COMMANDS,
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
        from perfgate.cli.terminal import show_error  # noqa: PLC0415 - slow, and mostly not needed

        show_error(error)
        sys.exit(error.exit_code)
