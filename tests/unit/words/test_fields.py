"""How fields of notes and errors are shown."""

from __future__ import annotations

import json

import pytest

from perfgate.model.note import quoted
from perfgate.words.escape import escape_json, is_invisible
from perfgate.words.say import fact, filled


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("{x}", "loop", "loop"),
        ("{x}", "a\nb\x1b[2J", "a\\nb\\x1b[2J"),
        ("{x}", 3, "3"),
        ("{x}", None, ""),
        ("{x}", ("a", "b", "c"), "a, b and c"),
        ("{x}", quoted("<one>"), "<one>"),
        ("{x:list;}", (quoted("<one>"), quoted("<two>")), "<one>; <two>"),
        ("{x:run|runs}", 1, "1 run"),
        ("{x:run|runs}", 3, "3 runs"),
        ("{x:~was|were}", 3, "were"),
        ("{x:list}", (), ""),
        ("{x:sh}", "loop[a b]", "'loop[a b]'"),
        ("{x:%}", 0.031, "3.1 %"),
        ("{x:+%}", 0.031, "+3.1 %"),
        ("{x:short%}", 0.02, "2 %"),
        ("{x:ms}", 8.3124, "8.312"),
        ("{x:s}", 125.2, "2 min 5 s"),
        ("{x:s}", 3600.0, "1 h"),
        ("{x:s}", 0.44, "0.4 s"),
        ("{x:size}", 38_540_000, "38.54 MB"),
        ("{x:count}", 1234, "1,234"),
        ("{x:p}", 0.0313, "0.031"),
        ("{x:lines}", "a\nb\tc", "    a\n    b\\tc"),
        ("{x:raw}", "a\nb", "a\nb"),
    ],
)
def test_a_field_is_shown_by_its_format(text: str, value: object, shown: str) -> None:
    assert filled(text, {"x": value}) == shown


def test_a_value_takes_the_unit_of_its_metric() -> None:
    assert filled("{x:of metric}", {"x": 2e6, "metric": "h2d_bytes"}) == "2 MB"
    assert filled("{x:of metric}", {"x": 2.0, "metric": "step_ms"}) == "2.000"


def test_long_text_loses_its_middle() -> None:
    assert 90 < len(filled("{x}", {"x": "y" * 500})) <= 100
    assert 290 < len(filled("{x:quote}", {"x": "y" * 500})) <= 300


def test_a_missing_field_and_an_unknown_format_are_faults() -> None:
    with pytest.raises(KeyError):
        filled("{x}", {})
    with pytest.raises(ValueError, match="no such format"):
        filled("{x:weird}", {"x": "a"})


def test_a_note_is_worded_by_the_table() -> None:
    assert fact(quoted("loop: it is so")) == "loop: it is so"


def test_json_with_what_cannot_be_seen_is_read_as_it_was() -> None:
    held = {"a\u009b": "\x1b[2J \u202e \U000e0001 \ud800 café \U0001f525"}
    escaped = escape_json(json.dumps(held, ensure_ascii=False))
    assert not [one for one in escaped if is_invisible(one)]
    assert "café \U0001f525" in escaped
    assert json.loads(escaped) == held
