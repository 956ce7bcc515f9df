"""Of regressions that were planted and gated on GPUs, the first line of the explanation names the
true culprit.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.loops import load_regressions, named_first

from benchmarks.regressions.__main__ import Gate, load, markdown
from perfgate.explain.attribution import attributions, where
from perfgate.explain.sides import differences, made_up_of
from perfgate.model.comparison import Side
from perfgate.words import say

ROOT = Path(__file__).parents[2]
DATA = Path("tests/golden/data")
RECORDS = {
    path: load(ROOT / path)
    for path in (
        DATA / "regressions-h200-nsys2025.3.json.xz",
        DATA / "regressions-h100-nsys2025.3.json.xz",
    )
}
GATES = {
    f"{path.name.split('-')[1]}-{gate.regression}": gate
    for path, gates in RECORDS.items()
    for gate in gates
}


@pytest.fixture(scope="module")
def regressions() -> Mapping[str, Any]:
    """The table next to the loops."""
    pytest.importorskip("torch", reason="no torch here: it is in the extra torch")
    with pytest.MonkeyPatch.context() as patch:
        table: Mapping[str, Any] = load_regressions(
            "regressions_of_golden_tests", patch
        ).REGRESSIONS
        return table


@pytest.fixture(scope="module")
def culprits(regressions: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """What each regression's explanation must name."""
    return {regression.name: regression.culprits for regression in regressions.values()}


@pytest.fixture(params=GATES)
def gate(request: pytest.FixtureRequest) -> Gate:
    return GATES[request.param]


def test_the_first_line_names_the_culprit(gate: Gate, culprits: dict[str, tuple[str, ...]]) -> None:
    assert named_first(gate.first_line, culprits[gate.regression]), gate.first_line


def test_so_does_an_explanation_that_knows_no_verdict(
    gate: Gate, culprits: dict[str, tuple[str, ...]]
) -> None:
    before = {row.metric: (row.baseline,) for row in gate.metrics if row.baseline is not None}
    now = {row.metric: (row.now,) for row in gate.metrics if row.now is not None}
    a = Side(label="before", values=before, breakdown=gate.before)
    b = Side(label="now", values=now, breakdown=gate.now)
    first = say.fact(next(iter(where(made_up_of(a, b, differences(a, b))).values())))
    assert named_first(first, culprits[gate.regression]), first


def test_the_parts_of_every_change_add_up_to_it(gate: Gate) -> None:
    found = attributions(gate.before, gate.now, gate.metrics)
    assert found
    for one in found:
        assert sum(part.change for part in one.parts) + one.rest == pytest.approx(
            one.change, abs=1e-9
        )


def test_the_committed_table_is_as_the_gates_are_explained_now() -> None:
    table = ROOT / "benchmarks" / "regressions" / "RESULTS.md"
    command = " ".join(["python -m benchmarks.regressions table", *map(str, RECORDS)])
    assert table.read_text(encoding="utf-8") == markdown(RECORDS), command
