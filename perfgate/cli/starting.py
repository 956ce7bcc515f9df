"""`perfgate init`: a repository's first files, and whether those that are there are still what it
would write."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

import click

from perfgate import __version__
from perfgate.cli.common import printable
from perfgate.cli.complaint import usage
from perfgate.init.facts import Asked, Tool, find_facts
from perfgate.init.plan import plan, plan_lock
from perfgate.init.report import check_text, init_text
from perfgate.init.writing import to_write, write
from perfgate.model.errors import EXIT_OPEN, EXIT_SHUT


@click.command()
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; say what is missing, older or lacking. Exits 1 if any is.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Overwrite what differs below .github, the lock file resolved anew, and nothing else.",
)
@click.option("--no-github", is_flag=True, help="Leave .github alone.")
@click.option(
    "--install-from",
    metavar="URL",
    help="Where a runner gets perfgate from: git+https://HOST/REPO@COMMIT, or https://HOST/NAME.whl#sha256=HASH. "
    "By default where this perfgate was installed from.",
)
@click.option("--renew-lock", is_flag=True, help="Write the lock file alone, resolved anew.")
def init(
    *, check: bool, force: bool, no_github: bool, install_from: str | None, renew_lock: bool
) -> None:
    """Write the first files: a workload, [tool.perfgate], workflows for GitHub Actions.

    What is there is never overwritten without --force: the difference is shown.
    """
    if check and (force or renew_lock):
        other = "--force" if force else "--renew-lock"
        raise usage("options-contradict", option="--check", other=other)
    if no_github and (install_from is not None or renew_lock):
        other = "--renew-lock" if renew_lock else "--install-from"
        raise usage("options-contradict", option="--no-github", other=other)
    asked = Asked(github=not no_github, install_from=install_from, renew=force or renew_lock)
    facts = find_facts(Path.cwd(), this_perfgate(), asked, env=os.environ)
    if renew_lock:
        lock = plan_lock(facts, resolve=True, renew=True)
        writing = to_write((lock,), force=True)
        write(writing)
        click.echo(printable(f"{'written' if writing else 'up to date'}  {lock.path}"))
        return
    files = plan(facts, resolve=not check, renew=force)
    if check:
        click.echo(printable(check_text(facts, files)), nl=False)
        sys.exit(EXIT_OPEN if all(file.is_up_to_date for file in files) else EXIT_SHUT)
    writing = to_write(files, force=force)
    write(writing)
    click.echo(printable(init_text(facts, files, writing)), nl=False)


def this_perfgate() -> Tool:
    """The perfgate that runs."""
    direct_url: str | None = "{}"
    requires: list[str] = []
    with contextlib.suppress(
        importlib.metadata.PackageNotFoundError
    ):  # run from its folder, not installed
        distribution = importlib.metadata.distribution("perfgate")
        direct_url, requires = (
            distribution.read_text("direct_url.json"),
            distribution.requires or [],
        )
    return Tool(
        version=__version__,
        direct_url=direct_url,
        python=sys.version_info[:2],
        has_torch=importlib.util.find_spec("torch") is not None,
        requires=tuple(requires),
    )
