"""What the baselines of a machine let expect: of each workload, and of those that no workload bears
any more."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from perfgate.judge.hold import differs_much, learn, may_screen
from perfgate.model.baseline import STEP_VALUE, Baseline, BlessedRun, with_held
from perfgate.model.errors import BaselineUnreadable, ConfigInvalid
from perfgate.model.machine import Machine
from perfgate.model.note import Note, Severity, note, noted
from perfgate.model.outcome import Outcome
from perfgate.model.record import Record
from perfgate.model.sample import Form, Run
from perfgate.model.settings import Policy
from perfgate.model.workload import Workload
from perfgate.store import ListedBaseline, Store

BUSY_CORES: Final = 1.1
"""Steps that keep more CPU cores than this busy do several things at once."""


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
    """GPUs that have a baseline of this workload, where this machine's has none."""
    misplaced: tuple[str, ...] = ()
    """Files of baselines of this workload and this machine, in folders that are not its own."""


def expectation_of(
    store: Store, workload: Workload, machine: Machine, *, root: Path
) -> Expectation:
    """One workload with its baseline on this machine, or with those that it has on others."""
    try:
        baseline = store.baselines.load(machine.slug, workload.id)
        others = () if baseline is not None else tuple(_on_other_machines(store, workload.id))
    except BaselineUnreadable as broken:
        return Expectation(workload=workload, machine=machine, trouble=noted(broken))
    found = () if baseline is None else store.baselines.listed(machine.slug)
    return Expectation(
        workload=workload,
        machine=machine,
        baseline=baseline,
        others=tuple(one.found for one in found if isinstance(one.found, Baseline)),
        elsewhere=tuple(map(_gpu_of, others)),
        misplaced=tuple(os.path.relpath(one.path, root) for one in others if _is_of(one, machine)),
    )


def _on_other_machines(store: Store, workload: str) -> Iterator[ListedBaseline]:
    for slug in store.baselines.other_machines(workload):
        yield from (one for one in store.baselines.listed(slug) if one.workload == workload)


def _gpu_of(listed: ListedBaseline) -> str:
    """A GPU by name; by folder where the baseline in it is broken, which is another's trouble."""
    return listed.found.machine.gpu_name if isinstance(listed.found, Baseline) else listed.slug


def _is_of(listed: ListedBaseline, machine: Machine) -> bool:
    """Whether a baseline is for this machine, in a folder of another name or of another case."""
    return isinstance(listed.found, Baseline) and listed.found.machine.slug == machine.slug


# Whether it can be compared


def why_incomparable(expected: Expectation) -> tuple[Outcome, Note] | None:
    """The outcome where measuring cannot end in a comparison, and why; None where it can."""
    workload, baseline, machine = expected.workload, expected.baseline, expected.machine
    name = workload.id
    if expected.trouble is not None:
        return Outcome.INCOMPARABLE, expected.trouble
    if baseline is None:
        if expected.misplaced:
            return Outcome.INCOMPARABLE, note(
                "baseline-misplaced", workload=name, files=expected.misplaced, folder=machine.slug
            )
        if expected.elsewhere:
            return Outcome.INCOMPARABLE, note(
                "other-gpu", workload=name, gpus=expected.elsewhere, here=machine.gpu_name
            )
        return Outcome.NO_BASELINE, note("no-baseline", workload=name, gpu=machine.gpu_name)
    if differences := baseline.machine.differences_that_forbid_comparison(machine):
        return Outcome.INCOMPARABLE, note("other-machine", workload=name, differences=differences)
    workload = baseline.as_noted(workload)
    if baseline.digest != workload.digest():
        return Outcome.INCOMPARABLE, note(
            "other-parameters", workload=name, changes=_parameter_changes(baseline, workload)
        )
    return None


def _parameter_changes(baseline: Baseline, workload: Workload) -> tuple[Note, ...]:
    then, now = dict(baseline.parameters), workload.comparable_parameters()
    changed = [name for name in sorted({*then, *now}) if then.get(name) != now.get(name)]
    if not changed:
        return (note("digest-differs"),)
    return tuple(
        note(
            "parameter-changed",
            name=name,
            then=then.get(name, "not there"),
            now=now.get(name, "gone"),
        )
        for name in changed
    )


