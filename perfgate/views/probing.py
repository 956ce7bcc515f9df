"""What `perfgate explain --ncu` does: looks at one launch of each kernel that moved, now and
before, with ncu.

```
now      project, as it is            one run a kernel, under ncu in place of nsys
before   the compared commit          the same, in a checkout next to the project, if there is one
```
A run is of the same command and environment as a measured one, but of fewer steps. Nothing of it is
judged, kept or blessed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perfgate.execute.context import RunContext
from perfgate.execute.provenance import code_now
from perfgate.execute.worktree import SHOWN_SHA
from perfgate.explain.names import brief, identity
from perfgate.explain.nvidia import moved_kernels
from perfgate.model.baseline import Baseline, Result, changed_code
from perfgate.model.comparison import KernelProbe, KernelProbes, LaunchFigures
from perfgate.model.errors import CaptureUnreadable, StoreFailed
from perfgate.model.note import Note, note
from perfgate.model.workload import Workload
from perfgate.profilers.nsys.export.ranges import kernel_symbols
from perfgate.profilers.nsys.tool import Tool
from perfgate.views.explain import Subject
from perfgate.views.ncu.launch import Probing

MOST_KERNELS: Final = 3
"""How many are looked at unless somebody asks for more: each is a run of its own on either side."""


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """What there is to look at, and to compare it with."""

    a: Subject
    b: Subject
    result: Result
    """That b is of."""
    baseline: Baseline | None
    """That of the workload on the result's machine."""


def probe(
    context: RunContext,
    tool: Tool,
    workload: Workload,
    of: Candidates,
    *,
    most: int,
    on_run: Callable[[str], None],
) -> KernelProbes:
    """Look at the kernels that moved most; the caller holds the GPU.

    Args:
        context: of the project.
        tool: ncu.
        workload: as the project declares it now.
        of: what moved.
        most: how many kernels are looked at.
        on_run: gets a line of each run before it is made.

    Raises:
        NcuFailed: ncu has no figures of a launch in the project.
        PerfgateError: the workload does not run there.
    """
    chosen = moved_kernels(of.a.side, of.b.side, most=most)
    made = Probing(
        tool=tool,
        workload=workload,
        symbols=_symbols(of),
        folder=_emptied(context.root / ".perfgate" / "ncu"),
        on_run=on_run,
        chosen=chosen,
    )
    now = made.launches(context, side="now")
    commit = commit_before(of)
    before = made.before(context, commit) if chosen else []
    probes = tuple(
        KernelProbe(moved=moved, before=was, now=found)
        for moved, was, found in zip(chosen, before, now, strict=True)
    )
    return KernelProbes(
        tool=f"ncu {tool.version}",
        before="nothing" if isinstance(commit, Note) else commit[:SHOWN_SHA],
        now="the project as it is",
        probes=probes,
        notes=tuple(_notes(context, workload, of, probes)),
    )


def _symbols(of: Candidates) -> dict[str, str]:
    """Mangled names by key, from the captures of both sides."""
    found: dict[str, str] = {}
    for subject in (of.a, of.b):
        if subject.capture is not None:
            with suppress(CaptureUnreadable):
                symbols = kernel_symbols(subject.capture.export)
                found |= {identity(name): symbol for name, symbol in symbols.items()}
    return found


def commit_before(of: Candidates) -> str | Note:
    """The commit that b was compared with, or why there is none to run."""
    result = of.result
    if result.reference_runs:
        ab_run = result.verdict.ab_run
        return note("commit-unsaid") if ab_run is None else ab_run.commit
    if of.baseline is None:
        return note("commit-no-baseline")
    if not of.baseline.commits:
        return note("commit-unknown")
    last = of.baseline.commits[-1]
    return note("commit-dirty") if last.dirty else last.sha


def _notes(
    context: RunContext, workload: Workload, of: Candidates, probes: Sequence[KernelProbe]
) -> list[Note]:
    code = code_now(of.result.code, context.root, baselines=context.settings.baselines)
    here, there = context.machine.slug, of.result.machine.slug
    found = [
        (note("probed-other-code"), bool(changed_code(of.result.code, code))),
        (note("probed-other-parameters"), workload.digest() != of.result.workload.digest()),
        (note("probed-elsewhere", there=there, here=here), here != there),
    ]
    for one in probes:
        sides = [side for side in (one.before, one.now) if isinstance(side, LaunchFigures)]
        shapes = {(side.grid, side.block) for side in sides}
        found.append((note("probed-other-shape", kernel=brief(one.moved.name)), len(shapes) > 1))
    return [one for one, holds in found if holds]


def _emptied(folder: Path) -> Path:
    """The folder of the runs, without what the last ones left there."""
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
    except OSError as refused:
        raise StoreFailed(
            "folder-not-emptied", folder=str(folder), reason=refused.strerror or str(refused)
        ) from refused
    return folder
