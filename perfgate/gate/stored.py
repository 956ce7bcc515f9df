"""Against stored runs: looks at more and more runs of the candidate, until a plan of looks is
settled."""

from __future__ import annotations

from perfgate.gate.alike import launches_gone, other_form, other_processes, other_steps
from perfgate.gate.anchor import has_drifted
from perfgate.gate.clock import left_open_by_clock
from perfgate.gate.conclude import conclude
from perfgate.gate.underway import Checked, Differs, Underway
from perfgate.judge.judge import judge
from perfgate.judge.looks import PLANS
from perfgate.model.baseline import STEP_VALUE, Baseline
from perfgate.model.metric import METRICS, Kind
from perfgate.model.note import Note, note
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import MetricVerdict, Stage, Verdict


def look(underway: Underway, baseline: Baseline, stage: Stage) -> Verdict:
    """Measure and judge by the looks of a stage until it is settled, or may spend no more.

    Raises:
        Ended: a run came to nothing.
        Differs: a run cannot be held against the stored ones.
    """
    refuse_others(underway, baseline)
    verdict = judge(underway.evidence(baseline), underway.policy, stage)
    runs = underway.runs
    while verdict.more and _may_go_on(underway, baseline, verdict):
        looks_at = len(runs) + verdict.more
        # A pass takes no fewer, and what is started with the others costs little more.
        to_pass = min(PLANS[stage].fewest_to_pass, underway.policy.max_runs) - len(runs)
        for _ in underway.make(max(verdict.more, to_pass)):
            refuse_others(underway, baseline)
            verdict = judge(underway.evidence(baseline), underway.policy, stage)
            if not verdict.more:
                break
            if len(runs) == looks_at:
                if not _may_go_on(underway, baseline, verdict):
                    return verdict
                looks_at += verdict.more
    return verdict


def _may_go_on(underway: Underway, baseline: Baseline, verdict: Verdict) -> bool:
    """Whether there is time for the runs that a verdict wants, and they may still change it."""
    if len(underway.runs) < underway.policy.runs:
        return True
    if verdict.stage is Stage.STORED and has_drifted(underway, baseline):
        return False
    return underway.may_spend(verdict.more)


def is_settled(
    underway: Underway, baseline: Baseline, verdict: Verdict, *, clock: Note | None
) -> bool:
    """Whether a screen has the last word: a count rose, or all is well at the blessed clock."""
    rows = verdict.metrics
    if any(row.outcome is Outcome.REGRESSED and _is_count(row) for row in rows):
        return True
    is_open = any(_is_open(row) and not row.exact for row in rows)
    final = verdict.outcome is not Outcome.INCONCLUSIVE or not is_open
    return final and clock is None and not has_drifted(underway, baseline)


def by_stored(
    underway: Underway,
    baseline: Baseline,
    *,
    no_pairs: Note | None = None,
    remedy: Note | None = None,
) -> Checked:
    """Settle it by stored runs alone; `no_pairs` says why an A/B run came to nothing, if tried."""
    if baseline.step_value != STEP_VALUE:
        why = note("step-value-differs", workload=baseline.workload, value=baseline.step_value)
        raise Differs(why, stored=True)
    underway.no_pairs = no_pairs
    verdict = look(underway, baseline, Stage.STORED)
    if (differs := other_form(baseline.runs, underway.runs)) is not None:
        raise Differs(note("runs-differ", workload=baseline.workload, differs=differs), stored=True)
    verdict = left_open_by_clock(verdict, baseline, underway.runs)
    if remedy is not None and verdict.outcome is Outcome.INCONCLUSIVE:
        verdict = verdict.model_copy(update={"next": remedy})
    return conclude(underway, verdict, baseline)


def _is_count(row: MetricVerdict) -> bool:
    return METRICS[row.metric].kind is Kind.COUNT


def _is_open(row: MetricVerdict) -> bool:
    return row.outcome is Outcome.INCONCLUSIVE


def refuse_others(underway: Underway, baseline: Baseline) -> None:
    """Refuse runs of other steps or processes than the baseline's.

    Raises:
        Differs: one is.
    """
    workload = underway.expected.workload
    for run in underway.runs:
        if (differs := other_steps(baseline.runs, run)) is not None:
            why = note("steps-differ", workload=workload.id, file=workload.source, differs=differs)
            raise Differs(why, stored=True)
        differs = other_processes(baseline, run) or launches_gone(baseline.runs, run)
        if differs is not None:
            why = note("runs-differ", workload=workload.id, differs=differs)
            raise Differs(why, stored=True)
