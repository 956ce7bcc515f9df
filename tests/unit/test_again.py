"""A test on a real nsys is tried again where nsys broke down in it, and only there."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

FAILS_UNTIL = """
import pathlib, pytest

count = pathlib.Path("count")
count.write_text("")

@pytest.fixture(scope="module")
def capture():
    count.write_text(count.read_text() + "i")
    if {where!r} == "fixture" and len(count.read_text()) < {passes_at}:
        raise RuntimeError({told!r})

{mark}
def test_it(capture):
    print({printed!r})
    if {where!r} == "test":
        assert len(count.read_text()) >= {passes_at}, {told!r}
        count.write_text(count.read_text() + "i")

{mark}
def test_other(capture):
    pass
"""
MARK = "@pytest.mark.nsys"
LOST = "nsys 2024.2.3 itself failed: Connection to Agent lost"


def tried(
    pytester: pytest.Pytester,
    *,
    told: str = "",
    printed: str = "",
    where: str = "test",
    passes_at: int = 3,
    mark: str = MARK,
) -> pytest.RunResult:
    pytester.makepyfile(FAILS_UNTIL.format(told=told, printed=printed, where=where, passes_at=passes_at, mark=mark))
    pytester.makeini("[pytest]\nmarkers = nsys\n")
    return pytester.runpytest_inprocess("-p", "support.again", "-p", "no:cacheprovider", "--junit-xml=tests.xml")


@pytest.mark.parametrize("where", ["test", "fixture"])
def test_a_breakdown_is_tried_again_and_named(pytester: pytest.Pytester, where: str) -> None:
    result = tried(pytester, told=LOST, where=where)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["TRIED AGAIN *test_it: nsys 2024.2.3 itself failed"])
    found = ElementTree.parse(pytester.path / "tests.xml").findall(".//property[@name='nsys_broke_down']")
    assert [one.get("value") for one in found] == ["nsys 2024.2.3 itself failed"] * 2


def test_what_was_only_printed_counts_as_well(pytester: pytest.Pytester) -> None:
    tried(pytester, printed=f"{LOST}; once more").assert_outcomes(passed=2)


def test_after_three_tries_it_has_failed(pytester: pytest.Pytester) -> None:
    tried(pytester, told=LOST, passes_at=9).assert_outcomes(failed=1, passed=1)


def test_another_failure_is_not_tried_again(pytester: pytest.Pytester) -> None:
    result = tried(pytester, told="another")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.no_fnmatch_line("*TRIED AGAIN*")


def test_a_test_that_wants_no_nsys_is_not_tried_again(pytester: pytest.Pytester) -> None:
    tried(pytester, told=LOST, mark="").assert_outcomes(failed=1, passed=1)
