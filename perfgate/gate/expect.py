"""What the baselines of a machine let expect: of each workload, and of those that no workload bears
any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from perfgate.model.baseline import STEP_VALUE, Baseline
from perfgate.model.errors import BaselineUnreadable
from perfgate.model.machine import Machine
from perfgate.model.note import Note, Severity, note, noted
from perfgate.model.outcome import Outcome
from perfgate.model.record import Record
from perfgate.model.workload import Workload
from perfgate.store import ListedBaseline, Store

Chosen = Callable[[str, str | None], bool]
"""Whether a workload with a baseline is to be measured here, by its id and its file as far as that
is known."""


class Expectation(Record):
    """One workload with what its baseline is on this machine."""

    workload: Workload
    machine: Machine
    baseline: Baseline | None = None
    others: tuple[Baseline, ...] = ()
    """Those of other workloads on this machine, which say how its occasions differ."""
    trouble: Note | None = None
    """Why a baseline that is there cannot be read."""
    elsewhere: tuple[str, ...] = ()
    """Machines that have a baseline of this workload, where this one has none."""


def expectation_of(store: Store, workload: Workload, machine: Machine) -> Expectation:
    """One workload with its baseline on this machine, or with those that it has on others."""
    found = store.baselines
    try:
        baseline = found.load(machine.slug, workload.id)
        elsewhere = found.other_machines(workload.id) if baseline is None else ()
        listed = found.listed(machine.slug) if baseline is not None else ()
    except BaselineUnreadable as broken:
        return Expectation(workload=workload, machine=machine, trouble=noted(broken))
    return Expectation(
        workload=workload,
        machine=machine,
        baseline=baseline,
        others=tuple(one.found for one in listed if isinstance(one.found, Baseline)),
        elsewhere=elsewhere,
    )


# Whether it can be compared


def why_incomparable(expected: Expectation) -> tuple[Outcome, Note] | None:
    """The outcome where measuring cannot end in a comparison, and why; None where it can."""
    workload, baseline, machine = expected.workload, expected.baseline, expected.machine
    name = workload.id
    if expected.trouble is not None:
        return Outcome.INCOMPARABLE, expected.trouble
    if baseline is None and expected.elsewhere:
        there = expected.elsewhere
        return Outcome.INCOMPARABLE, note(
            "other-gpu", workload=name, machines=there, here=machine.slug
        )
    if baseline is None:
        return Outcome.NO_BASELINE, note("no-baseline", workload=name, gpu=machine.gpu_name)
    if differences := baseline.machine.differences_that_forbid_comparison(machine):
        return Outcome.INCOMPARABLE, note("other-machine", workload=name, differences=differences)
    workload = baseline.as_noted(workload)
    if baseline.digest == workload.digest():
        return None
    then, now = dict(baseline.parameters), workload.comparable_parameters()
    changes = tuple(
        note(
            "parameter-changed",
            name=one,
            then=then.get(one, "not there"),
            now=now.get(one, "gone"),
        )
        for one in sorted({*then, *now})
        if then.get(one) != now.get(one)
    )
    changes = changes or (note("digest-differs"),)
    return Outcome.INCOMPARABLE, note("other-parameters", workload=name, changes=changes)


def why_no_screen(baseline: Baseline, machine: Machine) -> Note | None:
    """Why stored times do not hold on this machine, although they may be compared.

    A patch of the driver (580.159.04 after 580.159.03) does not change what a kernel takes.
    """
    if baseline.step_value != STEP_VALUE:
        return note("older-step-value", value=baseline.step_value)
    then, now = baseline.machine.driver, machine.driver
    branches = [None if one is None else one.split(".")[:2] for one in (then, now)]
    if branches[0] != branches[1]:
        return note("other-version", name="driver", then=then, now=now)
    return None


# What is missing


def orphans(
    store: Store,
    machine: Machine,
    known: Collection[str],
    chosen: Chosen,
    *,
    skipped: tuple[str, ...] = (),
) -> list[Note]:
    """Note chosen baselines of a machine that belong to no known workload: it was renamed or
    deleted, and so not measured, unless it is in a file that `skipped` itself.

    Raises:
        BaselineUnreadable: the folder of the baselines cannot be listed.
    """
    perhaps = note("perhaps-skipped", files=skipped) if skipped else None
    return [
        note(
            "orphan",
            Severity.INVALID,
            workload=one.workload,
            of_file=note("of-file", file=one.source) if one.source is not None else None,
            perhaps=perhaps,
        )
        for one in store.baselines.listed(machine.slug)
        if one.workload not in known and chosen(one.workload, one.source)
    ]


def lost_with_gpus(
    store: Store, machine: Machine, measured: Collection[str], chosen: Chosen
) -> list[Note]:
    """Note which chosen workloads were not measured that have a baseline here with more GPUs.

    A runner that has lost its GPUs reads as one without them, where such workloads skip themselves.

    Raises:
        BaselineUnreadable: the folder of the baselines cannot be listed.
    """
    lost = {
        one.workload: one.slug
        for one in store.baselines.listed()
        if one.workload not in measured
        and _has_more_gpus(one, machine)
        and chosen(one.workload, one.source)
    }
    if not lost:
        return []
    return [
        note(
            "gpus-lost",
            Severity.INVALID,
            workloads=tuple(sorted(lost)),
            machines=tuple(sorted(set(lost.values()))),
            machine=machine.slug,
        )
    ]


def _has_more_gpus(listed: ListedBaseline, machine: Machine) -> bool:
    """Whether a baseline's machine has these GPUs and others; of a broken one by its folder."""
    if not isinstance(listed.found, Baseline):
        return not machine.gpus and listed.slug != machine.slug
    then, now = (Counter(gpu.name for gpu in one.gpus) for one in (listed.found.machine, machine))
    return then > now
