"""`perfgate github`: the commands that the composite action, its workflows and runners call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from perfgate.cli import Commands

COMMANDS: Final[Mapping[str, str]] = {
    "admit": "perfgate.cli.github.commands:admit",
    "approval": "perfgate.cli.github.commands:approval",
    "bless": "perfgate.cli.github.commands:github_bless",
    "clean": "perfgate.cli.github.commands:clean",
    "comment": "perfgate.cli.github.commands:comment",
    "declared": "perfgate.cli.github.commands:declared",
    "gate": "perfgate.cli.github.commands:gate",
    "occasions": "perfgate.cli.github.commands:occasions",
}


@click.group(cls=Commands, places=COMMANDS)
def github() -> None:
    """Commands for GitHub Actions: the composite action and its workflows call them."""
