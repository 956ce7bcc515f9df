"""`perfgate bless`: makes kept results baselines."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

import click

from perfgate.bless import bless as blessing
from perfgate.bless.holds import budgets_of, costs, holding, worth_knowing
from perfgate.bless.refusals import refuse_unasked
from perfgate.cli.project import Project
from perfgate.cli.terminal import Hold, cleaned, hold_option, new_page, show, usage
from perfgate.model.baseline import Baseline, Blessing, Result
from perfgate.model.errors import ConfigInvalid, RepositoryUnreadable, ResultMissing
from perfgate.model.note import note
from perfgate.plugin.listing import collect
from perfgate.render.records import bless_text
from perfgate.system import git
from perfgate.words import say


@click.command()
@click.argument("workloads", nargs=-1)
@click.option("--reason", required=True, help="Why this is to be the baseline; kept in it.")
@click.option("--accept-regression", is_flag=True, help="Bless a loss beyond budget.")
@click.option(
    "--occasion",
    is_flag=True,
    help="Add the result, an unchanged repeat, to the baseline that is there instead of "
    "replacing it.",
)
@hold_option
@click.option("--allow-ci", is_flag=True, help="Bless even in CI, where nobody looks at it.")
def bless(
    workloads: tuple[str, ...],
    reason: str,
    *,
    accept_regression: bool,
    occasion: bool,
    hold: Hold,
    allow_ci: bool,
) -> None:
    """Make the kept result of each WORKLOAD (default: of all) its baseline. Never measures."""
    if occasion and accept_regression:
        raise usage("options-contradict", option="--occasion", other="--accept-regression")
    in_ci = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
    refuse_unasked(reason, in_ci=in_ci, allow_ci=allow_ci)
    here = Project.here()
    names = tuple(dict.fromkeys(workloads)) or _measured(here)
    if not names:
        raise ResultMissing("results-none")
    asked = Blessing(
        by=git.author(here.root),
        at=datetime.now(UTC),
        reason=cleaned(reason).strip(),
        commit=here.commit(),
    )
    planned: list[_Plan] = []
    for name in names:
        slug = here.latest(name).result.machine.slug
        listed = here.store.results.listed(name, slug)
        results = [one.found for one in listed if isinstance(one.found, Result)]
        old = here.store.baselines.load(slug, name)
        if occasion:
            new = blessing.add_occasion(results[0], old, asked)
        else:
            new = blessing.bless(
                results,
                old,
                asked,
                code_now=here.code_now(results[0].code),
                settings=here.settings,
                consent=blessing.Consent(accept_regression=accept_regression, hold=hold),
            )
        planned.append(_Plan(newest=results[0], old=old, new=new))
    # All are blessed at once, or none.
    for plan in planned:
        here.store.baselines.ready_for(plan.new)
    for plan in planned:
        path = os.path.relpath(here.store.baselines.save(plan.new, replacing=plan.old))
        show(_shown(here, plan, path=path, occasion=occasion))
    show(say.message(note("baseline-commit")))


class _Plan(NamedTuple):
    """What is to be blessed of one workload."""

    newest: Result
    old: Baseline | None
    new: Baseline


def _shown(here: Project, plan: _Plan, *, path: str, occasion: bool) -> str:
    new, newest = plan.new, plan.newest
    rows = blessing.differences(plan.old, new)
    known = [] if occasion else worth_knowing(new, newest, _branch_without(newest, here))
    held, *unheld = holding(new, newest.workload, here.settings)
    notes = {
        "runs": [costs(new, budgets_of(newest.workload, here.settings))],
        "holds": [held],
        "note": [*known, *([] if occasion else unheld)],
    }
    return bless_text(new_page(), plan.old, new, rows, notes=notes, path=path)


def _branch_without(result: Result, here: Project) -> str | None:
    """The default branch where it does not hold the commit that was measured."""
    if result.commit is None or result.commit.dirty:
        return None
    with suppress(RepositoryUnreadable):
        return git.default_branch_without(here.root, result.commit.sha)
    return None


def _measured(here: Project) -> tuple[str, ...]:
    """The workloads with kept results, but for those that were renamed or deleted since, where all
    of the project can be collected here."""
    kept = here.store.results.workloads()
    with suppress(ConfigInvalid):  # which the next gate says
        found = collect(here.root)
        if not found.skipped_files:
            return tuple(one.id for one in found.workloads if one.id in kept)
    return kept
