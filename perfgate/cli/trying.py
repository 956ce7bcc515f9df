"""Commands that try perfgate on this machine: doctor, demo, selftest."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from perfgate.cli.project import Project, find_tool
from perfgate.cli.terminal import PATH, new_page, screen, show
from perfgate.demo.replay import play
from perfgate.doctor import CheckResult, Examined, check_orphans, examine
from perfgate.init.project import COMMAND
from perfgate.init.scaffold import installs_fail
from perfgate.machine import read_machine
from perfgate.model.errors import (
    EXIT_OPEN,
    EXIT_SHUT,
    BaselineUnreadable,
    ConfigInvalid,
    PerfgateError,
)
from perfgate.model.note import Severity, note
from perfgate.plugin.listing import Collected, collect
from perfgate.render.checks import findings_text
from perfgate.selftest.play import Runner
from perfgate.selftest.play import play as play_selftest
from perfgate.words import say


@click.command()
def doctor() -> None:
    """Check all that a first run needs, and say what to do about each failure."""
    here = Project.here()
    found = [*examine(Examined(root=here.root, settings=here.settings, env=os.environ))]
    try:
        is_there = (here.root / here.settings.workloads).is_dir()
        collected = collect(here.root) if is_there else Collected()
    except ConfigInvalid as unknown:
        found.append(check_orphans(unknown))
    else:
        found.append(check_orphans(_orphans(here, collected)))
    found += _workflows(here.root)
    rows = [(one.check, one.ok, say.fact(one.said), say.next_step(one.said)) for one in found]
    show(findings_text(new_page(), rows))
    sys.exit(EXIT_SHUT if any(one.ok is False for one in found) else EXIT_OPEN)


def _workflows(root: Path) -> tuple[CheckResult, ...]:
    """How runners get perfgate."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    fail = installs_fail(top)
    if fail is None:
        return ()
    bad = note("workflows-fail", Severity.INVALID, command=COMMAND)
    return (CheckResult("workflows", bad if fail else note("workflows-install")),)


def _orphans(here: Project, collected: Collected) -> list[str] | PerfgateError:
    """Files of baselines without a workload, or why nobody knows which these are."""
    known = {workload.id for workload in collected.workloads}
    listed = here.store.baselines.listed(at_home=True)
    orphans = sorted(
        os.path.relpath(one.path, here.root) for one in listed if one.workload not in known
    )
    if orphans and collected.skipped_files:
        skipped = tuple(f"{file} ({why})" for file, why in collected.skipped_files.items())
        return ConfigInvalid("baselines-perhaps-orphaned", count=len(orphans), skipped=skipped)
    broken = [one.found for one in listed if isinstance(one.found, BaselineUnreadable)]
    return broken[0] if broken and not orphans else orphans


@click.command()
@click.option("--keep", type=PATH, help="Keep the demo's folder here, which must not exist.")
def demo(keep: Path | None) -> None:
    """Replay a gate on captures recorded on an NVIDIA H200. Needs neither a GPU nor nsys."""
    sys.exit(play(show, screen(), keep=keep))


@click.command()
@click.option("--nsys", help="The nsys program (default: search for it).")
@click.option("--keep", type=PATH, help="Keep the folder here, which must not exist.")
@click.option(
    "--cpu", is_flag=True, help="Try only the path from nsys to a verdict, without a GPU."
)
def selftest(*, nsys: str | None, keep: Path | None, cpu: bool) -> None:
    """Try the gate on this runner: an unchanged loop must pass, planted regressions must fail.

    Each must be caught by the metric that is there for it. Takes some 4 minutes on a GPU.
    Works in a project of its own, and writes nothing into this one.
    """
    machine = read_machine(os.environ, nsys=None, nsys_options=())
    if not machine.gpus and not cpu:
        show(say.message(note("selftest-without-gpu")))
        sys.exit(EXIT_SHUT)
    runner = Runner(machine=machine, nsys=find_tool(nsys), python=sys.executable, env=os.environ)
    sys.exit(play_selftest(runner, show, screen(), keep=keep, cpu=cpu))
