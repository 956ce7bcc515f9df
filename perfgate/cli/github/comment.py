"""`perfgate github comment`: what a run's gate found, as a comment on its pull request."""

from __future__ import annotations

import os

import click

from perfgate.cli.common import printable
from perfgate.github.api import Repository
from perfgate.github.comment import AUTHOR
from perfgate.github.comment import comment as comment_on
from perfgate.github.context import Context
from perfgate.model.workflows import ARTIFACT


@click.command()
@click.option(
    "--artifact", default=ARTIFACT, show_default=True, help="The artifact that holds perfgate.json."
)
@click.option(
    "--author", default=AUTHOR, show_default=True, help="Whose comments this job's token writes."
)
def comment(artifact: str, author: str) -> None:
    """Comment on the pull request of a finished run; one comment, edited in place.

    For a workflow of its own, started by workflow_run: it has a token that may write, and runs no code of the pull
    request. A run whose commit is the head of no open pull request is nothing to comment on.
    """
    context = Context.from_env(os.environ)
    done = comment_on(Repository.connect(context), context, artifact=artifact, author=author)
    for one in done:
        click.echo(printable(one.sentence))
    if not done:
        click.echo(
            "There is nothing to comment on: the run was skipped, or its commit is the head of no open pull request."
        )
