"""`perfgate bless`: makes kept results baselines."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import click

from perfgate.bless import bless as blessing
from perfgate.bless.holds import budgets_of, costs, holding
from perfgate.bless.refusals import refuse_unasked
from perfgate.cli.project import Project
from perfgate.cli.terminal import Hold, cleaned, hold_option, new_page, show, usage
from perfgate.model.baseline import Baseline, Blessing, Result, changed_code
from perfgate.model.errors import (
    BlessRefused,
    ConfigInvalid,
    RepositoryUnreadable,
    ResultMissing,
    ResultUnreadable,
)
from perfgate.model.note import Note, note
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
    here = Project.here()
    names = tuple(dict.fromkeys(workloads)) or _still_there(here)
    if not names:
        raise ResultMissing("results-none")
    in_ci = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
    refuse_unasked(reason, in_ci=in_ci, allow_ci=allow_ci)
    asked = Blessing(
        by=git.author(here.root),
        at=datetime.now(UTC),
        reason=cleaned(reason).strip(),
        commit=here.commit(),
    )
    planned: list[_Plan] = []
    for name in names:
        plan = _Plan(here, name)
        if (why := _why_gone(here, plan.newest)) is not None:
            raise BlessRefused("workload-gone", subject=name, why=why)
        if occasion:
            plan.new = blessing.add_occasion(plan.newest, plan.old, asked)
        else:
            plan.new = blessing.bless(
                plan.results,
                plan.old,
                asked,
                code_now=here.code_now(plan.newest.code),
                settings=here.settings,
                consent=blessing.Consent(accept_regression=accept_regression, hold=hold),
            )
        planned.append(plan)
    # All are blessed at once, or none.
    for plan in planned:
        here.store.baselines.ready_for(plan.new)
    for plan in planned:
        path = os.path.relpath(here.store.baselines.save(plan.new, replacing=plan.old))
        show(_shown(here, plan, path=path, occasion=occasion))
    show(say.message(note("baseline-commit")))


class _Plan:
    """What is to be blessed of one workload, newest result first."""

    new: Baseline

    def __init__(self, here: Project, name: str) -> None:
        slug = here.latest(name).result.machine.slug
        listed = here.store.results.listed(name, slug)
        self.results = [one.found for one in listed if isinstance(one.found, Result)]
        self.newest = self.results[0]
        self.old = here.store.baselines.load(slug, name)


def _shown(here: Project, plan: _Plan, *, path: str, occasion: bool) -> str:
    new, newest = plan.new, plan.newest
    rows = blessing.differences(plan.old, new)
    known = [] if occasion else blessing.worth_knowing(new, newest, _branch_without(newest, here))
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


def _still_there(here: Project) -> tuple[str, ...]:
    """The workloads with kept results but for those that are gone, which are named."""
    names = []
    for name in here.store.results.workloads():
        with suppress(ResultUnreadable):  # which is refused when it is to be blessed
            if (why := _why_gone(here, here.latest(name).result)) is not None:
                show(say.fact(note("left-out-gone", workload=name, why=why)))
                continue
        names.append(name)
    return tuple(names)


def _why_gone(here: Project, result: Result) -> Note | None:
    """Why a workload is there no more; None where it is, or nobody knows."""
    workload, root = result.workload, here.root
    if not (root / workload.source).is_file():
        return note("source-gone", source=workload.source)
    is_collected = (root / workload.source).is_relative_to(root / here.settings.workloads)
    now = here.code_now(result.code)
    if not is_collected or not changed_code(result.code, now):
        return None
    ids = _collected_ids(root)
    if not ids or workload.id in ids:
        return None
    return note("source-without", source=workload.source, workload=workload.id)


@cache
def _collected_ids(root: Path) -> frozenset[str]:
    """All workloads of the project; none where they cannot be collected, which the next gate
    says.
    """
    try:
        return frozenset(workload.id for workload in collect(root).workloads)
    except ConfigInvalid:
        return frozenset()
