"""`perfgate compare` and `perfgate explain`: how two sides differ, and where."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from perfgate.cli.arguments import KEPT, subject_name
from perfgate.cli.common import (
    Project,
    find_tool,
    latest,
    print_text,
    printable,
    project,
    screen,
    workload_of,
)
from perfgate.cli.complaint import usage
from perfgate.execute.context import RunContext
from perfgate.execute.folder import end_killed_gates
from perfgate.explain.advice import advise, classify
from perfgate.explain.kernels import limited_by
from perfgate.explain.names import short
from perfgate.explain.sides import as_judged, differences, made_up_of
from perfgate.explain.traces import unlike_notes
from perfgate.machine import gpu_lock, read_machine
from perfgate.model.errors import (
    EXIT_SHUT,
    BaselineMissing,
    BaselineUnreadable,
    CaptureUnreadable,
    ConfigInvalid,
    NcuFailed,
    ResultMissing,
    StepsNotFound,
)
from perfgate.model.side import Side
from perfgate.model.verdict import MetricVerdict, Verdict
from perfgate.plugin.listing import collect
from perfgate.profilers.nsys.command import trace_options
from perfgate.profilers.nsys.export.file import REPORTS
from perfgate.render.explanation import explanation_text
from perfgate.render.kernels import kernels_text
from perfgate.render.records import comparison_text
from perfgate.store import KeptResult, Kind, Store, kind_of
from perfgate.views.explain import (
    Subject,
    compared_with,
    judged_against,
    of_capture,
    of_result,
    rules_on,
)
from perfgate.views.ncu.tool import find_ncu
from perfgate.views.probing import MOST_KERNELS, Candidates, probe
from perfgate.words import escape, say

SQLITE: Final = b"SQLite format 3\0"
"""How an export begins."""


@click.command()
@click.argument("a", type=subject_name)
@click.argument("b", type=subject_name)
@click.option("--step", help="Of captures: the steps' range, a regular expression.")
def compare(a: str, b: str, *, step: str | None) -> None:
    """Show how B differs from A, without judging.

    Each is a baseline file, a kept result (file or folder), a capture (.nsys-rep, .qdrep or
    .sqlite), or the name of a workload: its baseline, or with `:kept` behind it, its newest kept
    result. `perfgate explain A B` says where they differ.
    """
    _refuse_idle_step((a, b), step)
    width, colour = screen()
    with ExitStack() as held:
        first, second = (one.side for one in _subjects(project().store, a, b, step, held))
        captures = (_is_capture(a), _is_capture(b))
    rows = differences(first, second)
    text = comparison_text(
        first,
        second,
        rows,
        width=width,
        colour=colour,
        captures=captures,
        warnings=tuple(unlike_notes(first, second)),
    )
    print_text(text)
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

    Of WORKLOAD, in its newest kept result against what that was compared with; or in B against A,
    each of which is what `perfgate compare` takes, also captures that perfgate did not make.
    """
    if ncu and (len(words) != 1 or _is_capture(words[0])):
        raise usage("option-idle", option="--ncu", needed="one workload")
    if (
        not ncu
        and click.get_current_context().get_parameter_source("kernels")
        is ParameterSource.COMMANDLINE
    ):
        raise usage("option-idle", option="--kernels", needed="--ncu")
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
            case _:
                raise usage("explain-subjects", words=words)
        found = rules_on(a, b, find_tool, asked=rules)
    rows = differences(a.side, b.side)
    if verdict is not None:
        rows = as_judged(rows, verdict)
    text = explanation_text(
        a.side,
        b.side,
        rows,
        made_up_of(a.side, b.side, rows, full=full),
        width=width,
        colour=colour,
        verdict=verdict,
        ranks=b.ranks,
        classified=classify(b.side.breakdown),
        advice=advise(b.side.breakdown),
        rules=found,
        warnings=tuple(unlike_notes(a.side, b.side)),
        full=full,
    )
    print_text(text)
    if ncu:
        print_text(f"\n{_probed(here, words[0], a, b, most=kernels, full=full)}")
    _leave_unless_compared(rows)


def _refuse_idle_step(words: Sequence[str], step: str | None) -> None:
    """Refuse an option that would change nothing: only captures have steps yet to be found.

    Raises:
        click.UsageError: there is none among the words.
    """
    if step is not None and not any(map(_is_capture, words)):
        raise usage("option-idle", option="--step", needed="a capture")


