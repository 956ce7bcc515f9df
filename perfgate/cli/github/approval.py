"""`perfgate github approval`: whether a label approves the commit that its event names."""

from __future__ import annotations

import os

import click

from perfgate.cli.common import printable
from perfgate.github.api import Repository
from perfgate.github.approval import approve
from perfgate.github.context import Context
from perfgate.model.workflows import APPROVAL


@click.command()
def approval() -> None:
    """Say which commit the label perfgate-approved approves, or why it approves none.

    For a job before the gate, on GitHub's own runner: it asks when GitHub first saw the commit that the label's event
    names as the head of the pull request.
    """
    context = Context.from_env(os.environ)
    sha = approve(Repository.connect(context), context)
    click.echo(printable(f"The label {APPROVAL} approves commit {sha}."))
