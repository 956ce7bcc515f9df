"""Commands that look at what there is and change nothing: baselines, kept results, captures."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import click

from perfgate.bless.holds import held_to
from perfgate.cli.project import CAPTURES, Project, find_tool
from perfgate.cli.terminal import PATH, new_page, show, show_json, usage
from perfgate.metrics.measure import measure
from perfgate.model.baseline import Baseline
from perfgate.model.document_text import SCHEMA_FILE
from perfgate.model.errors import BaselineUnreadable
from perfgate.model.metric import Metric
from perfgate.plugin.outputs import write_file
from perfgate.render.history import history_json, history_text
from perfgate.render.html import page_html
from perfgate.render.page import Row
from perfgate.render.records import baseline_text
from perfgate.render.samples import measurement_text, sample_text
from perfgate.render.trace import capture_trace, steps_trace
from perfgate.store import ListedBaseline
from perfgate.views.captures import opened
from perfgate.views.history import read_history
from perfgate.words import escape, numbers, say
from perfgate.words.numbers import plural, size


@click.command("show")
@click.argument("workload", required=False)
def show_baselines(workload: str | None) -> None:
    """Show the baselines of WORKLOAD, or list all."""
    here = Project.here()
    every = here.store.baselines.listed(at_home=True)
    listed = [one for one in every if workload in (None, one.workload)]
    if not listed:
        raise here.store.baselines.unknown(workload or here.settings.baselines)
    if workload is None:
        show(_list(listed))
    for one in listed:
        if workload is not None and isinstance(one.found, Baseline):
            path = os.path.relpath(one.path)
            holds = say.fact(held_to(one.found, here.settings.budgets))
            show(baseline_text(new_page(), one.found, holds=holds, path=path))
    for one in listed:
        if isinstance(one.found, BaselineUnreadable):
            raise one.found


LIST = ("machine", "workload", ">step_ms", ">runs", "blessed", "reason*")


def _list(listed: Sequence[ListedBaseline]) -> str:
    """A line a baseline; what cannot be read is in the list as well."""
    page = new_page()
    page.table(LIST, [_row(one) for one in listed], indent=0)
    return page.text


def _row(one: ListedBaseline) -> Row:
    name = escape.one_line(one.workload)
    if not isinstance(one.found, Baseline):
        return (one.slug, name, "", "", "", f"unreadable: {one.found.fact}")
    steps = one.found.values(Metric.STEP_MS)
    step = numbers.value(Metric.STEP_MS, median(steps)) if steps else "none"
    blessing = one.found.blessing
    day, why = f"{blessing.at:%Y-%m-%d}", escape.one_line(blessing.reason)
    return (one.slug, name, step, str(len(one.found.runs)), day, why)


@click.command()
@click.argument("workload")
@click.option(
    "--metric",
    type=click.Choice([metric.value for metric in Metric]),
    metavar="NAME",
    default=Metric.STEP_MS.value,
    show_default=True,
    help="The metric whose changes are shown; any of them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def history(workload: str, *, metric: str, as_json: bool) -> None:
    """Show the blessed baselines of WORKLOAD through git's history, newest last."""
    here = Project.here()
    found = read_history(here.store, workload, Metric(metric))
    if as_json:
        show_json(history_json(found))
    else:
        show(history_text(new_page(), found))


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
        raise usage("option-idle", option="--warmup", needed="--step")
    with ExitStack() as held:
        _, timeline = opened(capture, find_tool, held)
    samples = measure(timeline, step=step, is_pattern=True, warmup=warmup)
    # A file's name need not be UTF-8.
    source = os.fsencode(capture.name).decode(errors="replace")
    if as_json:
        show_json(measurement_text(samples, source=source, missing=timeline.missing))
    else:
        show(sample_text(new_page(), samples, source=source, missing=timeline.missing))


def _ends_in(ending: str) -> Callable[[click.Context, click.Parameter, Path], Path]:
    """Refuse to write over what a name of another form may be: a workload, a capture, code."""

    def checked(context: click.Context, _argument: click.Parameter, out: Path) -> Path:
        baselines = Project.here().store.baselines.folder
        if out.suffix != ending or out.resolve().is_relative_to(baselines.resolve()):
            raise usage("out-odd", out=str(out), command=context.command_path, ending=ending)
        return out

    return checked


@click.command()
@click.argument("out", type=PATH, callback=_ends_in(".html"))
@click.argument("workloads", nargs=-1)
def page(out: Path, workloads: tuple[str, ...]) -> None:
    """Write a page with plots and timelines of each WORKLOAD's newest kept result (default: of
    all)."""
    data = Project.here().page(workloads)
    write_file(out, [page_html(data)])
    kept = plural(len(data.workloads), "workload")
    show(f"{out}: {kept}, {out.stat().st_size / 1e6:.1f} MB")


@click.command()
@click.argument("out", type=PATH, callback=_ends_in(".json"))
@click.argument("words", metavar="[WORKLOAD... | CAPTURE]", nargs=-1)
def trace(out: Path, words: tuple[str, ...]) -> None:
    """Write a trace of each WORKLOAD's typical steps (default: of all), or of a whole CAPTURE.

    It opens in https://ui.perfetto.dev and in chrome://tracing. Of a workload it has one step of
    the baseline and one of the newest kept result, both from 0 on.
    """
    captures = [word for word in words if word.endswith(CAPTURES)]
    if captures and len(words) > 1:
        raise usage("trace-subjects", words=words)
    with ExitStack() as held:
        if captures:
            text = capture_trace(opened(Path(captures[0]), find_tool, held)[1])
        else:
            text = iter([steps_trace(Project.here().page(words))])
        write_file(out, text)
    show(f"{out}: {size(out.stat().st_size)}; open it in https://ui.perfetto.dev")


@click.command()
def schema() -> None:
    """Print the JSON Schema of what `pytest --perfgate --perfgate-json FILE` writes."""
    show_json(SCHEMA_FILE.read_text(encoding="utf-8"))
