"""The judge's verdict with what it does not know: where it happened, how far it has come, what else
differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from perfgate.explain.advice import classify, new_advice, without_outliers
from perfgate.explain.attribution import attributions, where
from perfgate.explain.breakdown import breakdown_of
from perfgate.explain.ranks import rank_notes
from perfgate.explain.shown import of_counts, start_notes, with_shown
from perfgate.explain.summary import anchor_lost, headline
from perfgate.gate.underway import Underway, step_times
from perfgate.judge.anchor import clock_moved, drift
from perfgate.model.baseline import STEP_VALUE, Baseline, BlessedRun, with_held
from perfgate.model.metric import COUNTS, GATED_TIMES, METRICS, NO_LONGER_GATED, Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.outcome import PASSING, Outcome
from perfgate.model.sample import NO_NCCL, Run, why_absent
from perfgate.model.verdict import ABRun, Drift, Stage, Verdict


def conclude(underway: Underway, verdict: Verdict) -> Verdict:
    """The judge's verdict, completed, by what it compared: an A/B run's other side if there is one,
    else stored runs."""
    stored, references, evidence = underway.stored, underway.references, underway.evidence()
    found = None if stored is None else drifted(underway)
    judged = [here for _, here in evidence.pairs] or evidence.alone
    if references or stored is None:
        other: Sequence[BlessedRun] = [BlessedRun.of(run) for run in references]
        breakdown = breakdown_of(references)
    else:
        other, breakdown = stored.runs, stored.breakdown
    verdict = with_shown(verdict, other, judged)
    now = without_outliers(breakdown_of(underway.own), verdict.metrics)
    made_up = attributions(breakdown, now, verdict.metrics)
    verdict = verdict.model_copy(
        update={
            "where_notes": where(made_up),
            "attributions": made_up,
            "classified": classify(now),
            "advice": () if verdict.outcome in PASSING else new_advice(verdict.metrics, now),
            "runs": len(underway.runs) + len(underway.blocks),
            "ab_run": ABRun(
                revision=underway.lab.commit.revision,
                commit=underway.lab.commit.commit,
                pairs=len(references),
                screen_runs=len(evidence.alone),
            )
            if references
            else None,
            "drift": found,
            "notes": tuple(_notes(underway, verdict, other, judged)),
        }
    )
    if verdict.outcome in (Outcome.REGRESSED, Outcome.IMPROVED):
        verdict = verdict.model_copy(update={"why": headline(verdict)})
    if verdict.outcome is Outcome.INCONCLUSIVE and underway.ended_by_time:
        spent = note("time-budget-ended", runs=verdict.runs)
        verdict = verdict.model_copy(update={"next": spent})
    if found is not None and verdict.outcome is not Outcome.REGRESSED:
        verdict = _against_anchor(verdict, found, runs=len(underway.runs))
    if verdict.too_few_runs:  # whatever the settings say
        verdict = noting(verdict, note("shut-by-few-runs", Severity.WARN))
    elif verdict.beyond:
        metric = verdict.beyond[0].metric
        verdict = noting(verdict, note("shut-by-size", Severity.WARN, metric=metric))
    return with_run_notes(underway, verdict)


def with_run_notes(underway: Underway, verdict: Verdict) -> Verdict:
    """A verdict with what is to be known of the runs that were made for it."""
    own = underway.own
    # Of INVALID ones the last is the one that does not count, and its notes say why.
    notes = [*_shared(own[-1:] if verdict.outcome is Outcome.INVALID else own)]
    if verdict.stage is not None:
        if underway.lab.machine.gpus:
            notes += _not_measured(verdict, own)
        notes += _not_blessed(verdict)
        if unread := underway.expected.workload.by_id:
            # They may hold something else than in the baseline.
            notes.append(note("parameters-unread", Severity.WARN, parameters=tuple(unread)))
    return noting(verdict.model_copy(update={"rank_notes": rank_notes(own)}), *notes)


def _notes(
    underway: Underway, verdict: Verdict, other: Sequence[BlessedRun], runs: Sequence[Run]
) -> Iterator[Note]:
    """What is worth knowing next to it, the lack of an A/B run first."""
    stored = underway.stored
    if (why := underway.no_pairs) is not None:
        in_pairs = note("no-blocks", why.severity, why=why)
        yield in_pairs if underway.references else note("no-ab-run", Severity.WARN, why=why)
    budgets = with_held(underway.policy.budgets, stored)
    if ungated := tuple(str(one) for one in NO_LONGER_GATED if one in budgets):
        yield note("budget-without-effect", Severity.WARN, metrics=ungated)
    yield from of_counts(verdict)
    if (moved := clock_moved(other, runs)[0]) is not None:
        yield note("kernels-follow", clock=moved)
    yield from verdict.notes
    yield from start_notes(underway.own)
    if underway.references and underway.straight is not None:
        yield note("straight-to-ab-run", why=underway.straight)
    if verdict.stage is Stage.BLOCKS:
        yield note("in-blocks")
    if stored is not None:
        then, here = stored.machine, underway.lab.machine
        if {gpu.uuid for gpu in then.gpus} != {gpu.uuid for gpu in here.gpus}:
            yield note("another-gpu-of-the-model")
        yield from _other_versions(underway, stored)
        if underway.references and verdict.outcome in PASSING:
            yield from _unseen_by_pairs(underway, stored)


def other_packages(underway: Underway) -> Note | None:
    """Note that both sides of an A/B run have another torch or CUDA than the baseline's.

    None where the other commit brings its own, or where one of them is not known.
    """
    if underway.stored is None or underway.policy.own_packages:
        return None
    found = _other_versions(underway, underway.stored)
    packages = (one for one in found if one.fields["name"] != "driver")
    return next((one for one in packages if "unknown" not in one.fields.values()), None)


def _other_versions(underway: Underway, stored: Baseline) -> Iterator[Note]:
    """The versions that are not the baseline's."""
    then, now = stored.machine, underway.lab.machine
    versions = (("driver", then.driver, now.driver), ("torch", then.torch, now.torch))
    for name, before, after in (*versions, ("CUDA", then.cuda, now.cuda)):
        if before != after:
            yield note("other-version", name=name, then=before or "unknown", now=after or "unknown")


