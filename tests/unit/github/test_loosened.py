"""Which way a change moves its own gate: value by value, and what nobody can say is loosening."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support import records

from perfgate.github.loosened import (
    State,
    Values,
    baseline_values,
    differences,
    setting_values,
    workload_values,
)
from perfgate.model.baseline import Anchor, Baseline, Commit, Spread
from perfgate.model.loosening import Direction
from perfgate.model.metric import Metric
from perfgate.model.settings import Settings
from perfgate.model.workload import CaptureMode, Declared, Workload

LOOSENS, TIGHTENS, _ = Direction


def gate(
    baseline: Baseline | None = None,
    workload: Workload | None = None,
    *,
    skipped: str | None = None,
    settings: Mapping[str, object] | None = None,
) -> State:
    things: dict[str, Values | str] = {
        "setting": setting_values(Settings.model_validate(settings or {}))
    }
    if workload is not None:
        declared = Declared(workload=workload, skipped=skipped)
        things[f"workload {workload.id}"] = workload_values(declared)
    if baseline is not None:
        things["baseline mlp on nvidia-h200"] = baseline_values(baseline)
    return things


def found(base: State, head: State) -> Mapping[str, Direction]:
    return {one.what.split(": ", 1)[-1]: one.direction for one in differences(base, head)}


@pytest.mark.parametrize(
    ("old", "new", "direction"),
    [
        ({}, {"runs": 1}, LOOSENS),
        ({}, {"runs": 5}, TIGHTENS),
        ({}, {"time_budget_s": 60}, LOOSENS),
        ({"time_budget_s": 60}, {}, TIGHTENS),
        ({}, {"inconclusive": "warn"}, LOOSENS),
        ({"inconclusive": "warn"}, {}, TIGHTENS),
        ({}, {"ab_run": "off"}, LOOSENS),
        ({"ab_run": "off"}, {}, TIGHTENS),
        ({}, {"anchor_budget": 0.2}, LOOSENS),
        ({}, {"anchor_budget": 0.01}, TIGHTENS),
        ({}, {"baselines": "others"}, LOOSENS),
        ({}, {"pass_env": ["TOKEN"]}, LOOSENS),
        ({}, {"budgets": {"step_ms": 0.05}}, LOOSENS),
        ({}, {"budgets": {"step_ms": 0.01}}, TIGHTENS),
        ({"budgets": {"step_ms": 0.01}}, {}, LOOSENS),
        ({}, {"budgets": {"launches": "1%"}}, LOOSENS),
        ({"budgets": {"launches": "1%"}}, {}, TIGHTENS),
    ],
)
def test_a_setting_loosens_or_tightens(
    old: dict[str, object], new: dict[str, object], direction: Direction
) -> None:
    (way,) = found(gate(settings=old), gate(settings=new)).values()
    assert way is direction


@pytest.mark.parametrize(
    ("update", "direction"),
    [
        ({"steps": 10}, LOOSENS),
        ({"steps": 100}, TIGHTENS),
        ({"warmup": 60}, LOOSENS),
        ({"warmup": 0}, TIGHTENS),
        ({"timeout_s": 900.0}, LOOSENS),
        ({"budgets": {Metric.STEP_MS: 0.5}}, LOOSENS),
        ({"pass_env": ("TOKEN",)}, LOOSENS),
        ({"capture": CaptureMode.ALL}, LOOSENS),
        ({"parameters": {"size": "1"}}, LOOSENS),
        ({"command": ("python", "other.py")}, LOOSENS),
        ({"line": 99}, None),
    ],
)
def test_a_declaration_loosens_or_tightens(
    update: dict[str, object], direction: Direction | None
) -> None:
    base = Workload(id="mlp", source="workloads/a.py", steps=30, warmup=10, line=1)
    ways = set(found(gate(workload=base), gate(workload=base.model_copy(update=update))).values())
    assert ways == (set() if direction is None else {direction})


def test_what_is_skipped_removed_or_renamed_loosens() -> None:
    base = Workload(id="mlp", source="workloads/a.py", steps=30, warmup=10)
    there, skipped = gate(workload=base), gate(workload=base, skipped="too slow")
    assert found(there, skipped) == {"skipped": LOOSENS}
    assert found(skipped, there) == {"skipped": TIGHTENS}
    renamed = gate(workload=base.model_copy(update={"id": "mlp2"}))
    assert found(there, renamed) == {"workload mlp": LOOSENS, "workload mlp2": TIGHTENS}


def with_steps(baseline: Baseline, factor: float, commit: Commit | None = None) -> Baseline:
    """The same runs with other step times, and of another commit."""
    (occasion,) = baseline.occasions
    runs = tuple(
        run.model_copy(
            update={
                "values": {
                    **run.values,
                    Metric.STEP_MS: run.values[Metric.STEP_MS] * factor,
                }
            }
        )
        for run in occasion.runs
    )
    update = {"runs": runs, "commit": commit or occasion.commit}
    return baseline.model_copy(update={"occasions": (occasion.model_copy(update=update),)})


def test_a_baseline_is_compared_value_by_value() -> None:
    base = records.baseline()
    assert found(gate(base), gate(base)) == {}
    assert found(gate(base), gate(with_steps(base, 1.001))) == {"step_ms": LOOSENS}
    assert found(gate(base), gate(with_steps(base, 0.9))) == {"step_ms": TIGHTENS}
    assert found(gate(base), gate()) == {"baseline mlp on nvidia-h200": LOOSENS}
    assert found(gate(), gate(base)) == {"baseline mlp on nvidia-h200": TIGHTENS}
    # Measured anew and faster at another commit: its values say what that does.
    moved = Commit(sha="e" * 40)
    assert found(gate(base), gate(with_steps(base, 1, moved))) == {"commits": LOOSENS}
    assert found(gate(base), gate(with_steps(base, 0.5, moved))) == {"step_ms": TIGHTENS}


SPREAD = Spread(run_sd=0.5, occasion_sd=0.5, runs=9, at=records.NOON)


@pytest.mark.parametrize(
    ("update", "direction"),
    [
        ({"held": {Metric.STEP_MS: 0.2}}, LOOSENS),
        ({"step_value": "median"}, LOOSENS),
        ({"parameters": {"steps": "3"}}, LOOSENS),
        ({"anchor": Anchor(step_ms=100.0, at=records.NOON)}, TIGHTENS),
        ({"calibration": {Metric.STEP_MS: SPREAD}}, LOOSENS),
    ],
)
def test_what_else_a_baseline_holds_counts(update: dict[str, object], direction: Direction) -> None:
    base = records.baseline()
    other = base.model_copy(update=update)
    assert set(found(gate(base), gate(other)).values()) == {direction}
    if direction is TIGHTENS:
        assert set(found(gate(other), gate(base)).values()) == {LOOSENS}


def test_fewer_runs_loosen() -> None:
    base = records.baseline()
    (occasion,) = base.occasions
    fewer = occasion.model_copy(update={"runs": occasion.runs[:-1]})
    changed = base.model_copy(update={"occasions": (fewer,)})
    assert found(gate(base), gate(changed))["runs"] is LOOSENS


def test_a_baseline_is_no_other_where_it_was_damaged_before() -> None:
    whole = gate(records.baseline())
    damaged = {**whole, "baseline mlp on nvidia-h200": "cannot be read"}
    assert found(damaged, damaged) == {}
    for base, head in ((damaged, whole), (whole, damaged)):
        assert found(base, head) == {"baseline mlp on nvidia-h200": LOOSENS}


def test_numbers_are_shown_as_a_person_writes_them() -> None:
    old = records.baseline().model_copy(
        update={"anchor": Anchor(step_ms=12.345678901, at=records.NOON)}
    )
    new = old.model_copy(update={"anchor": Anchor(step_ms=13, at=records.NOON)})
    (shown,) = differences(gate(old), gate(new))
    assert (shown.old, shown.new) == ("12.3457", "13")
