"""Pages: wrapped and aligned."""

from __future__ import annotations

from perfgate.render.page import Cell, Page, Row


def page(width: int = 80) -> Page:
    return Page(width=width, colour=False)


def test_prose_is_wrapped_under_its_label_and_a_number_stays_with_its_unit() -> None:
    shown = page()
    shown.prose(f"{'x' * 63} 3.1 % of two", label="where")
    assert shown.text == f"  where       {'x' * 63}\n              3.1 % of two\n"


def test_a_label_of_any_length_stands_apart_from_what_it_is_of() -> None:
    shown = page()
    shown.facts(f"GPU {'5' * 36}", ["NVIDIA H200"])
    assert shown.text == f"  GPU {'5' * 36} NVIDIA H200\n"


def test_lines_of_a_traceback_stay_lines_and_a_command_is_never_wrapped() -> None:
    shown = page()
    command = f"perfgate bless {'x' * 100} --reason '...'"
    shown.prose(f'Traceback:\n  File "x.py"\n\tValueError\nIf it is right: {command}')
    assert shown.text.splitlines() == [
        *("  Traceback:", '    File "x.py"', "      ValueError"),
        *("  If it is right:", f"    {command}"),
    ]


def test_table_leaves_out_what_is_empty_and_wraps_what_may_be() -> None:
    shown = page()
    rows: list[Row] = [("a" * 60 + "b" * 60, "", "1.5"), (Cell("模型", "red"), "", "12.5")]
    shown.table(("name*", "none", ">ms"), rows)
    assert shown.text.splitlines() == [
        f"  name{' ' * 72}ms",
        f"  {'-' * 73} ----",
        f"  {'a' * 60}{'b' * 13}  1.5",
        f"  {'b' * 47}",
        f"  模型{' ' * 70}12.5",
    ]


def test_numbers_are_whole_however_narrow_the_page_is() -> None:
    shown = page()
    shown.table(("name*", *(f">{n}" for n in range(8))), [("a", *["1" * 12] * 8)])
    assert shown.text.splitlines()[-1].split() == ["a", *["1" * 12] * 8]
