"""The shell's door: translates words into calls, prints what comes back, and exits with the error's code."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import click

from perfgate import __version__, blessing, calibration, git
from perfgate.demo.replay import play
from perfgate.doctor import examine
from perfgate.explain.advice import advise, classify
from perfgate.explain.sides import differences, made_up_of
from perfgate.explaining import Subject, compared_with, of_capture, of_result, opened, rules_on
from perfgate.history import read_history
from perfgate.judge.stages import STORED_PLAN
from perfgate.machine import read_machine
from perfgate.metrics.measure import measure
from perfgate.model.baseline import Baseline, Result
from perfgate.model.errors import (
    EXIT_OPEN,
    EXIT_SHUT,
    BaselineMissing,
    BaselineUnreadable,
    CalibrationRefused,
    ConfigInvalid,
    PerfgateError,
    ResultMissing,
    StoreFailed,
)
from perfgate.model.metric import Metric
from perfgate.model.settings import DuetForm, Settings
from perfgate.model.side import Side
from perfgate.model.workload import Workload
from perfgate.nsys.tool import NsysTool, find_nsys
from perfgate.pages import Shelf, document_of, page_of
from perfgate.plugin.listing import collected_workloads
from perfgate.plugin.outputs import is_page_or_empty
from perfgate.pytest_door import ending_as_on_ctrl_c, gate_command, run_to_end
from perfgate.render import numbers
from perfgate.render.calibration import CalibrationHead, SpreadRow, calibration_text
from perfgate.render.document import SCHEMA_FILE
from perfgate.render.explanation import explanation_text
from perfgate.render.findings import findings_text
from perfgate.render.history import BLOCKS, history_json, history_text
from perfgate.render.html import page_html
from perfgate.render.measurement import measurement_text
from perfgate.render.page import Column, Page, Row, inert
from perfgate.render.records import baseline_text, bless_text, comparison_text
from perfgate.render.samples import sample_text
from perfgate.runner import code_now
from perfgate.selftest.play import Runner
from perfgate.selftest.play import play as play_selftest
from perfgate.settings import find_root, load_settings
from perfgate.store import KeptResult, ListedBaseline, Store


@dataclass(frozen=True, kw_only=True)
class Project:
    """What every command needs of the project it stands in."""

    root: Path
    store: Store
    settings: Settings

    @property
    def baselines(self) -> str:
        """The folder of the baselines, relative to the root."""
        return self.settings.baselines


def project() -> Project:
    """The project around the working directory."""
    root = find_root(Path.cwd())
    settings = load_settings(root, {})
    return Project(root=root, store=Store(root, settings.baselines), settings=settings)


def screen() -> tuple[int, bool]:
    """Width and colour of what is printed to."""
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size(fallback=(100, 24)).columns
    return width, terminal and "NO_COLOR" not in os.environ


@click.group(context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100})
@click.version_option(__version__, prog_name="perfgate")
def cli() -> None:
    """A CI gate for GPU performance. The gate itself is `pytest --perfgate`."""


@cli.command()
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
    latest = _latest(store, workload)
    listed = store.results(workload, latest.result.machine.slug)
    return [one.found for one in listed if isinstance(one.found, Result)]


def _latest(store: Store, workload: str) -> KeptResult:
    latest = store.latest_result(workload)
    if latest is None:
        kept = ", ".join(store.kept_workloads()) or "none"
        raise ResultMissing(
            subject=workload,
            fact="no result of it is kept",
            expectation=f"Kept are: {kept}",
            next_step="Measure it first: pytest --perfgate",
        )
    return latest


REPEATS = 5
"""Runs that `calibrate` measures of a workload: enough to tell the SD between runs, in about a minute."""
MEASURED = (0, 1)
"""Exit statuses of a pytest that has judged workloads: the gate is open, or shut."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A workload to calibrate."""

    workload: Workload
    baseline: Baseline


@cli.command()
@click.argument("workloads", nargs=-1)
@click.option("--runs", type=click.IntRange(1, 10), help=f"Runs to measure of each WORKLOAD.  [default: {REPEATS}]")
@click.option("--kept", is_flag=True, help="Measure nothing: take the repeats that are kept.")
def calibrate(workloads: tuple[str, ...], *, runs: int | None, kept: bool) -> None:
    """Measure how far unchanged repeats of each WORKLOAD (default: of all) differ.

    Writes the SDs between runs and between occasions into its baseline, by which the gate then judges, and says how
    small a slowdown the gate can see. Run it again at other times of day: 5 occasions are wanted.
    """
    if kept and runs is not None:
        raise click.UsageError("--kept measures nothing: leave --runs out.")
    here = project()
    targets = _targets(here, workloads)
    since = None if kept else _measure_again(here, targets, runs=runs or REPEATS)
    refusals: list[PerfgateError] = []
    for target in targets:
        try:
            click.echo(_calibrated(here, target, since=since), nl=False)
        except PerfgateError as refused:
            refusals.append(refused)
    for refusal in refusals[:-1]:
        click.echo(f"perfgate: {refusal}", err=True)
    if refusals:
        raise refusals[-1]
    click.echo("Commit the baselines in a commit of their own.")


