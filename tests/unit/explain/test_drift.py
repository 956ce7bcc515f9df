"""Many small losses, with the way there."""

from __future__ import annotations

from support.judging import MOMENT

from perfgate.explain.summary import anchor_lost
from perfgate.model.note import Note
from perfgate.model.verdict import Blessed, Drift

PATH = (
    Blessed(step_ms=9.0, at=MOMENT, commit=None, reason=""),
    Blessed(step_ms=10.0, at=MOMENT, commit="0123456789abcdef", reason="small"),
)
FOUND = Drift(change=0.22, low=0.2, high=0.24, budget=0.05, shown=True, now=11.0, path=PATH)


def test_what_small_losses_added_up_to_is_said_with_the_path() -> None:
    why = anchor_lost(FOUND, "matmul", runs=5)
    assert (why.code, why.fields["budget"], why.fields["now"]) == ("anchor-lost", 0.05, 11.0)
    points = why.fields["path"]
    assert isinstance(points, tuple)
    codes = [one.code for one in points if isinstance(one, Note)]
    assert codes == ["blessed-at", "blessed-at-commit"]
