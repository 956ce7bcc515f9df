"""What the baselines of a machine let expect: of each workload, and of those that no workload bears any more."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from perfgate.gate import Expectation
from perfgate.model.baseline import Baseline
from perfgate.model.errors import BaselineUnreadable, ConfigInvalid
from perfgate.model.machine import Machine
from perfgate.model.workload import Workload
from perfgate.store import ListedBaseline, Store


def expectation_of(
    store: Store, workload: Workload, machine: Machine, *, root: Path
) -> Expectation:
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


def orphans(
    store: Store,
    machine: Machine,
    known: Collection[str],
    chosen: Callable[[str, str | None], bool],
) -> dict[str, str | None]:
    """Baselines of a machine that belong to none of the known workloads and were chosen: the file of each, by workload.

    Raises:
        BaselineUnreadable: the folder of the baselines cannot be listed.
    """
    listed = {one.workload: one.source for one in store.baselines.listed(machine.slug)}
    return {name: file for name, file in listed.items() if name not in known and chosen(name, file)}


def refuse_other_machine(machine: Machine, expected: str | None) -> None:
    """Refuse a machine that is not the one that was expected, where one was.

    Raises:
        ConfigInvalid: it reads as another.
    """
    if expected is not None and machine.slug != expected:
        raise ConfigInvalid(
            subject="machine",
            fact=f"this machine reads as {machine.slug} ({machine.gpu_name})",
            expectation=f"This gate is for {expected} (--perfgate-machine, or the setting machine)",
            next_step="See what the driver shows (nvidia-smi, CUDA_VISIBLE_DEVICES), or correct what is expected.",
        )


def lost_with_gpus(
    store: Store,
    machine: Machine,
    measured: Collection[str],
    chosen: Callable[[str, str | None], bool],
) -> str:
    """Say which workloads were chosen and not measured that have a baseline on this machine with more GPUs.

    A runner that has lost its GPUs reads as one without them, where such workloads skip themselves. Empty if none is.

    Raises:
        BaselineUnreadable: the folder of the baselines cannot be listed.
    """
    lost = {
        one.workload: _gpu_of(one)
        for one in store.baselines.listed()
        if one.workload not in measured
        and _has_more_gpus(one, machine)
        and chosen(one.workload, one.source)
    }
    if not lost:
        return ""
    names, gpus = ", ".join(sorted(lost)), ", ".join(sorted(set(lost.values())))
    return (
        f"{names}: blessed on {gpus}, and not measured on this machine, which reads as {machine.slug}; see what the "
        f"driver shows (nvidia-smi, CUDA_VISIBLE_DEVICES), or, if this machine is meant, pass "
        f"--perfgate-machine={machine.slug}"
    )


def _has_more_gpus(listed: ListedBaseline, machine: Machine) -> bool:
    """Whether a baseline's machine has these GPUs and others; where none is here, of a broken one by its folder."""
    if not isinstance(listed.found, Baseline):
        return not machine.gpus and listed.slug != machine.slug
    return Counter(gpu.name for gpu in listed.found.machine.gpus) > Counter(
        gpu.name for gpu in machine.gpus
    )