def _targets(here: Project, names: Sequence[str]) -> list[Target]:
    """The named workloads with their baselines on this machine; without names, all that have one."""
    slug = read_machine(os.environ, nsys=None, nsys_options=()).slug
    known = {workload.id: workload for workload in collected_workloads(here.root)}
    targets: list[Target] = []
    for name in dict.fromkeys(names) or known:
        if name not in known:
            raise ConfigInvalid(
                subject=name,
                fact="there is no such workload",
                expectation=f"There are: {', '.join(sorted(known)) or 'none'}",
                next_step="See them all: pytest --perfgate --collect-only -q",
            )
        baseline = here.store.load_baseline(slug, name)
        if baseline is not None:
            calibration.refuse_parameters(baseline, known[name])
            targets.append(Target(workload=known[name], baseline=baseline))
        elif names:
            raise _nothing_blessed(name, slug)
    if not targets:
        raise _nothing_blessed(here.baselines, slug)
    return targets


def _nothing_blessed(subject: str, slug: str) -> BaselineMissing:
    return BaselineMissing(
        subject=subject,
        fact=f"there is no baseline of this machine ({slug})",
        expectation="It is of a baseline that the SDs are told, and there that they are kept",
        next_step='Make one: pytest --perfgate, then perfgate bless --reason "..."',
    )


def _measure_again(here: Project, targets: Sequence[Target], *, runs: int) -> datetime:
    """Gate the workloads once more, all runs in one look, and return when that began."""
    commit = git.read_commit(here.root, baselines=here.baselines)
    for target in targets:
        calibration.refuse_changed(
            target.baseline,
            target.workload,
            _results(here.store, target.baseline),
            code_now=lambda paths: code_now(paths, here.root),
            commit=commit,
        )
    selected = [target.workload.nodeid or f"{target.workload.source}::{target.workload.id}" for target in targets]
    options = (f"--perfgate-runs={runs}", f"--perfgate-max-runs={runs}", *selected)
    started_at = datetime.now(UTC)
    with ending_as_on_ctrl_c():
        status = run_to_end(gate_command(sys.executable, *options, root=here.root), cwd=here.root, env=os.environ)
    if status not in MEASURED:
        raise CalibrationRefused(
            subject="calibrate",
            fact=f"the gate that was to measure the repeats ended with exit status {status}",
            expectation="The baselines are as they were",
            next_step="See what pytest says above.",
        )
    return started_at


def _results(store: Store, baseline: Baseline) -> list[Result]:
    """What is kept of a baseline's workload on its machine, newest first."""
    listed = store.results(baseline.workload, baseline.machine.slug)
    return [one.found for one in listed if isinstance(one.found, Result)]


