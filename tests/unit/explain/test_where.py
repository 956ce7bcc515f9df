"""What is named of what made a metric move."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from syrupy.assertion import SnapshotAssertion

from perfgate.explain.summary import largest, where
from perfgate.model.diagnosis import Attribution, Axis, Part
from perfgate.model.metric import Metric
from perfgate.model.note import Note, note
from perfgate.model.sample import OUTSIDE_RANGES
from perfgate.words import say

M = Metric


def made_up(
    change: float, parts: Mapping[str, float], *, axis: Axis = Axis.RANGE, metric: Metric = M.SYNCS
) -> Attribution:
    rows = tuple(
        Part(metric=metric, name=name, before=0, now=max(of, 0), change=of)
        for name, of in parts.items()
    )
    rest = change - sum(parts.values())
    return Attribution(metric=metric, axis=axis, change=change, parts=rows, rest=rest)


@pytest.mark.parametrize(
    ("change", "parts", "named"),
    [
        (1.0, {"b": 0.4, "d": 0.3, "c": 0.2, "a": 0.1}, ["b", "d", "c"]),
        (4.1, {"data": 3.9, "forward": 0.1}, ["data"]),
        (1.0, {"a": 1.5, "b": -0.5}, ["a", "b"]),
        (1.0, {"a": 1.05, "b": -0.05}, ["a"]),
        (-2.0, {"a": -2.0, "b": 0.01}, ["a"]),
    ],
    ids=["three", "too small a part", "against it", "about the whole", "for the better"],
)
def test_the_largest_parts_that_went_its_way_are_named(
    change: float, parts: Mapping[str, float], named: list[str]
) -> None:
    assert [part.name for part in largest(made_up(change, parts))] == named


def codes(found: Note) -> list[str]:
    axes = found.fields["axes"]
    assert isinstance(axes, tuple)
    return [one.code for one in axes if isinstance(one, Note)]


@pytest.mark.parametrize(
    ("change", "parts", "code"),
    [
        (1.0, {"a": 1.0}, "where-ranges"),
        (4.1, {"a": 3.9}, "where-ranges-partly"),
        (1.0, {"a": 2.0, "b": -4.0}, "where-ranges-and-rest"),
    ],
)
def test_ranges_are_all_of_it_or_part_of_it_or_more(
    change: float, parts: Mapping[str, float], code: str
) -> None:
    found = where([made_up(change, parts), made_up(change, parts, axis=Axis.CALL)])
    assert codes(found[M.SYNCS]) == [code, "where-by"]


def test_a_metric_without_a_part_that_moved_its_way_has_no_entry() -> None:
    assert where([made_up(1.0, {"a": -1.0}, axis=Axis.CALL), made_up(1.0, {})]) == {}


@pytest.mark.parametrize("step", [M.STEP_MS, M.STEP_MEAN_MS])
def test_a_step_that_takes_longer_while_no_part_of_it_does_is_said_to(step: Metric) -> None:
    assert codes(where([made_up(0.3, {}, metric=step)])[step]) == ["where-in-turn"]
    assert where([made_up(-0.3, {}, metric=step)]) == {}


def test_the_words_of_it(snapshot: SnapshotAssertion) -> None:
    noted = made_up(0.9, {"spin": 0.9}, axis=Axis.KERNEL, metric=M.KERNEL_MS)
    new = noted.parts[0].model_copy(
        update={"notes": (note("part-new"), note("launches-a-step", now=1))}
    )
    of_step = made_up(2.0, {"load": 1.8}, metric=M.STEP_MS)
    gap = of_step.parts[0].model_copy(update={"metric": M.GAP_MS})
    found = [
        made_up(1.0, {"loss_log": 1.0}),
        made_up(1.0, {"cudaStreamSynchronize under loss_log": 1.0}, axis=Axis.CALL),
        noted.model_copy(update={"parts": (new,)}),
        of_step.model_copy(update={"parts": (gap,)}),
        made_up(1572864, {OUTSIDE_RANGES: 1572864}, metric=M.H2D_BYTES),
        made_up(-3e-6, {"log\n::error::": -2e-6, "": -1e-6}, metric=M.LAUNCHES),
    ]
    text = "\n".join(f"{metric}: {say.fact(one)}" for metric, one in where(found).items())
    assert text == snapshot