def _leave_unless_compared(rows: Sequence[MetricVerdict]) -> None:
    """Exit as a shut gate does where no metric could be compared: a script would take that for no
    difference."""
    if not any(row.baseline is not None and row.now is not None and not row.reason for row in rows):
        sys.exit(EXIT_SHUT)


def _probed(here: Project, name: str, a: Subject, b: Subject, *, most: int, full: bool) -> str:
    """Run the workload again under ncu, on the GPU and alone there, and return what is told of its
    kernels."""
    tool = find_ncu(os.environ)
    kept = latest(here.store, name)
    nsys, collected = find_tool(), collect(here.root)
    workload = workload_of(name, collected.workloads)
    options = trace_options(graph_trace=here.settings.cuda_graph_trace)
    machine = read_machine(os.environ, nsys=str(nsys.version), nsys_options=options)
    if not machine.gpus:
        raise NcuFailed("gpu-missing", subject=name)
    context = RunContext(
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
        probes = probe(context, tool, workload, found, most=most, on_run=_say)
    width, colour = screen()
    return kernels_text(
        probes, named=str if full else short, limited=limited_by, width=width, colour=colour
    )


def _say(line: str) -> None:
    click.echo(f"perfgate: {printable(escape.line(line))}", err=True)


def _is_capture(word: str) -> bool:
    """Whether a word names a capture: by the end of its name, or by how the file begins."""
    if Path(word).suffix in {".sqlite", *REPORTS}:
        return True
    try:
        return _start(Path(word)) == SQLITE
    except OSError:
        return False


def _start(path: Path) -> bytes:
    """Return how a file begins; nothing of what is no plain file, which may never end.

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
        # What is nothing to be compared with has no steps either, and that comes first.
        _subject(store, other, step, held)
        raise ConfigInvalid("capture-without-step", subject=capture)
    return _subject(store, a, step, held), _subject(store, b, step, held)


def _subject(store: Store, word: str, step: str | None, held: ExitStack) -> Subject:
    path = Path(word)
    if _is_capture(word):
        refuse_unlike_capture(path)
        try:
            return of_capture(path, step=step, find_tool=find_tool, held=held)
        except StepsNotFound as missing:
            if step is None:
                raise
            raise StepsNotFound("captures-without-steps", missing=missing) from missing
    is_folder = kind_of(path) is Kind.FOLDER
    if is_folder and not os.path.lexists(path / "result.json"):
        raise ResultMissing("subject-without-result", subject=word)
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
    return _blessed(store, word)


def _blessed(store: Store, word: str) -> Subject:
    found = [one for one in store.baselines.listed() if one.workload == word]
    if len(found) > 1:
        files = tuple(os.path.relpath(one.path) for one in found)
        raise BaselineMissing("subject-several", subject=word, count=len(found), files=files)
    if not found:
        raise _unknown(Path(word))
    if isinstance(found[0].found, BaselineUnreadable):
        raise found[0].found
    return Subject(side=Side.of_baseline(word, found[0].found))


def _unknown(path: Path) -> BaselineMissing | CaptureUnreadable:
    """Return the error of a word that is neither a workload's name nor a file to be compared."""
    if kind_of(path) is Kind.NOTHING:
        return BaselineMissing("subject-missing", subject=str(path))
    try:
        _start(path)
    except OSError as refused:
        reason = refused.strerror or str(refused)
        return CaptureUnreadable("subject-unreadable", subject=str(path), reason=reason)
    return CaptureUnreadable("subject-foreign", subject=str(path))


def refuse_unlike_capture(path: Path) -> None:
    """Refuse what no capture can be before it is opened.

    Raises:
        CaptureUnreadable: there is nothing, or a pipe, a device or a socket.
    """
    match kind_of(path):
        case Kind.FILE | Kind.FOLDER:
            return
        case Kind.OTHER:
            raise CaptureUnreadable("capture-not-plain", subject=str(path))
        case Kind.NOTHING:
            raise CaptureUnreadable("capture-file-missing", subject=str(path))


def _refuse_document(path: Path) -> None:
    """Refuse what a gate writes of its workloads: values of several, and the breakdown of none.

    Raises:
        CaptureUnreadable: it is a gate's document or the data of its page.
    """
    try:
        held = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return
    if isinstance(held, dict) and "opens_gate" in held:
        raise CaptureUnreadable("subject-foreign", subject=str(path))
