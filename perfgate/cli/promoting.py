"""`perfgate bless`: makes kept results baselines."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import click

from perfgate import blessing, git
from perfgate.cli.common import latest, project, screen
from perfgate.model.baseline import Baseline, Result
from perfgate.model.errors import PerfgateError, ResultMissing
from perfgate.render.records import bless_text, occasion_text
from perfgate.runner import code_now
from perfgate.store import Store


@click.command()
@click.argument("workloads", nargs=-1)
@click.option("--reason", required=True, help="Why this is to be the baseline; kept in it.")
@click.option("--accept-regression", is_flag=True, help="Bless a loss beyond budget.")
@click.option(
    "--occasion",
    is_flag=True,
    help="Add the result, an unchanged repeat, to the baseline that is there instead of replacing it.",
)
@click.option("--allow-ci", is_flag=True, help="Bless even in CI, where nobody looks at it.")
def bless(workloads: tuple[str, ...], reason: str, *, accept_regression: bool, occasion: bool, allow_ci: bool) -> None:
    """Make the kept result of each WORKLOAD (default: of all) its baseline. Never measures."""
    if occasion and accept_regression:
        raise click.UsageError("--occasion adds repeats of what is blessed: leave --accept-regression out.")
    here = project()
    width, colour = screen()
    names = tuple(dict.fromkeys(workloads)) or here.store.kept_workloads()
    if not names:
        raise ResultMissing(
            subject="bless",
            fact="no result is kept in this project",
            expectation="It makes a baseline of what a gate has measured",
            next_step="Measure first: pytest --perfgate",
        )
    by, commit = git.author(here.root), git.read_commit(here.root, baselines=here.baselines)
    in_ci = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

    def plan(name: str) -> tuple[Baseline | None, Baseline]:
        results = _blessable(here.store, name)
        old = here.store.load_baseline(results[0].machine.slug, name)
        at = datetime.now(UTC)
        if occasion:
            return old, blessing.add_occasion(
                results, old, reason=reason, by=by, at=at, commit=commit, in_ci=in_ci, allow_ci=allow_ci
            )
        return old, blessing.bless(
            results,
            old,
            reason=reason,
            by=by,
            at=at,
            commit=commit,
            code_now=code_now(results[0].code, here.root),
            accept_regression=accept_regression,
            in_ci=in_ci,
            allow_ci=allow_ci,
        )

    for old, new in _all_or_nothing(names, plan):
        shown = os.path.relpath(here.store.save_baseline(new, replacing=old))
        rows, costs = blessing.differences(old, new), blessing.costs(new)
        told = (
            occasion_text(old, new, rows, width=width, colour=colour, costs=costs, path=shown)
            if occasion and old is not None
            else bless_text(
                old,
                new,
                rows,
                width=width,
                colour=colour,
                costs=costs,
                remark=blessing.why_no_duet(new),
                path=shown,
            )
        )
        click.echo(told, nl=False)
    click.echo("Commit the baselines in a commit of their own.")


def _all_or_nothing(
    names: Sequence[str], plan: Callable[[str], tuple[Baseline | None, Baseline]]
) -> list[tuple[Baseline | None, Baseline]]:
    """Plan every blessing before the first is written; of several, each that is refused is told, and that none is."""
    planned: list[tuple[Baseline | None, Baseline]] = []
    refusals: list[PerfgateError] = []
    able: list[str] = []
    for name in names:
        try:
            planned.append(plan(name))
            able.append(name)
        except PerfgateError as refused:
            refusals.append(refused)
    if refusals and len(names) > 1:
        for refusal in refusals[:-1]:
            click.echo(f"perfgate: {refusal}", err=True)
        others = f", although {', '.join(able)} could be" if able else ""
        click.echo(f"Nothing is blessed{others}: all that are named are, or none.", err=True)
    if refusals:
        raise refusals[-1]
    return planned


def _blessable(store: Store, workload: str) -> list[Result]:
    """A workload's kept results on the machine of the newest, newest first."""
    listed = store.results(workload, latest(store, workload).result.machine.slug)
    return [one.found for one in listed if isinstance(one.found, Result)]
