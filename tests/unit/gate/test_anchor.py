"""Small losses that add up, beside the best ever blessed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support import records
from support.prepared import (
    WOBBLE,
    Candidate,
    RecordedDuel,
    duel,
    expect,
    gated,
    in_bouts,
    moody,
    noisy_baseline,
    outcome_of,
    screen,
    slower,
)

from perfgate.gate import Policy, check
from perfgate.model.baseline import Anchor, Baseline, Milestone, Spread
from perfgate.model.metric import Metric
from perfgate.model.outcome import Outcome
from perfgate.model.verdict import Stage


def crept(*steps: float, anchor: float = 12.34) -> Baseline:
    """A baseline whose step has come from the anchor's in small losses."""
    now = steps[-1]
    path = tuple(
        Milestone(
            step_ms=ms, at=records.NOON + timedelta(days=day), commit=records.COMMIT, reason="small"
        )
        for day, ms in enumerate(steps, start=1)
    )
    return records.baseline(
        [{Metric.STEP_MS: now * (1 + w / 100)} for w in WOBBLE] * 2,
        anchor=Anchor(
            step_ms=anchor, at=records.NOON, commit=records.COMMIT, runs=10, occasions=2, path=path
        ),
    )


def test_many_small_losses_end_in_a_large_one_and_the_way_there_is_told() -> None:
    steps = [12.34 * 1.01**n for n in range(1, 8)]
    then, now = (100 * (1.01**n - 1) for n in (7, 8))
    checked = gated(screen(now), duel(then, now), crept(*steps))
    assert outcome_of(checked) == (Outcome.REGRESSED, Stage.DUET, 6, 3)
    row, found = checked.verdict.of(Metric.STEP_MS), checked.verdict.creep
    assert row is not None
    assert row.change == pytest.approx(0.01, abs=1e-3)
    assert row.outcome is Outcome.PASSED
    assert found is not None
    assert found.shown
    assert found.change == pytest.approx(1.01**8 - 1, abs=1e-3)
    assert [point.step_ms for point in found.path] == pytest.approx([12.34, *steps])
    assert "--accept-regression" in checked.verdict.next_step


def noisy_crept(anchor: float) -> Baseline:
    """The noisy baseline of 12.34 ms, with an anchor."""
    told = Anchor(step_ms=anchor, at=records.NOON, commit=records.COMMIT, runs=10, occasions=5)
    return noisy_baseline().model_copy(update={"anchor": told})


@pytest.mark.parametrize(("core", "lost"), [(0.0, 0.0), (-40.0, 0.0), (-40.0, 1.0)])
def test_an_interleaved_duet_is_held_against_the_anchor_by_its_pairs_ratio(
    core: float, lost: float
) -> None:
    """What a step takes on one core is not beside what was blessed; what the candidate's differs by is."""
    slow = 100 * ((1 + core / 100) * (1 + lost / 100) - 1)
    interleaved = RecordedDuel(moody(core), moody(slow, wobble=2))
    checked = check(
        expect(noisy_crept(7.0)),
        Policy(),
        Candidate(*moody(lost)),
        duel(0, 0),
        interleaved=interleaved,
    )
    assert (checked.verdict.outcome, checked.verdict.stage) == (
        Outcome.REGRESSED,
        Stage.INTERLEAVED,
    )
    assert checked.verdict.creep is not None
    assert checked.verdict.creep.shown
    assert checked.verdict.creep.change == pytest.approx(
        12.34 / 7.0 * (1 + lost / 100) - 1, rel=1e-3
    )
    row = checked.verdict.of(Metric.STEP_MS)
    assert row is not None
    assert row.outcome is not Outcome.REGRESSED


def test_bouts_are_held_against_the_anchor_as_they_are_judged() -> None:
    """By their medians the candidate was 28 % faster, and so within the anchor's budget."""
    moods = [7.7, 7.7, 7.7, 5.1, 5.1]
    there = [in_bouts(run, moods, begins=n % 2 == 0) for n, run in enumerate(moody(40.0))]
    here = [in_bouts(run, moods, begins=n % 2 == 1) for n, run in enumerate(moody(0.0, wobble=2))]
    checked = check(
        expect(noisy_crept(7.0)),
        Policy(),
        Candidate(*moody(0)),
        None,
        interleaved=RecordedDuel(there, here),
    )
    assert checked.verdict.creep is not None
    assert checked.verdict.creep.now == pytest.approx(12.34)
    assert checked.verdict.outcome is Outcome.REGRESSED