def _calibrated(here: Project, target: Target, *, since: datetime | None) -> str:
    """Write what is found of one workload into its baseline, and return what is told of it.

    Where it was measured again since a moment, that must have left a repeat.
    """
    results = _results(here.store, target.baseline)
    if since is not None:
        calibration.refuse_fresh(target.baseline, next((r for r in results if r.measured_at >= since), None))
    duet = here.settings.duet is not DuetForm.OFF and bool(calibration.clean_commits(target.baseline))
    found = calibration.calibrate(
        target.baseline,
        results,
        at=datetime.now(UTC),
        budgets={**here.settings.budgets, **target.workload.budgets},
        duet=duet,
    )
    path = here.store.save_baseline(found.baseline, replacing=target.baseline)
    repeats = found.repeats
    head = CalibrationHead(
        workload=target.workload.id,
        machine=found.baseline.machine.gpu_name,
        runs=repeats.runs,
        occasions=len(repeats.occasions),
        first=repeats.first,
        last=repeats.last,
        gate_runs=STORED_PLAN.fewest_to_fail,
        in_the_end="in a duet" if duet else f"with {STORED_PLAN.most_runs} runs",
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
    return calibration_text(head, rows, width=width, colour=colour, remarks=found.remarks, path=shown)


@cli.command()
@click.argument("workload", required=False)
def show(workload: str | None) -> None:
    """Show the baselines of WORKLOAD, or list all."""
    here = project()
    width, colour = screen()
    listed = [one for one in here.store.baselines() if workload in (None, one.workload)]
    if not listed:
        known = ", ".join(sorted({one.workload for one in here.store.baselines()}))
        raise BaselineMissing(
            subject=workload or here.baselines,
            fact="there is no baseline",
            expectation=f"There are baselines of: {known}" if known else "",
            next_step='Make one: pytest --perfgate, then perfgate bless --reason "..."',
        )
    broken = [one.found for one in listed if isinstance(one.found, BaselineUnreadable)]
    if workload is None:
        click.echo(_list(listed, width=width, colour=colour), nl=False)
    for one in listed:
        if workload is not None and isinstance(one.found, Baseline):
            path = os.path.relpath(one.path)
            click.echo(baseline_text(one.found, width=width, colour=colour, path=path), nl=False)
    if broken:
        raise broken[0]


LIST = (
    Column(title="machine"),
    Column(title="workload"),
    Column(title="step_ms", right=True),
    Column(title="runs", right=True),
    Column(title="blessed"),
    Column(title="reason", flexible=True, prose=True),
)


def _list(listed: Sequence[ListedBaseline], *, width: int, colour: bool) -> str:
    """A line a baseline; what cannot be read is in the list as well."""
    page = Page(width=width, colour=colour)
    rows: list[Row] = []
    for one in listed:
        if isinstance(one.found, Baseline):
            steps = one.found.values(Metric.STEP_MS)
            step = numbers.value(Metric.STEP_MS, median(steps)) if steps else "none"
            day, why = f"{one.found.blessing.at:%Y-%m-%d}", inert(one.found.blessing.reason)
            rows.append((one.slug, inert(one.workload), step, str(len(one.found.runs)), day, why))
        else:
            rows.append((one.slug, inert(one.workload), "", "", "", f"unreadable: {one.found.fact}"))
    page.table(LIST, rows, indent=0)
    return page.text


@cli.command()
@click.argument("workload")
@click.option(
    "--metric",
    type=click.Choice([metric.value for metric in Metric]),
    metavar="NAME",
    default=Metric.STEP_MS.value,
    show_default=True,
    help="The metric whose changes are told; any of them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def history(workload: str, *, metric: str, as_json: bool) -> None:
    """Show the blessed baselines of WORKLOAD through git's history, newest last."""
    here = project()
    width, colour = screen()
    found = read_history(here.root, here.baselines, workload, Metric(metric))
    if as_json:
        click.echo(history_json(found.history), nl=False)
    else:
        told = history_text(found.history, width=width, colour=colour, blocks=printable(BLOCKS) == BLOCKS)
        click.echo(printable(told), nl=False)
    if found.trouble is not None:
        raise found.trouble


def printable(text: str) -> str:
    """A text as the encoding of what is printed to can hold it; what it cannot is spelled out."""
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, errors="backslashreplace").decode(encoding)


@cli.command()
@click.argument("a")
@click.argument("b")
@click.option("--step", help="Of captures: the steps' range, a regular expression.")
def compare(a: str, b: str, *, step: str | None) -> None:
    """Show how B differs from A, without judging.

    Each is a baseline file, a kept result (file or folder), a capture (.nsys-rep or .sqlite), or the name of a
    workload: its baseline, or with `:kept` behind it, its newest kept result.
    """
    width, colour = screen()
    with ExitStack() as held:
        first, second = (one.side for one in _subjects(project().store, a, b, step, held))
    told = comparison_text(first, second, differences(first, second), width=width, colour=colour)
    click.echo(told, nl=False)


@cli.command()
@click.argument("words", metavar="WORKLOAD | A B", nargs=-1, required=True)
@click.option("--step", help="Of captures: the steps' range, a regular expression.")
@click.option("--full", is_flag=True, help="Leave nothing out: every part, and the whole names of kernels.")
@click.option(
    "--rules/--no-rules", default=None, help="Let nsys apply its expert rules, however large the captures; or not."
)
def explain(words: tuple[str, ...], *, step: str | None, full: bool, rules: bool | None) -> None:
    """Say what moved and where, by NVTX range, kernel, copy and call.

    Of WORKLOAD, in its newest kept result against what that was compared with; or in B against A, each of which is
    what `perfgate compare` takes, also captures that perfgate did not make.
    """
    here = project()
    width, colour = screen()
    with ExitStack() as held:
        match words:
            case (word,) if not _is_capture(word):
                kept = _latest(here.store, word)
                b, a = of_result(kept), compared_with(kept, here.store)
            case (first, second):
                a, b = _subjects(here.store, first, second, step, held)
            case (_,):
                raise click.UsageError(f"{words[0]} is one capture: name another one before it, to compare it with.")
            case _:
                raise click.UsageError(f"It takes a workload, or two things to compare; these are {len(words)}.")
        found = rules_on(a, b, _find_tool, asked=rules)
    rows = differences(a.side, b.side)
    told = explanation_text(
        a.side,
        b.side,
        rows,
        made_up_of(a.side, b.side, rows, full=full),
        width=width,
        colour=colour,
        ranks=b.ranks,
        classified=classify(b.side.medians(), b.side.breakdown),
        advice=advise(b.side.medians(), b.side.breakdown),
        rules=found,
        full=full,
    )
    click.echo(told, nl=False)


def _is_capture(word: str) -> bool:
    return Path(word).suffix in {".sqlite", ".nsys-rep"}


def _subjects(store: Store, a: str, b: str, step: str | None, held: ExitStack) -> tuple[Subject, Subject]:
    if step is None and _is_capture(a) != _is_capture(b):
        raise ConfigInvalid(
            subject=a if _is_capture(a) else b,
            fact="without --step, a capture is measured as one window",
            expectation="The other side is per step",
            next_step="Name the range of its steps: --step REGEX (of perfgate's own captures: --step step)",
        )
    return _subject(store, a, step, held), _subject(store, b, step, held)


def _subject(store: Store, word: str, step: str | None, held: ExitStack) -> Subject:
    path = Path(word)
    if _is_capture(word):
        return of_capture(path, step=step, find_tool=_find_tool, held=held)
    if path.is_dir() or path.name == "result.json":
        folder = path if path.is_dir() else path.parent
        kept = KeptResult(folder=folder, result=store.load_result(path))
        return of_result(kept, runs=kept.result.runs, label=word)
    if path.suffix == ".json":
        return Subject(side=Side.of_baseline(word, store.read_baseline(path)))
    if word.endswith(":kept"):
        kept = _latest(store, word.removesuffix(":kept"))
        return of_result(kept, runs=kept.result.runs, label=word)
    listed = store.baselines()
    found = [one for one in listed if one.workload == word]
    if len(found) == 1:
        if isinstance(found[0].found, BaselineUnreadable):
            raise found[0].found
        return Subject(side=Side.of_baseline(word, found[0].found))
    if found:
        raise BaselineMissing(
            subject=word,
            fact=f"it has {len(found)} baselines",
            expectation="One of them can be compared",
            next_step="Name its file: " + ", ".join(os.path.relpath(one.path) for one in found),
        )
    raise BaselineMissing(
        subject=word,
        fact="there is neither such a file nor such a workload with a baseline",
        expectation="It takes a baseline's file, a kept result, a capture, WORKLOAD or WORKLOAD:kept",
        next_step="See what there is: perfgate show",
    )


def _find_tool() -> NsysTool:
    return find_nsys(None, os.environ, setting=load_settings(find_root(Path.cwd()), {}).nsys)


def readable(name: str) -> str:
    """A file's name as text: its bytes need not be UTF-8."""
    return os.fsencode(name).decode(errors="replace")


@cli.command()
@click.argument("capture", type=click.Path(path_type=Path))
@click.option("--step", help="The steps' NVTX range, a regular expression. Without: the whole captured window.")
@click.option("--warmup", type=click.IntRange(min=0), default=0, show_default=True, help="Steps to leave out at first.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def inspect(capture: Path, *, step: str | None, warmup: int, as_json: bool) -> None:
    """Measure any CAPTURE, a .nsys-rep or .sqlite file, whoever made it."""
    if warmup and step is None:
        raise click.UsageError("--warmup leaves out steps: name them with --step.")
    with ExitStack() as held:
        _, timeline = opened(capture, _find_tool, held)
    samples = measure(timeline, step=step, is_pattern=True, warmup=warmup)
    if as_json:
        click.echo(measurement_text(samples, source=readable(capture.name), missing=timeline.missing), nl=False)
        return
    width, colour = screen()
    click.echo(
        sample_text(samples, source=capture.name, width=width, colour=colour, missing=timeline.missing), nl=False
    )


@cli.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("workloads", nargs=-1)
def page(out: Path, workloads: tuple[str, ...]) -> None:
    """Write a page with plots and timelines of each WORKLOAD's newest kept result (default: of all)."""
    here = project()
    names = tuple(dict.fromkeys(workloads)) or here.store.kept_workloads()
    if not names:
        raise ResultMissing(
            subject="page",
            fact="no result is kept in this project",
            expectation="It shows what a gate has measured",
            next_step="Measure first: pytest --perfgate",
        )
    if out.is_file() and not is_page_or_empty(out.read_bytes()):
        raise click.UsageError(f"{out} holds something else than perfgate's page, and would be lost.")
    shelf = Shelf(root=here.root, store=here.store, baselines=here.baselines)
    kept = [_latest(here.store, name) for name in names]
    told = page_html(page_of(document_of(kept, here.settings, shelf), shelf))
    try:
        out.write_text(told, encoding="utf-8")
    except OSError as refused:
        raise StoreFailed(
            subject=str(out),
            fact=f"the page cannot be written there ({refused.strerror or refused})",
            next_step="Give it a file that can be written.",
        ) from refused
    click.echo(f"{out}: {len(kept)} workload{'' if len(kept) == 1 else 's'}, {len(told.encode()) / 1e6:.1f} MB")


@cli.command()
def schema() -> None:
    """Print the JSON Schema of what `pytest --perfgate --perfgate-json FILE` writes."""
    click.echo(SCHEMA_FILE.read_text(encoding="utf-8"), nl=False)


@cli.command()
def doctor() -> None:
    """Check all that a first run needs, and say what to do about each failure."""
    root = find_root(Path.cwd())
    settings = load_settings(root, {})
    width, colour = screen()
    orphans: list[str] = []
    broken: PerfgateError | None = None
    try:
        orphans = _orphans(root, settings)
    except ConfigInvalid as uncollected:
        broken = uncollected
    findings = examine(root=root, settings=settings, env=os.environ, kept=root / ".perfgate", orphans=orphans)
    told = [(f.check, f.ok, f.fact, f.advice) for f in findings]
    if broken is not None:
        # Without knowing all workloads nobody knows which baselines have none.
        told = [*told[:-1], (broken.subject, False, broken.fact, broken.next_step)]
    click.echo(findings_text(told, width=width, colour=colour), nl=False)
    sys.exit(EXIT_SHUT if any(ok is False for _, ok, _, _ in told) else EXIT_OPEN)


def _orphans(root: Path, settings: Settings) -> list[str]:
    """Files of baselines without a workload. Raises ConfigInvalid where the workloads cannot be collected."""
    there = (root / settings.workloads).is_dir()
    known = {workload.id for workload in collected_workloads(root)} if there else set()
    listed = Store(root, settings.baselines).baselines()
    return sorted(os.path.relpath(one.path, root) for one in listed if one.workload not in known)


@cli.command()
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the demo's folder here, which must not exist.")
def demo(keep: Path | None) -> None:
    """Replay a gate on captures recorded on an NVIDIA H200. Needs neither a GPU nor nsys."""
    width, colour = screen()
    sys.exit(play(click.echo, width=width, colour=colour, keep=keep))


@cli.command()
@click.option("--nsys", help="The nsys program (default: search for it).")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the folder here, which must not exist.")
@click.option("--cpu", is_flag=True, help="Try only the path from nsys to a verdict, without a GPU.")
def selftest(*, nsys: str | None, keep: Path | None, cpu: bool) -> None:
    """Try the gate on this runner: an unchanged loop must pass, planted slips must fail.

    Each slip must be caught by the metric that is there for it. Takes some 4 minutes on a GPU. Works in a project of
    its own, and writes nothing into this one.
    """
    machine = read_machine(os.environ, nsys=None, nsys_options=())
    if not machine.gpus and not cpu:
        click.echo(NO_SELFTEST)
        sys.exit(EXIT_SHUT)
    tool = find_nsys(nsys, os.environ, setting=load_settings(find_root(Path.cwd()), {}).nsys)
    runner = Runner(machine=machine, nsys=tool, python=sys.executable, env=os.environ)
    width, colour = screen()
    with ending_as_on_ctrl_c():
        sys.exit(play_selftest(runner, click.echo, width=width, colour=colour, keep=keep, cpu=cpu))


NO_SELFTEST = """\
This machine has no GPU that a workload would see, so nothing can be shown of a gate on it.
Run on a machine with one (perfgate doctor says what is missing), or try only the path: perfgate selftest --cpu\
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; the one place where an error becomes a message and an exit code."""
    try:
        cli.main(args=None if arguments is None else list(arguments), prog_name="perfgate")
    except PerfgateError as error:
        click.echo(f"perfgate: {error}", err=True)
        sys.exit(error.exit_code)
