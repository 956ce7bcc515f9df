"""What two sides recorded unlike one another, and what of them is then not comparable."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.breakdowns import BY_NODE, EAGER, WHOLE, under

from perfgate.explain.sides import differences
from perfgate.explain.traces import lacking, traced_unlike
from perfgate.model.comparison import Side
from perfgate.model.metric import Metric
from perfgate.model.note import Severity, note, quoted
from perfgate.model.sample import Breakdown

M = Metric
VALUES = {M.STEP_MS: 2.0, M.KERNEL_MS: 1.0, M.H2D_COPIES: 3.0, M.LAUNCHES: 5.0}


def side(breakdown: Breakdown, values: Mapping[Metric, float] = VALUES) -> Side:
    held = {metric: (value,) for metric, value in values.items()}
    return Side(label="x", values=held, breakdown=breakdown)


BARE = side(Breakdown(), {M.STEP_MS: 2.2})
MISSING = side(EAGER).model_copy(update={"missing": {"ranges": quoted("no NVTX")}})
ABSENT = side(EAGER).model_copy(update={"absent": {M.KERNEL_MS: quoted("no GPU")}})


@pytest.mark.parametrize(
    ("one", "lacks"),
    [
        (side(EAGER), ()),
        (side(WHOLE), ("the kernels of CUDA graphs",)),
        (side(under(M.KERNEL_MS, step=1.0)), ("calls",)),
        (BARE, ("kernels",)),
        (MISSING, ("ranges",)),
        (ABSENT, ("kernels",)),
    ],
)
def test_what_a_side_lacks_is_said_where_the_other_has_it(
    one: Side, lacks: tuple[str, ...]
) -> None:
    assert lacking(one) == lacks
    assert traced_unlike(one, one) is None
    found = traced_unlike(side(EAGER), one)
    sides = (note("side-lacks", side="b", kinds=lacks),)
    assert found == (note("traced-unlike", Severity.WARN, sides=sides) if lacks else None)


def test_what_whole_graphs_hide_is_not_said_to_differ() -> None:
    # One copy is in the graph: of the whole one it is not counted.
    whole = side(WHOLE, {**VALUES, M.H2D_COPIES: 2.0, M.LAUNCHES: 6.0})
    rows = {row.metric: row for row in differences(side(BY_NODE), whole)}
    assert (rows[M.STEP_MS].change, rows[M.LAUNCHES].change) == (0.0, 0.2)
    hidden = rows[M.H2D_COPIES]
    assert hidden.note is not None
    assert (hidden.change, hidden.note.code) == (None, "not-comparable")


def test_a_step_whose_kernels_were_not_recorded_is_none_to_compare() -> None:
    step = differences(BARE, side(EAGER))[0]
    assert step.note is not None
    assert (step.metric, step.change, step.note.code) == (M.STEP_MS, None, "not-comparable")
    assert differences(BARE, BARE)[0].change == 0.0