def _unseen_by_pairs(underway: Underway, stored: Baseline) -> Iterator[Note]:
    """What an A/B run does not show: newer packages, and that both sides are slower than when
    blessed."""
    if (other := other_packages(underway)) is not None:
        yield note("cost-of-packages-unseen", Severity.WARN, change=other)
    # In blocks, on one core, a step takes another time than when it was blessed.
    there = [*underway.alone_there, *([] if underway.blocks else underway.references)]
    then, now = stored.values(Metric.STEP_MS), step_times([*there, *underway.runs])
    spec = METRICS[Metric.STEP_MS].time
    if not then or not now or spec is None or stored.step_value != STEP_VALUE or median(then) <= 0:
        return
    loss, budget = median(now) / median(then) - 1, underway.policy.budgets.get(Metric.STEP_MS)
    if min(now) > max(then) and loss > (spec.budget if budget is None else budget):
        yield note("baseline-commit-slower", Severity.WARN, loss=loss)


# Whether small losses have added up


def drifted(underway: Underway) -> Drift | None:
    """How far the step has come from the best one ever blessed, if known.

    Of runs that are held against stored ones it is not shown where a lower SM clock alone may make
    kernels take so long.
    """
    baseline, runs = underway.stored, underway.runs
    assert baseline is not None
    now, medians = _to_anchor(underway, baseline)
    budget = underway.policy.anchor_budget
    budgets = with_held(underway.policy.budgets, baseline)
    found = drift(baseline, now, budgets, anchor_budget=budget, medians=medians)
    moved, longer = clock_moved(baseline.runs, runs)
    is_lower = moved is not None and longer > 0
    if found is None or not found.shown or underway.references or not is_lower:
        return found
    at_clock = [value / (1 + longer) for value in now]
    rest = drift(baseline, at_clock, budgets, anchor_budget=budget)
    return found.model_copy(update={"shown": rest is not None and rest.shown})


