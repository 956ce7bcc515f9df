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
        raise RuntimeError({shown!r})

{mark}
def test_it(capture):
    print({printed!r})
    if {where!r} == "test":
        assert len(count.read_text()) >= {passes_at}, {shown!r}
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
    shown: str = "",
    printed: str = "",
    where: str = "test",
    passes_at: int = 3,
    mark: str = MARK,
) -> pytest.RunResult:
    return tried_file(
        pytester,
        FAILS_UNTIL.format(
            shown=shown, printed=printed, where=where, passes_at=passes_at, mark=mark
        ),
    )


def tried_file(pytester: pytest.Pytester, text: str) -> pytest.RunResult:
    pytester.makepyfile(text)
    pytester.makeini("[pytest]\nmarkers = nsys\n")
    # pytest-benchmark, which comes with the extra `bench`, starts git.
    options = (
        "-p",
        "support.again",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:benchmark",
        "--junit-xml=tests.xml",
    )
    return pytester.runpytest_inprocess(*options)


@pytest.mark.parametrize("where", ["test", "fixture"])
def test_a_breakdown_is_tried_again_and_named(pytester: pytest.Pytester, where: str) -> None:
    result = tried(pytester, shown=LOST, where=where)
    result.assert_outcomes(passed=2)
    said = f"{'AssertionError' if where == 'test' else 'RuntimeError'}: {LOST}"
    result.stdout.fnmatch_lines([f"TRIED AGAIN *test_it: {said}"])
    found = ElementTree.parse(pytester.path / "tests.xml").findall(
        ".//property[@name='nsys_broke_down']"
    )
    assert [one.get("value") for one in found] == [said] * 2


@pytest.mark.parametrize(
    "printed", [f"{LOST}; once more", "code='nsys-crashed'", "('nsys-hung', 18)"]
)
def test_what_was_only_printed_counts_as_well(pytester: pytest.Pytester, printed: str) -> None:
    tried(pytester, printed=printed).assert_outcomes(passed=2)


def test_after_three_tries_it_has_failed(pytester: pytest.Pytester) -> None:
    tried(pytester, shown=LOST, passes_at=9).assert_outcomes(failed=1, passed=1)


def test_another_failure_is_not_tried_again(pytester: pytest.Pytester) -> None:
    result = tried(pytester, shown="another")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.no_fnmatch_line("*TRIED AGAIN*")


def test_words_of_the_source_were_not_said(pytester: pytest.Pytester) -> None:
    text = (
        f"import pytest\n{MARK}\ndef test_it():\n    broken = 'NsysCrashed'\n    raise ValueError\n"
    )
    result = tried_file(pytester, text)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*broken = 'NsysCrashed'"])
    result.stdout.no_fnmatch_line("*TRIED AGAIN*")


def test_a_test_that_wants_no_nsys_is_not_tried_again(pytester: pytest.Pytester) -> None:
    tried(pytester, shown=LOST, mark="").assert_outcomes(failed=1, passed=1)
