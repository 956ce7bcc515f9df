"""Commands that look at what there is and change nothing: baselines, kept results, captures."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

import click
from click.core import ParameterSource

from perfgate.bless.bless import holding
from perfgate.cli.arguments import KEPT, PATH, subject_name, workload_name
from perfgate.cli.common import (
    Project,
    find_tool,
    latest,
    printable,
    printable_json,
    project,
    readable,
    screen,
)
from perfgate.execute.bench import Bench
from perfgate.execute.leftovers import end_killed_gates
from perfgate.explain.advice import advise, classify
from perfgate.explain.kernels import limited_by
from perfgate.explain.moved import moved_operations, moved_ranges
from perfgate.explain.names import short
from perfgate.explain.sides import as_judged, differences, made_up_of
from perfgate.explain.traces import told_unlike
from perfgate.machine import gpu_lock, read_machine
from perfgate.metrics.measure import measure
from perfgate.model import numbers
from perfgate.model.baseline import Baseline
from perfgate.model.document import SCHEMA_FILE
from perfgate.model.errors import (
    EXIT_SHUT,
    BaselineMissing,
    BaselineUnreadable,
    CaptureUnreadable,
    ConfigInvalid,
    NcuFailed,
    ResultMissing,
    StepsNotFound,
    StoreFailed,
)
from perfgate.model.metric import Metric
from perfgate.model.secrets import Cleaner
from perfgate.model.side import Side
from perfgate.model.verdict import MetricVerdict, Verdict
from perfgate.model.words import plural
from perfgate.plugin.listing import collect
from perfgate.plugin.outputs import is_page_or_empty, replaced
from perfgate.profilers.nsys.command import trace_options
from perfgate.profilers.nsys.export.refusing import REPORTS
from perfgate.render.explanation import explanation_text
from perfgate.render.history import BLOCKS, history_json, history_text
from perfgate.render.html import page_html
from perfgate.render.kernels import kernels_text
from perfgate.render.measurement import measurement_text
from perfgate.render.page import Column, Page, Row, inert, inert_line
from perfgate.render.records import baseline_text, comparison_text
from perfgate.render.samples import sample_text
from perfgate.store import KeptResult, Kind, ListedBaseline, Store, kind_of
from perfgate.views.explain import (
    Subject,
    compared_with,
    judged_against,
    of_capture,
    of_result,
    opened,
    rules_on,
)
from perfgate.views.history import read_history
from perfgate.views.ncu.tool import find_ncu
from perfgate.views.pages import Shelf, document_of, page_of
from perfgate.views.probing import MOST_KERNELS, Candidates, probe
from perfgate.words import say

TAKEN: Final = "It takes a baseline's file, a kept result, a capture, WORKLOAD or WORKLOAD:kept"
SEE: Final = "See what there is: perfgate show"
"""What `compare` and `explain` compare, and where to look for it."""
NOT_PLAIN: Final = "this is no plain file"
SQLITE: Final = b"SQLite format 3\0"
"""How an export begins."""


@click.command()
@click.argument("workload", required=False, type=workload_name)
def show(workload: str | None) -> None:
    """Show the baselines of WORKLOAD, or list all."""
    here = project()
    width, colour = screen()
    listed = [
        one for one in here.store.baselines.listed(at_home=True) if workload in (None, one.workload)
    ]
    if not listed:
        known = ", ".join(sorted({one.workload for one in here.store.baselines.listed()}))
        raise BaselineMissing(
            subject=workload or here.baselines,
            fact="there is no baseline",
            expectation=f"There are baselines of: {known}" if known else "",
            next_step='Make one: pytest --perfgate; perfgate bless --reason "..."',
        )
    broken = [one.found for one in listed if isinstance(one.found, BaselineUnreadable)]
    if workload is None:
        _print(_list(listed, width=width, colour=colour))
    for one in listed:
        if workload is not None and isinstance(one.found, Baseline):
            path = os.path.relpath(one.path)
            holds = holding(one.found, here.settings.budgets)
            _print(baseline_text(one.found, width=width, colour=colour, holds=holds, path=path))
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
            rows.append(
                (one.slug, inert(one.workload), "", "", "", f"unreadable: {one.found.fact}")
            )
    page.table(LIST, rows, indent=0)
    return page.text


@click.command()
@click.argument("workload", type=workload_name)
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
        _print_json(history_json(found.history))
    else:
        told = history_text(
            found.history, width=width, colour=colour, blocks=printable(BLOCKS) == BLOCKS
        )
        _print(told)
    if found.trouble is not None:
        raise found.trouble


@click.command()
@click.argument("a", type=subject_name)
@click.argument("b", type=subject_name)
@click.option("--step", help="Of captures: the steps' range, a regular expression.")
def compare(a: str, b: str, *, step: str | None) -> None:
    """Show how B differs from A, without judging.

    Each is a baseline file, a kept result (file or folder), a capture (.nsys-rep, .qdrep or .sqlite), or the name of a
    workload: its baseline, or with `:kept` behind it, its newest kept result.
    """
    _refuse_idle_step((a, b), step)
    width, colour = screen()
    with ExitStack() as held:
        first, second = (one.side for one in _subjects(project().store, a, b, step, held))
        captures = (_is_capture(a), _is_capture(b))
    rows = differences(first, second)
    told = comparison_text(
        first,
        second,
        rows,
        width=width,
        colour=colour,
        captures=captures,
        ranges=moved_ranges(first.breakdown, second.breakdown),
        operations=moved_operations(first.breakdown, second.breakdown),
        warnings=told_unlike(first, second),
    )
    _print(told)
    _leave_unless_compared(rows)


@click.command()
@click.argument("words", metavar="WORKLOAD | A B", nargs=-1, required=True, type=subject_name)
@click.option("--step", help="Of captures: the steps' range, a regular expression.")
@click.option(
    "--full", is_flag=True, help="Show every row that is kept, and the whole names of kernels."
)
@click.option(
    "--rules/--no-rules",
    default=None,
    help="Let nsys apply its expert rules, however large the captures; or not.",
)
@click.option(
    "--ncu",
    is_flag=True,
    help="Of WORKLOAD: run it again under Nsight Compute, and show a launch of the kernels that moved most.",
)
@click.option(
    "--kernels",
    type=click.IntRange(1, 20),
    default=MOST_KERNELS,
    show_default=True,
    help="How many kernels --ncu looks at; each is a run of its own, and one more of the compared commit.",
)
def explain(
    words: tuple[str, ...],
    *,
    step: str | None,
    full: bool,
    rules: bool | None,
    ncu: bool,
    kernels: int,
) -> None:
    """Say what moved and where, by NVTX range, kernel, copy and call.

    Of WORKLOAD, in its newest kept result against what that was compared with; or in B against A, each of which is
    what `perfgate compare` takes, also captures that perfgate did not make.
    """
    if ncu and (len(words) != 1 or _is_capture(words[0])):
        raise click.UsageError("--ncu runs a workload again: name one workload.")
    if (
        not ncu
        and click.get_current_context().get_parameter_source("kernels")
        is ParameterSource.COMMANDLINE
    ):
        raise click.UsageError(
            "--kernels says how many kernels --ncu looks at: give --ncu as well, or leave it out."
        )
    _refuse_idle_step(words, step)
    here = project()
    width, colour = screen()
    verdict: Verdict | None = None
    with ExitStack() as held:
        match words:
            case (word,) if not _is_capture(word):
                kept = latest(here.store, word)
                b, a = of_result(kept), compared_with(kept, here.store)
                verdict = judged_against(kept, here.store)
            case (first, second):
                a, b = _subjects(here.store, first, second, step, held)
            case (_,):
                raise click.UsageError(
                    f"{words[0]} is one capture: name another one before it, to compare it with."
                )
            case _:
                raise click.UsageError(
                    f"It takes a workload, or two things to compare; these are {len(words)}."
                )
        found = rules_on(a, b, find_tool, asked=rules)
    rows = differences(a.side, b.side)
    if verdict is not None:
        rows = as_judged(rows, verdict)
    told = explanation_text(
        a.side,
        b.side,
        rows,
        made_up_of(a.side, b.side, rows, full=full),
        width=width,
        colour=colour,
        verdict=verdict,
        ranks=b.ranks,
        classified=classify(b.side.medians(), b.side.breakdown),
        advice=advise(b.side.medians(), b.side.breakdown),
        rules=found,
        warnings=told_unlike(a.side, b.side),
        full=full,
    )
    _print(told)
    if ncu:
        _print(f"\n{_probed(here, words[0], a, b, most=kernels, full=full)}")
    _leave_unless_compared(rows)


def _refuse_idle_step(words: Sequence[str], step: str | None) -> None:
    """Refuse an option that would change nothing: only captures have steps yet to be found.

    Raises:
        click.UsageError: there is none among the words.
    """
    if step is not None and not any(map(_is_capture, words)):
        raise click.UsageError(
            "--step is the range of a capture's steps, and no capture is named: leave it out."
        )


def _leave_unless_compared(rows: Sequence[MetricVerdict]) -> None:
    """Exit as a shut gate does where no metric could be compared: a script would take that for no difference."""
    if not any(row.baseline is not None and row.now is not None and not row.reason for row in rows):
        sys.exit(EXIT_SHUT)


def _probed(here: Project, name: str, a: Subject, b: Subject, *, most: int, full: bool) -> str:
    """Run the workload again under ncu, on the GPU and alone there, and return what is told of its kernels."""
    tool = find_ncu(os.environ)
    kept = latest(here.store, name)
    nsys, collected = find_tool(), collect(here.root)
    workload = next((one for one in collected.workloads if one.id == name), None)
    if workload is None:
        raise ConfigInvalid(
            subject=name,
            fact="the project has no such workload any more",
            expectation="--ncu runs it again",
            next_step="See them all: pytest --perfgate --collect-only -q",
        )
    options = trace_options(graph_trace=here.settings.cuda_graph_trace)
    machine = read_machine(os.environ, nsys=str(nsys.version), nsys_options=options)
    if not machine.gpus:
        raise NcuFailed(
            subject=name,
            fact="no NVIDIA GPU is here",
            expectation="ncu looks at kernels while they run",
            next_step="Run it where the gate runs, with .perfgate/ at hand.",
        )
    bench = Bench(
        root=here.root,
        settings=here.settings,
        tool=nsys,
        machine=machine,
        env=os.environ,
        python=sys.executable,
        pytest_options=collected.worker_options,
    )
    baseline = here.store.baselines.load(kept.result.machine.slug, name)
    found = Candidates(a=a, b=b, result=kept.result, baseline=baseline)
    with gpu_lock(
        machine.gpus,
        timeout_s=here.settings.lock_timeout_s,
        on_wait=lambda what: _say(say.fact(what)),
        workload=name,
    ):
        if (ended := end_killed_gates()) is not None:
            _say(say.fact(ended))
        probes = probe(bench, tool, workload, found, most=most, tell=_say)
    width, colour = screen()
    return kernels_text(
        probes, named=str if full else short, limited=limited_by, width=width, colour=colour
    )


def _say(line: str) -> None:
    click.echo(f"perfgate: {printable(inert_line(line))}", err=True)


def _print(text: str) -> None:
    click.echo(printable(text), nl=False)


def _print_json(text: str) -> None:
    click.echo(printable_json(text), nl=False)


def _is_capture(word: str) -> bool:
    """Whether a word names a capture: by the end of its name, or by how the file begins, whatever it is called."""
    if Path(word).suffix in {".sqlite", *REPORTS}:
        return True
    try:
        return _start(Path(word)) == SQLITE
    except OSError:
        return False


def _start(path: Path) -> bytes:
    """How a file begins; nothing of what is no plain file, which may never end.

    Raises:
        OSError: it cannot be read.
    """
    if kind_of(path) is not Kind.FILE:
        return b""
    with path.open("rb") as file:
        return file.read(len(SQLITE))


def _subjects(
    store: Store, a: str, b: str, step: str | None, held: ExitStack
) -> tuple[Subject, Subject]:
    if step is None and _is_capture(a) != _is_capture(b):
        capture, other = (a, b) if _is_capture(a) else (b, a)
        # What is nothing to be compared with has no steps either, and that is to be told of it.
        _subject(store, other, step, held)
        raise ConfigInvalid(
            subject=capture,
            fact="without --step, a capture is measured as one window",
            expectation="The other side is per step",
            next_step="Name the range of its steps: --step REGEX (of perfgate's own captures: --step step)",
        )
    return _subject(store, a, step, held), _subject(store, b, step, held)


def _subject(store: Store, word: str, step: str | None, held: ExitStack) -> Subject:
    path = Path(word)
    if _is_capture(word):
        _refuse_unlike_capture(path)
        try:
            return of_capture(path, step=step, find_tool=find_tool, held=held)
        except StepsNotFound as error:
            if step is None:
                raise
            raise StepsNotFound(
                subject=error.subject,
                fact=error.fact,
                expectation=error.expectation,
                next_step=f"{error.next_step} Without --step two captures are compared as whole windows.",
            ) from error
    is_folder = kind_of(path) is Kind.FOLDER
    if is_folder and not os.path.lexists(path / "result.json"):
        raise ResultMissing(
            subject=word,
            fact="no kept result is in this folder: there is no result.json",
            expectation=TAKEN,
            next_step=SEE,
        )
    if is_folder or path.name == "result.json":
        folder = path if is_folder else path.parent
        kept = KeptResult(folder=folder, result=store.results.load(path))
        return of_result(kept, runs=kept.result.runs, label=word)
    if path.suffix == ".json":
        _refuse_document(path)
        return Subject(side=Side.of_baseline(word, store.baselines.read(path)))
    if word.endswith(KEPT):
        kept = latest(store, word.removesuffix(KEPT))
        return of_result(kept, runs=kept.result.runs, label=word)
    listed = store.baselines.listed()
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
    if kind_of(path) is not Kind.NOTHING:
        raise _foreign(path)
    raise BaselineMissing(
        subject=str(path),
        fact="there is neither such a file nor such a workload with a baseline",
        expectation=TAKEN,
        next_step=SEE,
    )


def _refuse_unlike_capture(path: Path) -> None:
    """Refuse what no capture can be before it is opened, where a folder has its own words.

    Raises:
        CaptureUnreadable: there is nothing, or a pipe, a device or a socket.
    """
    match kind_of(path):
        case Kind.FILE | Kind.FOLDER:
            return
        case Kind.OTHER:
            fact = NOT_PLAIN
        case Kind.NOTHING:
            fact = "there is no such file"
    raise CaptureUnreadable(
        subject=str(path),
        fact=fact,
        expectation="It takes a .nsys-rep, .qdrep or .sqlite file",
        next_step="Check the path.",
    )


def _refuse_document(path: Path) -> None:
    """Refuse what a gate tells of its workloads: values of several, and the breakdown of none.

    Raises:
        CaptureUnreadable: it is a gate's document or the data of its page.
    """
    try:
        told = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return
    if isinstance(told, dict) and "opens_gate" in told:
        raise CaptureUnreadable(
            subject=str(path),
            fact="this is what a gate writes for --perfgate-json or --perfgate-page-data, and no baseline",
            expectation=TAKEN,
            next_step="Name a workload of it: WORKLOAD:kept is what the gate measured last.",
        )


def _foreign(path: Path) -> CaptureUnreadable:
    """What is said of a file that is there, and is neither a workload's name nor anything to be compared."""
    fact = (
        "this is none of the files that can be compared"
        if kind_of(path) is Kind.FILE
        else NOT_PLAIN
    )
    try:
        _start(path)
    except OSError as refused:
        fact = f"this file cannot be read ({refused.strerror or refused})"
    return CaptureUnreadable(
        subject=str(path),
        fact=fact,
        expectation="It takes a baseline's file (.json), a kept result (result.json) or a capture (.nsys-rep, SQLite)",
        next_step="Check the path.",
    )