def _to_anchor(underway: Underway, baseline: Baseline) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """What is held against the anchor, ms of each run, and the runs of each median it rests on.

    After an A/B run that is its ratio, put on top of the stored times. In blocks each pair has its
    own: what a step takes on one core says nothing next to stored times.
    """
    then, pairs = baseline.values(Metric.STEP_MS), underway.evidence().pairs
    steps = [[run.value(Metric.STEP_MS) for run in pair] for pair in pairs]
    known = [(there, here) for there, here in steps if there and here is not None]
    if then and underway.blocks:
        return tuple(median(then) * here / there for there, here in known), (len(then),)
    if then and pairs and len(known) == len(pairs):
        ratio = median(then) / median(there for there, _ in known)
        return tuple(ratio * here for _, here in known), (len(then), len(known))
    return step_times(underway.runs), ()


def _against_anchor(verdict: Verdict, found: Drift, *, runs: int) -> Verdict:
    """The verdict with what small losses have added up to: REGRESSED where that is too much, a note
    where the runs do not show whether it is."""
    if found.shown:
        return because(verdict, Outcome.REGRESSED, anchor_lost(found, verdict.workload, runs=runs))
    if found.change < found.budget:
        return verdict
    unknown = note(
        "drift-not-shown",
        loss=found.change,
        low=found.low,
        high=found.high,
        budget=found.budget,
        best_ms=found.path[0].step_ms,
    )
    return noting(verdict, unknown)


# What stands next to a verdict


def because(verdict: Verdict, outcome: Outcome, why: Note) -> Verdict:
    """The verdict with another outcome and its reason."""
    return verdict.model_copy(update={"outcome": outcome, "why": why, "next": None})


def noting(verdict: Verdict, *notes: Note) -> Verdict:
    """The verdict with further notes."""
    return verdict.model_copy(update={"notes": (*verdict.notes, *notes)})


def _shared(runs: Sequence[Run]) -> Iterator[Note]:
    """The warnings and notes of most runs, each once, with the numbers of the first that has it:
    notes that differ in numbers only are one."""
    first: dict[str, Note] = {}
    held: Counter[str] = Counter()
    for run in runs:
        alike: dict[str, Note] = {}
        for one in run.notes:
            fields = one.fields.items()
            texts = {name: value for name, value in fields if not isinstance(value, int | float)}
            alike.setdefault(f"{one.code} {texts}", one)
        held.update(alike.keys())
        first = alike | first
    for likeness, one in first.items():
        if 2 * held[likeness] > len(runs) and one.severity in (Severity.WARN, Severity.INFO):
            yield one


def _not_measured(verdict: Verdict, runs: Sequence[Run]) -> Iterator[Note]:
    """What would have been gated, had both sides measured it.

    Of counts those that some process has, so that one without them keeps them unjudged.
    """
    seen = {metric for run in runs for process in run.processes for metric in process.values}
    lacking: dict[str, tuple[Note, list[Metric]]] = {}
    for metric in (*GATED_TIMES, *(count for count in COUNTS if count in seen)):
        row, why = verdict.of(metric), why_absent(runs, metric)
        is_nowhere = row is None or row.now is row.baseline is None
        if why and is_nowhere and not why.code.startswith(NO_NCCL.code):
            lacking.setdefault(str(why), (why, []))[1].append(metric)
    for why, metrics in lacking.values():
        yield note("metrics-not-measured", Severity.WARN, metrics=tuple(metrics), why=why)


def _not_blessed(verdict: Verdict) -> Iterator[Note]:
    """What would have been gated, had the other side a value of it."""
    unblessed = tuple(
        row.metric
        for row in verdict.metrics
        if METRICS[row.metric].gated
        and (row.outcome, row.baseline) == (None, None)
        and row.now is not None
    )
    if unblessed:
        yield note("metrics-not-blessed", Severity.WARN, metrics=unblessed)
