"""`perfgate github bless` and `occasions`: kept results of a gate in CI become baselines, by commits through GitHub."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from perfgate.bless.bless import allows_pairs
from perfgate.cli.arguments import PATH
from perfgate.cli.common import cleaned, printable, project
from perfgate.github import kept, occasions, promote
from perfgate.github.api import Repository
from perfgate.github.context import Context
from perfgate.github.request import Request, branch_of, read_request, refuse_strangers, wish_of
from perfgate.model.errors import PerfgateError, StoreFailed


@click.command("bless")
def github_bless() -> None:
    """Commit what the gate of a branch's head commit has kept as its baselines. Never measures.

    Asked for by workflow_dispatch (PERFGATE_INPUT_WORKLOAD, PERFGATE_INPUT_REASON, PERFGATE_INPUT_ACCEPT_REGRESSION) or
    by a maintainer's comment: /perfgate bless WORKLOAD REASON... The head commit is checked out, and only read.
    """
    context = Context.from_env(os.environ)
    request = read_request(context)
    if request.pull_request is None:
        wish_of(request, os.environ)  # what is wrong with it needs no GitHub to be told
    repository = Repository.connect(context)
    if request.pull_request is not None:
        # Nobody else is answered: whoever may comment could have perfgate write.
        refuse_strangers(repository, request.by)
    try:
        promotion = _promoted(context, repository, request)
    except PerfgateError as error:
        _tell(repository, request, promote.refusal_markdown(error))
        raise promote.harmless(error) from error
    _tell(repository, request, promote.promotion_markdown(promotion, context))
    _say(
        f"Committed {promotion.commit} to {promotion.branch.name}: {', '.join(p.path for p in promotion.planned)}"
    )
    if promotion.not_started is not None:
        raise promote.harmless(promotion.not_started)


def _promoted(context: Context, repository: Repository, request: Request) -> promote.Promotion:
    wish = wish_of(request, os.environ)
    branch = branch_of(request, context, repository)
    here = project()
    checkout = kept.checkout(here.root, here.baselines, branch.head_sha, env=os.environ)
    held = kept.kept_by_gate(repository, branch, asked_at=request.asked_at)
    by = f"{request.by} via GitHub"
    planned = promote.plan(
        held,
        wish,
        checkout,
        budgets=here.settings.budgets,
        pairs=allows_pairs(here.settings),
        by=by,
        at=datetime.now(UTC),
        run_url=context.page_of_run(held.run.id),
        runner=kept.runner_of(repository, held.run.id),
    )
    return promote.commit(repository, branch, planned, wish, by=by)


@click.command("occasions")
@click.argument("folder", type=PATH)
def github_occasions(folder: Path) -> None:
    """Add what this run's gate has kept to the baselines, as occasions, by one pull request.

    FOLDER holds the downloaded artifacts kept-... of this very run, which is one of the base branch.
    """
    context = Context.from_env(os.environ)
    occasions.refuse_event(context)
    repository = Repository.connect(context)
    try:
        _propose(context, repository, folder)
    except PerfgateError as error:
        raise promote.harmless(error) from error


def _propose(context: Context, repository: Repository, folder: Path) -> None:
    here = project()
    checkout = kept.checkout(here.root, here.baselines, context.sha, env=os.environ)
    results = occasions.read_kept(folder, context.sha)
    pull = repository.find_pull_request(occasions.BRANCH)
    inside = (checkout.prefix / here.baselines).as_posix()
    earlier = {} if pull is None else occasions.not_merged(repository, pull, checkout, inside)
    run_url, runner = context.run_url, kept.runner_of(repository, context.run_id)
    found = occasions.find(
        results, checkout, earlier, at=datetime.now(UTC), run_url=run_url, runner=runner
    )
    if not found.adds:
        _summarise(occasions.summary_markdown(found, None))
        _say(
            f"No result is an occasion of a baseline: {len(found.left)} of {len(results)} were refused."
        )
        return
    published = occasions.publish(repository, context, found, pull, runner=runner)
    _summarise(occasions.summary_markdown(found, published))
    added = sum(one.result is not None for one in found.extended)
    _say(f"Pull request {published.number} adds {added} of {len(results)} results: {published.url}")


def _tell(repository: Repository, request: Request, markdown: str) -> None:
    """Write the job's summary, and answer the comment that asked."""
    _summarise(markdown)
    if request.pull_request is not None:
        try:
            repository.create_comment(request.pull_request, markdown)
        except PerfgateError as error:
            # What was done is done, and what was refused is refused; the summary has it.
            click.echo(printable(f"perfgate: {promote.harmless(error)}"), err=True)


def _summarise(markdown: str) -> None:
    file = os.environ.get("GITHUB_STEP_SUMMARY")
    if not file:
        return
    try:
        with Path(file).open("a", encoding="utf-8", errors="replace") as opened:
            opened.write(cleaned(markdown))
    except OSError as error:
        raise StoreFailed(
            subject=file,
            fact=f"the job's summary cannot be written ({error.strerror or error})",
            expectation="It says what has become a baseline",
            next_step="See to the runner's disk.",
        ) from error


def _say(line: str) -> None:
    click.echo(printable(line))
