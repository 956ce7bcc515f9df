"""The judge's verdict with what it does not know: where it happened, how far it has come, and what else differs."""

from __future__ import annotations

from statistics import median

from perfgate.explain.advice import advise, classify, new_advice
from perfgate.explain.attribution import attributions
from perfgate.explain.headline import headline
from perfgate.explain.pace import slow_start, told_of_pace
from perfgate.explain.sides import side_of_runs
from perfgate.explain.where import where
from perfgate.gate.anchor import creep_unknown, crept
from perfgate.gate.terms import Checked
from perfgate.gate.underway import Underway
from perfgate.judge.anchor import anchor_lost
from perfgate.judge.reasons import shut_anyway
from perfgate.model.advice import Advice
from perfgate.model.baseline import Baseline
from perfgate.model.machine import Machine
from perfgate.model.metric import METRICS, Metric
from perfgate.model.note import Note, Severity, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.side import Side
from perfgate.model.verdict import Creep, Duet, Verdict
from perfgate.words.numbers import short_percent


def conclude(
    underway: Underway,
    verdict: Verdict,
    stored: Baseline | None,
    *,
    reference: Baseline | None = None,
    duet: Duet | None = None,
) -> Checked:
    """The judge's verdict, completed.

    Args:
        underway: the gate, whose runs were judged.
        verdict: what the judge says.
        stored: the baseline; None where another commit is all there is to compare with.
        reference: the other side of a duet, which was judged in place of the stored one.
        duet: that duet.
    """
    compared = reference or stored
    assert compared is not None
    found = None if stored is None else crept(underway, stored, reference)
    circumstances = () if stored is None else _circumstances(stored, underway.machine)
    changed = told_of_pace(underway.interleaved_runs or underway.runs)
    doubtful = changed == slow_start(underway.interleaved_runs or underway.runs)
    severity = Severity.WARN if doubtful else Severity.INFO
    pace = () if changed is None else (quoted(changed, severity),)
    verdict = _explained(underway, verdict, compared).model_copy(
        update={
            "notes": (*verdict.notes, *pace, *underway.notes, *circumstances),
            "runs": len(underway.runs) + len(underway.interleaved_runs),
            "duet": duet,
            "creep": found,
        }
    )
    if verdict.outcome in (Outcome.REGRESSED, Outcome.IMPROVED):
        verdict = verdict.model_copy(update={"why": headline(verdict)})
    if duet is not None and stored is not None and _opens(verdict):
        verdict = _noting(verdict, *_shift(underway, stored, compared))
    if verdict.outcome is Outcome.INCONCLUSIVE and underway.ended_by_time:
        verdict = verdict.model_copy(
            update={"next": quoted("Allow more time: --perfgate-time-budget")}
        )
    if stored is not None and verdict.outcome is not Outcome.REGRESSED:
        verdict = _beside_anchor(underway, verdict, stored, reference, found)
    shut = shut_anyway(verdict)
    return underway.checked(verdict if shut is None else _noting(verdict, shut))


def _noting(verdict: Verdict, *notes: Note) -> Verdict:
    return verdict.model_copy(update={"notes": (*verdict.notes, *notes)})


def _opens(verdict: Verdict) -> bool:
    return verdict.outcome in (Outcome.PASSED, Outcome.IMPROVED)


def _explained(underway: Underway, verdict: Verdict, compared: Baseline) -> Verdict:
    """The verdict with what has moved where, and what might be done about it."""
    before, now = (
        Side.of_baseline("", compared),
        side_of_runs("", underway.interleaved_runs or underway.runs),
    )
    made_up = attributions(before.breakdown, now.breakdown, verdict.metrics)
    # As the verdict's rows say: without the runs that were set aside.
    values = now.medians() | {row.metric: row.now for row in verdict.metrics if row.now is not None}
    advice: tuple[Advice, ...] = ()
    if not _opens(verdict):
        advice = new_advice(
            advise(before.medians(), before.breakdown), advise(values, now.breakdown)
        )
    return verdict.model_copy(
        update={
            "where": where(made_up),
            "attributions": made_up,
            "classified": classify(values, now.breakdown),
            "advice": advice,
        }
    )


def _beside_anchor(
    underway: Underway,
    verdict: Verdict,
    stored: Baseline,
    reference: Baseline | None,
    found: Creep | None,
) -> Verdict:
    """The verdict with what small losses have added up to: REGRESSED where that is shown to be too much."""
    if found is None or not found.shown:
        unknown = creep_unknown(underway, stored, reference, found)
        return verdict if unknown is None else _noting(verdict, quoted(unknown))
    why = anchor_lost(found, verdict.workload, runs=len(underway.runs))
    return verdict.model_copy(update={"outcome": Outcome.REGRESSED, "why": why, "next": None})


def other_packages(underway: Underway, baseline: Baseline) -> str | None:
    """Say that both sides of a duet run with another torch or CUDA than the baseline's; None where none is known.

    Nor where the other commit brings its own.
    """
    if underway.own_environment:
        return None
    then, now = baseline.machine, underway.machine
    for name, before, after in (("torch", then.torch, now.torch), ("CUDA", then.cuda, now.cuda)):
        if before is not None and after is not None and before != after:
            return f"the baseline was measured with {name} {before}, this with {name} {after}"
    return None


def _shift(underway: Underway, stored: Baseline, reference: Baseline) -> tuple[Note, ...]:
    """Say what a duet does not show: that both sides are slower than when it was blessed, or newer packages.

    Not that the code has not become so: it is what was proven to be the commit's that did not change, not all that ran.
    """
    told: list[str] = []
    if (updated := other_packages(underway, stored)) is not None:
        told.append(f"{updated}: both sides ran with that, and what it costs is not in this")
    then, now = stored.values(Metric.STEP_MS), reference.values(Metric.STEP_MS)
    spec = METRICS[Metric.STEP_MS].clock
    # On one core a step takes another time than when it was blessed.
    same_value = stored.step_value == reference.step_value
    if (
        underway.interleaved_runs
        or not same_value
        or not then
        or not now
        or spec is None
        or median(then) <= 0
    ):
        return tuple(quoted(one, Severity.WARN) for one in told)
    lost = median(now) / median(then) - 1
    if lost > underway.policy.budgets.get(Metric.STEP_MS, spec.budget):
        told.append(
            f"the baseline's commit itself, as it runs here, takes {short_percent(lost)} longer now than when it was "
            "blessed: the machine, its software, or something else that no commit holds has become slower"
        )
    return tuple(quoted(one, Severity.WARN) for one in told)


def _circumstances(baseline: Baseline, machine: Machine) -> tuple[Note, ...]:
    """What differs from the baseline's circumstances without forbidding the comparison, as sentences."""
    told: list[str] = []
    then = {gpu.uuid for gpu in baseline.machine.gpus}
    if then != {gpu.uuid for gpu in machine.gpus}:
        told.append(
            "Another GPU of the same model than the baseline's: its clocks and memory may differ a little."
        )
    for name, before, now in (
        ("driver", baseline.machine.driver, machine.driver),
        ("torch", baseline.machine.torch, machine.torch),
        ("CUDA", baseline.machine.cuda, machine.cuda),
    ):
        if before != now:
            told.append(
                f"The baseline was measured with {name} {before or 'unknown'}, this with {name} {now or 'unknown'}."
            )
    return tuple(map(quoted, told))
