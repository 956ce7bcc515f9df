"""Pages: wrapped, aligned and inert."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from perfgate.render.page import (
    Cell,
    Column,
    Page,
    cut,
    shortened,
)
from perfgate.words.escape import one_line as inert
from perfgate.words.escape import without_commands as uncommanding


def page(width: int = 80) -> Page:
    return Page(width=width, colour=False)


def test_prose_is_wrapped_under_its_label() -> None:
    told = page()
    told.prose("one two three four " * 6, label="where")
    assert told.text == (
        "  where       one two three four one two three four one two three four one two\n"
        "              three four one two three four one two three four\n"
    )


def test_number_stays_with_its_unit() -> None:
    told = page()
    told.prose("x" * 73 + " 3.1 % more")
    assert told.text == f"  {'x' * 73}\n  3.1 % more\n"


def test_lines_of_a_traceback_stay_lines() -> None:
    told = page()
    told.prose('Traceback:\n  File "x.py"\n\tValueError')
    assert told.text == '  Traceback:\n    File "x.py"\n      ValueError\n'


def test_table_leaves_out_what_is_empty_and_shortens_what_may_be() -> None:
    told = page()
    columns = (
        Column(title="name", flexible=True),
        Column(title="none"),
        Column(title="ms", right=True),
    )
    told.table(
        columns, [("a" * 60 + "b" * 60, "", "1.5"), (Cell(text="c", style="red"), "", "12.5")]
    )
    assert told.text == (
        f"  name{' ' * 72}ms\n  {'-' * 73} ----\n  {'a' * 46}...{'b' * 23}   1.5\n  c{' ' * 73}12.5\n"
    )


def test_wide_characters_take_two_cells() -> None:
    told = page()
    told.table((Column(title="name"), Column(title="ms")), [("模型", "1"), ("mlp", "2")])
    assert told.text == "  name  ms\n  ----  --\n  模型  1\n  mlp   2\n"


@given(st.text(max_size=300), st.integers(min_value=10, max_value=120))
def test_inert_text_is_printable_and_short(text: str, longest: int) -> None:
    told = inert(text, longest=longest)
    assert not {"\n", "\r", "\x1b", "\x07", "\u202e", "\u2028"} & set(told)
    assert cell_len(told) <= longest


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("short", "short"),
        ("a" * 30, "aaaaaaaaaaa...aaaaa"),
        ("模" * 20, "模" * 5 + "..." + "模" * 2),
    ],
)
def test_middle_of_a_name_is_left_out(text: str, told: str) -> None:
    assert shortened(text, 20) == told


def test_end_of_a_sentence_is_left_out_at_a_space() -> None:
    assert cut("one two. three", 12) == "one two..."
    assert cut("one two", 12) == "one two"
    assert cut("x" * 20, 12) == "xxxxxxxxx..."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("::error::a", ": :error::a"),
        ("a\n \t::add-mask::b\n", "a\n \t: :add-mask::b\n"),
        (":::", ": ::"),
        ("a ##[error]b###[group]", "a ## [error]b### [group]"),
        ("a::b ::c::", "a::b ::c::"),
        ("# [a] ## b [c]", "# [a] ## b [c]"),
    ],
)
def test_a_runner_reads_no_command_in_what_is_printed(text: str, told: str) -> None:
    assert uncommanding(text) == told


@given(st.text(st.sampled_from(":#[ \t\na\u2003")))
def test_of_a_command_nothing_is_lost_but_that_it_is_one(text: str) -> None:
    told = uncommanding(text)
    assert not any(line.lstrip().startswith("::") for line in told.split("\n"))
    assert "##[" not in told
    assert uncommanding(told) == told
    assert told.replace(" ", "") == text.replace(" ", "")
