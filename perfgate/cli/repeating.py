"""`perfgate calibrate`: measures how far unchanged repeats differ."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import click

from perfgate.bless import bless as blessing
from perfgate.bless import calibrate as calibration
from perfgate.bless.repeats import clean_commits
from perfgate.cli.arguments import HELD, workload_name
from perfgate.cli.common import Project, kept_results, printable, project, screen, workload_of
from perfgate.cli.complaint import complaint, usage
from perfgate.execute.provenance import code_now
from perfgate.judge.looks import STORED_PLAN
from perfgate.machine import read_machine
from perfgate.model.baseline import Baseline
from perfgate.model.errors import (
    BaselineMissing,
    CalibrationRefused,
    NsysNotFound,
    PerfgateError,
)
from perfgate.model.machine import Machine
from perfgate.model.note import note
from perfgate.model.settings import ABForm
from perfgate.model.workload import Workload
from perfgate.plugin.listing import collected_workloads
from perfgate.profilers.nsys.command import trace_options
from perfgate.profilers.nsys.tool import find_nsys
from perfgate.render.calibration import CalibrationHead, SpreadRow, calibration_text
from perfgate.system import git
from perfgate.system.gate_process import gate_command, run_to_end
from perfgate.words import say

REPEATS = 5
"""Runs that `calibrate` measures of a workload: enough to tell the SD between runs, in about a
minute."""
MEASURED = (0, 1)
"""Exit statuses of a pytest that has judged workloads: the gate is open, or shut."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A workload to calibrate."""

    workload: Workload
    baseline: Baseline


@click.command()
@click.argument("workloads", nargs=-1, type=workload_name)
@click.option(
    "--runs",
    type=click.IntRange(1, 10),
    help=f"Runs to measure of each WORKLOAD.  [default: {REPEATS}]",
)
@click.option("--kept", is_flag=True, help="Measure nothing: take the repeats that are kept.")
@click.option(
    "--hold",
    type=HELD,
    metavar="auto|8%",
    help="Where a gate cannot hold a budget here, write a wider one into the baseline: this, or what it can hold.",
)
def calibrate(
    workloads: tuple[str, ...],
    *,
    runs: int | None,
    kept: bool,
    hold: float | Literal["auto"] | None,
) -> None:
    """Measure how far unchanged repeats of each WORKLOAD (default: of all) differ.

    Writes the SDs between runs and between occasions into its baseline, by which the gate then
    judges, and says how small a slowdown the gate can see. Run it again at other times of day: 5
    occasions are wanted.
    """
    if kept and runs is not None:
        raise usage("options-contradict", option="--kept", other="--runs")
    here = project()
    machine = _this_machine(here)
    targets = _targets(here, workloads, machine.slug)
    since = None if kept else _measure_again(here, targets, machine, runs=runs or REPEATS)
    refusals: list[PerfgateError] = []
    for target in targets:
        try:
            click.echo(printable(_calibrated(here, target, since=since, hold=hold)), nl=False)
        except PerfgateError as refused:
            refusals.append(refused)
    for refusal in refusals[:-1]:
        click.echo(complaint(refusal), err=True)
    if refusals:
        raise refusals[-1]
    click.echo(say.message(note("baseline-commit")))


def _targets(here: Project, names: Sequence[str], slug: str) -> list[Target]:
    """The named workloads with their baselines on this machine; without names, all that have one."""
    workloads = collected_workloads(here.root)
    chosen = [workload_of(name, workloads) for name in dict.fromkeys(names)]
    targets: list[Target] = []
    for workload in chosen or workloads:
        baseline = here.store.baselines.load(slug, workload.id)
        if baseline is not None:
            calibration.refuse_parameters(baseline, workload)
            targets.append(Target(workload=workload, baseline=baseline))
        elif chosen:
            raise BaselineMissing("baseline-not-here", subject=workload.id, machine=slug)
    if not targets:
        raise BaselineMissing("baseline-not-here", subject=here.baselines, machine=slug)
    return targets


