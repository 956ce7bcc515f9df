"""`perfgate github`: the commands that the composite action and its workflows call."""

from __future__ import annotations

import click

from perfgate.cli.github.admission import admit
from perfgate.cli.github.approval import approval
from perfgate.cli.github.comment import comment
from perfgate.cli.github.declared import declared
from perfgate.cli.github.job import clean, gate
from perfgate.cli.github.promote import github_bless, github_occasions


@click.group()
def github() -> None:
    """Commands for GitHub Actions: the composite action and its workflows call them."""


for _command in (admit, approval, github_bless, clean, comment, declared, gate, github_occasions):
    github.add_command(_command)