def why_no_screen(baseline: Baseline, machine: Machine) -> Note | None:
    """Why stored times do not hold on this machine, although they may be compared."""
    if baseline.step_value != STEP_VALUE:
        return note("older-step-value", value=baseline.step_value)
    if _branch(baseline.machine.driver) != _branch(machine.driver):
        return note(
            "other-version", name="driver", then=baseline.machine.driver, now=machine.driver
        )
    return None


def _branch(driver: str | None) -> str | None:
    """A driver's branch: 580.159 of 580.159.04, whose patches do not change what a kernel takes."""
    return None if driver is None else ".".join(driver.split(".")[:2])


def why_straight(expected: Expectation, policy: Policy, forms: Collection[Form]) -> Note | None:
    """Why an A/B run is begun without a screen; None where runs are screened first.

    Where blessed runs differ so much that unchanged ones could not pass it, blocks will decide
    anyway. Not where a user asked for runs: those of blocks cannot be blessed.
    """
    baseline = expected.baseline
    assert baseline is not None
    if (older := why_no_screen(baseline, expected.machine)) is not None:
        return older
    in_blocks = Form.BLOCK in forms and begins_in_blocks(expected, policy)
    if not in_blocks:
        return None
    spread = learn(expected.others, of=baseline)
    if may_screen(baseline, with_held(policy.budgets, baseline), spread):
        return None
    return note("blessed-runs-differ")


def begins_in_blocks(
    expected: Expectation, policy: Policy, *, against: bool = False, runs: Sequence[Run] = ()
) -> bool:
    """Whether an A/B run is first tried in blocks, by these runs or else the blessed ones.

    What keeps several cores busy does several things at once, and loses that on the one core of
    blocks: then only if runs differ much. Nor where a user asked for a number of runs, which pairs
    of processes make: those of blocks cannot be blessed.
    """
    noisy = known_noisy(expected)
    if not policy.stops_early:
        return against and noisy
    blessed = () if expected.baseline is None else expected.baseline.runs
    return noisy or cores_of(runs or blessed) <= BUSY_CORES


def cores_of(runs: Sequence[Run | BlessedRun]) -> float:
    """CPU cores that steps kept busy, in the middle of the runs; 0 where nobody knows."""
    known = [run.needs.cores for run in runs if run.needs is not None]
    found = [cores for cores in known if cores is not None]
    return median(found) if found else 0.0


def known_noisy(expected: Expectation) -> bool:
    """Whether blessed runs that may be compared differ so much that blocks serve better."""
    baseline = expected.baseline
    return baseline is not None and why_incomparable(expected) is None and differs_much(baseline)


# What is missing


def orphans(
    store: Store,
    machine: Machine,
    known: Collection[str],
    chosen: Callable[[str, str | None], bool],
) -> list[str]:
    """Baselines of a machine that were chosen and belong to no known workload.

    Raises:
        BaselineUnreadable: the folder of the baselines cannot be listed.
    """
    return [
        one.workload
        for one in store.baselines.listed(machine.slug)
        if one.workload not in known and chosen(one.workload, one.source)
    ]


def refuse_other_machine(machine: Machine, expected: str | None) -> None:
    """Refuse a machine that is not the one that was expected, where one was.

    Raises:
        ConfigInvalid: it reads as another.
    """
    if expected is not None and machine.slug != expected:
        raise ConfigInvalid(
            "unexpected-machine", machine=machine.slug, gpu=machine.gpu_name, expected=expected
        )


def lost_with_gpus(
    store: Store,
    machine: Machine,
    measured: Collection[str],
    chosen: Callable[[str, str | None], bool],
) -> Note | None:
    """Note which chosen workloads were not measured that have a baseline here with more GPUs.

    A runner that has lost its GPUs reads as one without them, where such workloads skip themselves.

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
        return None
    return note(
        "gpus-lost",
        Severity.INVALID,
        workloads=tuple(sorted(lost)),
        gpus=tuple(sorted(set(lost.values()))),
        machine=machine.slug,
    )


def _has_more_gpus(listed: ListedBaseline, machine: Machine) -> bool:
    """Whether a baseline's machine has these GPUs and others; of a broken one by its folder."""
    if not isinstance(listed.found, Baseline):
        return not machine.gpus and listed.slug != machine.slug
    then, now = (Counter(gpu.name for gpu in one.gpus) for one in (listed.found.machine, machine))
    return then > now
