"""The judge's verdict with what it does not know: where it happened, how far it has come, what else
differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from perfgate.execute.pairing import in_noise_of
from perfgate.explain.advice import classify, new_advice
from perfgate.explain.attribution import attributions, where
from perfgate.explain.breakdown import breakdown_of
from perfgate.explain.shown import of_counts, start_notes, with_shown
from perfgate.explain.summary import anchor_lost, headline
from perfgate.gate.notes import because, noting, shut_anyway
from perfgate.gate.underway import Checked, Underway, step_times
from perfgate.judge.anchor import by_clock, clock_moved, drift
from perfgate.model.baseline import Baseline, with_held
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, NO_LONGER_GATED, Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.outcome import PASSING, Outcome
from perfgate.model.sample import Run
from perfgate.model.verdict import ABRun, Drift, Verdict


def conclude(
    underway: Underway,
    verdict: Verdict,
    stored: Baseline | None,
    *,
    reference: Baseline | None = None,
    ab_run: ABRun | None = None,
) -> Checked:
    """The judge's verdict, completed.

    Args:
        underway: the gate, whose runs were judged.
        verdict: what the judge says.
        stored: the baseline; None where another commit is all there is to compare with.
        reference: the other side of an A/B run, which was judged in place of the stored one.
        A/B run: that A/B run.
    """
    compared = reference or stored
    assert compared is not None
    found = None if stored is None else drifted(underway, stored, reference)
    evidence = underway.evidence(stored)
    judged = [here for _, here in evidence.pairs] or evidence.alone
    verdict = with_shown(verdict, compared.runs, judged)
    is_pass = verdict.outcome in PASSING
    now = breakdown_of(underway.own)
    made_up = attributions(compared.breakdown, now, verdict.metrics)
    verdict = verdict.model_copy(
        update={
            "where_notes": where(made_up),
            "attributions": made_up,
            "classified": classify(now),
            "advice": () if is_pass else new_advice(verdict.metrics, now),
            "runs": len(underway.runs) + len(underway.blocks),
            "ab_run": ab_run,
            "drift": found,
        }
    )
    if verdict.outcome in (Outcome.REGRESSED, Outcome.IMPROVED):
        verdict = verdict.model_copy(update={"why": headline(verdict)})
    first = _how_judged(underway, verdict, compared, judged)
    notes = [*first, *verdict.notes, *start_notes(underway.own), *underway.notes]
    if stored is not None:
        then, here = stored.machine, underway.lab.machine
        if {gpu.uuid for gpu in then.gpus} != {gpu.uuid for gpu in here.gpus}:
            notes.append(note("another-gpu-of-the-model"))
        notes += _other_versions(then, here)
        if reference is not None and is_pass:
            notes += _unseen_by_pairs(underway, stored, reference)
    verdict = verdict.model_copy(update={"notes": tuple(notes)})
    if verdict.outcome is Outcome.INCONCLUSIVE and underway.ended_by_time:
        spent = note("time-budget-ended", runs=verdict.runs)
        verdict = verdict.model_copy(update={"next": spent})
    if found is not None and verdict.outcome is not Outcome.REGRESSED:
        verdict = _against_anchor(verdict, found, runs=len(underway.runs))
    return underway.checked(noting(verdict, *shut_anyway(verdict)))


def _how_judged(
    underway: Underway, verdict: Verdict, compared: Baseline, runs: Sequence[Run]
) -> Iterator[Note]:
    """What is worth knowing of how it was judged, the lack of an A/B run first."""
    if underway.no_pairs is not None:
        yield note("no-ab-run", Severity.WARN, why=underway.no_pairs)
    budgets = with_held(underway.policy.budgets, compared)
    if ungated := tuple(str(one) for one in NO_LONGER_GATED if one in budgets):
        yield note("budget-without-effect", Severity.WARN, metrics=ungated)
    yield from of_counts(verdict)
    moved = clock_moved(compared.runs, runs)
    if moved is not None:
        yield note("kernels-follow", clock=moved)


def other_packages(underway: Underway, baseline: Baseline) -> Note | None:
    """Note that both sides of an A/B run have another torch or CUDA than the baseline's.

    None where the other commit brings its own.
    """
    then, now = baseline.machine, underway.lab.machine
    known = {"torch": then.torch and now.torch, "CUDA": then.cuda and now.cuda}
    found = (one for one in _other_versions(then, now) if known.get(str(one.fields["name"])))
    return None if underway.policy.own_packages else next(found, None)


def _other_versions(then: Machine, now: Machine) -> Iterator[Note]:
    """The versions that are not the baseline's."""
    versions = (("driver", then.driver, now.driver), ("torch", then.torch, now.torch))
    for name, before, after in (*versions, ("CUDA", then.cuda, now.cuda)):
        if before != after:
            yield note("other-version", name=name, then=before or "unknown", now=after or "unknown")


