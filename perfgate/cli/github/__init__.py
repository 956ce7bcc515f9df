"""`perfgate github`: the commands that the composite action and its workflows call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from perfgate.cli import Door

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "admit": ("admission", "admit"),
    "approval": ("approval", "approval"),
    "bless": ("promote", "github_bless"),
    "clean": ("job", "clean"),
    "comment": ("comment", "comment"),
    "declared": ("declared", "declared"),
    "gate": ("job", "gate"),
    "occasions": ("promote", "github_occasions"),
}


@click.group(cls=Door, package=__name__, commands=COMMANDS)
def github() -> None:
    """Commands for GitHub Actions: the composite action and its workflows call them."""
