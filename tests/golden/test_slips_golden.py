"""Of slips that were planted and gated on an H200, the first line of the explanation names the true culprit."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import TypeAdapter
from support.slips import load_slips, named_first

from perfgate.explain.attribution import attributions
from perfgate.explain.sides import differences, made_up_of
from perfgate.explain.where import where
from perfgate.model.metric import METRICS
from perfgate.model.sample import Breakdown
from perfgate.model.side import Side
from perfgate.model.verdict import Attribution, MetricVerdict

GATES: list[dict[str, Any]] = json.loads(
    lzma.decompress((Path(__file__).parent / "data" / "slips-h200-nsys2025.3.json.xz").read_bytes())
)
ROWS = TypeAdapter(tuple[MetricVerdict, ...])


@pytest.fixture(scope="module")
def culprits() -> dict[str, str]:
    """What each slip's explanation must name, by the table beside the loops."""
    pytest.importorskip("torch", reason="no torch here: pip install perfgate[torch]")
    with pytest.MonkeyPatch.context() as patch:
        module = load_slips("slips_of_golden_tests", patch)
        return {slip.name: slip.culprit for slip in module.SLIPS.values()}


@pytest.fixture(params=GATES, ids=[gate["slip"] for gate in GATES])
def gate(request: pytest.FixtureRequest) -> dict[str, Any]:
    return cast("dict[str, Any]", request.param)


def test_the_first_line_names_the_culprit(gate: dict[str, Any], culprits: dict[str, str]) -> None:
    before, now = (Breakdown.model_validate(gate[side]) for side in ("before", "now"))
    told = where(attributions(before, now, ROWS.validate_python(gate["metrics"])))
    first = next(iter(told.values()))
    assert named_first(first, culprits[gate["slip"]]), first


def test_so_does_an_explanation_that_knows_no_verdict(gate: dict[str, Any], culprits: dict[str, str]) -> None:
    rows = ROWS.validate_python(gate["metrics"])
    a, b = (
        Side(
            label=side,
            values={row.metric: (value,) for row in rows if (value := getattr(row, value_of)) is not None},
            breakdown=Breakdown.model_validate(gate[side]),
        )
        for side, value_of in (("before", "baseline"), ("now", "now"))
    )
    found = made_up_of(a, b, differences(a, b))
    first = next(iter(where(found).values()))
    assert named_first(first, culprits[gate["slip"]]), first


def test_kernels_are_told_apart_and_add_up(gate: dict[str, Any]) -> None:
    before, now = (Breakdown.model_validate(gate[side]) for side in ("before", "now"))
    found: tuple[Attribution, ...] = attributions(before, now, ROWS.validate_python(gate["metrics"]))
    assert found
    for one in found:
        assert sum(part.change for part in one.parts) + one.rest == pytest.approx(one.change, abs=1e-9)
        assert one.metric in METRICS
