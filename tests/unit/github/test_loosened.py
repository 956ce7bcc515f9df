"""Which way a change moves its own gate: value by value, and what nobody can tell is loosening."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support import records

from perfgate.github.loosened import Gate, differences
from perfgate.model.baseline import Anchor, Baseline, Commit, Spread
from perfgate.model.loosening import Direction
from perfgate.model.metric import Metric
from perfgate.model.settings import Settings
from perfgate.model.workload import CaptureMode, Declared, Workload

KEY = ("nvidia-h200", "mlp")
LOOSENS, TIGHTENS, NEITHER = Direction


def gate(
    baseline: Baseline | None = None,
    workload: Workload | None = None,
    *,
    skipped: str | None = None,
    settings: Mapping[str, object] | None = None,
) -> Gate:
    declared = (
        {} if workload is None else {workload.id: Declared(workload=workload, skipped=skipped)}
    )
    return Gate(
        settings=Settings.model_validate(settings or {}),
        pytest={},
        workloads=declared,
        baselines={} if baseline is None else {KEY: baseline},
    )


def found(base: Gate, head: Gate) -> Mapping[str, Direction]:
    return {one.what.split(": ", 1)[-1]: one.direction for one in differences(base, head)}


@pytest.mark.parametrize(
    ("old", "new", "direction"),
    [
        ({}, {"runs": 1}, LOOSENS),
        ({}, {"runs": 5}, TIGHTENS),
        ({}, {"max_runs": 3}, LOOSENS),
        ({}, {"time_budget_s": 60}, LOOSENS),
        ({"time_budget_s": 60}, {}, TIGHTENS),
        ({"time_budget_s": 60}, {"time_budget_s": 600}, TIGHTENS),
        ({}, {"inconclusive": "warn"}, LOOSENS),
        ({"inconclusive": "warn"}, {}, TIGHTENS),
        ({}, {"new": "allow"}, LOOSENS),
        ({}, {"loosened": "warn"}, LOOSENS),
        ({}, {"duet": "off"}, LOOSENS),
        ({}, {"duet": "interleave"}, LOOSENS),
        ({"duet": "off"}, {}, TIGHTENS),
        ({}, {"anchor_budget": 0.2}, LOOSENS),
        ({}, {"anchor_budget": 0.01}, TIGHTENS),
        ({}, {"baselines": "others"}, LOOSENS),
        ({}, {"workloads": "others"}, LOOSENS),
        ({}, {"pass_env": ["TOKEN"]}, LOOSENS),
        ({}, {"duet_setup": ["make"]}, LOOSENS),
        ({}, {"budgets": {"step_ms": 0.05}}, LOOSENS),
        ({}, {"budgets": {"step_ms": 0.01}}, TIGHTENS),
        ({"budgets": {"step_ms": 0.05}}, {}, TIGHTENS),
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
        ({"timeout_s": 9.0}, TIGHTENS),
        ({"budgets": {Metric.STEP_MS: 0.5}}, LOOSENS),
        ({"budgets": {Metric.STEP_MS: 0.001}}, TIGHTENS),
        ({"pass_env": ("TOKEN",)}, LOOSENS),
        ({"capture": CaptureMode.ALL}, LOOSENS),
        ({"step": "another"}, LOOSENS),
        ({"parameters": {"size": "1"}}, LOOSENS),
        ({"command": ("python", "other.py")}, LOOSENS),
        ({"env": {"A": "b"}}, LOOSENS),
        ({"cwd": "sub"}, LOOSENS),
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


def slower(baseline: Baseline, factor: float, *metrics: Metric) -> Baseline:
    """The same runs with some values changed."""

    def changed(values: Mapping[Metric, float]) -> Mapping[Metric, float]:
        return {
            metric: value * (factor if metric in metrics else 1) for metric, value in values.items()
        }

    occasions = tuple(
        one.model_copy(
            update={
                "runs": tuple(
                    run.model_copy(update={"values": changed(run.values)}) for run in one.runs
                )
            }
        )
        for one in baseline.occasions
    )
    return baseline.model_copy(update={"occasions": occasions})


def test_a_baseline_is_compared_value_by_value() -> None:
    base = records.baseline()
    assert found(gate(base), gate(base)) == {}
    assert found(gate(base), gate(slower(base, 1.001, Metric.STEP_MS))) == {"step_ms": LOOSENS}
    assert found(gate(base), gate(slower(base, 0.9, Metric.STEP_MS))) == {"step_ms": TIGHTENS}
    assert (
        found(gate(base), gate(slower(base, 2, Metric.STEP_MS, Metric.SYNCS, Metric.LAUNCHES)))[
            "step_ms"
        ]
        is LOOSENS
    )
    assert found(gate(base), gate()) == {"baseline mlp on nvidia-h200": LOOSENS}
    assert found(gate(), gate(base)) == {"baseline mlp on nvidia-h200": TIGHTENS}


@pytest.mark.parametrize(
    ("update", "direction"),
    [
        ({"held": {Metric.STEP_MS: 0.2}}, LOOSENS),
        ({"step_value": "median"}, LOOSENS),
        ({"parameters": {"steps": "3"}}, LOOSENS),
        ({"anchor": Anchor(step_ms=100.0, at=records.NOON)}, TIGHTENS),
        (
            {
                "calibration": {
                    Metric.STEP_MS: Spread(run_sd=0.5, occasion_sd=0.5, runs=9, at=records.NOON)
                }
            },
            LOOSENS,
        ),
        (
            {
                "calibration": {
                    Metric.STEP_MS: Spread(run_sd=0, occasion_sd=0, runs=9, at=records.NOON)
                }
            },
            TIGHTENS,
        ),
    ],
)
def test_what_else_a_baseline_holds_counts(update: dict[str, object], direction: Direction) -> None:
    base = records.baseline()
    ways = set(found(gate(base), gate(base.model_copy(update=update))).values())
    assert ways == {direction}


def test_a_higher_anchor_fewer_runs_and_another_commit_loosen() -> None:
    base = records.baseline().model_copy(update={"anchor": Anchor(step_ms=1.0, at=records.NOON)})
    assert found(gate(base), gate(base.model_copy(update={"anchor": None}))) == {"anchor": LOOSENS}
    higher = base.model_copy(update={"anchor": Anchor(step_ms=2.0, at=records.NOON)})
    assert found(gate(base), gate(higher)) == {"anchor": LOOSENS}
    (occasion,) = base.occasions
    fewer = base.model_copy(
        update={"occasions": (occasion.model_copy(update={"runs": occasion.runs[:-1]}),)}
    )
    assert found(gate(base), gate(fewer))["runs"] is LOOSENS
    moved = occasion.model_copy(update={"commit": Commit(sha="e" * 40)})
    assert found(gate(base), gate(base.model_copy(update={"occasions": (moved,)}))) == {
        "commit": LOOSENS
    }
    # Measured anew and faster at another commit: its values say what that does.
    faster = slower(base.model_copy(update={"occasions": (moved,)}), 0.5, Metric.STEP_MS)
    assert found(gate(base), gate(faster)) == {"step_ms": TIGHTENS, "commit": NEITHER}


def test_what_cannot_be_read_on_either_side_loosens() -> None:
    broken = Gate(
        settings=None, pytest=None, workloads=None, baselines={KEY: None}, fault="it is broken"
    )
    whole = gate(records.baseline())
    for base, head in ((broken, whole), (whole, broken)):
        assert set(found(base, head).values()) == {LOOSENS}
        assert len(found(base, head)) == 4
