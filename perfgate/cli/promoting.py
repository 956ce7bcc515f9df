"""`perfgate bless`: makes kept results baselines."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal

import click

from perfgate.bless import bless as blessing
from perfgate.cli.arguments import HELD, workload_name
from perfgate.cli.common import Project, cleaned, latest, printable, project, screen
from perfgate.cli.complaint import complaint, usage
from perfgate.execute.provenance import code_now
from perfgate.model.baseline import Baseline, Result, changed_code
from perfgate.model.errors import (
    BlessRefused,
    ConfigInvalid,
    PerfgateError,
    RepositoryUnreadable,
    ResultMissing,
    ResultUnreadable,
)
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.settings import ABForm
from perfgate.plugin.listing import collected_workloads
from perfgate.render.records import bless_text
from perfgate.store import Store
from perfgate.system import git
from perfgate.words import say


@click.command()
@click.argument("workloads", nargs=-1, type=workload_name)
@click.option("--reason", required=True, help="Why this is to be the baseline; kept in it.")
@click.option("--accept-regression", is_flag=True, help="Bless a loss beyond budget.")
@click.option(
    "--occasion",
    is_flag=True,
    help="Add the result, an unchanged repeat, to the baseline that is there instead of replacing it.",
)
@click.option(
    "--hold",
    type=HELD,
    metavar="auto|8%",
    help="Where a gate cannot hold a budget here, write a wider one into the baseline: this, or what it can hold.",
)
@click.option("--allow-ci", is_flag=True, help="Bless even in CI, where nobody looks at it.")
def bless(
    workloads: tuple[str, ...],
    reason: str,
    *,
    accept_regression: bool,
    occasion: bool,
    hold: float | Literal["auto"] | None,
    allow_ci: bool,
) -> None:
    """Make the kept result of each WORKLOAD (default: of all) its baseline. Never measures."""
    if occasion and accept_regression:
        raise usage("options-contradict", option="--occasion", other="--accept-regression")
    here = project()
    width, colour = screen()
    reason = cleaned(reason)
    gone = _Gone(here)
    names = tuple(dict.fromkeys(workloads)) or _still_there(here.store, gone)
    if not names:
        raise ResultMissing("results-none")
    by, commit = git.author(here.root), git.read_commit(here.root, baselines=here.baselines)
    in_ci = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

    budgets: dict[str, Mapping[Metric, float]] = {}
    remarks: dict[str, Sequence[str]] = {}

    def plan(name: str) -> tuple[Baseline | None, Baseline]:
        results = _blessable(here.store, name)
        if (why := gone.why(results[0])) is not None:
            raise BlessRefused("workload-gone", subject=name, why=why)
        budgets[name] = {**here.settings.budgets, **results[0].workload.budgets}
        old = here.store.baselines.load(results[0].machine.slug, name)
        at = datetime.now(UTC)
        if occasion:
            return old, blessing.add_occasion(
                results,
                old,
                reason=reason,
                by=by,
                at=at,
                commit=commit,
                in_ci=in_ci,
                allow_ci=allow_ci,
            )
        new = blessing.bless(
            results,
            old,
            reason=reason,
            by=by,
            at=at,
            commit=commit,
            code_now=code_now(results[0].code, here.root, baselines=here.baselines),
            budgets=budgets[name],
            accept_regression=accept_regression,
            in_ci=in_ci,
            allow_ci=allow_ci,
            pairs=blessing.allows_pairs(here.settings),
            blocks=here.settings.ab_run is not ABForm.ALTERNATE,
            insist=hold is not None,
            hold=hold,
        )
        told = blessing.worth_knowing(new, results[0], not_on=_branch_without(results[0], here))
        remarks[name] = (
            *told,
            *blessing.not_held(new, results[0].workload, budgets[name], here.settings),
        )
        return old, new

    planned = _all_or_nothing(names, plan)
    for _, new in planned:
        here.store.baselines.ready_for(new)
    for old, new in planned:
        shown = os.path.relpath(here.store.baselines.save(new, replacing=old))
        rows, own = blessing.differences(old, new), budgets.get(new.workload)
        costs = f"{blessing.costs(new, own)} Holds: {blessing.holding(new, own or {})}."
        notes = [("runs", costs), *(("note", one) for one in remarks.get(new.workload, ()))]
        told = bless_text(old, new, rows, width=width, colour=colour, notes=notes, path=shown)
        click.echo(printable(told), nl=False)
    click.echo(say.message(note("baseline-commit")))


def _branch_without(result: Result, here: Project) -> str | None:
    """The default branch where it does not hold the commit that was measured."""
    if result.commit is None or result.commit.dirty:
        return None
    with suppress(RepositoryUnreadable):
        return git.default_branch_without(here.root, result.commit.sha)
    return None


class _Gone:
    """Tells workloads that were renamed or deleted since they were measured from those that are
    there."""

    def __init__(self, here: Project) -> None:
        self._here = here

    def why(self, result: Result) -> Note | None:
        """Return why there is no such workload any more; None where there is one, or nobody knows."""
        workload, root = result.workload, self._here.root
        if not (root / workload.source).is_file():
            return note("source-gone", source=workload.source)
        is_collected = (root / workload.source).is_relative_to(root / self._here.settings.workloads)
        if (
            not is_collected
            or not changed_code(
                result.code, code_now(result.code, root, baselines=self._here.baselines)
            )
            or self._ids is None
        ):
            return None
        if workload.id in self._ids:
            return None
        return note("source-without", source=workload.source, workload=workload.id)

    @cached_property
    def _ids(self) -> frozenset[str] | None:
        """All workloads of the project; None where they cannot be collected, which the next gate
        will tell."""
        try:
            return frozenset(workload.id for workload in collected_workloads(self._here.root))
        except ConfigInvalid:
            return None


def _still_there(store: Store, gone: _Gone) -> tuple[str, ...]:
    """The workloads with kept results but for those that are gone, of which it is said so."""
    names = []
    for name in store.results.workloads():
        with suppress(ResultUnreadable):  # to be told as a refusal
            if (why := gone.why(latest(store, name).result)) is not None:
                left_out = note("left-out-gone", workload=name, why=why)
                click.echo(printable(say.fact(left_out)))
                continue
        names.append(name)
    return tuple(names)


def _all_or_nothing(
    names: Sequence[str], plan: Callable[[str], tuple[Baseline | None, Baseline]]
) -> list[tuple[Baseline | None, Baseline]]:
    """Plan every blessing before the first is written; of several, each that is refused is told,
    and that none is."""
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
            click.echo(complaint(refusal), err=True)
        none = note("blessed-none-although", able=tuple(able)) if able else note("blessed-none")
        click.echo(printable(say.message(none)), err=True)
    if refusals:
        raise refusals[-1]
    return planned


def _blessable(store: Store, workload: str) -> list[Result]:
    """A workload's kept results on the machine of the newest, newest first."""
    listed = store.results.listed(workload, latest(store, workload).result.machine.slug)
    return [one.found for one in listed if isinstance(one.found, Result)]
