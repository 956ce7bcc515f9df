"""`perfgate compare` and `perfgate explain`: how two sides differ, and where."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from perfgate.cli.project import CAPTURES, Project, find_tool, workload_of
from perfgate.cli.terminal import new_page, show, usage
from perfgate.execute.context import RunContext
from perfgate.execute.folder import end_killed_gates
from perfgate.explain.names import short
from perfgate.explain.nvidia import limited_by
from perfgate.machine import gpu_lock
from perfgate.model.comparison import Side
from perfgate.model.errors import (
    EXIT_SHUT,
    BaselineMissing,
    BaselineUnreadable,
    ConfigInvalid,
    NcuFailed,
)
from perfgate.model.verdict import MetricVerdict, Verdict
from perfgate.plugin.listing import collect
from perfgate.render.explanation import explanation_text, kernels_text
from perfgate.render.records import comparison_text
from perfgate.store import RESULT_FILE, KeptResult
from perfgate.views.explain import (
    Subject,
    compared,
    compared_with,
    explained,
    of_capture,
    of_result,
    rules_on,
)
from perfgate.views.ncu.command import find_ncu
from perfgate.views.probing import MOST_KERNELS, Candidates, probe
from perfgate.words import escape, say

KEPT: Final = ":kept"
"""Behind a workload's name: its newest kept result."""

step_option = click.option("--step", help="Of captures: the steps' range, a regular expression.")


@click.command()
@click.argument("a")
@click.argument("b")
@step_option
def compare(a: str, b: str, *, step: str | None) -> None:
    """Show how B differs from A, without judging.

    Each is a baseline file, a kept result (file or folder), a capture (.nsys-rep, .qdrep or
    .sqlite), or the name of a workload: its baseline, or with `:kept` behind it, its newest kept
    result. `perfgate explain A B` says where they differ.
    """
    with ExitStack() as held:
        found = compared(*_subjects(Project.here(), a, b, step, held))
    show(comparison_text(new_page(), found))
    _leave_unless_compared(found.rows)


@click.command()
@click.argument("words", metavar="WORKLOAD | A B", nargs=-1, required=True)
@step_option
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
    help="Of WORKLOAD: run it again under Nsight Compute, and show a launch of the kernels that "
    "moved most.",
)
@click.option(
    "--kernels",
    type=click.IntRange(1, 20),
    default=MOST_KERNELS,
    show_default=True,
    help="How many kernels --ncu looks at; each is a run of its own, and one more of the compared "
    "commit.",
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
    if ncu and (len(words) != 1 or words[0].endswith(CAPTURES)):
        raise usage("option-idle", option="--ncu", needed="one workload")
    here = Project.here()
    verdict: Verdict | None = None
    with ExitStack() as held:
        if len(words) == 1 and not words[0].endswith(CAPTURES):
            kept = here.latest(words[0])
            b = of_result(kept)
            a, verdict = compared_with(kept, here.store)
        elif len(words) == 2:
            a, b = _subjects(here, *words, step, held)
        else:
            raise usage("explain-subjects", words=words)
        applied = rules_on(a, b, find_tool, asked=rules)
    found = explained(a, b, verdict, applied, full=full)
    show(explanation_text(new_page(), found, full=full))
    if ncu:
        show(f"\n{_probed(here, words[0], a, b, most=kernels, full=full)}")
    _leave_unless_compared(found.rows)


def _leave_unless_compared(rows: Sequence[MetricVerdict]) -> None:
    """Exit as a shut gate does where no metric could be compared: a script would take that for no
    difference."""
    if not any(row.baseline is not None and row.now is not None and not row.reason for row in rows):
        sys.exit(EXIT_SHUT)


def _probed(here: Project, name: str, a: Subject, b: Subject, *, most: int, full: bool) -> str:
    """Run the workload again under ncu, alone on the GPU, and return what its kernels do."""
    tool, kept = find_ncu(os.environ), here.latest(name)
    nsys, collected = find_tool(), collect(here.root)
    workload = workload_of(name, collected.workloads)
    machine = here.machine(nsys=str(nsys.version))
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
        on_wait=lambda what: _note(say.fact(what)),
        workload=name,
    ):
        if (ended := end_killed_gates()) is not None:
            _note(say.fact(ended))
        probes = probe(context, tool, workload, found, most=most, on_run=_note)
    return kernels_text(new_page(), probes, named=str if full else short, limited=limited_by)


def _note(line: str) -> None:
    show(f"perfgate: {escape.line(line)}", err=True)


def _subjects(
    here: Project, a: str, b: str, step: str | None, held: ExitStack
) -> tuple[Subject, Subject]:
    if step is None and a.endswith(CAPTURES) != b.endswith(CAPTURES):
        raise ConfigInvalid("capture-without-step", subject=a if a.endswith(CAPTURES) else b)
    return _subject(here, a, step, held), _subject(here, b, step, held)


def _subject(here: Project, word: str, step: str | None, held: ExitStack) -> Subject:
    path, store = Path(word), here.store
    if word.endswith(CAPTURES):
        return of_capture(path, step=step, find_tool=find_tool, held=held)
    kept: KeptResult | None = None
    if word.endswith(KEPT):
        kept = here.latest(word.removesuffix(KEPT))
    elif os.path.isdir(word) or path.name == RESULT_FILE:  # noqa: PTH112 - of any word
        folder = path.parent if path.name == RESULT_FILE else path
        kept = KeptResult(folder=folder, result=store.results.load(folder))
    if kept is not None:
        return of_result(kept, runs=kept.result.runs, label=word)
    if path.suffix == ".json":
        return Subject(side=Side.of_baseline(word, store.baselines.read(path)))
    listed = [one for one in store.baselines.listed() if one.workload == word]
    if not listed:
        raise BaselineMissing("subject-missing", subject=word)
    if len(listed) > 1:
        files = tuple(os.path.relpath(one.path) for one in listed)
        raise BaselineMissing("subject-several", subject=word, count=len(listed), files=files)
    if isinstance(listed[0].found, BaselineUnreadable):
        raise listed[0].found
    return Subject(side=Side.of_baseline(word, listed[0].found))
