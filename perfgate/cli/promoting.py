"""`perfgate bless` and `perfgate calibrate`: make kept results baselines, and measure how far
unchanged repeats of them differ."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

import click

from perfgate.bless import bless as blessing
from perfgate.bless import calibrate as calibration
from perfgate.bless.holds import (
    Hold,
    budgets_of,
    costs,
    holding,
    last_plan,
    wider_budgets,
    worth_knowing,
)
from perfgate.cli.project import Project, workload_of
from perfgate.cli.terminal import cleaned, new_page, show, show_error, usage
from perfgate.model.baseline import Baseline, Blessing, Result
from perfgate.model.errors import (
    BaselineMissing,
    BlessRefused,
    CalibrationRefused,
    ConfigInvalid,
    PerfgateError,
    RepositoryUnreadable,
    ResultMissing,
)
from perfgate.model.note import Note, note
from perfgate.model.pyproject import FRACTION
from perfgate.model.workload import Workload
from perfgate.plugin.listing import collect
from perfgate.render.history import calibration_text
from perfgate.render.records import bless_text
from perfgate.system import git
from perfgate.system.process import gate_command, run_to_end
from perfgate.words import say

REPEATS: Final = 5
"""Runs that `calibrate` measures of a workload: enough for the SD between runs, in about a minute.
"""
MEASURED: Final = (0, 1)
"""Exit statuses of a pytest that has judged workloads: the gate is open, or shut."""


def _hold(_context: click.Context, _option: click.Parameter, word: str | None) -> Hold | None:
    if word is None:
        return None
    try:
        return "auto" if word == "auto" else FRACTION.validate_python(word)
    except ValueError:
        raise usage("hold-invalid", value=word) from None


hold_option = click.option(
    "--hold",
    callback=_hold,
    metavar="auto|8%",
    help="Where a gate cannot hold a budget here, write a wider one into the baseline: this, or "
    "what it can hold.",
)


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
    hold: Hold | None,
    allow_ci: bool,
) -> None:
    """Make the kept result of each WORKLOAD (default: of all) its baseline. Never measures."""
    if occasion and accept_regression:
        raise usage("options-contradict", option="--occasion", other="--accept-regression")
    if not reason.strip():
        raise BlessRefused("bless-without-reason")
    if os.environ.get("CI", "").lower() in {"1", "true", "yes"} and not allow_ci:
        raise BlessRefused("bless-in-ci")
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
    consent = None if occasion else blessing.Consent(accept_regression=accept_regression, hold=hold)
    planned = [_planned(here, name, asked, consent) for name in names]
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


def _planned(here: Project, name: str, asked: Blessing, consent: blessing.Consent | None) -> _Plan:
    """What a workload's baseline becomes; without `consent`, by one more occasion."""
    slug = here.latest(name).result.machine.slug
    results = [one.result for one in here.store.results.kept(name, slug)[0]]
    newest, old = results[0], here.store.baselines.load(slug, name)
    if consent is None:
        return _Plan(newest, old, blessing.add_occasion(newest, old, asked))
    code = here.code_now(newest.code)
    new = blessing.bless(
        results, old, asked, code_now=code, settings=here.settings, consent=consent
    )
    return _Plan(newest, old, new)


def _shown(here: Project, plan: _Plan, *, path: str, occasion: bool) -> str:
    new, newest = plan.new, plan.newest
    held, *unheld = holding(new, newest.workload, here.settings)
    known: list[Note] = []
    if not occasion:
        known = [*worth_knowing(new, newest, _branch_without(newest, here)), *unheld]
    notes = {
        "runs": [costs(new, budgets_of(newest.workload, here.settings))],
        "holds": [held],
        "note": known,
    }
    rows = blessing.differences(plan.old, new)
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


Target = tuple[Workload, Baseline]


