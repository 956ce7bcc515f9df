"""The judge's verdict with what it does not know: where it happened, how far it has come, what else
differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from perfgate.explain.advice import classify, new_advice, without_outliers
from perfgate.explain.attribution import attributions
from perfgate.explain.breakdown import breakdown_of
from perfgate.explain.drift import anchor_lost
from perfgate.explain.headline import headline
from perfgate.explain.pace import pace_notes
from perfgate.explain.shown import of_counts, with_shown
from perfgate.explain.where import where
from perfgate.gate.anchor import drift_unknown, drifted
from perfgate.gate.notes import because, noting, shut_anyway
from perfgate.gate.underway import Checked, Underway
from perfgate.judge.clock import clock_moved
from perfgate.model.baseline import Baseline, with_held
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, NO_LONGER_GATED, Metric
from perfgate.model.note import Note, Severity, note
from perfgate.model.outcome import Outcome
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
    first = _how_judged(underway, verdict, compared, judged)
    verdict = verdict.model_copy(update={"notes": (*first, *verdict.notes)})
    verdict = with_shown(verdict, compared.runs, judged)
    verdict = _explained(underway, verdict, compared).model_copy(
        update={
            "runs": len(underway.runs) + len(underway.blocks),
            "ab_run": ab_run,
            "drift": found,
        }
    )
    if verdict.outcome in (Outcome.REGRESSED, Outcome.IMPROVED):
        verdict = verdict.model_copy(update={"why": headline(verdict)})
    notes = [*pace_notes(underway.own), *underway.notes]
    if stored is not None:
        notes += _circumstances(underway, stored)
        if reference is not None and _opens(verdict):
            notes += _unseen_by_pairs(underway, stored, reference)
    verdict = noting(verdict, *notes)
    if verdict.outcome is Outcome.INCONCLUSIVE and underway.ended_by_time:
        spent = note("time-budget-ended", runs=verdict.runs)
        verdict = verdict.model_copy(update={"next": spent})
    if found is not None and verdict.outcome is not Outcome.REGRESSED:
        verdict = _against_anchor(underway, verdict, found)
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


def _opens(verdict: Verdict) -> bool:
    return verdict.outcome in (Outcome.PASSED, Outcome.IMPROVED)


def _explained(underway: Underway, verdict: Verdict, compared: Baseline) -> Verdict:
    """The verdict with what has moved where, and what might be done about it."""
    now = without_outliers(breakdown_of(underway.own), verdict.metrics)
    made_up = attributions(compared.breakdown, now, verdict.metrics)
    return verdict.model_copy(
        update={
            "where_notes": where(made_up),
            "attributions": made_up,
            "classified": classify(now),
            "advice": () if _opens(verdict) else new_advice(verdict.metrics, now),
        }
    )


def _against_anchor(underway: Underway, verdict: Verdict, found: Drift) -> Verdict:
    """The verdict with what small losses have added up to: REGRESSED where that is too much."""
    if found.shown:
        why = anchor_lost(found, verdict.workload, runs=len(underway.runs))
        return because(verdict, Outcome.REGRESSED, why)
    unknown = drift_unknown(found)
    return verdict if unknown is None else noting(verdict, unknown)


def other_packages(underway: Underway, baseline: Baseline) -> Note | None:
    """Note that both sides of an A/B run have another torch or CUDA than the baseline's.

    None where the other commit brings its own.
    """
    then, now = baseline.machine, underway.lab.machine
    known = {"torch": then.torch and now.torch, "CUDA": then.cuda and now.cuda}
    found = (one for one in _versions(then, now) if known.get(str(one.fields["name"])))
    return None if underway.policy.own_packages else next(found, None)


def _versions(then: Machine, now: Machine) -> Iterator[Note]:
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


def _circumstances(underway: Underway, baseline: Baseline) -> Iterator[Note]:
    """What differs from the baseline's circumstances without forbidding the comparison."""
    then, now = baseline.machine, underway.lab.machine
    if {gpu.uuid for gpu in then.gpus} != {gpu.uuid for gpu in now.gpus}:
        yield note("another-gpu-of-the-model")
    yield from _versions(then, now)
