"""A change of pace within the measured steps: noted where most runs have it, with the step that it
begins at."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.judging import MOMENT

from perfgate.explain.shown import pace_changed, pace_notes, slow_starts
from perfgate.model.machine import Conditions, GpuCondition
from perfgate.model.metric import Metric
from perfgate.model.note import Severity
from perfgate.model.sample import ProcessSample, Run

# fmt: off
POWER_CAPPED = (
    21.29, 21.27, 21.26, 21.25, 21.26, 21.27, 21.26, 21.24, 21.25, 21.26, 21.3, 21.34,
    21.33, 21.33, 21.33, 21.3, 21.31, 21.33, 21.33, 21.31, 21.31, 21.33, 21.31, 21.3,
    21.24, 21.25, 21.28, 21.25, 21.26, 21.24, 21.24, 21.24, 21.22, 21.28, 21.27, 21.27,
    21.33, 22.42, 24.22, 24.45, 24.19, 23.54, 23.49, 23.27, 22.88, 22.42, 22.09, 21.73,
)
# fmt: on
"""Periods of ResNet-50 with 512 images on an H200, ms: the GPU met its power cap in the 60th step.
"""
CAP = "SW power cap in 14 of 528 samples"


def run(
    periods_ms: Sequence[float], *, information: tuple[str, ...] = (), begins: bool | None = None
) -> Run:
    """A run with these periods, of two steps more."""
    process = ProcessSample(
        pid=1,
        steps=len(periods_ms) + 2,
        values={Metric.STEP_MS: 1.0},
        window_ms=1.0,
        periods_ms=tuple(periods_ms),
    )
    gpu = GpuCondition(uuid="GPU-0", samples=20, information=information)
    return Run(
        started_at=MOMENT,
        wall_s=1.0,
        processes=(process,),
        begins=begins,
        conditions=Conditions(gpus=(gpu,)),
    )


def test_a_change_of_pace_is_noted_with_the_step() -> None:
    found = pace_changed([run(POWER_CAPPED, information=(CAP,))] * 3)
    assert found is not None
    assert (found.code, found.severity) == ("pace-changes-at-power-cap", Severity.INFO)
    assert found.fields == {
        "found": 3,
        "runs": 3,
        "before_ms": 21.27,
        "after_ms": pytest.approx(23.27),
        "step": 40,
        "steps": 50,
    }
    cool, steady = run([8.0] * 12 + [5.0] * 30), run([8.0] * 42, information=(CAP,))
    faster = pace_changed([cool, cool, steady])
    assert faster is not None
    assert (faster.code, faster.fields["found"]) == ("pace-changes", 2)
    assert (faster.fields["before_ms"], faster.fields["after_ms"]) == (8.0, 5.0)
    assert (faster.fields["step"], faster.fields["steps"]) == (15, 44)


@pytest.mark.parametrize(
    "periods",
    [
        pytest.param((), id="none"),
        pytest.param([8.0] * 5 + [5.0] * 4, id="too few to last"),
        pytest.param([8.0] * 20 + [8.15] * 20, id="within the budget"),
        pytest.param([8.0, 9.0] * 20, id="every other step"),
        pytest.param([8.0] * 30 + [30.0], id="one step"),
        pytest.param([0.0] * 40, id="no time at all"),
        pytest.param([8.0] * 20 + [9.0, 7.0, 9.0] * 7, id="not for good"),
    ],
)
def test_what_is_no_change_for_good_is_not_noted(periods: Sequence[float]) -> None:
    assert pace_changed([run(periods)] * 3) is None


def test_it_takes_more_than_half_of_the_runs_and_two_at_least() -> None:
    changing, steady = run([8.0] * 12 + [5.0] * 30), run([8.0] * 42)
    assert pace_changed([changing]) is None
    assert pace_changed([changing, changing, steady, steady]) is None
    assert pace_changed([]) is None
    assert pace_changed([steady.model_copy(update={"processes": ()})] * 2) is None


def test_blocks_have_paces_of_their_own() -> None:
    assert pace_changed([run([8.0] * 12 + [5.0] * 30, begins=True)] * 3) is None


@given(st.integers(0, 10_000), st.sampled_from((0.003, 0.03, 0.3)))
def test_noise_is_no_change_of_pace(seed: int, sd: float) -> None:
    random = Random(seed)
    noisy = [run([10 * (1 + abs(random.gauss(0, sd))) for _ in range(30)]) for _ in range(5)]
    assert pace_changed(noisy) is None


# A slow start


def test_first_steps_that_are_slow_in_every_run_are_a_warning_with_what_to_raise() -> None:
    (found,) = pace_notes([run([*[300.0] * slow, *[10.0] * 17]) for slow in (1, 4, 2)])
    assert (found.code, found.severity) == ("slow-start", Severity.WARN)
    assert found.fields == {
        "found": 3,
        "runs": 3,
        "longest_ms": 300.0,
        "usual_ms": 10.0,
        "last": 4,
        "warmup": 6,
    }


@pytest.mark.parametrize(
    "periods",
    [
        pytest.param(
            [[300.0, *[10.0] * 17], [10.0] * 18, [300.0, *[10.0] * 17]], id="not in every run"
        ),
        pytest.param([[300.0, *[10.0] * 17]], id="one run"),
        pytest.param([[19.0, *[10.0] * 17]] * 3, id="not far slower"),
        pytest.param([[30.0, *[10.0] * 11, 25.0, *[10.0] * 5]] * 3, id="nearly as slow later"),
        pytest.param([[10.0, 300.0, *[10.0] * 16]] * 3, id="not the first"),
        pytest.param([[300.0, *[10.0] * 8]] * 3, id="too few to compare with"),
        pytest.param([[]] * 3, id="no period"),
    ],
)
def test_a_start_that_may_be_chance_or_the_loops_own_is_not_noted(
    periods: list[list[float]],
) -> None:
    assert slow_starts([run(one) for one in periods]) == []


def test_a_run_of_no_process_and_blocks_have_no_start() -> None:
    empty = run([10.0] * 9).model_copy(update={"processes": ()})
    assert slow_starts([empty] * 3) == []
    assert slow_starts([run([300.0, *[10.0] * 17], begins=True)] * 3) == []


def test_of_a_pace_that_changes_and_a_slow_start_one_is_noted() -> None:
    def codes(periods: Sequence[float]) -> list[str]:
        return [one.code for one in pace_notes([run(periods)] * 3)]

    assert codes([300.0] * 8 + [10.0] * 10) == ["pace-changes"]
    assert codes([300.0, *[10.0] * 17]) == ["slow-start"]
    # A start of a few steps is no pace of its own, and must not be lost in one.
    assert codes([200.25, 200.25, 4.17, 4.16, 5.59, *[4.11, 4.12] * 7]) == ["slow-start"]
    assert codes([10.0] * 18) == []