@click.command()
@click.argument("capture", type=PATH)
@click.option(
    "--step",
    help="The steps' NVTX range, a regular expression. Without: the whole captured window.",
)
@click.option(
    "--warmup",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Steps to leave out at first.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def inspect(capture: Path, *, step: str | None, warmup: int, as_json: bool) -> None:
    """Measure any CAPTURE, a .nsys-rep, .qdrep or .sqlite file, whoever made it."""
    if warmup and step is None:
        raise click.UsageError("--warmup leaves out steps: name them with --step.")
    _refuse_unlike_capture(capture)
    with ExitStack() as held:
        _, timeline = opened(capture, find_tool, held)
    samples = measure(timeline, step=step, is_pattern=True, warmup=warmup)
    missing = {what: say.fact(why) for what, why in timeline.missing.items()}
    if as_json:
        _print_json(measurement_text(samples, source=readable(capture.name), missing=missing))
        return
    width, colour = screen()
    _print(sample_text(samples, source=capture.name, width=width, colour=colour, missing=missing))


def _unwritten(out: Path, refused: OSError) -> StoreFailed:
    return StoreFailed(
        subject=str(out),
        fact=f"the page cannot be written there ({refused.strerror or refused})",
        expectation="A page of this user's that was there before is unchanged",
        next_step="Give it a file that can be written.",
    )


@click.command()
@click.argument("out", type=PATH)
@click.argument("workloads", nargs=-1, type=workload_name)
def page(out: Path, workloads: tuple[str, ...]) -> None:
    """Write a page with plots and timelines of each WORKLOAD's newest kept result (default: of all)."""
    here = project()
    kept_names = here.store.results.workloads()
    if str(out) in kept_names:
        raise click.UsageError(
            f"{out} is a workload. Name the file first: perfgate page {out}.html {out}"
        )
    names = tuple(dict.fromkeys(workloads)) or kept_names
    if not names:
        raise ResultMissing(
            subject="page",
            fact="no result is kept in this project",
            expectation="It shows what a gate has measured",
            next_step="Measure first: pytest --perfgate",
        )
    try:
        is_another = out.is_file() and not is_page_or_empty(out.read_bytes())
    except OSError as refused:
        raise _unwritten(out, refused) from refused
    if is_another:
        raise click.UsageError(
            f"{out} holds something else than perfgate's page, and would be lost."
        )
    shelf = Shelf(root=here.root, store=here.store, baselines=here.baselines)
    kept = [latest(here.store, name) for name in names]
    told = page_html(page_of(document_of(kept, here.settings, shelf), shelf, Cleaner(os.environ)))
    try:
        with replaced(out.resolve()) as target:
            target.write(told)
    except OSError as refused:
        raise _unwritten(out, refused) from refused
    _print(f"{out}: {plural(len(kept), 'workload')}, {len(told.encode()) / 1e6:.1f} MB\n")


@click.command()
def schema() -> None:
    """Print the JSON Schema of what `pytest --perfgate --perfgate-json FILE` writes."""
    _print_json(SCHEMA_FILE.read_text(encoding="utf-8"))
