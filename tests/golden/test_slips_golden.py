"""Of slips that were planted and gated on an H200, the first line of the explanation names the true culprit."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from support.loops import load_slips, named_first

from benchmarks.slips.__main__ import Gate, load
from perfgate.explain.attribution import attributions
from perfgate.explain.sides import differences, made_up_of
from perfgate.explain.where import where
from perfgate.model.side import Side

GATES = load(Path(__file__).parent / "data" / "slips-h200-nsys2025.3.json.xz")


@pytest.fixture(scope="module")
def culprits() -> dict[str, str]:
    """What each slip's explanation must name, by the table beside the loops."""
    pytest.importorskip("torch", reason="no torch here: pip install perfgate[torch]")
    with pytest.MonkeyPatch.context() as patch:
        module = load_slips("slips_of_golden_tests", patch)
        return {slip.name: slip.culprit for slip in module.SLIPS.values()}


@pytest.fixture(params=GATES, ids=[gate.slip for gate in GATES])
def gate(request: pytest.FixtureRequest) -> Gate:
    return cast("Gate", request.param)


def test_the_first_line_names_the_culprit(gate: Gate, culprits: dict[str, str]) -> None:
    assert named_first(gate.first_line, culprits[gate.slip]), gate.first_line


def test_so_does_an_explanation_that_knows_no_verdict(gate: Gate, culprits: dict[str, str]) -> None:
    before = {row.metric: (row.baseline,) for row in gate.metrics if row.baseline is not None}
    now = {row.metric: (row.now,) for row in gate.metrics if row.now is not None}
    a = Side(label="before", values=before, breakdown=gate.before)
    b = Side(label="now", values=now, breakdown=gate.now)
    first = next(iter(where(made_up_of(a, b, differences(a, b))).values()))
    assert named_first(first, culprits[gate.slip]), first


def test_the_parts_of_every_change_add_up_to_it(gate: Gate) -> None:
    found = attributions(gate.before, gate.now, gate.metrics)
    assert found
    for one in found:
        assert sum(part.change for part in one.parts) + one.rest == pytest.approx(one.change, abs=1e-9)
