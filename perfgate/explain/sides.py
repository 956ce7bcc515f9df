"""What is compared without judging, and how it differs: medians and what their differences are made
of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from perfgate.explain.attribution import attributions
from perfgate.explain.breakdown import breakdown_of
from perfgate.explain.names import short
from perfgate.explain.traces import incomparable
from perfgate.model.baseline import Result
from perfgate.model.comparison import Side
from perfgate.model.diagnosis import Attribution
from perfgate.model.metric import METRICS, Basis, Kind, Metric
from perfgate.model.note import Note, Severity, note, quoted
from perfgate.model.sample import Run, why_absent
from perfgate.model.verdict import MetricVerdict, Verdict

WORTH_A_ROW: Final = 0.001
"""A time metric that changed by less is taken to be the same, as a fraction in its basis: runs
differ by as much.

Without a step to be a share of, as a fraction of the larger value.
"""


def side_of_runs(label: Note | str, runs: Sequence[Run]) -> Side:
    """Take runs, of which nothing else is known."""
    measured = [run.measured() for run in runs]
    reasons = {metric: why_absent(runs, metric) for metric in METRICS}
    return Side(
        label=quoted(label),
        values={
            m: tuple(run[m] for run in measured) if all(m in run for run in measured) else ()
            for m in METRICS
        },
        breakdown=breakdown_of(runs),
        absent={metric: why for metric, why in reasons.items() if why is not None},
    )


def side_of_result(label: Note | str, result: Result) -> Side:
    """Take a kept result's runs: those that can be blessed."""
    side = side_of_runs(label, result.runs)
    return side.model_copy(
        update={"machine": result.machine, "parameters": result.workload.comparable_parameters()}
    )


def side_of_capture(label: str, run: Run, *, missing: Mapping[str, Note] | None = None) -> Side:
    """Take one capture as a run: the worst value of its processes, and what the leading one of them
    is made of."""
    notes = (one for process in run.processes for one in process.notes)
    invalid = [one for one in notes if one.severity is Severity.INVALID]
    devices = [device for process in run.processes for device in process.devices]
    return side_of_runs(label, [run]).model_copy(
        update={
            "gpus": frozenset(device.name for device in devices if device.name is not None),
            "missing": missing or {},
            "invalid": tuple(one for at, one in enumerate(invalid) if one not in invalid[:at]),
        }
    )


def differences(a: Side, b: Side) -> tuple[MetricVerdict, ...]:
    """How b's medians differ from a's, a row a metric that either has, in the metrics' order;
    judged by nobody.

    A row that has a `reason` differs for the way in which the two were traced, for all that is
    known.
    """
    before, after = a.medians(), b.medians()
    unlike, step_ms = incomparable(a, b), before.get(Metric.STEP_MS)
    rows: list[MetricVerdict] = []
    for metric, spec in METRICS.items():
        was, now = before.get(metric), after.get(metric)
        if was is None and now is None:
            continue
        is_share = spec.basis is Basis.STEP
        basis = None if spec.kind is Kind.COUNT or (is_share and not step_ms) else spec.basis
        row = MetricVerdict(metric=metric, outcome=None, baseline=was, now=now, basis=basis)
        if was is not None and now is not None and was != now and metric in unlike:
            row = row.model_copy(update={"note": note("not-comparable")})
        elif was is not None and now is not None:
            row = row.model_copy(update={"change": spec.change(was, now, step_ms=step_ms)})
        rows.append(row)
    return tuple(rows)


def as_judged(rows: Sequence[MetricVerdict], verdict: Verdict) -> tuple[MetricVerdict, ...]:
    """The rows with a gate's own values, changes and intervals: it may have compared otherwise than
    by medians."""
    judged = {
        row.metric: row
        for row in verdict.metrics
        if row.baseline is not None and row.now is not None
    }
    return tuple(
        judged[row.metric].model_copy(update={"outcome": None, "note": None})
        if row.metric in judged and row.note is None
        else row
        for row in rows
    )


def made_up_of(
    a: Side, b: Side, rows: Sequence[MetricVerdict], *, full: bool = False
) -> tuple[Attribution, ...]:
    """What the differences are made of that are worth a row: of any count, and of times from
    `WORTH_A_ROW` on.

    With `full`, kernels bear their whole names.
    """
    return attributions(
        a.breakdown, b.breakdown, rows, moved=_differs, named=str if full else short
    )


def _differs(row: MetricVerdict) -> bool:
    if row.note is not None:
        return False
    if row.is_count:
        return row.baseline != row.now
    if row.change is None and row.baseline is not None and row.now is not None:
        return abs(row.now - row.baseline) >= WORTH_A_ROW * max(row.baseline, row.now)
    return row.change is not None and abs(row.change) >= WORTH_A_ROW
