"""`perfgate github`: the commands that the composite action, its workflows and runners call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from perfgate.cli import Commands

COMMANDS: Final[Mapping[str, str]] = {
    "admit": "commands:admit",
    "approval": "commands:approval",
    "bless": "commands:github_bless",
    "clean": "commands:clean",
    "comment": "commands:comment",
    "declared": "commands:declared",
    "gate": "commands:gate",
    "occasions": "commands:occasions",
}


@click.group(cls=Commands, package=__name__, places=COMMANDS)
def github() -> None:
    """Commands for GitHub Actions: the composite action and its workflows call them."""
