"""Runs that come to nothing or do not count, and what may be spent."""

from __future__ import annotations

import pytest
from support import records
from support.prepared import FULL, Candidate, duel, expect, of_processes, screen, told

from perfgate.gate import NOT_MEASURED_BY, Policy, check
from perfgate.model.baseline import Baseline
from perfgate.model.errors import ConfigInvalid, GpuTaken, PerfgateError
from perfgate.model.outcome import Outcome

# Runs that fail or do not count


@pytest.mark.parametrize("error", NOT_MEASURED_BY)
@pytest.mark.parametrize("baseline", [None, records.baseline()])
def test_what_fails_a_run_is_not_measured_with_its_whole_message(
    error: type[PerfgateError], baseline: Baseline | None
) -> None:
    broken = error(
        subject="mlp",
        fact="it broke",
        expectation="It should not",
        next_step="Mend it.\n  | last line",
    )
    series = Candidate(records.run(), broken)
    checked = check(expect(baseline), Policy(), series)
    assert told(checked) == (
        Outcome.NOT_MEASURED,
        "it broke. It should not.",
        "Mend it.\n  | last line",
    )
    assert (len(checked.runs), checked.verdict.runs, len(series.asked)) == (1, 1, 2)


def test_a_failure_that_is_of_something_else_than_the_workload_keeps_its_subject() -> None:
    broken = GpuTaken(subject="GPU-0", fact="another gate holds it", next_step="Wait.")
    assert told(check(expect(None), Policy(), Candidate(broken))) == (
        Outcome.NOT_MEASURED,
        "GPU-0: another gate holds it.",
        "Wait.",
    )


@pytest.mark.parametrize(
    "bug", [KeyError("step"), ConfigInvalid(subject="a", fact="b", next_step="c"), OSError(28)]
)
def test_any_other_error_is_a_bug_and_stays_one(bug: Exception) -> None:
    with pytest.raises(type(bug)):
        check(expect(None), Policy(), Candidate(bug))


def test_the_users_interrupt_passes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        check(expect(None), Policy(), Candidate(KeyboardInterrupt()))


@pytest.mark.parametrize("baseline", [None, records.baseline()])
def test_a_throttled_run_is_invalid_and_ends_the_gate(baseline: Baseline | None) -> None:
    series = Candidate(
        records.run(), records.run(throttled=["thermal slowdown"], neighbours=["python (77)"])
    )
    checked = check(expect(baseline), Policy(), series)
    assert told(checked) == (
        Outcome.INVALID,
        "run 2 does not count: GPU GPU-0 was throttled (thermal slowdown); GPU GPU-0 was shared with python (77).",
        "Free the GPU or let it cool, and run again.",
    )
    assert (len(series.asked), len(checked.runs), checked.verdict.runs) == (2, 2, 2)


def test_a_run_that_lost_steps_is_invalid_and_is_not_blamed_on_the_gpu() -> None:
    lost = records.run().model_copy(
        update={"complaints": ("steps were lost: process 7 shows 28 of 30 measured steps",)}
    )
    assert told(check(expect(records.baseline()), Policy(), Candidate(lost))) == (
        Outcome.INVALID,
        "run 1 does not count: steps were lost: process 7 shows 28 of 30 measured steps.",
        "Remove the cause, and run again.",
    )


def test_a_rank_that_took_no_step_in_one_run_is_invalid() -> None:
    sound = records.run()
    checked = check(expect(records.baseline()), Policy(), Candidate(of_processes(sound, 2), sound))
    assert (checked.verdict.outcome, checked.verdict.reason, checked.verdict.next_step) == (
        Outcome.INVALID,
        "run 2 does not count: steps of 1 process were found, of 2 processes in run 1.",
        "Remove the cause, and run again.",
    )


# What may be spent


def test_a_budget_of_time_ends_a_gate_where_it_is_spent() -> None:
    other = duel(0, 2.5)
    asked: list[tuple[int, float]] = []

    def affords(runs: int, seconds: float) -> bool:
        asked.append((runs, seconds))
        return False

    checked = check(expect(FULL), Policy(), screen(1.5), other, affords=affords)
    assert asked == [(6, 7.5), (2, 7.5)]
    assert not other.opened
    assert (checked.verdict.outcome, len(checked.runs)) == (Outcome.INCONCLUSIVE, 3)
    assert "The time budget ended this after 3 runs" in checked.verdict.remarks
    assert checked.verdict.next_step == "Allow more time: --perfgate-time-budget"
