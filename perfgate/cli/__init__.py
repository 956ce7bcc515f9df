"""The command line: translates words into calls, prints what comes back, exits by the error."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from perfgate import __version__
from perfgate.model.errors import PerfgateError
from perfgate.system.signals import ending_as_on_ctrl_c

COMMANDS: Final[Mapping[str, str]] = {
    "bless": "promoting:bless",
    "calibrate": "repeating:calibrate",
    "compare": "comparing:compare",
    "demo": "trying:demo",
    "doctor": "trying:doctor",
    "explain": "comparing:explain",
    "github": "github:github",
    "history": "looking:history",
    "init": "starting:init",
    "inspect": "looking:inspect",
    "merge": "merging:merge_gates",
    "page": "looking:page",
    "schema": "looking:schema",
    "selftest": "trying:selftest",
    "show": "looking:show_baselines",
    "trace": "looking:trace",
}
"""By its name, the module of this folder that holds a command, and its name there: loaded when it
is asked for."""

LONGEST_HELP: Final = 160
"""Characters of the sentence by which `--help` says what a command does."""


class Commands(click.Group):
    """Loads a command's module, and all that it needs, only for that command."""

    def __init__(
        self,
        *,
        package: str,
        places: Mapping[str, str],
        **options: Any,  # noqa: ANN401 - click's own
    ) -> None:
        """Take by the name of each command its place, `module:name`, in a package."""
        super().__init__(**options)
        self._package, self._places = package, places

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Name the commands, as `--help` lists them."""
        return [*self._places]

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; None where there is none of that name."""
        if cmd_name not in self._places:
            return None
        module, _, name = self._places[cmd_name].partition(":")
        found = getattr(importlib.import_module(f"{self._package}.{module}"), name)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does, wrapped: click cuts off what does not fit into a line."""
        found = [(name, self.get_command(ctx, name)) for name in self._places]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, one.get_short_help_str(LONGEST_HELP))
                    for name, one in found
                    if one and not one.hidden
                ]
            )


@click.group(
    cls=Commands,
    package=__name__,
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
