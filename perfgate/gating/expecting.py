"""What the baselines of a machine let expect: of each workload, and of those that no workload bears any more."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from perfgate.gate import Expectation
from perfgate.model.baseline import Baseline
from perfgate.model.errors import BaselineUnreadable
from perfgate.model.machine import Machine
from perfgate.model.workload import Workload
from perfgate.store import ListedBaseline, Store


def expectation_of(store: Store, workload: Workload, machine: Machine, *, root: Path) -> Expectation:
    """One workload with what its baseline is on this machine, or with those that it has on others."""
    try:
        baseline = store.baselines.load(machine.slug, workload.id)
        others = () if baseline is not None else tuple(_on_other_machines(store, workload.id))
    except BaselineUnreadable as broken:
        return Expectation(workload=workload, machine=machine, trouble=str(broken))
    return Expectation(
        workload=workload,
        machine=machine,
        baseline=baseline,
        elsewhere=tuple(map(_gpu_of, others)),
        misplaced=tuple(os.path.relpath(one.path, root) for one in others if _is_of(one, machine)),
    )


def _on_other_machines(store: Store, workload: str) -> Iterator[ListedBaseline]:
    for slug in store.baselines.other_machines(workload):
        yield from (one for one in store.baselines.listed(slug) if one.workload == workload)


def _gpu_of(listed: ListedBaseline) -> str:
    """A GPU by name; by folder where the baseline in it is broken, which is another machine's trouble."""
    return listed.found.machine.gpu_name if isinstance(listed.found, Baseline) else listed.slug


def _is_of(listed: ListedBaseline, machine: Machine) -> bool:
    """Whether a baseline is for this machine, in a folder of another name: renamed, or in letters of another case."""
    return isinstance(listed.found, Baseline) and listed.found.machine.slug == machine.slug


def orphans(store: Store, machine: Machine, known: Collection[str]) -> tuple[str, ...]:
    """Baselines of a machine that belong to none of the known workloads, by workload id."""
    return tuple(listed.workload for listed in store.baselines.listed(machine.slug) if listed.workload not in known)


def gone(
    store: Store, machine: Machine, known: Collection[str], named: Sequence[Path], *, root: Path
) -> dict[str, str]:
    """Baselines of a machine whose file was named, and does not declare their workload: the file, by workload.

    Not of baselines that do not know their file: those of one that was is not told from others.
    """
    found: dict[str, str] = {}
    for listed in store.baselines.listed(machine.slug) if named else ():
        source = listed.found.source if isinstance(listed.found, Baseline) else None
        if listed.workload in known or source is None:
            continue
        file = (root / source).resolve()
        if any(file.is_relative_to(path) for path in named):
            found[listed.workload] = source
    return found
