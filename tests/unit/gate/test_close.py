"""What a whole invocation comes to, before and after: its plan, its closing, and Holm over its
workloads."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from support import records
from support.prepared import FULL, expect, gated, noisy_baseline, screen

from perfgate.execute.lab import Invocation
from perfgate.gate.close import close, missing, sharing_after, step_down_times
from perfgate.gate.forecast import forecast
from perfgate.gate.gate import Gate
from perfgate.gate.notes import not_measured
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.note import note
from perfgate.model.outcome import OnInconclusive, OnNew, Outcome
from perfgate.model.sample import Form
from perfgate.model.settings import Policy, Settings
from perfgate.model.verdict import Verdict
from perfgate.plugin.progress import Progress
from perfgate.words import say

UPDATED = records.machine(driver="570.86.10")


def verdicts(**outcomes: Outcome) -> dict[str, Verdict]:
    return {
        name: records.verdict(outcome, name=name).model_copy(update={"runs": 10})
        for name, outcome in outcomes.items()
    }


# Closing


@pytest.mark.parametrize(
    ("expected", "outcomes", "codes"),
    [
        (["a", "b"], {"a": Outcome.PASSED, "b": Outcome.IMPROVED}, []),
        ([], {}, ["nothing-collected"]),
        (["a", "b"], {"a": Outcome.PASSED}, ["expected-not-measured"]),
        (["a"], {"a": Outcome.REGRESSED}, ["workload-shuts"]),
    ],
)
def test_every_expected_workload_must_open(
    expected: list[str], outcomes: dict[str, Outcome], codes: list[str]
) -> None:
    closing = close(expected, verdicts(**outcomes), Policy())
    assert [one.code for one in closing.notes] == codes
    assert (closing.opens, closing.exit_status) == (not codes, int(bool(codes)))


@pytest.mark.parametrize(
    ("skipped", "code"), [({"b.py": "no flash_attn"}, "orphan-perhaps-skipped"), ({}, "orphan")]
)
def test_a_baseline_without_a_workload_shuts(skipped: dict[str, str], code: str) -> None:
    notes = missing(["b"], skipped)
    assert [one.code for one in notes] == [code]
    closing = close(["a"], verdicts(a=Outcome.PASSED), Policy()).but(*notes)
    assert (closing.opens, len(closing.shut_by)) == (False, 1)


@pytest.mark.parametrize("on_new", OnNew)
@pytest.mark.parametrize("on_inconclusive", OnInconclusive)
@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_opens_the_gate_only_as_the_policy_says(
    outcome: Outcome, on_inconclusive: OnInconclusive, on_new: OnNew
) -> None:
    policy = Policy(on_inconclusive=on_inconclusive, on_new=on_new)
    allowed = {Outcome.PASSED, Outcome.IMPROVED}
    allowed |= {Outcome.INCONCLUSIVE} if on_inconclusive is OnInconclusive.WARN else set()
    allowed |= {Outcome.NO_BASELINE} if on_new is OnNew.ALLOW else set()
    assert close(["a"], verdicts(a=outcome), policy).opens is (outcome in allowed)


def test_a_workload_that_never_came_to_its_first_run_shuts_and_says_why() -> None:
    late = note("too-late", budget_s=60.0)
    verdict = not_measured("a", late)
    assert (verdict.why, verdict.runs, verdict.metrics) == (late, 0, ())
    lenient = Policy(on_inconclusive=OnInconclusive.WARN, on_new=OnNew.ALLOW)
    closing = close(["a"], {"a": verdict}, lenient)
    assert (closing.opens, closing.exit_status) == (False, 1)
    (shut,) = closing.notes
    assert shut.fields == {"workload": "a", "outcome": Outcome.NOT_MEASURED}


# Many workloads share the error


def test_workloads_of_one_gate_share_the_error() -> None:
    smallest = []
    for workloads in (1, 4):
        verdict = gated(screen(2.5), None, policy=Policy(workloads=workloads)).verdict
        row = verdict.of(Metric.STEP_MS)
        assert verdict.workloads == workloads
        assert row is not None
        smallest.append(row.smallest or 0.0)
    assert smallest[0] < smallest[1]


def lost(name: str, outcome: Outcome, level: float) -> Verdict:
    row = records.clock(
        Metric.STEP_MS, Outcome.INCONCLUSIVE, was=10, now=10.4, change=0.04, around=0.01
    )
    verdict = records.verdict(outcome, name=name, metrics=[row])
    return verdict.model_copy(update={"loss_level": level, "loss_by": Metric.STEP_MS})


def test_a_loss_missed_for_sharing_shows_once_the_others_are_known() -> None:
    both = {"a": lost("a", Outcome.REGRESSED, 0.001), "b": lost("b", Outcome.INCONCLUSIVE, 0.8)}
    ((name, changed),) = step_down_times(both, workloads=2).items()
    assert (name, changed.outcome) == ("b", Outcome.REGRESSED)
    assert [row.outcome for row in changed.metrics] == [Outcome.REGRESSED]
    assert step_down_times(both, workloads=3) == {}


@pytest.mark.parametrize(
    ("judged", "sharing"),
    [
        pytest.param([], 4, id="the first"),
        pytest.param([(None, 4)], 4, id="no loss"),
        pytest.param([(0.26, 4)], 4, id="a loss that is not shown"),
        pytest.param([(0.25, 4)], 3, id="a loss that just is"),
        pytest.param([(0.25, 4), (0.33, 3)], 2, id="the next at its own level"),
        pytest.param([(0.26, 4), (0.25, 4)], 3, id="one of two"),
        pytest.param([(0.01, 4)] * 4, 1, id="all"),
    ],
)
def test_those_that_have_lost_leave_their_share_of_the_error_to_the_next(
    judged: list[tuple[float | None, int]], sharing: int
) -> None:
    before = {
        str(number): records.verdict().model_copy(update={"loss_level": level, "workloads": among})
        for number, (level, among) in enumerate(judged)
    }
    assert sharing_after(before, workloads=4) == sharing


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_loss_that_shows_at_the_end_is_kept_as_one(tmp_path: Path, *, is_kept: bool) -> None:
    asked = Invocation(root=tmp_path, settings=Settings(), env={}, worker_env={})
    gate = Gate(asked, Progress(StringIO(), live=False, width=80))
    workloads = [records.workload(name=name) for name in ("a", "b")]
    gate.expect(workloads)
    for workload, outcome, level in zip(
        workloads, (Outcome.REGRESSED, Outcome.INCONCLUSIVE), (0.001, 0.8), strict=True
    ):
        verdict = lost(workload.id, outcome, level)
        result = records.result(of=workload, judged=verdict)
        folder = gate.store.results.new_folder(
            workload.id, result.machine.slug, at=result.measured_at
        )
        gate.store.results.save(result, folder)
        gate.verdicts[workload.id] = verdict
        gate._folders[workload.id] = folder
    if not is_kept:
        (folder / "result.json").unlink()
    assert [one.code for one in gate.step_down()] == ([] if is_kept else ["not-kept"])
    assert gate.verdicts["b"].outcome is Outcome.REGRESSED
    if is_kept:
        kept = gate.store.results.latest("b")
        assert kept is not None
        assert kept.result.verdict == gate.verdicts["b"]


# The plan


PAIRS, BOTH = [Form.PAIR], [Form.PAIR, Form.BLOCK]


@pytest.mark.parametrize(
    ("baseline", "forms", "policy", "spending"),
    [
        pytest.param(FULL, PAIRS, Policy(), ["5 runs", "12 A/B pairs"], id="pairs"),
        pytest.param(FULL, BOTH, Policy(), ["5 runs", "12 A/B pairs"], id="quiet"),
        pytest.param(
            noisy_baseline(),
            BOTH,
            Policy(),
            ["1 run", "3 A/B pairs in blocks", "up to 9 A/B pairs in blocks more"],
            id="noisy",
        ),
        pytest.param(
            noisy_baseline(),
            BOTH,
            Policy(runs=3, stops_early=False),
            ["5 runs", "12 A/B pairs in blocks"],
            id="noisy, of as many runs as were asked for",
        ),
        pytest.param(FULL, [], Policy(), ["5 runs", "5 runs"], id="stored"),
        pytest.param(FULL, [], Policy(runs=10, max_runs=10), ["10 runs"], id="one look"),
        pytest.param(FULL, BOTH, Policy(runs=1, max_runs=1), ["1 run", "1 run"], id="too few"),
        pytest.param(None, BOTH, Policy(), ["5 runs"], id="nothing to compare with"),
    ],
)
def test_it_is_said_before_what_is_to_be_spent(
    baseline: Baseline | None, forms: list[Form], policy: Policy, spending: list[str]
) -> None:
    plan = forecast(expect(baseline), policy, forms, run_s=None)
    said = [say.fact(one) for one in plan if one.code != "plan-holds"]
    assert len(said) == len(spending)
    assert all(text in one for one, text in zip(said, spending, strict=True))


@pytest.mark.parametrize(
    ("forms", "policy", "codes"),
    [
        (PAIRS, Policy(), ["plan-counts", "plan-pairs", "plan-if-inconclusive", "plan-holds"]),
        ([Form.BLOCK], Policy(max_runs=9), ["plan-counts", "plan-blocks", "plan-holds"]),
        (BOTH, Policy(max_runs=5), ["plan-runs"]),
    ],
)
def test_where_stored_times_do_not_hold_counts_and_pairs_are_planned(
    forms: list[Form], policy: Policy, codes: list[str]
) -> None:
    plan = forecast(expect(FULL, on=UPDATED), policy, forms, run_s=None)
    assert [one.code for one in plan] == codes


@pytest.mark.parametrize(
    ("baseline", "forms", "said"),
    [
        (None, BOTH, "about 50 s"),
        (FULL, PAIRS, "about 50 s, at most 4 min 50 s"),
        (FULL, [], "about 50 s, at most 1 min 40 s"),
    ],
)
def test_it_is_said_how_long_it_takes(
    baseline: Baseline | None, forms: list[Form], said: str
) -> None:
    plan = forecast(expect(baseline), Policy(), forms, run_s=10.0)
    assert say.fact(plan[0]) == said


def test_the_plan_of_another_commit_and_of_a_baseline_that_cannot_be_read() -> None:
    plan = forecast(expect(), Policy(), PAIRS, run_s=None, against=True)
    assert [one.code for one in plan] == ["plan-pairs", "plan-if-inconclusive"]
    plan = forecast(expect(), Policy(max_runs=4), PAIRS, run_s=None, against=True)
    assert [one.code for one in plan] == ["no-runs-for-pairs"]
    plan = forecast(expect(trouble=note("quoted", text="x")), Policy(), PAIRS, run_s=None)
    assert [one.code for one in plan] == ["plan-nothing"]