@click.command()
@click.argument("workloads", nargs=-1)
@click.option(
    "--runs",
    type=click.IntRange(1, 10),
    help=f"Runs to measure of each WORKLOAD.  [default: {REPEATS}]",
)
@click.option("--kept", is_flag=True, help="Measure nothing: take the repeats that are kept.")
@hold_option
def calibrate(
    workloads: tuple[str, ...], *, runs: int | None, kept: bool, hold: Hold | None
) -> None:
    """Measure how far unchanged repeats of each WORKLOAD (default: of all) differ.

    Writes the SDs between runs and between occasions into its baseline, by which the gate then
    judges, and says how small a slowdown the gate can see. Run it again at other times of day: 5
    occasions are wanted.
    """
    if kept and runs is not None:
        raise usage("options-contradict", option="--kept", other="--runs")
    here = Project.here()
    targets = _targets(here, workloads, here.machine(nsys=None).slug)
    since = None if kept else _measure_again(here, targets, runs=runs or REPEATS)
    refusal: PerfgateError | None = None
    for workload, baseline in targets:
        try:
            show(_calibrated(here, workload, baseline, since=since, hold=hold))
        except PerfgateError as refused:
            if refusal is not None:
                show_error(refusal)
            refusal = refused
    if refusal is not None:
        raise refusal
    show(say.message(note("baseline-commit")))


def _targets(here: Project, names: Sequence[str], slug: str) -> list[Target]:
    """The named workloads with their baselines on this machine; without names, all that have
    one.
    """
    workloads = collect(here.root).workloads
    chosen = [workload_of(name, workloads) for name in dict.fromkeys(names)] or workloads
    loaded = [(one, here.store.baselines.load(slug, one.id)) for one in chosen]
    targets = [(one, baseline) for one, baseline in loaded if baseline is not None]
    lacking = [one.id for one, baseline in loaded if baseline is None] if names else []
    if lacking or not targets:
        subject = next(iter(lacking), here.settings.baselines)
        raise BaselineMissing("baseline-not-here", subject=subject, machine=slug)
    return targets


def _measure_again(here: Project, targets: Sequence[Target], *, runs: int) -> datetime:
    """Gate the workloads once more, all runs in one look, and return when that began."""
    for _, baseline in targets:
        calibration.refuse_changed(baseline, code_now=here.code_now(baseline.code_files))
    selected = [workload.nodeid or f"{workload.source}::{workload.id}" for workload, _ in targets]
    options = (f"--perfgate-runs={runs}", f"--perfgate-max-runs={runs}", *selected)
    started_at = datetime.now(UTC)
    command = gate_command(sys.executable, *options, root=here.root)
    status = run_to_end(command, cwd=here.root, env=os.environ)
    if status not in MEASURED:
        raise CalibrationRefused("gate-unfinished", exit_status=status)
    return started_at


def _calibrated(
    here: Project,
    workload: Workload,
    baseline: Baseline,
    *,
    since: datetime | None,
    hold: Hold | None,
) -> str:
    """Write what is found of one workload into its baseline, and return it as text.

    Where it was measured again since a moment, that must have left a repeat.
    """
    kept, unreadable = here.store.results.kept(baseline.workload, baseline.machine.slug)
    results = [one.result for one in kept]
    if since is not None:
        fresh = next((one for one in results if one.measured_at >= since), None)
        calibration.refuse_fresh(baseline, fresh)
    budgets = budgets_of(workload, here.settings)
    found = calibration.calibrate(
        baseline, results, budgets=budgets, at=datetime.now(UTC), unreadable=unreadable
    )
    calibrated = found.baseline
    if hold is not None:
        plan = last_plan(workload, baseline, here.settings)
        wider = wider_budgets(calibrated, budgets, plan, hold)
        calibrated = calibrated.model_copy(update={"held": wider})
    path = here.store.baselines.save(calibrated, replacing=baseline)
    held = holding(calibrated, workload, here.settings)
    return calibration_text(new_page(), found, tuple(held), path=os.path.relpath(path))
