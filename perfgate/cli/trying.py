"""Commands that try perfgate on this machine: doctor, demo, selftest."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click

from perfgate.cli.arguments import PATH
from perfgate.cli.common import printable, screen
from perfgate.demo.replay import play
from perfgate.doctor import Finding, Place, check_distribution, check_orphans, examine
from perfgate.execute.addopts import addopts_of, distribution_of
from perfgate.init.origin import command
from perfgate.init.scaffold import installs_fail
from perfgate.machine import read_machine
from perfgate.model.errors import (
    EXIT_OPEN,
    EXIT_SHUT,
    BaselineUnreadable,
    ConfigInvalid,
    PerfgateError,
)
from perfgate.model.note import note
from perfgate.model.pyproject import find_root, load_settings
from perfgate.model.settings import Settings
from perfgate.plugin.listing import Collected, collect
from perfgate.profilers.nsys.tool import find_nsys
from perfgate.render.findings import findings_text
from perfgate.selftest.play import Runner
from perfgate.selftest.play import play as play_selftest
from perfgate.store import Store
from perfgate.words import say


@click.command()
def doctor() -> None:
    """Check all that a first run needs, and say what to do about each failure."""
    root = find_root(Path.cwd())
    settings = load_settings(root, {})
    width, colour = screen()
    collected: Collected | None = None
    orphans: list[str] | PerfgateError
    try:
        collected = collect(root) if (root / settings.workloads).is_dir() else Collected()
        orphans = _orphans(root, settings, collected)
    except (ConfigInvalid, BaselineUnreadable) as unknown:
        orphans = unknown
    found = (
        *examine(Place(root=root, settings=settings, env=os.environ)),
        check_orphans(orphans),
        *_distribution(collected),
        *_workflows(root),
    )
    rows = [(one.check, one.ok, say.fact(one.said), say.next_step(one.said)) for one in found]
    click.echo(printable(findings_text(rows, width=width, colour=colour)), nl=False)
    sys.exit(EXIT_SHUT if any(one.ok is False for one in found) else EXIT_OPEN)


def _distribution(collected: Collected | None) -> tuple[Finding, ...]:
    """Whether a standing option asks pytest-xdist to distribute."""
    if collected is None:
        return ()
    words = [
        *addopts_of(collected.configuration),
        *shlex.split(os.environ.get("PYTEST_ADDOPTS", "")),
    ]
    return check_distribution(distribution_of(words))


def _workflows(root: Path) -> tuple[Finding, ...]:
    """How runners get perfgate."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    fail = installs_fail(top)
    if fail is None:
        return ()
    said = note("workflows-fail", command=command()) if fail else note("workflows-install")
    return (Finding(check="workflows", ok=not fail, said=said),)


def _orphans(root: Path, settings: Settings, collected: Collected) -> list[str]:
    """Files of baselines without a workload.

    Raises:
        ConfigInvalid: not all workloads can be collected, so that nobody knows which are gone.
        BaselineUnreadable: a baseline cannot be read.
    """
    known = {workload.id for workload in collected.workloads}
    listed = Store(root, settings.baselines).baselines.listed(at_home=True)
    orphans = sorted(os.path.relpath(one.path, root) for one in listed if one.workload not in known)
    if orphans and collected.skipped_files:
        skipped = tuple(f"{file} ({why})" for file, why in collected.skipped_files.items())
        raise ConfigInvalid("baselines-perhaps-orphaned", count=len(orphans), skipped=skipped)
    broken = [one.found for one in listed if isinstance(one.found, BaselineUnreadable)]
    if broken and not orphans:
        raise broken[0]
    return orphans


def _say(line: str) -> None:
    click.echo(printable(line))


@click.command()
@click.option("--keep", type=PATH, help="Keep the demo's folder here, which must not exist.")
def demo(keep: Path | None) -> None:
    """Replay a gate on captures recorded on an NVIDIA H200. Needs neither a GPU nor nsys."""
    width, colour = screen()
    sys.exit(play(_say, width=width, colour=colour, keep=keep))


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
        click.echo(say.message(note("selftest-without-gpu")))
        sys.exit(EXIT_SHUT)
    tool = find_nsys(nsys, os.environ, setting=load_settings(find_root(Path.cwd()), {}).nsys)
    runner = Runner(machine=machine, nsys=tool, python=sys.executable, env=os.environ)
    width, colour = screen()
    sys.exit(play_selftest(runner, _say, width=width, colour=colour, keep=keep, cpu=cpu))
