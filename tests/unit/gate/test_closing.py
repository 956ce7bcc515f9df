"""What a whole invocation amounts to."""

from __future__ import annotations

import pytest
from support import records
from support.prepared import gated, screen

from perfgate import gate
from perfgate.gate import Closing, Policy, close
from perfgate.model.metric import Metric
from perfgate.model.outcome import OnInconclusive, OnNew, Outcome
from perfgate.model.verdict import Verdict

# What keeps the gate shut


def verdicts(**outcomes: Outcome) -> dict[str, Verdict]:
    return {
        name: records.verdict(outcome, name=name).model_copy(update={"runs": 10})
        for name, outcome in outcomes.items()
    }


def test_passed_and_improved_open_the_gate() -> None:
    closing = close(["a", "b"], verdicts(a=Outcome.PASSED, b=Outcome.IMPROVED), Policy())
    assert closing == Closing(opens=True)
    assert closing.exit_status == 0


def test_nothing_expected_keeps_the_gate_shut() -> None:
    closing = close([], {}, Policy())
    assert closing == Closing(
        opens=False, shut_by=("no workload was collected, so nothing was measured",)
    )
    assert closing.exit_status == 1


def test_an_expected_workload_without_a_verdict_keeps_the_gate_shut() -> None:
    assert close(["a", "b"], verdicts(a=Outcome.PASSED), Policy()).shut_by == (
        "b: it was expected, and not measured",
    )


def test_an_orphaned_baseline_keeps_the_gate_shut() -> None:
    assert close(["a"], verdicts(a=Outcome.PASSED), Policy(), orphans=["old"]).shut_by == (
        (
            "old: it has a baseline for this machine, and no such workload was collected; gate with the variables and "
            "options that it was blessed with, or, if it was renamed or deleted on purpose, delete its baseline"
        ),
    )


def test_a_baseline_whose_workload_may_be_in_a_skipped_file_keeps_the_gate_shut() -> None:
    passed, skipped = (
        verdicts(a=Outcome.PASSED),
        {"workloads/b.py": "could not import 'flash_attn'"},
    )
    assert close(["a"], passed, Policy(), skipped_files=skipped) == close(["a"], passed, Policy())
    shut = close(["a"], passed, Policy(), orphans=["b"], skipped_files=skipped)
    assert not shut.opens
    assert [line.partition("; ") for line in shut.shut_by] == [
        (
            "b: it has a baseline for this machine, and was not collected",
            "; ",
            "it may be in what was skipped: workloads/b.py (could not import 'flash_attn')",
        )
    ]


def test_a_workload_that_its_file_no_longer_declares_keeps_it_shut() -> None:
    (told,) = close(
        ["a"], verdicts(a=Outcome.PASSED), Policy(), gone={"b": "workloads/b.py"}
    ).shut_by
    assert told.startswith("b: it has a baseline for this machine, measured from workloads/b.py")


OPENING = {Outcome.PASSED, Outcome.IMPROVED}


@pytest.mark.parametrize("on_new", OnNew)
@pytest.mark.parametrize("on_inconclusive", OnInconclusive)
@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_opens_the_gate_only_as_the_policy_says(
    outcome: Outcome, on_inconclusive: OnInconclusive, on_new: OnNew
) -> None:
    policy = Policy(on_inconclusive=on_inconclusive, on_new=on_new)
    allowed = OPENING | (
        {Outcome.INCONCLUSIVE} if on_inconclusive is OnInconclusive.WARN else set()
    )
    allowed |= {Outcome.NO_BASELINE} if on_new is OnNew.ALLOW else set()
    closing = close(["a"], verdicts(a=outcome), policy)
    assert closing.opens is (outcome in allowed)
    assert closing.shut_by == (() if outcome in allowed else (f"a: {outcome}",))


# Many workloads


def test_workloads_of_one_gate_share_the_error() -> None:
    checked = gated(screen(2.5), None, policy=Policy(workloads=4))
    alone = gated(screen(2.5), None)
    assert checked.verdict.workloads == 4
    shared, own = checked.verdict.of(Metric.STEP_MS), alone.verdict.of(Metric.STEP_MS)
    assert shared is not None
    assert own is not None
    assert shared.smallest is not None
    assert own.smallest is not None
    assert shared.smallest > own.smallest


def test_a_loss_missed_for_sharing_is_told_once_the_others_are_known() -> None:
    lost = {"loss_by": Metric.STEP_MS}
    clear = records.verdict(Outcome.REGRESSED, name="a").model_copy(
        update={"loss_level": 0.001, **lost}
    )
    row = records.clock(
        Metric.STEP_MS, Outcome.INCONCLUSIVE, was=10, now=10.4, change=0.04, around=0.01
    )
    other = records.clock(
        Metric.GAP_MS, Outcome.INCONCLUSIVE, was=1, now=1.8, change=0.08, around=0.2
    )
    close = records.verdict(Outcome.INCONCLUSIVE, name="b", metrics=[row, other])
    close = close.model_copy(update={"loss_level": 0.8, **lost})
    changed = gate.step_down_clocks({"a": clear, "b": close}, workloads=2)
    assert {name: (verdict.outcome, verdict.reason) for name, verdict in changed.items()} == {
        "b": (
            Outcome.REGRESSED,
            ("+4.0 % step_ms (10.00 to 10.40 ms)."),
        )
    }
    assert [row.outcome for row in changed["b"].metrics] == [
        Outcome.REGRESSED,
        Outcome.INCONCLUSIVE,
    ]
    assert changed["b"].next_step == (
        "If this is meant, gate with --perfgate-runs=5 (what a baseline needs) and bless it: "
        'perfgate bless b --reason "..." --accept-regression'
    )
    assert gate.step_down_clocks({"a": clear, "b": close}, workloads=3) == {}
