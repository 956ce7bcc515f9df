"""What a verdict leads with: what the step lost or gained, and by what."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from perfgate.explain.headline import headline
from perfgate.model.metric import METRICS, Basis, Kind, Metric
from perfgate.model.note import quoted
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import ABRun, Attribution, Axis, MetricVerdict, Part, Verdict
from perfgate.words import say

M = Metric
LOST, GAINED, OPEN, PASSED = (
    Outcome.REGRESSED,
    Outcome.IMPROVED,
    Outcome.INCONCLUSIVE,
    Outcome.PASSED,
)


def row(
    metric: Metric,
    outcome: Outcome | None,
    was: float,
    now: float,
    *,
    bare: bool = False,
    change: float | None = None,
) -> MetricVerdict:
    is_count = METRICS[metric].kind is Kind.COUNT
    known = {} if is_count or bare else {"low": -1.0, "high": 1.0}
    basis = Basis.STEP if metric in (M.GAP_MS, M.H2D_MS) else Basis.LOG
    change = change if change is not None or not was else now / was - 1
    return MetricVerdict(
        metric=metric,
        outcome=outcome,
        baseline=was,
        now=now,
        change=change,
        basis=None if is_count else basis,
        budget=None if is_count else 0.02,
        **known,
    )


def made(metric: Metric, *parts: Part, axis: Axis = Axis.RANGE) -> Attribution:
    return Attribution(metric=metric, axis=axis, change=1.0, parts=parts, rest=0.0)


def part(name: str, change: float, metric: Metric) -> Part:
    return Part(name=name, before=None, now=change, change=change, metric=metric)


def told(
    outcome: Outcome,
    *rows: MetricVerdict,
    attributions: Sequence[Attribution] = (),
    ab_run: ABRun | None = None,
) -> str:
    found = headline(
        Verdict(
            workload="w",
            outcome=outcome,
            why=quoted(""),
            metrics=rows,
            runs=2,
            attributions=tuple(attributions),
            ab_run=ab_run,
        )
    )
    return say.sentences(found)


STEP = row(M.STEP_MS, LOST, 3.26, 5.48)
COPIES = row(M.D2H_COPIES, LOST, 0, 1)
UNDER_LOG = made(M.D2H_COPIES, part("log", 1, M.D2H_COPIES))


@pytest.mark.parametrize(
    ("rows", "attributions", "says"),
    [
        pytest.param(
            [STEP, COPIES],
            [UNDER_LOG],
            "+68.1 % step_ms (3.260 to 5.480 ms): d2h_copies 0 to 1 under `log`.",
        ),
        pytest.param([STEP], [], "+68.1 % step_ms (3.260 to 5.480 ms)."),
        pytest.param(
            [STEP],
            [made(M.STEP_MS, part("fwd\n d", 2.2, M.KERNEL_MS))],
            "+68.1 % step_ms (3.260 to 5.480 ms): kernel_ms +2.200 ms under `fwd d`.",
        ),
        pytest.param(
            [STEP],
            [made(M.STEP_MS, part("data", 2.2, M.STEP_MS))],
            "+68.1 % step_ms (3.260 to 5.480 ms) under `data`.",
        ),
        pytest.param(
            [STEP],
            [made(M.STEP_MS, part("(no range)", 2.2, M.GAP_MS))],
            "+68.1 % step_ms (3.260 to 5.480 ms).",
        ),
        pytest.param([STEP], [made(M.STEP_MS)], "+68.1 % step_ms (3.260 to 5.480 ms)."),
        pytest.param(
            [STEP],
            [made(M.STEP_MS, part("a", 0.3, M.GAP_MS))],
            "+68.1 % step_ms (3.260 to 5.480 ms).",
        ),
        pytest.param(
            [
                STEP,
                row(M.H2D_MS, LOST, 0.4, 2.3, change=0.57),
                row(M.GAP_MS, LOST, 0.1, 0.4, change=0.1),
            ],
            [],
            "+68.1 % step_ms (3.260 to 5.480 ms): h2d_ms 0.4000 to 2.300 ms. Also regressed: gap_ms.",
        ),
        pytest.param(
            [row(M.STEP_MS, None, 10.0, 10.5), COPIES],
            [],
            "+5.0 % step_ms (10.00 to 10.50 ms), an estimate from 2 runs: d2h_copies 0 to 1.",
        ),
        pytest.param(
            [row(M.STEP_MS, None, 10.0, 10.05), COPIES],
            [],
            "d2h_copies 0 to 1; +0.50 % step_ms (10.00 to 10.05 ms).",
        ),
        pytest.param(
            [row(M.STEP_MS, PASSED, 10.0, 10.0), COPIES],
            [],
            "d2h_copies 0 to 1; step_ms unchanged (10.00 ms).",
        ),
        pytest.param([COPIES], [], "d2h_copies 0 to 1."),
        pytest.param(
            [row(M.STEP_MS, PASSED, 10.0, 10.0), row(M.GAP_MS, LOST, 1.0, 1.4, change=0.04)],
            [],
            "+4.0 pp gap_ms (1.000 to 1.400 ms); step_ms unchanged (10.00 ms).",
        ),
        pytest.param([row(M.H2D_MS, LOST, 0.0, 1.4)], [], "h2d_ms 0 to 1.400 ms."),
    ],
)
def test_it_leads_with_the_step(
    rows: Sequence[MetricVerdict], attributions: Sequence[Attribution], says: str
) -> None:
    assert told(LOST, *rows, attributions=attributions) == says


def test_a_gain_is_led_by_the_step_as_well() -> None:
    fewer = row(M.SYNCS, GAINED, 2, 1)
    assert (
        told(GAINED, row(M.STEP_MS, GAINED, 10, 9), fewer)
        == "-10.0 % step_ms (10.00 to 9.000 ms): syncs 2 to 1."
    )
    ab_run = ABRun(revision="main", commit="a" * 40, pairs=3, screen_runs=0)
    assert told(GAINED, row(M.STEP_MS, OPEN, 10, 9), fewer, ab_run=ab_run) == (
        "-10.0 % step_ms (10.00 to 9.000 ms), an estimate from 3 pairs: syncs 2 to 1."
    )


def test_a_faster_step_with_one_launch_more_leads_with_the_step_and_says_both() -> None:
    faster = row(M.STEP_MS, GAINED, 5.0, 4.0)
    found = told(LOST, faster, row(M.LAUNCHES, LOST, 38, 39))
    assert found.startswith("-20.0 % step_ms")
    assert "launches 38 to 39" in found
    assert "Also" not in found
