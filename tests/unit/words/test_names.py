"""Numbers of things and lists of names in words."""

from __future__ import annotations

import pytest

from perfgate.words.numbers import inflected, listed, plural


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1200, "1200 runs")]
)
def test_a_noun_agrees_with_its_number(number: int, text: str) -> None:
    assert plural(number, "run") == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 copies"), (1, "1 copy"), (3, "3 copies")])
def test_a_noun_may_have_a_form_of_its_own_for_many(number: int, text: str) -> None:
    assert plural(number, "copy", "copies") == text


@pytest.mark.parametrize(("number", "text"), [(0.5, "were"), (1, "was"), (1.0, "was"), (2, "were")])
def test_a_word_agrees_with_a_number_that_is_written_elsewhere(number: float, text: str) -> None:
    assert inflected(number, "was", "were") == text


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")],
)
def test_names_are_listed_with_the_last_behind_an_and(names: list[str], text: str) -> None:
    assert listed(names) == text
    assert listed(iter(names)) == text
