"""`perfgate trace`: typical steps, or a whole capture, for Perfetto and chrome://tracing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import click

from perfgate.cli.arguments import PATH, subject_name
from perfgate.cli.common import find_tool, latest, printable, project
from perfgate.model.errors import ResultMissing, StoreFailed
from perfgate.model.secrets import Cleaner
from perfgate.plugin.outputs import write_file
from perfgate.render.trace import capture_trace, steps_trace
from perfgate.views.explain import opened
from perfgate.views.pages import Paths, document_of, page_of
from perfgate.words.numbers import size

CAPTURES = (".nsys-rep", ".qdrep", ".sqlite")


@click.command()
@click.argument("out", type=PATH)
@click.argument("words", metavar="[WORKLOAD... | CAPTURE]", nargs=-1, type=subject_name)
def trace(out: Path, words: tuple[str, ...]) -> None:
    """Write a trace of each WORKLOAD's typical steps (default: of all), or of a whole CAPTURE.

    It opens in https://ui.perfetto.dev and in chrome://tracing. Of a workload it has one step of
    the baseline and one of the newest kept result, both from 0 on.
    """
    with ExitStack() as held:
        is_capture = len(words) == 1 and words[0].endswith(CAPTURES) and Path(words[0]).is_file()
        text: Iterable[str] = (
            capture_trace(opened(Path(words[0]), find_tool, held)[1])
            if is_capture
            else [_of_results(words)]
        )
        try:
            write_file(out, text)
        except OSError as refused:
            reason = refused.strerror or str(refused)
            raise StoreFailed("trace-unwritten", file=str(out), reason=reason) from refused
    click.echo(printable(f"{out}: {size(out.stat().st_size)}; open it in https://ui.perfetto.dev"))


def _of_results(workloads: tuple[str, ...]) -> str:
    here = project()
    names = tuple(dict.fromkeys(workloads)) or here.store.results.workloads()
    if not names:
        raise ResultMissing("trace-nothing")
    shelf = Paths(root=here.root, store=here.store, baselines=here.baselines)
    kept = [latest(here.store, name) for name in names]
    return steps_trace(page_of(document_of(kept, here.settings, shelf), shelf, Cleaner(os.environ)))
