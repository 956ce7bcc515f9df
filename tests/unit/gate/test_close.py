"""What a whole invocation comes to, before and after: its plan, its closing, and Holm over its
workloads."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from support import records
from support.prepared import (
    FULL,
    PreparedLab,
    expect,
    noisy_baseline,
    pairs,
    with_runs,
)

from perfgate.execute.lab import Invocation
from perfgate.gate.close import close, step_down_times
from perfgate.gate.expect import Expectation
from perfgate.gate.gate import Gate
from perfgate.gate.plan import forecast
from perfgate.gate.underway import Underway
from perfgate.model.baseline import Baseline
from perfgate.model.metric import Metric
from perfgate.model.note import note
from perfgate.model.outcome import Outcome
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
    shut = close(expected, verdicts(**outcomes), Policy())
    assert [one.code for one in shut] == codes


# Many workloads share the error


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
TIMED = with_runs(FULL, wall_s=10.0)


def planned(
    expected: Expectation,
    forms: list[Form],
    policy: Policy | None = None,
    *,
    against: bool = False,
) -> list[str]:
    by_form = {form: pairs(0, 0) for form in forms}
    lab = PreparedLab(made=[], by_form=by_form, machine=expected.machine)
    plan = forecast(Underway(expected, lab, policy or Policy(), against=against))
    return [say.fact(one) for one in plan if one.code != "plan-holds"]


@pytest.mark.parametrize(
    ("baseline", "forms", "policy", "said"),
    [
        pytest.param(FULL, PAIRS, Policy(), ["5 runs", "up to 12 A/B pairs more"], id="pairs"),
        pytest.param(
            noisy_baseline(),
            BOTH,
            Policy(),
            ["1 run, for its", "3 A/B pairs in blocks", "up to 9 A/B pairs in blocks more"],
            id="noisy",
        ),
        pytest.param(FULL, [], Policy(), ["5 runs", "up to 5 runs more"], id="stored"),
        pytest.param(
            records.in_one_occasion(noisy_baseline(), commit=None),
            BOTH,
            Policy(),
            ["5 runs", "up to 5 runs more"],
            id="of no commit",
        ),
        pytest.param(FULL, [], Policy(runs=10, max_runs=10), ["10 runs"], id="one look"),
        pytest.param(
            FULL, BOTH, Policy(runs=3, max_runs=8), ["5 runs", "up to 3 runs more"], id="few"
        ),
        pytest.param(None, BOTH, Policy(), ["nothing to compare with yet: measuring 5 runs"]),
        pytest.param(
            TIMED,
            PAIRS,
            Policy(),
            ["about 50 s, at most 4 min 50 s", "5 runs", "12 A/B pairs"],
            id="and how long",
        ),
        pytest.param(
            with_runs(noisy_baseline(), wall_s=10.0),
            [Form.BLOCK],
            Policy(max_runs=9),
            ["about 1 min 30 s", "1 run, for its counts", "3 A/B pairs in blocks"],
            id="all at once",
        ),
    ],
)
def test_it_is_said_before_what_is_to_be_spent(
    baseline: Baseline | None, forms: list[Form], policy: Policy, said: list[str]
) -> None:
    plan = planned(expect(baseline), forms, policy)
    assert len(plan) == len(said)
    assert all(text in one for one, text in zip(plan, said, strict=True))


def test_the_plan_of_another_commit_and_of_a_baseline_that_cannot_be_read() -> None:
    assert planned(expect(), PAIRS, against=True) == [
        "3 A/B pairs",
        "if that is inconclusive: up to 9 A/B pairs more",
    ]
    assert planned(expect(), PAIRS, Policy(max_runs=4), against=True) == ["nothing can be measured"]
    assert planned(expect(trouble=note("quoted", text="x")), PAIRS) == ["nothing can be measured"]
