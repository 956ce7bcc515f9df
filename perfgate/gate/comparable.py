"""Whether measuring can end in a comparison at all, and the verdicts that take no statistics."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from perfgate.gate.terms import Expectation
from perfgate.model.baseline import STEP_VALUE, Baseline, BlessedRun, common_step_ranges
from perfgate.model.errors import PerfgateError
from perfgate.model.machine import Machine
from perfgate.model.metric import Metric
from perfgate.model.note import quoted
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import Verdict
from perfgate.model.words import listed, plural
from perfgate.model.workload import Workload
from perfgate.words.numbers import count

MOST_OTHERS: Final = 0.2
"""Share of the steps whose names the other side does not know, from which they are no longer its steps."""
FEWEST_TO_RECUR: Final = 2
"""Runs of the other side that tell names of steps from data in them."""
MOST_NAMES: Final = 5
LONGEST_NAME: Final = 80
"""Names of steps that are told, and characters of each."""
RECORDS_LOST: Final = "Gate again: the profiler may have lost records"


def bless_command(workload: str) -> str:
    """Write the command that blesses one workload; brackets of an id are quoted."""
    return f'perfgate bless {shlex.quote(workload)} --reason "..."'


def why_incomparable(expectation: Expectation) -> Verdict | None:
    """The verdict where measuring cannot end in a comparison; None where it can."""
    workload, baseline, machine = expectation.workload, expectation.baseline, expectation.machine
    bless = bless_command(workload.id)
    if baseline is None and expectation.misplaced:
        return verdict_of(
            expectation,
            Outcome.INCOMPARABLE,
            f"its baseline for this machine is {listed(expectation.misplaced)}, where none is looked for: the "
            f"folder is to be named {machine.slug}.",
            f"Rename the folder, or bless one anew: {bless}",
        )
    if baseline is None and expectation.elsewhere:
        others = " and ".join(expectation.elsewhere)
        return verdict_of(
            expectation,
            Outcome.INCOMPARABLE,
            f"its baseline is for {others}, this machine is {machine.gpu_name}. Their times are not comparable.",
            f"Run where it was blessed, or bless one for this machine: {bless}",
        )
    if baseline is None:
        return verdict_of(
            expectation,
            Outcome.NO_BASELINE,
            f"there is no baseline to compare with on this machine ({machine.gpu_name}).",
            f"If these numbers are right, make them the baseline: {bless}",
        )
    differences = baseline.machine.differences_that_forbid_comparison(machine)
    if differences:
        return verdict_of(
            expectation,
            Outcome.INCOMPARABLE,
            f"{'; '.join(differences)}. Their times are not comparable.",
            f"Run as it was blessed, or bless anew: {bless}",
        )
    workload = baseline.as_noted(workload)
    if baseline.digest != workload.digest():
        return verdict_of(
            expectation,
            Outcome.INCOMPARABLE,
            f"the baseline is of other parameters: {_parameter_changes(baseline, workload)}.",
            f"Restore them, or bless the workload as it is now: {bless}",
        )
    return None


def why_no_screen(baseline: Baseline, machine: Machine) -> str | None:
    """Say why stored times do not hold on this machine, although they may be compared; None where they do."""
    if baseline.step_value != STEP_VALUE:
        return f"the baseline's step_ms is the {baseline.step_value} period, as perfgate measured it before"
    if baseline.machine.driver != machine.driver:
        return f"the baseline was measured with driver {baseline.machine.driver}, this is driver {machine.driver}"
    return None


def other_steps(then: Sequence[BlessedRun], run: Run, *, whose: str) -> str | None:
    """Say that other ranges are steps of a run than were of `whose`; None where they are the same, or not known."""
    return _other_names(then, run, whose) or _other_number(then, run, whose)


def _other_names(then: Sequence[BlessedRun], run: Run, whose: str) -> str | None:
    """By their names.

    A few of other names are work of another kind, now and then; `MOST_OTHERS` of them are another step. Names that
    differ as much among the runs of the other side are data, which one run alone does not show.
    """
    blessed = [frozenset(map(_folded, one.step_names)) for one in then]
    told = [
        {_folded(name): share for name, share in process.step_names.items()}
        for process in run.processes
    ]
    if (
        len(blessed) < FEWEST_TO_RECUR
        or not all(blessed)
        or not told
        or not all(told)
        or _are_data(blessed)
    ):
        return None
    before = frozenset.union(*blessed)
    if (
        max(sum(share for name, share in names.items() if name not in before) for names in told)
        < MOST_OTHERS
    ):
        return None
    return (
        f"the steps of {whose} are ranges named {_told_names(sorted(before))}, these are "
        f"{_told_names(BlessedRun.of(run).step_names)}. Their times are not comparable."
    )


def _folded(name: str) -> str:
    """A name whose numbers are one sign each: of more digits they were more, in baselines of before."""
    return re.sub(r"#{2,}", "#", name)


def _other_number(then: Sequence[BlessedRun], run: Run, whose: str) -> str | None:
    """By how many match: a script whose first steps are used may have put others in front of them, or made two of one.

    Where the number differs among the runs of the other side, it tells nothing; one run alone does not show that. One
    more or less in a process may be the end of the capture, and moves the steps by no more than that.
    """
    if sum(one.step_ranges is not None for one in then) < FEWEST_TO_RECUR:
        return None
    before, now = common_step_ranges(then), BlessedRun.of(run).step_ranges
    if before is None or now is None or abs(now - before) <= len(run.processes):
        return None
    return (
        f"{plural(before, 'range matches', 'ranges match')} the pattern of the steps in {whose}, {now} here, and those "
        "that are used may be other work than they were. Their times are not comparable."
    )


def processes_lost(runs: Sequence[Run]) -> tuple[str, ...]:
    """A rank that took no step leaves no trace in the values, which are those of the worst of the others."""
    first, now = len(runs[0].processes), len(runs[-1].processes)
    return (
        ()
        if first == now
        else (f"steps of {told_processes(now)} were found, of {told_processes(first)} in run 1",)
    )


def other_processes(baseline: Baseline, run: Run) -> str | None:
    """Say that other processes took the steps than when it was blessed, as a sentence; None where that is not known."""
    blessed = sorted(
        {known for known in (run.processes for run in baseline.runs) if known is not None}
    )
    now = len(run.processes)
    if not blessed or now in blessed:
        return None
    then = " or ".join(str(number) for number in blessed)
    return f"steps of {told_processes(now)} were found, of {then} in the baseline. Their values are not comparable."


def launches_gone(then: Sequence[BlessedRun], run: Run) -> str | None:
    """Say that most steps launch nothing on a GPU, of which none did in any run of the other side, as a sentence.

    What a profiler that lost the rest has left on the GPU is no faster than it was. None where they launch, as steps
    of the other side did not, or nobody knows.
    """
    there, here = launched([one.values.get for one in then]), launched([run.value])
    if not (there and here):
        return None
    least, most = min(map(sum, there)), max(map(sum, here))
    if most or not least:
        return None
    return (
        f"most of its steps launch nothing on a GPU, those it is compared with {count(least)} kernels or graphs. "
        "Their values are not comparable."
    )


def launched(of_runs: Iterable[Callable[[Metric], float | None]]) -> list[tuple[float, float]]:
    """Kernels and graphs that each run launched; empty where they are not known of all."""
    told = [(value(Metric.LAUNCHES), value(Metric.GRAPH_LAUNCHES)) for value in of_runs]
    known = [
        (kernels, graphs) for kernels, graphs in told if kernels is not None and graphs is not None
    ]
    return known if len(known) == len(told) else []


def told_processes(number: int) -> str:
    """A number of processes, in words."""
    return plural(number, "process", "processes")


def _are_data(runs: Sequence[frozenset[str]]) -> bool:
    """Whether in most runs so many of the names are of no other run as make other steps: they hold ids, or texts."""
    held = Counter(name for names in runs for name in names)
    own = [sum(held[name] == 1 for name in names) >= MOST_OTHERS * len(names) for names in runs]
    return 2 * sum(own) > len(runs)


def _told_names(names: Sequence[str]) -> str:
    shown = [
        f"'{name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 3] + '...'}'"
        for name in names[:MOST_NAMES]
    ]
    return listed(
        shown if len(names) <= MOST_NAMES else [*shown, f"{len(names) - MOST_NAMES} more"]
    )


def _parameter_changes(baseline: Baseline, workload: Workload) -> str:
    then, now = dict(baseline.parameters), workload.comparable_parameters()
    changed = [
        f"{name} was {then.get(name, 'not there')} and is {now.get(name, 'gone')}"
        for name in sorted({*then, *now})
        if then.get(name) != now.get(name)
    ]
    return ", ".join(changed) or "its digest differs"


def verdict_of(
    expectation: Expectation,
    outcome: Outcome,
    reason: str,
    next_step: str,
    *,
    runs: Sequence[Run] = (),
) -> Verdict:
    """A verdict that rests on no judgement of the `runs` that were made."""
    baseline = expectation.baseline
    return Verdict(
        workload=expectation.workload.id,
        outcome=outcome,
        why=quoted(reason),
        next=quoted(next_step) if next_step else None,
        runs=len(runs),
        baseline_runs=len(baseline.runs) if baseline is not None else 0,
    )


def parts_of(message: str, *, subject: str = "") -> tuple[str, str]:
    """A four-part message as reason and next step."""
    reason, _, next_step = message.removeprefix(subject).partition("\n")
    return reason, next_step


def as_not_measured(workload: str, error: PerfgateError) -> Verdict:
    """The verdict of a workload that never came to its first run."""
    reason, next_step = parts_of(str(error), subject=f"{workload}: ")
    return Verdict(
        workload=workload,
        outcome=Outcome.NOT_MEASURED,
        why=quoted(reason),
        next=quoted(next_step) if next_step else None,
    )
