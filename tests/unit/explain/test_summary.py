"""What a verdict leads with, and small losses with their path."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.judging import MOMENT
from syrupy.assertion import SnapshotAssertion

from perfgate.explain.summary import anchor_lost, headline
from perfgate.model.diagnosis import Attribution, Axis, Part
from perfgate.model.metric import METRICS, Basis, Kind, Metric
from perfgate.model.note import Note, quoted
from perfgate.model.outcome import Outcome
from perfgate.model.secrets import Cleaner
from perfgate.model.verdict import ABRun, Blessed, Drift, MetricVerdict, Verdict
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
    change: float | None = None,
) -> MetricVerdict:
    is_count = METRICS[metric].kind is Kind.COUNT
    known = {} if is_count else {"low": -1.0, "high": 1.0}
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


def made(metric: Metric, *parts: Part) -> Attribution:
    return Attribution(metric=metric, axis=Axis.RANGE, change=1.0, parts=parts, rest=0.0)


def part(name: str, change: float, metric: Metric) -> Part:
    return Part(name=name, before=None, now=change, change=change, metric=metric)


def said(
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


CASES = {
    "step and count": ([STEP, COPIES], [UNDER_LOG]),
    "step of kernels": ([STEP], [made(M.STEP_MS, part("fwd\n d", 2.2, M.KERNEL_MS))]),
    "step of a range": ([STEP], [made(M.STEP_MS, part("data", 2.2, M.STEP_MS))]),
    "outside any range": ([STEP], [made(M.STEP_MS, part("(no range)", 2.2, M.GAP_MS))]),
    "too small a part": ([STEP], [made(M.STEP_MS, part("a", 0.3, M.GAP_MS))]),
    "two times": (
        [
            STEP,
            row(M.H2D_MS, LOST, 0.4, 2.3, change=0.57),
            row(M.GAP_MS, LOST, 0.1, 0.4, change=0.1),
        ],
        [],
    ),
    "an estimate": ([row(M.STEP_MS, None, 10.0, 10.5), COPIES], []),
    "hardly": ([row(M.STEP_MS, None, 10.0, 10.05), COPIES], []),
    "unchanged": ([row(M.STEP_MS, PASSED, 10.0, 10.0), COPIES], []),
    "count alone": ([COPIES], []),
    "time alone": (
        [row(M.STEP_MS, PASSED, 10.0, 10.0), row(M.GAP_MS, LOST, 1.0, 1.4, change=0.04)],
        [],
    ),
    "from nothing": ([row(M.H2D_MS, LOST, 0.0, 1.4)], []),
    "faster, with a launch more": (
        [row(M.STEP_MS, GAINED, 5.0, 4.0), row(M.LAUNCHES, LOST, 38, 39)],
        [],
    ),
}


def test_it_leads_with_the_step(snapshot: SnapshotAssertion) -> None:
    lines = {
        name: said(LOST, *rows, attributions=attributions)
        for name, (rows, attributions) in CASES.items()
    }
    assert lines == snapshot


def test_a_gain_is_led_by_the_step_as_well(snapshot: SnapshotAssertion) -> None:
    fewer = row(M.SYNCS, GAINED, 2, 1)
    ab_run = ABRun(revision="main", commit="a" * 40, pairs=3, screen_runs=0)
    lines = [
        said(GAINED, row(M.STEP_MS, GAINED, 10, 9), fewer),
        said(GAINED, row(M.STEP_MS, OPEN, 10, 9), fewer, ab_run=ab_run),
    ]
    assert lines == snapshot


PATH = (
    Blessed(step_ms=9.0, at=MOMENT, commit=None, reason=""),
    Blessed(step_ms=10.0, at=MOMENT, commit="0123456789abcdef", reason="small"),
)
FOUND = Drift(change=0.22, low=0.2, high=0.24, budget=0.05, shown=True, now=11.0, path=PATH)


def test_what_small_losses_added_up_to_is_said_with_the_path() -> None:
    why = anchor_lost(FOUND, "matmul", runs=5)
    assert (why.code, why.fields["budget"], why.fields["now"]) == ("anchor-lost", 0.05, 11.0)
    points = why.fields["path"]
    assert isinstance(points, tuple)
    codes = [one.code for one in points if isinstance(one, Note)]
    assert codes == ["blessed-at", "blessed-at-commit"]


@pytest.mark.parametrize("words", [2, 3])
def test_a_secret_in_a_long_name_of_a_range_is_cut_so_that_it_is_found(words: int) -> None:
    secret = "zq8Kx3Wm5Tn2Rb7Yc4Vd9Lf6Hs"
    name = f"{'load a batch ' * words}{secret}{' and more of it' * 4}"
    text = said(
        Outcome.REGRESSED,
        row(M.STEP_MS, Outcome.REGRESSED, 10.0, 11.0),
        attributions=[made(M.STEP_MS, part(name, 1.0, M.STEP_MS))],
    )
    assert "..." in text
    cleaned = Cleaner({"API_TOKEN": secret}).clean(text)
    assert not any(secret[place : place + 8] in cleaned for place in range(len(secret) - 8))
