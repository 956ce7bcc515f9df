"""The table of metrics: whole, in order, and with the defaults."""

from __future__ import annotations

import pytest

from perfgate.model.metric import COUNTS, GATED_TIMES, METRICS, Metric, budget_of


def test_every_metric_has_its_row() -> None:
    assert list(METRICS) == list(Metric)


def test_what_is_gated() -> None:
    shown = [metric for metric, spec in METRICS.items() if not spec.gated]
    assert shown == [
        Metric.STEP_MEAN_MS,
        Metric.H2D_EXPOSED_MS,
        Metric.NCCL_MS,
        Metric.MEM_EXPOSED_MS,
    ]
    assert {*GATED_TIMES, *COUNTS} == {metric for metric, spec in METRICS.items() if spec.gated}
    assert not {*GATED_TIMES} & {*COUNTS}


@pytest.mark.parametrize(
    ("metric", "before", "after", "step_ms", "change"),
    [
        (Metric.STEP_MS, 10.0, 10.2, None, 0.02),
        (Metric.KERNEL_MS, 8.0, 7.6, 10.0, -0.05),
        (Metric.GAP_MS, 1.0, 1.5, 10.0, 0.05),  # half more gap is 5 % of a step
        (Metric.GAP_MS, 0.0, 0.5, 10.0, 0.05),
        (Metric.GAP_MS, 1.0, 1.5, None, None),
        (Metric.GAP_MS, 1.0, 1.5, 0.0, None),
        (Metric.SYNCS, 2.0, 3.0, 10.0, 0.5),
        (Metric.SYNCS, 0.0, 3.0, 10.0, None),
        (Metric.SYNCS, 0.0, 0.0, 10.0, 0.0),
        (Metric.NCCL_MS, 4.0, 5.0, 10.0, 0.25),
    ],
)
def test_a_change_is_a_fraction_of_its_basis(
    metric: Metric, before: float, after: float, step_ms: float | None, change: float | None
) -> None:
    found = METRICS[metric].change(before, after, step_ms=step_ms)
    assert found == (None if change is None else pytest.approx(change))


def test_a_budget_is_the_one_given_or_the_default() -> None:
    given = {Metric.STEP_MS: 0.2, Metric.SYNCS: 0.01}
    assert [budget_of(metric, given) for metric in (Metric.STEP_MS, Metric.SYNCS)] == [0.2, 0.01]
    assert [budget_of(metric, {}) for metric in (Metric.KERNEL_MS, Metric.SYNCS)] == [0.01, None]
