"""What is said before runs are made."""

from __future__ import annotations

import pytest
from support import records
from support.prepared import FULL, expect, noisy_baseline

from perfgate import gate
from perfgate.gate import Expectation, Policy
from perfgate.model.baseline import Baseline

MORE = "if that does not do, "
UPDATED = records.machine(driver="570.86.10")


def forecast(
    baseline: Baseline | None,
    policy: Policy | None = None,
    *,
    forms: str = "duet",
    against: str | None = None,
) -> tuple[str, ...]:
    """What is said of so much time a run, with these forms of a duet."""
    return of(expect(baseline), policy, forms=forms, against=against)


def of(
    expectation: Expectation,
    policy: Policy | None = None,
    *,
    forms: str = "duet",
    against: str | None = None,
) -> tuple[str, ...]:
    return gate.forecast(
        expectation,
        policy or Policy(),
        run_s=10.0,
        duet="duet" in forms,
        interleaved="interleaved" in forms,
        against=against,
    )


def test_it_is_said_before_what_is_to_be_spent_and_what_it_can_hold() -> None:
    assert forecast(FULL) == (
        "5 runs (about 50 s)",
        f"{MORE}up to 12 pairs (about 240 s) with the baseline's commit: holds step_ms to 2 % and kernel_ms to 1 %",
    )
    first, more = forecast(FULL, forms="none")
    assert first == "5 runs (about 50 s)"
    assert more.startswith(f"{MORE}up to 5 runs (about 50 s) more: holds ")
    assert forecast(FULL, Policy(runs=10, max_runs=10), forms="none") == ("10 runs (about 100 s)",)


def test_what_a_run_takes_is_left_out_where_nobody_knows_it() -> None:
    assert gate.forecast(expect(FULL), Policy(), run_s=None, duet=False)[0] == "5 runs"


def test_noisy_pairs_of_processes_hold_less_than_blocks() -> None:
    assert "holds step_ms to 2 %" not in forecast(noisy_baseline())[1]
    assert (
        "up to 12 interleaved pairs (about 240 s)"
        in forecast(noisy_baseline(), forms="duet interleaved")[1]
    )
    assert "holds step_ms to 2 %" in forecast(noisy_baseline(), forms="duet interleaved")[1]
    assert "interleaved" not in forecast(FULL, forms="duet interleaved")[1]


def test_on_another_driver_no_screen_is_promised() -> None:
    there, noisy = expect(FULL, on=UPDATED), expect(noisy_baseline(), on=UPDATED)
    first, more = of(there)
    assert first == "3 pairs (about 60 s) with the baseline's commit"
    assert more.startswith(f"{MORE}up to 12 pairs (about 240 s): ")
    for told in (of(noisy, forms="duet interleaved"), of(there, forms="interleaved")):
        assert (
            told[0]
            == "1 pair (about 20 s) and 3 interleaved pairs (about 60 s) with the baseline's commit"
        )
    few = of(there, Policy(max_runs=8))
    assert few[1].startswith(f"{MORE}up to 4 pairs ")
    (fewer,) = of(noisy, Policy(max_runs=7), forms="duet interleaved")
    assert fewer.startswith("3 pairs ")
    asked = of(there, Policy(runs=5, stops_early=False))
    assert asked[0].startswith("5 pairs ")
    assert of(there, Policy(max_runs=5)) == ("5 runs (about 50 s)",)


@pytest.mark.parametrize("forms", ["duet interleaved", "none"])
def test_of_fewer_runs_than_can_pass_nothing_is_promised(forms: str) -> None:
    one = forecast(FULL, Policy(runs=1, max_runs=1), forms=forms)
    assert one == ("1 run (about 10 s)", "1 run cannot pass: that takes 5 (--perfgate-max-runs=5)")
    assert len(forecast(FULL, Policy(max_runs=5), forms=forms)) == 1


def test_no_interleaved_pairs_are_promised_that_the_runs_do_not_suffice_for() -> None:
    told = forecast(noisy_baseline(), Policy(max_runs=6), forms="duet interleaved", against="HEAD")
    assert told == ("3 pairs (about 60 s) with HEAD",)
    fewer = forecast(noisy_baseline(), Policy(max_runs=4), against="HEAD")
    assert fewer == ("4 runs: no room for 3 pairs (--perfgate-max-runs=6)",)


def test_a_baseline_without_clocks_promises_nothing() -> None:
    counted = records.baseline([{}])
    bare = tuple(
        occasion.model_copy(
            update={"runs": tuple(run.model_copy(update={"values": {}}) for run in occasion.runs)}
        )
        for occasion in counted.occasions
    )
    assert not [
        line for line in forecast(counted.model_copy(update={"occasions": bare})) if "holds" in line
    ]


def test_what_has_nothing_to_compare_with_says_so() -> None:
    assert forecast(None) == ("5 runs (about 50 s), to be shown: there is nothing to compare with",)
    broken = expect(None).model_copy(update={"trouble": "it is broken"})
    assert of(broken) == ("nothing to measure while its baseline cannot be read",)
    assert forecast(None, against="HEAD~1") == (
        "3 pairs (about 60 s) with HEAD~1",
        f"{MORE}up to 12 pairs (about 240 s)",
    )
