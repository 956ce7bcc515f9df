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
from perfgate.cli.terminal import show, usage
from perfgate.init.project import InstalledTool, find_project
from perfgate.init.report import check_text, init_text
from perfgate.init.scaffold import FileState, planned, write
from perfgate.model.errors import EXIT_OPEN, EXIT_SHUT


@click.command()
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; say what is missing or older. Exits 1 if any is.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Overwrite what differs below .github, and nothing else.",
)
@click.option("--no-github", is_flag=True, help="Leave .github alone.")
@click.option(
    "--install-from",
    metavar="URL",
    help="Where a runner gets perfgate from: git+https://HOST/REPO@COMMIT, or "
    "https://HOST/NAME.whl#sha256=HASH. "
    "By default where this perfgate was installed from.",
)
def init(*, check: bool, force: bool, no_github: bool, install_from: str | None) -> None:
    """Write the first files: a workload, [tool.perfgate], workflows for GitHub Actions.

    What is there is never overwritten without --force: the difference is shown.
    """
    if check and force:
        raise usage("options-contradict", option="--check", other="--force")
    if no_github and install_from is not None:
        raise usage("options-contradict", option="--no-github", other="--install-from")
    project = find_project(
        Path.cwd(), this_perfgate(), github=not no_github, install_from=install_from, env=os.environ
    )
    files = planned(project)
    if check:
        lacking = sum(file.state in {FileState.MISSING, FileState.OLDER} for file in files)
        is_complete = not lacking and (project.top is None or project.origin is not None)
        show(check_text(project, files, lacking))
        sys.exit(EXIT_OPEN if is_complete else EXIT_SHUT)
    writing = [
        file for file in files if file.state is FileState.MISSING or (force and file.differs)
    ]
    write(writing)
    show(init_text(project, files, writing))


def this_perfgate() -> InstalledTool:
    """The perfgate that runs."""
    direct_url = None
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # run from its folder
        direct_url = importlib.metadata.distribution("perfgate").read_text("direct_url.json")
    return InstalledTool(
        version=__version__,
        direct_url=direct_url,
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        has_torch=importlib.util.find_spec("torch") is not None,
    )