def _unseen_by_pairs(underway: Underway, stored: Baseline, reference: Baseline) -> Iterator[Note]:
    """What an A/B run does not show: newer packages, and that both sides are slower than when
    blessed."""
    if (other := other_packages(underway, stored)) is not None:
        yield note("cost-of-packages-unseen", Severity.WARN, change=other)
    then, now = stored.values(Metric.STEP_MS), reference.values(Metric.STEP_MS)
    spec = METRICS[Metric.STEP_MS].time
    # In blocks, on one core, a step takes another time than when it was blessed.
    is_alike = not underway.blocks and stored.step_value == reference.step_value
    if not is_alike or not then or not now or spec is None or median(then) <= 0:
        return
    loss = median(now) / median(then) - 1
    if loss > underway.policy.budgets.get(Metric.STEP_MS, spec.budget):
        yield note("baseline-commit-slower", Severity.WARN, loss=loss)


# Whether small losses have added up


def drifted(
    underway: Underway, baseline: Baseline, reference: Baseline | None = None
) -> Drift | None:
    """How far the step has come from the best one ever blessed, if known; `reference` is an A/B
    run's other side.

    Of runs that are held against stored ones it is not shown where a lower SM clock alone may make
    kernels take so long.
    """
    now, medians = _to_anchor(underway, baseline, reference)
    budget = underway.policy.anchor_budget
    budgets = with_held(underway.policy.budgets, baseline)
    found = drift(baseline, now, budgets, anchor_budget=budget, medians=medians)
    if found is None or not found.shown or reference is not None:
        return found
    longer = by_clock(baseline.runs, underway.runs)
    if longer <= 0 or clock_moved(baseline.runs, underway.runs) is None:
        return found
    at_clock = [value / (1 + longer) for value in now]
    rest = drift(baseline, at_clock, budgets, anchor_budget=budget)
    return found.model_copy(update={"shown": rest is not None and rest.shown})


def _to_anchor(
    underway: Underway, baseline: Baseline, reference: Baseline | None
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """What is held against the anchor, ms of each run, and the runs of each median it rests on.

    After an A/B run that is its ratio, put on top of the stored times. In blocks each pair has its
    own: what a step takes on one core says nothing next to stored times.
    """
    then = baseline.values(Metric.STEP_MS)
    if reference is not None and then and underway.blocks:
        sides = [
            (there.value(Metric.STEP_MS), in_noise_of(there, run).value(Metric.STEP_MS))
            for there, run in zip(underway.references, underway.blocks, strict=True)
        ]
        ratios = [here / there for there, here in sides if there and here is not None]
        return tuple(median(then) * ratio for ratio in ratios), (len(then),)
    now = step_times(underway.runs)
    there = () if reference is None else reference.values(Metric.STEP_MS)
    if then and there and median(there) > 0:
        ratio = median(then) / median(there)
        return tuple(ratio * value for value in now[-len(there) :]), (len(then), len(there))
    return now, ()


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
