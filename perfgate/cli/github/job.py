"""`perfgate github gate` and `clean`: the steps of the composite action."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from perfgate.cli.common import printable
from perfgate.github import job
from perfgate.model.errors import EXIT_OPEN, EXIT_SHUT
from perfgate.model.pyproject import find_root
from perfgate.render.annotations import command


@click.command()
def gate() -> None:
    """Run the gate as a step of a job, and exit as pytest does.

    Inputs come as PERFGATE_INPUT_*, outputs go to GITHUB_OUTPUT, files to .perfgate/github.
    """
    sys.exit(job.run(_job(), _say))


@click.command()
@click.option(
    "--before",
    is_flag=True,
    help="A gate is yet to come: say whether its results could be blessed.",
)
def clean(*, before: bool) -> None:
    """Leave the runner free and clean: end what still runs of this gate, and remove what it kept."""
    cleaned = job.clean(_job(), before=before)
    for line in cleaned.told:
        _say(line)
    for line in cleaned.warnings:
        _say(command("warning", line, title="perfgate"))
    for line in cleaned.errors:
        _say(command("error", line, title="perfgate"))
    sys.exit(EXIT_SHUT if cleaned.errors else EXIT_OPEN)


def _job() -> job.Job:
    here = Path.cwd()
    return job.Job(root=find_root(here), cwd=here, env=dict(os.environ), python=sys.executable)


def _say(line: str) -> None:
    click.echo(printable(line))
