"""Small losses that add up, next to the best ever blessed; and what another SM clock leaves
open.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from support import records
from support.cases import named
from support.prepared import (
    WOBBLE,
    Pairs,
    came,
    gated,
    noisy_baseline,
    noisy_runs,
    pairs,
    screen,
    slower,
)

from perfgate.execute.lab import Pair
from perfgate.model.baseline import Anchor, Baseline, Milestone
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.sample import Run
from perfgate.model.settings import Policy
from perfgate.model.verdict import Stage

PASSED, REGRESSED = Outcome.PASSED, Outcome.REGRESSED
STEPS = [12.34 * 1.01**n for n in range(1, 9)]
"""Of eight commits of +1 %."""


def drifted(*steps: float, anchor: float = 12.34) -> Baseline:
    """A baseline whose step has come from the anchor's in small losses."""
    path = tuple(
        Milestone(step_ms=ms, at=records.NOON + timedelta(days=day), reason="small")
        for day, ms in enumerate(steps, start=1)
    )
    return records.baseline(
        [{Metric.STEP_MS: steps[-1] * (1 + w / 100)} for w in WOBBLE] * 2,
        anchor=Anchor(step_ms=anchor, at=records.NOON, runs=10, occasions=2, path=path),
    )


def noisy_drifted(anchor: float) -> Baseline:
    """The noisy baseline of 12.34 ms, with an anchor."""
    best = Anchor(step_ms=anchor, at=records.NOON, runs=10, occasions=5)
    return noisy_baseline().model_copy(update={"anchor": best})


def test_many_small_losses_end_in_a_large_one_with_the_way_there() -> None:
    then, now = (100 * (1.01**n - 1) for n in (7, 8))
    checked = gated(screen(now), pairs(then, now), drifted(*STEPS[:7]))
    assert came(checked) == (REGRESSED, Stage.AB_RUN, 6, 3)
    row, found = checked.verdict.of(Metric.STEP_MS), checked.verdict.drift
    assert row is not None
    assert row.outcome is PASSED
    assert row.change == pytest.approx(0.01, abs=1e-3)
    assert found is not None
    assert found.shown
    assert found.change == pytest.approx(1.01**8 - 1, abs=1e-3)
    assert [point.step_ms for point in found.path] == pytest.approx([12.34, *STEPS[:7]])


@pytest.mark.parametrize(
    ("percent", "baseline", "budget", "outcome"),
    named(
        {
            "one small loss": (1.0, drifted(12.34 * 1.01), 0.05, PASSED),
            "eight": (8.3, drifted(*STEPS), 0.05, REGRESSED),
            "a wider budget": (8.3, drifted(*STEPS), 0.1, PASSED),
            "beyond, and not shown": (5.2, drifted(*STEPS[:5]), 0.05, PASSED),
            "its own anchor": (0.0, drifted(12.34, anchor=12.4), 0.05, PASSED),
        }
    ),
)
def test_drift_from_the_anchor(
    percent: float, baseline: Baseline, budget: float, outcome: Outcome
) -> None:
    verdict = gated(screen(percent), None, baseline, policy=Policy(anchor_budget=budget)).verdict
    assert verdict.outcome is outcome
    assert (verdict.drift is not None and verdict.drift.shown) is (outcome is REGRESSED)


@pytest.mark.parametrize(("core", "lost"), [(0.0, 0.0), (-40.0, 1.0)])
def test_blocks_are_held_against_the_anchor_by_their_ratio(core: float, lost: float) -> None:
    """What a step takes on one core says nothing next to what was blessed."""
    slow = 100 * ((1 + core / 100) * (1 + lost / 100) - 1)
    blocks = Pairs(noisy_runs(core), noisy_runs(slow, wobble=2))
    verdict = gated(noisy_runs(lost), pairs(0, 0), noisy_drifted(7.0), blocks=blocks).verdict
    assert (verdict.outcome, verdict.stage) == (REGRESSED, Stage.BLOCKS)
    assert verdict.drift is not None
    assert verdict.drift.change == pytest.approx(12.34 / 7 * (1 + lost / 100) - 1, rel=1e-3)