def _this_machine(here: Project) -> Machine:
    """What a gate would find here; without its nsys, whose absence that gate reports."""
    options = trace_options(graph_trace=here.settings.cuda_graph_trace)
    try:
        nsys = str(find_nsys(None, os.environ, setting=here.settings.nsys).version)
    except NsysNotFound:
        nsys = None
    return read_machine(os.environ, nsys=nsys, nsys_options=options)


def _measure_again(
    here: Project, targets: Sequence[Target], machine: Machine, *, runs: int
) -> datetime:
    """Gate the workloads once more, all runs in one look, and return when that began."""
    commit = git.read_commit(here.root, baselines=here.baselines)
    for target in targets:
        calibration.refuse_changed(
            target.baseline,
            target.workload,
            kept_results(here.store, target.baseline)[0],
            code_now=lambda paths: code_now(paths, here.root, baselines=here.baselines),
            commit=commit,
            machine=machine,
        )
    selected = [
        target.workload.nodeid or f"{target.workload.source}::{target.workload.id}"
        for target in targets
    ]
    options = (f"--perfgate-runs={runs}", f"--perfgate-max-runs={runs}", *selected)
    started_at = datetime.now(UTC)
    status = run_to_end(
        gate_command(sys.executable, *options, root=here.root), cwd=here.root, env=os.environ
    )
    if status not in MEASURED:
        raise CalibrationRefused("gate-unfinished", exit_status=status)
    return started_at


def _calibrated(
    here: Project,
    target: Target,
    *,
    since: datetime | None,
    hold: float | Literal["auto"] | None,
) -> str:
    """Write what is found of one workload into its baseline, and return what is told of it.

    Where it was measured again since a moment, that must have left a repeat.
    """
    results, unreadable = kept_results(here.store, target.baseline)
    if since is not None:
        calibration.refuse_fresh(
            target.baseline, next((r for r in results if r.measured_at >= since), None)
        )
    ab_run = here.settings.ab_run is not ABForm.OFF and bool(clean_commits(target.baseline))
    budgets = {**here.settings.budgets, **target.workload.budgets}
    found = calibration.calibrate(
        target.baseline,
        results,
        at=datetime.now(UTC),
        budgets=budgets,
        ab_run=ab_run,
        unreadable=unreadable,
    )
    calibrated = found.baseline
    if hold is not None:
        plan = blessing.last_plan(
            target.workload,
            calibrated,
            pairs=blessing.allows_pairs(here.settings),
            blocks=here.settings.ab_run is not ABForm.ALTERNATE,
        )
        wider = blessing.wider_budgets(
            calibrated, budgets, plan, hold=None if hold == "auto" else hold
        )
        calibrated = calibrated.model_copy(update={"held": wider})
    path = here.store.baselines.save(calibrated, replacing=target.baseline)
    holds = f"Holds: {blessing.holding(calibrated, budgets)}."
    unheld = blessing.not_held(calibrated, target.workload, budgets, here.settings)
    repeats = found.repeats
    head = CalibrationHead(
        workload=target.workload.id,
        machine=found.baseline.machine.gpu_name,
        runs=repeats.runs,
        occasions=len(repeats.occasions),
        first=repeats.first,
        last=repeats.last,
        gate_runs=STORED_PLAN.most_runs,
        in_the_end="in an A/B run" if ab_run else f"with {STORED_PLAN.most_runs} runs",
    )
    rows = [
        SpreadRow(
            metric=clock.metric,
            spread=clock.spread,
            budget=clock.budget,
            smallest=clock.smallest,
            in_the_end=clock.in_the_end,
        )
        for clock in found.clocks
    ]
    width, colour = screen()
    shown = os.path.relpath(path)
    return calibration_text(
        head, rows, width=width, colour=colour, remarks=(*found.remarks, holds, *unheld), path=shown
    )
