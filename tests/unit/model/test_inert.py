"""How names and texts of a capture are told in a message."""

from __future__ import annotations

from perfgate.model.spelling import inert


def test_a_name_that_can_be_seen_stays_as_it_is() -> None:
    for name in (
        "void gemm<float>(int*)",
        "Größe→ \N{HIRAGANA LETTER A}",
        r"back\slash",
        "x" * 100,
        "",
    ):
        assert inert(name) == name


def test_what_cannot_be_seen_is_spelled_out() -> None:
    assert inert("\x1b[31m\r\n\0\x7f\x9b") == r"\x1b[31m\r\n\x00\x7f\x9b"
    assert (
        inert("\u202e\u2066\u200b\u2028\u2029\ud800\U000e0001")
        == r"\u202e\u2066\u200b\u2028\u2029\ud800\U000e0001"
    )


def test_the_middle_of_a_long_text_is_left_out() -> None:
    assert inert("a" * 99_999 + "b") == "a" * 64 + "..." + "a" * 31 + "b"
    assert len(inert("\x1b" * 99_999)) == 99
    assert len(inert("a" * 301, longest=300)) == 300
