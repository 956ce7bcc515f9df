"""`perfgate github`: the commands that the composite action, its workflows and runners call.

What asks GitHub loads PyGithub, which is an extra, and so only in its command.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfgate.cli import Commands
from perfgate.cli.terminal import PATH, show
from perfgate.model.errors import EXIT_OPEN, EXIT_SHUT
from perfgate.model.note import Severity, note
from perfgate.model.options import APPROVAL, ARTIFACT
from perfgate.model.pyproject import find_root, load_settings
from perfgate.words.escape import without_commands
from perfgate.words.say import Coded, message

if TYPE_CHECKING:
    from perfgate.github.job import Job

# ruff: noqa: PLC0415 - each command loads what it needs


@click.group(cls=Commands)
def github() -> None:
    """Commands for GitHub Actions: the composite action and its workflows call them."""


@github.command()
def admit() -> None:
    """Refuse a job of a fork that nobody has approved, whatever its workflow says.

    For the runner itself, in the script that ACTIONS_RUNNER_HOOK_JOB_STARTED names. Keep the
    script, and this perfgate, where the jobs' user cannot write.
    """
    from perfgate.github import approval

    _print(approval.admit(os.environ))


@github.command()
def approval() -> None:
    """Say which commit the label perfgate-approved approves, or why it approves none.

    For a job before the gate, on GitHub's own runner: it asks when GitHub first saw the commit that
    the label's event names as the head of the pull request.
    """
    from perfgate.github.api import connect
    from perfgate.github.approval import approve

    sha = approve(connect(os.environ), os.environ)
    _print(note("label-approves", label=APPROVAL, commit=sha))


@github.command()
@click.option(
    "--artifact", default=ARTIFACT, show_default=True, help="The artifact that holds perfgate.json."
)
@click.option(
    "--author",
    default="github-actions[bot]",
    show_default=True,
    help="Whose comments this job's token writes.",
)
def comment(artifact: str, author: str) -> None:
    """Comment on the pull request of a finished run; one comment, edited in place.

    For a workflow of its own, started by workflow_run: it has a token that may write, and runs no
    code of the pull request. A run whose commit is the head of no open pull request is nothing to
    comment on.
    """
    from perfgate.github.api import connect
    from perfgate.github.comment import comment as comment_on

    settings = load_settings(find_root(Path.cwd()), {})
    done = comment_on(
        connect(os.environ), os.environ, settings=settings, artifact=artifact, author=author
    )
    for one in done or (note("nothing-to-comment-on"),):
        _print(one)


@github.command(hidden=True, context_settings={"ignore_unknown_options": True})
@click.argument("root", type=PATH)
@click.argument("out", type=PATH)
@click.argument("options", nargs=-1)
def declared(root: Path, out: Path, options: tuple[str, ...]) -> None:
    """Collect the workloads of the project at ROOT with pytest's OPTIONS, and write their
    declarations to OUT."""
    from perfgate.model.workload import Declared
    from perfgate.plugin.listing import collect

    found = collect(root, options=options).declared
    lines = ",\n".join(Declared.model_dump_json(one) for one in found)
    out.write_text(f"[{lines}]\n", encoding="utf-8")


@github.command()
def gate() -> None:
    """Run the gate as a step of a job, and exit as pytest does.

    Inputs come as PERFGATE_INPUT_*, outputs go to GITHUB_OUTPUT, files to .perfgate/github.
    """
    from perfgate.github import job

    sys.exit(job.run(_job(), show))


@github.command()
@click.option(
    "--before",
    is_flag=True,
    help="A gate is yet to come: say whether its results could be blessed.",
)
def clean(*, before: bool) -> None:
    """Leave the runner free and clean: end what still runs of a gate, and remove what it kept."""
    from perfgate.github import job

    notes = job.clean(_job(), before=before)
    for one in notes:
        show(job.said(one))
    is_stuck = any(one.severity is Severity.INVALID for one in notes)
    sys.exit(EXIT_SHUT if is_stuck else EXIT_OPEN)


@github.command("bless")
def github_bless() -> None:
    """Commit what the gate of a branch's head commit has kept as its baselines. Never measures.

    Asked for by workflow_dispatch (PERFGATE_INPUT_WORKLOAD, PERFGATE_INPUT_REASON,
    PERFGATE_INPUT_ACCEPT_REGRESSION) or by a maintainer's comment: /perfgate bless WORKLOAD
    REASON... The head commit is checked out, and only read.
    """
    from perfgate.github.bless import bless

    bless(find_root(Path.cwd()), os.environ, _print)


@github.command()
@click.argument("folder", type=PATH, required=False)
def occasions(folder: Path | None) -> None:  # noqa: ARG001 - what older workflows give
    """Add what this run's gate has kept to the baselines, as occasions, by one pull request.

    The run is one of the base branch; FOLDER has no effect any more.
    """
    from perfgate.github.occasions import propose

    propose(find_root(Path.cwd()), os.environ, _print)


def _job() -> Job:
    from perfgate.github.job import Job

    return Job(root=find_root(Path.cwd()), env=dict(os.environ))


def _print(coded: Coded) -> None:
    show(without_commands(message(coded)))
