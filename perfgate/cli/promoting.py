"""`perfgate bless`: makes kept results baselines."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import click

from perfgate import blessing, git
from perfgate.cli.common import latest, project, screen
from perfgate.model.baseline import Baseline, Result
from perfgate.model.errors import (
    ResultMissing,
)
from perfgate.render.records import bless_text
from perfgate.runner import code_now
from perfgate.store import Store


@click.command()
@click.argument("workloads", nargs=-1)
@click.option("--reason", required=True, help="Why this is to be the baseline; kept in it.")
@click.option("--accept-regression", is_flag=True, help="Bless a loss beyond budget.")
@click.option("--allow-ci", is_flag=True, help="Bless even in CI, where nobody looks at it.")
def bless(workloads: tuple[str, ...], reason: str, *, accept_regression: bool, allow_ci: bool) -> None:
    """Make the kept result of each WORKLOAD (default: of all) its baseline. Never measures."""
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
    planned: list[tuple[Baseline | None, Baseline]] = []
    for name in names:
        results = _blessable(here.store, name)
        old = here.store.load_baseline(results[0].machine.slug, name)
        new = blessing.bless(
            results,
            old,
            reason=reason,
            by=git.author(here.root),
            at=datetime.now(UTC),
            commit=git.read_commit(here.root, baselines=here.baselines),
            code_now=code_now(results[0].code, here.root),
            accept_regression=accept_regression,
            in_ci=os.environ.get("CI", "").lower() in {"1", "true", "yes"},
            allow_ci=allow_ci,
        )
        planned.append((old, new))
    # All or nothing: a refusal above has written no file.
    for old, new in planned:
        path = here.store.save_baseline(new, replacing=old)
        rows = blessing.differences(old, new)
        shown = os.path.relpath(path)
        click.echo(
            bless_text(old, new, rows, width=width, colour=colour, costs=blessing.costs(new), path=shown), nl=False
        )
    click.echo("Commit the baselines in a commit of their own.")


def _blessable(store: Store, workload: str) -> list[Result]:
    """A workload's kept results on the machine of the newest, newest first."""
    listed = store.results(workload, latest(store, workload).result.machine.slug)
    return [one.found for one in listed if isinstance(one.found, Result)]
