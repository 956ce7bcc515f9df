"""`perfgate init`: a repository's first files, and whether those that are there are still what it would write."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

import click

from perfgate import __version__
from perfgate.cli.common import printable
from perfgate.model.errors import EXIT_OPEN, EXIT_SHUT
from perfgate.scaffold.facts import Tool, find_facts
from perfgate.scaffold.plan import plan
from perfgate.scaffold.telling import check_text, init_text, is_up_to_date
from perfgate.scaffold.writing import to_write, write


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; say what is missing, older or lacking. Exits 1 if any is.")
@click.option("--force", is_flag=True, help="Overwrite workflows and the action where they differ, and nothing else.")
@click.option("--no-github", is_flag=True, help="Leave .github alone.")
def init(*, check: bool, force: bool, no_github: bool) -> None:
    """Write the first files: a workload, [tool.perfgate], workflows for GitHub Actions.

    What is there is never overwritten without --force: the difference is shown.
    """
    if check and force:
        raise click.UsageError("--check writes nothing, so it does not go with --force.")
    facts = find_facts(Path.cwd(), tool=_tool(), github=not no_github, env=os.environ)
    files = plan(facts)
    if check:
        click.echo(printable(check_text(facts, files)), nl=False)
        sys.exit(EXIT_OPEN if all(map(is_up_to_date, files)) else EXIT_SHUT)
    writing = to_write(files, force=force)
    write(writing)
    click.echo(printable(init_text(facts, files, writing)), nl=False)


def _tool() -> Tool:
    """The perfgate that runs."""
    try:
        direct_url = importlib.metadata.distribution("perfgate").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:  # run from its folder, not installed
        direct_url = "{}"
    return Tool(
        version=__version__,
        direct_url=direct_url,
        python=sys.version_info[:2],
        has_torch=importlib.util.find_spec("torch") is not None,
    )
