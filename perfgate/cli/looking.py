"""Commands that look at what there is and change nothing: baselines, kept results, captures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import click

from perfgate.bless.bless import holding
from perfgate.cli.arguments import PATH, workload_name
from perfgate.cli.common import (
    find_tool,
    latest,
    print_json,
    print_text,
    project,
    readable,
    screen,
)
from perfgate.cli.comparing import refuse_unlike_capture
from perfgate.cli.complaint import usage
from perfgate.metrics.measure import measure
from perfgate.model.baseline import Baseline
from perfgate.model.document import SCHEMA_FILE
from perfgate.model.errors import BaselineMissing, BaselineUnreadable, ResultMissing, StoreFailed
from perfgate.model.metric import Metric
from perfgate.model.secrets import Cleaner
from perfgate.plugin.outputs import write_file
from perfgate.render.history import history_json, history_text
from perfgate.render.html import page_html
from perfgate.render.measurement import measurement_text
from perfgate.render.page import Page, Row
from perfgate.render.records import baseline_text
from perfgate.render.samples import sample_text
from perfgate.store import ListedBaseline
from perfgate.views.explain import opened
from perfgate.views.history import read_history
from perfgate.views.pages import Paths, document_of, page_of
from perfgate.words import escape, numbers, say
from perfgate.words.names import plural


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
        known = tuple(sorted({one.workload for one in here.store.baselines.listed()}))
        subject = workload or here.baselines
        if known:
            raise BaselineMissing("baseline-unknown", subject=subject, known=known)
        raise BaselineMissing("baselines-none", subject=subject)
    broken = [one.found for one in listed if isinstance(one.found, BaselineUnreadable)]
    if workload is None:
        print_text(_list(listed, width=width, colour=colour))
    for one in listed:
        if workload is not None and isinstance(one.found, Baseline):
            path = os.path.relpath(one.path)
            holds = holding(one.found, here.settings.budgets)
            print_text(baseline_text(one.found, width=width, colour=colour, holds=holds, path=path))
    if broken:
        raise broken[0]


LIST = (
    "machine",
    "workload",
    ">step_ms",
    ">runs",
    "blessed",
    "reason*",
)


def _list(listed: Sequence[ListedBaseline], *, width: int, colour: bool) -> str:
    """A line a baseline; what cannot be read is in the list as well."""
    page = Page(width=width, colour=colour)
    rows: list[Row] = []
    for one in listed:
        if isinstance(one.found, Baseline):
            steps = one.found.values(Metric.STEP_MS)
            step = numbers.value(Metric.STEP_MS, median(steps)) if steps else "none"
            day, why = (
                f"{one.found.blessing.at:%Y-%m-%d}",
                escape.one_line(one.found.blessing.reason),
            )
            rows.append(
                (one.slug, escape.one_line(one.workload), step, str(len(one.found.runs)), day, why)
            )
        else:
            rows.append(
                (
                    one.slug,
                    escape.one_line(one.workload),
                    "",
                    "",
                    "",
                    f"unreadable: {one.found.fact}",
                )
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
    help="The metric whose changes are shown; any of them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def history(workload: str, *, metric: str, as_json: bool) -> None:
    """Show the blessed baselines of WORKLOAD through git's history, newest last."""
    here = project()
    width, colour = screen()
    found = read_history(here.root, here.baselines, workload, Metric(metric))
    if as_json:
        print_json(history_json(found))
    else:
        print_text(history_text(found, width=width, colour=colour))


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
    refuse_unlike_capture(capture)
    with ExitStack() as held:
        _, timeline = opened(capture, find_tool, held)
    samples = measure(timeline, step=step, is_pattern=True, warmup=warmup)
    missing = {what: say.fact(why) for what, why in timeline.missing.items()}
    if as_json:
        print_json(measurement_text(samples, source=readable(capture.name), missing=missing))
        return
    width, colour = screen()
    print_text(
        sample_text(samples, source=capture.name, width=width, colour=colour, missing=missing)
    )


@click.command()
@click.argument("out", type=PATH)
@click.argument("workloads", nargs=-1, type=workload_name)
def page(out: Path, workloads: tuple[str, ...]) -> None:
    """Write a page with plots and timelines of each WORKLOAD's newest kept result (default: of
    all)."""
    here = project()
    kept_names = here.store.results.workloads()
    if str(out) in kept_names:
        raise usage("page-named-as-workload", subject=str(out))
    names = tuple(dict.fromkeys(workloads)) or kept_names
    if not names:
        raise ResultMissing("results-none")
    shelf = Paths(root=here.root, store=here.store, baselines=here.baselines)
    kept = [latest(here.store, name) for name in names]
    text = page_html(page_of(document_of(kept, here.settings, shelf), shelf, Cleaner(os.environ)))
    try:
        write_file(out, [text])
    except OSError as refused:
        reason = refused.strerror or str(refused)
        raise StoreFailed("page-unwritten", subject=str(out), reason=reason) from refused
    print_text(f"{out}: {plural(len(kept), 'workload')}, {len(text.encode()) / 1e6:.1f} MB\n")


@click.command()
def schema() -> None:
    """Print the JSON Schema of what `pytest --perfgate --perfgate-json FILE` writes."""
    print_json(SCHEMA_FILE.read_text(encoding="utf-8"))
