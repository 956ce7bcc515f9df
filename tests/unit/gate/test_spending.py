"""What is said before runs are made."""

from __future__ import annotations

from support import records
from support.prepared import FULL, expect, noisy_baseline

from perfgate import gate
from perfgate.gate import Policy
from perfgate.model.machine import Gpu


def test_it_is_said_before_what_is_to_be_spent_and_what_it_can_show() -> None:
    assert gate.forecast(expect(FULL), Policy(), run_s=10.0, duet=True) == (
        "3 runs (about 30 s): can show 2.1 % of step_ms and 0.5 % of kernel_ms",
        (
            "if that does not do, up to 8 pairs (about 160 s) with the baseline's commit: "
            "can show 1 % of step_ms and 0.5 % of kernel_ms"
        ),
    )


def test_on_another_gpu_no_screen_is_promised() -> None:
    there = expect(FULL).model_copy(update={"machine": records.machine(driver="570.86.10")})
    assert gate.forecast(there, Policy(), run_s=10.0, duet=True) == (
        "3 pairs (about 60 s) with the baseline's commit",
        "if that does not do, up to 8 pairs (about 160 s): can show 1 % of step_ms and 0.5 % of kernel_ms",
    )


def test_on_another_gpu_the_form_is_promised_that_will_be_taken_and_all_the_runs_there_are_for_it() -> None:
    other = records.machine().model_copy(update={"gpus": (Gpu(name="NVIDIA H200", uuid="GPU-x"),)})
    noisy = gate.forecast(expect(noisy_baseline(), on=other), Policy(), run_s=None, duet=True, interleaved=True)
    quiet = gate.forecast(expect(FULL, on=other), Policy(), run_s=None, duet=False, interleaved=True)
    assert noisy[0] == quiet[0] == "1 pair and 3 interleaved pairs with the baseline's commit"
    few = gate.forecast(expect(FULL, on=other), Policy(max_runs=8), run_s=None, duet=True)
    assert few[0] == "3 pairs with the baseline's commit"
    assert few[1].startswith("if that does not do, up to 4 pairs: ")
    fewer = gate.forecast(
        expect(noisy_baseline(), on=other), Policy(max_runs=7), run_s=None, duet=True, interleaved=True
    )
    assert len(fewer) == 1
    assert fewer[0].startswith("3 pairs with the baseline's commit: can show ")
    asked = gate.forecast(expect(FULL, on=other), Policy(runs=5, stops_early=False), run_s=None, duet=True)
    assert asked[0] == "5 pairs with the baseline's commit"
    without = gate.forecast(expect(FULL, on=other), Policy(max_runs=5), run_s=None, duet=True, interleaved=True)
    assert without[0].startswith("3 runs: can show ")


def test_of_fewer_runs_than_can_fail_a_clock_nothing_is_promised() -> None:
    few = "can pass, and never fail on a clock, however slow: that takes 3 (--perfgate-max-runs=3)"
    for duet in (True, False):
        one = gate.forecast(expect(FULL), Policy(runs=1, max_runs=1), run_s=10.0, duet=duet, interleaved=True)
        assert one == ("1 run (about 10 s)", f"1 run {few}")
    two = gate.forecast(expect(noisy_baseline()), Policy(runs=1, max_runs=2), run_s=None, duet=True, interleaved=True)
    assert two == ("1 run", f"2 runs {few}")
    assert len(gate.forecast(expect(FULL), Policy(runs=3, max_runs=3), run_s=10.0, duet=False)) == 1


def test_what_interleaved_pairs_show_is_less_where_workloads_share_the_error() -> None:
    alone, shared = (
        gate.forecast(expect(noisy_baseline()), Policy(workloads=n), run_s=None, duet=True, interleaved=True)[1]
        for n in (1, 10)
    )
    assert "can show 1.3 % of step_ms" in alone
    assert "can show 1.7 % of step_ms" in shared


def test_what_a_run_takes_is_left_out_where_nobody_knows_it() -> None:
    first, more = gate.forecast(expect(FULL), Policy(), run_s=None, duet=False)
    assert first.startswith("3 runs: can show ")
    assert more.startswith("if that does not do, up to 7 runs more: can show ")
    (only,) = gate.forecast(expect(FULL), Policy(runs=10, max_runs=10), run_s=None, duet=False)
    assert only.startswith("10 runs: ")


def test_a_noisy_loop_is_promised_what_interleaved_pairs_show() -> None:
    assert gate.forecast(expect(noisy_baseline()), Policy(), run_s=10.0, duet=True, interleaved=True) == (
        "1 pair (about 20 s) and 3 interleaved pairs (about 60 s) with the baseline's commit",
        (
            "if that does not do, up to 12 interleaved pairs (about 240 s): "
            "can show 1.3 % of step_ms and 0.73 % of kernel_ms"
        ),
    )
    asked = gate.forecast(expect(noisy_baseline()), Policy(stops_early=False), run_s=None, duet=False, interleaved=True)
    assert asked[0].startswith("3 runs: can show ")
    assert asked[1].startswith("if that does not do, 1 pair and up to 11 interleaved pairs with the baseline's commit")
    alternately = gate.forecast(expect(noisy_baseline()), Policy(), run_s=None, duet=True)
    assert alternately[1].startswith("if that does not do, up to 8 pairs with the baseline's commit: can show ")
    quiet = gate.forecast(expect(FULL), Policy(), run_s=None, duet=True, interleaved=True)
    assert quiet[1].startswith("if that does not do, up to 8 pairs ")
    assert gate.forecast(expect(None), Policy(), run_s=None, duet=False, interleaved=True, against="HEAD") == (
        "1 pair and 3 interleaved pairs with HEAD",
        "if that does not do, up to 12 interleaved pairs",
    )


def test_no_interleaved_pairs_are_promised_that_the_runs_do_not_suffice_for() -> None:
    few = Policy(max_runs=6)
    told = gate.forecast(expect(noisy_baseline()), few, run_s=None, duet=True, interleaved=True, against="HEAD")
    assert told == ("3 pairs with HEAD",)
    fewer = gate.forecast(expect(noisy_baseline()), Policy(max_runs=4), run_s=None, duet=True, against="HEAD")
    assert fewer == ("4 runs: no room for 3 pairs (--perfgate-max-runs=6)",)


def test_a_baseline_without_clocks_promises_nothing() -> None:
    counted = records.baseline([{}])
    bare = tuple(
        occasion.model_copy(update={"runs": tuple(run.model_copy(update={"values": {}}) for run in occasion.runs)})
        for occasion in counted.occasions
    )
    told = gate.forecast(expect(counted.model_copy(update={"occasions": bare})), Policy(), run_s=None, duet=True)
    assert told[0] == "3 runs"


def test_what_has_nothing_to_compare_with_says_so() -> None:
    assert gate.forecast(expect(None), Policy(), run_s=None, duet=True) == (
        "5 runs, to be shown: there is nothing to compare with",
    )
    broken = expect(None).model_copy(update={"trouble": "it is broken"})
    assert gate.forecast(broken, Policy(), run_s=None, duet=True) == (
        "nothing to measure while its baseline cannot be read",
    )
    assert gate.forecast(expect(None), Policy(), run_s=10.0, duet=True, against="HEAD~1") == (
        "3 pairs (about 60 s) with HEAD~1",
        "if that does not do, up to 8 pairs (about 160 s)",
    )