@pytest.mark.behaviour
@pytest.mark.parametrize(
    ("driver", "mhz"), [("550.54.15", 1980.0), ("570.86.10", 1980.0), ("550.54.15", 1900.0)]
)
def test_what_the_machine_lost_since_the_anchor_is_no_drift(driver: str, mhz: float) -> None:
    """The baseline is 2 % above its anchor, the code unchanged, and everything 8 % slower today."""
    made = screen(100 * (1.02 * 1.08 - 1), clock_mhz=mhz)
    baseline = drifted(12.34 * 1.01, 12.34 * 1.02)
    checked = gated(made, Pairs(made, made[2:]), baseline, on=records.machine(driver=driver))
    assert came(checked)[:2] == (PASSED, Stage.AB_RUN)
    assert checked.verdict.drift is not None
    assert checked.verdict.drift.change == pytest.approx(0.02, abs=1e-3)


def test_what_a_lower_clock_may_account_for_is_no_drift() -> None:
    for mhz, outcome in ((1940, PASSED), (1980, REGRESSED)):
        made = screen(100 * (1.01**8 - 1), clock_mhz=mhz)
        assert gated(made[:3], None, drifted(*STEPS)).verdict.outcome is outcome


# Where the SM clock is not what it was


def clocked(mhz: float, **percent: float) -> Run:
    """A run at another clock, whose metrics take so much longer than blessed."""
    longer = {
        Metric(name): records.VALUES[Metric(name)] * (1 + more / 100)
        for name, more in percent.items()
    }
    run = records.run(longer)
    gpu = run.conditions.gpus[0].model_copy(update={"sm_clock_mhz": mhz})
    return run.model_copy(update={"conditions": run.conditions.model_copy(update={"gpus": (gpu,)})})


@pytest.mark.parametrize(
    ("run", "budgets", "outcome"),
    named(
        {
            "higher: hides a loss": (clocked(2079), {}, Outcome.INCONCLUSIVE),
            "of the step too": (clocked(2079), {Metric.KERNEL_MS: 0.5}, Outcome.INCONCLUSIVE),
            "lower: hides none": (clocked(1755), {}, PASSED),
            "within the budget of kernels": (clocked(1995), {}, PASSED),
            "its loss": (clocked(1900, step_ms=4.2, kernel_ms=4.2), {}, Outcome.INCONCLUSIVE),
            "more than its": (clocked(1900, step_ms=9, kernel_ms=9), {}, REGRESSED),
            "a count": (clocked(1900, syncs=800, step_ms=4.2), {}, REGRESSED),
        }
    ),
)
def test_stored_runs_at_another_clock(
    run: Run, budgets: dict[Metric, float], outcome: Outcome
) -> None:
    verdict = gated([run], None, records.baseline(), policy=Policy(budgets=budgets)).verdict
    assert verdict.outcome is outcome
    if outcome is Outcome.INCONCLUSIVE:
        assert verdict.loss_level is None or run.conditions.sm_clock_mhz == 2079


@pytest.mark.parametrize("percent", [0, 2.5])
def test_a_baseline_commit_that_is_slower_here_is_said(percent: float) -> None:
    verdict = gated(screen(percent), pairs(percent, percent)).verdict
    assert verdict.outcome is PASSED
    assert bool(verdict.warnings) is (percent > 2)
    assert slower(0).conditions.sm_clock_mhz == 1980


@pytest.mark.parametrize(
    ("alone", "made", "is_said"),
    [
        pytest.param((90, 90), 90, True, id="both sides"),
        pytest.param((90, 90), 0, False, id="not the candidate's runs"),
        pytest.param((0, 0), 90, False, id="not the commit's"),
        pytest.param((0, 0), 0, False, id="neither"),
    ],
)
def test_in_blocks_runs_alone_show_that_both_sides_are_slower(
    alone: tuple[float, float], made: float, *, is_said: bool
) -> None:
    there, here = alone
    blocks = replace(pairs(0, 0), alone=Pair(reference=slower(there), candidate=slower(here, 1)))
    verdict = gated(noisy_runs(made), None, noisy_baseline(), blocks=blocks).verdict
    assert (verdict.outcome, verdict.stage) == (PASSED, Stage.BLOCKS)
    assert ("baseline-commit-slower" in [one.code for one in verdict.notes]) is is_said
