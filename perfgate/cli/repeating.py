"""`perfgate calibrate`: measures how far unchanged repeats differ."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from perfgate.bless import calibrate as calibration
from perfgate.bless.holds import budgets_of, holding, last_plan, wider_budgets
from perfgate.cli.project import Project, workload_of
from perfgate.cli.terminal import Hold, hold_option, new_page, show, show_error, usage
from perfgate.model.baseline import Baseline
from perfgate.model.errors import BaselineMissing, CalibrationRefused, PerfgateError
from perfgate.model.note import note
from perfgate.model.workload import Workload
from perfgate.plugin.listing import collect
from perfgate.render.history import calibration_text
from perfgate.system.process import gate_command, run_to_end
from perfgate.words import say

REPEATS = 5
"""Runs that `calibrate` measures of a workload: enough for the SD between runs, in about a minute.
"""
MEASURED = (0, 1)
"""Exit statuses of a pytest that has judged workloads: the gate is open, or shut."""

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
def calibrate(workloads: tuple[str, ...], *, runs: int | None, kept: bool, hold: Hold) -> None:
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
    refusals: list[PerfgateError] = []
    for workload, baseline in targets:
        try:
            show(_calibrated(here, workload, baseline, since=since, hold=hold))
        except PerfgateError as refused:
            refusals.append(refused)
    for refusal in refusals[:-1]:
        show_error(refusal)
    if refusals:
        raise refusals[-1]
    show(say.message(note("baseline-commit")))


def _targets(here: Project, names: Sequence[str], slug: str) -> list[Target]:
    """The named workloads with their baselines on this machine; without names, all that have
    one.
    """
    workloads = collect(here.root).workloads
    chosen = [workload_of(name, workloads) for name in dict.fromkeys(names)]
    targets: list[Target] = []
    for workload in chosen or workloads:
        baseline = here.store.baselines.load(slug, workload.id)
        if baseline is not None:
            targets.append((workload, baseline))
        elif chosen:
            raise BaselineMissing("baseline-not-here", subject=workload.id, machine=slug)
    if not targets:
        raise BaselineMissing("baseline-not-here", subject=here.baselines, machine=slug)
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
    here: Project, workload: Workload, baseline: Baseline, *, since: datetime | None, hold: Hold
) -> str:
    """Write what is found of one workload into its baseline, and return it as text.

    Where it was measured again since a moment, that must have left a repeat.
    """
    results, unreadable = here.repeats(baseline)
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