def test_what_a_duets_medians_may_be_off_by_is_in_its_distance_from_the_anchor() -> None:
    """Its ratio is of two medians, put on top of a third: three runs of either side and the blessed ones say less."""
    known = Spread(run_sd=0.05, occasion_sd=0.0, runs=20, occasions=5, at=records.NOON)
    baseline = noisy_crept(11.0).model_copy(update={"calibration": {Metric.STEP_MS: known}})
    updated = records.machine(driver="570.86.10")
    stored = gated(Candidate(*moody(0)), None, baseline, policy=Policy(max_runs=3))
    pairs = RecordedDuel(moody(0), moody(0, wobble=2))
    paired = check(expect(baseline, on=updated), Policy(max_runs=6), Candidate(on=updated), pairs)
    spans = [
        found.high - found.low for of in (stored, paired) if (found := of.verdict.creep) is not None
    ]
    assert paired.verdict.stage is Stage.DUET
    assert spans[1] / spans[0] == pytest.approx(1.6, abs=0.1)


def test_an_unchanged_noisy_loop_near_its_anchor_passes_interleaved() -> None:
    interleaved = RecordedDuel(moody(30.0), moody(30.0, wobble=2))
    checked = check(
        expect(noisy_crept(12.0)), Policy(), Candidate(*moody(30)), None, interleaved=interleaved
    )
    assert outcome_of(checked) == (Outcome.PASSED, Stage.INTERLEAVED, 4, 3)
    assert checked.verdict.creep is not None
    assert checked.verdict.creep.change == pytest.approx(12.34 / 12.0 - 1, abs=1e-3)
    assert not checked.verdict.creep.shown


def test_what_a_lower_clock_may_account_for_is_no_loss_against_the_anchor() -> None:
    steps = [12.34 * 1.01**n for n in range(1, 9)]
    made = [slower(100 * (1.01**8 - 1), number, clock_mhz=1940) for number in range(3)]
    checked = gated(Candidate(*made), None, crept(*steps))
    assert checked.verdict.outcome is Outcome.PASSED
    assert checked.verdict.creep is None
    (told,) = [remark for remark in checked.verdict.remarks if "small losses" in remark]
    assert told.endswith(
        "budget 5 %, and the SM clock was 1980 MHz in the baseline and 1940 MHz now"
    )
    at_its_clock = [slower(100 * (1.01**8 - 1), number, clock_mhz=1980) for number in range(3)]
    assert gated(Candidate(*at_its_clock), None, crept(*steps)).verdict.outcome is Outcome.REGRESSED


def test_one_small_loss_is_no_creep() -> None:
    checked = gated(screen(1.0), None, crept(12.34 * 1.01))
    assert checked.verdict.outcome is Outcome.PASSED
    assert checked.verdict.creep is not None
    assert not checked.verdict.creep.shown


def test_a_wider_anchor_budget_lets_more_through() -> None:
    steps = [12.34 * 1.01**n for n in range(1, 9)]
    assert gated(screen(8.3), None, crept(*steps)).verdict.outcome is Outcome.REGRESSED
    wider = gated(screen(8.3), None, crept(*steps), policy=Policy(anchor_budget=0.1))
    assert wider.verdict.outcome is Outcome.PASSED
    assert wider.verdict.remarks == ()


def test_a_step_just_beyond_the_anchors_budget_is_told_and_lets_through_what_is_not_shown() -> None:
    checked = gated(screen(5.2), None, crept(*[12.34 * 1.01**n for n in range(1, 6)]))
    assert checked.verdict.outcome is Outcome.PASSED
    assert checked.verdict.creep is not None
    assert not checked.verdict.creep.shown
    (told,) = checked.verdict.remarks
    assert told.startswith(
        "Small losses have added up to 5.2 % above the best step_ms ever blessed (12.34 ms), which does not show yet "
        "that it is more than the budget of 5 % ("
    )


def test_a_baseline_that_is_its_own_anchor_has_not_crept() -> None:
    assert gated(screen(0.0), None, crept(12.34, anchor=12.4)).verdict.creep is None
    assert gated(screen(0.0), None).verdict.creep is None


@pytest.mark.behaviour
@pytest.mark.parametrize(
    ("driver", "mhz"), [("550.54.15", 1980.0), ("570.86.10", 1980.0), ("550.54.15", 1900.0)]
)
def test_what_the_machine_lost_since_the_anchor_is_no_creep(driver: str, mhz: float) -> None:
    """The baseline is 2 % above its anchor, the code unchanged, and everything 8 % slower today."""
    today, machine = 100 * (1.02 * 1.08 - 1), records.machine(driver=driver)
    made = [slower(today, number, clock_mhz=mhz) for number in range(12)]
    checked = check(
        expect(crept(12.34 * 1.01, 12.34 * 1.02), on=machine),
        Policy(),
        Candidate(*made, on=machine),
        RecordedDuel(made, made[2:]),
    )
    assert (checked.verdict.outcome, checked.verdict.stage) == (Outcome.PASSED, Stage.DUET)
    assert checked.verdict.creep is not None
    assert checked.verdict.creep.change == pytest.approx(0.02, abs=1e-3)
