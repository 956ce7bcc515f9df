"""`perfgate github admit`: what a self-hosted runner asks before each job."""

from __future__ import annotations

import os

import click

from perfgate.cli.common import printable
from perfgate.github import admission
from perfgate.github.context import Context


@click.command()
def admit() -> None:
    """Refuse a job of a fork that nobody has approved, whatever its workflow says.

    For the runner itself, in the script that ACTIONS_RUNNER_HOOK_JOB_STARTED names. Keep the script, and this perfgate,
    where the jobs' user cannot write.
    """
    click.echo(printable(admission.admit(Context.from_env(os.environ))))
